// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Quantized matrices in the order in which tensor cores take them. A matrix is cut into strips of
// 16 rows, a strip into pieces of 64 columns of K:
//
//   strip   piece 0 | piece 1 | ...              after every fourth piece, where blocks are of 256
//   piece   codes of 32 lanes | scales           weights: what those 256 share ("head")
//
// so that a stretch of K of a strip is one run of bytes. In a piece each lane of a warp has what
// its registers of mma.m16n8k16 want, for four steps of K: of rows lane / 4 and that + 8, columns
// 2 (lane % 4), + 1, + 8 and + 9. "Pair" p of a step is register p: row + 8 (p & 1), columns + 8 (p
// >> 1); a pair's even element is in the low half of words and its odd one in the high half.
//
// A format has: PIECE, HEAD and, for scales in a plane of their own, APART bytes a piece; decode(),
// from a piece to registers of bf16; row_scale(), what the sum of a row is to be multiplied by.
// Where a weight is no bf16 number it has TERMS = 2: it is the sum of two such numbers, to 16 bits,
// and the instructions that multiply the first are each followed by one that multiplies the second.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

#include "common/numeric/format.h"
#include "kernels/args/linear.h"
#include "kernels/gb10/common/device.cuh"

namespace packed
{

constexpr int ROWS = 16, COLS = 64;
constexpr int LANES4 = 512, LANES8 = 1024; // bytes of a piece's codes of 4 and 8 bits

typedef uint32_t fragment[4][4]; // [step of 16 columns][register]

// A piece in registers.
template <class F> struct weights {
    fragment term[F::TERMS];
};

// Shared addresses of a piece and of what belongs to it.
struct place {
    uint32_t values, scales, head;
    uint32_t quarter;  // of a block of 256
    float block_scale; // of 128 x 128 weights
};

__device__ inline uint32_t pieces_of(uint32_t k)
{
    return (k + COLS - 1) / COLS;
}

// Bytes of a strip before piece q, which is a multiple of 4 where there are heads.
template <class F> __device__ inline size_t bytes_before(uint32_t q)
{
    return size_t(q) * F::PIECE + size_t(q / 4) * F::HEAD;
}

// Pieces that are copied at once: those with a head, or some two kilobytes.
template <class F> constexpr int group_of()
{
    return F::HEAD == 0 && F::PIECE > 640 ? 2 : 4;
}

__device__ inline uint4 load4(uint32_t shared)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(shared));
    return v;
}

__device__ inline uint2 load2(uint32_t shared)
{
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(shared));
    return v;
}

__device__ inline uint32_t load1(uint32_t shared)
{
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(shared));
    return v;
}

__device__ inline uint32_t load_half(uint32_t shared)
{
    uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(shared));
    return v;
}

__device__ inline float half_value(uint32_t bits)
{
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

__device__ inline uint32_t bits_of(__nv_bfloat162 v)
{
    return *reinterpret_cast<uint32_t *>(&v);
}

__device__ inline uint32_t times(uint32_t pair, uint32_t by)
{
    uint32_t product;
    asm("mul.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(by));
    return product;
}

// Either half of a word in both of its halves.
__device__ inline uint32_t low_twice(uint32_t pair)
{
    uint32_t both;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l}; }" : "=r"(both) : "r"(pair));
    return both;
}

__device__ inline uint32_t high_twice(uint32_t pair)
{
    uint32_t both;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h}; }" : "=r"(both) : "r"(pair));
    return both;
}

__device__ inline float low_value(uint32_t pair)
{
    return __uint_as_float(pair << 16);
}

__device__ inline float high_value(uint32_t pair)
{
    return __uint_as_float(pair & 0xffff0000u);
}

// Two numbers as bf16, and what is left of them as another two.
__device__ inline void split(uint32_t &high, uint32_t &low, float a, float b)
{
    high = bits_of(__floats2bfloat162_rn(a, b));
    low = bits_of(__floats2bfloat162_rn(a - low_value(high), b - high_value(high)));
}

constexpr uint32_t TWO_120 = 0x7b807b80u, TWO_119 = 0x7b007b00u; // bf16, twice

