/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The gated delta rule, token after token.
 *
 * Columns of a head's matrix S do not touch one another, so a block takes a few of them through all
 * rows of a lane: what S holds of them stays in the first cache, and where the lane has more than
 * one row it stands in scratch, packed. Two passes over it for a token: one asks what S says of the
 * key, one writes and asks for the query's answer.
 *
 * A chunk of tokens at a time, as devices with matrix instructions do it, is more arithmetic here
 * and no fewer loads; and this way prefill and decode are the same sums.
 */
#include "kernels/args/delta.h"

#include <math.h>

#include "kernels/host/dequant.h"
#include "kernels/host/rms.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

void MTR_HOST_FN(delta_gate)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(delta_gate)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_delta_gate_args *args = arguments;
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x)
        for (uint32_t h = 0; h < args->heads; h += 16) {
            size_t n = args->heads - h < 16 ? args->heads - h : 16;
            size_t at = (size_t)r * args->heads + h;
            vf a =
                vf_add(vf_load_n((const float *)args->a + at, n), vf_load_n(args->dt_bias + h, n));
            vf rate = vf_mul(vf_exp(vf_load_n(args->a_log + h, n)), vf_softplus(a));
            vf_store_n(args->decay + at, vf_exp(vf_neg(rate)), n);
            vf_store_n(args->beta + at, vf_sigmoid(vf_load_n((const float *)args->b + at, n)), n);
        }
}

/* A token as a head sees it. */
struct token {
    float *q, *k, *decay; /* [dim] */
    float beta;
    const float *v; /* of the columns at hand */
    float *y;
};

/* Columns of S: row i of them at s + i * stride. */
struct columns {
    float *s;
    size_t stride;
    uint32_t dim;
    size_t n; /* of the last vector, the others are full */
};

MTR_INLINE vf load_part(const float *p, uint32_t vector, uint32_t vectors, size_t n)
{
    return vector + 1 < vectors || n == 16 ? vf_load(p + vector * 16)
                                           : vf_load_n(p + vector * 16, n);
}

MTR_INLINE void store_part(float *p, vf v, uint32_t vector, uint32_t vectors, size_t n)
{
    if (vector + 1 < vectors || n == 16)
        vf_store(p + vector * 16, v);
    else
        vf_store_n(p + vector * 16, v, n);
}

/* Row i of S asked for the key's value. */
MTR_INLINE void ask_row(const struct columns *c, const struct token *t, uint32_t i,
                        uint32_t vectors, vf *sum)
{
    const vf k = vf_set1(t->k[i]), decay = vf_set1(t->decay[i]);
    const float *row = c->s + i * c->stride;
    MTR_UNROLL(4)
    for (uint32_t j = 0; j < vectors; j++)
        sum[j] = vf_fma(k, vf_mul(load_part(row, j, vectors, c->n), decay), sum[j]);
}

/* delta = beta * (v - k^T (decay S)) */
MTR_INLINE void find_delta(const struct columns *c, const struct token *t, uint32_t vectors,
                           vf *delta)
{
    vf even[MTR_DELTA_TILE / 16], odd[MTR_DELTA_TILE / 16];
    uint32_t i;
    for (uint32_t j = 0; j < vectors; j++)
        even[j] = odd[j] = vf_zero();
    for (i = 0; i + 2 <= c->dim; i += 2) {
        ask_row(c, t, i, vectors, even);
        ask_row(c, t, i + 1, vectors, odd);
    }
    if (i < c->dim)
        ask_row(c, t, i, vectors, even);
    for (uint32_t j = 0; j < vectors; j++) {
        vf wrong = vf_sub(load_part(t->v, j, vectors, c->n), vf_add(even[j], odd[j]));
        delta[j] = vf_mul(wrong, vf_set1(t->beta));
    }
}

/* Row i of S learns, and answers the query. */
MTR_INLINE void write_row(const struct columns *c, const struct token *t, uint32_t i,
                          uint32_t vectors, const vf *delta, vf *sum)
{
    const vf k = vf_set1(t->k[i]), decay = vf_set1(t->decay[i]), q = vf_set1(t->q[i]);
    float *row = c->s + i * c->stride;
    MTR_UNROLL(4)
    for (uint32_t j = 0; j < vectors; j++) {
        vf s = vf_fma(k, delta[j], vf_mul(load_part(row, j, vectors, c->n), decay));
        store_part(row, s, j, vectors, c->n);
        sum[j] = vf_fma(q, s, sum[j]);
    }
}

/* S = decay S + k delta^T, y = q^T S */
MTR_INLINE void learn(const struct columns *c, const struct token *t, uint32_t vectors,
                      const vf *delta)
{
    vf even[MTR_DELTA_TILE / 16], odd[MTR_DELTA_TILE / 16];
    uint32_t i;
    for (uint32_t j = 0; j < vectors; j++)
        even[j] = odd[j] = vf_zero();
    for (i = 0; i + 2 <= c->dim; i += 2) {
        write_row(c, t, i, vectors, delta, even);
        write_row(c, t, i + 1, vectors, delta, odd);
    }
    if (i < c->dim)
        write_row(c, t, i, vectors, delta, even);
    for (uint32_t j = 0; j < vectors; j++)
        store_part(t->y, vf_add(even[j], odd[j]), j, vectors, c->n);
}

