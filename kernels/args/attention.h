/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Causal attention of each row over its sequence's cache, through the block table:
 *   out[r, h] = softmax(scale * q[r, h] . K[0..p]) V[0..p],   p = positions[r]
 * with an optional window (positions > p - window), soft cap (c * tanh(s / c)) and sink logits.
 * The rows' own keys and values are in the cache already (rope_append).
 *
 * Numerics: history is folded in stretches of a fixed length, in order, with an online softmax
 * (Milakov, Gimelshein 2018; Dao et al. 2022); the same for prefill and decode. So a row's bits do
 * not depend on chunking, batch or which lane computed it. Each stretch is computed by itself and
 * folded into the running result (kernels/host/attention.c has the formulas), so that a kernel may
 * also compute stretches side by side.
 *
 * Grid: (kv heads, row tiles): block y takes rows [y * t, (y + 1) * t), t = ceil(tokens / grid_y).
 * On the host, t = MTR_ATTENTION_TILE_ROWS in a step with prefill, 1 where every lane has one row.
 */
#ifndef MTR_ARGS_ATTENTION_H
#define MTR_ARGS_ATTENTION_H

#include "kernels/args/step.h"

#define MTR_ATTENTION_STRETCH   64 /* tokens; the fixed length */
#define MTR_ATTENTION_TILE_ROWS 16
#define MTR_ATTENTION_MAX_DIM   512 /* that a host kernel's scratch has room for */
#define MTR_ATTENTION_MAX_GROUP 256 /* query heads of one kv head, likewise */

struct mtr_attention_args {
    const struct mtr_step_view *step;
    const void *q;       /* [tokens, heads, head_dim] activations */
    const void *k_cache; /* [blocks, kv_heads, block_tokens, head_dim] */
    const void *v_cache;
    const float *sinks; /* [heads] or NULL */
    void *out;          /* [tokens, heads, head_dim] activations */
    void *scratch;      /* partial results of stretches, or NULL where the point needs none */
    uint32_t group;
    uint32_t heads, kv_heads, head_dim;
    uint32_t block_tokens; /* a multiple of 16 */
    uint32_t window;       /* 0: all */
    float scale;
    float softcap; /* 0: off */
};

#endif
