/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * linear_<format>[_<scaling>], see linear.h. Compiled with MTR_LINEAR_FORMAT (MTR_Q4_1),
 * MTR_LINEAR_SCALING (MTR_SCALING_NONE), MTR_LINEAR_FUNCTION (linear_q4_1) and
 * MTR_EXPERTS_FUNCTION (experts_q4_1) defined.
 *
 * Few rows: MTR_FUSED_ACC accumulators are spread over weight rows and activation rows, as many of
 * the latter as there are up to MTR_FUSED_X, so that a decoded vector is used for all of them and
 * a load of x for all weight rows. While a group of weight rows is worked on, the next is
 * prefetched: the hardware does not foresee the next tile's scales.
 */
#include "kernels/host/linear.h"

#include "kernels/args/experts.h"
#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/scaled.h"

#define F         MTR_LINEAR_FORMAT
#define S         MTR_LINEAR_SCALING
#define SCALED    (S != MTR_SCALING_NONE)
#define TILE_N    MTR_TILE_N
#define TILE_ROWS MTR_TILE_ROWS
#define MAX_W     4                /* weight rows at once */
#define FEW_ROWS  (2 * MTR_TILE_X) /* little use of a panel: keep it in the first-level cache */

#define SCALE_FLOATS 3072 /* of a group of weight rows, when that leaves MAX_W of them */
#define MAX_SCALES   (MAX_W * (MTR_LINEAR_MAX_K / 16 + 16)) /* 2 a run of 32 */
#define RAW_BYTES    (2 * MAX_SCALES) /* f16 of each, more than the other forms */

struct scratch {
    float sums[2][TILE_ROWS * TILE_N]; /* second: the other half of a GLU */
    uint8_t raw[RAW_BYTES];            /* of scales */
    float scales[MAX_SCALES];
    float panel[];
};

/* A group of weight rows with the scales of each, ready for decode32. */
struct group {
    const uint8_t *w;
    size_t w_stride;
    const float *scales;
    size_t scale_stride;
    size_t ahead; /* bytes to what is prefetched */
};

/* ---- one format or another ---- */

/* Rows need not end with a whole run of 32. */
MTR_INLINE int has_tail(void)
{
    return is_plain(F) || SCALED;
}

MTR_INLINE void run_of(const uint8_t *row, size_t first, size_t j, const float *scales, vf out[2])
{
    if (SCALED)
        scaled32(F, S, row, first + j, scales, out);
    else
        decode32(F, row, first, j, scales, out);
}

MTR_INLINE vf tail_of(const uint8_t *row, size_t first, size_t n, const float *scales)
{
    return SCALED ? scaled_tail(F, S, row, first, n, scales) : decode_tail(F, row, first, n);
}

/* A whole row into out [k rounded up to 16], padded with 0. */
MTR_INLINE void row_of(const uint8_t *row, size_t k, const float *scales, float *out)
{
    if (SCALED)
        scaled_row(F, S, row, k, scales, out);
    else
        decode_row(F, row, k, scales, out);
}

/* ---- few rows ---- */

MTR_INLINE void prefetch(const struct group *g, size_t run, int wn)
{
    size_t bytes = row_bytes(F, 32) * (size_t)wn; /* that a step over the rows covers together */
    for (size_t at = 0; at < bytes; at += 48)
        __builtin_prefetch(g->w + g->ahead + run * bytes + at, 0, 2);
}

