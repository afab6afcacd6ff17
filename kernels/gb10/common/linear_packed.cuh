// SPDX-License-Identifier: MIT OR Apache-2.0
//
// linear.cuh for matrices in the layout of packed.cuh: weights travel in four to eight bits and
// become bf16 in the registers that the matrix instruction reads. Each warp has one strip of 16
// rows, for all tokens of the block. A stage:
//
//   [COLS, 64] tokens, as in linear.cuh, for each 64 of K | for each strip: pieces, scales, head
//
// The chain of instructions of a sum is that of linear.cuh, and so are all shapes' bits.
#pragma once

#include "kernels/gb10/common/linear.cuh"
#include "kernels/gb10/common/packed.cuh"

namespace linear
{

template <class F_, int STRIPS_, int COLS_, int KC_, int STAGES_, int COPY_> struct packed_tile {
    using format = F_;
    static constexpr int STRIPS = STRIPS_, ROWS = STRIPS * packed::ROWS, COLS = COLS_;
    static constexpr int KC = KC_, PIECES = KC / packed::COLS, STAGES = STAGES_;
    static constexpr int COMPUTE = 32 * STRIPS, THREADS = COMPUTE + COPY_;
    static constexpr int WARPS_M = STRIPS, TILES_M = 1, TILES_N = COLS / 8;
    static constexpr int PIECE_BYTES = format::PIECE + format::APART;
    static constexpr int STRIP_BYTES = PIECES * PIECE_BYTES + format::HEAD;
    static constexpr int BOX_BYTES = COLS * BOX * 2, TOKEN_BYTES = PIECES * BOX_BYTES;
    static constexpr int STAGE_BYTES = (TOKEN_BYTES + STRIPS * STRIP_BYTES + 1023) / 1024 * 1024;
    static constexpr int PITCH = ROWS + 4;
    static constexpr int STAGED_BYTES = COLS * PITCH * 4;
    static constexpr int SHARED_BYTES =
        MTR_PIPE_BYTES +
        (STAGES * STAGE_BYTES > STAGED_BYTES ? STAGES * STAGE_BYTES : STAGED_BYTES);
    using pipe = ::pipe<STAGES, STAGE_BYTES>;
};

// A strip of a tile: of which part, and its number there. Strips beyond the last are the last one
// again; nobody reads their sums.
struct strip {
    const struct mtr_linear_part *part;
    uint32_t number;

