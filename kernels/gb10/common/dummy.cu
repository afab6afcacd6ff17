/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random weights: kernels/args/dummy.h says which. A thread makes one Philox number at a time: four
 * elements, or 16 bytes of a block. Floating-point operations are written so that the compiler does
 * not contract them: the bytes are those of the host class.
 */
#include "kernels/args/dummy.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS MTR_DUMMY_THREADS

/* Ten rounds, as in common/base/philox.c. */
MTR_DEVICE uint4 philox(uint64_t seed, uint64_t position, uint32_t draw)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint4 c = make_uint4((uint32_t)position, (uint32_t)(position >> 32), draw, 0);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xd2511f53u, c.x), low0 = 0xd2511f53u * c.x;
        uint32_t high1 = __umulhi(0xcd9e8d57u, c.z), low1 = 0xcd9e8d57u * c.z;
        c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return c;
}

/* ---- plain formats ---- */

struct as_f32 {
    typedef float element;
    static __device__ element round(float f) { return f; }
};

struct as_f16 {
    typedef uint16_t element;
    static __device__ element round(float f)
    {
        uint16_t h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
        return h;
    }
};

struct as_bf16 {
    typedef uint16_t element;
    static __device__ element round(float f) { return mtr_bf16_round(f); }
};

MTR_DEVICE float value_of(const struct mtr_dummy_args &args, uint32_t word)
{
    float u = __fadd_rn(__fmul_rn((float)(word >> 8), 1.0f / 16777216.0f), -0.5f);
    return __fadd_rn(args.offset, __fmul_rn(args.range, u));
}

template <class F> MTR_DEVICE void fill_group(const struct mtr_dummy_args &args, uint64_t group)
{
    const uint4 n = philox(args.seed, group, 0);
    const uint32_t words[4] = {n.x, n.y, n.z, n.w};
    typename F::element *dst = (typename F::element *)args.dst;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t e = group * 4 + i;
        if (e >= args.first && e - args.first < args.count)
            dst[e - args.first] = F::round(value_of(args, words[i]));
    }
}

template <class F> MTR_DEVICE void fill_plain(const struct mtr_dummy_args &args)
{
    for (uint64_t g = (uint64_t)blockIdx.x * MTR_DUMMY_TILE; g < args.items;
         g += (uint64_t)gridDim.x * MTR_DUMMY_TILE)
        for (uint64_t i = g + threadIdx.x; i < args.items && i < g + MTR_DUMMY_TILE; i += THREADS)
            fill_group<F>(args, args.first / 4 + i);
}

#define PLAIN(name, format)                                                                        \
    MTR_KERNEL(THREADS) dummy_##name(const __grid_constant__ struct mtr_dummy_args args)           \
    {                                                                                              \
        mtr_begin();                                                                               \
        fill_plain<format>(args);                                                                  \
    }

PLAIN(f32, as_f32)
PLAIN(f16, as_f16)
PLAIN(bf16, as_bf16)

/* ---- blocks ---- */

/* Pairs of bytes, since blocks and the places of their scales are even. */
MTR_DEVICE void fill_piece(const struct mtr_dummy_args &args, uint64_t block, uint32_t piece)
{
    uint32_t at = piece * MTR_DUMMY_PIECE;
    const uint4 n = philox(args.seed, args.first + block, at);
    const uint32_t words[4] = {n.x, n.y, n.z, n.w};
    uint16_t *dst = (uint16_t *)((uint8_t *)args.dst + block * args.block_bytes);
#pragma unroll
    for (uint32_t i = 0; i < MTR_DUMMY_PIECE / 2; i++) {
        uint32_t byte = at + 2 * i;
        uint16_t h = (uint16_t)(words[i / 2] >> (i % 2 * 16));
        for (uint32_t s = 0; s < args.scale_count; s++)
            h = args.scale_at[s] == byte ? args.scale[s] : h;
        if (byte < args.block_bytes)
            dst[byte / 2] = h;
    }
}

MTR_KERNEL(THREADS) dummy_blocks(const __grid_constant__ struct mtr_dummy_args args)
{
    mtr_begin();
    uint32_t pieces = args.block_pieces;
    for (uint64_t t = (uint64_t)blockIdx.x * MTR_DUMMY_TILE; t < args.items;
         t += (uint64_t)gridDim.x * MTR_DUMMY_TILE)
        for (uint64_t i = t + threadIdx.x; i < args.items && i < t + MTR_DUMMY_TILE; i += THREADS)
            fill_piece(args, i / pieces, (uint32_t)(i % pieces));
}

/* ---- bytes ---- */

MTR_DEVICE void fill_bytes(const struct mtr_dummy_args &args, uint64_t piece)
{
    const uint4 n = philox(args.seed, piece, 0);
    const uint32_t words[4] = {n.x, n.y, n.z, n.w};
    uint8_t *dst = (uint8_t *)args.dst;
#pragma unroll
    for (uint32_t i = 0; i < MTR_DUMMY_PIECE; i++) {
        uint64_t e = piece * MTR_DUMMY_PIECE + i;
        uint8_t byte = (uint8_t)(words[i / 4] >> (i % 4 * 8));
        if (e >= args.first && e - args.first < args.count)
            dst[e - args.first] = (uint8_t)((byte & args.byte_mask) | args.byte_bits);
    }
}

MTR_KERNEL(THREADS) dummy_bytes(const __grid_constant__ struct mtr_dummy_args args)
{
    mtr_begin();
    for (uint64_t t = (uint64_t)blockIdx.x * MTR_DUMMY_TILE; t < args.items;
         t += (uint64_t)gridDim.x * MTR_DUMMY_TILE)
        for (uint64_t i = t + threadIdx.x; i < args.items && i < t + MTR_DUMMY_TILE; i += THREADS)
            fill_bytes(args, args.first / MTR_DUMMY_PIECE + i);
}
