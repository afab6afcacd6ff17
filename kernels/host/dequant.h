/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights of any format, 32 elements at a time, as two vectors. The values are those of
 * common/numeric/format.c (which describes the layouts): every product in them is exact in f32, so
 * that one fused multiply-add rounds as the published two steps do. Formats whose scales stand in
 * tensors of their own are scaled.h's.
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
    case MTR_E4M3:
        return k;
    case MTR_E2M1:
        return k / 2;
    default:
        return 0;
    }
}

/*
 * Scales first. A row's f16 scales stand scattered between its quants, and to convert one costs as
 * much as to convert sixteen. So the scales of many rows are collected (collect_scales, plain
 * copies), then converted together (widen_scales), and decode32() broadcasts them from memory. Two
 * passes over all rows, since a vector load from bytes that were just stored one by one waits for
 * the stores.
 *
 * Floats of a run of 32 elements: q4_1 q5_1: d, m; q4_0 q5_0 q8_0: d. Of a block of 256: q4_k q5_k:
 * d * scale of 8 runs, then -(dmin * min) of 8 runs; q6_k: d * scale of 16 half runs. scale_at()
 * says where those of a run begin.
 */
struct scale_form {
    uint32_t runs;  /* that one unit covers */
    uint32_t bytes; /* of a unit in the weights */
    uint32_t raw;   /* bytes collected of it */
    uint32_t floats;
};

MTR_INLINE struct scale_form scale_form(enum mtr_format f)
{
    switch (f) {
    case MTR_Q4_0:
        return (struct scale_form){1, 18, 2, 1};
    case MTR_Q4_1:
        return (struct scale_form){1, 20, 4, 2};
    case MTR_Q5_0:
        return (struct scale_form){1, 22, 2, 1};
    case MTR_Q5_1:
        return (struct scale_form){1, 24, 4, 2};
    case MTR_Q8_0:
        return (struct scale_form){1, 34, 2, 1};
    case MTR_Q4_K:
        return (struct scale_form){8, 144, 20, 16};
    case MTR_Q5_K:
        return (struct scale_form){8, 176, 20, 16};
    case MTR_Q6_K:
        return (struct scale_form){8, 210, 18, 16};
    default:
        return (struct scale_form){1, 0, 0, 0};
    }
}

/* Bytes or floats for the scales of a row of k elements; rows of either stay apart by multiples of
 * 64 bytes, since both are written by whole vectors. */
MTR_INLINE size_t raw_stride(enum mtr_format f, size_t k)
{
    struct scale_form form = scale_form(f);
    return (k / 32 / form.runs * form.raw + 63) / 64 * 64;
}

MTR_INLINE size_t scale_stride(enum mtr_format f, size_t k)
{
    struct scale_form form = scale_form(f);
    return (k / 32 / form.runs * form.floats + 15) / 16 * 16;
}

MTR_INLINE size_t scale_at(enum mtr_format f, size_t run)
{
    switch (f) {
    case MTR_Q4_K:
    case MTR_Q5_K:
        return run / 8 * 16 + run % 8;
    case MTR_Q6_K:
        return run * 2;
    default:
        return run * scale_form(f).floats;
    }
}

/*
 * q4_K and q5_K: eight 6-bit scales and minimums in 12 bytes (format.c), unpacked to a byte each:
 * scales 0..7, minimums 0..7, then d and dmin.
 */
MTR_INLINE void collect_k(const uint8_t *block, uint8_t *raw)
{
    uint32_t a = u32_at(block + 4), b = u32_at(block + 8), c = u32_at(block + 12);
    const uint32_t words[4] = {
        a & 0x3f3f3f3f,
        (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030),
        b & 0x3f3f3f3f,
        (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030),
    };
    memcpy(raw, words, 16);
    memcpy(raw + 16, block, 4);
}

