/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Root-mean-square norm of rows, with the residual added first where there is one. A block takes a
 * row at a time; thread t has the groups of eight t, t + THREADS, ... of it. Up to two groups are
 * held in registers, with their weights, and the next row's are under way meanwhile; longer rows
 * are read twice (as the thread wrote them itself, where there is a residual).
 *
 * The sum of squares: each thread over its elements in order, lanes of a warp as a tree, warps in
 * order. It depends on the number of columns alone.
 *
 * Weights and the step are nobody's output in a step: they are read before the predecessor is done.
 */
#include "kernels/args/rms_norm.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS 512
#define PARTS   (THREADS / MTR_WARP)

MTR_DEVICE float add_squares(float sum, const float (&v)[8])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        sum = __fmaf_rn(v[e], v[e], sum);
    return sum;
}

MTR_DEVICE float inverse_of(const struct mtr_rms_norm_args &args, float sum, float *parts)
{
    float mean = __fdiv_rn(mtr_sum_block(sum, parts), (float)args.cols);
    return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, args.eps)));
}

/* v times its weights, which hold the offset already. */
MTR_DEVICE void scale8(float (&v)[8], float inverse, const float (&w)[8])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        v[e] = __fmul_rn(__fmul_rn(v[e], inverse), w[e]);
}

MTR_DEVICE void load_weights(const struct mtr_rms_norm_args &args, uint32_t at, float (&w)[8])
{
    mtr_load8_f32((const float *)args.weight, at, args.cols, w);
#pragma unroll
    for (int e = 0; e < 8; e++)
        w[e] = __fadd_rn(w[e], args.unit_offset);
}

/* x + residual, as the residual will hold it. */
MTR_DEVICE void add_residual(float (&v)[8], const float (&old)[8])
{
#pragma unroll
    for (int e = 0; e < 8; e++)
        v[e] = __fadd_rn(old[e], v[e]);
    mtr_round8(v);
}

/* Where row r stands in x and in the residual. */
MTR_DEVICE uint64_t row_at(const struct mtr_rms_norm_args &args, uint32_t r)
{
    return (args.gather ? (uint64_t)(uint32_t)args.gather[r] : r) * args.cols;
}

/* ---- rows of up to GROUPS * THREADS groups, whole ones ---- */

template <int GROUPS> struct held_row {
    uint4 x[GROUPS], old[GROUPS];

    __device__ __forceinline__ void load(const struct mtr_rms_norm_args &args, uint64_t from)
    {
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            const uint32_t at = 8 * (threadIdx.x + i * THREADS);
            if (at >= args.cols)
                continue;
            x[i] = *(const uint4 *)((const uint16_t *)args.x + from + at);
            if (args.residual)
                old[i] = *(const uint4 *)((const uint16_t *)args.residual + from + at);
        }
    }

    /* Returns the thread's part of the sum. */
    __device__ __forceinline__ float take(const struct mtr_rms_norm_args &args, uint64_t from,
                                          float (&v)[GROUPS][8]) const
    {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            const uint32_t at = 8 * (threadIdx.x + i * THREADS);
            if (at >= args.cols)
                continue;
            mtr_widen8(x[i], v[i]);
            if (args.residual) {
                float before[8];
                mtr_widen8(old[i], before);
                add_residual(v[i], before);
                *(uint4 *)((uint16_t *)args.residual + from + at) = mtr_narrow8(v[i]);
            }
            sum = add_squares(sum, v[i]);
        }
        return sum;
    }
};

template <int GROUPS>
MTR_DEVICE void norm_held(const struct mtr_rms_norm_args &args, float (&parts)[2][PARTS])
{
    const uint32_t rows = device::row_count(args.step, args.rows_kind);
    float w[GROUPS][8], v[GROUPS][8];
#pragma unroll
    for (int i = 0; i < GROUPS; i++)
        if (8 * (threadIdx.x + i * THREADS) < args.cols)
            load_weights(args, 8 * (threadIdx.x + i * THREADS), w[i]);
    uint64_t from = blockIdx.x < rows ? row_at(args, blockIdx.x) : 0;
    device::wait_for_predecessor();
    struct held_row<GROUPS> row;
    if (blockIdx.x < rows)
        row.load(args, from);
    for (uint32_t r = blockIdx.x, turn = 0; r < rows; r += gridDim.x, turn ^= 1) {
        const float sum = row.take(args, from, v);
        if (r + gridDim.x < rows) {
            from = row_at(args, r + gridDim.x);
            row.load(args, from);
        }
        const float inverse = inverse_of(args, sum, parts[turn]);
#pragma unroll
        for (int i = 0; i < GROUPS; i++) {
            const uint32_t at = 8 * (threadIdx.x + i * THREADS);
            if (at >= args.cols)
                continue;
            scale8(v[i], inverse, w[i]);
            *(uint4 *)((uint16_t *)args.y + (uint64_t)r * args.cols + at) = mtr_narrow8(v[i]);
        }
    }
}

/* ---- any rows ---- */

MTR_DEVICE void norm_row(const struct mtr_rms_norm_args &args, uint32_t r, float *parts)
{
    const uint32_t cols = args.cols;
    const uint16_t *x = (const uint16_t *)args.x + row_at(args, r);
    uint16_t *residual = args.residual ? (uint16_t *)args.residual + row_at(args, r) : NULL;
    float v[8], w[8], sum = 0.0f;
    for (uint32_t at = 8 * threadIdx.x; at < cols; at += 8 * THREADS) {
        mtr_load8(x, at, cols, v);
        if (residual) {
            float old[8];
            mtr_load8(residual, at, cols, old);
            add_residual(v, old);
            mtr_store8(residual, at, cols, v);
        }
        sum = add_squares(sum, v);
    }
    const float inverse = inverse_of(args, sum, parts);
    for (uint32_t at = 8 * threadIdx.x; at < cols; at += 8 * THREADS) {
        mtr_load8(residual ? residual : x, at, cols, v);
        load_weights(args, at, w);
        scale8(v, inverse, w);
        mtr_store8((uint16_t *)args.y + (uint64_t)r * cols, at, cols, v);
    }
}

MTR_DEVICE void norm_any(const struct mtr_rms_norm_args &args, float (&parts)[2][PARTS])
{
    device::wait_for_predecessor();
    const uint32_t rows = device::row_count(args.step, args.rows_kind);
    for (uint32_t r = blockIdx.x, turn = 0; r < rows; r += gridDim.x, turn ^= 1)
        norm_row(args, r, parts[turn]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    rms_norm(const __grid_constant__ struct mtr_rms_norm_args args)
{
    __shared__ float parts[2][PARTS]; /* in turn, so that one barrier a row is enough */
    device::let_successor_start();
    if (args.cols % 8 == 0 && args.cols <= 8 * THREADS)
        norm_held<1>(args, parts);
    else if (args.cols % 8 == 0 && args.cols <= 2 * 8 * THREADS)
        norm_held<2>(args, parts);
    else
        norm_any(args, parts);
}
