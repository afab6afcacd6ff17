/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention for lanes of one row (decode). The query heads of a kv head are the rows of one m16
 * tile (of several, one after the other, where there are more than 16). Four warps work on a
 * stretch together: each has the scores of sixteen tokens of each tile, so that all scores of the
 * stretch are there at once; maxima, sums and weights meet in shared memory; then each has a
 * quarter of the head, for which it adds the stretch's values. A fifth warp has the tiles brought,
 * keys then values of a stretch, and runs ahead as far as the ring has room (attention_pipe.cuh).
 *
 * The stretches of all single rows and their kv heads stand in one line, of which every block has
 * an equal part: however different the histories are, blocks end together. What a block has of one
 * row and kv head is a run. A run that is not all of it leaves its stretches in scratch, and the
 * last block to finish folds them in order.
 */
#ifndef MTR_GB10_ATTENTION_SINGLE_CUH
#define MTR_GB10_ATTENTION_SINGLE_CUH

#include "kernels/gb10/common/attention_fold.cuh"
#include "kernels/gb10/common/attention_pipe.cuh"

namespace attention
{

template <int DIM_> struct single_shape : shape<DIM_> {
    static constexpr int COLUMNS = DIM_ / 8 / SINGLE_WARPS; /* n8 tiles of a warp */
    using pipe = ::pipe<RING_BYTES / shape<DIM_>::TILE_BYTES, shape<DIM_>::TILE_BYTES>;
};

/* ---- who has what ---- */

/* Stretches of a lane; none where it has several rows. */
MTR_DEVICE uint32_t stretches_of(const struct mtr_attention_args &a, uint32_t lane)
{
    const struct mtr_step_view *step = a.step;
    if (lane >= step->lanes)
        return 0;
    const uint32_t position = (uint32_t)step->lane_starts[lane];
    const bool one = step->lane_rows[lane + 1] - step->lane_rows[lane] == 1;
    return one ? position / STRETCH - first_seen(a, position) / STRETCH + 1 : 0;
}

/* What is left of a block's part of the line. */
struct share {
    uint32_t lane, kv_head;
    uint32_t at;   /* stretch of the two's */
    uint32_t left; /* stretches */
};

MTR_DEVICE uint32_t scan_lanes(uint32_t v)
{
#pragma unroll
    for (int i = 1; i < MTR_WARP; i *= 2) {
        uint32_t before = __shfl_up_sync(MTR_ALL, v, i);
        v += threadIdx.x % MTR_WARP >= (uint32_t)i ? before : 0;
    }
    return v;
}

/* By a whole warp. */
MTR_DEVICE struct share share_of(const struct mtr_attention_args &a)
{
    const uint32_t lanes = a.step->lanes, self = threadIdx.x % MTR_WARP;
    const uint32_t mine = stretches_of(a, self);
    uint32_t total = mine;
    for (uint32_t i = MTR_WARP + self; i < lanes; i += MTR_WARP)
        total += stretches_of(a, i);
    total = __reduce_add_sync(MTR_ALL, total) * a.kv_heads;
    uint32_t begin = (uint32_t)((uint64_t)total * blockIdx.x / gridDim.x);
    const uint32_t end = (uint32_t)((uint64_t)total * (blockIdx.x + 1) / gridDim.x);
    struct share s = {0, 0, 0, end - begin};
    for (uint32_t base = 0; s.left && base < lanes; base += MTR_WARP) {
        const uint32_t count = base ? stretches_of(a, base + self) : mine;
        const uint32_t upto = scan_lanes(count * a.kv_heads);
        const uint32_t here = __ballot_sync(MTR_ALL, begin < upto);
        if (here) {
            const int owner = __ffs((int)here) - 1;
            const uint32_t own = __shfl_sync(MTR_ALL, count, owner);
            const uint32_t inside = begin - __shfl_sync(MTR_ALL, upto, owner) + own * a.kv_heads;
            return {base + (uint32_t)owner, inside / own, inside % own, s.left};
        }
        begin -= __shfl_sync(MTR_ALL, upto, MTR_WARP - 1);
    }
    return s;
}

/* The next run; false: none. */
MTR_DEVICE bool next_run(const struct mtr_attention_args &a, struct share *s, struct single *w)
{
    if (!s->left)
        return false;
    while (!(w->count = stretches_of(a, s->lane)))
        s->lane++;
    w->lane = s->lane;
    w->row = (uint32_t)a.step->lane_rows[s->lane];
    w->position = (uint32_t)a.step->lane_starts[s->lane];
    w->kv_head = s->kv_head;
    w->group = a.heads / a.kv_heads;
    w->first = first_seen(a, w->position) / STRETCH;
    const uint32_t run = min(w->count - s->at, s->left);
    w->begin = w->first + s->at;
    w->end = w->begin + run;
    w->alone = run == w->count;
    s->left -= run;
    s->at = 0;
    if (++s->kv_head == a.kv_heads) {
        s->kv_head = 0;
        s->lane++;
    }
    return true;
}

/* Whether the row sees any of a tile. */
MTR_DEVICE bool sees(const struct mtr_attention_args &a, const struct single &w, uint32_t tile)
{
    return tile <= w.position && tile + TILE > first_seen(a, w.position);
}

/* ---- the work on a stretch ---- */

template <class S> struct single_worker {
    const struct mtr_attention_args &a;
    const struct single &w;
    uint8_t *memory; /* where warps meet: weights, maxima, sums */
    uint32_t shared, lane, warp;
    uint32_t q[S::STEPS][4];
    float s[TILES][2][4], scale;
    float factor[TILES][2]; /* what o is multiplied with before each tile */
    float o[S::COLUMNS][4], m[2], l[2];
    float O[S::COLUMNS][4], M[2], L[2];

    __device__ __forceinline__ single_worker(const struct mtr_attention_args &args,
                                             const struct single &single, uint8_t *base)
        : a(args), w(single), memory(base), shared(device::shared_address(base)),
          lane(threadIdx.x % MTR_WARP), warp(threadIdx.x / MTR_WARP)
    {
        scale = exponent_scale(a);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            M[i] = -CUDART_INF_F;
            L[i] = 0.0f;
        }
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                O[n][e] = 0.0f;
#pragma unroll
        for (int i = 0; i < S::STEPS; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                q[i][e] = query(lane / 4 + e % 2 * 8, 16 * i + e / 2 * 8 + lane % 4 * 2);
    }

    __device__ __forceinline__ bool has_row(uint32_t row) const
    {
        return w.tile + row < w.group;
    }

    __device__ __forceinline__ uint32_t head(uint32_t row) const
    {
        return w.kv_head * w.group + w.tile + row;
    }

    /* Two elements of a matrix row of the queries; 0 outside. */
    __device__ __forceinline__ uint32_t query(uint32_t row, uint32_t column) const
    {
        const uint16_t *from =
            (const uint16_t *)a.q + ((uint64_t)w.row * a.heads + head(row)) * a.head_dim + column;
        return has_row(row) && column < a.head_dim ? *(const uint32_t *)from : 0;
    }

    __device__ __forceinline__ float *maximum(uint32_t tile, uint32_t of_warp, uint32_t row) const
    {
        float *maxima = (float *)(memory + WEIGHT_BYTES);
        return maxima + (tile * SINGLE_WARPS + of_warp) * 16 + row;
    }

    /* The part that each of the four threads of a row has. */
    __device__ __forceinline__ float *sum(uint32_t tile, uint32_t of_warp, uint32_t row) const
    {
        float *sums = (float *)(memory + WEIGHT_BYTES + MAXIMUM_BYTES);
        return sums + ((tile * SINGLE_WARPS + of_warp) * 16 + row) * 4 + lane % 4;
    }

    /* Sums start anew; tiles that are not seen keep these scores. */
    __device__ __forceinline__ void begin_stretch()
    {
#pragma unroll
        for (int t = 0; t < (int)TILES; t++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    s[t][n][e] = -CUDART_INF_F;
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = 0.0f;
    }

    /* Scores of sixteen tokens of a tile. */
    __device__ __forceinline__ void score(float (&out)[2][4], uint32_t tile, uint32_t keys)
    {
        const uint32_t row = warp * 16 + (lane & 7) + (lane >> 4) * 8;
        const uint32_t ka = keys + row * 128 + (((lane >> 3 & 1) ^ (row & 7)) << 4);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                out[n][e] = 0.0f;
#pragma unroll
        for (int i = 0; i < S::STEPS; i++) {
            uint32_t k[2][2];
            device::load_matrix4(k[0][0], k[0][1], k[1][0], k[1][1],
                                 (ka ^ i % 4 << 5) + i / 4 * PANEL_BYTES);
            device::mma(out[0], q[i], k[0]);
            device::mma(out[1], q[i], k[1]);
        }
        const uint32_t positions[2] = {w.position, w.position};
        shape_scores(a, out, true, tile + warp * 16 + lane % 4 * 2, positions);
    }

    /* All scores of the stretch to weights, in shared memory; m, factors and l. */
    __device__ __forceinline__ void soften_stretch()
    {
#pragma unroll
        for (int t = 0; t < (int)TILES; t++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float top = quad_max(largest(s[t], i));
                if (lane % 4 == 0)
                    *maximum(t, warp, lane / 4 + 8 * i) = top;
            }
        device::sync_some<SINGLE_WORKERS>(1);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t row = lane / 4 + 8 * i;
            m[i] = -CUDART_INF_F;
#pragma unroll
            for (int t = 0; t < (int)TILES; t++) {
                float top = *maximum(t, 0, row);
                for (int of = 1; of < SINGLE_WARPS; of++)
                    top = fmaxf(top, *maximum(t, of, row));
                factor[t][i] = raise(&m[i], top, scale);
                *sum(t, warp, row) = weigh16(s[t][0], s[t][1], i, scale, subtrahend(m[i]));
                store_weights(t, i);
            }
        }
        device::sync_some<SINGLE_WORKERS>(1);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            l[i] = 0.0f;
#pragma unroll
            for (int t = 0; t < (int)TILES; t++) {
                const uint32_t row = lane / 4 + 8 * i;
                const float sums[4] = {*sum(t, 0, row), *sum(t, 1, row), *sum(t, 2, row),
                                       *sum(t, 3, row)};
                l[i] = add_weights(l[i], factor[t][i], sums);
            }
            l[i] = quad_sum(l[i]);
        }
    }

