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
 *
 * A block starts while the kernel before it runs. The step, block tables and all tokens of the
 * cache but the row's own are older than the launch (kernels/args/attention.h), so that what comes
 * from them is read meanwhile.
 */
#ifndef MTR_GB10_ATTENTION_SINGLE_CUH
#define MTR_GB10_ATTENTION_SINGLE_CUH

#include "kernels/gb10/common/attention_fold.cuh"
#include "kernels/gb10/common/attention_pipe.cuh"

namespace attention
{

template <int DIM_> struct single_shape : shape<DIM_> {
    static constexpr int COLUMNS = DIM_ / 8 / SINGLE_WARPS; /* n8 tiles of a warp */
    static constexpr uint32_t STAGES = RING_BYTES / shape<DIM_>::TILE_BYTES;
    using pipe = ::pipe<STAGES, shape<DIM_>::TILE_BYTES>;
};

/* ---- who has what ---- */

/* Lanes [base, base + 32) as the threads of a warp know them, one each. */
struct known {
    uint32_t base, row, position, slot;
    uint32_t count; /* of stretches; none where the lane has several rows, or is none */
};

MTR_DEVICE struct known look_up(const struct mtr_attention_args &a, uint32_t base)
{
    const struct mtr_step_view *step = a.step;
    const uint32_t lane = base + threadIdx.x % MTR_WARP;
    if (lane >= step->lanes)
        return {base, 0, 0, 0, 0};
    const uint32_t row = (uint32_t)step->lane_rows[lane], after = step->lane_rows[lane + 1];
    const uint32_t position = (uint32_t)step->lane_starts[lane];
    const uint32_t count = position / STRETCH - first_seen(a, position) / STRETCH + 1;
    return {base, row, position, (uint32_t)step->lane_slots[lane], after - row == 1 ? count : 0};
}

/* What is left of a block's part of the line. */
struct share {
    uint32_t lane, kv_head;
    uint32_t at;   /* stretch of the two's */
    uint32_t left; /* stretches */
    struct known lanes;
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
    const uint32_t lanes = a.step->lanes;
    struct known known = look_up(a, 0);
    uint32_t total = known.count;
#pragma unroll 1
    for (uint32_t base = MTR_WARP; base < lanes; base += MTR_WARP)
        total += look_up(a, base).count;
    total = __reduce_add_sync(MTR_ALL, total) * a.kv_heads;
    const uint32_t part = total / gridDim.x, more = total % gridDim.x;
    uint32_t begin = part * blockIdx.x + min(blockIdx.x, more);
    uint32_t end = begin + part + (blockIdx.x < more);
#pragma unroll 1
    while (begin < end) {
        const uint32_t upto = scan_lanes(known.count * a.kv_heads);
        const uint32_t here = __ballot_sync(MTR_ALL, begin < upto);
        if (here) {
            const int owner = __ffs((int)here) - 1;
            const uint32_t own = __shfl_sync(MTR_ALL, known.count, owner);
            const uint32_t inside = begin - __shfl_sync(MTR_ALL, upto, owner) + own * a.kv_heads;
            return {known.base + (uint32_t)owner, inside / own, inside % own, end - begin, known};
        }
        const uint32_t passed = __shfl_sync(MTR_ALL, upto, MTR_WARP - 1);
        begin -= passed;
        end -= passed;
        known = look_up(a, known.base + MTR_WARP);
    }
    return {0, 0, 0, 0, known};
}

/* The next run; false: none. By a whole warp. */
MTR_DEVICE bool next_run(const struct mtr_attention_args &a, struct share *s, struct single *w)
{
    if (!s->left)
        return false;
    for (w->count = 0;; s->lane++) {
        if (s->lane - s->lanes.base == MTR_WARP)
            s->lanes = look_up(a, s->lane);
        w->count = __shfl_sync(MTR_ALL, s->lanes.count, s->lane % MTR_WARP);
        if (w->count)
            break;
    }
    w->lane = s->lane;
    w->row = __shfl_sync(MTR_ALL, s->lanes.row, s->lane % MTR_WARP);
    w->position = __shfl_sync(MTR_ALL, s->lanes.position, s->lane % MTR_WARP);
    w->slot = __shfl_sync(MTR_ALL, s->lanes.slot, s->lane % MTR_WARP);
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

/* The tiles of a stretch that the row sees, [begin, end). */
MTR_DEVICE void seen_tiles(const struct mtr_attention_args &a, const struct single &w,
                           uint32_t stretch, uint32_t *begin, uint32_t *end)
{
    const uint32_t first = first_seen(a, w.position) / TILE, last = w.position / TILE;
    *begin = max(first, stretch * TILES) - stretch * TILES;
    *end = min(last - stretch * TILES + 1, TILES);
}

/* ---- the work on a stretch ---- */

/* Where warps meet: what the tiles of a stretch are worth, in shared memory. */
struct meeting {
    uint8_t weights[WEIGHT_BYTES];           /* P, bf16 */
    float maxima[TILES][SINGLE_WARPS][16];   /* of the scores */
    float4 scores[TILES][2][SINGLE_WORKERS]; /* of each thread, for itself */
    float sums[TILES][SINGLE_WARPS][16][4];  /* of the weights, by the threads of a row */
    float factors[TILES][16];                /* what o is multiplied with before the tile */
};

static_assert(sizeof(struct meeting) == MEETING_BYTES, "room for it");

/* Tiles [begin, end) of a stretch are seen; loops over them stay loops, since a block runs this
 * code once or twice and would wait for every instruction of it. */
template <class S> struct single_worker {
    const struct mtr_attention_args &a;
    const struct single &w;
    struct meeting &meet;
    uint32_t lane, warp;
    uint32_t q[S::STEPS][4];
    float scale;
    float o[S::COLUMNS][4], m[2], l[2];
    float O[S::COLUMNS][4], M[2], L[2];
    int halves; /* of the sixteen rows that are some: rows 0 to 7, and 8 to 15 */

    __device__ __forceinline__ single_worker(const struct mtr_attention_args &args,
                                             const struct single &single, uint8_t *base)
        : a(args), w(single), meet(*(struct meeting *)base), lane(threadIdx.x % MTR_WARP),
          warp(threadIdx.x / MTR_WARP), halves(single.group - single.tile > 8 ? 2 : 1)
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
    }

    /* By way of where weights will stand. What rows hold that are none does not matter: nothing of
     * them is stored. */
    __device__ __forceinline__ void load_queries()
    {
        constexpr uint32_t PITCH = 2 * S::DIM + 16; /* bytes, so that banks differ */
        static_assert(16 * PITCH <= WEIGHT_BYTES, "room");
        const uint32_t rows = min(w.group - w.tile, 16u);
        const uint16_t *from =
            (const uint16_t *)a.q + ((uint64_t)w.row * a.heads + head(0)) * a.head_dim;
        device::sync_some<SINGLE_WORKERS>(1); /* weights of the run before are read */
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < rows * S::PIECES; i += SINGLE_WORKERS) {
            const uint32_t row = i / S::PIECES, column = i % S::PIECES * 8;
            *(uint4 *)(meet.weights + row * PITCH + 2 * column) =
                column < a.head_dim ? *(const uint4 *)(from + row * a.head_dim + column)
                                    : make_uint4(0, 0, 0, 0);
        }
        device::sync_some<SINGLE_WORKERS>(1);
        const uint32_t qa =
            device::shared_address(meet.weights) + (lane & 15) * PITCH + (lane >> 4) * 16;
#pragma unroll
        for (int i = 0; i < S::STEPS; i++)
            device::load_matrix4(q[i], qa + 32 * i);
    }

