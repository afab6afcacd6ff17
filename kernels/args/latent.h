/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Multi-head latent attention (DeepSeek-V2, 2024, section 2.1), absorbed: the cache holds one entry
 * a token for all heads, its normalized latent c [rank] and a rotated key k_r [2 * pairs], and no
 * head's keys or values are ever made of it. Of each head the matrix W [nope + value, rank] has the
 * key half first:
 *
 *   latent_append   cache entry = [norm(c) | rotated k_r]
 *   latent_query    y[h] = f [q[h, 0..nope] W_k[h] | rotated q[h, nope..]]
 *                   f = 1 + beta log(1 + floor(position / length)), or 1 where beta is 0
 *   latent_attention (kernels/args/attention.h) y[h] . entry is the score; sums entries
 *   latent_value    out[h] = W_v[h] y[h, 0..rank]
 *
 * so that q k = (q W_k) c and W_v c is the value. A row's bits depend on nothing else in the step:
 * the sum over `nope` goes in increasing order by fma, that over `rank` as linear's does.
 *
 * Scales of W in tensors of their own are those of kernels/args/linear.h.
 * Grid: latent_append (rows); latent_query, latent_value (row tiles, heads).
 */
#ifndef MTR_ARGS_LATENT_H
#define MTR_ARGS_LATENT_H

#include "kernels/args/step.h"

#define MTR_LATENT_TILE_ROWS 16
#define MTR_LATENT_MAX_RANK  1024 /* that a host kernel's scratch has room for */
#define MTR_LATENT_MAX_DIM   1152 /* rank and rotated columns, in attention */
#define MTR_LATENT_HEADS     8    /* heads that a block of attention takes at most */

struct mtr_latent_append_args {
    const struct mtr_step_view *step;
    const void *kv;     /* [tokens, rank + 2 * pairs] activations */
    const void *norm;   /* [rank] */
    const float *table; /* [tokens, 2 * pairs] */
    void *cache;        /* [blocks, block_tokens, rank + 2 * pairs], of the point's format */
    uint32_t group;     /* of step->tables */
    uint32_t rank, pairs;
    uint32_t interleaved;
    uint32_t block_tokens;
    float eps;
    float unit_offset;
};

/* Of latent_query and latent_value. */
struct mtr_latent_heads_args {
    const struct mtr_step_view *step;
    const void *x;            /* [tokens, heads, x_dim] activations; query: nope + 2 * pairs */
    const void *weight;       /* [heads * (nope + value), rank] in the point's weight format */
    const void *scale;        /* by the point's scaling, or NULL */
    const void *global_scale; /* [1] f32, or NULL */
    const float *table;       /* query: [tokens, 2 * pairs] */
    void *y;                  /* query: [tokens, heads, rank + 2 * pairs]; [tokens, heads, value] */
    uint32_t heads, nope, value, rank, pairs;
    uint32_t x_dim;
    uint32_t interleaved;
    float query_beta; /* 0: off */
    uint32_t query_length;
};

#endif
