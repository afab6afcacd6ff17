/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Matrix products, one function for each weight format. A block of the grid is a tile of at most
 * MTR_LINEAR_TILE_N outputs by MTR_LINEAR_TILE_ROWS rows, in three steps:
 *
 *   sums     [rows, TILE_N], the bare products. One row: weights are decoded in registers and used
 *            at once, several weight rows together so that they share the loads of x. More rows: a
 *            panel of weight rows is decoded into the scratch, and a micro-kernel of
 *            MTR_TILE_W x MTR_TILE_X outputs runs over it. Both keep one accumulator of sixteen
 *            lanes an output and end in the same tree (host_kernel.h).
 *   epilogue multiplier, bias, then store, residual add or gated activation.
 */
#include "kernels/args/linear.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

#define TILE_N    MTR_LINEAR_TILE_N
#define TILE_ROWS MTR_LINEAR_TILE_ROWS
#define GEMV_ROWS 4 /* weight rows at once */

_Static_assert(TILE_N % 16 == 0, "the epilogue works on whole vectors");

struct scratch {
    float sums[2][TILE_ROWS * TILE_N]; /* second: the other half of a GLU */
    float panel[];
};

/* What one block computes: weight rows [n0, n0 + n) of a part, activation rows [r0, r0 + rows). */
struct tile {
    const struct mtr_linear_args *args;
    uint32_t part, n0, n, r0, rows;
};

/* ---- one row ---- */

MTR_INLINE void gemv_rows(enum mtr_format f, const uint8_t *w, size_t stride, const float *x,
                          size_t k, int rows, float *sums)
{
    vf acc[GEMV_ROWS];
    for (int r = 0; r < rows; r++)
        acc[r] = vf_zero();
    size_t j;
    for (j = 0; 32 * j + 32 <= k; j++) {
        vf x0 = vf_load(x + 32 * j), x1 = vf_load(x + 32 * j + 16);
        for (int r = 0; r < rows; r++) {
            vf v[2];
            decode32(f, w + (size_t)r * stride, j, v);
            acc[r] = vf_fma(v[0], x0, acc[r]);
            acc[r] = vf_fma(v[1], x1, acc[r]);
        }
    }
    if (is_plain(f))
        for (size_t i = 32 * j; i < k; i += 16) {
            size_t n = k - i < 16 ? k - i : 16;
            vf xt = vf_load_n(x + i, n);
            for (int r = 0; r < rows; r++)
                acc[r] = vf_fma(decode_tail(f, w + (size_t)r * stride, i, n), xt, acc[r]);
        }
    for (int r = 0; r < rows; r++)
        sums[r] = vf_sum(acc[r]);
}

MTR_INLINE void gemv(enum mtr_format f, const uint8_t *w, const float *x, size_t k, uint32_t n,
                     float *sums)
{
    size_t stride = row_bytes(f, k);
    uint32_t i = 0;
    for (; i + GEMV_ROWS <= n; i += GEMV_ROWS)
        gemv_rows(f, w + i * stride, stride, x, k, GEMV_ROWS, sums + i);
    for (; i < n; i++)
        gemv_rows(f, w + i * stride, stride, x, k, 1, sums + i);
}

/* ---- many rows ---- */

