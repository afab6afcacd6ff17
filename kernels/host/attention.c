/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Causal attention over a paged cache.
 *
 * The history of a row is cut at absolute multiples of MTR_ATTENTION_STRETCH. Each stretch is
 * worth, for each head,
 *
 *   m = max s[t]        l = sum p[t], p[t] = exp(s[t] - m)        o = sum p[t] V[t]
 *
 * over the row's visible tokens of the stretch alone (s by the dot product of host_kernel.h; l in
 * sixteen lanes and their tree, lane t mod 16; o in increasing t), and the stretches are folded in
 * order:
 *
 *   M' = max(M, m)    a = exp(M - M')    b = exp(m - M')    L' = L a + l b    O' = O a + o b
 *
 * with the first stretch taken as it is, and the sink logit, where there is one, counted in L at
 * the end. Nothing of this depends on which rows share a step.
 *
 * A block of the grid takes one kv head and a tile of rows. Runs of rows of one lane go over the
 * history together, so that a stretch of the cache is read, and converted to f32, once for the run
 * and for all query heads of the kv head.
 */
#include "kernels/args/attention.h"

#include <math.h>

#include "common/numeric/numeric.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

#define STRETCH MTR_ATTENTION_STRETCH
#define GROUP   16 /* tokens whose scores make one vector */
#define GROUPS  (STRETCH / GROUP)
#define CHUNK   4 /* vectors of the head that are accumulated at once */

/* Running result of one row and head; the values follow. */
struct fold {
    float max, sum;
};

/* A run of rows of one lane, and where its stretches are. */
struct run {
    const struct mtr_attention_args *args;
    const int32_t *table;               /* block ids of the lane */
    uint32_t kv_head, row, rows, group; /* group: query heads of the kv head */
    size_t dim;
    const float *k[GROUPS], *v[GROUPS]; /* [GROUP, dim] of the stretch at hand */
    float *k_copy, *v_copy;             /* [STRETCH, dim] converted */
    float *piece;                       /* [dim] result of the stretch */
    struct fold *folds;                 /* [rows, group] */
    float *values;                      /* [rows, group, dim] */
};

/* ---- a stretch of the cache as f32 ---- */

MTR_INLINE const float *convert(enum mtr_format cache, const void *base, size_t at, size_t count,
                                float *copy)
{
    if (cache == MTR_F32)
        return (const float *)base + at;
    const uint16_t *from = (const uint16_t *)base + at;
    size_t i;
    for (i = 0; i + 16 <= count; i += 16)
        vf_store(copy + i, vf_load_bf16(from + i));
    for (; i < count; i++)
        copy[i] = mtr_bf16_to_f32(from[i]);
    return copy;
}

/* Loads the groups of the stretch that hold tokens of [first, end). */
MTR_INLINE void load_stretch(enum mtr_format cache, struct run *run, uint32_t first, uint32_t end)
{
    const struct mtr_attention_args *a = run->args;
    for (uint32_t t = first / GROUP * GROUP; t < end; t += GROUP) {
        size_t block = (size_t)run->table[t / a->block_tokens];
        size_t token = (block * a->kv_heads + run->kv_head) * a->block_tokens + t % a->block_tokens;
        uint32_t g = t % STRETCH / GROUP;
        size_t count = GROUP * run->dim, copy = g * count;
        run->k[g] = convert(cache, a->k_cache, token * run->dim, count, run->k_copy + copy);
        run->v[g] = convert(cache, a->v_cache, token * run->dim, count, run->v_copy + copy);
    }
}

/* ---- one row and head in one stretch ---- */

/* q . K[0..15] */
static vf dot16(const float *q, const float *k, size_t dim)
{
    vf acc[GROUP];
    MTR_UNROLL(16)
    for (int t = 0; t < GROUP; t++)
        acc[t] = vf_zero();
    size_t i;
    for (i = 0; i + 16 <= dim; i += 16) {
        vf qv = vf_load(q + i);
        MTR_UNROLL(16)
        for (int t = 0; t < GROUP; t++)
            acc[t] = vf_fma(qv, vf_load(k + (size_t)t * dim + i), acc[t]);
    }
    if (i < dim) {
        vf qv = vf_load_n(q + i, dim - i);
        for (int t = 0; t < GROUP; t++)
            acc[t] = vf_fma(qv, vf_load_n(k + (size_t)t * dim + i, dim - i), acc[t]);
    }
    return vf_sum16(acc);
}

/* Scores of tokens [first, end) of the stretch into p, -inf outside; returns their maximum. */
static float scores(const struct run *run, const float *q, uint32_t first, uint32_t end, vf *p)
{
    const struct mtr_attention_args *a = run->args;
    const vf nothing = vf_set1(-INFINITY);
    vf top = nothing;
    for (uint32_t g = 0; g < GROUPS; g++) {
        p[g] = nothing;
        if (g * GROUP >= end || (g + 1) * GROUP <= first)
            continue;
        vf s = vf_mul(dot16(q, run->k[g], run->dim), vf_set1(a->scale));
        if (a->softcap != 0.0f)
            s = vf_mul(vf_tanh(vf_div(s, vf_set1(a->softcap))), vf_set1(a->softcap));
        vf at = vf_add(vf_iota(), vf_set1((float)(g * GROUP)));
        s = vf_less(at, vf_set1((float)end), s, nothing);
        p[g] = vf_less(at, vf_set1((float)first), nothing, s);
        top = vf_max(top, p[g]);
    }
    return vf_maximum(top);
}

/* piece = sum of p[t] V[t], t in [first, end) */
static void weigh(const struct run *run, const float *p, uint32_t first, uint32_t end)
{
    size_t dim = run->dim, i;
    for (i = 0; i + 16 * CHUNK <= dim; i += 16 * CHUNK) {
        vf acc[CHUNK];
        for (int c = 0; c < CHUNK; c++)
            acc[c] = vf_zero();
        for (uint32_t t = first; t < end; t++) {
            const float *v = run->v[t / GROUP] + t % GROUP * dim + i;
            vf pt = vf_set1(p[t]);
            for (int c = 0; c < CHUNK; c++)
                acc[c] = vf_fma(pt, vf_load(v + 16 * c), acc[c]);
        }
        for (int c = 0; c < CHUNK; c++)
            vf_store(run->piece + i + 16 * c, acc[c]);
    }
    for (; i < dim; i += 16) {
        size_t n = dim - i < 16 ? dim - i : 16;
        vf acc = vf_zero();
        for (uint32_t t = first; t < end; t++)
            acc = vf_fma(vf_set1(p[t]), vf_load_n(run->v[t / GROUP] + t % GROUP * dim + i, n), acc);
        vf_store_n(run->piece + i, acc, n);
    }
}

static float exp_of(float x)
{
    float out[16];
    vf_store(out, vf_exp(vf_set1(x)));
    return out[0];
}

static void fold_piece(const struct run *run, struct fold *f, float *values, float m, float l)
{
    if (f->max == -INFINITY) {
        *f = (struct fold){m, l};
        memcpy(values, run->piece, run->dim * sizeof *values);
        return;
    }
    float top = f->max > m ? f->max : m;
    float a = exp_of(f->max - top), b = exp_of(m - top);
    float kept = f->sum * a, added = l * b;
    *f = (struct fold){top, kept + added};
    for (size_t i = 0; i < run->dim; i += 16) {
        size_t n = run->dim - i < 16 ? run->dim - i : 16;
        vf old = vf_mul(vf_load_n(values + i, n), vf_set1(a));
        vf_store_n(values + i, vf_fma(vf_load_n(run->piece + i, n), vf_set1(b), old), n);
    }
}

/* Tokens [first, end) of the stretch for one row and head. */
static void attend(const struct run *run, const float *q, uint32_t first, uint32_t end,
                   struct fold *fold, float *values)
{
    vf p[GROUPS], l = vf_zero();
    float m = scores(run, q, first, end, p), weights[STRETCH];
    for (uint32_t g = 0; g < GROUPS; g++) {
        p[g] = vf_exp(vf_sub(p[g], vf_set1(m)));
        l = vf_add(l, p[g]);
        vf_store(weights + g * GROUP, p[g]);
    }
    weigh(run, weights, first, end);
    fold_piece(run, fold, values, m, vf_sum(l));
}

/* ---- a run of rows ---- */

static uint32_t first_visible(const struct mtr_attention_args *a, uint32_t position)
{
    return a->window && position >= a->window ? position - a->window + 1 : 0;
}

static const float *query(const struct run *run, uint32_t r)
{
    const struct mtr_attention_args *a = run->args;
    return (const float *)a->q +
           ((size_t)(run->row + r) * a->heads + (size_t)run->kv_head * run->group) * run->dim;
}

/* The rows of the run that see something of the stretch that starts at `start`. */
static void run_stretch(const struct run *run, uint32_t start)
{
    const int32_t *positions = run->args->step->positions + run->row;
    for (uint32_t r = 0; r < run->rows; r++) {
        uint32_t position = (uint32_t)positions[r], first = first_visible(run->args, position);
        uint32_t from = first > start ? first - start : 0;
        uint32_t end = position + 1 < start + STRETCH ? position + 1 : start + STRETCH;
        if (end <= start + from)
            continue;
        for (uint32_t h = 0; h < run->group; h++) {
            size_t at = r * run->group + h;
            attend(run, query(run, r) + h * run->dim, from, end - start, &run->folds[at],
                   run->values + at * run->dim);
        }
    }
}

static void finish(const struct run *run)
{
    const struct mtr_attention_args *a = run->args;
    for (uint32_t r = 0; r < run->rows; r++)
        for (uint32_t h = 0; h < run->group; h++) {
            size_t at = r * run->group + h;
            uint32_t head = run->kv_head * run->group + h;
            struct fold f = run->folds[at];
            float kept = 1.0f;
            if (a->sinks) {
                float top = f.max > a->sinks[head] ? f.max : a->sinks[head];
                kept = exp_of(f.max - top);
                float sink = exp_of(a->sinks[head] - top), sum = f.sum * kept;
                f.sum = sum + sink;
            }
            vf scale = vf_set1(kept / f.sum);
            float *out = (float *)a->out + ((size_t)(run->row + r) * a->heads + head) * run->dim;
            const float *values = run->values + at * run->dim;
            for (size_t i = 0; i < run->dim; i += 16) {
                size_t n = run->dim - i < 16 ? run->dim - i : 16;
                vf_store_n(out + i, vf_mul(vf_load_n(values + i, n), scale), n);
            }
        }
}

MTR_INLINE void run_rows(enum mtr_format cache, struct run *run)
{
    const struct mtr_step_view *step = run->args->step;
    uint32_t slot = (uint32_t)step->lane_slots[step->token_lanes[run->row]];
    run->table =
        step->tables[run->args->group] + (size_t)slot * step->table_stride[run->args->group];
    for (size_t i = 0; i < (size_t)run->rows * run->group; i++)
        run->folds[i] = (struct fold){-INFINITY, 0.0f};
    uint32_t last = (uint32_t)step->positions[run->row + run->rows - 1];
    uint32_t first = first_visible(run->args, (uint32_t)step->positions[run->row]);
    for (uint32_t start = first / STRETCH * STRETCH; start <= last; start += STRETCH) {
        uint32_t end = last + 1 < start + STRETCH ? last + 1 : start + STRETCH;
        load_stretch(cache, run, first > start ? first : start, end);
        run_stretch(run, start);
    }
    finish(run);
}

/* ---- the grid ---- */

_Static_assert(sizeof(float) * (2 * STRETCH + 1 + MTR_ATTENTION_MAX_GROUP) * MTR_ATTENTION_MAX_DIM +
                       sizeof(struct fold) * MTR_ATTENTION_MAX_GROUP <=
                   MTR_HOST_SCRATCH_BYTES,
               "the scratch holds at least one row");

/* Lays the run's memory out in the scratch; returns how many rows it has room for. */
static uint32_t lay_out(struct run *run, void *scratch)
{
    float *p = scratch;
    size_t padded = (run->dim + 15) / 16 * 16;
    run->k_copy = p;
    run->v_copy = run->k_copy + STRETCH * run->dim;
    run->piece = run->v_copy + STRETCH * run->dim;
    p = run->piece + padded;
    size_t used = (size_t)((char *)p - (char *)scratch);
    size_t row = run->group * (run->dim * sizeof(float) + sizeof(struct fold));
    size_t rows = (MTR_HOST_SCRATCH_BYTES - used) / row;
    run->values = p;
    run->folds = (struct fold *)(void *)(p + rows * run->group * run->dim);
    return (uint32_t)rows;
}

MTR_INLINE void attention(enum mtr_format cache, const struct mtr_attention_args *args,
                          const struct mtr_host_block *block)
{
    const struct mtr_step_view *step = args->step;
    struct run run = {.args = args, .group = args->heads / args->kv_heads, .dim = args->head_dim};
    uint32_t tile = (step->tokens + block->grid_y - 1) / block->grid_y;
    uint32_t room = lay_out(&run, block->scratch);
    uint32_t begin = block->y * tile;
    uint32_t end = begin + tile < step->tokens ? begin + tile : step->tokens;
    for (run.kv_head = block->x; run.kv_head < args->kv_heads; run.kv_head += block->grid_x)
        for (run.row = begin; run.row < end; run.row += run.rows) {
            int32_t lane = step->token_lanes[run.row];
            for (run.rows = 1; run.rows < room && run.row + run.rows < end; run.rows++)
                if (step->token_lanes[run.row + run.rows] != lane)
                    break;
            run_rows(cache, &run);
        }
}

void MTR_HOST_FN(attention_f32)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(attention_f32)(const void *args, const struct mtr_host_block *block)
{
    attention(MTR_F32, args, block);
}

void MTR_HOST_FN(attention_bf16)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(attention_bf16)(const void *args, const struct mtr_host_block *block)
{
    attention(MTR_BF16, args, block);
}
