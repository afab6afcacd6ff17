/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/conv1d.c"

#include <string.h>

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "conv1d"};
static const struct mtr_point point = {
    .function = "conv1d_f32", .shape_count = 1, .shapes = {{"conv1d_f32", .cols = 10}}};

START_TEST(arguments)
{
    struct op_rig r;
    struct mtr_plan_state states[2] = {{0}};
    float memory[2];
    void *addresses[2] = {memory, memory + 1};
    op_rig_open(&r);
    r.model.plan.state_count = 2;
    r.model.plan.states = states;
    r.context.states = addresses;
    struct mtr_launch l = {.family = &family,
                           .point = &point,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 1,
                           .in = {2},
                           .out_count = 1,
                           .out = {3},
                           .weight_count = 1,
                           .weights = {1},
                           .param_count = 1,
                           .params = {{MTR_P_ACTIVATION, MTR_ACT_SILU}},
                           .cache = MTR_NONE,
                           .state = 1,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_conv1d_args *a = call->args;
    uint32_t channels = r.model.buffers[3].cols;
    ck_assert(call->grid[0] == (channels + 9) / 10 && call->grid[1] == 3);
    ck_assert(a->channels == channels && a->taps == r.model.weights[1].cols);
    ck_assert(a->state == memory + 1 && a->bias == NULL && a->activation == MTR_ACT_SILU);
    ck_assert(a->x == r.buffers[2] && a->y == r.buffers[3]);
    ck_assert_ptr_eq(a->weight, r.model.addresses[1]);

    struct mtr_resolved_op op;
    l.state = MTR_NONE;
    ck_assert(!mtr_op_resolve(&op, r.context.backend, &r.model.plan, &l, &r.err));
    ck_assert_msg(strstr(r.err.message, "lacks its state"), "%s", r.err.message);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/conv1d")
{
    tcase_add_test(tc, arguments);
}
