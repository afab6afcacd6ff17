/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention for lanes of several rows (prefill, verification of drafts). A block has WARPS warps;
 * each has 16 rows of the matrix instruction and up to 128 elements of the head, so that the values
 * of a stretch and the running ones both stay in registers. Longer heads are shared by two warps,
 * which both compute the scores.
 *
 * Tiles of keys and values pass through a ring in shared memory, keys and values of a tile one
 * after the other, STAGES - 1 of them under way while one is worked on.
 */
#ifndef MTR_GB10_ATTENTION_TILE_CUH
#define MTR_GB10_ATTENTION_TILE_CUH

#include "kernels/gb10/common/attention.cuh"

namespace attention
{

constexpr int TILE_WARPS = 8, TILE_THREADS = TILE_WARPS * MTR_WARP, TILE_ROWS = 16 * TILE_WARPS;
constexpr int TILE_SHARED = 98304;

template <int DIM_> struct tile_shape : shape<DIM_> {
    static constexpr int COLS = DIM_ > 128 ? 128 : DIM_; /* of a warp */
    static constexpr int SHARE = DIM_ / COLS;            /* warps of the same rows */
    static constexpr int ROWS = TILE_ROWS / SHARE;       /* at once */
    static constexpr int QUERY_BYTES = ROWS * shape<DIM_>::ROW_BYTES;
    static constexpr int ROOM = (TILE_SHARED - QUERY_BYTES) / shape<DIM_>::TILE_BYTES;
    static constexpr int STAGES = ROOM < 6 ? ROOM : 6;
};

/* Rows of one lane, in one pass. */
struct pass {
    uint32_t row, rows, lane, kv_head, group; /* group: query heads of the kv head */
};

/* The history that its rows see. */
MTR_DEVICE struct history history_of(const struct mtr_attention_args &a, const struct pass &run)
{
    struct history h = history_of(a, run.kv_head, run.lane);
    h.first = first_seen(a, (uint32_t)a.step->positions[run.row]);
    h.end = (uint32_t)a.step->positions[run.row + run.rows - 1] + 1;
    return h;
}

/* The rows that a block has: as many as make `tile` matrix rows. The longest histories come first,
 * since they end last. */
MTR_DEVICE void rows_of_block(const struct mtr_attention_args &a, uint32_t tile, uint32_t *begin,
                              uint32_t *end)
{
    const uint32_t rows = tile / (a.heads / a.kv_heads);
    *begin = (gridDim.y - 1 - blockIdx.y) * rows;
    *end = min(*begin + rows, a.step->tokens);
}

/* The next pass over rows [*row, end), of at most `most` matrix rows: all of one lane. Lanes of one
 * row are not ours. False: there is none. */
MTR_DEVICE bool next_pass(const struct mtr_attention_args &a, uint32_t *row, uint32_t end,
                          uint32_t most, struct pass *run)
{
    const struct mtr_step_view *step = a.step;
    const uint32_t group = a.heads / a.kv_heads;
    while (*row < end) {
        const uint32_t lane = (uint32_t)step->token_lanes[*row];
        const uint32_t start = (uint32_t)step->lane_rows[lane];
        const uint32_t stop = (uint32_t)step->lane_rows[lane + 1];
        *run = {*row, min(min(stop, end) - *row, most / group), lane, blockIdx.x, group};
        *row += run->rows;
        if (stop - start > 1)
            return true;
    }
    return false;
}

template <class S> struct tile_worker {
    const struct mtr_attention_args &a;
    const struct pass &run;
    const struct history &h;
    uint32_t shared, lane, tile_row, column; /* of the warp: first matrix row and element */
    uint32_t positions[2];                   /* of the thread's rows */
    uint32_t least, most;                    /* position of the warp's rows */
    bool idle;                               /* the warp has no rows */
    float scale;
    float o[S::COLS / 8][4], m[2], l[2];
    float O[S::COLS / 8][4], M[2], L[2];

    __device__ __forceinline__ tile_worker(const struct mtr_attention_args &args,
                                           const struct pass &pass, const struct history &history,
                                           uint32_t base)
        : a(args), run(pass), h(history), shared(base), lane(threadIdx.x % MTR_WARP)
    {
        uint32_t warp = __shfl_sync(MTR_ALL, threadIdx.x / MTR_WARP, 0),
                 count = run.rows * run.group;
        tile_row = warp / S::SHARE * 16;
        column = warp % S::SHARE * S::COLS;
        idle = tile_row >= count;
        scale = exponent_scale(a);
        least = position(tile_row);
        most = position(tile_row + 15);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            positions[i] = position(tile_row + lane / 4 + 8 * i);
            M[i] = -CUDART_INF_F;
            L[i] = 0.0f;
        }
#pragma unroll
        for (int n = 0; n < S::COLS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                O[n][e] = 0.0f;
    }

    /* Of a matrix row; those beyond the last are as the last. */
    __device__ __forceinline__ uint32_t position(uint32_t i) const
    {
        uint32_t row = i / run.group;
        return (uint32_t)a.step->positions[run.row + (row < run.rows ? row : run.rows - 1)];
    }

    __device__ __forceinline__ uint32_t ring(uint32_t slot) const
    {
        return shared + S::QUERY_BYTES + slot * S::TILE_BYTES;
    }

    /* The queries of all matrix rows, zeros behind the last. */
    __device__ __forceinline__ void copy_queries() const
    {
        const uint32_t count = run.rows * run.group;
        const uint16_t *q = (const uint16_t *)a.q;
        for (uint32_t i = threadIdx.x; i < S::ROWS * S::PIECES; i += TILE_THREADS) {
            uint32_t row = i / S::PIECES, piece = i % S::PIECES;
            bool inside = row < count && 8 * piece < a.head_dim;
            uint64_t head = (uint64_t)(run.row + row / run.group) * a.heads +
                            run.kv_head * run.group + row % run.group;
            device::copy16(shared + lanes<S>::at(row, piece),
                           inside ? q + head * a.head_dim + 8 * piece : q, inside ? 16 : 0);
        }
    }

    __device__ __forceinline__ void begin_stretch()
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            m[i] = -CUDART_INF_F;
            l[i] = 0.0f;
        }
#pragma unroll
        for (int n = 0; n < S::COLS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = 0.0f;
    }

