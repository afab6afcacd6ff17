/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights of any format as f32, eight elements at a time, with the exact values of
 * common/numeric/format.c (which describes the layouts): every product in them is exact in f32, so
 * that contraction to a fused multiply-add changes nothing.
 *
 * A block of weights starts on two bytes at least, never on more: everything is read in halves.
 */
#ifndef MTR_GB10_DEQUANT_CUH
#define MTR_GB10_DEQUANT_CUH

#include "common/numeric/format.h"
#include "kernels/gb10/common/rows.cuh"

/* Elements and bytes of a block. */
struct mtr_weight_block {
    uint32_t elements, bytes;
};

__host__ __device__ constexpr struct mtr_weight_block mtr_weight_block(enum mtr_format f)
{
    switch (f) {
    case MTR_F32:
        return {1, 4};
    case MTR_F16:
    case MTR_BF16:
        return {1, 2};
    case MTR_Q4_0:
        return {32, 18};
    case MTR_Q4_1:
        return {32, 20};
    case MTR_Q5_0:
        return {32, 22};
    case MTR_Q5_1:
        return {32, 24};
    case MTR_Q8_0:
        return {32, 34};
    case MTR_Q4_K:
        return {256, 144};
    case MTR_Q5_K:
        return {256, 176};
    case MTR_Q6_K:
        return {256, 210};
    default:
        return {1, 0};
    }
}

/* Plain formats have any number of columns; the others whole blocks. */
__host__ __device__ constexpr bool mtr_is_plain(enum mtr_format f)
{
    return mtr_weight_block(f).elements == 1;
}

MTR_DEVICE uint64_t mtr_row_bytes(enum mtr_format f, uint32_t cols)
{
    return (uint64_t)(cols / mtr_weight_block(f).elements) * mtr_weight_block(f).bytes;
}

MTR_DEVICE uint16_t mtr_u16_at(const uint8_t *p)
{
    return *(const uint16_t *)p;
}

MTR_DEVICE uint32_t mtr_u32_at(const uint8_t *p)
{
    return (uint32_t)mtr_u16_at(p) | (uint32_t)mtr_u16_at(p + 2) << 16;
}

MTR_DEVICE float mtr_f16_at(const uint8_t *p)
{
    return mtr_f16_value(mtr_u16_at(p));
}

/* Byte i (0..3) of a word as a number. */
MTR_DEVICE int32_t mtr_byte(uint32_t word, int i)
{
    return (int32_t)(word >> (8 * i) & 0xff);
}

/* The numbers of eight bytes. */
MTR_DEVICE void mtr_bytes8(uint32_t a, uint32_t b, int32_t (&q)[8])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        q[i] = mtr_byte(a, i);
        q[4 + i] = mtr_byte(b, i);
    }
}

/* Eight nibbles of eight bytes: the low ones, or with shift 4 the high ones. */
MTR_DEVICE void mtr_nibbles8(const uint8_t *p, uint32_t shift, int32_t (&q)[8])
{
    mtr_bytes8(mtr_u32_at(p) >> shift & 0x0f0f0f0f, mtr_u32_at(p + 4) >> shift & 0x0f0f0f0f, q);
}

/* Adds bit i of `bits` to q[i] as its bit 4. */
MTR_DEVICE void mtr_fifth_bits(uint32_t bits, int32_t (&q)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        q[i] |= (int32_t)(bits >> i & 1) << 4;
}

/* d * (q + offset) + m */
MTR_DEVICE void mtr_scale8(const int32_t (&q)[8], int32_t offset, float d, float m, float (&out)[8])
{
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = __fmaf_rn(d, (float)(q[i] + offset), m);
}

/* Elements [8 g, 8 g + 8) of a block of 32, g < 4: element i is in the low nibble of byte i, i + 16
 * in its high one. */
template <enum mtr_format F>
MTR_DEVICE void mtr_dequant_run(const uint8_t *block, uint32_t g, float (&out)[8])
{
    constexpr bool has_min = F == MTR_Q4_1 || F == MTR_Q5_1,
                   has_high = F == MTR_Q5_0 || F == MTR_Q5_1;
    constexpr int head = has_min ? 4 : 2, quants = has_high ? head + 4 : head;
    constexpr int offset = F == MTR_Q4_0 ? -8 : F == MTR_Q5_0 ? -16 : 0;
    float d = mtr_f16_at(block), m = has_min ? mtr_f16_at(block + 2) : 0.0f;
    int32_t q[8];
    mtr_nibbles8(block + quants + 8 * (g & 1), g / 2 * 4, q);
    if (has_high)
        mtr_fifth_bits(mtr_u32_at(block + head) >> 8 * g, q);
    mtr_scale8(q, offset, d, m, out);
}

