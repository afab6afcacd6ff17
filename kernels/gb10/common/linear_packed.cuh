// SPDX-License-Identifier: MIT OR Apache-2.0
//
// linear.cuh for matrices in the layout of packed.cuh: weights travel in four to eight bits and
// become bf16 in the registers that the matrix instruction reads.
//
// K is cut into up to PARTS parts, whose length depends on K alone. A part's sum is a chain of
// instructions as in linear.cuh, and the parts' sums are added in order: that is the sum in every
// shape, and so its bits.
//
// A warp has one strip of 16 rows for all tokens of the block, and of its parts every one (WAYS =
// 1) or a few that follow each other: WAYS warps sum a strip side by side. It copies its own
// weights, a group of pieces at a time, into a ring of its own, so that it waits for nobody; tokens
// are shared by the block and come as in linear.cuh:
//
//   memory  stages of tokens: for each way PIECES boxes [COLS, 64] | for each warp a ring
//   group   GROUP pieces | head | their scales
#pragma once

#include "kernels/gb10/common/linear.cuh"
#include "kernels/gb10/common/packed.cuh"

namespace linear
{

constexpr int PARTS = 8;

constexpr int at_most(int a, int b)
{
    return a < b ? a : b;
}

// Blocks of a processor that take so much memory each.
constexpr int blocks_of(int limit)
{
    return 228 * 1024 / (limit + 1024);
}

// Of LIMIT bytes the ring has up to RING groups, and stages what is left, at least two.
template <class F_, int STRIPS_, int WAYS_, int COLS_, int PIECES_, int MOST, int LIMIT>
struct packed_tile {
    using format = F_;
    static constexpr int STRIPS = STRIPS_, ROWS = STRIPS * packed::ROWS, COLS = COLS_;
    static constexpr int WAYS = WAYS_, PIECES = PIECES_, KC = PIECES * packed::COLS;
    static constexpr int COMPUTE = 32 * STRIPS * WAYS, THREADS = COMPUTE + 32;
    static constexpr int BLOCKS = blocks_of(LIMIT);
    static constexpr int TILES_N = COLS / 8;
    static constexpr int GROUP = packed::group_of<format>();
    static constexpr int VALUE_BYTES = GROUP * format::PIECE + format::HEAD;
    static constexpr int SCALE_BYTES = GROUP * format::APART;
    static constexpr int SLOT_BYTES = VALUE_BYTES + SCALE_BYTES;
    static constexpr int BOX_BYTES = COLS * BOX * 2, STAGE_BYTES = WAYS * PIECES * BOX_BYTES;
    static constexpr int FOR_RING = LIMIT - MTR_PIPE_BYTES - 2 * STAGE_BYTES;
    static constexpr int RING = at_most(MOST, FOR_RING / (STRIPS * WAYS * SLOT_BYTES));
    static constexpr int RING_BYTES = STRIPS * WAYS * RING * SLOT_BYTES;
    static constexpr int STAGES = at_most(8, (LIMIT - MTR_PIPE_BYTES - RING_BYTES) / STAGE_BYTES);
    static constexpr int PITCH = ROWS + 4;
    static constexpr int HELD = WAYS == 1 ? 1 : PARTS / WAYS; // sums of parts that a way keeps
    static constexpr int STAGED_BYTES = WAYS * HELD * COLS * PITCH * 4;
    static constexpr int SHARED_BYTES = MTR_PIPE_BYTES + STAGES * STAGE_BYTES + RING_BYTES;
    static_assert(RING >= 2 && STAGES >= 2 && SHARED_BYTES <= LIMIT, "room");
    static_assert(STAGED_BYTES <= STAGES * STAGE_BYTES + RING_BYTES, "room for sums");
    static_assert(GROUP % PIECES == 0 || PIECES % GROUP == 0, "groups and stages keep step");
    static_assert(STAGE_BYTES % 1024 == 0, "as the swizzle wants");
    using pipe = ::pipe<STAGES, STAGE_BYTES>;
};

// Pieces of a part: whole heads, of which there are four pieces each.
__device__ inline uint32_t part_pieces(uint32_t k)
{
    return (packed::pieces_of(k) + 4 * PARTS - 1) / (4 * PARTS) * 4;
}

__device__ inline uint32_t parts_of(uint32_t k)
{
    uint32_t part = part_pieces(k);
    return (packed::pieces_of(k) + part - 1) / part;
}

// A strip of a tile: of which part of the launch, and its number there. Strips beyond the last are
// the last one again; nobody reads their sums.
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

// Pieces [first, first + count) of K are a way's; there are `steps` for every way that has all.
struct stretch {
    uint32_t first, count, steps;

