/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/rope.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static struct op_rig r;

START_TEST(rotary_takes_the_constant)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rotary");
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_ROPE_SCALE, 1.5};
    const struct mtr_rotary_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_eq(a->inv_freq, r.model.inv_freq);
    ck_assert_ptr_eq(a->table, r.buffers[l.out[0]]);
    ck_assert_uint_eq(a->pairs, TINY_HEAD_DIM / 2);
    ck_assert_float_eq(a->scale, 1.5f);
    op_rig_close(&r);
}
END_TEST

START_TEST(rope_append_knows_cache_and_heads)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rope_append");
    l.cache = 1;
    const struct mtr_mock_call *call = op_rig_run(&r, &l);
    const struct mtr_rope_append_args *a = call->args;
    ck_assert_uint_eq(call->grid[0], 40);
    ck_assert_ptr_eq(a->q, r.buffers[l.in[0]]);
    ck_assert_ptr_eq(a->k, r.buffers[l.in[1]]);
    ck_assert_ptr_eq(a->v, r.buffers[l.in[2]]);
    ck_assert_ptr_eq(a->table, r.buffers[l.in[3]]);
    ck_assert_ptr_eq(a->k_cache, r.caches[1].k);
    ck_assert_ptr_eq(a->v_cache, r.caches[1].v);
    ck_assert_ptr_null(a->q_norm);
    ck_assert_uint_eq(a->heads, TINY_HEADS);
    ck_assert_uint_eq(a->kv_heads, TINY_KV_HEADS);
    ck_assert_uint_eq(a->head_dim, TINY_HEAD_DIM);
    ck_assert_uint_eq(a->pairs, TINY_HEAD_DIM / 2);
    ck_assert_uint_eq(a->block_tokens, 16);
    op_rig_close(&r);
}
END_TEST

START_TEST(norms_partial_rotation_and_no_table)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rope_append");
    l.in_count = 3;
    l.weights[0] = 2;
    l.weights[1] = 3;
    l.weight_count = 2;
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_ROTARY_DIM, 8};
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_INTERLEAVED, 1};
    l.params[l.param_count++] = (struct mtr_launch_param){MTR_P_EPS, 1e-6};
    const struct mtr_rope_append_args *a = op_rig_run(&r, &l)->args;
    ck_assert_ptr_null(a->table);
    ck_assert_ptr_eq(a->q_norm, r.model.addresses[2]);
    ck_assert_ptr_eq(a->k_norm, r.model.addresses[3]);
    ck_assert_uint_eq(a->pairs, 4);
    ck_assert_uint_eq(a->interleaved, 1);
    ck_assert_float_eq(a->eps, 1e-6f);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/rope")
{
    tcase_add_test(tc, rotary_takes_the_constant);
    tcase_add_test(tc, rope_append_knows_cache_and_heads);
    tcase_add_test(tc, norms_partial_rotation_and_no_table);
}
