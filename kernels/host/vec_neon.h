/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* vec.h for aarch64 NEON: a vector is four registers of four lanes. */
#ifndef MTR_HOST_VEC_NEON_H
#define MTR_HOST_VEC_NEON_H

#include <arm_neon.h>

typedef float32x4x4_t vf;
typedef int32x4x4_t vi;

#define MTR_TILE_W    2
#define MTR_TILE_X    3
#define MTR_FUSED_X   4
#define MTR_FUSED_ACC 4

/* One operation on each of the four registers. */
#define VF_EACH(expr)                                                                              \
    vf r;                                                                                          \
    for (int i = 0; i < 4; i++)                                                                    \
        r.val[i] = (expr);                                                                         \
    return r
#define VI_EACH(expr)                                                                              \
    vi r;                                                                                          \
    for (int i = 0; i < 4; i++)                                                                    \
        r.val[i] = (expr);                                                                         \
    return r

static inline vf vf_set1(float f)
{
    VF_EACH(vdupq_n_f32(f));
}

static inline vf vf_zero(void)
{
    return vf_set1(0.0f);
}

static inline vf vf_load(const float *p)
{
    VF_EACH(vld1q_f32(p + 4 * i));
}

static inline void vf_store(float *p, vf v)
{
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, v.val[i]);
}

static inline vf vf_iota(void)
{
    const float lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vf_load(lanes);
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

static inline vf vf_load_bf16(const uint16_t *p)
{
    VF_EACH(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}

static inline void vf_store_bf16(uint16_t *p, vf v)
{
    for (int i = 0; i < 4; i++) {
        uint32x4_t u = vreinterpretq_u32_f32(v.val[i]);
        uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
        uint32x4_t r = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
        uint32x4_t number = vceqq_f32(v.val[i], v.val[i]);
        r = vbslq_u32(number, r, vorrq_u32(u, vdupq_n_u32(0x400000)));
        vst1_u16(p + 4 * i, vshrn_n_u32(r, 16));
    }
}

static inline vf vf_load_f16(const uint16_t *p)
{
    VF_EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))));
}

static inline float f16_to_f32(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* Seen as f16, exponent and mantissa of an e4m3 are 1/256 of its value; bits 15 and 14 are its sign
 * at first. A carry out of NaN's mantissa tells it from the others: bit 14 becomes that carry,
 * which makes f16's largest exponent of it. */
static inline uint16x8_t vf_e4m3_as_f16(int8x8_t bytes)
{
    uint16x8_t h = vreinterpretq_u16_s16(vshll_n_s8(bytes, 7));
    uint16x8_t carried = vaddq_u16(h, vdupq_n_u16(0x80));
    return veorq_u16(h, vandq_u16(carried, vdupq_n_u16(0x4000)));
}

static inline vf vf_load_e4m3(const uint8_t *p)
{
    int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    uint16x8_t low = vf_e4m3_as_f16(vget_low_s8(bytes));
    uint16x8_t high = vf_e4m3_as_f16(vget_high_s8(bytes));
    return (vf){{vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(low))),
                 vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(low))),
                 vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(high))),
                 vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(high)))}};
}

static inline vf vf_add(vf a, vf b)
{
    VF_EACH(vaddq_f32(a.val[i], b.val[i]));
}

static inline vf vf_sub(vf a, vf b)
{
    VF_EACH(vsubq_f32(a.val[i], b.val[i]));
}

static inline vf vf_mul(vf a, vf b)
{
    VF_EACH(vmulq_f32(a.val[i], b.val[i]));
}

static inline vf vf_div(vf a, vf b)
{
    VF_EACH(vdivq_f32(a.val[i], b.val[i]));
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    VF_EACH(vfmaq_f32(c.val[i], a.val[i], b.val[i]));
}

static inline vf vf_less(vf a, vf b, vf x, vf y)
{
    VF_EACH(vbslq_f32(vcltq_f32(a.val[i], b.val[i]), x.val[i], y.val[i]));
}

static inline vf vf_max(vf a, vf b)
{
    VF_EACH(vbslq_f32(vcgtq_f32(a.val[i], b.val[i]), a.val[i], b.val[i]));
}

static inline vf vf_abs(vf a)
{
    VF_EACH(vabsq_f32(a.val[i]));
}

static inline vf vf_neg(vf a)
{
    VF_EACH(vnegq_f32(a.val[i]));
}

static inline vf vf_of_int(vi a)
{
    VF_EACH(vcvtq_f32_s32(a.val[i]));
}

static inline vf vf_of_bits(vi a)
{
    VF_EACH(vreinterpretq_f32_s32(a.val[i]));
}

static inline vi vi_bits(vf a)
{
    VI_EACH(vreinterpretq_s32_f32(a.val[i]));
}

static inline vi vi_set1(int32_t x)
{
    VI_EACH(vdupq_n_s32(x));
}

static inline vi vi_add(vi a, vi b)
{
    VI_EACH(vaddq_s32(a.val[i], b.val[i]));
}

static inline vi vi_and(vi a, vi b)
{
    VI_EACH(vandq_s32(a.val[i], b.val[i]));
}

static inline vi vi_or(vi a, vi b)
{
    VI_EACH(vorrq_s32(a.val[i], b.val[i]));
}

static inline vi vi_shl(vi a, int n)
{
    VI_EACH(vshlq_s32(a.val[i], vdupq_n_s32(n)));
}

