/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention over the paged cache: kernels/args/attention.h has the grids. In a step where every
 * lane has one row the host's tiles are single rows, since rows of different sequences share no
 * history.
 */
#include "kernels/args/attention.h"

#include "worker/ops/launcher.h"

#define BLOCKS_PER_PROCESSOR 2 /* that have room at once */

/* Whether the point splits single rows from the others. */
static bool has_single_rows(const struct mtr_point *p)
{
    return p->shape_count == 2 && p->shapes[0].rows == 1;
}

/* The kernels of such a point copy 16 bytes of a head at a time. */
bool mtr_op_attention_fits(const struct mtr_launch *l)
{
    return !has_single_rows(l->point) || mtr_launch_u32(l, MTR_P_HEAD_DIM, 0) % 8 == 0;
}

static uint32_t stretches_of(const struct mtr_plan *plan)
{
    return mtr_op_tiles(plan->limits.max_sequence_tokens, MTR_ATTENTION_DEVICE_STRETCH);
}

uint64_t mtr_op_attention_scratch(const struct mtr_plan *plan, const struct mtr_launch *l)
{
    if (!has_single_rows(l->point))
        return 0;
    uint64_t numbers = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0) + MTR_ATTENTION_EXTRA;
    numbers *= mtr_launch_u32(l, MTR_P_HEADS, 0);
    return MTR_ATTENTION_COUNTERS +
           numbers * plan->limits.max_lanes * stretches_of(plan) * sizeof(float);
}

/* Blocks that divide the histories: as the device holds at once, and no more than there are
 * stretches. A captured graph serves any length, so the longest possible ones count. */
static uint32_t blocks_of(const struct mtr_op_context *c, uint32_t kv_heads, uint32_t lanes)
{
    uint64_t most = (uint64_t)stretches_of(c->plan) * kv_heads * lanes;
    uint32_t held = (c->processors ? c->processors : 1) * BLOCKS_PER_PROCESSOR;
    return most < held ? (uint32_t)most : held;
}

static bool launch_apart(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         const struct mtr_attention_args *a, struct mtr_error *err)
{
    uint32_t lanes = c->rows[MTR_ROWS_LANES], tokens = c->rows[MTR_ROWS_TOKENS];
    uint32_t rows = op->launch->point->shapes[1].rows / (a->heads / a->kv_heads);
    const uint32_t single[3] = {blocks_of(c, a->kv_heads, lanes), 1, 1};
    const uint32_t tiles[3] = {a->kv_heads, mtr_op_tiles(tokens, rows ? rows : 1), 1};
    return mtr_op_launch_shape(c, op, 0, single, a, sizeof *a, err) &&
           (tokens == lanes || mtr_op_launch_shape(c, op, 1, tiles, a, sizeof *a, err));
}

/* Tells the copy engine, where there is one, of the cache. */
static bool map_cache(const struct mtr_op_context *c, const struct mtr_op_cache *cache,
                      struct mtr_attention_args *a, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = c->backend->ops;
    uint64_t rows = (uint64_t)cache->blocks * a->kv_heads * a->block_tokens;
    uint64_t row_bytes = a->head_dim * sizeof(uint16_t);
    if (!ops->tensor_map)
        return true;
    return ops->tensor_map(c->backend, &a->k_map, a->k_cache, rows, a->head_dim, row_bytes,
                           MTR_ATTENTION_BOX_TOKENS, err) &&
           ops->tensor_map(c->backend, &a->v_map, a->v_cache, rows, a->head_dim, row_bytes,
                           MTR_ATTENTION_BOX_TOKENS, err);
}

bool mtr_op_attention(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                      struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_cache *cache = &c->plan->caches[l->cache];
    struct mtr_attention_args args = {
        .step = c->step,
        .q = mtr_op_in(c, l, 0),
        .k_cache = c->caches[l->cache].k,
        .v_cache = c->caches[l->cache].v,
        .sinks = mtr_op_weight(c, l, 0),
        .out = mtr_op_out(c, l, 0),
        .scratch = c->scratch,
        .stretches = stretches_of(c->plan),
        .group = cache->group,
        .heads = mtr_launch_u32(l, MTR_P_HEADS, 0),
        .kv_heads = mtr_launch_u32(l, MTR_P_KV_HEADS, 0),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .block_tokens = c->plan->groups[cache->group].block_tokens,
        .window = mtr_launch_u32(l, MTR_P_WINDOW, 0),
        .scale = (float)mtr_launch_real(l, MTR_P_ATTN_SCALE, 1),
        .softcap = (float)mtr_launch_real(l, MTR_P_SOFTCAP, 0),
    };
    if (has_single_rows(l->point))
        return map_cache(c, &c->caches[l->cache], &args, err) && launch_apart(c, op, &args, err);
    bool decode = c->rows[MTR_ROWS_TOKENS] == c->rows[MTR_ROWS_LANES];
    uint32_t tile = decode || !l->point->shapes[0].rows ? 1 : l->point->shapes[0].rows;
    const uint32_t grid[3] = {args.kv_heads, mtr_op_tiles(c->rows[MTR_ROWS_TOKENS], tile), 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
