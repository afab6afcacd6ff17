/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tiles of keys and values on their way from the paged cache to shared memory. One warp has the
 * copy engine bring them: a cache is a matrix [blocks * kv heads * block_tokens, head_dim], a tile
 * of TILE tokens is boxes of 16 tokens and 64 elements, which the lanes find through the block
 * table ahead of time. Whoever works on tiles only waits for barriers (pipe.cuh).
 *
 * A tile in shared memory is panels of 64 elements of the head, each TILE rows of 128 bytes whose
 * 16-byte pieces are swizzled: piece p of row r stands at p ^ (r & 7). The warpgroup instruction
 * reads it as it is.
 *
 * Nothing is brought for sixteen tokens that no row sees: a box outside of the matrix is zeros. Of
 * those that some row sees, the others may be anything in memory. Of keys that does not matter,
 * their scores are masked; values are multiplied, so the filling warp writes zeros over them before
 * it lets the tile go.
 */
#ifndef MTR_GB10_ATTENTION_PIPE_CUH
#define MTR_GB10_ATTENTION_PIPE_CUH

#include "kernels/gb10/common/attention.cuh"
#include "kernels/gb10/common/pipe.cuh"

namespace attention
{

constexpr uint32_t BOX_TOKENS = 16, BOX_COLS = MTR_TENSOR_MAP_COLS, BOX_BYTES = 2048;
constexpr uint32_t BOXES = TILE / BOX_TOKENS, PANEL_BYTES = TILE * 2 * BOX_COLS;
constexpr uint32_t OUTSIDE = 0x7fffff00; /* a row that no matrix has */

static_assert(BOX_TOKENS == MTR_ATTENTION_BOX_TOKENS, "as the launcher tells the copy engine");

/* The tiles of one history. By one warp. */
template <class S, class P> struct feeder {
    static constexpr uint32_t PANELS = S::PITCH / BOX_COLS;
    static constexpr uint32_t SPAN = MTR_WARP * BOX_TOKENS; /* tokens that lanes know of */
    const struct mtr_attention_args &a;
    const P &p;
    uint32_t lane;
    uint32_t phase; /* of the spare barrier */
    uint32_t base;  /* first token of the span */
    uint32_t row, next_row;

    static_assert(S::TILE_BYTES == PANELS * PANEL_BYTES, "a tile");

    __device__ __forceinline__ feeder(const struct mtr_attention_args &args, const P &pipe)
        : a(args), p(pipe), lane(threadIdx.x % MTR_WARP), phase(0)
    {
    }

    /* The matrix row of the lane's sixteen tokens in the span at `first`. */
    __device__ __forceinline__ uint32_t look(const struct history &h, uint32_t first) const
    {
        const uint32_t t = first + lane * BOX_TOKENS;
        if (t + BOX_TOKENS <= h.first || t >= h.end)
            return OUTSIDE;
        const uint32_t block = a.block_tokens == 16 ? t / 16 : t / a.block_tokens;
        return (uint32_t)h.table[block] * (a.kv_heads * a.block_tokens) + h.rows +
               (t - block * a.block_tokens);
    }

    /* Tiles from the one at this token on will be asked for. */
    __device__ __forceinline__ void begin(const struct history &h, uint32_t first)
    {
        base = first;
        row = look(h, first);
        next_row = look(h, first + SPAN);
    }

    /* No tile before this one will be asked for; none SPAN tokens behind it may be yet. */
    __device__ __forceinline__ void reach(const struct history &h, uint32_t tile)
    {
        if (tile < base + SPAN)
            return;
        base += SPAN;
        row = next_row;
        next_row = look(h, base + SPAN);
    }

    /* Zeros over rows [from, to) of the tile in a stage. */
    __device__ __forceinline__ void clear(uint32_t stage, uint32_t from, uint32_t to) const
    {
        for (uint32_t i = lane; i < (to - from) * 8 * PANELS; i += MTR_WARP) {
            uint32_t at = stage + i % PANELS * PANEL_BYTES + from * 128 + i / PANELS * 16;
            asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory");
        }
    }

    /* Waits for the tile and clears what no row sees of sixteen tokens that some row sees. */
    __device__ __forceinline__ void cut(const struct history &h, uint32_t tile, uint32_t use)
    {
        device::barrier_wait(p.spare(), phase);
        phase ^= 1;
        if (tile < h.first)
            clear(p.stage(use), (h.first - tile) & ~(BOX_TOKENS - 1), h.first - tile);
        if (tile + TILE > h.end)
            clear(p.stage(use), h.end - tile, (h.end - tile + BOX_TOKENS - 1) & ~(BOX_TOKENS - 1));
        device::publish_shared();
        __syncwarp();
        if (lane == 0)
            device::barrier_arrive(p.full(use));
    }

    /* What one lane has, in a register of the whole warp: sums are there, what is shuffled not. */
    __device__ __forceinline__ uint32_t pick(uint32_t v, uint32_t from) const
    {
        return __reduce_add_sync(MTR_ALL, lane == from ? v : 0);
    }

    /* The matrix rows of a tile's boxes. */
    __device__ __forceinline__ void find(uint32_t tile, uint32_t (&rows)[BOXES]) const
    {
#pragma unroll
        for (uint32_t i = 0; i < BOXES; i++)
            rows[i] = pick(row, (tile - base) / BOX_TOKENS + i);
    }

    /* The tile at this token will be asked for: it may come to the second-level cache. */
    __device__ __forceinline__ void announce(uint32_t tile, bool values) const
    {
        const struct mtr_tensor_map *map = values ? &a.v_map : &a.k_map;
        uint32_t rows[BOXES];
        find(tile, rows);
        if (device::elect())
#pragma unroll
            for (uint32_t i = 0; i < BOXES; i++)
                if (rows[i] != OUTSIDE)
#pragma unroll
                    for (uint32_t panel = 0; panel < PANELS; panel++)
                        device::announce_box(map, panel * BOX_COLS, rows[i]);
        __syncwarp();
    }

    /* Has the tile at this token brought to the stage of a use, when ready() returns. One lane asks
     * for all boxes: the instruction takes its numbers from registers of the whole warp, and where
     * the compiler does not know that they are there, lanes take long turns. */
    template <class F>
    __device__ __forceinline__ void fill(const struct history &h, uint32_t tile, bool values,
                                         uint32_t use, F ready)
    {
        const struct mtr_tensor_map *map = values ? &a.v_map : &a.k_map;
        const bool partial = values && (tile < h.first || tile + TILE > h.end);
        const uint32_t barrier = pick(partial ? p.spare() : p.full(use), 0);
        const uint32_t stage = pick(p.stage(use), 0);
        uint32_t rows[BOXES];
        find(tile, rows);
        p.await(use);
        ready();
        if (device::elect()) {
            device::barrier_expect(barrier, S::TILE_BYTES);
#pragma unroll
            for (uint32_t i = 0; i < BOXES; i++)
#pragma unroll
                for (uint32_t panel = 0; panel < PANELS; panel++)
                    device::copy_box(stage + panel * PANEL_BYTES + i * BOX_BYTES, map,
                                     panel * BOX_COLS, rows[i], barrier);
        }
        __syncwarp();
        if (partial)
            cut(h, tile, use);
    }
};

} /* namespace attention */

#endif
