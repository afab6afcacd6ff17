/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention for lanes of several rows on Hopper: what attention_tile.cuh computes, to the bit, on
 * the warpgroup instruction, which sums as mma.sync does and has its registers in the same layout.
 * Two warpgroups have 64 rows of the matrix instruction each; a warp of a third has the tiles
 * brought, keys and values of a tile one after the other.
 *
 *   scores  S = Q K^T   both in shared memory
 *   values  o += P V    P in registers, V as it stands in the cache
 *
 * A warpgroup asks for the values of a tile and the scores of the next one together, and softens
 * these scores when both are done: meanwhile the tensor cores work for the other warpgroup.
 * (Shah et al.: "FlashAttention-3", 2024.)
 */
#ifndef MTR_HOPPER_ATTENTION_WIDE_CUH
#define MTR_HOPPER_ATTENTION_WIDE_CUH

#include "kernels/gb10/common/attention_pipe.cuh"
#include "kernels/gb10/common/attention_tile.cuh"
#include "kernels/hopper/common/wgmma.cuh"

namespace attention
{

constexpr int WIDE_GROUP = 128, WIDE_WORKERS = 2 * WIDE_GROUP, WIDE_THREADS = 3 * WIDE_GROUP;
constexpr int WIDE_SHARED = 198656;

static_assert(WIDE_WORKERS == TILE_THREADS, "warps have the same rows as in attention_tile.cuh");

template <int DIM_> struct wide_shape : tile_shape<DIM_> {
    static constexpr int PANELS = DIM_ / BOX_COLS;
    static constexpr int GROUP_QUERY_BYTES = PANELS * PANEL_BYTES; /* of a warpgroup */
    static constexpr int ROOM = WIDE_SHARED - MTR_PIPE_BYTES - 2 * GROUP_QUERY_BYTES;
    using pipe = ::pipe<ROOM / tile_shape<DIM_>::TILE_BYTES, tile_shape<DIM_>::TILE_BYTES>;
};

template <class S> struct wide_worker : tile_worker<S> {
    using base = tile_worker<S>;
    const typename S::pipe &p;
    uint32_t queries; /* shared address of the warpgroup's */
    uint32_t use;
    uint32_t weights[TILE / 16][4]; /* P, as the matrix instruction takes it */
    float s[TILE / 8][4];

    __device__ __forceinline__ wide_worker(const struct mtr_attention_args &args,
                                           const struct pass &pass, const struct history &history,
                                           const typename S::pipe &pipe, uint32_t at,
                                           uint32_t first_use)
        : base(args, pass, history, 0), p(pipe), queries(at), use(first_use)
    {
    }

    /* The warpgroup's queries, zeros behind the last. */
    __device__ __forceinline__ void copy_queries() const
    {
        const uint32_t count = base::run.rows * base::run.group;
        const uint16_t *q = (const uint16_t *)base::a.q;
        for (uint32_t i = threadIdx.x % WIDE_GROUP; i < 64 * S::PANELS * 8; i += WIDE_GROUP) {
            const uint32_t row = i / (S::PANELS * 8), piece = i % (S::PANELS * 8);
            const uint32_t of = threadIdx.x / WIDE_GROUP * 64 + row;
            const bool inside = of < count && 8 * piece < base::a.head_dim;
            const uint64_t head = (uint64_t)(base::run.row + of / base::run.group) * base::a.heads +
                                  base::run.kv_head * base::run.group + of % base::run.group;
            device::copy16(queries + piece / 8 * PANEL_BYTES + row * 128 +
                               ((piece % 8 ^ (row & 7)) << 4),
                           inside ? q + head * base::a.head_dim + 8 * piece : q, inside ? 16 : 0);
        }
        device::commit_copies();
        device::wait_copies<0>();
        device::publish_shared();
        sync_group();
    }

    __device__ __forceinline__ void sync_group() const
    {
        if (threadIdx.x < WIDE_GROUP)
            device::sync_some<WIDE_GROUP>(1);
        else
            device::sync_some<WIDE_GROUP>(2);
    }

    /* Asks for the scores of the keys in a stage. */
    __device__ __forceinline__ void ask_scores(uint32_t keys)
    {
#pragma unroll
        for (int i = 0; i < S::PANELS * 4; i++) {
            const uint32_t at = i / 4 * PANEL_BYTES + i % 4 * 32;
            hopper::add_scores(s, hopper::operand(queries + at), hopper::operand(keys + at),
                               i == 0);
        }
        hopper::commit_products();
    }

    __device__ __forceinline__ void ask_values(uint32_t values)
    {
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i++)
            hopper::add_weighted(base::o, weights[i],
                                 hopper::operand_rows<PANEL_BYTES>(values + i * 16 * 128));
        hopper::commit_products();
    }

    __device__ __forceinline__ void release(uint32_t of) const
    {
        if (base::lane == 0)
            p.release(of);
    }

