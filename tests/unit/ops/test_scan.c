/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/scan.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "scan"};
static const struct mtr_point point = {
    .function = "scan", .shape_count = 1, .shapes = {{"scan", .cols = 16}}};

START_TEST(arguments)
{
    struct op_rig r;
    struct mtr_plan_state state = {0};
    float memory;
    void *address = &memory;
    op_rig_open(&r);
    r.model.plan.state_count = 1;
    r.model.plan.states = &state;
    r.context.states = &address;
    struct mtr_launch l = {.family = &family,
                           .point = &point,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 2,
                           .in = {2, 3},
                           .out_count = 1,
                           .out = {4},
                           .weight_count = 3,
                           .weights = {1, 2, 3},
                           .param_count = 5,
                           .params = {{MTR_P_HEADS, 6},
                                      {MTR_P_HEAD_DIM, 20},
                                      {MTR_P_GROUPS, 2},
                                      {MTR_P_STATE_DIM, 8},
                                      {MTR_P_CLAMP, 0.5}},
                           .cache = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_scan_args *a = call->args;
    ck_assert(call->grid[0] == 6 * 2 && call->grid[1] == 3);
    ck_assert(a->xbc == r.buffers[2] && a->dt == r.buffers[3] && a->y == r.buffers[4]);
    ck_assert_ptr_eq(a->a_log, r.model.addresses[1]);
    ck_assert_ptr_eq(a->d, r.model.addresses[2]);
    ck_assert_ptr_eq(a->dt_bias, r.model.addresses[3]);
    ck_assert(a->state == &memory && a->heads == 6 && a->head_dim == 20);
    ck_assert(a->groups == 2 && a->state_dim == 8);
    ck_assert_float_eq(a->least, 0.5f);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/scan")
{
    tcase_add_test(tc, arguments);
}
