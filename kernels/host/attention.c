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
 * history together, a stretch at a time: scores of all rows and query heads against the keys,
 * sixteen tokens at a time; then weights; then values. So a stretch of the cache is read, and
 * converted to f32, once for the run, and what is worked on fits the first-level cache. The stretch
 * after it is prefetched: blocks lie anywhere, and no hardware foresees them.
 */
#include "kernels/args/attention.h"
#include "kernels/args/latent.h"

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

/* A run of rows of one lane. */
struct run {
    const struct mtr_attention_args *args;
    const int32_t *table;               /* block ids of the lane */
    uint32_t kv_head, row, rows, group; /* group: query heads of the kv head */
    uint32_t cache_head, cache_heads;   /* where the cache has it */
    uint32_t end;                       /* tokens that the lane has: last position + 1 */
    size_t dim;
    float *copy;        /* [STRETCH, dim] converted keys or values */
    float *piece;       /* [dim] result of the stretch */
    float *weights;     /* [rows, group, STRETCH] scores, then weights */
    struct fold *folds; /* [rows, group] */
    float *values;      /* [rows, group, dim] */
};

/* Tokens of a stretch that a row sees, relative to its start. */
struct span {
    uint32_t first, end;
};

/* ---- the cache ---- */

/* Elements before token t of the cache, a multiple of GROUP. */
static inline size_t cache_at(const struct run *run, uint32_t t)
{
    const struct mtr_attention_args *a = run->args;
    size_t block = (size_t)run->table[t / a->block_tokens];
    return ((block * run->cache_heads + run->cache_head) * a->block_tokens + t % a->block_tokens) *
           run->dim;
}

/* Tokens [t, t + GROUP) as f32 [GROUP, dim], where they are or converted into `copy`. */
MTR_INLINE const float *load_group(enum mtr_format cache, const struct run *run, const void *base,
                                   uint32_t t, float *copy)
{
    size_t at = cache_at(run, t), count = GROUP * run->dim, i;
    if (cache == MTR_F32)
        return (const float *)base + at;
    const uint16_t *from = (const uint16_t *)base + at;
    for (i = 0; i < count; i += 16) /* GROUP rows: whole vectors */
        vf_store(copy + i, vf_load_bf16(from + i));
    return copy;
}

