/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps one behind the other, on a device that does nothing before it is waited for: the tokens are
 * those of steps that wait for each other.
 */
#include "worker/exec/flight.c"

#include <string.h>

#include "tests/support/exec_rig.h"
#include "tests/support/mock_device.h"
#include "tests/unit/check_main.h"

#define PROMPT 30
#define STEPS  40 /* over a block's end, and the table grows */

struct device {
    struct tiny_model model;
    struct mtr_backend *backend;
    struct mtr_exec *exec;
    uint64_t step;
};

static struct device d;
static struct mtr_error err;
static uint32_t text[RIG_TOKENS];
static const struct mtr_plan_limits limits = {.max_step_tokens = 128,
                                              .max_step_outputs = 8,
                                              .max_lanes = RIG_SLOTS,
                                              .max_sequence_tokens = RIG_TOKENS};

static void open_device(bool graphs)
{
    d = (struct device){0};
    for (uint32_t i = 0; i < RIG_TOKENS; i++)
        text[i] = rig_token(i);
    tiny_model_init(&d.model, limits, MTR_F32);
    d.backend = mock_device_create(graphs);
    d.exec = mtr_exec_create(&(struct mtr_exec_options){.backend = d.backend,
                                                        .plan = &d.model.plan,
                                                        .weights = d.model.addresses,
                                                        .max_slots = RIG_SLOTS,
                                                        .group_blocks = {RIG_SLOTS * RIG_BLOCKS}},
                             &err);
    ck_assert_msg(d.exec != NULL, "%s", err.message);
    ck_assert_msg(mtr_exec_warm_up(d.exec, &err), "%s", err.message);
}

static void close_device(void)
{
    mtr_exec_destroy(d.exec);
    d.backend->ops->destroy(d.backend);
    tiny_model_free(&d.model);
}

/* A plan that stays where it is while it is in flight: lanes of sequences 0 to 2, each of which
 * begins `late` steps after the one before and has blocks added as it grows. */
struct flying {
    struct mtr_step_plan plan;
    struct mtr_lane lanes[3];
    struct mtr_table_change changes[3];
    uint32_t blocks[3][RIG_BLOCKS];
};

static void add_lane(struct flying *p, uint32_t s, uint32_t at)
{
    uint32_t start = at ? PROMPT + at - 1 : 0, count = at ? 1 : PROMPT + s;
    if (at)
        start += s;
    uint32_t have = start ? (start + 15) / 16 : 0, need = (start + count + 15) / 16;
    struct mtr_lane *l = &p->lanes[p->plan.lane_count];
    struct mtr_table_change *c = &p->changes[p->plan.lane_count];
    uint32_t *blocks = p->blocks[p->plan.lane_count++];
    for (uint32_t i = have; i < need; i++)
        blocks[i - have] = i * 3 + s; /* sequences take turns */
    *c = (struct mtr_table_change){.first = have, .count = need - have, .blocks = blocks};
    *l = (struct mtr_lane){.sequence = s,
                           .slot = 2 * s,
                           .open = at == 0,
                           .start = start,
                           .count = count,
                           .tokens = at ? NULL : text + s,
                           .table_count = need > have,
                           .tables = c,
                           .outputs = 1};
}

static void make_plan(struct flying *p, uint32_t step, uint32_t late)
{
    memset(p, 0, sizeof *p);
    for (uint32_t s = 0; s < 3; s++)
        if (step >= s * late)
            add_lane(p, s, step - s * late);
    p->plan.step = step + 1;
    p->plan.lanes = p->lanes;
}

static void take(uint32_t tokens[3][STEPS], uint32_t counts[3])
{
    struct mtr_step_result r;
    ck_assert_msg(mtr_exec_finish(d.exec, &r, &err), "%s", err.message);
    ck_assert_uint_eq(r.step, ++d.step);
    for (uint32_t i = 0; i < r.lane_count; i++) {
        uint64_t s = r.lanes[i].sequence;
        ck_assert_uint_eq(r.lanes[i].token_count, 1);
        tokens[s][counts[s]++] = r.lanes[i].tokens[0];
    }
}

