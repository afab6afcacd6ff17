/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/attention.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static struct op_rig r;

START_TEST(fills_its_arguments)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "attention");
    l.weights[l.weight_count++] = 4;
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_WINDOW, 128};
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_SOFTCAP, 50};
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_attention_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], TINY_KV_HEADS);
    ck_assert_uint_eq(call->grid[1], 3); /* 40 rows, 16 a tile */
    ck_assert_ptr_eq(a->q, r.buffers[l.in[0]]);
    ck_assert_ptr_eq(a->out, r.buffers[l.out[0]]);
    ck_assert_ptr_eq(a->k_cache, r.caches[0].k);
    ck_assert_ptr_eq(a->sinks, r.model.addresses[4]);
    ck_assert_uint_eq(a->heads, TINY_HEADS);
    ck_assert_float_eq(a->scale, 0.25f);
    ck_assert_uint_eq(a->window, 128);
    ck_assert_float_eq(a->softcap, 50);
    op_rig_close(&r);
}
END_TEST

START_TEST(decoding_takes_rows_one_by_one)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "attention");
    r.context.rows[MTR_ROWS_TOKENS] = r.context.rows[MTR_ROWS_LANES] = 20;
    ck_assert_uint_eq(op_rig_run(&r, &l)->grid[1], 20);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/attention")
{
    tcase_add_test(tc, fills_its_arguments);
    tcase_add_test(tc, decoding_takes_rows_one_by_one);
}
