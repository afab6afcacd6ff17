/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All narrow formats here are sign, exponent, mantissa with gradual underflow, so one pair of
 * functions converts them: they differ in mantissa bits, bias and what stands at the top.
 */
#include "common/numeric/numeric.h"

#include <math.h>

#define F32_INF 0x7f800000u

/* |value| of a code without sign: exponent above `m` mantissa bits. No special values. */
static float widen(uint32_t code, int m, int bias)
{
    uint32_t exponent = code >> m, mantissa = code & ((1u << m) - 1);
    if (exponent == 0) {
        float quantum = mtr_f32_from_bits((uint32_t)(127 + 1 - bias - m) << 23);
        return (float)mantissa * quantum;
    }
    return mtr_f32_from_bits((exponent + 127 - (uint32_t)bias) << 23 | mantissa << (23 - m));
}

/*
 * The code of |f| (bits a, finite), rounded to nearest even, as if exponents had no upper end.
 * The significand with its leading one is shifted to the format's quantum; a rounding carry runs
 * into the exponent by itself because the leading one is added, not stored.
 */
static uint32_t narrow(uint32_t a, int m, int bias)
{
    if (a >> 23 == 0)
        return 0; /* below every format's smallest number by far */
    int exponent = (int)(a >> 23) - 127;
    uint32_t significand = (a & 0x7fffffu) | 0x800000u;
    int below = 1 - bias - exponent; /* how far under the smallest normal exponent */
    int shift = 23 - m + (below > 0 ? below : 0);
    if (shift > 25)
        return 0;
    uint32_t half = (1u << (shift - 1)) - 1;
    uint32_t q = (significand + half + (significand >> shift & 1)) >> shift;
    return below > 0 ? q : ((uint32_t)(exponent + bias - 1) << m) + q;
}

static uint32_t saturate(float f, int m, int bias, uint32_t largest)
{
    uint32_t a = mtr_f32_bits(f) & 0x7fffffffu;
    uint32_t code = a >= F32_INF ? largest : narrow(a, m, bias);
    return code > largest ? largest : code;
}

static uint32_t sign_of(float f)
{
    return mtr_f32_bits(f) >> 31;
}

float mtr_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, code = h & 0x7fffu;
    uint32_t bits =
        code >= 0x7c00u ? F32_INF | (code & 0x3ffu) << 13 : mtr_f32_bits(widen(code, 10, 15));
    return mtr_f32_from_bits(sign | bits);
}

uint16_t mtr_f16_from_f32(float f)
{
    uint32_t a = mtr_f32_bits(f) & 0x7fffffffu, code;
    if (a > F32_INF)
        code = 0x7e00u | (a >> 13 & 0x3ffu); /* NaN stays NaN, quiet */
    else
        code = a == F32_INF ? 0x7c00u : narrow(a, 10, 15);
    return (uint16_t)(sign_of(f) << 15 | (code > 0x7c00u && a <= F32_INF ? 0x7c00u : code));
}

float mtr_e4m3_to_f32(uint8_t x)
{
    float v = (x & 0x7f) == 0x7f ? NAN : widen(x & 0x7f, 3, 7);
    return x & 0x80 ? -v : v;
}

uint8_t mtr_e4m3_from_f32(float f)
{
    return f != f ? 0x7f : (uint8_t)(sign_of(f) << 7 | saturate(f, 3, 7, 0x7e));
}

float mtr_e5m2_to_f32(uint8_t x)
{
    uint32_t code = x & 0x7f;
    float v = code > 0x7c ? NAN : code == 0x7c ? INFINITY : widen(code, 2, 15);
    return x & 0x80 ? -v : v;
}

uint8_t mtr_e5m2_from_f32(float f)
{
    return f != f ? 0x7f : (uint8_t)(sign_of(f) << 7 | saturate(f, 2, 15, 0x7b));
}

float mtr_e2m1_to_f32(uint8_t nibble)
{
    float v = widen(nibble & 7, 1, 1);
    return nibble & 8 ? -v : v;
}

uint8_t mtr_e2m1_from_f32(float f)
{
    return f != f ? 7 : (uint8_t)(sign_of(f) << 3 | saturate(f, 1, 1, 7));
}

float mtr_e8m0_to_f32(uint8_t x)
{
    if (x == 0xff)
        return NAN;
    return mtr_f32_from_bits(x == 0 ? 0x00400000u : (uint32_t)x << 23); /* 2^-127 is subnormal */
}