/* w [wn] rows of the panel and x [xn] rows: sums[x * TILE_N + w]. wn, xn are constants. */
MTR_INLINE void micro(const float *w, size_t ws, const float *x, size_t xs, size_t k, int wn,
                      int xn, float *sums)
{
    vf acc[MTR_TILE_W * MTR_TILE_X];
#pragma GCC unroll 32
    for (int i = 0; i < wn * xn; i++)
        acc[i] = vf_zero();
    size_t i;
    for (i = 0; i + 16 <= k; i += 16) {
        vf wv[MTR_TILE_W];
#pragma GCC unroll 8
        for (int a = 0; a < wn; a++)
            wv[a] = vf_load(w + (size_t)a * ws + i);
#pragma GCC unroll 8
        for (int b = 0; b < xn; b++) {
            vf xv = vf_load(x + (size_t)b * xs + i);
#pragma GCC unroll 8
            for (int a = 0; a < wn; a++)
                acc[b * wn + a] = vf_fma(wv[a], xv, acc[b * wn + a]);
        }
    }
    if (i < k) {
#pragma GCC unroll 8
        for (int b = 0; b < xn; b++) {
            vf xv = vf_load_n(x + (size_t)b * xs + i, k - i);
#pragma GCC unroll 8
            for (int a = 0; a < wn; a++)
                acc[b * wn + a] = vf_fma(vf_load(w + (size_t)a * ws + i), xv, acc[b * wn + a]);
        }
    }
#pragma GCC unroll 4
    for (int first = 0; first < wn * xn; first += 16) {
        int count = wn * xn - first < 16 ? wn * xn - first : 16;
        vf group[16];
#pragma GCC unroll 16
        for (int j = 0; j < 16; j++)
            group[j] = j < count ? acc[first + j] : vf_zero();
        float out[16];
        vf_store(out, vf_sum16(group));
        for (int j = 0; j < count; j++)
            sums[(first + j) / wn * TILE_N + (first + j) % wn] = out[j];
    }
}

MTR_INLINE void micro_x(const float *w, size_t ws, const float *x, size_t xs, size_t k, int wn,
                        uint32_t xn, float *sums)
{
    switch (xn) {
#if MTR_TILE_X >= 6
    case 6:
        micro(w, ws, x, xs, k, wn, 6, sums);
        break;
    case 5:
        micro(w, ws, x, xs, k, wn, 5, sums);
        break;
    case 4:
        micro(w, ws, x, xs, k, wn, 4, sums);
        break;
#endif
#if MTR_TILE_X >= 3
    case 3:
        micro(w, ws, x, xs, k, wn, 3, sums);
        break;
#endif
    case 2:
        micro(w, ws, x, xs, k, wn, 2, sums);
        break;
    default:
        micro(w, ws, x, xs, k, wn, 1, sums);
    }
}

/* All x rows of the tile against wn rows of the panel, x in pieces of nearly equal size. */
static void multiply(const float *panel, size_t ws, uint32_t wn, const float *x, size_t xs,
                     uint32_t rows, size_t k, float *sums)
{
    uint32_t pieces = (rows + MTR_TILE_X - 1) / MTR_TILE_X;
    for (uint32_t piece = 0, r = 0; piece < pieces; piece++) {
        uint32_t xn = (rows - r + pieces - piece - 1) / (pieces - piece);
        const float *xr = x + r * xs;
        uint32_t w = 0;
        for (; w + MTR_TILE_W <= wn; w += MTR_TILE_W)
            micro_x(panel + w * ws, ws, xr, xs, k, MTR_TILE_W, xn, sums + r * TILE_N + w);
        for (; w < wn; w++)
            micro_x(panel + w * ws, ws, xr, xs, k, 1, xn, sums + r * TILE_N + w);
        r += xn;
    }
}

MTR_INLINE void gemm(enum mtr_format f, const uint8_t *w, uint32_t n, const float *x, size_t xs,
                     uint32_t rows, size_t k, float *sums, float *panel)
{
    size_t stride = row_bytes(f, k), ws = (k + 15) / 16 * 16;
    size_t room = (MTR_HOST_SCRATCH_BYTES - sizeof(struct scratch)) / sizeof *panel / ws;
    uint32_t step = room >= TILE_N ? TILE_N : (uint32_t)(room / MTR_TILE_W * MTR_TILE_W);
    for (uint32_t i = 0; i < n; i += step) {
        uint32_t wn = n - i < step ? n - i : step;
        for (uint32_t j = 0; j < wn; j++)
            decode_row(f, w + (i + j) * stride, k, panel + j * ws);
        multiply(panel, ws, wn, x, xs, rows, k, sums + i);
    }
}

