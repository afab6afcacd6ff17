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

// One warp copies. Each lane has a strip, and a box of tokens, of its own: their addresses are
// worked out side by side.
template <class S> struct copier {
    using F = typename S::format;
    const block<S> &b;
    const typename S::pipe &p;
    uint32_t lane, pieces;
    const uint8_t *values, *scales; // of the lane's strip

    __device__ copier(const block<S> &block, const typename S::pipe &pipe)
        : b(block), p(pipe), lane(threadIdx.x % 32), pieces(packed::pieces_of(block.a.k))
    {
        strip s(b, min(lane, uint32_t(S::STRIPS - 1)));
        values = static_cast<const uint8_t *>(s.part->weight) +
                 s.number * packed::bytes_before<F>(pieces);
        scales = static_cast<const uint8_t *>(s.part->scale) + size_t(s.number) * pieces * F::APART;
    }

    __device__ uint32_t count(uint32_t c) const
    {
        return min(uint32_t(S::PIECES), pieces - c * S::PIECES);
    }

    // The stage is free; says how many bytes will come.
    __device__ void claim(uint32_t use, uint32_t c) const
    {
        constexpr uint32_t piece = S::BOX_BYTES + S::STRIPS * S::PIECE_BYTES;
        p.await(use);
        if (lane == 0)
            device::barrier_expect(p.full(use), count(c) * piece + S::STRIPS * F::HEAD);
        __syncwarp();
    }

    __device__ void copy_strips(uint32_t use, uint32_t c) const
    {
        if (lane >= S::STRIPS)
            return;
        uint32_t first = c * S::PIECES, barrier = p.full(use);
        uint32_t to = p.stage(use) + S::TOKEN_BYTES + lane * S::STRIP_BYTES;
        uint32_t behind = to + S::PIECES * F::PIECE;
        device::copy_bytes(to, values + packed::bytes_before<F>(first), count(c) * F::PIECE,
                           barrier);
        if constexpr (F::APART > 0)
            device::copy_bytes(behind, scales + first * F::APART, count(c) * F::APART, barrier);
        if constexpr (F::HEAD > 0)
            device::copy_bytes(behind,
                               values + packed::bytes_before<F>(first / 4 * 4) + 4 * F::PIECE,
                               F::HEAD, barrier);
    }

    __device__ void copy_boxes(uint32_t use, uint32_t c) const
    {
        if (lane < count(c))
            device::copy_box(p.stage(use) + lane * S::BOX_BYTES, &b.a.x_map, c * S::KC + lane * BOX,
                             b.token0, p.full(use));
    }

    // Weights are nobody's output: their first stages may come before the predecessor is done.
    __device__ void run() const
    {
        uint32_t ahead = b.chunks < S::STAGES ? b.chunks : S::STAGES;
        for (uint32_t c = 0; c < ahead; c++) {
            claim(c, c);
            copy_strips(c, c);
        }
        device::wait_for_predecessor();
        for (uint32_t c = 0; c < ahead; c++)
            copy_boxes(c, c);
        for (uint32_t c = ahead; c < b.chunks; c++) {
            claim(c, c);
            copy_strips(c, c);
            copy_boxes(c, c);
        }
    }
};

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

// A warp's way through its strip. Pieces are decoded one ahead of the products that want them, so
// that there is work for the time in which a chain of products waits for itself.
template <class S> struct strip_walk {
    static_assert(S::PIECES % 2 == 0 || S::PIECES == 1, "whole chunks begin with fragment 0");
    const block<S> &b;
    const typename S::pipe &p;
    strip s;
    block_scales<S> scales;
    uint32_t lane, warp;
    packed::fragment f[2];

    __device__ strip_walk(const block<S> &block, const typename S::pipe &pipe)
        : b(block), p(pipe), s(block, threadIdx.x / 32), scales(s, block.a.k),
          lane(threadIdx.x % 32), warp(threadIdx.x / 32)
    {
    }

    __device__ void decode(packed::fragment &to, uint32_t c, uint32_t q)
    {
        uint32_t at = p.stage(c) + S::TOKEN_BYTES + warp * S::STRIP_BYTES;
        decode_piece(to, at, c, q, scales, lane);
    }

    __device__ void begin(uint32_t c, packed::fragment &to)
    {
        scales.turn(c);
        p.wait(c);
        decode(to, c, 0);
    }

    // Chunk c, whose first piece is decoded, and the first piece of the next, if there is one.
    template <bool WHOLE> __device__ void chunk(float (&acc)[1][S::TILES_N][4], uint32_t c)
    {
        uint32_t count = WHOLE ? S::PIECES : pieces_in(b, c);
#pragma unroll
        for (uint32_t q = 0; q < S::PIECES; q++) {
            if (!WHOLE && q >= count)
                break;
            if (q + 1 < count)
                decode(f[(q + 1) % 2], c, q + 1);
            else if (WHOLE && c + 1 < b.chunks)
                begin(c + 1, f[(q + 1) % 2]);
            multiply_piece<S>(acc, f[q % 2], p.stage(c) + q * S::BOX_BYTES, lane);
        }
        __syncwarp();
        if (lane == 0)
            p.release(c);
        if constexpr (S::PIECES == 1) {
#pragma unroll
            for (int i = 0; i < 16; i++)
                f[0][i / 4][i % 4] = f[1][i / 4][i % 4];
        }
    }

    __device__ void run(float (&acc)[1][S::TILES_N][4])
    {
        uint32_t whole = packed::pieces_of(b.a.k) / S::PIECES;
        begin(0, f[0]);
        for (uint32_t c = 0; c < whole; c++)
            chunk<true>(acc, c);
        if (whole < b.chunks)
            chunk<false>(acc, whole);
        float scale[2];
        row_scales<S>(scale, s, lane);
#pragma unroll
        for (int j = 0; j < S::TILES_N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                acc[0][j][e] *= scale[e / 2];
    }
};

template <class S>
__device__ inline void compute_packed(const block<S> &b, const typename S::pipe &p, float *staged)
{
    float acc[1][S::TILES_N][4] = {};
    strip_walk<S>(b, p).run(acc);
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
    if (threadIdx.x >= S::COMPUTE && !b.at.outside)
        copier<S>(b, p).run();
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
