/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What row-wise kernels share. Activations are bf16 in memory and f32 in arithmetic, rounded to
 * nearest even once, where they are stored. No function here uses more than sm_90 and sm_121 share.
 *
 * Rows are walked eight elements (16 bytes) at a time. A row whose length is no multiple of eight
 * does not start on 16 bytes; its elements are then read one by one, in the same order, so that the
 * arithmetic has one form.
 *
 * Where a result must not depend on which kernel computed it, products and sums that the compiler
 * might contract are written with __fmul_rn, __fadd_rn and __fmaf_rn.
 */
#ifndef MTR_GB10_ROWS_CUH
#define MTR_GB10_ROWS_CUH

#include <stdint.h>

#include "kernels/gb10/common/device.cuh"

#define MTR_DEVICE static __device__ __forceinline__
/* A kernel that row-wise launchers start; it begins with mtr_begin(). */
#define MTR_KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)

#define MTR_WARP 32
#define MTR_ALL  0xffffffffu /* lanes of a warp */

/* Before anything else: what earlier kernels wrote is there, and the next one may be brought up. */
MTR_DEVICE void mtr_begin(void)
{
    device::wait_for_predecessor();
    device::let_successor_start();
}

/* ---- numbers ---- */

MTR_DEVICE float mtr_bf16_low(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

MTR_DEVICE float mtr_bf16_high(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

MTR_DEVICE float mtr_bf16_value(uint16_t h)
{
    return __uint_as_float((uint32_t)h << 16);
}

/* Two f32 as a pair of bf16, the first in the low half. */
MTR_DEVICE uint32_t mtr_bf16_pair(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

MTR_DEVICE uint16_t mtr_bf16_round(float f)
{
    return (uint16_t)mtr_bf16_pair(f, 0.0f);
}

MTR_DEVICE float mtr_f16_value(uint16_t h)
{
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

/* 2^x; 0 for -infinity, exactly 1 for 0. */
MTR_DEVICE float mtr_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* ---- eight elements ---- */

MTR_DEVICE void mtr_widen8(uint4 raw, float (&out)[8])
{
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out[2 * i] = mtr_bf16_low(words[i]);
        out[2 * i + 1] = mtr_bf16_high(words[i]);
    }
}

MTR_DEVICE uint4 mtr_narrow8(const float (&v)[8])
{
    return make_uint4(mtr_bf16_pair(v[0], v[1]), mtr_bf16_pair(v[2], v[3]),
                      mtr_bf16_pair(v[4], v[5]), mtr_bf16_pair(v[6], v[7]));
}

/* Elements [at, at + 8) of a row of `cols` bf16; 0 for those beyond its end. */
MTR_DEVICE void mtr_load8(const void *row, uint32_t at, uint32_t cols, float (&out)[8])
{
    const uint16_t *p = (const uint16_t *)row + at;
    if (cols % 8 == 0) {
        mtr_widen8(*(const uint4 *)p, out);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = at + i < cols ? mtr_bf16_value(p[i]) : 0.0f;
}

MTR_DEVICE void mtr_store8(void *row, uint32_t at, uint32_t cols, const float (&v)[8])
{
    uint16_t *p = (uint16_t *)row + at;
    if (cols % 8 == 0) {
        *(uint4 *)p = mtr_narrow8(v);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (at + i < cols)
            p[i] = mtr_bf16_round(v[i]);
}

/* The same for a vector of f32, where cols is that of the row it goes with. */
MTR_DEVICE void mtr_load8_f32(const float *p, uint32_t at, uint32_t cols, float (&out)[8])
{
    if (cols % 8 == 0) {
        const float4 a = *(const float4 *)(p + at), b = *(const float4 *)(p + at + 4);
        out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
        out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = at + i < cols ? p[at + i] : 0.0f;
}

/* What a bf16 row will hold of these numbers. */
MTR_DEVICE void mtr_round8(float (&v)[8])
{
    mtr_widen8(mtr_narrow8(v), v);
}

/* ---- sums ---- */

/* Over `lanes` (a power of two) neighbouring lanes of a warp; the same bits in all of them. */
MTR_DEVICE float mtr_sum_lanes(float v, int lanes)
{
    for (int i = lanes / 2; i > 0; i /= 2)
        v = __fadd_rn(v, __shfl_xor_sync(MTR_ALL, v, i));
    return v;
}

/* Over the block, warps in order; `parts` is shared memory for one float a warp. For all threads of
 * the block at once; not to be called again before another barrier. */
MTR_DEVICE float mtr_sum_block(float v, float *parts)
{
    v = mtr_sum_lanes(v, MTR_WARP);
    if (threadIdx.x % MTR_WARP == 0)
        parts[threadIdx.x / MTR_WARP] = v;
    __syncthreads();
    float sum = parts[0];
    for (uint32_t i = 1; i < blockDim.x / MTR_WARP; i++)
        sum = __fadd_rn(sum, parts[i]);
    return sum;
}

#endif