MTR_INLINE void prefetch_group(enum mtr_format cache, const struct run *run, const void *base,
                               uint32_t t)
{
    if (t >= run->end)
        return;
    size_t element = cache == MTR_F32 ? 4 : 2, bytes = GROUP * run->dim * element;
    const char *p = (const char *)base + cache_at(run, t) * element;
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

/* ---- scores ---- */

/* q . K[0..15]; dim is a constant where that is worth code */
MTR_INLINE vf dot16(const float *q, const float *k, size_t dim)
{
    vf acc[GROUP];
    MTR_UNROLL(16)
    for (int t = 0; t < GROUP; t++)
        acc[t] = vf_zero();
    size_t i;
    MTR_UNROLL(8)
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

static vf dot16_any(const float *q, const float *k, size_t dim)
{
    return dim == 64 ? dot16(q, k, 64) : dim == 128 ? dot16(q, k, 128) : dot16(q, k, dim);
}

/* Scores of group g for one row and head, -inf for what the row does not see. */
static vf group_scores(const struct run *run, const float *q, const float *k, uint32_t g,
                       struct span see)
{
    const struct mtr_attention_args *a = run->args;
    const vf nothing = vf_set1(-INFINITY);
    vf s = vf_mul(dot16_any(q, k, run->dim), vf_set1(a->scale));
    if (a->softcap != 0.0f)
        s = vf_mul(vf_tanh(vf_div(s, vf_set1(a->softcap))), vf_set1(a->softcap));
    if (see.first <= g * GROUP && (g + 1) * GROUP <= see.end)
        return s;
    vf at = vf_add(vf_iota(), vf_set1((float)(g * GROUP)));
    s = vf_less(at, vf_set1((float)see.end), s, nothing);
    return vf_less(at, vf_set1((float)see.first), nothing, s);
}

static struct span visible(const struct run *run, uint32_t r, uint32_t start)
{
    const struct mtr_attention_args *a = run->args;
    uint32_t position = (uint32_t)a->step->positions[run->row + r];
    uint32_t first = a->window && position >= a->window ? position - a->window + 1 : 0;
    uint32_t end = position + 1 < start + STRETCH ? position + 1 : start + STRETCH;
    struct span see = {first > start ? first - start : 0, end > start ? end - start : 0};
    return see;
}

static void score_group(const struct run *run, uint32_t start, uint32_t g, const float *k)
{
    const struct mtr_attention_args *a = run->args;
    size_t row = (size_t)a->heads * run->dim;
    const float *q = (const float *)a->q + run->row * row + run->kv_head * run->group * run->dim;
    float *w = run->weights + g * GROUP;
    for (uint32_t r = 0; r < run->rows; r++, q += row) {
        struct span see = visible(run, r, start);
        bool seen = see.first < (g + 1) * GROUP && g * GROUP < see.end;
        for (uint32_t h = 0; h < run->group; h++, w += STRETCH)
            vf_store(w, seen ? group_scores(run, q + h * run->dim, k, g, see) : vf_set1(-INFINITY));
    }
}

/* ---- values ---- */

static float exp_of(float x)
{
    float out[16];
    vf_store(out, vf_exp(vf_set1(x)));
    return out[0];
}

/* Scores to weights in place; returns their maximum and sum. */
static struct fold softmax(float *w)
{
    vf s[GROUPS], top = vf_set1(-INFINITY), sum = vf_zero();
    for (int g = 0; g < GROUPS; g++) {
        s[g] = vf_load(w + g * GROUP);
        top = vf_max(top, s[g]);
    }
    float m = vf_maximum(top);
    for (int g = 0; g < GROUPS; g++) {
        vf p = vf_exp(vf_sub(s[g], vf_set1(m)));
        sum = vf_add(sum, p);
        vf_store(w + g * GROUP, p);
    }
    return (struct fold){m, vf_sum(sum)};
}

/* out [16 * CHUNK] = sum of p[t] V[t] over the span, at one place of the head */
MTR_INLINE void weigh_chunk(const float *p, const float *const *v, struct span see, size_t dim,
                            float *out)
{
    vf acc[CHUNK];
    MTR_UNROLL(4)
    for (int c = 0; c < CHUNK; c++)
        acc[c] = vf_zero();
    for (uint32_t t = see.first; t < see.end;) {
        const float *row = v[t / GROUP] + t % GROUP * dim;
        uint32_t end = (t / GROUP + 1) * GROUP < see.end ? (t / GROUP + 1) * GROUP : see.end;
        for (; t < end; t++, row += dim) {
            vf weight = vf_set1(p[t]);
            MTR_UNROLL(4)
            for (int c = 0; c < CHUNK; c++)
                acc[c] = vf_fma(weight, vf_load(row + 16 * c), acc[c]);
        }
    }
    MTR_UNROLL(4)
    for (int c = 0; c < CHUNK; c++)
        vf_store(out + 16 * c, acc[c]);
}

/* v: [GROUP, dim] of each group. */
static void weigh(const struct run *run, const float *p, const float *const *v, struct span see)
{
    size_t dim = run->dim, i;
    for (i = 0; i + 16 * CHUNK <= dim; i += 16 * CHUNK) {
        const float *at[GROUPS];
        for (int g = 0; g < GROUPS; g++)
            at[g] = v[g] + i;
        weigh_chunk(p, at, see, dim, run->piece + i);
    }
    for (; i < dim; i += 16) {
        size_t n = dim - i < 16 ? dim - i : 16;
        vf acc = vf_zero();
        for (uint32_t t = see.first; t < see.end; t++)
            acc = vf_fma(vf_set1(p[t]), vf_load_n(v[t / GROUP] + t % GROUP * dim + i, n), acc);
        vf_store_n(run->piece + i, acc, n);
    }
}

static void fold_piece(const struct run *run, struct fold *f, float *values, struct fold piece)
{
    if (f->max == -INFINITY) {
        *f = piece;
        memcpy(values, run->piece, run->dim * sizeof *values);
        return;
    }
    float top = f->max > piece.max ? f->max : piece.max;
    float a = exp_of(f->max - top), b = exp_of(piece.max - top);
    float kept = f->sum * a, added = piece.sum * b;
    *f = (struct fold){top, kept + added};
    for (size_t i = 0; i < run->dim; i += 16) {
        size_t n = run->dim - i < 16 ? run->dim - i : 16;
        vf old = vf_mul(vf_load_n(values + i, n), vf_set1(a));
        vf_store_n(values + i, vf_fma(vf_load_n(run->piece + i, n), vf_set1(b), old), n);
    }
}

static void fold_rows(const struct run *run, uint32_t start, const float *const *v)
{
    for (uint32_t r = 0; r < run->rows; r++) {
        struct span see = visible(run, r, start);
        for (uint32_t h = 0; h < run->group && see.first < see.end; h++) {
            size_t at = r * run->group + h;
            float *w = run->weights + at * STRETCH;
            struct fold piece = softmax(w);
            weigh(run, w, v, see);
            fold_piece(run, &run->folds[at], run->values + at * run->dim, piece);
        }
    }
}

/* ---- a run of rows ---- */

/* One stretch; `first` is the first token that any row sees. */
MTR_INLINE void run_stretch(enum mtr_format cache, struct run *run, uint32_t start, uint32_t first)
{
    const struct mtr_attention_args *a = run->args;
    const float *v[GROUPS] = {0};
    size_t size = GROUP * run->dim;
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t t = start + g * GROUP;
        prefetch_group(cache, run, a->k_cache, t + STRETCH);
        bool seen = t < run->end && t + GROUP > first;
        /* A group that nobody sees may have no block: its keys are not looked at. */
        score_group(run, start, g,
                    seen ? load_group(cache, run, a->k_cache, t, run->copy) : run->copy);
    }
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t t = start + g * GROUP;
        prefetch_group(cache, run, a->v_cache, t + STRETCH);
        v[g] = run->copy + g * size;
        if (t < run->end && t + GROUP > first)
            v[g] = load_group(cache, run, a->v_cache, t, run->copy + g * size);
    }
    fold_rows(run, start, v);
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
    const struct mtr_attention_args *a = run->args;
    const struct mtr_step_view *step = a->step;
    uint32_t slot = (uint32_t)step->lane_slots[step->token_lanes[run->row]];
    run->table = step->tables[a->group] + (size_t)slot * step->table_stride[a->group];
    run->end = (uint32_t)step->positions[run->row + run->rows - 1] + 1;
    for (size_t i = 0; i < (size_t)run->rows * run->group; i++)
        run->folds[i] = (struct fold){-INFINITY, 0.0f};
    uint32_t first = visible(run, 0, 0).first; /* relative to 0: the token itself */
    for (uint32_t t = first / GROUP * GROUP; t < first / STRETCH * STRETCH + STRETCH; t += GROUP)
        prefetch_group(cache, run, a->k_cache, t);
    for (uint32_t t = first / GROUP * GROUP; t < first / STRETCH * STRETCH + STRETCH; t += GROUP)
        prefetch_group(cache, run, a->v_cache, t);
    for (uint32_t start = first / STRETCH * STRETCH; start < run->end; start += STRETCH)
        run_stretch(cache, run, start, first);
    finish(run);
}

