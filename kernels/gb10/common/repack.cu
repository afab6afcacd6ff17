// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Module "repack": matrices from the file's layout (common/numeric/format.c) to that of
// packed.cuh. A block makes one strip; rows and columns that pad it are worth zero. A thread makes
// the words of one lane of one piece, and some threads what rows share.
#include "kernels/args/repack.h"
#include "kernels/gb10/common/packed.cuh"

namespace
{

using packed::place;

// What a source has: code(row's bytes, column), and copy_scales(piece, head, ...) below.
struct matrix {
    const uint8_t *src;
    uint64_t row_bytes;
    uint32_t n, k, row0;

    __device__ const uint8_t *row(uint32_t r) const
    {
        return row0 + r < n ? src + (row0 + r) * row_bytes : nullptr;
    }
};

template <class S> __device__ inline uint32_t code_at(const matrix &m, uint32_t r, uint32_t col)
{
    const uint8_t *row = m.row(r);
    return row && col < m.k ? S::code(row, col) : 0;
}

// Where element e of pair p of a step is, for a lane.
__device__ inline uint32_t row_of(uint32_t lane, int p)
{
    return lane / 4 + 8 * (p & 1);
}

__device__ inline uint32_t col_of(uint32_t lane, uint32_t piece, int step, int p, int e)
{
    return piece * 64 + 16 * step + 8 * (p >> 1) + 2 * (lane % 4) + e;
}

__device__ inline uint32_t half_at(const uint8_t *p)
{
    return *reinterpret_cast<const uint16_t *>(p);
}

// ---- sources ----

struct source_e2m1 {
    using format = packed::e2m1;
    static constexpr int ELEMENTS = 2, BYTES = 1;
    __device__ static uint32_t code(const uint8_t *row, uint32_t col)
    {
        return row[col / 2] >> 4 * (col & 1) & 15;
    }
};

struct source_e4m3 {
    using format = packed::e4m3<packed::BY_TENSOR>;
    static constexpr int ELEMENTS = 1, BYTES = 1;
    __device__ static uint32_t code(const uint8_t *row, uint32_t col)
    {
        return row[col];
    }
};

template <enum mtr_format F> struct source_32 {
    using format = packed::blocks32<F>;
    static constexpr int FIRST = format::SCALE_BYTES + 4 * format::HIGH;
    static constexpr int ELEMENTS = 32, BYTES = FIRST + 16;
    __device__ static uint32_t code(const uint8_t *row, uint32_t col)
    {
        const uint8_t *block = row + size_t(col / 32) * BYTES;
        uint32_t i = col % 32, q = block[FIRST + i % 16] >> (i / 16 * 4) & 15;
        if (format::HIGH)
            q |= (block[format::SCALE_BYTES + i / 8] >> i % 8 & 1) << 4;
        return q;
    }
};

struct source_q8_0 {
    using format = packed::q8_0;
    static constexpr int ELEMENTS = 32, BYTES = 34;
    __device__ static uint32_t code(const uint8_t *row, uint32_t col)
    {
        return row[size_t(col / 32) * BYTES + 2 + col % 32] ^ 0x80;
    }
};

template <enum mtr_format F> struct source_256 {
    using format = packed::blocks256<F>;
    static constexpr int ELEMENTS = 256;
    static constexpr int BYTES = F == MTR_Q4_K ? 144 : F == MTR_Q5_K ? 176 : 210;
    __device__ static uint32_t code(const uint8_t *row, uint32_t col)
    {
        const uint8_t *block = row + size_t(col / 256) * BYTES;
        uint32_t i = col % 256;
        if constexpr (F == MTR_Q6_K) {
            uint32_t half = i / 128, run = i / 32 % 4, e = i % 32;
            uint32_t low = block[half * 64 + (run & 1) * 32 + e] >> (run / 2 * 4) & 15;
            return low | (block[128 + half * 32 + e] >> 2 * run & 3) << 4;
        }
        uint32_t j = i / 32, e = i % 32;
        uint32_t q = block[(F == MTR_Q5_K ? 48 : 16) + j / 2 * 32 + e] >> (j & 1) * 4 & 15;
        if (F == MTR_Q5_K)
            q |= (block[16 + e] >> j & 1) << 4;
        return q;
    }
};

// ---- lanes ----

template <class S>
__device__ inline uint32_t code_of(const matrix &m, uint32_t lane, uint32_t piece, int step, int p,
                                   int e)
{
    return code_at<S>(m, row_of(lane, p), col_of(lane, piece, step, p, e));
}

__device__ inline void put_e2m1(const matrix &m, uint8_t *out, uint32_t lane, uint32_t piece)
{
    using S = source_e2m1;
    uint32_t *words = reinterpret_cast<uint32_t *>(out + lane * 16);
    for (int s = 0; s < 4; s++) {
        uint32_t c[4][2]; // [pair][element]
        for (int i = 0; i < 8; i++)
            c[i / 2][i % 2] = code_of<S>(m, lane, piece, s, i / 2, i % 2);
        words[s] = packed::e2m1_half(c[0][0], c[1][0], c[2][0], c[2][1], c[3][0]) |
                   packed::e2m1_half(c[0][1], c[1][1], c[2][1], c[2][0], c[3][1]) << 16;
    }
}

__device__ inline void put_e4m3(const matrix &m, uint8_t *out, uint32_t lane, uint32_t piece)
{
    using S = source_e4m3;
    for (int i = 0; i < 8; i++) {
        uint32_t word = 0;
        for (int e = 0; e < 2; e++)
            word |= packed::e4m3_half(code_of<S>(m, lane, piece, i / 2, i % 2 * 2, e),
                                      code_of<S>(m, lane, piece, i / 2, i % 2 * 2 + 1, e))
                    << 16 * e;
        reinterpret_cast<uint32_t *>(out + i / 4 * 512 + lane * 16)[i % 4] = word;
    }
}

__device__ inline void put_q8_0(const matrix &m, uint8_t *out, uint32_t lane, uint32_t piece)
{
    using S = source_q8_0;
    for (int i = 0; i < 8; i++) {
        uint32_t word = 0;
        for (int b = 0; b < 4; b++)
            word |= code_of<S>(m, lane, piece, i / 2, i % 2 * 2 + b / 2, b & 1) << 8 * b;
        reinterpret_cast<uint32_t *>(out + i / 4 * 512 + lane * 16)[i % 4] = word;
    }
}

// Four bits a code, then the higher ones.
template <class S>
__device__ inline void put_affine(const matrix &m, uint8_t *out, uint32_t lane, uint32_t piece)
{
    constexpr int HIGH = S::format::HIGH;
    uint32_t high[2] = {0, 0};
    for (int s = 0; s < 4; s++) {
        uint32_t word = 0;
        for (int i = 0; i < 8; i++) {
            int p = i / 2, e = i & 1;
            uint32_t q = code_of<S>(m, lane, piece, s, p, e);
            word |= (q & 15) << (4 * p + 16 * e);
            if (HIGH == 1)
                high[0] |= (q >> 4) << (4 * s + p + 16 * e);
            if (HIGH == 2)
                high[s / 2] |= (q >> 4) << (2 * (s % 2 * 4 + p) + 16 * e);
        }
        reinterpret_cast<uint32_t *>(out + lane * 16)[s] = word;
    }
    for (int i = 0; i < HIGH; i++)
        reinterpret_cast<uint32_t *>(out + packed::LANES4 + lane * 4 * HIGH)[i] = high[i];
}

// ---- what rows share ----

// Of `row`, a piece's two blocks of 32.
template <class S>
__device__ inline void put_scales32(const matrix &m, uint8_t *out, uint32_t bytes, uint32_t row,
                                    uint32_t piece)
{
    const uint8_t *src = m.row(row);
    for (uint32_t b = 0; b < 2; b++)
        for (uint32_t i = 0; i < bytes; i += 2) {
            bool there = src && piece * 64 + b * 32 < m.k;
            uint32_t v = there ? half_at(src + size_t(piece * 2 + b) * S::BYTES + i) : 0;
            *reinterpret_cast<uint16_t *>(out + (b * 16 + row) * bytes + i) = uint16_t(v);
        }
}

template <class S>
__device__ inline void put_head(const matrix &m, uint8_t *out, uint32_t row, uint32_t block)
{
    constexpr bool q6 = S::format::HEAD == 288;
    const uint8_t *src = m.row(row);
    src = src ? src + size_t(block) * S::BYTES + (q6 ? 192 : 0) : nullptr;
    for (int i = 0; i < 16; i += 2)
        *reinterpret_cast<uint16_t *>(out + row * 16 + i) = src ? half_at(src + i) : 0;
    if (q6)
        *reinterpret_cast<uint16_t *>(out + 256 + row * 2) = src ? half_at(src + 16) : 0;
}

// ---- strips ----

template <class S> __device__ inline matrix matrix_of(const struct mtr_repack_args &a)
{
    return {static_cast<const uint8_t *>(a.src), uint64_t(a.k) / S::ELEMENTS * S::BYTES, a.n, a.k,
            blockIdx.x * packed::ROWS};
}

// use(piece, its bytes, thread of a warp)
template <class F, class U>
__device__ inline void each_piece(const struct mtr_repack_args &a, U use)
{
    uint32_t pieces = packed::pieces_of(a.k);
    uint8_t *strip = static_cast<uint8_t *>(a.dst) + blockIdx.x * packed::bytes_before<F>(pieces);
    for (uint32_t i = threadIdx.x; i < pieces * 32; i += blockDim.x) {
        uint32_t q = i / 32;
        use(q, strip + packed::bytes_before<F>(q), i % 32);
    }
}

template <class S> __device__ inline void repack_32(const struct mtr_repack_args &a)
{
    matrix m = matrix_of<S>(a);
    each_piece<typename S::format>(a, [&](uint32_t q, uint8_t *out, uint32_t lane) {
        put_affine<S>(m, out, lane, q);
        if (lane < 16)
            put_scales32<S>(m, out + S::format::SCALES, S::format::SCALE_BYTES, lane, q);
    });
}

template <class S> __device__ inline void repack_256(const struct mtr_repack_args &a)
{
    matrix m = matrix_of<S>(a);
    each_piece<typename S::format>(a, [&](uint32_t q, uint8_t *out, uint32_t lane) {
        put_affine<S>(m, out, lane, q);
        if (q % 4 == 3 && lane < 16)
            put_head<S>(m, out + S::format::PIECE, lane, q / 4);
    });
}

} // namespace

