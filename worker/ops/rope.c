/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rotary tables, and rotation of q and k with the append to the cache. Grid: row tiles; for the
 * latter, of a point with tile_cols, also tiles of so many heads (q, k and v). */
#include "kernels/args/rope.h"

#include "worker/ops/launcher.h"

bool mtr_op_rotary(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_rotary_args args = {
        .step = c->step,
        .inv_freq = c->constants[l->constant],
        .table = mtr_op_out(c, l, 0),
        .pairs = c->plan->constants[l->constant].count,
        .scale = (float)mtr_launch_real(l, MTR_P_ROPE_SCALE, 1),
        .factors = mtr_op_weight(c, l, 0),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}

bool mtr_op_rope_append(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_cache *cache = &c->plan->caches[l->cache];
    uint32_t head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0);
    const struct mtr_rope_append_args args = {
        .step = c->step,
        .q = mtr_op_in(c, l, 0),
        .k = mtr_op_in(c, l, 1),
        .v = mtr_op_in(c, l, 2),
        .q_norm = mtr_op_weight(c, l, 0),
        .k_norm = mtr_op_weight(c, l, 1),
        .table = mtr_op_in(c, l, 3),
        .k_cache = c->caches[l->cache].k,
        .v_cache = c->caches[l->cache].v,
        .group = cache->group,
        .heads = mtr_launch_u32(l, MTR_P_HEADS, 0),
        .kv_heads = mtr_launch_u32(l, MTR_P_KV_HEADS, 0),
        .head_dim = head_dim,
        .pairs = mtr_launch_u32(l, MTR_P_ROTARY_DIM, head_dim) / 2,
        .interleaved = mtr_launch_u32(l, MTR_P_INTERLEAVED, 0),
        .block_tokens = c->plan->groups[cache->group].block_tokens,
        .eps = (float)mtr_launch_real(l, MTR_P_EPS, 0),
        .unit_offset = (float)mtr_launch_real(l, MTR_P_UNIT_OFFSET, 0),
    };
    return mtr_op_launch_tiles(c, op, args.heads + 2 * args.kv_heads, &args, sizeof args, err);
}
