/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/route.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "route"};
static const struct mtr_point point = {
    .function = "route", .shape_count = 1, .shapes = {{"route", .rows = 8}}};

START_TEST(arguments)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = {.family = &family,
                           .point = &point,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 1,
                           .in = {2},
                           .out_count = 2,
                           .out = {3, 4},
                           .weight_count = 1,
                           .weights = {1},
                           .param_count = 5,
                           .params = {{MTR_P_EXPERTS, 8},
                                      {MTR_P_TOP_K, 2},
                                      {MTR_P_SCORING, MTR_SCORE_SIGMOID},
                                      {MTR_P_RENORMALIZE, 1},
                                      {MTR_P_MULTIPLIER, 2.5}},
                           .cache = MTR_NONE,
                           .state = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_route_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 5);
    ck_assert((const void *)a->logits == r.buffers[2] && (void *)a->chosen == r.buffers[3]);
    ck_assert_ptr_eq(a->shares, r.buffers[4]);
    ck_assert_ptr_eq(a->bias, r.model.addresses[1]);
    ck_assert(a->experts == 8 && a->top_k == 2 && a->scoring == MTR_SCORE_SIGMOID);
    ck_assert(a->renormalize == 1 && a->groups == 1 && a->top_groups == 1);
    ck_assert_float_eq(a->multiplier, 2.5f);
    l.weight_count = 0;
    a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_null(a->bias);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/route")
{
    tcase_add_test(tc, arguments);
}