// ---- e4m3 ----
//
// Four codes in a word, of two pairs. Half a word: s0 6 5 4 s1 s s s 2.. is, bit by bit,
// [15] sign of the first  [14:12] upper bits of the second  [11] sign of the second
// [10:4] the first's seven other bits  [3:0] lower bits of the second
// The seven bits stand where exponent and significand of a bf16 meet: the number times 2^-120.
__device__ inline uint32_t e4m3_half(uint32_t first, uint32_t second)
{
    return (first & 0x80) << 8 | (first & 0x7f) << 4 | (second & 0x80) << 4 | (second & 0x70) << 8 |
           (second & 0x0f);
}

__device__ inline void e4m3_pairs(uint32_t word, uint32_t &first, uint32_t &second)
{
    first = times(word & 0x87f087f0u, TWO_120);
    second = times((word << 4 & 0x80f080f0u) | (word >> 4 & 0x07000700u), TWO_120);
}

enum e4m3_scaling { BY_TENSOR, BY_CHANNEL, BY_BLOCK };

template <e4m3_scaling SCALING> struct e4m3 {
    static constexpr int PIECE = LANES8, HEAD = 0, APART = 0;
    static constexpr bool BLOCK_SCALES = SCALING == BY_BLOCK;
    static constexpr int TERMS = BLOCK_SCALES ? 2 : 1;

    __device__ static void put(weights<e4m3> &w, int step, int i, uint32_t pair, float scale)
    {
        if constexpr (BLOCK_SCALES)
            split(w.term[0][step][i], w.term[1][step][i], low_value(pair) * scale,
                  high_value(pair) * scale);
        else
            w.term[0][step][i] = pair;
    }

    __device__ static void decode(weights<e4m3> &w, const place &at, uint32_t lane)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 v = load4(at.values + h * 512 + lane * 16);
            uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t first, second;
                e4m3_pairs(words[i], first, second);
                put(w, 2 * h + i / 2, i % 2 * 2, first, at.block_scale);
                put(w, 2 * h + i / 2, i % 2 * 2 + 1, second, at.block_scale);
            }
        }
    }

    __device__ static float row_scale(const struct mtr_linear_part &p, uint32_t row)
    {
        const float *scale = static_cast<const float *>(p.scale);
        return SCALING == BY_BLOCK ? 1.0f : SCALING == BY_TENSOR ? scale[0] : scale[row];
    }
};

// ---- e2m1 ----
//
// Eight codes in a word, of four pairs, s e e m each. Half a word:
//   [15] s of pair 0   [14:12] e e m of pair 2, of the other half   [11] s of 1
//   [10] upper e of 3   [9] s of 3   [8:6] e e m of 0   [5] s of 2   [4:2] e e m of 1
//   [1:0] lower e, m of 3
// so that a rotation or two bring each to [15] and [8:6]. There e e m is a bf16 of the number times
// 2^-126; the scale is brought to 2^119 times its value. Their product is exact; the row's sum gets
// the 2^7 that are missing.
__device__ inline uint32_t e2m1_half(uint32_t a, uint32_t b, uint32_t c, uint32_t other_c,
                                     uint32_t d)
{
    return (a & 8) << 12 | (a & 7) << 6 | (b & 8) << 8 | (b & 7) << 2 | (c & 8) << 2 |
           (other_c & 7) << 12 | (d & 8) << 6 | (d & 4) << 8 | (d & 3);
}

struct e2m1 {
    static constexpr int PIECE = LANES4, HEAD = 0, APART = 64;
    static constexpr bool BLOCK_SCALES = false;
    static constexpr int TERMS = 1;
    static constexpr uint32_t MASK = 0x81c081c0u;

    // Of the four steps of a row, each in both halves of a word.
    __device__ static void scales_of(uint32_t (&s)[4], uint32_t word)
    {
        uint32_t even, odd;
        e4m3_pairs(word, even, odd);
        even = times(even, TWO_119);
        odd = times(odd, TWO_119);
        s[0] = low_twice(even);
        s[1] = low_twice(odd);
        s[2] = high_twice(even);
        s[3] = high_twice(odd);
    }