MTR_INLINE void step_columns(const struct columns *c, const struct token *t, uint32_t vectors)
{
    vf delta[MTR_DELTA_TILE / 16];
    find_delta(c, t, vectors, delta);
    learn(c, t, vectors, delta);
}

/* The tile's columns; a full tile has its own code. */
static void step_tile(struct columns *c, const struct token *t, uint32_t cols)
{
    c->n = cols % 16 ? cols % 16 : 16;
    switch ((cols + 15) / 16) {
    case 4:
        step_columns(c, t, 4);
        break;
    case 3:
        step_columns(c, t, 3);
        break;
    case 2:
        step_columns(c, t, 2);
        break;
    default:
        step_columns(c, t, 1);
    }
}

/* to = from * factor, and of length `factor` where eps says so */
static void take_head(const float *from, uint32_t dim, float eps, float factor, float *to)
{
    if (eps >= 0)
        factor *= 1.0f / sqrtf(mtr_square_sum(from, dim) + eps);
    for (uint32_t i = 0; i < dim; i += 16) {
        size_t n = dim - i < 16 ? dim - i : 16;
        vf_store_n(to + i, vf_mul(vf_load_n(from + i, n), vf_set1(factor)), n);
    }
}

/* What row r is to a head and the tile's columns from `first` on. */
static void take_token(const struct mtr_delta_rule_args *args, uint32_t r, uint32_t head,
                       uint32_t first, struct token *t)
{
    uint32_t dim = args->head_dim, keys = args->key_heads * dim;
    size_t row = 2 * (size_t)keys + (size_t)args->heads * args->value_dim;
    const float *q = (const float *)args->qkv + r * row;
    size_t key = (size_t)(head / (args->heads / args->key_heads)) * dim;
    size_t value = (size_t)head * args->value_dim + first, number = (size_t)r * args->heads + head;
    take_head(q + key, dim, args->eps, args->scale, t->q);
    take_head(q + keys + key, dim, args->eps, 1, t->k);
    for (uint32_t i = 0; i < dim; i++)
        t->decay[i] = args->decays == 1 ? args->decay[number] : args->decay[number * dim + i];
    t->beta = args->beta[number];
    t->v = q + 2 * (size_t)keys + value;
    t->y = (float *)args->y + (size_t)r * args->heads * args->value_dim + value;
}

static void copy_columns(float *to, size_t to_stride, const float *from, size_t from_stride,
                         uint32_t rows, uint32_t cols)
{
    for (uint32_t i = 0; i < rows; i++)
        memcpy(to + i * to_stride, from + i * from_stride, cols * sizeof *to);
}

static void run_lane(const struct mtr_delta_rule_args *args, uint32_t lane, uint32_t head,
                     uint32_t first, float *scratch)
{
    const struct mtr_step_view *step = args->step;
    uint32_t dim = args->head_dim, cols = args->value_dim - first;
    uint32_t row = (uint32_t)step->lane_rows[lane], end = (uint32_t)step->lane_rows[lane + 1];
    struct token t = {
        .q = scratch, .k = scratch + MTR_DELTA_MAX_DIM, .decay = scratch + 2 * MTR_DELTA_MAX_DIM};
    float *packed = scratch + 3 * MTR_DELTA_MAX_DIM;
    size_t at = (size_t)step->lane_slots[lane] * args->heads + head;
    float *state = args->state + at * dim * args->value_dim + first;
    struct columns c = {.s = state, .stride = args->value_dim, .dim = dim};
    cols = cols < MTR_DELTA_TILE ? cols : MTR_DELTA_TILE;
    if (end - row > 1) {
        c.s = packed;
        c.stride = MTR_DELTA_TILE;
        copy_columns(packed, MTR_DELTA_TILE, state, args->value_dim, dim, cols);
    }
    for (; row < end; row++) {
        take_token(args, row, head, first, &t);
        step_tile(&c, &t, cols);
    }
    if (c.s == packed)
        copy_columns(state, args->value_dim, packed, MTR_DELTA_TILE, dim, cols);
}

void MTR_HOST_FN(delta_rule)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(delta_rule)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_delta_rule_args *args = arguments;
    uint32_t tiles = (args->value_dim + MTR_DELTA_TILE - 1) / MTR_DELTA_TILE;
    for (uint32_t t = block->x; t < args->heads * tiles; t += block->grid_x)
        for (uint32_t lane = block->y; lane < args->step->lanes; lane += block->grid_y)
            run_lane(args, lane, t / tiles, t % tiles * MTR_DELTA_TILE, block->scratch);
}
