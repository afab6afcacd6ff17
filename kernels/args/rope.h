/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rotary: cos and sin of position * inv_freq for each row, once a step.
 *   table[r] = [cos(p f_0) .. cos(p f_n-1), sin(p f_0) .. sin(p f_n-1)] * scale
 * rope_append: normalizes q and k by head (if weights are given), rotates both by the table, and
 * writes k and v of each row into the row's cache block.
 * (Su et al.: "RoFormer", 2021.) Grid: rows.
 */
#ifndef MTR_ARGS_ROPE_H
#define MTR_ARGS_ROPE_H

#include "kernels/args/step.h"

struct mtr_rotary_args {
    const struct mtr_step_view *step;
    const float *inv_freq; /* [pairs] */
    float *table;          /* [tokens, 2 * pairs] f32 */
    uint32_t pairs;
    float scale;
    const float *factors; /* [pairs] divisors of inv_freq that the checkpoint holds, or NULL */
};

struct mtr_rope_append_args {
    const struct mtr_step_view *step;
    void *q;            /* [tokens, heads, head_dim] activations, rotated in place */
    const void *k;      /* [tokens, kv_heads, head_dim] activations */
    const void *v;      /* [tokens, kv_heads, head_dim] activations */
    const void *q_norm; /* [head_dim] or NULL */
    const void *k_norm; /* [head_dim] or NULL */
    const float *table; /* [tokens, 2 * pairs], or NULL: no rotation */
    void *k_cache;      /* [blocks, kv_heads, block_tokens, head_dim], of the point's format */
    void *v_cache;      /* the same shape */
    uint32_t group;     /* of step->tables */
    uint32_t heads, kv_heads, head_dim;
    uint32_t pairs;       /* rotated pairs; the rest of the head passes through */
    uint32_t interleaved; /* pairs (2i, 2i+1) instead of (i, i + pairs) */
    uint32_t block_tokens;
    float eps;
    float unit_offset;
};

#endif