    __device__ static void decode(weights<e2m1> &to, const place &at, uint32_t lane)
    {
        fragment &f = to.term[0];
        uint4 v = load4(at.values + lane * 16);
        uint2 both = load2(at.scales + lane / 4 * 8);
        uint32_t words[4] = {v.x, v.y, v.z, v.w}, s[2][4];
        scales_of(s[0], both.x);
        scales_of(s[1], both.y);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t w = words[i];
            f[i][0] = times(w & MASK, s[0][i]);
            f[i][1] = times(w << 4 & MASK, s[1][i]);
            f[i][2] = times(__funnelshift_l(w, w, 10) & MASK, s[0][i]);
            f[i][3] = times((w << 6 & 0x80c080c0u) | (w >> 2 & 0x01000100u), s[1][i]);
        }
    }

    __device__ static float row_scale(const struct mtr_linear_part &p, uint32_t)
    {
        return static_cast<const float *>(p.global_scale)[0] * 128.0f;
    }
};

// ---- blocks of integers with a scale ----
//
// A code q of up to six bits is OR-ed into the significand of the bf16 128, which is 128 + q; the
// weight d q + m then is d (128 + q) + (m - 128 d).
struct affine {
    float d, c;
};

template <class F>
__device__ inline void put_affine(weights<F> &w, int step, int i, uint32_t magic, const affine &a)
{
    split(w.term[0][step][i], w.term[1][step][i], __fmaf_rn(a.d, low_value(magic), a.c),
          __fmaf_rn(a.d, high_value(magic), a.c));
}

// Bits at `from` of both halves to `to`.
__device__ inline uint32_t moved(uint32_t word, int from, int to, uint32_t mask)
{
    return (from > to ? word >> (from - to) : word << (to - from)) & mask;
}

// HIGH more bits of a code than four stand behind the lanes' words: bit HIGH (4 step + pair) on.
template <int HIGH> struct high_bits {
    uint32_t word[2];

    __device__ void load(uint32_t values, uint32_t lane)
    {
        if constexpr (HIGH == 1)
            word[0] = load1(values + LANES4 + lane * 4);
        if constexpr (HIGH == 2) {
            uint2 v = load2(values + LANES4 + lane * 8);
            word[0] = v.x;
            word[1] = v.y;
        }
    }

    __device__ uint32_t at(int step, int pair) const
    {
        if constexpr (HIGH == 1)
            return moved(word[0], 4 * step + pair, 4, 0x00100010u);
        if constexpr (HIGH == 2)
            return moved(word[step / 2], 2 * (step % 2 * 4 + pair), 4, 0x00300030u);
        return 0;
    }
};

// Each step of 16 has numbers of its own, or two steps share them.
template <class F, int HIGH, int GROUPS>
__device__ inline void decode_affine(weights<F> &w, uint32_t values, uint32_t lane,
                                     const affine (&a)[2][GROUPS])
{
    uint4 v = load4(values + lane * 16);
    uint32_t words[4] = {v.x, v.y, v.z, v.w};
    high_bits<HIGH> high;
    high.load(values, lane);
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int p = 0; p < 4; p++) {
            uint32_t magic = (words[s] >> 4 * p & 0x000f000fu) | high.at(s, p) | 0x43004300u;
            put_affine(w, s, p, magic, a[p & 1][s * GROUPS / 4]);
        }
}

struct unscaled {
    static constexpr int APART = 0, TERMS = 2;
    static constexpr bool BLOCK_SCALES = false;

    __device__ static float row_scale(const struct mtr_linear_part &, uint32_t)
    {
        return 1.0f;
    }
};

// Blocks of 32. Scales of a piece: [2 blocks][16 rows] of d, or of d and m.
template <enum mtr_format F> struct blocks32 : unscaled {
    static constexpr bool MIN = F == MTR_Q4_1 || F == MTR_Q5_1;
    static constexpr int HIGH = F == MTR_Q5_0 || F == MTR_Q5_1;
    static constexpr int BIAS = F == MTR_Q4_0 ? 8 : F == MTR_Q5_0 ? 16 : 0;
    static constexpr int SCALES = LANES4 + HIGH * 128, SCALE_BYTES = MIN ? 4 : 2;
    static constexpr int PIECE = SCALES + 32 * SCALE_BYTES, HEAD = 0;

    __device__ static affine scale_at(uint32_t address)
    {
        if constexpr (MIN) {
            uint32_t both = load1(address);
            float d = half_value(both & 0xffff);
            return {d, __fmaf_rn(-128.0f, d, half_value(both >> 16))};
        }
        float d = half_value(load_half(address));
        return {d, -(128.0f + BIAS) * d};
    }

    __device__ static void decode(weights<blocks32> &w, const place &at, uint32_t lane)
    {
        affine a[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i & 1][i / 2] =
                scale_at(at.values + SCALES + (i / 2 * 16 + (i & 1) * 8 + lane / 4) * SCALE_BYTES);
        decode_affine<blocks32, HIGH, 2>(w, at.values, lane, a);
    }
};

