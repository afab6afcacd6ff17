/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/elementwise.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "elementwise"};
static const struct mtr_point points[] = {
    {.function = "add", .shape_count = 1, .shapes = {{"add"}}},
    {.function = "glu", .shape_count = 1, .shapes = {{"glu"}}},
    {.function = "activate", .shape_count = 1, .shapes = {{"activate"}}},
    {.function = "scale", .shape_count = 1, .shapes = {{"scale"}}},
    {.function = "gather", .shape_count = 1, .shapes = {{"gather"}}},
    {.function = "slice", .shape_count = 1, .shapes = {{"slice"}}},
    {.function = "concat", .shape_count = 1, .shapes = {{"concat"}}},
};
enum { ADD, GLU, ACTIVATE, SCALE, GATHER, SLICE, CONCAT };

static struct mtr_launch launch(int point, enum mtr_param name, double value)
{
    return (struct mtr_launch){.family = &family,
                               .point = &points[point],
                               .layer = MTR_NONE,
                               .rows = MTR_ROWS_TOKENS,
                               .in_count = 2,
                               .in = {2, 3},
                               .out_count = 1,
                               .out = {4},
                               .param_count = 1,
                               .params = {{name, value}},
                               .cache = MTR_NONE,
                               .state = MTR_NONE,
                               .constant = MTR_NONE};
}

START_TEST(two_inputs)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = launch(GLU, MTR_P_ACTIVATION, MTR_ACT_GELU);
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_elementwise_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 40);
    ck_assert_ptr_eq(a->a, r.buffers[2]);
    ck_assert_ptr_eq(a->b, r.buffers[3]);
    ck_assert_ptr_eq(a->y, r.buffers[4]);
    ck_assert_ptr_null(a->gather);
    ck_assert_uint_eq(a->activation, MTR_ACT_GELU);
    ck_assert_uint_eq(a->cols, r.model.buffers[4].cols);
    op_rig_close(&r);
}
END_TEST

START_TEST(one_input)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = launch(SCALE, MTR_P_MULTIPLIER, 0.5);
    l.in_count = 1;
    const struct mtr_elementwise_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_null(a->b);
    ck_assert_float_eq(a->multiplier, 0.5f);
    op_rig_close(&r);
}
END_TEST

START_TEST(gather_reads_output_rows)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = launch(GATHER, MTR_P_EPS, 0);
    l.in_count = 1;
    l.rows = MTR_ROWS_OUTPUTS;
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_elementwise_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 2);
    ck_assert_ptr_eq(a->gather, r.output_rows);
    ck_assert_uint_eq(a->rows_kind, MTR_ROWS_OUTPUTS);
    op_rig_close(&r);
}
END_TEST

START_TEST(columns_of_heads)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = launch(SLICE, MTR_P_FIRST, 3);
    l.in_count = 1;
    const struct mtr_elementwise_args *a = op_rig_run(&r, &l)->args;
    ck_assert(a->first == 3 && a->runs == 1 && a->b_cols == 0);
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_HEADS, 4};
    a = op_rig_run(&r, &l)->args;
    ck_assert(a->runs == 4 && a->a_cols == r.model.buffers[2].cols);
    op_rig_close(&r);
}
END_TEST

START_TEST(three_inputs)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = launch(CONCAT, MTR_P_EPS, 0);
    l.in[l.in_count++] = 5;
    const struct mtr_elementwise_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_eq(a->c, r.buffers[5]);
    ck_assert(a->a_cols == r.model.buffers[2].cols && a->b_cols == r.model.buffers[3].cols);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/elementwise")
{
    tcase_add_test(tc, columns_of_heads);
    tcase_add_test(tc, three_inputs);
    tcase_add_test(tc, two_inputs);
    tcase_add_test(tc, one_input);
    tcase_add_test(tc, gather_reads_output_rows);
}
