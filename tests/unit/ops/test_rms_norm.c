/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/rms_norm.c"

#include <string.h>

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

START_TEST(within_a_layer_it_does_not_gather)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rms_norm");
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_UNIT_OFFSET, 1};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_rms_norm_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 40);
    ck_assert_ptr_eq(a->x, r.buffers[l.in[0]]);
    ck_assert_ptr_null(a->residual);
    ck_assert_ptr_eq(a->weight, r.model.addresses[l.weights[0]]);
    ck_assert_ptr_eq(a->y, r.buffers[l.out[0]]);
    ck_assert_ptr_null(a->gather);
    ck_assert_uint_eq(a->rows_kind, MTR_ROWS_TOKENS);
    ck_assert_uint_eq(a->cols, TINY_HIDDEN);
    ck_assert_float_eq(a->eps, 1e-5f);
    ck_assert_float_eq(a->unit_offset, 1);
    op_rig_close(&r);
}
END_TEST

START_TEST(the_last_one_gathers_output_rows)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = r.model.launches[TINY_LAUNCHES - 2];
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_rms_norm_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 2);
    ck_assert_ptr_eq(a->gather, r.output_rows);
    ck_assert_uint_eq(a->rows_kind, MTR_ROWS_OUTPUTS);
    op_rig_close(&r);
}
END_TEST

START_TEST(a_residual_is_passed_on)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rms_norm");
    l.in[l.in_count++] = 5;
    const struct mtr_rms_norm_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_eq(a->residual, r.buffers[5]);
    op_rig_close(&r);
}
END_TEST

START_TEST(a_gated_norm)
{
    static const struct mtr_point point = {
        .function = "gated_norm", .shape_count = 1, .shapes = {{"gated_norm"}}};
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rms_norm");
    const struct mtr_launch_param params[] = {
        {MTR_P_HEADS, 4}, {MTR_P_HEAD_DIM, 16}, {MTR_P_EPS, 0.5}, {MTR_P_ACTIVATION, MTR_ACT_SILU}};
    l.point = &point;
    l.in_count = 2;
    l.in[1] = 5;
    l.param_count = 4;
    memcpy(l.params, params, sizeof params);
    const struct mtr_gated_norm_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_eq(a->x, r.buffers[l.in[0]]);
    ck_assert_ptr_eq(a->gate, r.buffers[5]);
    ck_assert_ptr_eq(a->y, r.buffers[l.out[0]]);
    ck_assert(a->heads == 4 && a->head_dim == 16 && a->activation == MTR_ACT_SILU);
    ck_assert_float_eq(a->eps, 0.5f);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/rms_norm")
{
    tcase_add_test(tc, a_gated_norm);
    tcase_add_test(tc, within_a_layer_it_does_not_gather);
    tcase_add_test(tc, the_last_one_gathers_output_rows);
    tcase_add_test(tc, a_residual_is_passed_on);
}