// Codes plus 128, four in a word: both of one pair, then both of the next.
struct q8_0 : unscaled {
    static constexpr int PIECE = LANES8 + 64, HEAD = 0;

    __device__ static void put(weights<q8_0> &w, int step, int i, uint32_t word, uint32_t first,
                               float d)
    {
        constexpr float MAGIC = 8388736.0f; // 2^23 + 128
        float a = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + first)) - MAGIC;
        float b = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7441u + first)) - MAGIC;
        split(w.term[0][step][i], w.term[1][step][i], a * d, b * d);
    }

    __device__ static void decode(weights<q8_0> &w, const place &at, uint32_t lane)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 v = load4(at.values + h * 512 + lane * 16);
            uint32_t words[4] = {v.x, v.y, v.z, v.w};
            uint32_t scales = at.values + LANES8 + (h * 16 + lane / 4) * 2;
            float d[2] = {half_value(load_half(scales)), half_value(load_half(scales + 16))};
#pragma unroll
            for (int i = 0; i < 8; i++)
                put(w, 2 * h + i / 4, i % 4, words[i / 2], i % 2 * 2, d[i & 1]);
        }
    }
};

// Blocks of 256. Head of q4_K and q5_K: [16 rows] of d, the minimums' d, and 12 bytes of scales;
// of q6_K: [16 rows] of 16 scales, then [16 rows] of d.
template <enum mtr_format F> struct blocks256 : unscaled {
    static constexpr int HIGH = F == MTR_Q4_K ? 0 : F == MTR_Q5_K ? 1 : 2;
    static constexpr int PIECE = LANES4 + HIGH * 128, HEAD = F == MTR_Q6_K ? 288 : 256;
    static constexpr int GROUPS = F == MTR_Q6_K ? 4 : 2;

    __device__ static uint32_t byte_of(uint32_t word, uint32_t i)
    {
        return word >> 8 * i & 0xff;
    }

    // Sub-block j of 8 from the 12 bytes a, b, c.
    __device__ static affine sub_block(float d, float dmin, uint32_t a, uint32_t b, uint32_t c,
                                       uint32_t j)
    {
        a = byte_of(a, j & 3);
        b = byte_of(b, j & 3);
        c = byte_of(c, j & 3);
        uint32_t scale = j < 4 ? a & 63 : (c & 15) | a >> 6 << 4;
        uint32_t min = j < 4 ? b & 63 : c >> 4 | b >> 6 << 4;
        d *= float(scale);
        return {d, __fmaf_rn(-128.0f, d, -(dmin * float(min)))};
    }

    __device__ static void head_of(affine (&a)[GROUPS], const place &at, uint32_t row)
    {
        if constexpr (F == MTR_Q6_K) {
            uint32_t scales = load1(at.head + row * 16 + at.quarter * 4);
            float d = half_value(load_half(at.head + 256 + row * 2));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float scaled = d * float(int32_t(scales << (24 - 8 * i)) >> 24);
                a[i] = {scaled, -160.0f * scaled};
            }
        } else {
            uint4 h = load4(at.head + row * 16);
            float d = half_value(h.x & 0xffff), dmin = half_value(h.x >> 16);
#pragma unroll
            for (int i = 0; i < 2; i++)
                a[i] = sub_block(d, dmin, h.y, h.z, h.w, at.quarter * 2 + i);
        }
    }

    __device__ static void decode(weights<blocks256> &w, const place &at, uint32_t lane)
    {
        affine a[2][GROUPS];
        head_of(a[0], at, lane / 4);
        head_of(a[1], at, lane / 4 + 8);
        decode_affine<blocks256, HIGH, GROUPS>(w, at.values, lane, a);
    }
};

} // namespace packed