/* `ahead` steps stay in flight behind each begin. */
static void run(uint32_t ahead, uint32_t late, uint32_t tokens[3][STEPS])
{
    static struct flying plans[MTR_PLANS_IN_FLIGHT];
    uint32_t counts[3] = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
        struct flying *p = &plans[step % MTR_PLANS_IN_FLIGHT];
        make_plan(p, step, late);
        ck_assert(mtr_exec_can_begin(d.exec, &p->plan));
        ck_assert_msg(mtr_exec_begin(d.exec, &p->plan, &err), "%s", err.message);
        if (mtr_exec_in_flight(d.exec) > ahead)
            take(tokens, counts);
    }
    while (mtr_exec_in_flight(d.exec))
        take(tokens, counts);
    ck_assert_uint_eq(counts[0], STEPS);
}

START_TEST(steps_in_flight_give_the_same_tokens)
{
    uint32_t want[3][STEPS] = {{0}}, got[3][STEPS] = {{0}};
    open_device(false);
    mtr_mock_defer(d.backend, false);
    run(0, _i, want);
    close_device();
    ck_assert_uint_ne(want[0][3], want[0][4]); /* some text */
    for (uint32_t graphs = 0; graphs < 2; graphs++) {
        open_device(graphs);
        run(1, _i, got);
        ck_assert_mem_eq(got, want, sizeof want);
        close_device();
    }
}
END_TEST

/* The host backend runs each step as it begins. */
START_TEST(the_host_class_gives_the_same_tokens)
{
    static struct rig r;
    uint32_t want[3][STEPS] = {{0}}, tokens[STEPS];
    open_device(true);
    run(1, 0, want);
    close_device();
    rig_open(&r, 8, MTR_F32);
    rig_greedy(&r, 0, 0, PROMPT, tokens, STEPS);
    ck_assert_mem_eq(tokens, want[0], sizeof tokens);
    rig_close(&r);
}
END_TEST

/* Tokens that the device draws, each read by the next step before this process has seen it, are
 * those that the host class draws. */
START_TEST(drawn_tokens_are_those_of_the_host)
{
    static const struct mtr_sampling kinds[] = {
        {.temperature = 0.8f, .top_p = 1, .repetition_penalty = 1, .seed = 1},
        {.temperature = 1.5f, .top_p = 0.8f, .repetition_penalty = 1, .seed = 2},
        {.temperature = 3, .top_p = 1, .top_k = 5, .repetition_penalty = 1, .seed = 3},
        {.temperature = 2, .top_p = 0.95f, .top_k = 20, .min_p = 0.05f, .repetition_penalty = 1},
    };
    static struct flying plans[MTR_PLANS_IN_FLIGHT];
    static struct rig r;
    uint32_t want[STEPS], got[3][STEPS], counts[3] = {0}, differs = 0;
    rig_open(&r, 8, MTR_F32);
    struct mtr_lane lane = rig_lane(0, 0, 0, text, PROMPT, 1);
    for (uint32_t i = 0; i < RIG_TOKENS; i++)
        text[i] = rig_token(i);
    for (uint32_t i = 0; i < STEPS; i++) {
        lane.sampling = &kinds[_i];
        rig_step(&r, &lane, 1);
        want[i] = r.result.lanes[0].tokens[0];
        lane = rig_lane(0, 0, PROMPT + i, NULL, 1, 1);
    }
    rig_close(&r);
    open_device(true);
    for (uint32_t step = 0; step < STEPS; step++) {
        struct flying *p = &plans[step % MTR_PLANS_IN_FLIGHT];
        make_plan(p, step, 99);
        p->lanes[0].sampling = step ? NULL : &kinds[_i];
        ck_assert(mtr_exec_can_begin(d.exec, &p->plan));
        ck_assert_msg(mtr_exec_begin(d.exec, &p->plan, &err), "%s", err.message);
        if (step)
            take(got, counts);
    }
    take(got, counts);
    ck_assert_mem_eq(got[0], want, sizeof want);
    for (uint32_t i = 1; i < STEPS; i++)
        differs += want[i] != want[0];
    ck_assert_uint_gt(differs, 0);
    close_device();
}
END_TEST

