/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* vec.h in plain C: what every other set is measured against. Slow where the CPU has no FMA. */
#ifndef MTR_HOST_VEC_PORTABLE_H
#define MTR_HOST_VEC_PORTABLE_H

#include <math.h>

#include "common/numeric/numeric.h"

typedef struct {
    float l[16];
} vf;
typedef struct {
    int32_t l[16];
} vi;

#define MTR_TILE_W    1
#define MTR_TILE_X    2
#define MTR_FUSED_X   4
#define MTR_FUSED_ACC 4

/* One operation on each lane. */
#define VF_EACH(expr)                                                                              \
    vf r;                                                                                          \
    for (int i = 0; i < 16; i++)                                                                   \
        r.l[i] = (expr);                                                                           \
    return r
#define VI_EACH(expr)                                                                              \
    vi r;                                                                                          \
    for (int i = 0; i < 16; i++)                                                                   \
        r.l[i] = (int32_t)(expr);                                                                  \
    return r

static inline vf vf_set1(float f)
{
    VF_EACH(f);
}

static inline vf vf_zero(void)
{
    return vf_set1(0.0f);
}

static inline vf vf_iota(void)
{
    VF_EACH((float)i);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    vf r = vf_zero();
    memcpy(r.l, p, n * sizeof *p);
    return r;
}

static inline void vf_store_n(float *p, vf v, size_t n)
{
    memcpy(p, v.l, n * sizeof *p);
}

static inline vf vf_load(const float *p)
{
    return vf_load_n(p, 16);
}

static inline void vf_store(float *p, vf v)
{
    vf_store_n(p, v, 16);
}

static inline vf vf_load_bf16(const uint16_t *p)
{
    VF_EACH(mtr_bf16_to_f32(p[i]));
}

static inline void vf_store_bf16(uint16_t *p, vf v)
{
    for (int i = 0; i < 16; i++)
        p[i] = mtr_bf16_from_f32(v.l[i]);
}

static inline float f16_to_f32(uint16_t h)
{
    return mtr_f16_to_f32(h);
}

static inline vf vf_load_f16(const uint16_t *p)
{
    VF_EACH(f16_to_f32(p[i]));
}

static inline vf vf_load_e4m3(const uint8_t *p)
{
    VF_EACH(mtr_e4m3_to_f32(p[i]) * 0x1p-8f);
}

static inline vf vf_add(vf a, vf b)
{
    VF_EACH(a.l[i] + b.l[i]);
}

static inline vf vf_sub(vf a, vf b)
{
    VF_EACH(a.l[i] - b.l[i]);
}

static inline vf vf_mul(vf a, vf b)
{
    VF_EACH(a.l[i] * b.l[i]);
}

static inline vf vf_div(vf a, vf b)
{
    VF_EACH(a.l[i] / b.l[i]);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    VF_EACH(fmaf(a.l[i], b.l[i], c.l[i]));
}

static inline vf vf_max(vf a, vf b)
{
    VF_EACH(a.l[i] > b.l[i] ? a.l[i] : b.l[i]);
}

static inline vf vf_less(vf a, vf b, vf x, vf y)
{
    VF_EACH(a.l[i] < b.l[i] ? x.l[i] : y.l[i]);
}

static inline vf vf_abs(vf a)
{
    VF_EACH(fabsf(a.l[i]));
}

static inline vf vf_neg(vf a)
{
    VF_EACH(-a.l[i]);
}

static inline vf vf_of_int(vi a)
{
    VF_EACH((float)a.l[i]);
}

static inline vf vf_of_bits(vi a)
{
    VF_EACH(mtr_f32_from_bits((uint32_t)a.l[i]));
}

static inline vi vi_bits(vf a)
{
    VI_EACH(mtr_f32_bits(a.l[i]));
}

static inline vi vi_set1(int32_t x)
{
    VI_EACH(x);
}

static inline vi vi_add(vi a, vi b)
{
    VI_EACH((uint32_t)a.l[i] + (uint32_t)b.l[i]);
}

static inline vi vi_and(vi a, vi b)
{
    VI_EACH(a.l[i] & b.l[i]);
}

static inline vi vi_or(vi a, vi b)
{
    VI_EACH(a.l[i] | b.l[i]);
}

static inline vi vi_shl(vi a, int n)
{
    VI_EACH((uint32_t)a.l[i] << n);
}

static inline vi vi_shr(vi a, int n)
{
    VI_EACH((uint32_t)a.l[i] >> n);
}

static inline vi vi_load_u8(const uint8_t *p)
{
    VI_EACH(p[i]);
}

static inline vi vi_load_i8(const uint8_t *p)
{
    VI_EACH((int8_t)p[i]);
}

static inline vi vi_or_bits(vi a, uint32_t bits, int32_t value)
{
    VI_EACH(bits >> i & 1 ? a.l[i] | value : a.l[i]);
}

typedef vf vr;
#define MTR_REGISTERS   1
#define VR_KEEP(v)      (void)(v)
#define VF_JOIN(acc, i) ((acc)[0][(i)])

static inline vr vr_zero(void)
{
    return vf_zero();
}

static inline vr vr_load(const float *p)
{
    return vf_load(p);
}

static inline vr vr_fma(vr a, vr b, vr c)
{
    return vf_fma(a, b, c);
}

struct vf_fp4 {
    float d;
};

static inline struct vf_fp4 vf_fp4_table(float d)
{
    return (struct vf_fp4){d};
}

static inline vf vf_load_fp4(const uint8_t *p, struct vf_fp4 t)
{
    VF_EACH(mtr_e2m1_to_f32(i & 1 ? p[i / 2] >> 4 : p[i / 2] & 15) * t.d);
}

struct vf_nibbles {
    float d, m;
};

static inline struct vf_nibbles vf_nibbles(float d, float m)
{
    return (struct vf_nibbles){d, m};
}

static inline vf vf_low(struct vf_nibbles t, vi bytes)
{
    VF_EACH(fmaf((float)(bytes.l[i] & 15), t.d, t.m));
}

static inline vf vf_high(struct vf_nibbles t, vi bytes)
{
    VF_EACH(fmaf((float)(bytes.l[i] >> 4), t.d, t.m));
}

static inline float vf_sum(vf v)
{
    for (int half = 8; half > 0; half >>= 1)
        for (int i = 0; i < half; i++)
            v.l[i] += v.l[i + half];
    return v.l[0];
}

static inline float vf_maximum(vf v)
{
    float m = v.l[0];
    for (int i = 1; i < 16; i++)
        m = v.l[i] > m ? v.l[i] : m;
    return m;
}

static inline __attribute__((always_inline)) vf vf_sum16(const vf v[16])
{
    VF_EACH(vf_sum(v[i]));
}

/* As vf_sum16, of the first eight. */
static inline __attribute__((always_inline)) vf vf_sum8(const vf v[16])
{
    return vf_sum16(v); /* all sixteen are there */
}

#endif