/* wn weight rows of the group with xn rows of x: out[x * wn + w]. wn, xn are constants. */
MTR_INLINE void fused(const struct group *g, const float *const *x, size_t k, int wn, int xn,
                      vf *out)
{
    size_t runs = k / 32, unit = scale_form(F).runs;
    vf acc[MTR_FUSED_ACC];
    MTR_UNROLL(16)
    for (int i = 0; i < wn * xn; i++)
        acc[i] = vf_zero();
    for (size_t first = 0; first < runs; first += unit)
        MTR_UNROLL(2)
    for (size_t j = 0; j < unit; j++) {
        vf v[MAX_W][2];
        prefetch(g, first + j, wn);
        MTR_UNROLL(4)
        for (int w = 0; w < wn; w++)
            run_of(g->w + (size_t)w * g->w_stride, first, j,
                   g->scales + (size_t)w * g->scale_stride, v[w]);
        MTR_UNROLL(8)
        for (int r = 0; r < xn; r++)
            MTR_UNROLL(2)
        for (int half = 0; half < 2; half++) {
            vf xv = vf_load(x[r] + 32 * (first + j) + 16 * half);
            MTR_UNROLL(4)
            for (int w = 0; w < wn; w++)
                acc[r * wn + w] = vf_fma(v[w][half], xv, acc[r * wn + w]);
        }
    }
    for (size_t i = 32 * runs; has_tail() && i < k; i += 16) {
        size_t n = k - i < 16 ? k - i : 16;
        for (int w = 0; w < wn; w++) {
            vf v = tail_of(g->w + (size_t)w * g->w_stride, i, n,
                           g->scales + (size_t)w * g->scale_stride);
            for (int r = 0; r < xn; r++)
                acc[r * wn + w] = vf_fma(v, vf_load_n(x[r] + i, n), acc[r * wn + w]);
        }
    }
    MTR_UNROLL(16)
    for (int i = 0; i < wn * xn; i++)
        out[i] = acc[i];
}

/* Sixteen accumulators at a time are reduced together: those of `calls` calls of fused(). */
MTR_INLINE void reduce(const vf *acc, int wn, int xn, int calls, float *sums)
{
    float out[16];
    vf_store(out, vf_sum16(acc));
    for (int i = 0; i < calls * wn * xn; i++) {
        int call = i / (wn * xn), x = i % (wn * xn) / wn, w = i % wn;
        sums[x * TILE_N + call * wn + w] = out[i];
    }
}

MTR_INLINE void fused_group(struct group g, uint32_t n, const float *const *x, size_t k, int xn,
                            float *sums)
{
    const int wn = MTR_FUSED_ACC / xn < MAX_W ? MTR_FUSED_ACC / xn : MAX_W;
    const int full = 16 / (wn * xn);
    vf acc[16];
    for (int i = 0; i < 16; i++)
        acc[i] = vf_zero();
    uint32_t done = 0;
    for (int call = 0; n - done >= (uint32_t)wn;) {
        fused(&g, x, k, wn, xn, acc + call * wn * xn);
        g.w += (size_t)wn * g.w_stride;
        g.scales += (size_t)wn * g.scale_stride;
        done += (uint32_t)wn;
        if (++call == full || n - done < (uint32_t)wn) {
            reduce(acc, wn, xn, call, sums);
            sums += call * wn;
            call = 0;
        }
    }
    for (; done < n; done++) {
        fused(&g, x, k, 1, xn, acc);
        reduce(acc, 1, xn, 1, sums++);
        g.w += g.w_stride;
        g.scales += g.scale_stride;
    }
}

/* Rows of x: one behind the other, or each where it is listed. */
struct inputs {
    const float *x;
    size_t stride;
    const uint32_t *pairs; /* NULL: rows 0, 1, ... */
    uint32_t divisor;      /* of a pair, for its row */
};

MTR_INLINE size_t x_row(const struct inputs *x, uint32_t r)
{
    return x->pairs ? x->pairs[r] / x->divisor : r;
}

/* Rows [first, first + rows), at most MTR_FUSED_X; widths between the powers of two repeat the last
 * row into sums that nobody reads. */
static void few_rows(const struct group *g, uint32_t n, const struct inputs *x, uint32_t first,
                     uint32_t rows, size_t k, float *sums)
{
    const float *row[MTR_FUSED_X];
    for (uint32_t r = 0; r < MTR_FUSED_X; r++)
        row[r] = x->x + x_row(x, first + (r < rows ? r : rows - 1)) * x->stride;
    if (rows == 1)
        fused_group(*g, n, row, k, 1, sums);
    else if (rows == 2)
        fused_group(*g, n, row, k, 2, sums);
    else if (rows <= 4)
        fused_group(*g, n, row, k, 4, sums);
#if MTR_FUSED_X >= 8
    else
        fused_group(*g, n, row, k, 8, sums);
#endif
}

/* ---- many rows ---- */

