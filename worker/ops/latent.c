/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Latent attention and what stands around it: kernels/args/latent.h has the grids. */
#include "kernels/args/latent.h"

#include "kernels/args/attention.h"
#include "worker/ops/launcher.h"

static const void *scale_of(const struct mtr_op_context *c, uint16_t scale)
{
    return scale == MTR_NONE ? NULL : c->weights[scale];
}

/* What both halves of a head's matrix have in common. */
static struct mtr_latent_heads_args heads_of(const struct mtr_op_context *c,
                                             const struct mtr_launch *l)
{
    const struct mtr_plan_weight *w = &c->plan->weights[l->weights[0]];
    uint32_t heads = mtr_launch_u32(l, MTR_P_HEADS, 1);
    uint32_t value = mtr_launch_u32(l, MTR_P_VALUE_DIM, 0);
    return (struct mtr_latent_heads_args){
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .weight = mtr_op_weight(c, l, 0),
        .scale = scale_of(c, w->scale),
        .global_scale = scale_of(c, w->global_scale),
        .table = mtr_op_in(c, l, 1),
        .y = mtr_op_out(c, l, 0),
        .heads = heads,
        .nope = (uint32_t)w->rows / heads - value,
        .value = value,
        .rank = (uint32_t)w->cols,
        .pairs = mtr_launch_u32(l, MTR_P_ROTARY_DIM, 0) / 2,
        .x_dim = mtr_op_cols(c, l->in[0]) / heads,
        .interleaved = mtr_launch_u32(l, MTR_P_INTERLEAVED, 0),
        .query_beta = (float)mtr_launch_real(l, MTR_P_QUERY_BETA, 0),
        .query_length = mtr_launch_u32(l, MTR_P_QUERY_LENGTH, 1),
    };
}

bool mtr_op_latent_query(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         struct mtr_error *err)
{
    const struct mtr_latent_heads_args args = heads_of(c, op->launch);
    return mtr_op_launch_tiles(c, op, args.heads, &args, sizeof args, err);
}

bool mtr_op_latent_value(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         struct mtr_error *err)
{
    const struct mtr_latent_heads_args args = heads_of(c, op->launch);
    return mtr_op_launch_tiles(c, op, args.heads, &args, sizeof args, err);
}

bool mtr_op_latent_append(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                          struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_cache *cache = &c->plan->caches[l->cache];
    uint32_t rotary = mtr_launch_u32(l, MTR_P_ROTARY_DIM, 0);
    const struct mtr_latent_append_args args = {
        .step = c->step,
        .kv = mtr_op_in(c, l, 0),
        .norm = mtr_op_weight(c, l, 0),
        .table = mtr_op_in(c, l, 1),
        .cache = c->caches[l->cache].k,
        .group = cache->group,
        .rank = mtr_op_cols(c, l->in[0]) - rotary,
        .pairs = rotary / 2,
        .interleaved = mtr_launch_u32(l, MTR_P_INTERLEAVED, 0),
        .block_tokens = c->plan->groups[cache->group].block_tokens,
        .eps = (float)mtr_launch_real(l, MTR_P_EPS, 0),
        .unit_offset = (float)mtr_launch_real(l, MTR_P_UNIT_OFFSET, 0),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}

/* Equal parts of at most MTR_LATENT_HEADS heads: the more parts, the more blocks. */
static uint32_t parts_of(uint32_t heads)
{
    uint32_t each = mtr_op_least(heads, MTR_LATENT_HEADS);
    while (heads % each)
        each--;
    return heads / each;
}

bool mtr_op_latent_attention(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                             struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_cache *cache = &c->plan->caches[l->cache];
    uint32_t heads = mtr_launch_u32(l, MTR_P_HEADS, 1);
    const struct mtr_attention_args args = {
        .step = c->step,
        .q = mtr_op_in(c, l, 0),
        .k_cache = c->caches[l->cache].k,
        .v_cache = c->caches[l->cache].k,
        .out = mtr_op_out(c, l, 0),
        .group = cache->group,
        .heads = heads,
        .kv_heads = parts_of(heads),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .block_tokens = c->plan->groups[cache->group].block_tokens,
        .window = mtr_launch_u32(l, MTR_P_WINDOW, 0),
        .scale = (float)mtr_launch_real(l, MTR_P_ATTN_SCALE, 1),
    };
    bool decode = c->rows[MTR_ROWS_TOKENS] == c->rows[MTR_ROWS_LANES];
    uint32_t tile = decode || !l->point->shapes[0].rows ? 1 : l->point->shapes[0].rows;
    const uint32_t grid[3] = {args.kv_heads, mtr_op_tiles(c->rows[MTR_ROWS_TOKENS], tile), 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
