/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* vec.h for AVX2 with FMA and F16C: a vector is two registers, lanes 0..7 and 8..15. */
#ifndef MTR_HOST_VEC_AVX2_H
#define MTR_HOST_VEC_AVX2_H

#include <immintrin.h>

typedef struct {
    __m256 a, b;
} vf;
typedef struct {
    __m256i a, b;
} vi;

#define MTR_TILE_W    2
#define MTR_TILE_X    3
#define MTR_FUSED_X   4
#define MTR_FUSED_ACC 4

static inline vf vf_zero(void)
{
    return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline vf vf_set1(float f)
{
    return (vf){_mm256_set1_ps(f), _mm256_set1_ps(f)};
}

static inline vf vf_iota(void)
{
    return (vf){_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7),
                _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}

static inline vf vf_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void vf_store(float *p, vf v)
{
    _mm256_storeu_ps(p, v.a);
    _mm256_storeu_ps(p + 8, v.b);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    float t[16] = {0};
    memcpy(t, p, n * sizeof *t);
    return vf_load(t);
}

static inline void vf_store_n(float *p, vf v, size_t n)
{
    float t[16];
    vf_store(t, v);
    memcpy(p, t, n * sizeof *t);
}

static inline __m256 vf_widen_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    return (vf){vf_widen_bf16(_mm_loadu_si128((const __m128i *)p)),
                vf_widen_bf16(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

static inline __m256i vf_round_bf16(__m256 v)
{
    __m256i u = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    return _mm256_srli_epi32(_mm256_blendv_epi8(r, quiet, nan), 16);
}

static inline void vf_store_bf16(uint16_t *p, vf v)
{
    __m256i both = _mm256_packus_epi32(vf_round_bf16(v.a), vf_round_bf16(v.b));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(both, 0xd8));
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
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
    h = _mm256_xor_si256(h, _mm256_and_si256(carried, _mm256_set1_epi16(0x4000)));
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}

static inline vf vf_add(vf x, vf y)
{
    return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}

static inline vf vf_sub(vf x, vf y)
{
    return (vf){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline vf vf_mul(vf x, vf y)
{
    return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline vf vf_div(vf x, vf y)
{
    return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}

static inline vf vf_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

static inline vf vf_max(vf x, vf y)
{
    return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}

static inline vf vf_less(vf l, vf r, vf x, vf y)
{
    return (vf){_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(l.a, r.a, _CMP_LT_OQ)),
                _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(l.b, r.b, _CMP_LT_OQ))};
}

static inline vf vf_abs(vf v)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_andnot_ps(sign, v.a), _mm256_andnot_ps(sign, v.b)};
}

static inline vf vf_neg(vf v)
{
    __m256 sign = _mm256_set1_ps(-0.0f);
    return (vf){_mm256_xor_ps(sign, v.a), _mm256_xor_ps(sign, v.b)};
}

static inline vf vf_of_int(vi v)
{
    return (vf){_mm256_cvtepi32_ps(v.a), _mm256_cvtepi32_ps(v.b)};
}

static inline vf vf_of_bits(vi v)
{
    return (vf){_mm256_castsi256_ps(v.a), _mm256_castsi256_ps(v.b)};
}

static inline vi vi_bits(vf v)
{
    return (vi){_mm256_castps_si256(v.a), _mm256_castps_si256(v.b)};
}

static inline vi vi_set1(int32_t i)
{
    return (vi){_mm256_set1_epi32(i), _mm256_set1_epi32(i)};
}

static inline vi vi_add(vi x, vi y)
{
    return (vi){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}

static inline vi vi_and(vi x, vi y)
{
    return (vi){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}

static inline vi vi_or(vi x, vi y)
{
    return (vi){_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}

static inline vi vi_shl(vi v, int n)
{
    return (vi){_mm256_slli_epi32(v.a, n), _mm256_slli_epi32(v.b, n)};
}

static inline vi vi_shr(vi v, int n)
{
    return (vi){_mm256_srli_epi32(v.a, n), _mm256_srli_epi32(v.b, n)};
}

static inline vi vi_load_u8(const uint8_t *p)
{
    return (vi){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}

static inline vi vi_load_i8(const uint8_t *p)
{
    return (vi){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}

static inline __m256i vi_bit_mask(uint32_t bits)
{
    __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane);
}

static inline vi vi_or_bits(vi v, uint32_t bits, int32_t value)
{
    __m256i set = _mm256_set1_epi32(value);
    return (vi){_mm256_or_si256(v.a, _mm256_and_si256(vi_bit_mask(bits), set)),
                _mm256_or_si256(v.b, _mm256_and_si256(vi_bit_mask(bits >> 8), set))};
}

typedef __m256 vr;
#define MTR_REGISTERS   2
#define VR_KEEP(v)      __asm__("" : "+x"(v))
#define VF_JOIN(acc, i) ((vf){(acc)[0][(i)], (acc)[1][(i)]})

static inline vr vr_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vr vr_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline vr vr_fma(vr a, vr b, vr c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The eight magnitudes of e2m1 times d; each lane shifts its nibble down and its sign up. */
struct vf_fp4 {
    __m256 table;
};

static inline struct vf_fp4 vf_fp4_table(float d)
{
    const __m256 values = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    return (struct vf_fp4){_mm256_mul_ps(values, _mm256_set1_ps(d))};
}

static inline __m256 vf_eight_fp4(const uint8_t *p, __m256 table)
{
    int32_t nibbles;
    memcpy(&nibbles, p, sizeof nibbles);
    __m256i q = _mm256_srlv_epi32(_mm256_set1_epi32(nibbles),
                                  _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256 sign =
        _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(q, 28)), _mm256_set1_ps(-0.0f));
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, q), sign);
}

static inline vf vf_load_fp4(const uint8_t *p, struct vf_fp4 t)
{
    return (vf){vf_eight_fp4(p, t.table), vf_eight_fp4(p + 4, t.table)};
}

struct vf_nibbles {
    __m256 d, m;
};

static inline struct vf_nibbles vf_nibbles(float d, float m)
{
    return (struct vf_nibbles){_mm256_set1_ps(d), _mm256_set1_ps(m)};
}

static inline vf vf_affine(struct vf_nibbles t, vi q)
{
    return (vf){_mm256_fmadd_ps(_mm256_cvtepi32_ps(q.a), t.d, t.m),
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(q.b), t.d, t.m)};
}

static inline vf vf_low(struct vf_nibbles t, vi bytes)
{
    return vf_affine(t, vi_and(bytes, vi_set1(15)));
}

static inline vf vf_high(struct vf_nibbles t, vi bytes)
{
    return vf_affine(t, vi_shr(bytes, 4));
}

static inline float vf_sum(vf v)
{
    __m256 a = _mm256_add_ps(v.a, v.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline float vf_maximum(vf v)
{
    __m256 a = _mm256_max_ps(v.a, v.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

/* Eight vectors: lane i of the result is the sum of v[i]. Folds as in vec_avx512.h. */
static inline __attribute__((always_inline)) __m256 vf_sum_eight(const vf *v)
{
    __m256 q[4], p[2];
    for (int i = 0; i < 4; i++) {
        __m256 x = _mm256_add_ps(v[i].a, v[i].b), y = _mm256_add_ps(v[i + 4].a, v[i + 4].b);
        q[i] =
            _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
    }
    for (int i = 0; i < 2; i++)
        p[i] = _mm256_add_ps(_mm256_shuffle_ps(q[2 * i], q[2 * i + 1], 0x44),
                             _mm256_shuffle_ps(q[2 * i], q[2 * i + 1], 0xee));
    return _mm256_add_ps(_mm256_shuffle_ps(p[0], p[1], 0x88), _mm256_shuffle_ps(p[0], p[1], 0xdd));
}

static inline __attribute__((always_inline)) vf vf_sum16(const vf v[16])
{
    return (vf){vf_sum_eight(v), vf_sum_eight(v + 8)};
}

/* As vf_sum16, of the first eight. */
static inline __attribute__((always_inline)) vf vf_sum8(const vf v[16])
{
    return (vf){vf_sum_eight(v), _mm256_setzero_ps()};
}

#endif