static void many_rows(const struct group *g, uint32_t n, const float *x, size_t xs, uint32_t rows,
                      size_t k, float *sums, struct scratch *s)
{
    size_t ws = (k + 15) / 16 * 16;
    size_t room = (MTR_HOST_SCRATCH_BYTES - sizeof *s) / sizeof *s->panel / ws;
    uint32_t step = room >= TILE_N ? TILE_N : (uint32_t)(room / MTR_TILE_W * MTR_TILE_W);
    if (rows <= FEW_ROWS)
        step = MTR_TILE_W;
    for (uint32_t i = 0; i < n; i += step) {
        uint32_t wn = n - i < step ? n - i : step;
        for (uint32_t j = 0; j < wn; j++)
            row_of(g->w + (i + j) * g->w_stride, k, g->scales + (i + j) * g->scale_stride,
                   s->panel + j * ws);
        MTR_HOST_FN(linear_multiply)(s->panel, ws, wn, x, xs, rows, k, sums + i);
    }
}

/* ---- a tile ---- */

/* The scales of weight rows [0, n), which have them in themselves, into the scratch. */
static void prepare_scales(const uint8_t *w, uint32_t n, size_t k, struct scratch *s)
{
    size_t stride = row_bytes(F, k), raw = raw_stride(F, k), floats = scale_stride(F, k);
    if (direct_scales(F)) {
        for (uint32_t i = 0; i < n; i++)
            read_scales(F, w + i * stride, k, s->scales + i * floats);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        collect_scales(F, w + i * stride, k, s->raw + i * raw);
    for (uint32_t i = 0; i < n; i++)
        widen_scales(F, s->raw + i * raw, k, s->scales + i * floats);
}

/* sums of a tile, its weight rows in groups whose scales fit the first-level cache. */
static void multiply_tile(const struct mtr_linear_tile *t, const struct mtr_linear_part *p,
                          const struct inputs *x, float *sums, struct scratch *s)
{
    size_t k = t->args->k, bytes = row_bytes(F, k);
    size_t floats = SCALED ? scaled_stride(S, k) : scale_stride(F, k);
    size_t fit = SCALE_FLOATS / (floats + 1);
    uint32_t step = fit >= TILE_N ? TILE_N : fit < MAX_W ? MAX_W : (uint32_t)fit / MAX_W * MAX_W;
    const uint8_t *w = (const uint8_t *)p->weight + t->n0 * bytes;
    struct group g = {w, bytes, s->scales, floats, step * bytes};
    for (uint32_t i = 0; i < t->n; i += step, g.w += step * g.w_stride) {
        uint32_t n = t->n - i < step ? t->n - i : step;
        if (SCALED)
            prepare_scaled(S, p, t->n0 + i, n, k, s->scales);
        else
            prepare_scales(g.w, n, k, s);
        if (t->rows > MTR_FUSED_X && !x->pairs) {
            many_rows(&g, n, x->x, x->stride, t->rows, k, sums + i, s);
            continue;
        }
        for (uint32_t r = 0; r < t->rows; r += MTR_FUSED_X)
            few_rows(&g, n, x, r, t->rows - r < MTR_FUSED_X ? t->rows - r : MTR_FUSED_X, k,
                     sums + r * TILE_N + i);
    }
}

static void run_tile(const struct mtr_linear_tile *t, const struct inputs *x, struct scratch *s)
{
    const struct mtr_linear_args *args = t->args;
    uint32_t halves = args->epilogue == MTR_EPILOGUE_GLU ? 2 : 1;
    for (uint32_t h = 0; h < halves; h++)
        multiply_tile(t, &args->part[t->part + h], x, s->sums[h], s);
    MTR_HOST_FN(linear_epilogue)(t, s->sums[0], s->sums[1]);
}

/* ---- the grid ---- */

/* Tiles of N: those of the parts one after the other, or of the first part in a GLU. */
static uint32_t tiles_of(const struct mtr_linear_args *args)
{
    uint32_t parts = args->epilogue == MTR_EPILOGUE_GLU ? 1 : args->parts, tiles = 0;
    for (uint32_t p = 0; p < parts; p++)
        tiles += (args->part[p].n + TILE_N - 1) / TILE_N;
    return tiles;
}

static void locate(struct mtr_linear_tile *t, uint32_t index)
{
    const struct mtr_linear_part *p = t->args->part;
    for (t->part = 0;; t->part++, p++) {
        uint32_t tiles = (p->n + TILE_N - 1) / TILE_N;
        if (index < tiles)
            break;
        index -= tiles;
    }
    t->n0 = index * TILE_N;
    t->n = p->n - t->n0 < TILE_N ? p->n - t->n0 : TILE_N;
}

void MTR_HOST_FN(MTR_LINEAR_FUNCTION)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(MTR_LINEAR_FUNCTION)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_linear_args *args = arguments;
    struct mtr_linear_tile t = {.args = args};
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind), tiles = tiles_of(args);
    for (uint32_t y = block->y; y * TILE_ROWS < rows; y += block->grid_y)
        for (uint32_t i = block->x; i < tiles; i += block->grid_x) {
            locate(&t, i);
            t.r0 = y * TILE_ROWS;
            t.rows = rows - t.r0 < TILE_ROWS ? rows - t.r0 : TILE_ROWS;
            struct inputs x = {(const float *)args->x + (size_t)t.r0 * args->x_stride,
                               args->x_stride, NULL, 1};
            run_tile(&t, &x, block->scratch);
        }
}

