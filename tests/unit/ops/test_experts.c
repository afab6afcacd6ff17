/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/experts.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "experts"};
static const struct mtr_point point = {
    .function = "experts_f32", .shape_count = 1, .shapes = {{"experts_f32", 128, 32}}};

static const struct mtr_launch launch = {.family = &family,
                                         .point = &point,
                                         .rows = MTR_ROWS_PAIRS,
                                         .in_count = 2,
                                         .in = {2, 3},
                                         .out_count = 1,
                                         .out = {4},
                                         .weight_count = 1,
                                         .weights = {1},
                                         .param_count = 2,
                                         .params = {{MTR_P_EXPERTS, 8}, {MTR_P_TOP_K, 2}},
                                         .cache = MTR_NONE,
                                         .state = MTR_NONE,
                                         .constant = MTR_NONE};

/* Weight 1 is a stack of 8, each of `rows` rows of 16 columns. */
static void open_stack(struct op_rig *r, uint32_t rows)
{
    op_rig_open(r);
    r->context.rows[MTR_ROWS_PAIRS] = 80;
    struct mtr_plan_weight *w = &r->model.weights[1];
    w->stack = 8;
    w->rows = 8 * rows;
    w->cols = 16;
    r->model.buffers[2].cols = 16;
    r->model.buffers[4].cols = 48;
    r->model.buffers[4].rows = MTR_ROWS_PAIRS;
}

START_TEST(experts_or_pairs)
{
    struct op_rig r;
    open_stack(&r, 48);
    const struct mtr_mock_call *call = op_rig_run(&r, &launch);
    const struct mtr_experts_args *a = call->args;
    ck_assert(call->grid[0] == 2 && call->grid[1] == 8 && !a->by_pair && !a->x_pairs);
    ck_assert(a->linear.x == r.buffers[2] && (const void *)a->chosen == r.buffers[3]);
    ck_assert(a->linear.part[0].y == r.buffers[4] && a->linear.part[0].n == 48);
    ck_assert_ptr_eq(a->linear.part[0].weight, r.model.addresses[1]);
    ck_assert(a->weight_bytes == 48 * 64 && a->experts == 8 && a->top_k == 2);
    r.context.rows[MTR_ROWS_PAIRS] = 6;
    r.model.buffers[2].rows = MTR_ROWS_PAIRS;
    call = op_rig_run(&r, &launch);
    a = call->args;
    ck_assert(call->grid[1] == 6 && a->by_pair && a->x_pairs);
    op_rig_close(&r);
}
END_TEST

START_TEST(gate_and_up_in_one)
{
    struct op_rig r;
    struct mtr_launch l = launch;
    open_stack(&r, 96);
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_EPILOGUE, MTR_EPILOGUE_GLU};
    const struct mtr_experts_args *a = op_rig_run(&r, &l)->args;
    const struct mtr_linear_part *p = a->linear.part;
    ck_assert(a->linear.parts == 2 && p[0].n == 48 && p[1].n == 48);
    ck_assert_ptr_eq(p[1].weight, (const uint8_t *)p[0].weight + 48 * 64);
    ck_assert_uint_eq(a->weight_bytes, 96 * 64);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/experts")
{
    tcase_add_test(tc, experts_or_pairs);
    tcase_add_test(tc, gate_and_up_in_one);
}
