// SPDX-License-Identifier: MIT OR Apache-2.0
//
// linear_packed.cuh for one token a tile. Its share of K is 2 bytes for each 16 weights, so that a
// warp brings its own and waits for nobody but, at the end of a tile, for the warps with the other
// parts of K. Blocks are as many as processors take, and each takes tile after tile: a warp's ring
// runs on into the next tile while this one's sums go out.
//
//   memory  sums of all parts, twice [PARTS, 16 STRIPS] | for each warp a ring
//   group   GROUP pieces | head | their scales | the token's 64 GROUP of K
#pragma once

#include "kernels/gb10/common/linear_packed.cuh"

namespace linear
{

template <class F_, int STRIPS_, int MOST, int LIMIT> struct single_tile {
    using format = F_;
    static constexpr int STRIPS = STRIPS_, ROWS = STRIPS * packed::ROWS, COLS = 1;
    static constexpr int WAYS = PARTS, KC = packed::COLS, TILES_N = 1;
    static constexpr int COMPUTE = 32 * STRIPS * WAYS, THREADS = COMPUTE;
    static constexpr int BLOCKS = blocks_of(LIMIT);
    static constexpr int GROUP = packed::group_of<format>();
    static constexpr int VALUE_BYTES = GROUP * format::PIECE + format::HEAD;
    static constexpr int SCALE_BYTES = GROUP * format::APART;
    static constexpr int SLOT_BYTES = VALUE_BYTES + SCALE_BYTES + GROUP * 128;
    static constexpr int PITCH = ROWS, SUM_BYTES = 2 * PARTS * PITCH * 4;
    static constexpr int RING = at_most(MOST, (LIMIT - SUM_BYTES) / (STRIPS * WAYS * SLOT_BYTES));
    static constexpr int SHARED_BYTES = SUM_BYTES + STRIPS * WAYS * RING * SLOT_BYTES;
    static_assert(RING >= 2 && SHARED_BYTES <= LIMIT, "room");
    struct pipe {
    }; // none
};

// The tiles of a block, one after the other: along the outputs, then along the tokens.
template <class S> struct tiles {
    const struct mtr_linear_args &a;
    uint32_t id, width, tokens;

    __device__ explicit tiles(const struct mtr_linear_args &args)
        : a(args), id(blockIdx.x), width(0), tokens(device::row_count(args.step, args.rows_kind))
    {
        uint32_t outputs = a.epilogue == MTR_EPILOGUE_GLU ? S::ROWS / 2 : S::ROWS;
        for (uint32_t i = 0; i < part_count(a); i++)
            width += (a.part[i].n + outputs - 1) / outputs;
    }

    __device__ bool any() const
    {
        return id < width * tokens;
    }

    __device__ void next()
    {
        id += gridDim.x;
    }

    // Of the tile so many after this one.
    __device__ uint32_t token(uint32_t later = 0) const
    {
        return min((id + later * gridDim.x) / width, tokens - 1);
    }

    __device__ block<S> now() const
    {
        return block<S>(a, make_uint2(id % width, id / width));
    }
};

// A warp's weights and its token's share, tile after tile: groups are fetched in order, RING - 1
// ahead of their use.
template <class S> struct single_ring {
    using F = typename S::format;
    tiles<S> t;      // of the group to be fetched next,
    uint32_t g, use; // its number in that tile, and in all
    const uint8_t *values, *scales;
    const uint16_t *x; // of the way's K
    uint32_t slots, lane, index;
    stretch k;

    __device__ single_ring(const struct mtr_linear_args &a, const stretch &mine, uint32_t strip,
                           uint32_t shared)
        : t(a), g(0), use(0), slots(shared), lane(threadIdx.x % 32), index(strip), k(mine)
    {
        x = static_cast<const uint16_t *>(a.x) + k.first * packed::COLS;
        enter();
    }

    __device__ void enter()
    {
        if (!t.any())
            return;
        uint32_t all = packed::pieces_of(t.a.k);
        block<S> b = t.now();
        strip s(b, index);
        values = static_cast<const uint8_t *>(s.part->weight) +
                 s.number * packed::bytes_before<F>(all) + packed::bytes_before<F>(k.first) +
                 lane * 16;
        scales = static_cast<const uint8_t *>(s.part->scale) +
                 (size_t(s.number) * all + k.first) * F::APART + lane * 16;
    }

    __device__ uint32_t slot(uint32_t number) const
    {
        return slots + number % S::RING * S::SLOT_BYTES;
    }

    template <int MOST>
    __device__ void fetch(uint32_t to, const uint8_t *from, uint32_t bytes) const
    {
#pragma unroll
        for (int i = 0; i < MOST; i += 512)
            if (i + lane * 16 < bytes)
                device::copy16(to + i, from + i, 16);
    }

    // The share of a group of a tile. Past the token's end there are zeros.
    __device__ void fetch_token(uint32_t number, uint32_t token, uint32_t group) const
    {
        uint32_t from = group * S::GROUP * packed::COLS + lane * 8;
        uint32_t left = t.a.k - k.first * packed::COLS;
        uint32_t bytes = from < left ? min(16u, (left - from) * 2) : 0;
        if (lane < S::GROUP * 8)
            device::copy16(slot(number) + S::VALUE_BYTES + S::SCALE_BYTES + lane * 16,
                           bytes ? x + size_t(token) * t.a.x_stride + from : x, bytes);
    }

    // The next group's weights, if there is one.
    __device__ void fetch_weights()
    {
        if (!t.any() || k.count == 0)
            return;
        uint32_t count = min(uint32_t(S::GROUP), k.count - g * S::GROUP);
        uint32_t to = slot(use) + lane * 16;
        fetch<S::VALUE_BYTES>(to, values, count * F::PIECE + F::HEAD);
        if constexpr (F::APART > 0)
            fetch<S::SCALE_BYTES>(to + S::VALUE_BYTES, scales, count * F::APART);
        values += S::VALUE_BYTES;
        scales += S::SCALE_BYTES;
    }

    __device__ void step()
    {
        use++;
        if (++g * S::GROUP >= k.count) {
            g = 0;
            t.next();
            enter();
        }
    }

    // Before the token is there: the first groups' weights, then their shares of it.
    __device__ void begin()
    {
#pragma unroll
        for (int i = 0; i < S::RING - 1; i++) {
            fetch_weights();
            step();
        }
        device::wait_for_predecessor();
        uint32_t groups = (k.count + S::GROUP - 1) / S::GROUP;
        tiles<S> first(t.a);
        for (int i = 0; i < S::RING - 1; i++)
            if (k.count && first.any())
                fetch_token(i, first.token(i / groups), i % groups);
        device::commit_copies();
        device::wait_copies<0>();
    }

    // Group number `number` is there, and the one that will be where the one before was is coming.
    __device__ void turn()
    {
        device::wait_copies<S::RING - 2>();
        __syncwarp();
        if (t.any() && k.count) {
            fetch_weights();
            fetch_token(use, t.token(), g);
        }
        device::commit_copies();
        step();
    }
};

template <class S> struct single_walk {
    using F = typename S::format;
    uint32_t lane, warp, index, way;
    stretch k;
    single_ring<S> ring;
    uint32_t use; // groups so far

    __device__ single_walk(const struct mtr_linear_args &a, uint32_t shared)
        : lane(threadIdx.x % 32), warp(threadIdx.x / 32), index(warp % S::STRIPS),
          way(warp / S::STRIPS), k(stretch::of<S>(a.k, way)),
          ring(a, k, index, shared + S::SUM_BYTES + warp * (S::RING * S::SLOT_BYTES)), use(0)
    {
    }

    template <bool WHOLE>
    __device__ void group(float (&acc)[1][4], block_scales<F, S::GROUP> &scales, uint32_t count)
    {
        packed::weights<F> w[2];
        uint32_t slot = ring.slot(use), token = slot + S::VALUE_BYTES + S::SCALE_BYTES;
        decode_piece<S>(w[0], slot, 0, scales, lane);
#pragma unroll
        for (uint32_t q = 0; q < S::GROUP; q++) {
            if (q + 1 < S::GROUP)
                decode_piece<S>(w[(q + 1) % 2], slot, q + 1, scales, lane);
            if (WHOLE || q < count)
#pragma unroll
                for (int s = 0; s < 4; s += 2) { // the one token stands in for eight
                    uint32_t b[2][2];
                    device::load_matrix4(b[0][0], b[0][1], b[1][0], b[1][1],
                                         token + q * 128 + (2 * s + lane / 8) * 16);
                    multiply_step(acc[0], w[q % 2], s, b[0]);
                    multiply_step(acc[0], w[q % 2], s + 1, b[1]);
                }
        }
    }

    // The sum of this way's K in a tile.
    __device__ void sum(float (&acc)[1][4], const block<S> &b)
    {
        block_scales<F, S::GROUP> scales(strip(b, index), b.a.k, k.first);
        for (uint32_t g = 0; g * S::GROUP < k.count; g++, use++) {
            ring.turn();
            scales.turn(k.first + g * S::GROUP);
            uint32_t left = k.count - g * S::GROUP;
            if (left >= S::GROUP)
                group<true>(acc, scales, S::GROUP);
            else
                group<false>(acc, scales, left);
        }
    }
};

// By the first threads, one for each row: the parts' sums in order, and out.
template <class S>
__device__ inline void finish_tile(const block<S> &b, float *sums, float scale, uint32_t tokens)
{
    float sum = sums[threadIdx.x];
    for (uint32_t i = 1; i < parts_of(b.a.k); i++)
        sum += sums[i * S::PITCH + threadIdx.x];
    sums[threadIdx.x] = sum * scale;
    device::sync_some<S::ROWS>(2);
    write_result<1>(b, sums, b.token0, tokens, threadIdx.x);
}

template <class S> __device__ inline void run_single(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    float *sums = reinterpret_cast<float *>(memory);
    int flip = 1;
    single_walk<S> walk(args, device::shared_address(memory));
    walk.ring.begin();
    device::let_successor_start();
    for (tiles<S> t(args); t.any(); t.next()) {
        block<S> b = t.now();
        float scale = threadIdx.x < S::ROWS ? row_scale(b, threadIdx.x) : 0, acc[1][4] = {};
        walk.sum(acc, b);
        stage_strip<S>(acc, sums + walk.way * S::PITCH, walk.lane);
        device::sync_some<S::COMPUTE>(1);
        if (threadIdx.x < S::ROWS)
            finish_tile(b, sums, scale, t.tokens);
        sums += flip * (PARTS * S::PITCH);
        flip = -flip;
    }
}

} // namespace linear
