/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Greedy tokens. A logit and its index become one 64-bit key whose order is that of the logits, and
 * among equals that of falling indices; the largest key of a row is the same in whatever order its
 * block meets them. NaN and -infinity have the key 0.
 */
#include <math_constants.h>

#include "kernels/args/sample.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS MTR_SAMPLE_THREADS
#define AHEAD   4 /* loads of a thread in flight */

/* The bits of a float order like the number once negative ones are inverted and positive ones get
 * the top bit. Adding 0 makes -0 the equal of 0. */
MTR_DEVICE uint64_t key_of(float x, uint32_t index)
{
    uint32_t bits = __float_as_uint(x + 0.0f);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return x > -CUDART_INF_F ? (uint64_t)bits << 32 | ~index : 0;
}

MTR_DEVICE uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Over the block; right in thread 0. */
MTR_DEVICE uint64_t largest_of_block(uint64_t key, uint64_t *parts)
{
    for (int i = MTR_WARP / 2; i > 0; i /= 2)
        key = larger(key, __shfl_xor_sync(MTR_ALL, key, i));
    if (threadIdx.x % MTR_WARP == 0)
        parts[threadIdx.x / MTR_WARP] = key;
    __syncthreads();
    for (uint32_t i = 0; threadIdx.x == 0 && i < THREADS / MTR_WARP; i++)
        key = larger(key, parts[i]);
    return key;
}

MTR_DEVICE uint64_t largest_of_fours(const float *x, uint32_t count)
{
    uint64_t best = 0;
    uint32_t i = threadIdx.x;
    for (; i + (AHEAD - 1) * THREADS < count / 4; i += AHEAD * THREADS) {
        float4 v[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            v[a] = ((const float4 *)x)[i + a * THREADS];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            uint32_t at = 4 * (i + a * THREADS);
            best = larger(best, larger(larger(key_of(v[a].x, at), key_of(v[a].y, at + 1)),
                                       larger(key_of(v[a].z, at + 2), key_of(v[a].w, at + 3))));
        }
    }
    for (i *= 4; i < count / 4 * 4; i += 4 * THREADS)
        for (uint32_t e = 0; e < 4; e++)
            best = larger(best, key_of(x[i + e], i + e));
    return best;
}

MTR_DEVICE uint64_t largest_of_row(const float *x, uint32_t count, bool aligned, uint64_t *parts)
{
    uint32_t done = aligned ? count / 4 * 4 : 0;
    uint64_t best = aligned ? largest_of_fours(x, count) : 0;
    for (uint32_t i = done + threadIdx.x; i < count; i += THREADS)
        best = larger(best, key_of(x[i], i));
    return largest_of_block(best, parts);
}

/* The slot of the lane whose last output row r is, or -1. */
MTR_DEVICE int32_t slot_behind(const struct mtr_step_view *step, uint32_t r)
{
    int32_t row = step->output_rows[r], lane = step->token_lanes[row];
    return step->lane_rows[lane + 1] == row + 1 ? step->lane_slots[lane] : -1;
}

MTR_KERNEL(THREADS) argmax(const __grid_constant__ struct mtr_sample_args args)
{
    mtr_begin();
    __shared__ uint64_t parts[THREADS / MTR_WARP];
    for (uint32_t r = blockIdx.x; r < args.step->outputs; r += gridDim.x) {
        const float *row = args.logits + (uint64_t)r * args.stride;
        uint64_t best = largest_of_row(row, args.vocab, args.stride % 4 == 0, parts);
        if (threadIdx.x == 0) {
            int32_t token = best ? (int32_t) ~(uint32_t)best : 0, slot = slot_behind(args.step, r);
            args.tokens[r] = token;
            if (slot >= 0)
                args.last_tokens[slot] = token;
        }
        __syncthreads(); /* parts */
    }
}