    __device__ __forceinline__ void store_weights(int t, int i) const
    {
        uint8_t *row = memory + (lane / 4 + 8 * i) * WEIGHT_PITCH;
        uint32_t *to = (uint32_t *)(row + 2 * (t * TILE + warp * 16) + lane % 4 * 4);
        to[0] = mtr_bf16_pair(s[t][0][2 * i], s[t][0][2 * i + 1]);
        to[4] = mtr_bf16_pair(s[t][1][2 * i], s[t][1][2 * i + 1]);
    }

    /* Adds the values of tile t of the stretch, for the warp's quarter of the head. */
    __device__ __forceinline__ void weigh(int t, uint32_t values)
    {
        const uint32_t pa = shared + (lane & 15) * WEIGHT_PITCH + (lane >> 4) * 16;
        const uint32_t va = values + lane * 128 + ((lane & 7) << 4);
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = __fmul_rn(o[n][e], factor[t][e >> 1]);
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i += 2) {
            uint32_t p[2][4];
            device::load_matrix4(p[0], pa + 2 * (t * TILE + 16 * i));
            device::load_matrix4(p[1], pa + 2 * (t * TILE + 16 * i + 16));
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++) {
                const uint32_t piece = warp * S::COLUMNS + n;
                uint32_t v[2][2];
                device::load_matrix4_transposed(
                    v[0][0], v[0][1], v[1][0], v[1][1],
                    (va ^ piece % 8 << 4) + piece / 8 * PANEL_BYTES + i * 16 * 128);
                device::mma(o[n], p[0], v[0]);
                device::mma(o[n], p[1], v[1]);
            }
        }
    }

    __device__ __forceinline__ uint32_t element(int n) const
    {
        return (warp * S::COLUMNS + n) * 8 + lane % 4 * 2;
    }

    /* Folds the stretch, or leaves it for whoever is last. */
    __device__ __forceinline__ void end_stretch(uint32_t stretch)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t row = lane / 4 + 8 * i;
            if (w.alone) {
                struct factors f = fold(&M[i], &L[i], m[i], l[i]);
#pragma unroll
                for (int n = 0; n < S::COLUMNS; n++) {
                    O[n][2 * i] = fold_value(O[n][2 * i], o[n][2 * i], f);
                    O[n][2 * i + 1] = fold_value(O[n][2 * i + 1], o[n][2 * i + 1], f);
                }
            } else if (has_row(row)) {
                float *to = scratch_of(a, w, head(row), stretch);
#pragma unroll
                for (int n = 0; n < S::COLUMNS; n++)
                    if (element(n) < a.head_dim)
                        *(float2 *)(to + element(n)) = make_float2(o[n][2 * i], o[n][2 * i + 1]);
                if (warp == 0 && lane % 4 == 0)
                    *(float2 *)(to + a.head_dim) = make_float2(m[i], l[i]);
            }
        }
    }

    __device__ __forceinline__ void store() const
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t row = lane / 4 + 8 * i;
            if (!has_row(row))
                continue;
            float f = final_factor(a, head(row), M[i], L[i]);
            uint16_t *out =
                (uint16_t *)a.out + ((uint64_t)w.row * a.heads + head(row)) * a.head_dim;
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++)
                if (element(n) < a.head_dim)
                    *(uint32_t *)(out + element(n)) =
                        mtr_bf16_pair(__fmul_rn(O[n][2 * i], f), __fmul_rn(O[n][2 * i + 1], f));
        }
    }
};

