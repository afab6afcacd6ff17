/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The parts of linear.h that don't know the weight format. */
#include "kernels/host/linear.h"

#include "kernels/host/dequant.h"
#include "kernels/host/vec_math.h"

_Static_assert(MTR_TILE_N % 16 == 0, "the epilogue works on whole vectors");

/* The last n < 16 elements of the sums [first, first + count) of a tile. */
static inline void micro_tail(const float *w, size_t ws, const float *x, size_t xs, size_t n,
                              int wn, int first, int count, vf *group)
{
    for (int j = 0; j < count; j++) {
        size_t a = (size_t)((first + j) % wn), b = (size_t)((first + j) / wn);
        group[j] = vf_fma(vf_load(w + a * ws), vf_load_n(x + b * xs, n), group[j]);
    }
}

/*
 * w [wn] rows of the panel and x [xn] rows: sums[x * MTR_TILE_N + w]. wn, xn are constants. Written
 * in registers (vr, MTR_REGISTERS to a vector), so that of x and w one register each is live at a
 * time.
 */
MTR_INLINE void micro(const float *w, size_t ws, const float *x, size_t xs, size_t k, int wn,
                      int xn, float *sums)
{
    vr acc[MTR_REGISTERS][MTR_TILE_W * MTR_TILE_X];
    MTR_UNROLL(4)
    for (int part = 0; part < MTR_REGISTERS; part++)
        MTR_UNROLL(32)
    for (int i = 0; i < wn * xn; i++)
        acc[part][i] = vr_zero();
    size_t i;
    for (i = 0; i + 16 <= k; i += 16)
        MTR_UNROLL(4)
    for (int part = 0; part < MTR_REGISTERS; part++) {
        size_t at = i + (size_t)part * (16 / MTR_REGISTERS);
        vr wv[MTR_TILE_W];
        MTR_UNROLL(8)
        for (int a = 0; a < wn; a++)
            wv[a] = vr_load(w + (size_t)a * ws + at);
        MTR_UNROLL(8)
        for (int b = 0; b < xn; b++) {
            vr xv = vr_load(x + (size_t)b * xs + at);
            VR_KEEP(xv);
            MTR_UNROLL(8)
            for (int a = 0; a < wn; a++)
                acc[part][b * wn + a] = vr_fma(wv[a], xv, acc[part][b * wn + a]);
        }
    }
    MTR_UNROLL(4)
    for (int first = 0; first < wn * xn; first += 16) {
        int count = wn * xn - first < 16 ? wn * xn - first : 16;
        vf group[16];
        MTR_UNROLL(16)
        for (int j = 0; j < 16; j++)
            group[j] = j < count ? VF_JOIN(acc, first + j) : vf_zero();
        if (i < k)
            micro_tail(w + i, ws, x + i, xs, k - i, wn, first, count, group);
        float out[16];
        vf_store(out, count <= 8 ? vf_sum8(group) : vf_sum16(group));
        for (int j = 0; j < count; j++)
            sums[(first + j) / wn * MTR_TILE_N + (first + j) % wn] = out[j];
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

/* Pieces of x of nearly equal size, which stay in the first-level cache while the panel passes. */
void MTR_HOST_FN(linear_multiply)(const float *panel, size_t ws, uint32_t wn, const float *x,
                                  size_t xs, uint32_t rows, size_t k, float *sums)
{
    uint32_t pieces = (rows + MTR_TILE_X - 1) / MTR_TILE_X;
    for (uint32_t piece = 0, r = 0; piece < pieces; piece++) {
        uint32_t xn = (rows - r + pieces - piece - 1) / (pieces - piece);
        const float *xr = x + r * xs;
        float *out = sums + r * MTR_TILE_N;
        uint32_t w = 0;
        for (; w + MTR_TILE_W <= wn; w += MTR_TILE_W)
            micro_x(panel + w * ws, ws, xr, xs, k, MTR_TILE_W, xn, out + w);
        for (; w < wn; w++)
            micro_x(panel + w * ws, ws, xr, xs, k, 1, xn, out + w);
        r += xn;
    }
}

/* The product of one vector of outputs: sums, multiplier, bias. n lanes are real. */
static inline vf product(const struct mtr_linear_tile *t, uint32_t part, const float *sums,
                         uint32_t i, uint32_t n)
{
    const struct mtr_linear_part *p = &t->args->part[part];
    vf v = vf_mul(vf_load(sums + i), vf_set1(t->args->multiplier));
    if (p->bias)
        v = vf_add(v, vf_load_n((const float *)p->bias + t->n0 + i, n));
    return v;
}

void MTR_HOST_FN(linear_epilogue)(const struct mtr_linear_tile *t, const float *sums,
                                  const float *other)
{
    const struct mtr_linear_args *args = t->args;
    const struct mtr_linear_part *p = &args->part[t->part];
    for (uint32_t r = 0; r < t->rows; r++) {
        size_t row = t->scattered ? t->scattered[r] : t->r0 + r;
        float *y = (float *)p->y + row * p->y_stride + t->n0;
        for (uint32_t i = 0; i < t->n; i += 16) {
            uint32_t n = t->n - i < 16 ? t->n - i : 16;
            vf v = product(t, t->part, sums + r * MTR_TILE_N, i, n);
            if (args->epilogue == MTR_EPILOGUE_ADD) {
                v = vf_add(vf_load_n(y + i, n), v);
            } else if (args->epilogue == MTR_EPILOGUE_GLU) {
                vf up = product(t, 1, other + r * MTR_TILE_N, i, n);
                v = vf_mul(vf_activate(v, (enum mtr_activation)args->activation), up);
            }
            vf_store_n(y + i, v, n);
        }
    }
}
