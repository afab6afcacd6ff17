/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sixteen lanes of f32 (`vf`) or i32 (`vi`), as each instruction set likes them best. The kernels
 * are written in these operations once; the build compiles each kernel source once for each
 * instruction set, with its own -m flags and one of MTR_VEC_PORTABLE, _NEON, _AVX2, _AVX512
 * defined. MTR_HOST_FN(name) gives a function its name for the set at hand.
 *
 * The law of host_kernel.h holds because every operation here is exact, correctly rounded, or
 * defined lane by lane: fma is one rounding, sum() is this tree on all sets,
 *
 *   a[i] = l[i] + l[i + 8]  (i < 8),   b[i] = a[i] + a[i + 4]  (i < 4),
 *   c[i] = b[i] + b[i + 2]  (i < 2),   sum = c[0] + c[1],
 *
 * and sum16() is the same tree for sixteen vectors at once, vector i's sum into lane i. There is no
 * approximate instruction (rcp, rsqrt) in here.
 *
 *   vf_zero() vf_set1(f) vf_iota()          0; f in all lanes; 0, 1, .. 15
 *   vf_load(p) vf_store(p, v)               16 floats, any alignment
 *   vf_load_n(p, n) vf_store_n(p, v, n)     the first n (0..16); missing lanes load as 0
 *   vf_load_bf16(p) vf_store_bf16(p, v)     16 bf16; storing rounds to nearest even (NaN stays NaN)
 *   vf_load_f16(p)                          16 f16, exact
 *   vf_load_e4m3(p)                         16 e4m3, each 1/256 of its value, exact; NaN stays NaN
 *   vf_add vf_sub vf_mul vf_div             IEEE 754, correctly rounded
 *   vf_fma(a, b, c)                         a * b + c, rounded once
 *   vf_max(a, b)                            a > b ? a : b (so b where either is NaN)
 *   vf_less(a, b, x, y)                     a < b ? x : y
 *   vf_abs vf_neg                           sign bit
 *   vf_sum vf_sum16 vf_sum8 vf_maximum      over the lanes
 *   vf_of_int(i) vf_of_bits(i) vi_bits(f)   conversion; reinterpretation
 *   vi_set1 vi_add vi_and vi_or             32-bit integers
 *   vi_shl(a, n) vi_shr(a, n)               logical shifts by a constant
 *   vi_load_u8(p) vi_load_i8(p)             16 bytes, widened
 *   vi_or_bits(a, bits, value)              a | value in the lanes whose bit is set
 *   vr vr_zero vr_load vr_fma               one register; MTR_REGISTERS of them are a vf
 *   VR_KEEP(v)                              v in a register: not loaded anew for each use
 *   VF_JOIN(acc, i)                         the vf of registers acc[0][i], acc[1][i], ..
 *   vf_fp4, vf_fp4_table(d), vf_load_fp4(p, t)  16 e2m1 of 8 bytes times d, rounded; even first
 *   vf_nibbles, vf_low, vf_high             see dequant.h: d * q + m for q the low or high nibble
 */
#ifndef MTR_HOST_VEC_H
#define MTR_HOST_VEC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MTR_JOIN3_(a, b, c) a##b##_##c
#define MTR_JOIN3(a, b, c)  MTR_JOIN3_(a, b, c)
#define MTR_HOST_FN(name)   MTR_JOIN3(mtr_, MTR_VEC_NAME, name)

/* Before a loop whose counters must become constants; the portable set has no use for it. */
#define MTR_PRAGMA(text) _Pragma(#text)
#ifdef MTR_VEC_PORTABLE
#define MTR_UNROLL(n)
#else
#define MTR_UNROLL(n) MTR_PRAGMA(GCC unroll n)
#endif

#if defined(MTR_VEC_AVX512)
#define MTR_VEC_NAME avx512
#include "kernels/host/vec_avx512.h"
#elif defined(MTR_VEC_AVX2)
#define MTR_VEC_NAME avx2
#include "kernels/host/vec_avx2.h"
#elif defined(MTR_VEC_NEON)
#define MTR_VEC_NAME neon
#include "kernels/host/vec_neon.h"
#else
#define MTR_VEC_NAME portable
#include "kernels/host/vec_portable.h"
#endif

#endif
