/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What stands around attention over latents: cache entries, queries, values.
 *
 * A block takes a tile of rows and one head. Each row of the head's matrix is decoded once and used
 * for all rows of the tile: added to their queries, times a column of q; or multiplied with what
 * they found, which gives a column of the value. Compiled once for each format of the matrix, as
 * linear.c is.
 */
#include "kernels/args/latent.h"

#include <math.h>

#include "kernels/host/rotate.h"
#include "kernels/host/rows.h"
#include "kernels/host/scaled.h"

#define MAX_RANK MTR_LATENT_MAX_RANK

struct scratch {
    _Alignas(64) uint8_t raw[MAX_RANK]; /* of scales */
    _Alignas(64) float scales[MAX_RANK];
    _Alignas(64) float row[MAX_RANK];
};

_Static_assert(sizeof(struct scratch) <= MTR_HOST_SCRATCH_BYTES, "a row fits into the scratch");

/* ---- the matrix ---- */

/* Row n of the matrix as f32, in s->row. */
MTR_INLINE void take_row(enum mtr_format f, enum mtr_scaling scaling,
                         const struct mtr_latent_heads_args *a, size_t n, struct scratch *s)
{
    size_t k = a->rank;
    const uint8_t *row = (const uint8_t *)a->weight + n * row_bytes(f, k);
    if (scaling != MTR_SCALING_NONE) {
        struct mtr_linear_part part = {.scale = a->scale, .global_scale = a->global_scale};
        prepare_scaled(scaling, &part, n, 1, k, s->scales);
        scaled_row(f, scaling, row, k, s->scales, s->row);
        return;
    }
    if (!is_plain(f)) {
        collect_scales(f, row, k, s->raw);
        widen_scales(f, s->raw, k, s->scales);
    }
    decode_row(f, row, k, s->scales, s->row);
}

/* y += x * row */
static void add_row(float x, const float *row, size_t k, float *y)
{
    for (size_t i = 0; i < k; i += 16) {
        size_t n = k - i < 16 ? k - i : 16;
        vf_store_n(y + i, vf_fma(vf_set1(x), vf_load(row + i), vf_load_n(y + i, n)), n);
    }
}

/* The row is padded with zeros; x is not. */
static float dot_row(const float *row, const float *x, size_t k)
{
    vf acc = vf_zero();
    for (size_t i = 0; i < k; i += 16)
        acc = vf_fma(vf_load(row + i), vf_load_n(x + i, k - i < 16 ? k - i : 16), acc);
    return vf_sum(acc);
}

/* ---- queries ---- */

/* The rotated part, and the factor of the position on all of it. */
static void finish_query(const struct mtr_latent_heads_args *a, uint32_t r, const float *x,
                         float *y)
{
    const float *cosine = a->table + (size_t)r * 2 * a->pairs;
    uint32_t position = (uint32_t)a->step->positions[r];
    memcpy(y + a->rank, x + a->nope, 2 * (size_t)a->pairs * sizeof *y);
    rotate(a->interleaved, y + a->rank, cosine, cosine + a->pairs, a->pairs);
    if (a->query_beta == 0.0f || position < a->query_length)
        return;
    double stretch = log1p((double)(position / a->query_length));
    vf factor = vf_set1((float)(1.0 + (double)a->query_beta * stretch));
    for (size_t i = 0; i < a->rank + 2 * a->pairs; i += 16) {
        size_t n = a->rank + 2 * a->pairs - i < 16 ? a->rank + 2 * a->pairs - i : 16;
        vf_store_n(y + i, vf_mul(vf_load_n(y + i, n), factor), n);
    }
}

MTR_INLINE void query_tile(enum mtr_format f, enum mtr_scaling scaling,
                           const struct mtr_latent_heads_args *a, uint32_t head, uint32_t first,
                           uint32_t end, struct scratch *s)
{
    size_t x_row = (size_t)a->heads * a->x_dim, dim = a->rank + 2 * (size_t)a->pairs;
    size_t y_row = a->heads * dim;
    const float *x = (const float *)a->x + (size_t)head * a->x_dim;
    float *y = (float *)a->y + head * dim;
    for (uint32_t r = first; r < end; r++)
        memset(y + r * y_row, 0, a->rank * sizeof *y);
    for (uint32_t d = 0; d < a->nope; d++) {
        take_row(f, scaling, a, (size_t)head * (a->nope + a->value) + d, s);
        for (uint32_t r = first; r < end; r++)
            add_row(x[r * x_row + d], s->row, a->rank, y + r * y_row);
    }
    for (uint32_t r = first; r < end; r++)
        finish_query(a, r, x + r * x_row, y + r * y_row);
}

/* ---- values ---- */

MTR_INLINE void value_tile(enum mtr_format f, enum mtr_scaling scaling,
                           const struct mtr_latent_heads_args *a, uint32_t head, uint32_t first,
                           uint32_t end, struct scratch *s)
{
    const float *x = (const float *)a->x + (size_t)head * a->x_dim;
    float *y = (float *)a->y + (size_t)head * a->value;
    for (uint32_t d = 0; d < a->value; d++) {
        take_row(f, scaling, a, (size_t)head * (a->nope + a->value) + a->nope + d, s);
        for (uint32_t r = first; r < end; r++)
            y[(size_t)r * a->heads * a->value + d] =
                dot_row(s->row, x + (size_t)r * a->heads * a->x_dim, a->rank);
    }
}

/* ---- the grid ---- */

MTR_INLINE void heads(bool query, const struct mtr_latent_heads_args *a,
                      const struct mtr_host_block *block)
{
    const enum mtr_format f = MTR_LATENT_FORMAT;
    const enum mtr_scaling scaling = MTR_LATENT_SCALING;
    uint32_t tokens = a->step->tokens, step = block->grid_x * MTR_LATENT_TILE_ROWS;
    for (uint32_t head = block->y; head < a->heads; head += block->grid_y)
        for (uint32_t r = block->x * MTR_LATENT_TILE_ROWS; r < tokens; r += step) {
            uint32_t end = tokens - r < MTR_LATENT_TILE_ROWS ? tokens : r + MTR_LATENT_TILE_ROWS;
            if (query)
                query_tile(f, scaling, a, head, r, end, block->scratch);
            else
                value_tile(f, scaling, a, head, r, end, block->scratch);
        }
}

void MTR_HOST_FN(MTR_LATENT_QUERY)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(MTR_LATENT_QUERY)(const void *args, const struct mtr_host_block *block)
{
    heads(true, args, block);
}

void MTR_HOST_FN(MTR_LATENT_VALUE)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(MTR_LATENT_VALUE)(const void *args, const struct mtr_host_block *block)
{
    heads(false, args, block);
}
