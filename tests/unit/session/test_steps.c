/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Plans on a device that does nothing before it is waited for, and on one that is always done. */
#include "worker/session/steps.c"

#include <string.h>

#include "tests/support/mock_device.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/check_main.h"

static struct tiny_model model;
static struct mtr_backend *b;
static struct mtr_steps s;
static struct mtr_error err;
static uint64_t sent;      /* the step of the newest result */
static uint64_t waited_ns; /* and what it says */
static bool send_fails;

static bool keep(void *context, const struct mtr_step_result *r, struct mtr_error *why)
{
    ck_assert_uint_eq(r->step, sent + 1);
    sent = r->step;
    waited_ns = r->wait_ns;
    return !send_fails || mtr_fail(why, MTR_TIMEOUT, "nobody listens");
}

static void open_steps(bool slow)
{
    const struct mtr_plan_limits limits = {
        .max_step_tokens = 64, .max_step_outputs = 8, .max_lanes = 2, .max_sequence_tokens = 64};
    tiny_model_init(&model, limits, MTR_F32);
    b = mock_device_create(true);
    mtr_mock_defer(b, slow);
    mtr_steps_init(&s);
    s.send = keep;
    s.exec = mtr_exec_create(&(struct mtr_exec_options){.backend = b,
                                                        .plan = &model.plan,
                                                        .weights = model.addresses,
                                                        .max_slots = 2,
                                                        .group_blocks = {16}},
                             &err);
    ck_assert_msg(s.exec != NULL, "%s", err.message);
    ck_assert(mtr_exec_warm_up(s.exec, &err));
    sent = 0;
    send_fails = false;
}

static void close_steps(void)
{
    mtr_exec_destroy(s.exec);
    mtr_steps_free(&s);
    b->ops->destroy(b);
    tiny_model_free(&model);
}

/* Adds plan n: the first is a prompt of 4 tokens, the others go on by one. */
static bool add(uint64_t step, const struct mtr_sampling *sampling, uint32_t slot)
{
    static const uint32_t tokens[4] = {1, 2, 3, 4}, blocks[4] = {0, 1, 2, 3};
    static const struct mtr_table_change table = {.count = 4, .blocks = blocks};
    struct mtr_lane *l = mtr_arena_calloc(mtr_steps_room(&s), 1, sizeof *l);
    ck_assert_ptr_nonnull(l);
    *l = (struct mtr_lane){.slot = slot,
                           .open = step == 1,
                           .start = step == 1 ? 0 : (uint32_t)step + 2,
                           .count = step == 1 ? 4 : 1,
                           .tokens = step == 1 ? tokens : NULL,
                           .table_count = step == 1,
                           .tables = &table,
                           .sampling = sampling,
                           .outputs = 1};
    return mtr_steps_add(&s, &(struct mtr_step_plan){.step = step, .lane_count = 1, .lanes = l},
                         100 * step, &err);
}

static void advance(void)
{
    ck_assert_msg(mtr_steps_advance(&s, &err), "%s", err.message);
}

START_TEST(the_next_plan_begins_behind_the_one_that_runs)
{
    open_steps(true);
    ck_assert(add(1, NULL, 0));
    advance();
    ck_assert_uint_eq(mtr_exec_in_flight(s.exec), 1);
    advance();
    ck_assert_uint_eq(sent, 0); /* there may come a plan: not waited for */
    for (uint64_t step = 2; step < 9; step++) {
        ck_assert(add(step, NULL, 0));
        advance();
        ck_assert_uint_eq(sent, step - 1); /* one is waited for, one is on its way */
        ck_assert_uint_eq(mtr_exec_in_flight(s.exec), 1);
        ck_assert_uint_eq(waited_ns, 100 * (step - 1));
    }
    ck_assert(b->ops->stream_wait(b, NULL, NULL));
    advance();
    ck_assert_uint_eq(sent, 8);
    close_steps();
}
END_TEST

START_TEST(a_device_that_is_done_answers_at_once)
{
    open_steps(false);
    for (uint64_t step = 1; step < 5; step++) {
        ck_assert(add(step, NULL, 0));
        advance();
        ck_assert_uint_eq(sent, step);
        ck_assert_uint_eq(s.count, 0);
    }
    close_steps();
}
END_TEST

START_TEST(a_plan_that_needs_a_token_waits_for_it)
{
    const struct mtr_sampling told = {.top_p = 1, .repetition_penalty = 1, .logprobs = 1};
    open_steps(true);
    ck_assert(add(1, &told, 0));
    advance();
    ck_assert(add(2, NULL, 0));
    advance();
    ck_assert_uint_eq(sent, 1);
    ck_assert_uint_eq(mtr_exec_in_flight(s.exec), 1);
    ck_assert(mtr_steps_flush(&s, &err));
    ck_assert_uint_eq(sent, 2);
    close_steps();
}
END_TEST

START_TEST(a_refused_plan_fails_behind_the_others)
{
    open_steps(true);
    ck_assert(add(1, NULL, 0));
    advance();
    ck_assert(add(2, NULL, 7));
    ck_assert(!mtr_steps_advance(&s, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "slot 7 of 2"));
    ck_assert_uint_eq(sent, 1);
    close_steps();
}
END_TEST

START_TEST(steps_are_counted)
{
    open_steps(true);
    ck_assert(!add(2, NULL, 0));
    ck_assert_ptr_nonnull(strstr(err.message, "step 2 after step 0"));
    ck_assert(add(1, NULL, 0));
    ck_assert(!add(1, NULL, 0));
    close_steps();
}
END_TEST

START_TEST(trouble_ends_it)
{
    open_steps(false);
    send_fails = true;
    ck_assert(add(1, NULL, 0));
    ck_assert(!mtr_steps_advance(&s, &err));
    ck_assert_int_eq(err.code, MTR_TIMEOUT);
    close_steps();
    open_steps(true);
    ck_assert(add(1, NULL, 0));
    advance();
    ck_assert(add(2, NULL, 0));
    mtr_mock_fail_after(b, 0);
    ck_assert(!mtr_steps_advance(&s, &err));
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert_uint_eq(sent, 0);
    close_steps();
}
END_TEST

MTR_CHECK_MAIN("session/steps")
{
    tcase_add_test(tc, the_next_plan_begins_behind_the_one_that_runs);
    tcase_add_test(tc, a_device_that_is_done_answers_at_once);
    tcase_add_test(tc, a_plan_that_needs_a_token_waits_for_it);
    tcase_add_test(tc, a_refused_plan_fails_behind_the_others);
    tcase_add_test(tc, steps_are_counted);
    tcase_add_test(tc, trouble_ends_it);
}
