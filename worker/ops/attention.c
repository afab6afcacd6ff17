/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention over the paged cache. Grid: (kv heads, row tiles); in a step where every lane has one
 * row tiles are single rows, since rows of different sequences share no history.
 */
#include "kernels/args/attention.h"

#include "worker/ops/launcher.h"

bool mtr_op_attention(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                      struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_cache *cache = &c->plan->caches[l->cache];
    const struct mtr_attention_args args = {
        .step = c->step,
        .q = mtr_op_in(c, l, 0),
        .k_cache = c->caches[l->cache].k,
        .v_cache = c->caches[l->cache].v,
        .sinks = mtr_op_weight(c, l, 0),
        .out = mtr_op_out(c, l, 0),
        .group = cache->group,
        .heads = mtr_launch_u32(l, MTR_P_HEADS, 0),
        .kv_heads = mtr_launch_u32(l, MTR_P_KV_HEADS, 0),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .block_tokens = c->plan->groups[cache->group].block_tokens,
        .window = mtr_launch_u32(l, MTR_P_WINDOW, 0),
        .scale = (float)mtr_launch_real(l, MTR_P_ATTN_SCALE, 1),
        .softcap = (float)mtr_launch_real(l, MTR_P_SOFTCAP, 0),
    };
    bool decode = c->rows[MTR_ROWS_TOKENS] == c->rows[MTR_ROWS_LANES];
    uint32_t tiles = decode ? c->rows[MTR_ROWS_TOKENS] : mtr_op_row_tiles(c, op);
    return mtr_op_launch(c, op, args.kv_heads, tiles, &args, sizeof args, err);
}
