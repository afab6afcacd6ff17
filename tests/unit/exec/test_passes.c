/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/passes.c"

#include "tests/unit/check_main.h"

static struct mtr_segment segments[8];
static struct mtr_plan model = {.limits = {.max_step_outputs = 4}};
static struct mtr_exec e = {.plan = &model, .segments = segments};

static void ck_segment(uint32_t i, uint32_t lane, uint32_t first, uint32_t count, uint32_t outputs)
{
    ck_assert_uint_eq(segments[i].lane, lane);
    ck_assert_uint_eq(segments[i].first, first);
    ck_assert_uint_eq(segments[i].count, count);
    ck_assert_uint_eq(segments[i].outputs, outputs);
}

START_TEST(a_usual_step_is_one_pass)
{
    const struct mtr_lane lanes[] = {
        {.count = 100}, {.count = 30, .outputs = 1}, {.count = 1, .outputs = 1}};
    const struct mtr_step_plan plan = {.lane_count = 3, .lanes = lanes};
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_assert_uint_eq(pass.segment_count, 3);
    ck_assert_uint_eq(pass.tokens, 131);
    ck_assert_uint_eq(pass.outputs, 2);
    ck_assert(!pass.decode);
    ck_segment(0, 0, 0, 100, 0);
    ck_segment(1, 1, 0, 30, 1);
    ck_segment(2, 2, 0, 1, 1);
    ck_assert(!mtr_exec_next_pass(&e, &plan, &at, &pass));
}
END_TEST

START_TEST(decode_is_when_every_row_gives_logits)
{
    const struct mtr_lane lanes[] = {{.count = 1, .outputs = 1},
                                     {.count = 3, .outputs = 3, .drafts = 2},
                                     {.count = 2, .outputs = 1}};
    struct mtr_step_plan plan = {.lane_count = 2, .lanes = lanes};
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_assert(pass.decode);
    plan.lane_count = 1;
    plan.lanes = lanes + 2;
    at = (struct mtr_cursor){0};
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_assert(!pass.decode);
}
END_TEST

START_TEST(scored_rows_are_cut)
{
    const struct mtr_lane lanes[] = {
        {.count = 1, .outputs = 1}, {.count = 9, .score = true}, {.count = 5, .outputs = 1}};
    const struct mtr_step_plan plan = {.lane_count = 3, .lanes = lanes};
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_segment(0, 0, 0, 1, 1);
    ck_segment(1, 1, 0, 3, 3);
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_assert_uint_eq(pass.segment_count, 1);
    ck_segment(0, 1, 3, 4, 4);
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_assert_uint_eq(pass.segment_count, 2);
    ck_segment(0, 1, 7, 2, 2);
    ck_segment(1, 2, 0, 5, 1);
    ck_assert(!mtr_exec_next_pass(&e, &plan, &at, &pass));
}
END_TEST

START_TEST(silent_rows_go_ahead_of_full_logits)
{
    const struct mtr_lane lanes[] = {{.count = 4, .outputs = 4, .drafts = 3},
                                     {.count = 50, .outputs = 2, .drafts = 1}};
    const struct mtr_step_plan plan = {.lane_count = 2, .lanes = lanes};
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_segment(1, 1, 0, 48, 0);
    ck_assert(mtr_exec_next_pass(&e, &plan, &at, &pass));
    ck_segment(0, 1, 48, 2, 2);
    ck_assert(!mtr_exec_next_pass(&e, &plan, &at, &pass));
}
END_TEST

MTR_CHECK_MAIN("exec/passes")
{
    tcase_add_test(tc, a_usual_step_is_one_pass);
    tcase_add_test(tc, decode_is_when_every_row_gives_logits);
    tcase_add_test(tc, scored_rows_are_cut);
    tcase_add_test(tc, silent_rows_go_ahead_of_full_logits);
}
