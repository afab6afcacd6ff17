/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/embed.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

START_TEST(fills_its_arguments)
{
    struct op_rig r;
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "embed");
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_embed_args *a = call->args;
    ck_assert_uint_eq(call->bytes, sizeof *a);
    ck_assert_uint_eq(call->grid[0], 40);
    ck_assert_ptr_eq(a->step, r.context.step);
    ck_assert_ptr_eq(a->table, r.model.addresses[0]);
    ck_assert_ptr_eq(a->y, r.buffers[l.out[0]]);
    ck_assert_uint_eq(a->cols, TINY_HIDDEN);
    ck_assert_float_eq(a->multiplier, 1);
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_MULTIPLIER, 12.5};
    a = op_rig_run(&r, &l)->args;
    ck_assert_float_eq(a->multiplier, 12.5f);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/embed")
{
    tcase_add_test(tc, fills_its_arguments);
}
