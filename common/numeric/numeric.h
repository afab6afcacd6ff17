/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Number formats, byte-exact. Conversions to a narrower format round to nearest, ties to even, and
 * saturate or overflow as the format's specification says:
 *
 *   bf16      1-8-7, the upper half of an IEEE float; overflows to infinity
 *   f16       IEEE 754 binary16; overflows to infinity
 *   e4m3      OCP FP8: no infinity, 0x7f and 0xff are NaN, largest 448; conversion saturates
 *   e5m2      OCP FP8: IEEE-like, largest finite 57344; conversion saturates to it
 *   e2m1      OCP MX FP4: 0 0.5 1 1.5 2 3 4 6 and their negatives; conversion saturates
 *   e8m0      OCP MX scale: 2^(x-127), 0xff is NaN
 *
 * Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0.
 */
#ifndef MTR_NUMERIC_H
#define MTR_NUMERIC_H

#include <stdint.h>
#include <string.h>

static inline uint32_t mtr_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float mtr_f32_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline float mtr_bf16_to_f32(uint16_t h)
{
    return mtr_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t mtr_bf16_from_f32(float f)
{
    uint32_t u = mtr_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40); /* NaN stays NaN, quiet */
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

float mtr_f16_to_f32(uint16_t h);
uint16_t mtr_f16_from_f32(float f);
float mtr_e4m3_to_f32(uint8_t x);
uint8_t mtr_e4m3_from_f32(float f);
float mtr_e5m2_to_f32(uint8_t x);
uint8_t mtr_e5m2_from_f32(float f);
float mtr_e2m1_to_f32(uint8_t nibble); /* low four bits */
uint8_t mtr_e2m1_from_f32(float f);
float mtr_e8m0_to_f32(uint8_t x);

#endif
