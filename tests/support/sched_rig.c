/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/sched_rig.h"

#include <check.h>

void rig_init(struct sched_rig *r)
{
    *r = (struct sched_rig){
        .config = {.geometry = {.vocab = RIG_VOCAB, .block_tokens = 4, .group_count = 1},
                   .prefix_cache = true,
                   .max_batch_size = 8,
                   .max_num_seqs = 16,
                   .max_prefill_tokens = 64,
                   .max_sequence_tokens = 200,
                   .max_score_rows = 64,
                   .tbt_deadline_ms = 100},
        .capacity = {.group_blocks = {64, 64, 64}, .snapshots = 4},
        .params = {.sampling = mtr_sampling_greedy()},
    };
}

void rig_start(struct sched_rig *r)
{
    r->sched = mtr_sched_create(&r->config, &r->err);
    ck_assert_msg(r->sched != NULL, "%s", r->err.message);
    ck_assert_msg(mtr_sched_worker_ready(r->sched, &r->capacity, r->now_ns, &r->err), "%s",
                  r->err.message);
}

void rig_free(struct sched_rig *r)
{
    if (r->sched)
        ck_assert_msg(mtr_sched_check(r->sched, &r->err), "%s", r->err.message);
    mtr_sched_destroy(r->sched);
    r->sched = NULL;
}

uint64_t rig_submit(struct sched_rig *r, uint32_t first, uint32_t count, uint32_t max_tokens)
{
    uint32_t tokens[512];
    uint64_t id = 0;
    ck_assert_uint_le(count, 512);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = (first + i) % RIG_VOCAB;
    r->params.tokens = tokens;
    r->params.token_count = count;
    r->params.max_tokens = max_tokens;
    ck_assert_msg(mtr_sched_submit(r->sched, &r->params, r->now_ns, &id, &r->err), "%s",
                  r->err.message);
    return id;
}

const struct mtr_step_plan *rig_plan(struct sched_rig *r)
{
    const struct mtr_step_plan *plan = mtr_sched_plan(r->sched, r->now_ns);
    ck_assert_msg(mtr_sched_check(r->sched, &r->err), "%s", r->err.message);
    return plan;
}

const struct mtr_lane *rig_lane(const struct mtr_step_plan *plan, uint64_t id)
{
    for (uint32_t i = 0; plan && i < plan->lane_count; i++)
        if (plan->lanes[i].sequence == id)
            return &plan->lanes[i];
    return NULL;
}

bool rig_answer(struct sched_rig *r, uint32_t token)
{
    static const struct mtr_token_logprobs scores[512];
    struct mtr_lane_result lanes[RIG_LANES];
    struct mtr_step_result result = {.step = r->sched->flights[0].step, .lanes = lanes};
    const struct mtr_flight *f = &r->sched->flights[0];
    ck_assert_uint_gt(r->sched->flying, 0);
    r->token = token;
    for (uint32_t i = 0; i < f->lane_count; i++) {
        const struct mtr_flight_lane *l = &f->lanes[i];
        if (l->outputs == 0 && !l->score)
            continue;
        lanes[result.lane_count++] =
            (struct mtr_lane_result){.sequence = l->id,
                                     .token_count = l->outputs > 0,
                                     .tokens = &r->token,
                                     .score_count = l->score ? l->count - 1 : 0,
                                     .scores = scores};
    }
    bool ok = mtr_sched_result(r->sched, &result, r->now_ns, &r->err);
    ck_assert_msg(mtr_sched_check(r->sched, &r->err), "%s", r->err.message);
    return ok;
}

uint32_t rig_run(struct sched_rig *r, uint32_t token, uint32_t steps)
{
    uint32_t done = 0;
    for (; done < steps; done++) {
        while (rig_plan(r))
            ;
        if (r->sched->flying == 0)
            break;
        ck_assert_msg(rig_answer(r, token), "%s", r->err.message);
    }
    return done;
}

const struct mtr_sched_event *rig_event(struct sched_rig *r, uint64_t id,
                                        enum mtr_sched_event_kind kind)
{
    const struct mtr_sched_event *events;
    size_t count = mtr_sched_events(r->sched, &events);
    for (size_t i = 0; i < count; i++)
        if (events[i].id == id && events[i].kind == kind)
            return &events[i];
    return NULL;
}