    template <class S> __device__ static stretch of(uint32_t k, uint32_t way)
    {
        uint32_t all = packed::pieces_of(k);
        uint32_t steps = S::WAYS == 1 ? (all + 3) / 4 * 4 : part_pieces(k) * (PARTS / S::WAYS);
        uint32_t first = min(way * steps, all);
        return {first, min(steps, all - first), steps};
    }
};

// ---- copying ----

// By one thread: tokens of all ways.
template <class S> __device__ inline void copy_tokens(const block<S> &b, const typename S::pipe &p)
{
    uint32_t all = packed::pieces_of(b.a.k), steps = stretch::of<S>(b.a.k, 0).steps;
    device::wait_for_predecessor();
    for (uint32_t use = 0; use * S::PIECES < steps; use++) {
        uint32_t boxes = 0;
#pragma unroll
        for (uint32_t w = 0; w < S::WAYS; w++) {
            uint32_t first = w * steps + use * S::PIECES;
            boxes += first < all ? min(uint32_t(S::PIECES), all - first) : 0;
        }
        p.await(use);
        device::barrier_expect(p.full(use), boxes * S::BOX_BYTES);
        uint32_t to = p.stage(use);
#pragma unroll
        for (uint32_t i = 0; i < S::WAYS * S::PIECES; i++, to += S::BOX_BYTES) {
            uint32_t piece = i / S::PIECES * steps + use * S::PIECES + i % S::PIECES;
            if (piece < all)
                device::copy_box(to, &b.a.x_map, piece * BOX, b.token0, p.full(use));
        }
    }
}

// A warp's weights of its stretch. Groups are fetched in order, RING - 1 ahead of their use.
template <class S> struct ring {
    using F = typename S::format;
    const uint8_t *values, *scales;
    uint32_t slots, pieces, lane;

    __device__ ring(const strip &s, const stretch &k, uint32_t all, uint32_t shared)
        : slots(shared), pieces(k.count), lane(threadIdx.x % 32)
    {
        values = static_cast<const uint8_t *>(s.part->weight) +
                 s.number * packed::bytes_before<F>(all) + packed::bytes_before<F>(k.first) +
                 lane * 16;
        scales = static_cast<const uint8_t *>(s.part->scale) +
                 (size_t(s.number) * all + k.first) * F::APART + lane * 16;
    }

    __device__ uint32_t slot(uint32_t g) const
    {
        return slots + g % S::RING * S::SLOT_BYTES;
    }

    template <int MOST>
    __device__ void fetch(uint32_t to, const uint8_t *from, uint32_t bytes) const
    {
#pragma unroll
        for (int i = 0; i < MOST; i += 512)
            if (i + lane * 16 < bytes)
                device::copy16(to + i, from + i, 16);
    }

    // Group g, if there is one.
    __device__ void fetch(uint32_t g)
    {
        if (g * S::GROUP < pieces) {
            uint32_t count = min(uint32_t(S::GROUP), pieces - g * S::GROUP);
            uint32_t to = slot(g) + lane * 16;
            fetch<S::VALUE_BYTES>(to, values, count * F::PIECE + F::HEAD);
            if constexpr (F::APART > 0)
                fetch<S::SCALE_BYTES>(to + S::VALUE_BYTES, scales, count * F::APART);
            values += S::VALUE_BYTES;
            scales += S::SCALE_BYTES;
        }
        device::commit_copies();
    }

    __device__ void begin()
    {
#pragma unroll
        for (int g = 0; g < S::RING - 1; g++)
            fetch(g);
    }

    // Group g is there, and the one that will be where group g - 1 was is on its way.
    __device__ void turn(uint32_t g)
    {
        device::wait_copies<S::RING - 2>();
        __syncwarp();
        fetch(g + S::RING - 1);
    }
};

// ---- a warp's strip ----

// Scales of 128 x 128 weights: of two pieces each, fetched a group ahead.
template <class F, int GROUP> struct block_scales {
    static constexpr int COUNT = GROUP / 2 > 0 ? GROUP / 2 : 1;
    const float *row;
    uint32_t count;
    float now[COUNT], next[COUNT];

    __device__ block_scales(const strip &s, uint32_t k, uint32_t first)
    {
        if constexpr (F::BLOCK_SCALES) {
            count = (k + 127) / 128;
            row = static_cast<const float *>(s.part->scale) +
                  size_t(s.number * packed::ROWS / 128) * count;
            fetch(first);
        }
    }

    __device__ void fetch(uint32_t piece)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            uint32_t at = piece / 2 + i;
            next[i] = at < count ? row[at] : 0;
        }
    }

    // To the group that begins with this piece.
    __device__ void turn(uint32_t piece)
    {
        if constexpr (F::BLOCK_SCALES) {
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                now[i] = next[i];
            fetch(piece + GROUP);
        }
    }
};

