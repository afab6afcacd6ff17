/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How long the scheduler takes to plan a step of 128 decode lanes, to pack it, and to take its
 * result. Prints one JSON object: medians and the 99th percentile of planning, in microseconds.
 *
 * usage: plan-bench [LANES [STEPS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/sched/sched.h"
#include "common/base/clock.h"
#include "common/wire/codec.h"

#define PROMPT 400
#define VOCAB  49152

struct bench {
    struct mtr_sched *sched;
    struct mtr_arena arena;
    struct mtr_buf bytes;
    uint32_t lanes, steps;
    uint32_t *tokens;                        /* [lanes], one a lane of a result */
    struct mtr_lane_result *results;         /* [lanes] */
    uint64_t *plan_ns, *pack_ns, *result_ns; /* [steps] */
};

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile_us(uint64_t *ns, uint32_t count, double q)
{
    qsort(ns, count, sizeof(*ns), by_value);
    return (double)ns[(uint32_t)(q * (count - 1))] / 1000;
}

static bool setup(struct bench *b, struct mtr_error *err)
{
    struct mtr_sched_config c = {
        .geometry = {.vocab = VOCAB, .block_tokens = 16, .group_count = 1},
        .prefix_cache = true,
        .max_batch_size = b->lanes,
        .max_num_seqs = b->lanes,
        .max_prefill_tokens = 8192,
        .max_sequence_tokens = 1u << 20,
        .max_score_rows = 128,
    };
    struct mtr_sched_capacity capacity = {{b->lanes * (PROMPT + b->steps + 32) / 16 * 2}, 0};
    uint32_t prompt[PROMPT];
    b->sched = mtr_sched_create(&c, err);
    if (!b->sched || !mtr_sched_worker_ready(b->sched, &capacity, 0, err))
        return false;
    for (uint32_t i = 0; i < b->lanes; i++) {
        struct mtr_sched_params p = {.tokens = prompt,
                                     .token_count = PROMPT,
                                     .max_tokens = 1u << 19,
                                     .sampling = mtr_sampling_greedy()};
        uint64_t id;
        for (uint32_t t = 0; t < PROMPT; t++)
            prompt[t] = (i * 131 + t * 7) % VOCAB;
        if (!mtr_sched_submit(b->sched, &p, 0, &id, err))
            return false;
    }
    return true;
}

/* Answers a plan with any tokens. */
static struct mtr_step_result answer(struct bench *b, const struct mtr_step_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        if (plan->lanes[i].outputs == 0)
            continue;
        b->tokens[count] = (uint32_t)(plan->step * 31 + i) % VOCAB;
        b->results[count] = (struct mtr_lane_result){
            .sequence = plan->lanes[i].sequence, .token_count = 1, .tokens = &b->tokens[count]};
        count++;
    }
    return (struct mtr_step_result){.step = plan->step, .lane_count = count, .lanes = b->results};
}

/* One step; its times are kept when it was one of `lanes` decode rows. */
static bool step(struct bench *b, uint32_t *measured, struct mtr_error *err)
{
    const struct mtr_sched_event *events;
    uint64_t begin = now_ns();
    const struct mtr_step_plan *plan = mtr_sched_plan(b->sched, begin);
    uint64_t planned = now_ns();
    if (!plan)
        return mtr_fail(err, MTR_INTERNAL, "nothing to plan");
    bool whole = plan->lane_count == b->lanes && plan->lanes[0].count == 1 &&
                 plan->lanes[b->lanes - 1].count == 1;
    mtr_arena_reset(&b->arena);
    mtr_buf_clear(&b->bytes);
    mtr_pack_plan(&b->arena, &b->bytes, 1, plan);
    uint64_t packed = now_ns();
    struct mtr_step_result result = answer(b, plan);
    uint64_t answered = now_ns();
    if (!mtr_sched_result(b->sched, &result, answered, err))
        return false;
    mtr_sched_events(b->sched, &events);
    uint64_t end = now_ns();
    if (whole) {
        b->plan_ns[*measured] = planned - begin;
        b->pack_ns[*measured] = packed - planned;
        b->result_ns[(*measured)++] = end - answered;
    }
    return true;
}

static bool run(struct bench *b, struct mtr_error *err)
{
    uint32_t measured = 0;
    while (measured < b->steps)
        if (!step(b, &measured, err))
            return false;
    printf("{\"lanes\": %" PRIu32 ", \"steps\": %" PRIu32
           ", \"plan_us\": %.1f, \"plan_us_p99\": %.1f, \"pack_us\": %.1f, \"result_us\": %.1f}\n",
           b->lanes, b->steps, quantile_us(b->plan_ns, measured, 0.5),
           quantile_us(b->plan_ns, measured, 0.99), quantile_us(b->pack_ns, measured, 0.5),
           quantile_us(b->result_ns, measured, 0.5));
    return true;
}

static uint32_t argument(int argc, char **argv, int index, uint32_t otherwise, uint32_t most)
{
    uint64_t value;
    if (index >= argc || !mtr_str_to_u64(mtr_str(argv[index]), &value) || value == 0)
        return otherwise;
    return value < most ? (uint32_t)value : most;
}

int main(int argc, char **argv)
{
    struct bench b = {.lanes = argument(argc, argv, 1, 128, MTR_SCHED_MAX_BATCH),
                      .steps = argument(argc, argv, 2, 2000, 100000)};
    struct mtr_error err = {0};
    mtr_arena_init(&b.arena, 0);
    b.tokens = calloc(b.lanes, sizeof(*b.tokens));
    b.results = calloc(b.lanes, sizeof(*b.results));
    b.plan_ns = calloc(b.steps, sizeof(*b.plan_ns));
    b.pack_ns = calloc(b.steps, sizeof(*b.pack_ns));
    b.result_ns = calloc(b.steps, sizeof(*b.result_ns));
    bool ok = b.tokens && b.results && b.plan_ns && b.pack_ns && b.result_ns && setup(&b, &err) &&
              run(&b, &err);
    if (!ok)
        fprintf(stderr, "plan-bench: %s\n", err.message);
    mtr_sched_destroy(b.sched);
    mtr_arena_free(&b.arena);
    mtr_buf_free(&b.bytes);
    free(b.tokens);
    free(b.results);
    free(b.plan_ns);
    free(b.pack_ns);
    free(b.result_ns);
    return ok ? 0 : 1;
}