/* ---- a block ---- */

/* By the fifth warp: the tiles of all runs, in the order in which workers take them. */
template <class S>
MTR_DEVICE void feed_runs(const struct mtr_attention_args &a, const typename S::pipe &p)
{
    struct feeder<S, typename S::pipe> f(a, p);
    struct share share = share_of(a);
    struct single w;
    while (next_run(a, &share, &w)) {
        struct history h = history_of(a, w.kv_head, w.lane);
        h.first = first_seen(a, w.position);
        h.end = w.position + 1;
        for (w.tile = 0; w.tile < w.group; w.tile += 16) {
            f.begin(h, w.begin * STRETCH);
            for (uint32_t stretch = w.begin; stretch < w.end; stretch++) {
                f.reach(h, stretch * STRETCH);
                for (uint32_t i = 0; i < 2 * TILES; i++) {
                    const uint32_t tile = stretch * STRETCH + i % TILES * TILE;
                    if (sees(a, w, tile))
                        f.fill(h, i < TILES ? &a.k_map : &a.v_map, tile, i >= TILES);
                }
            }
        }
    }
}

/* A run's stretches for one m16 tile of query heads; `use` counts tiles. */
template <class S>
MTR_DEVICE void work_run(const struct mtr_attention_args &a, const struct single &w,
                         const typename S::pipe &p, uint8_t *memory, uint32_t &use)
{
    struct single_worker<S> worker(a, w, memory);
    for (uint32_t stretch = w.begin; stretch < w.end; stretch++) {
        worker.begin_stretch();
#pragma unroll
        for (int i = 0; i < 2 * (int)TILES; i++) {
            const uint32_t tile = stretch * STRETCH + i % TILES * TILE;
            if (i == (int)TILES)
                worker.soften_stretch();
            if (!sees(a, w, tile))
                continue;
            p.wait(use);
            if (i < (int)TILES)
                worker.score(worker.s[i % TILES], tile, p.stage(use));
            else
                worker.weigh(i % TILES, p.stage(use));
            __syncwarp();
            if (worker.lane == 0)
                p.release(use);
            use++;
        }
        worker.end_stretch(stretch);
    }
    if (w.alone)
        worker.store();
}