MTR_INLINE void collect_scales(enum mtr_format f, const uint8_t *row, size_t k, uint8_t *raw)
{
    struct scale_form form = scale_form(f);
    size_t units = k / 32 / form.runs;
    for (size_t i = 0; i < units; i++, row += form.bytes, raw += form.raw)
        switch (f) {
        case MTR_Q4_K:
        case MTR_Q5_K:
            collect_k(row, raw);
            break;
        case MTR_Q6_K:
            memcpy(raw, row + 192, 18);
            break;
        default:
            memcpy(raw, row, form.raw);
        }
}

MTR_INLINE void widen_scales(enum mtr_format f, const uint8_t *raw, size_t k, float *out)
{
    struct scale_form form = scale_form(f);
    size_t count = scale_stride(f, k);
    if (form.runs == 1) {
        for (size_t i = 0; i < count; i += 16)
            vf_store(out + i, vf_load_f16((const uint16_t *)(const void *)raw + i));
        return;
    }
    for (size_t i = 0; i < count; i += 16, raw += form.raw) {
        vf d = vf_set1(f16_at(raw + 16));
        if (f == MTR_Q6_K) {
            vf_store(out + i, vf_mul(vf_of_int(vi_load_i8(raw)), d));
        } else {
            vf both = vf_less(vf_iota(), vf_set1(8.0f), d, vf_set1(-f16_at(raw + 18)));
            vf_store(out + i, vf_mul(vf_of_int(vi_load_u8(raw)), both));
        }
    }
}

/* Whether the instruction set reads the scales of a format in one pass, without copies. */
MTR_INLINE int direct_scales(enum mtr_format f)
{
#ifdef MTR_VEC_PAIRS20
    return f == MTR_Q4_1;
#else
    return 0;
#endif
}

MTR_INLINE void read_scales(enum mtr_format f, const uint8_t *row, size_t k, float *out)
{
#ifdef MTR_VEC_PAIRS20
    size_t runs = k / 32, i;
    for (i = 0; i + 8 <= runs; i += 8)
        vf_store(out + 2 * i, vf_load_pairs20(row + 20 * i));
    if (i < runs)
        vf_store(out + 2 * i, vf_load_pairs20_n(row + 20 * i, runs - i));
#endif
}

/* q * d + m for 32 nibbles, a table made once for both halves. */
MTR_INLINE void decode_nibbles(const uint8_t *nibbles, struct vf_nibbles t, vf out[2])
{
    vi bytes = vi_load_u8(nibbles);
    out[0] = vf_low(t, bytes);
    out[1] = vf_high(t, bytes);
}

/* 32 nibbles with a fifth bit, as numbers. */
MTR_INLINE void nibbles5(const uint8_t *nibbles, uint32_t high, vf out[2])
{
    vi bytes = vi_load_u8(nibbles);
    out[0] = vf_of_int(vi_or_bits(vi_and(bytes, vi_set1(15)), high, 16));
    out[1] = vf_of_int(vi_or_bits(vi_shr(bytes, 4), high >> 16, 16));
}

/* Sub-block j of q4_K: nibbles of 32 bytes, low for even j. */
MTR_INLINE void decode_q4_k(const uint8_t *nibbles, size_t j, struct vf_nibbles t, vf out[2])
{
    vi a = vi_load_u8(nibbles + j / 2 * 32), b = vi_load_u8(nibbles + j / 2 * 32 + 16);
    out[0] = j & 1 ? vf_high(t, a) : vf_low(t, a);
    out[1] = j & 1 ? vf_high(t, b) : vf_low(t, b);
}

/* Sub-block j of q5_K; bit 4 of element e is bit j of byte e of `high`. */
MTR_INLINE void decode_q5_k(const uint8_t *high, const uint8_t *nibbles, size_t j, vf d, vf m,
                            vf out[2])
{
    for (int i = 0; i < 2; i++) {
        vi q = vi_load_u8(nibbles + j / 2 * 32 + 16 * i);
        q = j & 1 ? vi_shr(q, 4) : vi_and(q, vi_set1(15));
        vi bit = vi_and(vi_shr(vi_load_u8(high + 16 * i), (int)j), vi_set1(1));
        out[i] = vf_fma(vf_of_int(vi_or(q, vi_shl(bit, 4))), d, m);
    }
}