    /* Whether any of the warp's rows sees any of the tile. */
    __device__ __forceinline__ bool sees(uint32_t tile) const
    {
        return !idle && tile <= most && tile + TILE > first_seen(a, least);
    }

    __device__ __forceinline__ void score(uint32_t tile, uint32_t keys, float (&s)[TILE / 8][4])
    {
        const uint32_t qa = shared + tile_row * S::ROW_BYTES + lanes<S>::a(lane);
        const uint32_t ka = keys + lanes<S>::keys(lane);
#pragma unroll
        for (int n = 0; n < (int)TILE / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][e] = 0.0f;
#pragma unroll
        for (int i = 0; i < S::STEPS; i++) {
            uint32_t q[4];
            device::load_matrix4(q, qa ^ i << 5);
#pragma unroll
            for (int n = 0; n < (int)TILE / 16; n++) {
                uint32_t k[2][2];
                device::load_matrix4(k[0][0], k[0][1], k[1][0], k[1][1],
                                     (ka ^ i << 5) + n * 16 * S::ROW_BYTES);
                device::mma(s[2 * n], q, k[0]);
                device::mma(s[2 * n + 1], q, k[1]);
            }
        }
        mask(tile, s);
    }

    __device__ __forceinline__ void mask(uint32_t tile, float (&s)[TILE / 8][4]) const
    {
        bool whole = tile + TILE - 1 <= least && tile >= first_seen(a, most);
        shape_scores(a, s, !whole, tile + lane % 4 * 2, positions);
    }

    /* Scores to weights, and what was summed so far to the new maximum. */
    __device__ __forceinline__ void soften_tile(float (&s)[TILE / 8][4])
    {
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            factor[i] = raise(&m[i], quad_max(largest(s, i)), scale);
            float sums[4], top = subtrahend(m[i]);
#pragma unroll
            for (int n = 0; n < 4; n++)
                sums[n] = weigh16(s[2 * n], s[2 * n + 1], i, scale, top);
            l[i] = add_weights(l[i], factor[i], sums);
        }
        if (!__any_sync(MTR_ALL, factor[0] != 1.0f || factor[1] != 1.0f))
            return;
#pragma unroll
        for (int n = 0; n < S::COLS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = __fmul_rn(o[n][e], factor[e >> 1]);
    }

