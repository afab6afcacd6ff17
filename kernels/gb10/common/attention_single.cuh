/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attention for lanes of one row (decode). The query heads of a kv head are the rows of one m16
 * tile (of several, one after the other, where there are more than 16). Four warps work on a
 * stretch together: each has the scores of sixteen tokens of each tile, so that all scores of the
 * stretch are there at once; maxima, sums and weights meet in shared memory; then each has a
 * quarter of the head, for which it adds the stretch's values. The four tiles of keys and the four
 * of values pass through a ring, those of the next stretch behind them.
 *
 * A row's stretches are spread over gridDim.z blocks. Where that is more than one, each leaves its
 * stretches in scratch, and the last to finish folds them in order.
 */
#ifndef MTR_GB10_ATTENTION_SINGLE_CUH
#define MTR_GB10_ATTENTION_SINGLE_CUH

#include "kernels/gb10/common/attention.cuh"

namespace attention
{

constexpr int SINGLE_WARPS = 4, SINGLE_THREADS = SINGLE_WARPS * MTR_WARP;
constexpr int WEIGHT_PITCH = 2 * STRETCH + 16; /* bytes from row to row, so that banks differ */
constexpr int WEIGHT_BYTES = 16 * WEIGHT_PITCH, MAXIMUM_BYTES = TILES * SINGLE_WARPS * 16 * 4;
constexpr int SUM_BYTES = MAXIMUM_BYTES * 4, RING_BYTES = 81920;
constexpr int SINGLE_SHARED = RING_BYTES + WEIGHT_BYTES + MAXIMUM_BYTES + SUM_BYTES;

static_assert(SINGLE_SHARED == 95488, "as KERNEL_FAMILIES.toml says");
static_assert(TILES == SINGLE_WARPS && TILE == 16 * SINGLE_WARPS, "sixteen tokens a warp");

template <int DIM_> struct single_shape : shape<DIM_> {
    static constexpr int ROOM = RING_BYTES / shape<DIM_>::TILE_BYTES;
    static constexpr int STAGES = ROOM < 8 ? ROOM : 8;
    static constexpr int COLUMNS = DIM_ / 8 / SINGLE_WARPS; /* n8 tiles of a warp */
};

/* A row and kv head, and the stretches that a block takes of it: first + z, first + z + step, ...
 */
struct single {
    uint32_t row, lane, position, kv_head, group, tile; /* tile: first query head of the m16 tile */
    uint32_t first, count;                              /* stretches of the row */
    uint32_t begin, step;                               /* the block's */
    uint32_t stretches;                                 /* that it has */
    bool alone;                                         /* no other block has any */
};

/* Where stretch s of a query head stands in scratch: head_dim sums, maximum, weight. */
MTR_DEVICE float *scratch_of(const struct mtr_attention_args &a, const struct single &w,
                             uint32_t head, uint32_t s)
{
    float *base = (float *)((uint8_t *)a.scratch + MTR_ATTENTION_COUNTERS);
    uint64_t at = ((uint64_t)w.lane * a.heads + head) * a.stretches + s;
    return base + at * (a.head_dim + 2);
}

template <class S> struct single_worker {
    const struct mtr_attention_args &a;
    const struct single &w;
    uint8_t *memory;
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
        float *maxima = (float *)(memory + RING_BYTES + WEIGHT_BYTES);
        return maxima + (tile * SINGLE_WARPS + of_warp) * 16 + row;
    }

    /* The part that each of the four threads of a row has. */
    __device__ __forceinline__ float *sum(uint32_t tile, uint32_t of_warp, uint32_t row) const
    {
        float *sums = (float *)(memory + RING_BYTES + WEIGHT_BYTES + MAXIMUM_BYTES);
        return sums + ((tile * SINGLE_WARPS + of_warp) * 16 + row) * 4 + lane % 4;
    }