START_TEST(nothing_is_waited_for_before_a_step_finishes)
{
    static struct flying p;
    struct mtr_step_result r;
    bool done;
    open_device(true);
    make_plan(&p, 0, 1);
    mtr_mock_forget(d.backend);
    ck_assert(mtr_exec_begin(d.exec, &p.plan, &err));
    ck_assert_uint_eq(mtr_exec_in_flight(d.exec), 1);
    ck_assert(mtr_exec_done(d.exec, &done, &err) && !done);
    ck_assert(mtr_exec_finish(d.exec, &r, &err));
    ck_assert_uint_eq(mtr_exec_in_flight(d.exec), 0);
    ck_assert(!mtr_exec_finish(d.exec, &r, &err));
    close_device();
}
END_TEST

/* Tables, view, launches, choice, tokens. */
START_TEST(calls_come_in_order)
{
    static struct flying p;
    open_device(false);
    make_plan(&p, 0, 1);
    mtr_mock_forget(d.backend);
    ck_assert(mtr_exec_begin(d.exec, &p.plan, &err));
    uint32_t n = mtr_mock_call_count(d.backend);
    ck_assert_uint_eq(n, 2 + TINY_LAUNCHES + 2);
    ck_assert_int_eq(mtr_mock_call(d.backend, 0)->kind, MTR_MOCK_UPLOAD);
    ck_assert_int_eq(mtr_mock_call(d.backend, 1)->kind, MTR_MOCK_UPLOAD);
    ck_assert_ptr_eq(mtr_mock_call(d.backend, 1)->dst, d.exec->flights[0].view.device);
    ck_assert_str_eq(mtr_mock_call(d.backend, 2)->function, "embed_f32");
    ck_assert_str_eq(mtr_mock_call(d.backend, n - 2)->function, "sample");
    ck_assert_int_eq(mtr_mock_call(d.backend, n - 1)->kind, MTR_MOCK_DOWNLOAD);
    ck_assert_uint_eq(mtr_mock_call(d.backend, n - 1)->bytes, sizeof(int32_t));
    close_device();
}
END_TEST

/* What must wait for the step in flight. */
START_TEST(steps_that_need_more_wait)
{
    static struct flying first, second;
    struct mtr_sampling told = {.top_p = 1, .repetition_penalty = 1, .logprobs = 1};
    struct mtr_step_result r;
    open_device(false);
    make_plan(&first, 0, 1);
    ck_assert(mtr_exec_begin(d.exec, &first.plan, &err));
    make_plan(&second, 1, 5);
    ck_assert(mtr_exec_can_begin(d.exec, &second.plan));
    second.lanes[0].open = true; /* somebody else's slot from now on */
    ck_assert(!mtr_exec_can_begin(d.exec, &second.plan));
    ck_assert(!mtr_exec_begin(d.exec, &second.plan, &err));
    ck_assert_int_eq(err.code, MTR_INTERNAL);
    second.lanes[0].open = false;
    second.lanes[0].tokens = text;
    ck_assert(!mtr_exec_can_begin(d.exec, &second.plan));
    second.lanes[0].tokens = NULL;
    second.lanes[0].start--; /* back into what is known */
    ck_assert(!mtr_exec_can_begin(d.exec, &second.plan));
    second.lanes[0].start++;
    second.lanes[0].score = true; /* more than one pass */
    second.lanes[0].count = limits.max_step_outputs + 1;
    ck_assert(!mtr_exec_can_begin(d.exec, &second.plan));
    make_plan(&second, 1, 5);
    second.lanes[0].sampling = &told; /* begins, but what follows waits for it */
    ck_assert(mtr_exec_begin(d.exec, &second.plan, &err));
    ck_assert(mtr_exec_finish(d.exec, &r, &err));
    make_plan(&first, 2, 5);
    ck_assert(!mtr_exec_can_begin(d.exec, &first.plan));
    ck_assert(mtr_exec_finish(d.exec, &r, &err));
    ck_assert(mtr_exec_can_begin(d.exec, &first.plan));
    close_device();
}
END_TEST

