/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights of any format, 32 elements at a time, as two vectors. The values are those of
 * common/numeric/format.c (which describes the layouts): every product in them is exact in f32, so
 * that one fused multiply-add rounds as the published two steps do.
 *
 * All functions take the format as a constant and are folded away by the compiler.
 */
#ifndef MTR_HOST_DEQUANT_H
#define MTR_HOST_DEQUANT_H

#include "common/numeric/format.h"
#include "kernels/host/vec.h"

#define MTR_INLINE static inline __attribute__((always_inline))

MTR_INLINE float f16_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return f16_to_f32(h);
}

MTR_INLINE uint32_t u32_at(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* Plain formats have any number of columns; the others whole blocks. */
MTR_INLINE int is_plain(enum mtr_format f)
{
    return f == MTR_F32 || f == MTR_F16 || f == MTR_BF16;
}

/* Bytes of a row of k elements. */
MTR_INLINE size_t row_bytes(enum mtr_format f, size_t k)
{
    switch (f) {
    case MTR_F32:
        return k * 4;
    case MTR_F16:
    case MTR_BF16:
        return k * 2;
    case MTR_Q4_0:
        return k / 32 * 18;
    case MTR_Q4_1:
        return k / 32 * 20;
    case MTR_Q5_0:
        return k / 32 * 22;
    case MTR_Q5_1:
        return k / 32 * 24;
    case MTR_Q8_0:
        return k / 32 * 34;
    case MTR_Q4_K:
        return k / 256 * 144;
    case MTR_Q5_K:
        return k / 256 * 176;
    case MTR_Q6_K:
        return k / 256 * 210;
    default:
        return 0;
    }
}

/* d * q + m for 32 nibbles. */
MTR_INLINE void decode_nibbles(const uint8_t *nibbles, float d, float m, vf out[2])
{
    struct vf_nibbles t = vf_nibbles(d, m);
    vi bytes = vi_load_u8(nibbles);
    out[0] = vf_low(t, bytes);
    out[1] = vf_high(t, bytes);
}

/* As above with a fifth bit. */
MTR_INLINE void decode_nibbles5(const uint8_t *nibbles, uint32_t high, float d, float m, vf out[2])
{
    vi bytes = vi_load_u8(nibbles);
    vi low = vi_or_bits(vi_and(bytes, vi_set1(15)), high, 16);
    vi top = vi_or_bits(vi_shr(bytes, 4), high >> 16, 16);
    out[0] = vf_fma(vf_of_int(low), vf_set1(d), vf_set1(m));
    out[1] = vf_fma(vf_of_int(top), vf_set1(d), vf_set1(m));
}

/* Scale and minimum of sub-block j of q4_K and q5_K; packed as format.c says. */
MTR_INLINE void k_scale_min(const uint8_t *block, size_t j, float *scale, float *min)
{
    const uint8_t *packed = block + 4;
    int s, m;
    if (j < 4) {
        s = packed[j] & 63;
        m = packed[j + 4] & 63;
    } else {
        s = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
        m = packed[j + 4] >> 4 | (packed[j] >> 6) << 4;
    }
    *scale = f16_at(block) * (float)s;
    *min = -(f16_at(block + 2) * (float)m);
}

/* Sub-block j: nibbles of 32 bytes, low for even j. `high` is NULL or has bit 4 at bit j. */
MTR_INLINE void decode_k(const uint8_t *block, const uint8_t *high, const uint8_t *nibbles,
                         size_t j, vf out[2])
{
    float d, m;
    k_scale_min(block, j, &d, &m);
    for (int i = 0; i < 2; i++) {
        vi q = vi_load_u8(nibbles + j / 2 * 32 + 16 * i);
        q = j & 1 ? vi_shr(q, 4) : vi_and(q, vi_set1(15));
        if (high) {
            vi bit = vi_and(vi_shr(vi_load_u8(high + 16 * i), (int)j), vi_set1(1));
            q = vi_or(q, vi_shl(bit, 4));
        }
        out[i] = vf_fma(vf_of_int(q), vf_set1(d), vf_set1(m));
    }
}

MTR_INLINE void decode_q6_k(const uint8_t *block, size_t run, vf out[2])
{
    size_t half = run / 4, k = run & 3;
    const uint8_t *low = block + half * 64 + (k & 1) * 32;
    const uint8_t *high = block + 128 + half * 32;
    float d = f16_at(block + 208);
    for (int i = 0; i < 2; i++) {
        vi nibble = vi_load_u8(low + 16 * i);
        nibble = k < 2 ? vi_and(nibble, vi_set1(15)) : vi_shr(nibble, 4);
        vi top = vi_and(vi_shr(vi_load_u8(high + 16 * i), (int)(2 * k)), vi_set1(3));
        vi q = vi_add(vi_or(nibble, vi_shl(top, 4)), vi_set1(-32));
        float scale = d * (float)(int8_t)block[192 + run * 2 + (size_t)i];
        out[i] = vf_mul(vf_of_int(q), vf_set1(scale));
    }
}

/* Elements [32 j, 32 j + 32) of a row. */
MTR_INLINE void decode32(enum mtr_format f, const uint8_t *row, size_t j, vf out[2])
{
    switch (f) {
    case MTR_F32:
        out[0] = vf_load((const float *)(const void *)row + 32 * j);
        out[1] = vf_load((const float *)(const void *)row + 32 * j + 16);
        break;
    case MTR_F16:
        out[0] = vf_load_f16((const uint16_t *)(const void *)row + 32 * j);
        out[1] = vf_load_f16((const uint16_t *)(const void *)row + 32 * j + 16);
        break;
    case MTR_BF16:
        out[0] = vf_load_bf16((const uint16_t *)(const void *)row + 32 * j);
        out[1] = vf_load_bf16((const uint16_t *)(const void *)row + 32 * j + 16);
        break;
    case MTR_Q4_0: {
        float d = f16_at(row + 18 * j);
        decode_nibbles(row + 18 * j + 2, d, -8.0f * d, out);
        break;
    }
    case MTR_Q4_1:
        decode_nibbles(row + 20 * j + 4, f16_at(row + 20 * j), f16_at(row + 20 * j + 2), out);
        break;
    case MTR_Q5_0: {
        float d = f16_at(row + 22 * j);
        decode_nibbles5(row + 22 * j + 6, u32_at(row + 22 * j + 2), d, -16.0f * d, out);
        break;
    }
    case MTR_Q5_1:
        decode_nibbles5(row + 24 * j + 8, u32_at(row + 24 * j + 4), f16_at(row + 24 * j),
                        f16_at(row + 24 * j + 2), out);
        break;
    case MTR_Q8_0: {
        vf d = vf_set1(f16_at(row + 34 * j));
        out[0] = vf_mul(vf_of_int(vi_load_i8(row + 34 * j + 2)), d);
        out[1] = vf_mul(vf_of_int(vi_load_i8(row + 34 * j + 18)), d);
        break;
    }
    case MTR_Q4_K: {
        const uint8_t *block = row + j / 8 * 144;
        decode_k(block, NULL, block + 16, j & 7, out);
        break;
    }
    case MTR_Q5_K: {
        const uint8_t *block = row + j / 8 * 176;
        decode_k(block, block + 16, block + 48, j & 7, out);
        break;
    }
    case MTR_Q6_K:
        decode_q6_k(row + j / 8 * 210, j & 7, out);
        break;
    default:
        out[0] = out[1] = vf_zero();
    }
}

/* Elements [first, first + n) of a row of a plain format, n < 16, the rest 0. */
MTR_INLINE vf decode_tail(enum mtr_format f, const uint8_t *row, size_t first, size_t n)
{
    size_t bytes = f == MTR_F32 ? 4 : 2;
    uint8_t copy[64] = {0};
    memcpy(copy, row + first * bytes, n * bytes);
    vf both[2];
    if (f == MTR_F32)
        return vf_load((const float *)(const void *)copy);
    decode32(f, copy, 0, both);
    return both[0];
}

/* A whole row of k elements into out [k rounded up to 16], padded with 0. */
MTR_INLINE void decode_row(enum mtr_format f, const uint8_t *row, size_t k, float *out)
{
    size_t j;
    for (j = 0; 32 * j + 32 <= k; j++) {
        vf w[2];
        decode32(f, row, j, w);
        vf_store(out + 32 * j, w[0]);
        vf_store(out + 32 * j + 16, w[1]);
    }
    if (is_plain(f))
        for (size_t i = 32 * j; i < k; i += 16)
            vf_store(out + i, decode_tail(f, row, i, k - i < 16 ? k - i : 16));
}

#endif
