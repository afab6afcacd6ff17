/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* vec.h for AVX-512 (F, BW, DQ, VL): one register is one vector. */
#ifndef MTR_HOST_VEC_AVX512_H
#define MTR_HOST_VEC_AVX512_H

#include <immintrin.h>

typedef __m512 vf;
typedef __m512i vi;

/* Registers for a micro-kernel's tile: accumulators MTR_TILE_W x MTR_TILE_X of 32. */
#define MTR_TILE_W    4
#define MTR_TILE_X    6
#define MTR_FUSED_X   8
#define MTR_FUSED_ACC 16

static inline vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vf vf_set1(float f)
{
    return _mm512_set1_ps(f);
}

static inline vf vf_iota(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vf_store(float *p, vf v)
{
    _mm512_storeu_ps(p, v);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

static inline void vf_store_n(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}

static inline void vf_store_bf16(uint16_t *p, vf v)
{
    __m512i u = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline float f16_to_f32(uint16_t h)
{
    return _cvtsh_ss(h);
}

/* Seen as f16, exponent and mantissa of an e4m3 are 1/256 of its value; bits 15 and 14 are its sign
 * at first. A carry out of NaN's mantissa tells it from the others: bit 14 becomes that carry,
 * which makes f16's largest exponent of it. */
static inline vf vf_load_e4m3(const uint8_t *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    __m256i h = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
    __m256i carried = _mm256_add_epi16(h, _mm256_set1_epi16(0x80));
    h = _mm256_ternarylogic_epi32(h, carried, _mm256_set1_epi16(0x4000), 0xf0 ^ (0xcc & 0xaa));
    return _mm512_cvtph_ps(h);
}

/* Two f16 each from eight blocks of 20 bytes: 0, 20, 40, 60 are the words 0, 5, 10, 15 of 64 bytes.
 */
#define MTR_VEC_PAIRS20

static inline vf vf_pairs20(__m512i a, __m512i b)
{
    const __m512i words = _mm512_setr_epi32(0, 5, 10, 15, 16, 21, 26, 31, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512i pairs = _mm512_permutex2var_epi32(a, words, b);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(pairs));
}

static inline vf vf_load_pairs20(const uint8_t *p)
{
    return vf_pairs20(_mm512_loadu_si512(p), _mm512_loadu_si512(p + 80));
}

/* The first n of eight, the others 0; reads nothing behind the n-th pair. */
static inline vf vf_load_pairs20_n(const uint8_t *p, size_t n)
{
    const uint32_t words = 1u | 1u << 5 | 1u << 10 | 1u << 15;
    size_t low = n < 4 ? n : 4;
    __mmask16 a = (__mmask16)(words & ((1u << 5 * low) - 1));
    __mmask16 b = (__mmask16)(words & ((1u << 5 * (n - low)) - 1));
    return vf_pairs20(_mm512_maskz_loadu_epi32(a, p), _mm512_maskz_loadu_epi32(b, p + 80));
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

static inline vf vf_less(vf a, vf b, vf x, vf y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}

static inline vf vf_abs(vf a)
{
    return _mm512_abs_ps(a);
}

static inline vf vf_neg(vf a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}

static inline vf vf_of_int(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

static inline vf vf_of_bits(vi a)
{
    return _mm512_castsi512_ps(a);
}

static inline vi vi_bits(vf a)
{
    return _mm512_castps_si512(a);
}

static inline vi vi_set1(int32_t i)
{
    return _mm512_set1_epi32(i);
}

static inline vi vi_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

static inline vi vi_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

static inline vi vi_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n)

static inline vi vi_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline vi vi_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline vi vi_or_bits(vi a, uint32_t bits, int32_t value)
{
    return _mm512_mask_or_epi32(a, (__mmask16)bits, a, _mm512_set1_epi32(value));
}

typedef __m512 vr;
#define MTR_REGISTERS   1
#define VR_KEEP(v)      __asm__("" : "+v"(v))
#define VF_JOIN(acc, i) ((acc)[0][(i)])

static inline vr vr_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vr vr_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline vr vr_fma(vr a, vr b, vr c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* All sixteen values d * q + m in one register, so that a permutation decodes sixteen nibbles: it
 * looks at the low four bits of its indices only. */
struct vf_nibbles {
    vf table;
};

static inline struct vf_nibbles vf_nibbles(float d, float m)
{
    return (struct vf_nibbles){_mm512_fmadd_ps(_mm512_set1_ps(d), vf_iota(), _mm512_set1_ps(m))};
}

static inline vf vf_low(struct vf_nibbles t, vi bytes)
{
    return _mm512_permutexvar_ps(bytes, t.table);
}

static inline vf vf_high(struct vf_nibbles t, vi bytes)
{
    return _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), t.table);
}

/* The sixteen values of e2m1 times d; each lane shifts its nibble down. */
struct vf_fp4 {
    vf table;
};

static inline struct vf_fp4 vf_fp4_table(float d)
{
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return (struct vf_fp4){_mm512_mul_ps(values, _mm512_set1_ps(d))};
}

static inline vf vf_load_fp4(const uint8_t *p, struct vf_fp4 t)
{
    const __m512i shifts =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    __m512i low = _mm512_broadcastd_epi32(_mm_loadu_si32(p));
    __m512i both = _mm512_mask_broadcastd_epi32(low, 0xff00, _mm_loadu_si32(p + 4));
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(both, shifts), t.table);
}

static inline float vf_sum128(__m128 b)
{
    __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float vf_sum(vf v)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return vf_sum128(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
}

static inline float vf_maximum(vf v)
{
    return _mm512_reduce_max_ps(v);
}

/* One level of the tree for two vectors: `swap` has the halves exchanged across the two. */
#define VF_FOLD(a, b, mask, swap) _mm512_add_ps(_mm512_mask_blend_ps(mask, a, b), swap)

static inline vf vf_fold8(vf a, vf b)
{
    return VF_FOLD(a, b, 0xff00, _mm512_shuffle_f32x4(a, b, 0x4e));
}

static inline vf vf_fold4(vf a, vf b)
{
    __m512 swap = _mm512_shuffle_f32x4(a, b, 0x88);
    __m512 keep = _mm512_shuffle_f32x4(a, b, 0xdd);
    return _mm512_add_ps(swap, keep);
}

static inline vf vf_fold2(vf a, vf b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

static inline vf vf_fold1(vf a, vf b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/*
 * fold8 leaves [a: 8 partials | b: 8 partials], fold4 [a b c d: 4 each], fold2 with 128-bit lane i
 * holding two partials of two vectors, fold1 one of four. What ends in lane i of the register is
 * chosen by the order in which vectors meet.
 */
static inline __attribute__((always_inline)) vf vf_sum16(const vf v[16])
{
    vf e[8], q[4], p[2];
    for (int i = 0; i < 4; i++) { /* e[i]: vectors i and i + 4; e[4 + i]: i + 8 and i + 12 */
        e[i] = vf_fold8(v[i], v[i + 4]);
        e[4 + i] = vf_fold8(v[i + 8], v[i + 12]);
    }
    for (int i = 0; i < 4; i++) /* lanes of 128 bits: i, i + 4, i + 8, i + 12 */
        q[i] = vf_fold4(e[i], e[4 + i]);
    p[0] = vf_fold2(q[0], q[1]);
    p[1] = vf_fold2(q[2], q[3]);
    return vf_fold1(p[0], p[1]);
}

/* As vf_sum16, of the first eight. */
static inline __attribute__((always_inline)) vf vf_sum8(const vf v[16])
{
    return vf_sum16(v); /* all sixteen are there */
}

#endif
