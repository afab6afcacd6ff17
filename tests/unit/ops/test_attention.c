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

/* A launch of a point that splits single rows from the others. */
static struct mtr_launch two_forms(struct mtr_point *point)
{
    struct mtr_launch l = op_rig_launch(&r, "attention");
    *point = *l.point;
    point->shape_count = 2;
    point->shapes[0] = (struct mtr_point_shape){"attention_r1", 1, 0, 128, 4096};
    point->shapes[1] = (struct mtr_point_shape){"attention_r128", 128, 0, 256, 8192};
    l.point = point;
    return l;
}

START_TEST(single_rows_have_a_kernel_of_their_own)
{
    op_rig_open(&r);
    struct mtr_point point;
    struct mtr_launch l = two_forms(&point);
    struct mtr_resolved_op op;
    r.context.processors = 100;
    ck_assert(mtr_op_resolve(&op, r.context.backend, &r.model.plan, &l, &r.err));
    mtr_mock_forget(r.context.backend);
    ck_assert(mtr_op_run(&r.context, &op, &r.err));
    ck_assert_uint_eq(mtr_mock_call_count(r.context.backend), 2);
    const struct mtr_mock_call *call = mtr_mock_call(r.context.backend, 0);
    ck_assert_str_eq(call->function, "attention_r1");
    ck_assert_uint_eq(call->grid[0], 3 * TINY_KV_HEADS); /* 128 tokens are one stretch */
    ck_assert_uint_eq(call->grid[1], 1);
    call = mtr_mock_call(r.context.backend, 1);
    ck_assert_str_eq(call->function, "attention_r128");
    ck_assert_uint_eq(call->grid[1], (40 + 128 / (TINY_HEADS / TINY_KV_HEADS) - 1) /
                                         (128 / (TINY_HEADS / TINY_KV_HEADS)));
    ck_assert_uint_gt(mtr_op_attention_scratch(&r.model.plan, &l), MTR_ATTENTION_COUNTERS);
    op_rig_close(&r);
}
END_TEST

START_TEST(refuses_heads_that_no_piece_fits)
{
    op_rig_open(&r);
    struct mtr_point point;
    struct mtr_launch l = two_forms(&point);
    struct mtr_resolved_op op;
    for (uint32_t i = 0; i < l.param_count; i++)
        if (l.params[i].name == MTR_P_HEAD_DIM)
            l.params[i].value = 20;
    ck_assert(!mtr_op_resolve(&op, r.context.backend, &r.model.plan, &l, &r.err));
    ck_assert_int_eq(r.err.code, MTR_UNSUPPORTED);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/attention")
{
    tcase_add_test(tc, single_rows_have_a_kernel_of_their_own);
    tcase_add_test(tc, refuses_heads_that_no_piece_fits);
    tcase_add_test(tc, fills_its_arguments);
    tcase_add_test(tc, decoding_takes_rows_one_by_one);
}