    template <class S> __device__ strip(const block<S> &b, uint32_t i) : part(b.at.part)
    {
        number = b.at.first / packed::ROWS + i;
        if (b.glu && i >= S::STRIPS / 2) {
            part = &b.a.part[1];
            number -= S::STRIPS / 2;
        }
        number = min(number, (part->n - 1) / packed::ROWS);
    }
};

// ---- copying ----

// Pieces of chunk c: as many as there are.
template <class S> __device__ inline uint32_t pieces_in(const block<S> &b, uint32_t c)
{
    return min(uint32_t(S::PIECES), packed::pieces_of(b.a.k) - c * S::PIECES);
}

template <class S>
__device__ inline void copy_strip(const block<S> &b, uint32_t i, uint32_t c, uint32_t to,
                                  uint32_t barrier)
{
    using F = typename S::format;
    strip s(b, i);
    uint32_t all = packed::pieces_of(b.a.k), first = c * S::PIECES, count = pieces_in(b, c);
    const uint8_t *values =
        static_cast<const uint8_t *>(s.part->weight) + s.number * packed::bytes_before<F>(all);
    device::copy_bytes(to, values + packed::bytes_before<F>(first), count * F::PIECE, barrier);
    if constexpr (F::APART > 0)
        device::copy_bytes(to + S::PIECES * F::PIECE,
                           static_cast<const uint8_t *>(s.part->scale) +
                               (size_t(s.number) * all + first) * F::APART,
                           count * F::APART, barrier);
    if constexpr (F::HEAD > 0)
        device::copy_bytes(to + S::PIECES * F::PIECE,
                           values + packed::bytes_before<F>(first / 4 * 4) + 4 * F::PIECE, F::HEAD,
                           barrier);
}

template <class S>
__device__ inline void copy_strips(const block<S> &b, const typename S::pipe &p, uint32_t use,
                                   uint32_t c)
{
    uint32_t to = p.stage(use) + S::TOKEN_BYTES;
    for (uint32_t i = 0; i < S::STRIPS; i++)
        copy_strip(b, i, c, to + i * S::STRIP_BYTES, p.full(use));
}

template <class S>
__device__ inline void copy_boxes(const block<S> &b, const typename S::pipe &p, uint32_t use,
                                  uint32_t c)
{
    for (uint32_t q = 0; q < pieces_in(b, c); q++)
        device::copy_box(p.stage(use) + q * S::BOX_BYTES, &b.a.x_map, c * S::KC + q * BOX, b.token0,
                         p.full(use));
}

template <class S>
__device__ inline void claim_stage(const block<S> &b, const typename S::pipe &p, uint32_t use,
                                   uint32_t c)
{
    constexpr uint32_t piece = S::BOX_BYTES + S::STRIPS * S::PIECE_BYTES;
    p.claim(use, pieces_in(b, c) * piece + S::STRIPS * S::format::HEAD);
}

template <class S> __device__ inline void copy_packed(const block<S> &b, const typename S::pipe &p)
{
    uint32_t ahead = b.chunks < S::STAGES ? b.chunks : S::STAGES;
    for (uint32_t c = 0; c < ahead; c++) {
        claim_stage(b, p, c, c);
        copy_strips(b, p, c, c);
    }
    device::wait_for_predecessor();
    for (uint32_t c = 0; c < ahead; c++)
        copy_boxes(b, p, c, c);
    for (uint32_t c = ahead; c < b.chunks; c++) {
        claim_stage(b, p, c, c);
        copy_strips(b, p, c, c);
        copy_boxes(b, p, c, c);
    }
}

// ---- a warp's strip ----

// Scales of 128 x 128 weights, fetched a chunk ahead.
template <class S> struct block_scales {
    static constexpr bool ANY = S::format::BLOCK_SCALES;
    static constexpr int COUNT = (S::KC + 127) / 128;
    const float *row;
    uint32_t count;
    float now[COUNT], next[COUNT];

    __device__ block_scales(const strip &s, uint32_t k)
    {
        if constexpr (ANY) {
            count = (k + 127) / 128;
            row = static_cast<const float *>(s.part->scale) +
                  size_t(s.number * packed::ROWS / 128) * count;
            fetch(0);
        }
    }

    __device__ void fetch(uint32_t c)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            uint32_t at = c * S::KC / 128 + i;
            next[i] = at < count ? row[at] : 0;
        }
    }

    // To chunk c.
    __device__ void turn(uint32_t c)
    {
        if constexpr (ANY) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                now[i] = next[i];
            fetch(c + 1);
        }
    }
};

// Piece q of chunk c to registers; `at` is the strip's place in the stage.
template <class S>
__device__ inline void decode_piece(packed::fragment &f, uint32_t at, uint32_t c, uint32_t q,
                                    const block_scales<S> &scales, uint32_t lane)
{
    using F = typename S::format;
    packed::place p;
    p.values = at + q * F::PIECE;
    p.scales = at + S::PIECES * F::PIECE + q * F::APART;
    p.head = at + S::PIECES * F::PIECE;
    p.quarter = (c * S::PIECES + q) % 4;
    if constexpr (F::BLOCK_SCALES)
        p.block_scale = scales.now[S::PIECES > 1 ? q / 2 : 0];
    F::decode(f, p, lane);
}

// acc += the piece times its 64 of K of all tokens.
template <class S>
__device__ inline void multiply_piece(float (&acc)[1][S::TILES_N][4], const packed::fragment &f,
                                      uint32_t tokens, uint32_t lane)
{
    if constexpr (S::TILES_N == 1) {
#pragma unroll
        for (int s = 0; s < 4; s += 2) {
            uint32_t b[2][2];
            device::load_matrix4(b[0][0], b[0][1], b[1][0], b[1][1],
                                 piece_at(tokens, lane & 7, 2 * s + lane / 8));
            device::mma(acc[0][0], f[s], b[0]);
            device::mma(acc[0][0], f[s + 1], b[1]);
        }
    } else {
        uint32_t row = (lane & 7) + (lane & 16 ? 8 : 0);
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int j = 0; j < S::TILES_N; j += 2) {
                uint32_t b[2][2];
                device::load_matrix4(b[0][0], b[0][1], b[1][0], b[1][1],
                                     piece_at(tokens, row + j * 8, 2 * s + (lane >> 3 & 1)));
                device::mma(acc[0][j], f[s], b[0]);
                device::mma(acc[0][j + 1], f[s], b[1]);
            }
    }
}