// Piece q of a group to registers.
template <class S>
__device__ inline void
decode_piece(packed::weights<typename S::format> &w, uint32_t slot, uint32_t q,
             const block_scales<typename S::format, S::GROUP> &scales, uint32_t lane)
{
    using F = typename S::format;
    packed::place at;
    at.values = slot + q * F::PIECE;
    at.head = slot + S::GROUP * F::PIECE;
    at.scales = slot + S::VALUE_BYTES + q * F::APART;
    at.quarter = q;
    if constexpr (F::BLOCK_SCALES)
        at.block_scale = scales.now[q / 2];
    F::decode(w, at, lane);
}

template <class F>
__device__ inline void multiply_step(float (&acc)[4], const packed::weights<F> &w, int step,
                                     const uint32_t (&b)[2])
{
#pragma unroll
    for (int t = 0; t < F::TERMS; t++)
        device::mma(acc, w.term[t][step], b);
}

// acc += the piece times its 64 of K of all tokens.
template <class S>
__device__ inline void multiply_piece(float (&acc)[S::TILES_N][4],
                                      const packed::weights<typename S::format> &w, uint32_t tokens,
                                      uint32_t lane)
{
    if constexpr (S::TILES_N == 1) {
#pragma unroll
        for (int s = 0; s < 4; s += 2) {
            uint32_t b[2][2];
            device::load_matrix4(b[0][0], b[0][1], b[1][0], b[1][1],
                                 piece_at(tokens, lane & 7, 2 * s + lane / 8));
            multiply_step(acc[0], w, s, b[0]);
            multiply_step(acc[0], w, s + 1, b[1]);
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
                multiply_step(acc[j], w, s, b[0]);
                multiply_step(acc[j + 1], w, s, b[1]);
            }
    }
}

// A warp's stretch of its strip, and what it needs on its way through.
template <class S> struct strip_walk {
    using F = typename S::format;
    const block<S> &b;
    const typename S::pipe &p;
    uint32_t lane, way;
    strip s;
    stretch k;
    ring<S> weights;
    block_scales<F, S::GROUP> scales;

    __device__ strip_walk(const block<S> &block, const typename S::pipe &pipe)
        : b(block), p(pipe), lane(threadIdx.x % 32), way(threadIdx.x / 32 / S::STRIPS),
          s(block, threadIdx.x / 32 % S::STRIPS), k(stretch::of<S>(block.a.k, way)),
          weights(s, k, packed::pieces_of(block.a.k),
                  pipe.stages + S::STAGES * S::STAGE_BYTES +
                      threadIdx.x / 32 * (S::RING * S::SLOT_BYTES)),
          scales(s, block.a.k, k.first)
    {
    }

    // Shared address of the tokens that go with a piece of the stretch.
    __device__ uint32_t tokens(uint32_t piece) const
    {
        return p.stage(piece / S::PIECES) + (way * S::PIECES + piece % S::PIECES) * S::BOX_BYTES;
    }

    __device__ void release(uint32_t use) const
    {
        __syncwarp();
        if (lane == 0)
            p.release(use);
    }

    // Lets go of stages of which this way has no share.
    __device__ void pass(uint32_t from) const
    {
        for (uint32_t use = from; use * S::PIECES < k.steps; use++) {
            p.wait(use);
            release(use);
        }
    }
};

// By the warp's own instruction. Pieces of a group are decoded one ahead of the products that want
// them, so that there is work while a chain of products waits for itself.
template <class S> struct warp_walk : strip_walk<S> {
    using F = typename S::format;
    using strip_walk<S>::strip_walk;

    // Group g, of so many pieces.
    template <bool WHOLE>
    __device__ void group(float (&acc)[S::TILES_N][4], uint32_t g, uint32_t count)
    {
        packed::weights<F> w[2];
        uint32_t slot = this->weights.slot(g);
        decode_piece<S>(w[0], slot, 0, this->scales, this->lane);
#pragma unroll
        for (uint32_t q = 0; q < S::GROUP; q++) {
            uint32_t piece = g * S::GROUP + q, use = piece / S::PIECES;
            if (piece % S::PIECES == 0)
                this->p.wait(use);
            if (q + 1 < S::GROUP)
                decode_piece<S>(w[(q + 1) % 2], slot, q + 1, this->scales, this->lane);
            if (WHOLE || q < count)
                multiply_piece<S>(acc, w[q % 2], this->tokens(piece), this->lane);
            if (piece % S::PIECES == S::PIECES - 1)
                this->release(use);
        }
    }

    __device__ void groups(float (&acc)[S::TILES_N][4], uint32_t from, uint32_t to)
    {
        for (uint32_t g = from; g < to; g++) {
            this->weights.turn(g);
            this->scales.turn(this->k.first + g * S::GROUP);
            uint32_t left = this->k.count - g * S::GROUP;
            if (left >= S::GROUP)
                group<true>(acc, g, S::GROUP);
            else
                group<false>(acc, g, left);
        }
    }

    // The sums of the stretch's parts; of all of K if that is the stretch.
    __device__ void run(float (&sums)[S::HELD][S::TILES_N][4])
    {
        uint32_t end = (this->k.count + S::GROUP - 1) / S::GROUP;
        uint32_t part = part_pieces(this->b.a.k) / S::GROUP;
        if constexpr (S::WAYS == 1) {
            groups(sums[0], 0, min(part, end));
            for (uint32_t from = part; from < end; from += part) {
                float more[S::TILES_N][4] = {};
                groups(more, from, min(from + part, end));
#pragma unroll
                for (int i = 0; i < S::TILES_N * 4; i++)
                    sums[0][i / 4][i % 4] += more[i / 4][i % 4];
            }
        } else {
#pragma unroll
            for (uint32_t i = 0; i < S::HELD; i++)
                groups(sums[i], i * part, min((i + 1) * part, end));
            this->pass(end * S::GROUP / S::PIECES);
        }
    }
};