/* ---- the grid ---- */

_Static_assert(sizeof(float) * (2 * STRETCH + 1 + MTR_ATTENTION_MAX_GROUP) * MTR_ATTENTION_MAX_DIM +
                       sizeof(struct fold) * MTR_ATTENTION_MAX_GROUP <=
                   MTR_HOST_SCRATCH_BYTES,
               "the scratch holds at least one row");
_Static_assert(sizeof(float) * ((STRETCH + 1) * MTR_LATENT_MAX_DIM +
                                MTR_LATENT_HEADS * (STRETCH + MTR_LATENT_MAX_DIM)) +
                       sizeof(struct fold) * MTR_LATENT_HEADS <=
                   MTR_HOST_SCRATCH_BYTES,
               "and one row over latents");

/* Lays the run's memory out in the scratch; returns how many rows it has room for. */
static uint32_t lay_out(struct run *run, void *scratch)
{
    size_t padded = (run->dim + 15) / 16 * 16;
    run->copy = scratch;
    run->piece = run->copy + STRETCH * run->dim;
    run->weights = run->piece + padded;
    size_t used = (size_t)((char *)run->weights - (char *)scratch);
    size_t row = run->group * ((STRETCH + run->dim) * sizeof(float) + sizeof(struct fold));
    size_t rows = (MTR_HOST_SCRATCH_BYTES - used) / row;
    run->values = run->weights + rows * run->group * STRETCH;
    run->folds = (struct fold *)(void *)(run->values + rows * run->group * run->dim);
    return (uint32_t)rows;
}

/* shared: the cache has one head for all. */
MTR_INLINE void attention(enum mtr_format cache, bool shared, const struct mtr_attention_args *args,
                          const struct mtr_host_block *block)
{
    const struct mtr_step_view *step = args->step;
    struct run run = {.args = args,
                      .group = args->heads / args->kv_heads,
                      .cache_heads = shared ? 1 : args->kv_heads,
                      .dim = args->head_dim};
    uint32_t tile = (step->tokens + block->grid_y - 1) / block->grid_y;
    uint32_t room = lay_out(&run, block->scratch);
    uint32_t begin = block->y * tile;
    uint32_t end = begin + tile < step->tokens ? begin + tile : step->tokens;
    for (run.kv_head = block->x; run.kv_head < args->kv_heads; run.kv_head += block->grid_x)
        for (run.row = begin; run.row < end; run.row += run.rows) {
            run.cache_head = shared ? 0 : run.kv_head;
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
    attention(MTR_F32, false, args, block);
}

void MTR_HOST_FN(attention_bf16)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(attention_bf16)(const void *args, const struct mtr_host_block *block)
{
    attention(MTR_BF16, false, args, block);
}

void MTR_HOST_FN(latent_attention_f32)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(latent_attention_f32)(const void *args, const struct mtr_host_block *block)
{
    attention(MTR_F32, true, args, block);
}

void MTR_HOST_FN(latent_attention_bf16)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(latent_attention_bf16)(const void *args, const struct mtr_host_block *block)
{
    attention(MTR_BF16, true, args, block);
}