    __device__ __forceinline__ void pack_weights()
    {
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                weights[i][e] = mtr_bf16_pair(s[2 * i + e / 2][e % 2 * 2],
                                              s[2 * i + e / 2][e % 2 * 2 + 1]);
    }

    /* A tile whose scores have been asked for; at the end its values and, if there is a next one
     * in the warpgroup's history, the scores of that. */
    template <bool MORE> __device__ __forceinline__ void step(uint32_t tile, uint32_t lowest)
    {
        hopper::wait_products<0>();
        hopper::hold(s);
        hopper::hold(base::o);
        release(use);
        if (tile > lowest) {
            release(use - 1);
            if (tile % TILES == 0) {
                base::end_stretch();
                base::begin_stretch();
            }
        }
        base::mask(tile * TILE, s);
        base::soften_tile(s);
        pack_weights();
        p.wait(use + 1);
        if (MORE)
            p.wait(use + 2);
        hopper::hold(s);
        hopper::hold(base::o);
        hopper::begin_products();
        ask_values(p.stage(use + 1));
        if (MORE)
            ask_scores(p.stage(use + 2));
        use += 2;
    }

    /* Tiles [from, to) of others. */
    __device__ __forceinline__ void pass_over(uint32_t from, uint32_t to)
    {
        for (uint32_t i = from; i < to; i++)
            for (int kv = 0; kv < 2; kv++, use++) {
                p.wait(use);
                __syncwarp();
                release(use);
            }
    }

    /* Tiles [lowest, highest], those that rows of the warpgroup see. */
    __device__ __forceinline__ void attend(uint32_t lowest, uint32_t highest)
    {
#pragma unroll
        for (int n = 0; n < (int)TILE / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][e] = 0.0f;
        base::begin_stretch();
        p.wait(use);
        hopper::hold(s);
        hopper::hold(base::o);
        hopper::begin_products();
        ask_scores(p.stage(use));
        for (uint32_t tile = lowest; tile < highest; tile++)
            step<true>(tile, lowest);
        step<false>(highest, lowest);
        hopper::wait_products<0>();
        hopper::hold(base::o);
        release(use - 1);
        base::end_stretch();
    }
};

/* Returns the next use of the pipe. */
template <class S>
MTR_DEVICE uint32_t attend_wide(const struct mtr_attention_args &a, const struct pass &run,
                                const typename S::pipe &p, uint32_t queries, uint32_t use)
{
    const struct history h = history_of(a, run);
    const uint32_t first = h.first / TILE, end = (h.end - 1) / TILE + 1;
    const uint32_t row = __shfl_sync(MTR_ALL, threadIdx.x / WIDE_GROUP * 64, 0);
    struct wide_worker<S> w(a, run, h, p, queries, use);
    if (row >= run.rows * run.group) {
        w.pass_over(first, end);
        return w.use;
    }
    /* In words that the compiler knows to be the same in all threads. */
    const uint32_t lowest = __shfl_sync(MTR_ALL, first_seen(a, w.position(row)) / TILE, 0);
    const uint32_t highest = __shfl_sync(MTR_ALL, w.position(row + 63) / TILE, 0);
    w.sync_group(); /* the queries of the pass before are read */
    w.copy_queries();
    w.pass_over(first, lowest);
    w.attend(lowest, highest);
    w.pass_over(highest + 1, end);
    if (!w.idle)
        w.store();
    return w.use;
}

template <class S>
MTR_DEVICE void work_wide(const struct mtr_attention_args &a, const typename S::pipe &p)
{
    const uint32_t ring = p.stages + S::ROOM / S::TILE_BYTES * S::TILE_BYTES;
    const uint32_t queries = ring + threadIdx.x / WIDE_GROUP * S::GROUP_QUERY_BYTES;
    uint32_t begin, end, use = 0;
    struct pass run;
    rows_of_block(a, TILE_ROWS, &begin, &end);
    while (next_pass(a, &begin, end, TILE_ROWS, &run))
        use = attend_wide<S>(a, run, p, queries, use);
}

/* By one warp. */
template <class S>
MTR_DEVICE void feed_wide(const struct mtr_attention_args &a, const typename S::pipe &p)
{
    struct feeder<S, typename S::pipe> f(a, p);
    uint32_t begin, end, use = 0;
    struct pass run;
    rows_of_block(a, TILE_ROWS, &begin, &end);
    while (next_pass(a, &begin, end, TILE_ROWS, &run)) {
        const struct history h = history_of(a, run);
        const uint32_t first = h.first / TILE * TILE;
        f.begin(h, first);
        for (uint32_t tile = first; tile < h.end; tile += TILE) {
            f.reach(h, tile);
            f.fill(h, tile, false, use++, [] {});
            f.fill(h, tile, true, use++, [] {});
        }
    }
}

} /* namespace attention */

#endif