/* Run of 32 elements of q6_K. */
MTR_INLINE void decode_q6_k(const uint8_t *block, size_t run, const float *scale, vf out[2])
{
    size_t half = run / 4, k = run & 3;
    const uint8_t *low = block + half * 64 + (k & 1) * 32;
    const uint8_t *high = block + 128 + half * 32;
    for (int i = 0; i < 2; i++) {
        vi nibble = vi_load_u8(low + 16 * i);
        nibble = k < 2 ? vi_and(nibble, vi_set1(15)) : vi_shr(nibble, 4);
        vi top = vi_and(vi_shr(vi_load_u8(high + 16 * i), (int)(2 * k)), vi_set1(3));
        vi q = vi_add(vi_or(nibble, vi_shl(top, 4)), vi_set1(-32));
        out[i] = vf_mul(vf_of_int(q), vf_set1(scale[i]));
    }
}

/* Run first + j of a row, that is 32 elements; s are the row's scales. In formats with blocks of
 * 256 first is a multiple of 8 and j < 8, better a constant. */
MTR_INLINE void decode32(enum mtr_format f, const uint8_t *row, size_t first, size_t j,
                         const float *s, vf out[2])
{
    const uint8_t *block = row + first / 8 * scale_form(f).bytes;
    s += scale_at(f, first) + scale_at(f, j);
    if (scale_form(f).runs == 1)
        j += first;
    vf q[2];
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
    case MTR_Q4_0:
        decode_nibbles(row + 18 * j + 2, vf_nibbles(s[0], -8.0f * s[0]), out);
        break;
    case MTR_Q4_1:
        decode_nibbles(row + 20 * j + 4, vf_nibbles(s[0], s[1]), out);
        break;
    case MTR_Q5_0:
        nibbles5(row + 22 * j + 6, u32_at(row + 22 * j + 2), q);
        for (int i = 0; i < 2; i++)
            out[i] = vf_mul(vf_sub(q[i], vf_set1(16.0f)), vf_set1(s[0]));
        break;
    case MTR_Q5_1:
        nibbles5(row + 24 * j + 8, u32_at(row + 24 * j + 4), q);
        for (int i = 0; i < 2; i++)
            out[i] = vf_fma(q[i], vf_set1(s[0]), vf_set1(s[1]));
        break;
    case MTR_Q8_0:
        out[0] = vf_mul(vf_of_int(vi_load_i8(row + 34 * j + 2)), vf_set1(s[0]));
        out[1] = vf_mul(vf_of_int(vi_load_i8(row + 34 * j + 18)), vf_set1(s[0]));
        break;
    case MTR_Q4_K:
        decode_q4_k(block + 16, j, vf_nibbles(s[0], s[8]), out);
        break;
    case MTR_Q5_K:
        decode_q5_k(block + 16, block + 48, j, vf_set1(s[0]), vf_set1(s[8]), out);
        break;
    case MTR_Q6_K:
        decode_q6_k(block, j, s, out);
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
    if (f == MTR_F32)
        return vf_load((const float *)(const void *)copy);
    vf both[2];
    decode32(f, copy, 0, 0, NULL, both);
    return both[0];
}

/* A whole row of k elements into out [k rounded up to 16], padded with 0. */
MTR_INLINE void decode_row(enum mtr_format f, const uint8_t *row, size_t k, const float *scales,
                           float *out)
{
    size_t runs = k / 32, unit = scale_form(f).runs;
    for (size_t first = 0; first < runs; first += unit)
        MTR_UNROLL(2)
    for (size_t j = 0; j < unit; j++) {
        vf w[2];
        decode32(f, row, first, j, scales, w);
        vf_store(out + 32 * (first + j), w[0]);
        vf_store(out + 32 * (first + j) + 16, w[1]);
    }
    if (is_plain(f))
        for (size_t i = 32 * runs; i < k; i += 16) {
            size_t n = k - i < 16 ? k - i : 16;
            vf_store(out + i, decode_tail(f, row, i, n));
        }
}

#endif