    __device__ __forceinline__ void weigh(uint32_t values, const float (&p)[TILE / 8][4])
    {
        const uint32_t va = (values + lanes<S>::values(lane)) ^ column * 2;
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i++) {
            const uint32_t w[4] = {mtr_bf16_pair(p[2 * i][0], p[2 * i][1]),
                                   mtr_bf16_pair(p[2 * i][2], p[2 * i][3]),
                                   mtr_bf16_pair(p[2 * i + 1][0], p[2 * i + 1][1]),
                                   mtr_bf16_pair(p[2 * i + 1][2], p[2 * i + 1][3])};
#pragma unroll
            for (int n = 0; n < S::COLS / 16; n++) {
                uint32_t v[2][2];
                device::load_matrix4_transposed(v[0][0], v[0][1], v[1][0], v[1][1],
                                                (va ^ n << 5) + i * 16 * S::ROW_BYTES);
                device::mma(o[2 * n], w, v[0]);
                device::mma(o[2 * n + 1], w, v[1]);
            }
        }
    }

    __device__ __forceinline__ void end_stretch()
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            struct factors f = fold(&M[i], &L[i], m[i], quad_sum(l[i]));
#pragma unroll
            for (int n = 0; n < S::COLS / 8; n++) {
                O[n][2 * i] = fold_value(O[n][2 * i], o[n][2 * i], f);
                O[n][2 * i + 1] = fold_value(O[n][2 * i + 1], o[n][2 * i + 1], f);
            }
        }
    }

    __device__ __forceinline__ void store() const
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t row = tile_row + lane / 4 + 8 * i;
            if (row >= run.rows * run.group)
                continue;
            uint32_t head = run.kv_head * run.group + row % run.group;
            float f = final_factor(a, head, M[i], L[i]);
            uint64_t at = ((uint64_t)(run.row + row / run.group) * a.heads + head) * a.head_dim;
            uint16_t *out = (uint16_t *)a.out + at + column + lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < S::COLS / 8; n++)
                if (column + 8 * n < a.head_dim)
                    *(uint32_t *)(out + 8 * n) =
                        mtr_bf16_pair(__fmul_rn(O[n][2 * i], f), __fmul_rn(O[n][2 * i + 1], f));
        }
    }
};

/* Starts the copies of piece i of the ring's sequence: keys and values of tile after tile. */
template <class S>
MTR_DEVICE void feed(const struct mtr_attention_args &a, const struct history &h,
                     copier<S, TILE_THREADS> &c, uint32_t i, uint32_t count, uint32_t first,
                     uint32_t ring)
{
    if (i < count) {
        c.copy(a, h, i & 1 ? a.v_cache : a.k_cache, ring + i % S::STAGES * S::TILE_BYTES);
        c.look(a, h, (first + (i + 1) / 2) * TILE);
    }
    device::commit_copies();
}

template <class S>
MTR_DEVICE void attend_pass(const struct mtr_attention_args &a, const struct pass &run,
                            uint32_t shared)
{
    const struct history h = history_of(a, run);
    const uint32_t first = h.first / TILE, last = (h.end - 1) / TILE;
    const uint32_t count = 2 * (last - first + 1), ring = shared + S::QUERY_BYTES;
    struct tile_worker<S> w(a, run, h, shared);
    struct copier<S, TILE_THREADS> c;
    c.look(a, h, first * TILE);
    w.copy_queries();
    for (uint32_t i = 0; i + 1 < S::STAGES; i++)
        feed<S>(a, h, c, i, count, first, ring);
    w.begin_stretch();
    uint32_t i = 0;
    for (uint32_t tile = first; tile <= last; tile++) {
        float s[TILE / 8][4];
        const bool seen = w.sees(tile * TILE);
        device::wait_copies<S::STAGES - 2>();
        device::sync_some<TILE_THREADS>(1);
        feed<S>(a, h, c, i + S::STAGES - 1, count, first, ring);
        if (seen) {
            w.score(tile * TILE, w.ring(i % S::STAGES), s);
            w.soften_tile(s);
        }
        i++;
        device::wait_copies<S::STAGES - 2>();
        device::sync_some<TILE_THREADS>(1);
        feed<S>(a, h, c, i + S::STAGES - 1, count, first, ring);
        if (seen)
            w.weigh(w.ring(i % S::STAGES), s);
        i++;
        if (tile % TILES == TILES - 1 || tile == last) {
            w.end_stretch();
            w.begin_stretch();
        }
    }
    if (!w.idle)
        w.store();
    device::sync_some<TILE_THREADS>(1); /* the next pass writes to shared memory */
}

/* Rows [begin, end) of the step, by the first TILE_THREADS of the block. */
template <class S>
MTR_DEVICE void attend_rows(const struct mtr_attention_args &a, uint32_t begin, uint32_t end,
                            uint32_t shared)
{
    struct pass run;
    while (next_pass(a, &begin, end, S::ROWS, &run))
        attend_pass<S>(a, run, shared);
}

} /* namespace attention */

#endif
