/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/view.c"

#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

static const struct mtr_plan_limits limits = {
    .max_step_tokens = 20, .max_step_outputs = 5, .max_lanes = 3, .max_sequence_tokens = 64};

START_TEST(rows_stand_in_the_order_of_lanes)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    struct mtr_view v = {0};
    uint32_t history[2][64];
    int32_t table[8], last[4];
    struct mtr_slot slots[4] = {
        [1] = {.tokens = history[0], .length = 40}, [3] = {.tokens = history[1], .length = 14}};
    struct mtr_slots s = {.count = 4,
                          .group_count = 1,
                          .slots = slots,
                          .stride = {4},
                          .device = {table},
                          .last_tokens = last};
    for (uint32_t i = 0; i < 64; i++) {
        history[0][i] = 100 + i;
        history[1][i] = 200 + i;
    }
    const struct mtr_lane lanes[] = {{.slot = 3, .start = 10, .count = 4, .outputs = 2},
                                     {.slot = 1, .start = 30, .count = 9}};
    struct mtr_segment segments[] = {{0, 0, 4, 2}, {1, 5, 3, 0}}; /* the second of a later pass */
    const struct mtr_pass pass = {2, segments, 7, 2, false};
    const struct mtr_step_plan plan = {.lane_count = 2, .lanes = lanes};
    const struct mtr_sample_row samples[2] = {{.inverse = 7}, {.inverse = 8, .fraction = 14}};
    ck_assert(mtr_view_init(&v, b, &limits, NULL));
    mtr_mock_forget(b);
    ck_assert(mtr_view_fill(&v, b, NULL, &plan, &pass, samples, &s, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 1); /* one upload of everything */
    ck_assert_uint_lt(mtr_mock_call(b, 0)->bytes, mtr_view_bytes(&limits)); /* of what there is */
    const struct mtr_step_view *view = mtr_view_device(&v); /* the mock's device is host memory */
    ck_assert_uint_eq(view->tokens, 7);
    ck_assert_uint_eq(view->lanes, 2);
    ck_assert_uint_eq(view->outputs, 2);
    ck_assert_uint_eq(view->max_context, 38);
    const int32_t ids[] = {210, 211, 212, 213, 135, 136, 137}, at[] = {10, 11, 12, 13, 35, 36, 37};
    const int32_t lane_of[] = {0, 0, 0, 0, 1, 1, 1}, rows[] = {0, 4, 7}, outputs[] = {2, 3};
    ck_assert_mem_eq(view->token_ids, ids, sizeof ids);
    ck_assert_mem_eq(view->positions, at, sizeof at);
    ck_assert_mem_eq(view->token_lanes, lane_of, sizeof lane_of);
    ck_assert_mem_eq(view->lane_rows, rows, sizeof rows);
    ck_assert_mem_eq(view->output_rows, outputs, sizeof outputs);
    ck_assert_int_eq(view->lane_slots[0], 3);
    ck_assert_int_eq(view->lane_starts[1], 35);
    ck_assert_ptr_eq(view->tables[0], table);
    ck_assert_uint_eq(view->table_stride[0], 4);
    ck_assert_ptr_eq(mtr_view_device_outputs(&v), view->output_rows);
    ck_assert_ptr_eq(view->last_tokens, last);
    ck_assert_mem_eq(view->sampling, samples, sizeof samples);
    /* A token that is not here yet; and output_rows stays where it was. */
    const int32_t *outputs_before = view->output_rows;
    const struct mtr_lane one = {.slot = 3, .start = 13, .count = 1, .outputs = 1};
    struct mtr_segment segment = {0, 0, 1, 1};
    slots[3].pending = 1;
    ck_assert(mtr_view_fill(&v, b, NULL, &(struct mtr_step_plan){.lane_count = 1, .lanes = &one},
                            &(struct mtr_pass){1, &segment, 1, 1, true}, NULL, &s, NULL));
    ck_assert_int_eq(view->token_ids[0], -1 - 3);
    ck_assert_ptr_null(view->sampling);
    ck_assert_ptr_eq(view->output_rows, outputs_before);
    mtr_view_free(&v, b);
    b->ops->destroy(b);
}
END_TEST

START_TEST(arrays_do_not_overlap)
{
    size_t o[ARRAY_COUNT + 1];
    lay_out(20, 3, 5, 5, o);
    ck_assert_uint_ge(o[0], sizeof(struct mtr_step_view));
    ck_assert_uint_ge(o[OUTPUT_ROWS + 1] - o[OUTPUT_ROWS], 5 * 4);
    ck_assert_uint_ge(o[TOKEN_IDS + 1] - o[TOKEN_IDS], 20 * 4);
    ck_assert_uint_ge(o[TOKEN_LANES + 1] - o[TOKEN_LANES], 20 * 4);
    ck_assert_uint_ge(o[SAMPLE_ROWS + 1] - o[SAMPLE_ROWS], 5 * sizeof(struct mtr_sample_row));
    ck_assert_uint_ge(o[LANE_ROWS + 1] - o[LANE_ROWS], 4 * 4);
    ck_assert_uint_eq(mtr_view_bytes(&limits), o[ARRAY_COUNT]);
}
END_TEST

MTR_CHECK_MAIN("exec/view")
{
    tcase_add_test(tc, rows_stand_in_the_order_of_lanes);
    tcase_add_test(tc, arrays_do_not_overlap);
}
