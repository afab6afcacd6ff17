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
 * latent_attention: the cache has one head for all, an entry of head_dim columns that is key and
 * value (kernels/args/latent.h); v_cache is k_cache. kv_heads says in how many equal parts the grid
 * takes the heads.
 *
 * Grid of a point with one shape (host): (kv heads, row tiles): block y takes rows [y * t, (y + 1)
 * * t), t = ceil(tokens / grid_y); t = MTR_ATTENTION_TILE_ROWS in a step with prefill, 1 where
 * every lane has one row.
 *
 * A point with two shapes (device) divides a step between them, with the same bits:
 *   rows = 1   lanes of one row: grid (blocks). All stretches of all rows and kv heads, in this
 *              order, are divided evenly among the blocks, however many there are. A block that
 *              has all stretches of a row and kv head folds them; otherwise each is left in
 *              scratch, and the last block to finish folds them in order.
 *              Of the cache only the row's own token may be written by the step itself: what else
 *              the row sees was there before the first launch of the step.
 *   rows = m   lanes of several rows: grid (kv heads, row tiles of m / query heads of one kv head).
 */
#ifndef MTR_ARGS_ATTENTION_H
#define MTR_ARGS_ATTENTION_H

#include "kernels/args/step.h"
#include "kernels/args/tensor_map.h"

#define MTR_ATTENTION_STRETCH        64  /* tokens; the fixed length on the host */
#define MTR_ATTENTION_DEVICE_STRETCH 256 /* and on devices */
#define MTR_ATTENTION_TILE_ROWS      16
#define MTR_ATTENTION_MAX_DIM        512 /* that a host kernel's scratch has room for */
#define MTR_ATTENTION_MAX_GROUP      256 /* query heads of one kv head, likewise */

/*
 * Scratch of a step's single rows: first a counter for each lane and kv head, u32, zero between
 * launches; from MTR_ATTENTION_COUNTERS bytes on, for each lane, head and stretch, head_dim sums,
 * then maximum and weight, f32: [lanes, heads, stretches, head_dim + MTR_ATTENTION_EXTRA].
 */
#define MTR_ATTENTION_COUNTERS 262144
#define MTR_ATTENTION_EXTRA    4 /* two of them unused, for alignment */

#define MTR_ATTENTION_BOX_TOKENS 16 /* that the copy engine brings at once */

struct mtr_attention_args {
    struct mtr_tensor_map k_map; /* of k_cache as [blocks * kv_heads * block_tokens, head_dim] */
    struct mtr_tensor_map v_map;
    const struct mtr_step_view *step;
    const void *q;       /* [tokens, heads, head_dim] activations */
    const void *k_cache; /* [blocks, kv_heads, block_tokens, head_dim] */
    const void *v_cache;
    const float *sinks; /* [heads] or NULL */
    void *out;          /* [tokens, heads, head_dim] activations */
    void *scratch;      /* see above */
    uint32_t stretches; /* of a lane that scratch has room for */
    uint32_t group;
    uint32_t heads, kv_heads, head_dim;
    uint32_t block_tokens; /* a multiple of 16 */
    uint32_t window;       /* 0: all */
    float scale;
    float softcap; /* 0: off */
};

#endif