template <class S>
MTR_DEVICE void work_runs(const struct mtr_attention_args &a, const typename S::pipe &p,
                          uint8_t *memory)
{
    struct share share = share_of(a);
    struct single w;
    uint32_t use = 0;
    while (next_run(a, &share, &w)) {
        for (w.tile = 0; w.tile < w.group; w.tile += 16)
            work_run<S>(a, w, p, memory, use);
        if (!w.alone && is_last(a, w, memory))
            fold_scratch(a, w, memory);
    }
}

template <class S>
MTR_DEVICE void attend_singles(const struct mtr_attention_args &a, uint8_t *memory)
{
    const typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(SINGLE_WARPS);
    __syncthreads();
    if (threadIdx.x >= SINGLE_WORKERS)
        feed_runs<S>(a, p);
    else
        work_runs<S>(a, p, memory + (p.stages - p.barriers) + RING_BYTES);
}

/* For heads of any length. */
MTR_DEVICE void attend_singles(const struct mtr_attention_args &a, uint8_t *memory)
{
    if (a.head_dim <= 64)
        attend_singles<single_shape<64>>(a, memory);
    else if (a.head_dim <= 96)
        attend_singles<single_shape<96>>(a, memory);
    else if (a.head_dim <= 128)
        attend_singles<single_shape<128>>(a, memory);
    else
        attend_singles<single_shape<256>>(a, memory);
}

} /* namespace attention */

#endif