static inline vi vi_shr(vi a, int n)
{
    VI_EACH(vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a.val[i]), vdupq_n_s32(-n))));
}

static inline vi vi_load_u8(const uint8_t *p)
{
    uint8x16_t bytes = vld1q_u8(p);
    uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
    return (vi){{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(low))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(low))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(high))),
                 vreinterpretq_s32_u32(vmovl_u16(vget_high_u16(high)))}};
}

static inline vi vi_load_i8(const uint8_t *p)
{
    int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (vi){{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)),
                 vmovl_s16(vget_low_s16(high)), vmovl_s16(vget_high_s16(high))}};
}

static inline vi vi_or_bits(vi a, uint32_t bits, int32_t value)
{
    const int32_t one[4] = {1, 2, 4, 8};
    int32x4_t lane = vld1q_s32(one);
    VI_EACH(vorrq_s32(a.val[i], vandq_s32(vreinterpretq_s32_u32(vtstq_s32(
                                              vdupq_n_s32((int32_t)(bits >> 4 * i)), lane)),
                                          vdupq_n_s32(value))));
}

typedef float32x4_t vr;
#define MTR_REGISTERS   4
#define VR_KEEP(v)      __asm__("" : "+w"(v))
#define VF_JOIN(acc, i) ((vf){{(acc)[0][(i)], (acc)[1][(i)], (acc)[2][(i)], (acc)[3][(i)]}})

static inline vr vr_zero(void)
{
    return vdupq_n_f32(0.0f);
}

static inline vr vr_load(const float *p)
{
    return vld1q_f32(p);
}

static inline vr vr_fma(vr a, vr b, vr c)
{
    return vfmaq_f32(c, a, b);
}

struct vf_fp4 {
    float32x4_t d;
};

static inline struct vf_fp4 vf_fp4_table(float d)
{
    return (struct vf_fp4){vdupq_n_f32(d)};
}

/* Values of e2m1 have two bytes of f32 that are not 0, each looked up by the nibble. */
static inline vf vf_load_fp4(const uint8_t *p, struct vf_fp4 t)
{
    const uint8x16_t top = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                            0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};
    const uint8x16_t next = {0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0,
                             0x00, 0x00, 0x80, 0xc0, 0x00, 0x40, 0x80, 0xc0};
    uint8x8_t bytes = vld1_u8(p), low = vand_u8(bytes, vdup_n_u8(15)), high = vshr_n_u8(bytes, 4);
    uint8x16_t q = vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high));
    uint8x16_t a = vqtbl1q_u8(next, q), b = vqtbl1q_u8(top, q);
    uint16x8_t first = vreinterpretq_u16_u8(vzip1q_u8(a, b));
    uint16x8_t last = vreinterpretq_u16_u8(vzip2q_u8(a, b));
    const uint16x4_t quarters[4] = {vget_low_u16(first), vget_high_u16(first), vget_low_u16(last),
                                    vget_high_u16(last)};
    VF_EACH(vmulq_f32(vreinterpretq_f32_u32(vshll_n_u16(quarters[i], 16)), t.d));
}

struct vf_nibbles {
    float32x4_t d, m;
};

static inline struct vf_nibbles vf_nibbles(float d, float m)
{
    return (struct vf_nibbles){vdupq_n_f32(d), vdupq_n_f32(m)};
}

static inline vf vf_low(struct vf_nibbles t, vi bytes)
{
    VF_EACH(vfmaq_f32(t.m, vcvtq_f32_s32(vandq_s32(bytes.val[i], vdupq_n_s32(15))), t.d));
}

static inline vf vf_high(struct vf_nibbles t, vi bytes)
{
    VF_EACH(vfmaq_f32(t.m, vcvtq_f32_s32(vshrq_n_s32(bytes.val[i], 4)), t.d));
}

static inline float32x4_t vf_quarter(vf v)
{
    return vaddq_f32(vaddq_f32(v.val[0], v.val[2]), vaddq_f32(v.val[1], v.val[3]));
}

static inline float vf_sum(vf v)
{
    float32x4_t b = vf_quarter(v);
    float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
    return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}

static inline float vf_maximum(vf v)
{
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.val[0], v.val[1]), vmaxq_f32(v.val[2], v.val[3])));
}

/* c[i] = b[i] + b[i + 2], then c[0] + c[1], for four vectors. */
static inline float32x4_t vf_sum4(const vf *v)
{
    float64x2_t b[4];
    for (int i = 0; i < 4; i++)
        b[i] = vreinterpretq_f64_f32(vf_quarter(v[i]));
    float32x4_t c01 = vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(b[0], b[1])),
                                vreinterpretq_f32_f64(vtrn2q_f64(b[0], b[1])));
    float32x4_t c23 = vaddq_f32(vreinterpretq_f32_f64(vtrn1q_f64(b[2], b[3])),
                                vreinterpretq_f32_f64(vtrn2q_f64(b[2], b[3])));
    return vpaddq_f32(c01, c23);
}

static inline __attribute__((always_inline)) vf vf_sum16(const vf v[16])
{
    VF_EACH(vf_sum4(v + 4 * i));
}

/* As vf_sum16, of the first eight. */
static inline __attribute__((always_inline)) vf vf_sum8(const vf v[16])
{
    return (vf){{vf_sum4(v), vf_sum4(v + 4), vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)}};
}

#endif