    __device__ __forceinline__ bool has_row(uint32_t row) const
    {
        return w.tile + row < w.group;
    }

    __device__ __forceinline__ uint32_t head(uint32_t row) const
    {
        return w.kv_head * w.group + w.tile + row;
    }

    /* Sums start anew. */
    __device__ __forceinline__ void begin_stretch()
    {
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = 0.0f;
    }

    /* shape_scores() of a row's two n8 tiles, with the soft cap in a loop over elements. */
    __device__ __forceinline__ void shape(float (&s)[2][4], uint32_t token, bool whole) const
    {
        if (a.softcap != 0.0f) {
#pragma unroll 1
            for (int k = 0; k < 8; k++) {
                const float first = soften(a, s[0][0]);
#pragma unroll
                for (int e = 0; e < 7; e++)
                    s[e / 4][e % 4] = s[(e + 1) / 4][(e + 1) % 4];
                s[1][3] = first;
            }
        }
        if (whole)
            return;
        const uint32_t least = first_seen(a, w.position);
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const uint32_t t = token + 8 * n + (e & 1);
                if (t > w.position || t < least)
                    s[n][e] = -CUDART_INF_F;
            }
    }

    /* Scores of sixteen tokens of tile t of the stretch, which begins with this token. */
    __device__ __forceinline__ void score(uint32_t t, uint32_t tile, uint32_t keys)
    {
        const uint32_t row = warp * 16 + (lane & 7) + (lane >> 4) * 8;
        const uint32_t ka = keys + row * 128 + (((lane >> 3 & 1) ^ (row & 7)) << 4);
        float s[2][4] = {};
#pragma unroll
        for (int i = 0; i < S::STEPS; i++) {
            uint32_t k[2][2];
            device::load_matrix4(k[0][0], k[0][1], k[1][0], k[1][1],
                                 (ka ^ i % 4 << 5) + i / 4 * PANEL_BYTES);
            device::mma(s[0], q[i], k[0]);
            device::mma(s[1], q[i], k[1]);
        }
        shape(s, tile + warp * 16 + lane % 4 * 2,
              tile + TILE - 1 <= w.position && tile >= first_seen(a, w.position));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (i == halves)
                break;
            const float top = quad_max(largest(s, i));
            if (lane % 4 == 0)
                meet.maxima[t][warp][lane / 4 + 8 * i] = top;
            meet.scores[t][i][threadIdx.x] =
                make_float4(s[0][2 * i], s[0][2 * i + 1], s[1][2 * i], s[1][2 * i + 1]);
        }
    }

    /* The scores of a row and tile to weights. */
    __device__ __forceinline__ void soften_row(uint32_t t, int i)
    {
        const uint32_t row = lane / 4 + 8 * i;
        float top = meet.maxima[t][0][row];
#pragma unroll
        for (int of = 1; of < SINGLE_WARPS; of++)
            top = fmaxf(top, meet.maxima[t][of][row]);
        const float factor = raise(&m[i], top, scale);
        const float4 s = meet.scores[t][i][threadIdx.x];
        float first[4] = {s.x, s.y}, second[4] = {s.z, s.w};
        meet.sums[t][warp][row][lane % 4] = weigh16(first, second, 0, scale, subtrahend(m[i]));
        if (warp == 0 && lane % 4 == 0)
            meet.factors[t][row] = factor;
        uint32_t *to = (uint32_t *)(meet.weights + row * WEIGHT_PITCH + 2 * (t * TILE + warp * 16) +
                                    lane % 4 * 4);
        to[0] = mtr_bf16_pair(first[0], first[1]);
        to[4] = mtr_bf16_pair(second[0], second[1]);
    }

    /* All scores of the stretch to weights; m, factors and l. */
    __device__ __forceinline__ void soften_stretch(uint32_t begin, uint32_t end)
    {
        device::sync_some<SINGLE_WORKERS>(1);
        m[0] = m[1] = -CUDART_INF_F;
        l[0] = l[1] = 0.0f;
#pragma unroll 1
        for (uint32_t t = begin; t < end; t++) {
            soften_row(t, 0);
            if (halves == 2)
                soften_row(t, 1);
        }
        device::sync_some<SINGLE_WORKERS>(1);
#pragma unroll 1
        for (uint32_t t = begin; t < end; t++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (i == halves)
                    break;
                const uint32_t row = lane / 4 + 8 * i, c = lane % 4;
                const float sums[4] = {meet.sums[t][0][row][c], meet.sums[t][1][row][c],
                                       meet.sums[t][2][row][c], meet.sums[t][3][row][c]};
                l[i] = add_weights(l[i], meet.factors[t][row], sums);
            }
        l[0] = quad_sum(l[0]);
        l[1] = quad_sum(l[1]);
    }

    /* Adds the values of tile t of the stretch, for the warp's quarter of the head. */
    __device__ __forceinline__ void weigh(uint32_t t, uint32_t values)
    {
        const uint32_t pa = device::shared_address(meet.weights) + (lane & 15) * WEIGHT_PITCH +
                            (lane >> 4) * 16 + 2 * t * TILE;
        const uint32_t va = values + lane * 128 + ((lane & 7) << 4);
        const float factors[2] = {meet.factors[t][lane / 4], meet.factors[t][lane / 4 + 8]};
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                o[n][e] = __fmul_rn(o[n][e], factors[e >> 1]);
#pragma unroll
        for (int i = 0; i < (int)TILE / 16; i += 2) {
            uint32_t p[2][4];
            device::load_matrix4(p[0], pa + 2 * 16 * i);
            device::load_matrix4(p[1], pa + 2 * (16 * i + 16));
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++) {
                const uint32_t piece = warp * S::COLUMNS + n;
                uint32_t v[2][2];
                device::load_matrix4_transposed(v[0][0], v[0][1], v[1][0], v[1][1],
                                                (va ^ piece % 8 << 4) + piece / 8 * PANEL_BYTES +
                                                    i * 16 * 128);
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
            if (i == halves)
                break;
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
            if (i == halves)
                break;
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

/*
 * What the fifth warp does: has the tiles of all runs brought, in the order in which workers take
 * them. All but those with a row's own token are older than the step: they come before the
 * predecessor is done.
 */
template <class S> struct single_feeder {
    using ring = feeder<S, typename S::pipe>;
    const struct mtr_attention_args &a;
    ring f;
    const int32_t *tables;
    uint32_t stride, use;
    bool released; /* the predecessor is done */

    __device__ __forceinline__ single_feeder(const struct mtr_attention_args &args,
                                             const typename S::pipe &p)
        : a(args), f(args, p), tables(args.step->tables[args.group]),
          stride(args.step->table_stride[args.group]), use(0), released(false)
    {
    }

    __device__ __forceinline__ struct history history(const struct single &w) const
    {
        return {tables + (uint64_t)w.slot * stride, w.kv_head * a.block_tokens * a.head_dim,
                w.kv_head * a.block_tokens, first_seen(a, w.position), w.position + 1};
    }

    /* Tiles of a stretch, [begin, end) of the history. If the last has the row's own token, which
     * nobody has waited for yet, then it comes after the values of others, as far as there is room
     * for these; the rest goes to the second-level cache before that. */
    __device__ __forceinline__ void stretch(const struct single &w, const struct history &h,
                                            uint32_t begin, uint32_t end)
    {
        const uint32_t last = end - begin - 1, values = use + last + 1;
        const bool waits = !released && end * TILE > w.position;
        const uint32_t room = S::STAGES - min(values, S::STAGES);
        const uint32_t ahead = waits ? min(last, room) : 0;
#pragma unroll 1
        for (uint32_t i = 0; i < 2 * last + 2; i++) {
            const bool own = i == last + ahead, value = i >= last && !own;
            uint32_t t = min(i, last);
            if (value)
                t = i < last + ahead ? i - last : i - last - 1;
            if (own && waits)
#pragma unroll 1
                for (uint32_t j = begin + ahead; j <= end; j++)
                    f.announce(min(j, end - 1) * TILE, j < end);
            f.fill(h, (begin + t) * TILE, value, (value ? values : use) + t, [&]() {
                if (!own || !waits)
                    return;
                device::wait_for_predecessor();
                released = true;
            });
        }
        use = values + last + 1;
    }

    __device__ __forceinline__ void run(const struct single &w)
    {
        const struct history h = history(w);
        f.begin(h, w.begin * STRETCH);
#pragma unroll 1
        for (uint32_t s = w.begin; s < w.end; s++) {
            uint32_t begin, end;
            seen_tiles(a, w, s, &begin, &end);
            f.reach(h, s * STRETCH);
            stretch(w, h, s * TILES + begin, s * TILES + end);
        }
    }

    __device__ __forceinline__ void run_all(struct share share)
    {
        struct single w;
#pragma unroll 1
        while (next_run(a, &share, &w))
#pragma unroll 1
            for (w.tile = 0; w.tile < w.group; w.tile += 16)
                run(w);
    }
};

/* A run's stretches for one m16 tile of query heads; `use` counts tiles. */
template <class S>
MTR_DEVICE void work_run(const struct mtr_attention_args &a, const struct single &w,
                         const typename S::pipe &p, uint8_t *memory, uint32_t &use)
{
    struct single_worker<S> worker(a, w, memory);
    const auto release = [&]() {
        __syncwarp();
        if (worker.lane == 0)
            p.release(use);
        use++;
    };
    worker.load_queries();
#pragma unroll 1
    for (uint32_t stretch = w.begin; stretch < w.end; stretch++) {
        uint32_t begin, end;
        seen_tiles(a, w, stretch, &begin, &end);
        worker.begin_stretch();
#pragma unroll 1
        for (uint32_t t = begin; t < end; t++) {
            p.wait(use);
            worker.score(t, stretch * STRETCH + t * TILE, p.stage(use));
            release();
        }
        worker.soften_stretch(begin, end);
#pragma unroll 1
        for (uint32_t t = begin; t < end; t++) {
            p.wait(use);
            worker.weigh(t, p.stage(use));
            release();
        }
        worker.end_stretch(stretch);
    }
    if (w.alone)
        worker.store();
}

template <class S>
MTR_DEVICE void work_runs(const struct mtr_attention_args &a, struct share share,
                          const typename S::pipe &p, uint8_t *memory)
{
    struct single w;
    uint32_t use = 0;
    bool more = next_run(a, &share, &w);
    device::wait_for_predecessor();
    for (; more; more = next_run(a, &share, &w)) {
#pragma unroll 1
        for (w.tile = 0; w.tile < w.group; w.tile += 16)
            work_run<S>(a, w, p, memory, use);
        if (!w.alone && is_last(a, w, memory))
            fold_scratch(a, w, memory);
    }
}

/* A block that has nothing makes room at once, but for one: the launch must not end before its
 * predecessor does. */
template <class S>
MTR_DEVICE void attend_singles(const struct mtr_attention_args &a, uint8_t *memory)
{
    const typename S::pipe p(memory);
    const struct share share = share_of(a);
    if (!share.left) {
        if (blockIdx.x == 0)
            device::wait_for_predecessor();
        return;
    }
    if (threadIdx.x == 0)
        p.init(SINGLE_WARPS);
    __syncthreads();
    if (threadIdx.x >= SINGLE_WORKERS)
        single_feeder<S>(a, p).run_all(share);
    else
        work_runs<S>(a, share, p, memory + (p.stages - p.barriers) + RING_BYTES);
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
