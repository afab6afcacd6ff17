/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Root-mean-square norm of rows, with the residual added first where there is one. A block takes a
 * row; thread t has the groups of eight t, t + THREADS, ... of it, the first HELD of them in
 * registers, the others read again (as it wrote them itself, where there is a residual).
 *
 * The sum of squares: each thread over its elements in order, lanes of a warp as a tree, warps in
 * order. It depends on the number of columns alone.
 */
#include "kernels/args/rms_norm.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS 256
#define HELD    4 /* groups: 8192 columns */

/* Elements [at, at + 8) of the row that is to be normalized; adds x to the residual on the way. */
MTR_DEVICE void take8(const uint16_t *x, uint16_t *residual, uint32_t at, uint32_t cols,
                      float (&v)[8])
{
    mtr_load8(x, at, cols, v);
    if (!residual)
        return;
    float old[8];
    mtr_load8(residual, at, cols, old);
#pragma unroll
    for (int e = 0; e < 8; e++)
        v[e] = __fadd_rn(old[e], v[e]);
    mtr_round8(v);
    mtr_store8(residual, at, cols, v);
}

MTR_DEVICE float add_squares(float sum, const float (&v)[8])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        sum = __fmaf_rn(v[e], v[e], sum);
    return sum;
}

MTR_DEVICE void give8(const struct mtr_rms_norm_args &args, uint16_t *y, uint32_t at, float inverse,
                      float (&v)[8])
{
    float w[8];
    mtr_load8_f32((const float *)args.weight, at, args.cols, w);
#pragma unroll
    for (int e = 0; e < 8; e++)
        v[e] = __fmul_rn(__fmul_rn(v[e], inverse), __fadd_rn(w[e], args.unit_offset));
    mtr_store8(y, at, args.cols, v);
}

MTR_DEVICE void norm_row(const struct mtr_rms_norm_args &args, const uint16_t *x,
                         uint16_t *residual, uint16_t *y, float *parts)
{
    const uint32_t cols = args.cols, first = 8 * threadIdx.x;
    float held[HELD][8], v[8], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (first + i * 8 * THREADS < cols)
            take8(x, residual, first + i * 8 * THREADS, cols, held[i]);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (first + i * 8 * THREADS < cols)
            sum = add_squares(sum, held[i]);
    for (uint32_t at = first + HELD * 8 * THREADS; at < cols; at += 8 * THREADS) {
        take8(x, residual, at, cols, v);
        sum = add_squares(sum, v);
    }
    float mean = __fdiv_rn(mtr_sum_block(sum, parts), (float)cols);
    float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, args.eps)));
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (first + i * 8 * THREADS < cols)
            give8(args, y, first + i * 8 * THREADS, inverse, held[i]);
    for (uint32_t at = first + HELD * 8 * THREADS; at < cols; at += 8 * THREADS) {
        mtr_load8(residual ? residual : x, at, cols, v);
        give8(args, y, at, inverse, v);
    }
}

MTR_KERNEL(THREADS) rms_norm(const __grid_constant__ struct mtr_rms_norm_args args)
{
    mtr_begin();
    __shared__ float parts[THREADS / MTR_WARP];
    uint32_t rows = device::row_count(args.step, args.rows_kind);
    for (uint32_t r = blockIdx.x; r < rows; r += gridDim.x) {
        uint64_t from = (args.gather ? (uint64_t)args.gather[r] : r) * args.cols;
        uint16_t *residual = args.residual ? (uint16_t *)args.residual + from : NULL;
        norm_row(args, (const uint16_t *)args.x + from, residual,
                 (uint16_t *)args.y + (uint64_t)r * args.cols, parts);
        __syncthreads(); /* parts */
    }
}