/* Scale and minimum j of q4_K and q5_K, 6 bits each, from their 12 bytes. */
MTR_DEVICE void mtr_scale_min(const uint8_t *packed, uint32_t j, int32_t *scale, int32_t *min)
{
    uint32_t a = packed[j & 3], b = packed[4 + (j & 3)], c = packed[8 + (j & 3)];
    *scale = (int32_t)(j < 4 ? a & 63 : (c & 15) | a >> 6 << 4);
    *min = (int32_t)(j < 4 ? b & 63 : c >> 4 | b >> 6 << 4);
}

/* Elements [8 g, 8 g + 8) of a block of 256, g < 32. */
template <enum mtr_format F>
MTR_DEVICE void mtr_dequant_k(const uint8_t *block, uint32_t g, float (&out)[8])
{
    constexpr int quants = F == MTR_Q5_K ? 48 : 16;
    uint32_t j = g / 4, e = g % 4 * 8; /* sub-block, and first element in it */
    int32_t scale, min, q[8];
    mtr_scale_min(block + 4, j, &scale, &min);
    float d = mtr_f16_at(block) * (float)scale, m = mtr_f16_at(block + 2) * (float)min;
    mtr_nibbles8(block + quants + j / 2 * 32 + e, (j & 1) * 4, q);
    if (F == MTR_Q5_K) {
        int32_t high[8];
        mtr_bytes8(mtr_u32_at(block + 16 + e) >> j & 0x01010101,
                   mtr_u32_at(block + 20 + e) >> j & 0x01010101, high);
#pragma unroll
        for (int i = 0; i < 8; i++)
            q[i] |= high[i] << 4;
    }
    mtr_scale8(q, 0, d, -m, out);
}

MTR_DEVICE void mtr_dequant_q6_k(const uint8_t *block, uint32_t g, float (&out)[8])
{
    uint32_t run = g / 4, half = run / 4, k = run % 4, e = g % 4 * 8;
    const uint8_t *low = block + half * 64 + (k & 1) * 32 + e, *high = block + 128 + half * 32 + e;
    int32_t q[8], top[8];
    mtr_nibbles8(low, k / 2 * 4, q);
    mtr_bytes8(mtr_u32_at(high) >> 2 * k & 0x03030303, mtr_u32_at(high + 4) >> 2 * k & 0x03030303,
               top);
#pragma unroll
    for (int i = 0; i < 8; i++)
        q[i] |= top[i] << 4;
    float d = mtr_f16_at(block + 208) * (float)(int8_t)block[192 + run * 2 + e / 16];
    mtr_scale8(q, -32, d, 0.0f, out);
}

MTR_DEVICE void mtr_dequant_q8_0(const uint8_t *block, uint32_t g, float (&out)[8])
{
    int32_t q[8];
    mtr_bytes8(mtr_u32_at(block + 2 + 8 * g), mtr_u32_at(block + 6 + 8 * g), q);
#pragma unroll
    for (int i = 0; i < 8; i++)
        q[i] = (int8_t)q[i];
    mtr_scale8(q, 0, mtr_f16_at(block), 0.0f, out);
}

/* Elements [8 i, 8 i + 8) of a row; 0 for those beyond the end of a plain row. */
template <enum mtr_format F>
MTR_DEVICE void mtr_dequant8(const uint8_t *row, uint32_t i, uint32_t cols, float (&out)[8])
{
    if constexpr (F == MTR_F32) {
        mtr_load8_f32((const float *)row, 8 * i, cols, out);
    } else if constexpr (F == MTR_BF16) {
        mtr_load8(row, 8 * i, cols, out);
    } else if constexpr (F == MTR_F16) {
        const uint16_t *p = (const uint16_t *)row + 8 * i;
#pragma unroll
        for (int e = 0; e < 8; e++)
            out[e] = 8 * i + e < cols ? mtr_f16_value(p[e]) : 0.0f;
    } else {
        constexpr struct mtr_weight_block b = mtr_weight_block(F);
        const uint8_t *block = row + (uint64_t)(8 * i / b.elements) * b.bytes;
        uint32_t g = i % (b.elements / 8);
        if constexpr (F == MTR_Q8_0)
            mtr_dequant_q8_0(block, g, out);
        else if constexpr (F == MTR_Q6_K)
            mtr_dequant_q6_k(block, g, out);
        else if constexpr (F == MTR_Q4_K || F == MTR_Q5_K)
            mtr_dequant_k<F>(block, g, out);
        else
            mtr_dequant_run<F>(block, g, out);
    }
}

#endif