/* ---- epilogue ---- */

/* The product of one vector of outputs: sums, multiplier, bias. n lanes are real. */
static inline vf product(const struct tile *t, uint32_t part, const float *sums, uint32_t i,
                         uint32_t n)
{
    const struct mtr_linear_part *p = &t->args->part[part];
    vf v = vf_mul(vf_load(sums + i), vf_set1(t->args->multiplier));
    if (p->bias)
        v = vf_add(v, vf_load_n((const float *)p->bias + t->n0 + i, n));
    return v;
}

static void epilogue(const struct tile *t, const struct scratch *s)
{
    const struct mtr_linear_args *args = t->args;
    const struct mtr_linear_part *p = &args->part[t->part];
    for (uint32_t r = 0; r < t->rows; r++) {
        float *y = (float *)p->y + (size_t)(t->r0 + r) * p->y_stride + t->n0;
        for (uint32_t i = 0; i < t->n; i += 16) {
            uint32_t n = t->n - i < 16 ? t->n - i : 16;
            vf v = product(t, t->part, s->sums[0] + r * TILE_N, i, n);
            if (args->epilogue == MTR_EPILOGUE_ADD) {
                v = vf_add(vf_load_n(y + i, n), v);
            } else if (args->epilogue == MTR_EPILOGUE_GLU) {
                vf up = product(t, 1, s->sums[1] + r * TILE_N, i, n);
                v = vf_mul(vf_activate(v, (enum mtr_activation)args->activation), up);
            }
            vf_store_n(y + i, v, n);
        }
    }
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

static void locate(struct tile *t, uint32_t index)
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

MTR_INLINE void run_tile(enum mtr_format f, const struct tile *t, struct scratch *s)
{
    const struct mtr_linear_args *args = t->args;
    const float *x = (const float *)args->x + (size_t)t->r0 * args->x_stride;
    uint32_t halves = args->epilogue == MTR_EPILOGUE_GLU ? 2 : 1;
    for (uint32_t h = 0; h < halves; h++) {
        const uint8_t *w = args->part[t->part + h].weight;
        w += t->n0 * row_bytes(f, args->k);
        if (t->rows == 1)
            gemv(f, w, x, args->k, t->n, s->sums[h]);
        else
            gemm(f, w, t->n, x, args->x_stride, t->rows, args->k, s->sums[h], s->panel);
    }
    epilogue(t, s);
}

MTR_INLINE void linear(enum mtr_format f, const struct mtr_linear_args *args,
                       const struct mtr_host_block *block)
{
    struct tile t = {.args = args};
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind), tiles = tiles_of(args);
    for (uint32_t y = block->y; y * TILE_ROWS < rows; y += block->grid_y)
        for (uint32_t i = block->x; i < tiles; i += block->grid_x) {
            locate(&t, i);
            t.r0 = y * TILE_ROWS;
            t.rows = rows - t.r0 < TILE_ROWS ? rows - t.r0 : TILE_ROWS;
            run_tile(f, &t, block->scratch);
        }
}

#define LINEAR(name, format)                                                                       \
    void MTR_HOST_FN(linear_##name)(const void *args, const struct mtr_host_block *block);         \
    void MTR_HOST_FN(linear_##name)(const void *args, const struct mtr_host_block *block)          \
    {                                                                                              \
        linear(format, args, block);                                                               \
    }

LINEAR(f32, MTR_F32)
LINEAR(f16, MTR_F16)
LINEAR(bf16, MTR_BF16)
LINEAR(q4_0, MTR_Q4_0)
LINEAR(q4_1, MTR_Q4_1)
LINEAR(q5_0, MTR_Q5_0)
LINEAR(q5_1, MTR_Q5_1)
LINEAR(q8_0, MTR_Q8_0)
LINEAR(q4_k, MTR_Q4_K)
LINEAR(q5_k, MTR_Q5_K)
LINEAR(q6_k, MTR_Q6_K)
