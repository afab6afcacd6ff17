// SPDX-License-Identifier: MIT OR Apache-2.0
//
// wide.cuh for matrices in the layout of packed.cuh. The warpgroup instruction takes weights from
// registers, so that they go through shared memory in four to eight bits, too. While the products
// of one 64 of K run, each warp decodes the next into its other registers. Parts of K are summed
// one after the other, as linear_packed.cuh says; sums of two stand in registers, which is why a
// tile has 128 tokens and not 256. A stage:
//
//   PIECES boxes [COLS, 64] of tokens | for each strip: pieces, head, scales
#pragma once

#include "kernels/gb10/common/linear_packed.cuh"
#include "kernels/hopper/common/wgmma_registers.cuh"
#include "kernels/hopper/common/wide.cuh"

namespace wide
{

template <class F_, int COLS_> struct packed_tile {
    using format = F_;
    static constexpr int STRIPS = 8, ROWS = STRIPS * packed::ROWS, COLS = COLS_;
    static constexpr int PIECES = 2, KC = PIECES * packed::COLS;
    static constexpr int COMPUTE = 256, THREADS = 384, PITCH = ROWS + 4;
    static constexpr int VALUE_BYTES = PIECES * format::PIECE + format::HEAD;
    static constexpr int STRIP_BYTES = VALUE_BYTES + PIECES * format::APART;
    static constexpr int BOX_BYTES = COLS * linear::BOX * 2, TOKEN_BYTES = PIECES * BOX_BYTES;
    static constexpr int STAGE_BYTES = (TOKEN_BYTES + STRIPS * STRIP_BYTES + 1023) / 1024 * 1024;
    static constexpr int OTHER_BYTES = MTR_PIPE_BYTES + PASS * PITCH * 4;
    static constexpr int STAGES = (227 * 1024 - OTHER_BYTES) / STAGE_BYTES;
    static constexpr int SHARED_BYTES = OTHER_BYTES + STAGES * STAGE_BYTES;
    using pipe = ::pipe<STAGES, STAGE_BYTES>;
};

// One warp copies. Each lane has a strip, and a box of tokens, of its own: their addresses are
// worked out side by side.
template <class S> struct copier {
    using F = typename S::format;
    const linear::block<S> &b;
    const typename S::pipe &p;
    uint32_t lane, pieces;
    const uint8_t *values, *scales; // of the lane's strip

    __device__ copier(const linear::block<S> &block, const typename S::pipe &pipe)
        : b(block), p(pipe), lane(threadIdx.x % 32), pieces(packed::pieces_of(block.a.k))
    {
        linear::strip s(b, min(lane, uint32_t(S::STRIPS - 1)));
        values = static_cast<const uint8_t *>(s.part->weight) +
                 s.number * packed::bytes_before<F>(pieces);
        scales = static_cast<const uint8_t *>(s.part->scale) + size_t(s.number) * pieces * F::APART;
    }

    // Chunk c to the stage of use number `use`, once that is free.
    __device__ void copy(uint32_t use, uint32_t c) const
    {
        uint32_t first = c * S::PIECES, count = min(uint32_t(S::PIECES), pieces - first);
        uint32_t full = p.full(use), stage = p.stage(use);
        constexpr uint32_t piece = S::BOX_BYTES + S::STRIPS * (F::PIECE + F::APART);
        p.await(use);
        if (lane == 0)
            device::barrier_expect(full, count * piece + S::STRIPS * F::HEAD);
        __syncwarp();
        if (lane < count)
            device::copy_box(stage + lane * S::BOX_BYTES, &b.a.x_map, (first + lane) * linear::BOX,
                             b.token0, full);
        if (lane < S::STRIPS)
            copy_strip(stage + S::TOKEN_BYTES + lane * S::STRIP_BYTES, first, count, full);
    }

    __device__ void copy_strip(uint32_t to, uint32_t first, uint32_t count, uint32_t full) const
    {
        device::copy_bytes(to, values + packed::bytes_before<F>(first), count * F::PIECE, full);
        if constexpr (F::APART > 0)
            device::copy_bytes(to + S::VALUE_BYTES, scales + first * F::APART, count * F::APART,
                               full);
        if constexpr (F::HEAD > 0)
            device::copy_bytes(to + S::PIECES * F::PIECE,
                               values + packed::bytes_before<F>(first / 4 * 4) + 4 * F::PIECE,
                               F::HEAD, full);
    }
};

template <class S>
__device__ inline void copy_packed_tiles(const struct mtr_linear_args &a, const work<S> &w,
                                         const typename S::pipe &p)
{
    uint32_t use = 0;
    w.each(a, [&](const linear::block<S> &b) {
        copier<S> copier(b, p);
        for (uint32_t c = 0; c < b.chunks; c++, use++)
            copier.copy(use, c);
    });
}

// What a warp needs to know of its strip, and where it is in it.
template <class S> struct walk {
    using F = typename S::format;
    const typename S::pipe &p;
    linear::block_scales<F, S::PIECES> scales;
    uint32_t use, lane, warp;
    bool owes; // the stage before: its products may still run

    __device__ void decode(packed::weights<F> &w, uint32_t c, uint32_t q) const
    {
        packed::place at;
        at.values = p.stage(use) + S::TOKEN_BYTES + warp * S::STRIP_BYTES;
        at.head = at.values + S::PIECES * F::PIECE;
        at.scales = at.values + S::VALUE_BYTES + q * F::APART;
        at.values += q * F::PIECE;
        at.quarter = (c * S::PIECES + q) % 4;
        if constexpr (F::BLOCK_SCALES)
            at.block_scale = scales.now[0];
        F::decode(w, at, lane);
    }

    __device__ void release_one()
    {
        if (owes && lane == 0)
            p.release(use - 1);
    }

    // The products of piece q of chunk c run on return; `w` are theirs until the next have begun.
    __device__ void multiply(float (&acc)[S::COLS / 2], packed::weights<F> &w, uint32_t c,
                             uint32_t q)
    {
        uint32_t tokens = p.stage(use) + q * S::BOX_BYTES;
        decode(w, c, q);
        hopper::begin_products();
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int t = 0; t < F::TERMS; t++)
                hopper::product_by_registers<S::COLS>::add(acc, w.term[t][k],
                                                           hopper::operand(tokens + k * 32));
        hopper::commit_products();
        hopper::wait_products<1>(); // those of the piece before
    }