    /* Whether the row sees any of a tile. */
    __device__ __forceinline__ bool sees(uint32_t tile) const
    {
        return tile <= w.position && tile + TILE > first_seen(a, w.position);
    }

    /* Scores of sixteen tokens of a tile; -infinity if it is not seen. */
    __device__ __forceinline__ void score(float (&out)[2][4], uint32_t tile, uint32_t keys)
    {
        const bool seen = sees(tile);
        const uint32_t ka = keys + warp * 16 * S::ROW_BYTES + lanes<S>::keys(lane);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                out[n][e] = seen ? 0.0f : -CUDART_INF_F;
        if (!seen)
            return;
#pragma unroll
        for (int i = 0; i < S::STEPS; i++) {
            uint32_t k[2][2];
            device::load_matrix4(k[0][0], k[0][1], k[1][0], k[1][1], ka ^ i << 5);
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
        __syncthreads();
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
        __syncthreads();
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
        uint8_t *row = memory + RING_BYTES + (lane / 4 + 8 * i) * WEIGHT_PITCH;
        uint32_t *to = (uint32_t *)(row + 2 * (t * TILE + warp * 16) + lane % 4 * 4);
        to[0] = mtr_bf16_pair(s[t][0][2 * i], s[t][0][2 * i + 1]);
        to[4] = mtr_bf16_pair(s[t][1][2 * i], s[t][1][2 * i + 1]);
    }

    /* Adds the values of tile t of the stretch, for the warp's quarter of the head. */
    __device__ __forceinline__ void weigh(int t, uint32_t values)
    {
        const uint32_t pa = shared + RING_BYTES + (lane & 15) * WEIGHT_PITCH + (lane >> 4) * 16;
        const uint32_t va = values + lanes<S>::column(lane);
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = t == 0 ? 0.0f : __fmul_rn(o[n][e], factor[t][e >> 1]);
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i += 2) {
            uint32_t p[2][4];
            device::load_matrix4(p[0], pa + 2 * (t * TILE + 16 * i));
            device::load_matrix4(p[1], pa + 2 * (t * TILE + 16 * i + 16));
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++) {
                uint32_t v[2][2];
                device::load_matrix4_transposed(v[0][0], v[0][1], v[1][0], v[1][1],
                                                (va ^ (warp * S::COLUMNS + n) << 4) +
                                                    i * 16 * S::ROW_BYTES);
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

/* The first token of piece i of the ring's sequence: eight a stretch, keys then values. */
MTR_DEVICE uint32_t piece_tile(const struct single &w, uint32_t i)
{
    return (w.begin + i / (2 * TILES) * w.step) * STRETCH + i % TILES * TILE;
}

template <class S>
MTR_DEVICE void feed(const struct mtr_attention_args &a, const struct history &h,
                     const struct single &w, copier<S, SINGLE_THREADS> &c, uint32_t i,
                     uint32_t ring)
{
    if (i < w.stretches * 2 * TILES) {
        c.copy(a, h, i & TILES ? a.v_cache : a.k_cache, ring + i % S::STAGES * S::TILE_BYTES);
        c.look(a, h, piece_tile(w, i + 1));
    }
    device::commit_copies();
}

/* The block's stretches for one m16 tile of query heads. */
template <class S>
MTR_DEVICE void attend_single(const struct mtr_attention_args &a, const struct single &w,
                              const struct history &h, uint8_t *memory)
{
    copier<S, SINGLE_THREADS> c;
    const uint32_t ring = device::shared_address(memory);
    c.look(a, h, piece_tile(w, 0));
    for (uint32_t i = 0; i + 1 < S::STAGES; i++)
        feed<S>(a, h, w, c, i, ring);
    struct single_worker<S> worker(a, w, memory);
    uint32_t i = 0;
    for (uint32_t n = 0; n < w.stretches; n++) {
        const uint32_t stretch = w.begin + n * w.step;
#pragma unroll
        for (int piece = 0; piece < 2 * (int)TILES; piece++, i++) {
            const uint32_t tile = stretch * STRETCH + piece % TILES * TILE;
            const uint32_t at = ring + i % S::STAGES * S::TILE_BYTES;
            device::wait_copies<S::STAGES - 2>();
            __syncthreads();
            feed<S>(a, h, w, c, i + S::STAGES - 1, ring);
            if (piece < (int)TILES)
                worker.score(worker.s[piece % TILES], tile, at);
            else if (piece == (int)TILES || worker.sees(tile))
                worker.weigh(piece % TILES, at);
            if (piece == (int)TILES - 1)
                worker.soften_stretch();
        }
        worker.end_stretch(stretch);
    }
    if (w.alone)
        worker.store();
    __syncthreads(); /* the next tile of heads writes to shared memory */
}

/* Whether this block is the last of the row and kv head; then all that others left is there. */
MTR_DEVICE bool is_last(const struct mtr_attention_args &a, const struct single &w, uint32_t blocks)
{
    __shared__ bool last;
    uint32_t *counter = (uint32_t *)a.scratch + (uint64_t)w.lane * a.kv_heads + w.kv_head;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1) == blocks - 1;
        if (last)
            *counter = 0; /* for the next launch */
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* Folds a row's stretches in order. Threads share the elements of all heads. */
MTR_DEVICE void fold_scratch(const struct mtr_attention_args &a, const struct single &w)
{
    const uint32_t dim = a.head_dim;
    for (uint32_t i = threadIdx.x; i < w.group * dim; i += SINGLE_THREADS) {
        const uint32_t head = w.kv_head * w.group + i / dim, element = i % dim;
        const float *from = scratch_of(a, w, head, w.first);
        float M = -CUDART_INF_F, L = 0.0f, O = 0.0f;
#pragma unroll 4
        for (uint32_t n = 0; n < w.count; n++, from += dim + 2) {
            float m = __ldcg(from + dim), l = __ldcg(from + dim + 1), o = __ldcg(from + element);
            struct factors f = fold(&M, &L, m, l);
            O = fold_value(O, o, f);
        }
        ((uint16_t *)a.out)[((uint64_t)w.row * a.heads + head) * dim + element] =
            mtr_bf16_round(__fmul_rn(O, final_factor(a, head, M, L)));
    }
}

template <class S>
MTR_DEVICE void attend_heads(const struct mtr_attention_args &a, struct single w, uint8_t *memory)
{
    struct history h = history_of(a, w.kv_head, w.lane);
    h.first = first_seen(a, w.position);
    h.end = w.position + 1;
    for (w.tile = 0; w.tile < w.group; w.tile += 16)
        attend_single<S>(a, w, h, memory);
    const uint32_t blocks = min(w.step, w.count);
    if (!w.alone && is_last(a, w, blocks))
        fold_scratch(a, w);
}

/* What block (kv head, lane, z) does; false: nothing. */
MTR_DEVICE bool find_single(const struct mtr_attention_args &a, struct single *w)
{
    const struct mtr_step_view *step = a.step;
    const uint32_t lane = blockIdx.y;
    if (lane >= step->lanes || step->lane_rows[lane + 1] - step->lane_rows[lane] != 1)
        return false;
    w->row = (uint32_t)step->lane_rows[lane];
    w->lane = lane;
    w->kv_head = blockIdx.x;
    w->group = a.heads / a.kv_heads;
    w->tile = 0;
    w->position = (uint32_t)step->positions[w->row];
    w->first = first_seen(a, w->position) / STRETCH;
    w->count = w->position / STRETCH - w->first + 1;
    w->begin = w->first + blockIdx.z;
    w->step = gridDim.z;
    w->stretches = blockIdx.z < w->count ? (w->count - blockIdx.z + w->step - 1) / w->step : 0;
    w->alone = w->step == 1 || w->count == 1;
    return w->stretches > 0;
}

} /* namespace attention */

#endif