// What the sums of a thread's two rows are multiplied by.
template <class S>
__device__ inline void row_scales(float (&scale)[2], const strip &s, uint32_t lane)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t row = s.number * packed::ROWS + lane / 4 + i * 8;
        scale[i] = S::format::row_scale(*s.part, min(row, s.part->n - 1));
    }
}

template <class S>
__device__ inline void compute_packed(const block<S> &b, const typename S::pipe &p, float *staged)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc[1][S::TILES_N][4] = {}, scale[2];
    strip s(b, warp);
    block_scales<S> scales(s, b.a.k);
    row_scales<S>(scale, s, lane);
    for (uint32_t c = 0; c < b.chunks; c++) {
        uint32_t count = pieces_in(b, c), stage = p.stage(c);
        scales.turn(c);
        p.wait(c);
#pragma unroll
        for (uint32_t q = 0; q < S::PIECES; q++) {
            if (q >= count)
                break;
            packed::fragment f;
            decode_piece(f, stage + S::TOKEN_BYTES + warp * S::STRIP_BYTES, c, q, scales, lane);
            multiply_piece<S>(acc, f, stage + q * S::BOX_BYTES, lane);
        }
        __syncwarp();
        if (lane == 0)
            p.release(c);
    }
#pragma unroll
    for (int j = 0; j < S::TILES_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            acc[0][j][e] *= scale[e / 2];
    device::sync_some<S::COMPUTE>(1); // the stages are read: the result may go there
    stage_result<S>(acc, staged);
    device::sync_some<S::COMPUTE>(1);
    uint32_t tokens = device::row_count(b.a.step, b.a.rows_kind);
    write_result<S::COLS>(b, staged, b.token0, tokens, threadIdx.x);
}

template <class S> __device__ inline void run_packed(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    block<S> b(args, find_tile(blockIdx.y * gridDim.x + blockIdx.x, gridDim.x, gridDim.y));
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::STRIPS);
    __syncthreads();
    if (threadIdx.x == S::COMPUTE && !b.at.outside)
        copy_packed(b, p);
    device::wait_for_predecessor();
    device::let_successor_start();
    if (threadIdx.x < S::COMPUTE && !b.at.outside)
        compute_packed(
            b, p, reinterpret_cast<float *>(memory + (p.stages - device::shared_address(memory))));
}

// Shapes of steps of few rows, which are bound by reading weights.
//                                              strips tokens   k stages
template <class F> using packed_r8 = packed_tile<F, 2, 8, 256, 5, 32>;
template <class F> using packed_r16 = packed_tile<F, 2, 16, 256, 4, 32>;
template <class F> using packed_r32 = packed_tile<F, 2, 32, 128, 4, 32>;
template <class F> using packed_r64 = packed_tile<F, 2, 64, 128, 4, 32>;

} // namespace linear

#define LINEAR_PACKED_SHAPE(point, format, rows)                                                   \
    extern "C" __global__ void __launch_bounds__(linear::packed_r##rows<format>::THREADS)          \
        linear_##point##_r##rows(const __grid_constant__ struct mtr_linear_args args)              \
    {                                                                                              \
        linear::run_packed<linear::packed_r##rows<format>>(args);                                  \
    }

#define LINEAR_PACKED(point, format)                                                               \
    LINEAR_PACKED_SHAPE(point, format, 8)                                                          \
    LINEAR_PACKED_SHAPE(point, format, 16)                                                         \
    LINEAR_PACKED_SHAPE(point, format, 32)                                                         \
    LINEAR_PACKED_SHAPE(point, format, 64)

// use(name of a point, its format) for all of them.
#define LINEAR_PACKED_POINTS(use)                                                                  \
    use(e2m1_group16, packed::e2m1) use(e4m3_tensor, packed::e4m3<packed::BY_TENSOR>)              \
        use(e4m3_channel, packed::e4m3<packed::BY_CHANNEL>)                                        \
            use(e4m3_block, packed::e4m3<packed::BY_BLOCK>) use(q4_0, packed::blocks32<MTR_Q4_0>)  \
                use(q4_1, packed::blocks32<MTR_Q4_1>) use(q5_0, packed::blocks32<MTR_Q5_0>)        \
                    use(q5_1, packed::blocks32<MTR_Q5_1>) use(q8_0, packed::q8_0)                  \
                        use(q4_k, packed::blocks256<MTR_Q4_K>)                                     \
                            use(q5_k, packed::blocks256<MTR_Q5_K>)                                 \
                                use(q6_k, packed::blocks256<MTR_Q6_K>)