    __device__ void begin(uint32_t c)
    {
        scales.turn(c * S::PIECES);
        p.wait(use);
    }

    __device__ void end()
    {
        owes = true;
        use++;
    }

    __device__ void finish()
    {
        hopper::wait_products<0>();
        release_one();
        owes = false;
    }
};

// The sums of a tile. Returns how many stages were used so far.
template <class S>
__device__ inline uint32_t multiply_packed(float (&total)[S::COLS / 2], const linear::block<S> &b,
                                           const typename S::pipe &p, uint32_t use)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    linear::strip s(b, warp);
    float scale[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        scale[i] = linear::row_scale(b, warp * packed::ROWS + lane / 4 + i * 8);
    walk<S> w = {p,    linear::block_scales<typename S::format, S::PIECES>(s, b.a.k, 0),
                 use,  lane,
                 warp, false};
    packed::weights<typename S::format> even, odd;
    uint32_t part = linear::part_pieces(b.a.k) / S::PIECES, whole = packed::pieces_of(b.a.k) / 2;
    for (uint32_t from = 0; from < b.chunks; from += part) {
        float acc[S::COLS / 2];
#pragma unroll
        for (int i = 0; i < S::COLS / 2; i++)
            acc[i] = 0;
        for (uint32_t c = from; c < min(from + part, whole); c++) {
            w.begin(c);
            w.multiply(acc, even, c, 0);
            w.release_one();
            w.multiply(acc, odd, c, 1);
            w.end();
        }
        if (whole < min(from + part, b.chunks)) {
            w.begin(whole);
            w.multiply(acc, even, whole, 0);
            w.release_one();
            w.end();
        }
        w.finish();
#pragma unroll
        for (int i = 0; i < S::COLS / 2; i++)
            total[i] = from == 0 ? acc[i] : total[i] + acc[i];
    }
#pragma unroll
    for (int i = 0; i < S::COLS / 2; i++)
        total[i] *= scale[i / 2 % 2];
    return w.use;
}

template <class S> __device__ inline void run_packed(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::STRIPS);
    __syncthreads();
    device::let_successor_start();
    device::wait_for_predecessor();
    work<S> w(args);
    if (threadIdx.x >= S::COMPUTE) {
        hopper::fewer_registers<40>();
        if (threadIdx.x < S::COMPUTE + 32)
            copy_packed_tiles<S>(args, w, p);
    } else {
        hopper::more_registers<232>();
        uint32_t stages = p.stages - p.barriers + S::STAGES * S::STAGE_BYTES, use = 0;
        float *staged = reinterpret_cast<float *>(memory + stages), sums[S::COLS / 2];
        w.each(args, [&](const linear::block<S> &b) {
            use = multiply_packed<S>(sums, b, p, use);
            write_tile<S>(sums, b, staged, w.tokens);
        });
    }
}

template <class F> using packed_r128 = packed_tile<F, 128>;

} // namespace wide