#define REPACK(name)                                                                               \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        name(const __grid_constant__ struct mtr_repack_args a)

REPACK(repack_e2m1)
{
    matrix m = matrix_of<source_e2m1>(a);
    each_piece<packed::e2m1>(
        a, [&](uint32_t q, uint8_t *out, uint32_t lane) { put_e2m1(m, out, lane, q); });
}

// Scales of e2m1, k of them a row: a piece has the four of each row.
REPACK(repack_group16)
{
    matrix m = matrix_of<source_e4m3>(a);
    uint32_t pieces = (a.k + 3) / 4;
    uint32_t *strip = static_cast<uint32_t *>(a.dst) + size_t(blockIdx.x) * pieces * 16;
    for (uint32_t i = threadIdx.x; i < pieces * 16; i += blockDim.x) {
        uint32_t q = i / 16, row = i % 16, s[4];
        for (uint32_t c = 0; c < 4; c++)
            s[c] = code_at<source_e4m3>(m, row, 4 * q + c);
        strip[q * 16 + row % 8 * 2 + row / 8] =
            packed::e4m3_half(s[0], s[1]) | packed::e4m3_half(s[2], s[3]) << 16;
    }
}

REPACK(repack_e4m3)
{
    matrix m = matrix_of<source_e4m3>(a);
    each_piece<source_e4m3::format>(
        a, [&](uint32_t q, uint8_t *out, uint32_t lane) { put_e4m3(m, out, lane, q); });
}

REPACK(repack_q8_0)
{
    matrix m = matrix_of<source_q8_0>(a);
    each_piece<packed::q8_0>(a, [&](uint32_t q, uint8_t *out, uint32_t lane) {
        put_q8_0(m, out, lane, q);
        if (lane < 16)
            put_scales32<source_q8_0>(m, out + packed::LANES8, 2, lane, q);
    });
}

REPACK(repack_q4_0)
{
    repack_32<source_32<MTR_Q4_0>>(a);
}

REPACK(repack_q4_1)
{
    repack_32<source_32<MTR_Q4_1>>(a);
}

REPACK(repack_q5_0)
{
    repack_32<source_32<MTR_Q5_0>>(a);
}

REPACK(repack_q5_1)
{
    repack_32<source_32<MTR_Q5_1>>(a);
}

REPACK(repack_q4_k)
{
    repack_256<source_256<MTR_Q4_K>>(a);
}

REPACK(repack_q5_k)
{
    repack_256<source_256<MTR_Q5_K>>(a);
}

REPACK(repack_q6_k)
{
    repack_256<source_256<MTR_Q6_K>>(a);
}
