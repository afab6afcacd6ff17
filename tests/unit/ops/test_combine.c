/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/combine.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "combine"};
static const struct mtr_point point = {
    .function = "combine", .shape_count = 1, .shapes = {{"combine", .rows = 8}}};

START_TEST(arguments)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = {.family = &family,
                           .point = &point,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 2,
                           .in = {2, 3},
                           .out_count = 1,
                           .out = {4},
                           .param_count = 1,
                           .params = {{MTR_P_TOP_K, 2}},
                           .cache = MTR_NONE,
                           .state = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_combine_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 5);
    ck_assert(a->x == r.buffers[2] && (const void *)a->shares == r.buffers[3]);
    ck_assert(a->y == r.buffers[4] && a->cols == r.model.buffers[4].cols && a->top_k == 2);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/combine")
{
    tcase_add_test(tc, arguments);
}
