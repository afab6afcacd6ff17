/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/delta.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static const struct mtr_family family = {.name = "delta"};
static const struct mtr_point rule = {
    .function = "delta_rule", .shape_count = 1, .shapes = {{"delta_rule", .cols = 16}}};
static const struct mtr_point gate = {
    .function = "delta_gate", .shape_count = 1, .shapes = {{"delta_gate"}}};

START_TEST(rule_arguments)
{
    struct op_rig r;
    struct mtr_plan_state state = {0};
    float memory;
    void *address = &memory;
    op_rig_open(&r);
    r.model.plan.state_count = 1;
    r.model.plan.states = &state;
    r.context.states = &address;
    r.model.buffers[3].cols = 4;
    struct mtr_launch l = {.family = &family,
                           .point = &rule,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 3,
                           .in = {2, 3, 4},
                           .out_count = 1,
                           .out = {5},
                           .param_count = 5,
                           .params = {{MTR_P_HEADS, 4},
                                      {MTR_P_KV_HEADS, 2},
                                      {MTR_P_HEAD_DIM, 8},
                                      {MTR_P_VALUE_DIM, 24},
                                      {MTR_P_ATTN_SCALE, 0.5}},
                           .cache = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_delta_rule_args *a = call->args;
    ck_assert(call->grid[0] == 4 * 2 && call->grid[1] == 3);
    ck_assert(a->qkv == r.buffers[2] && a->y == r.buffers[5]);
    ck_assert_ptr_eq(a->decay, r.buffers[3]);
    ck_assert_ptr_eq(a->beta, r.buffers[4]);
    ck_assert(a->state == &memory && a->decays == 1 && a->eps < 0);
    ck_assert(a->heads == 4 && a->key_heads == 2 && a->head_dim == 8 && a->value_dim == 24);

    r.model.buffers[3].cols = 32;
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_EPS, 0.25};
    a = op_rig_run(&r, &l)->args;
    ck_assert(a->decays == 8);
    ck_assert_float_eq(a->eps, 0.25f);
    op_rig_close(&r);
}
END_TEST

START_TEST(gate_arguments)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = {.family = &family,
                           .point = &gate,
                           .rows = MTR_ROWS_TOKENS,
                           .in_count = 2,
                           .in = {2, 3},
                           .out_count = 2,
                           .out = {4, 5},
                           .weight_count = 2,
                           .weights = {1, 2},
                           .cache = MTR_NONE,
                           .state = MTR_NONE,
                           .constant = MTR_NONE};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_delta_gate_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 40);
    ck_assert(a->a == r.buffers[2] && a->b == r.buffers[3]);
    ck_assert_ptr_eq(a->decay, r.buffers[4]);
    ck_assert_ptr_eq(a->beta, r.buffers[5]);
    ck_assert_ptr_eq(a->a_log, r.model.addresses[1]);
    ck_assert_ptr_eq(a->dt_bias, r.model.addresses[2]);
    ck_assert_uint_eq(a->heads, r.model.buffers[5].cols);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/delta")
{
    tcase_add_test(tc, rule_arguments);
    tcase_add_test(tc, gate_arguments);
}