/* ---- experts ---- */

/* The next pairs, from *at on, whose expert it is: at most TILE_ROWS. */
static uint32_t collect(const struct mtr_experts_args *a, uint32_t pairs, int32_t expert,
                        uint32_t *at, uint32_t *out)
{
    uint32_t n = 0;
    for (; *at < pairs && n < TILE_ROWS; (*at)++)
        if (a->chosen[*at] == expert)
            out[n++] = *at;
    return n;
}

/* The expert that y of the grid stands for, or -1. */
static int32_t expert_of(const struct mtr_experts_args *a, uint32_t y)
{
    for (uint32_t p = 0; a->by_pair && p < y; p++)
        if (a->chosen[p] == a->chosen[y])
            return -1;
    return a->by_pair ? a->chosen[y] : (int32_t)y;
}

/* The launch as if this expert's matrices were the only ones. */
static void move_to(const struct mtr_experts_args *a, uint32_t expert, struct mtr_linear_args *out)
{
    *out = a->linear;
    for (uint32_t i = 0; i < out->parts; i++) {
        struct mtr_linear_part *p = &out->part[i];
        p->weight = (const uint8_t *)p->weight + expert * a->weight_bytes;
        if (SCALED)
            p->scale = (const uint8_t *)p->scale + expert * a->scale_bytes;
        if (S == MTR_SCALING_GROUP16)
            p->global_scale = (const uint8_t *)p->global_scale + expert * a->global_bytes;
    }
}

/* Tiles of weight rows that belong to this block, for all pairs of the expert. */
static void run_expert(const struct mtr_experts_args *a, int32_t expert, uint32_t pairs,
                       const struct mtr_host_block *block)
{
    struct mtr_linear_args args;
    uint32_t list[TILE_ROWS], at = 0, tiles;
    struct inputs x = {a->linear.x, a->linear.x_stride, list, a->x_pairs ? 1 : a->top_k};
    struct mtr_linear_tile t = {.args = &args, .scattered = list};
    t.rows = collect(a, pairs, expert, &at, list);
    if (!t.rows)
        return;
    move_to(a, (uint32_t)expert, &args);
    tiles = tiles_of(&args);
    do {
        for (uint32_t i = block->x; i < tiles; i += block->grid_x) {
            locate(&t, i);
            run_tile(&t, &x, block->scratch);
        }
        t.rows = collect(a, pairs, expert, &at, list);
    } while (t.rows);
}

void MTR_HOST_FN(MTR_EXPERTS_FUNCTION)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(MTR_EXPERTS_FUNCTION)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_experts_args *a = arguments;
    uint32_t pairs = a->linear.step->tokens * a->top_k, count = a->by_pair ? pairs : a->experts;
    for (uint32_t y = block->y; y < count; y += block->grid_y) {
        int32_t expert = expert_of(a, y);
        if (expert >= 0)
            run_expert(a, expert, pairs, block);
    }
}