// A warp's sums to shared memory, [token][row of the tile].
template <class S>
__device__ inline void stage_strip(const float (&acc)[S::TILES_N][4], float *out, uint32_t lane)
{
    uint32_t row = threadIdx.x / 32 % S::STRIPS * packed::ROWS + lane / 4;
#pragma unroll
    for (int j = 0; j < S::TILES_N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t token = j * 8 + lane % 4 * 2 + (e & 1);
            if (token < S::COLS)
                out[token * S::PITCH + row + (e & 2 ? 8 : 0)] = acc[j][e];
        }
}

// Staged sums, [part][token][row], to the first one's: added in order and scaled.
template <class S>
__device__ inline void fold_parts(float *staged, uint32_t parts, float scale, uint32_t thread)
{
    static_assert(S::COMPUTE % S::ROWS == 0, "a thread has one row");
    constexpr uint32_t PART = S::COLS * S::PITCH;
    for (uint32_t t = thread / S::ROWS; t < S::COLS; t += S::COMPUTE / S::ROWS) {
        float *at = staged + t * S::PITCH + thread % S::ROWS, sum = *at;
        for (uint32_t i = 1; i < parts; i++)
            sum += at[i * PART];
        *at = sum * scale;
    }
}

// What the sums of one of a block's rows are multiplied by.
template <class S> __device__ inline float row_scale(const block<S> &b, uint32_t row)
{
    strip s(b, row / packed::ROWS);
    uint32_t output = s.number * packed::ROWS + row % packed::ROWS;
    return S::format::row_scale(*s.part, min(output, s.part->n - 1));
}

template <class S, class W>
__device__ inline void compute_packed(const block<S> &b, const typename S::pipe &p, float *staged)
{
    float sums[S::HELD][S::TILES_N][4] = {};
    W walk(b, p);
    walk.weights.begin(); // weights are nobody's output
    float scale = row_scale(b, threadIdx.x % S::ROWS);
    device::wait_for_predecessor();
    device::let_successor_start();
    walk.run(sums);
    device::sync_some<S::COMPUTE>(1); // all is read: the sums may go there
#pragma unroll
    for (int i = 0; i < S::HELD; i++)
        stage_strip<S>(sums[i], staged + (walk.way * S::HELD + i) * S::COLS * S::PITCH, walk.lane);
    device::sync_some<S::COMPUTE>(1);
    fold_parts<S>(staged, S::WAYS == 1 ? 1 : parts_of(b.a.k), scale, threadIdx.x);
    device::sync_some<S::COMPUTE>(1);
    uint32_t tokens = device::row_count(b.a.step, b.a.rows_kind);
    write_result<S::COLS>(b, staged, b.token0, tokens, threadIdx.x);
}

template <class S, class W = warp_walk<S>>
__device__ inline void run_packed(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    block<S> b(args, find_tile(blockIdx.y * gridDim.x + blockIdx.x, gridDim.x, gridDim.y));
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::STRIPS * S::WAYS);
    __syncthreads();
    if (threadIdx.x / 32 == S::COMPUTE / 32 && device::elect() && !b.at.outside)
        copy_tokens<S>(b, p);
    if (threadIdx.x < S::COMPUTE && !b.at.outside) {
        compute_packed<S, W>(
            b, p, reinterpret_cast<float *>(memory + (p.stages - device::shared_address(memory))));
    } else {
        device::wait_for_predecessor();
        device::let_successor_start();
    }
}

} // namespace linear

#define LINEAR_PACKED_SHAPE(point, format, rows)                                                   \
    extern "C" __global__ void __launch_bounds__(linear::packed_r##rows<format>::THREADS,          \
                                                 linear::packed_r##rows<format>::BLOCKS)           \
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