/* A lane that samples beside one that does not, with penalties that read the token in flight. */
START_TEST(sampled_tokens_see_the_whole_history)
{
    uint32_t got[2][12];
    const struct mtr_sampling s = {.temperature = 0.8f,
                                   .top_p = 1,
                                   .repetition_penalty = 1.3f,
                                   .seed = 9,
                                   .output_start = PROMPT};
    for (uint32_t ahead = 0; ahead < 2; ahead++) {
        static struct flying plans[12];
        struct mtr_step_result r;
        uint32_t n = 0;
        open_device(ahead == 1);
        for (uint32_t step = 0; step < 12; step++) {
            make_plan(&plans[step], step, 99);
            if (step == 2) /* greedy before: the token before it is in flight as it begins */
                plans[step].lanes[0].sampling = &s;
            if (!mtr_exec_can_begin(d.exec, &plans[step].plan) || !ahead)
                for (; mtr_exec_in_flight(d.exec);) {
                    ck_assert(mtr_exec_finish(d.exec, &r, &err));
                    got[ahead][n++] = r.lanes[0].tokens[0];
                }
            ck_assert_msg(mtr_exec_begin(d.exec, &plans[step].plan, &err), "%s", err.message);
        }
        while (mtr_exec_in_flight(d.exec)) {
            ck_assert(mtr_exec_finish(d.exec, &r, &err));
            got[ahead][n++] = r.lanes[0].tokens[0];
        }
        ck_assert_uint_eq(n, 12);
        close_device();
    }
    ck_assert_mem_eq(got[0], got[1], sizeof got[0]);
}
END_TEST

START_TEST(a_refused_step_leaves_the_one_in_flight)
{
    static struct flying first, second;
    struct mtr_step_result r;
    open_device(true);
    make_plan(&first, 0, 1);
    ck_assert(mtr_exec_begin(d.exec, &first.plan, &err));
    make_plan(&second, 1, 1);
    second.lanes[1].slot = 77;
    ck_assert(!mtr_exec_begin(d.exec, &second.plan, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert(mtr_exec_finish(d.exec, &r, &err));
    ck_assert_uint_eq(r.lane_count, 1);
    make_plan(&second, 1, 1);
    ck_assert(mtr_exec_begin(d.exec, &second.plan, &err));
    ck_assert(mtr_exec_finish(d.exec, &r, &err));
    ck_assert_uint_eq(r.lane_count, 2);
    close_device();
}
END_TEST

START_TEST(a_device_can_be_lost_in_either_half)
{
    static struct flying p, q;
    struct mtr_step_result r;
    bool begun = false;
    for (uint32_t n = 0; !begun && n < 200; n++) {
        open_device(true);
        make_plan(&p, 0, 1);
        mtr_mock_fail_after(d.backend, n);
        begun = mtr_exec_begin(d.exec, &p.plan, &err);
        ck_assert(!mtr_exec_finish(d.exec, &r, &err));
        ck_assert(!begun || d.backend->lost);
        close_device();
    }
    ck_assert(begun);
    open_device(true);
    make_plan(&p, 0, 1);
    make_plan(&q, 1, 1);
    ck_assert(mtr_exec_begin(d.exec, &p.plan, &err));
    ck_assert(mtr_exec_begin(d.exec, &q.plan, &err));
    mtr_mock_fail_after(d.backend, 0);
    bool done;
    ck_assert(!mtr_exec_done(d.exec, &done, &err));
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert(!mtr_exec_finish(d.exec, &r, &err));
    close_device(); /* with two in flight */
}
END_TEST

MTR_CHECK_MAIN("exec/flight")
{
    tcase_add_loop_test(tc, steps_in_flight_give_the_same_tokens, 0, 4);
    tcase_add_test(tc, the_host_class_gives_the_same_tokens);
    tcase_add_loop_test(tc, drawn_tokens_are_those_of_the_host, 0, 4);
    tcase_add_test(tc, nothing_is_waited_for_before_a_step_finishes);
    tcase_add_test(tc, calls_come_in_order);
    tcase_add_test(tc, steps_that_need_more_wait);
    tcase_add_test(tc, sampled_tokens_see_the_whole_history);
    tcase_add_test(tc, a_refused_step_leaves_the_one_in_flight);
    tcase_add_test(tc, a_device_can_be_lost_in_either_half);
}
