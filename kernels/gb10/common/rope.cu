/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rotary tables, and rotation of q and k with the append to the cache.
 *
 * rope_append: heads of a row are the query heads, the key heads, then the value heads, which are
 * only copied. A block has sixteen of them, a team of eight lanes each, and takes row after row,
 * the next one under way meanwhile. A lane holds units of its head: C elements and the C that they
 * turn with, so that a head is read and written once and nothing passes between lanes but the sum
 * of squares. C is eight where the head allows, else one. Elements that do not turn are units too.
 * The rotation rounds its two products and their sum one by one, as the host class does.
 *
 * Norms' weights, the step and block tables are nobody's output in a step: they are read before the
 * predecessor is done.
 */
#include "kernels/args/rope.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS        128
#define PER_PROCESSOR  6 /* blocks */
#define ROTARY_THREADS 64
#define TEAM           8
#define TEAMS          (THREADS / TEAM)
#define MAX_HEAD_DIM   256

/* ---- rotary ---- */

/* Taylor series on |r| <= pi/4, as kernels/host/rotary.c has them. */
MTR_DEVICE double sine(double r)
{
    double u = r * r;
    double p = -1.0 / 1307674368000.0;
    p = p * u + 1.0 / 6227020800.0;
    p = p * u - 1.0 / 39916800.0;
    p = p * u + 1.0 / 362880.0;
    p = p * u - 1.0 / 5040.0;
    p = p * u + 1.0 / 120.0;
    p = p * u - 1.0 / 6.0;
    return r + r * u * p;
}

MTR_DEVICE double cosine(double r)
{
    double u = r * r;
    double p = 1.0 / 20922789888000.0;
    p = p * u - 1.0 / 87178291200.0;
    p = p * u + 1.0 / 479001600.0;
    p = p * u - 1.0 / 3628800.0;
    p = p * u + 1.0 / 40320.0;
    p = p * u - 1.0 / 720.0;
    p = p * u + 1.0 / 24.0;
    p = p * u - 0.5;
    return 1.0 + u * p;
}

/* pi/2 stands in three parts; a multiple below 2^20 of the first two is exact. */
MTR_DEVICE void sine_cosine(float angle, float *s, float *c)
{
    double n = rint((double)angle * 0.63661977236758134308);
    double r = ((double)angle - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34;
    r -= n * 0x1.3198a2e037073p-69;
    double a = sine(r), b = cosine(r);
    int quadrant = (int)((int64_t)n & 3);
    double first = quadrant & 1 ? b : a, second = quadrant & 1 ? a : b;
    *s = (float)(quadrant & 2 ? -first : first);
    *c = (float)(quadrant == 1 || quadrant == 2 ? -second : second);
}

MTR_KERNEL(ROTARY_THREADS) rotary(const __grid_constant__ struct mtr_rotary_args args)
{
    mtr_begin();
    for (uint32_t r = blockIdx.x; r < args.step->tokens; r += gridDim.x) {
        float *cosines = args.table + (uint64_t)r * 2 * args.pairs, *sines = cosines + args.pairs;
        float position = (float)args.step->positions[r];
        for (uint32_t i = threadIdx.x; i < args.pairs; i += ROTARY_THREADS) {
            float s, c, f = args.inv_freq[i];
            if (args.factors)
                f = __fdiv_rn(f, args.factors[i]);
            sine_cosine(__fmul_rn(position, f), &s, &c);
            cosines[i] = __fmul_rn(c, args.scale);
            sines[i] = __fmul_rn(s, args.scale);
        }
    }
}

/* ---- rope_append ---- */

/* Where a unit's two runs of C elements stand in the head, and the pair they turn with, or none. */
struct unit {
    uint32_t first, second;
    int32_t pair; /* of the first element, or -1 */
};

template <int C> MTR_DEVICE struct unit unit_at(const struct mtr_rope_append_args &args, uint32_t u)
{
    uint32_t turning = args.table ? args.pairs : 0;
    if (u * C >= turning) {
        uint32_t at = 2 * turning + (u * C - turning) * 2;
        return {at, at + C, -1};
    }
    if (args.interleaved)
        return {2 * C * u, 2 * C * u + C, (int32_t)(C * u)};
    return {C * u, C * u + args.pairs, (int32_t)(C * u)};
}

/* C elements as they stand in memory. */
template <int C> struct run_of;

template <> struct run_of<8> {
    uint4 raw;

    __device__ __forceinline__ void load(const uint16_t *p, uint32_t at, uint32_t)
    {
        raw = *(const uint4 *)(p + at);
    }

    __device__ __forceinline__ void widen(float *v) const
    {
        const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[2 * i] = mtr_bf16_low(words[i]);
            v[2 * i + 1] = mtr_bf16_high(words[i]);
        }
    }

    __device__ __forceinline__ static void store(uint16_t *p, uint32_t at, uint32_t, const float *v)
    {
        *(uint4 *)(p + at) = make_uint4(mtr_bf16_pair(v[0], v[1]), mtr_bf16_pair(v[2], v[3]),
                                        mtr_bf16_pair(v[4], v[5]), mtr_bf16_pair(v[6], v[7]));
    }
};

template <> struct run_of<1> {
    uint16_t raw;

    __device__ __forceinline__ void load(const uint16_t *p, uint32_t at, uint32_t dim)
    {
        raw = at < dim ? p[at] : 0;
    }

    __device__ __forceinline__ void widen(float *v) const
    {
        v[0] = mtr_bf16_value(raw);
    }

    __device__ __forceinline__ static void store(uint16_t *p, uint32_t at, uint32_t dim,
                                                 const float *v)
    {
        if (at < dim)
            p[at] = mtr_bf16_round(v[0]);
    }
};

/* v: the C elements of the first run, then those of the second. */
template <int C, bool INTERLEAVED>
MTR_DEVICE void turn_unit(const float *cosines, const float *sines, float *v)
{
    float c[C], s[C];
#pragma unroll
    for (int i = 0; i < C; i++) {
        c[i] = cosines[i];
        s[i] = sines[i];
    }
#pragma unroll
    for (int i = 0; i < C; i++) {
        constexpr int apart = INTERLEAVED ? 1 : C, step = INTERLEAVED ? 2 : 1;
        float x = v[i * step], y = v[i * step + apart];
        v[i * step] = __fsub_rn(__fmul_rn(x, c[i]), __fmul_rn(y, s[i]));
        v[i * step + apart] = __fadd_rn(__fmul_rn(y, c[i]), __fmul_rn(x, s[i]));
    }
}

/* Elements before a token's first kv head in the cache, and from head to head. */
MTR_DEVICE uint64_t cache_at(const struct mtr_rope_append_args &args, uint32_t row)
{
    const struct mtr_step_view *step = args.step;
    uint32_t position = (uint32_t)step->positions[row];
    uint32_t slot = (uint32_t)step->lane_slots[step->token_lanes[row]];
    const int32_t *table =
        step->tables[args.group] + (uint64_t)slot * step->table_stride[args.group];
    uint64_t block = (uint64_t)table[position / args.block_tokens];
    return (block * args.kv_heads * args.block_tokens + position % args.block_tokens) *
           args.head_dim;
}

/* What a team does with its head of each row, in the order of heads above. */
struct part {
    uint16_t *from;            /* of row 0 */
    uint32_t pitch;            /* elements from row to row there */
    uint16_t *to;              /* in the cache, of its first token; NULL: where it was */
    const float *norm, *table; /* or NULL */
    bool idle;
};

MTR_DEVICE struct part part_of(const struct mtr_rope_append_args &args, uint32_t h)
{
    const uint32_t heads = args.heads, kv_heads = args.kv_heads, dim = args.head_dim;
    if (h < heads)
        return {(uint16_t *)args.q + h * dim, heads * dim, NULL,
                (const float *)args.q_norm,   args.table,  false};
    const uint32_t n = (h - heads) % kv_heads, inside = n * args.block_tokens * dim;
    if (h - heads < kv_heads)
        return {(uint16_t *)args.k + n * dim, kv_heads * dim, (uint16_t *)args.k_cache + inside,
                (const float *)args.k_norm,   args.table,     false};
    return {
        (uint16_t *)args.v + n * dim, kv_heads * dim, (uint16_t *)args.v_cache + inside, NULL, NULL,
        h - heads >= 2 * kv_heads};
}

/* A head in a team's registers, HELD units of it a lane. */
template <int C, int HELD> struct turner {
    const struct mtr_rope_append_args &args;
    struct part part;
    uint32_t lane, count; /* of units */
    struct run_of<C> raw[HELD][2];
    float w[HELD][2 * C], v[HELD][2 * C];

    __device__ __forceinline__ turner(const struct mtr_rope_append_args &a)
        : args(a), part(part_of(a, blockIdx.y * TEAMS + threadIdx.x / TEAM)),
          lane(threadIdx.x % TEAM), count((a.head_dim + 2 * C - 1) / (2 * C))
    {
    }

    __device__ __forceinline__ bool has(int i) const
    {
        return !part.idle && lane + i * TEAM < count;
    }

    __device__ __forceinline__ struct unit unit(int i) const
    {
        return unit_at<C>(args, lane + i * TEAM);
    }

    __device__ __forceinline__ void load_weights()
    {
#pragma unroll
        for (int i = 0; i < HELD; i++)
#pragma unroll
            for (int e = 0; e < 2 * C; e++) {
                const uint32_t at = e < C ? unit(i).first + e : unit(i).second + e - C;
                if (has(i) && part.norm && at < args.head_dim)
                    w[i][e] = __fadd_rn(part.norm[at], args.unit_offset);
            }
    }

    /* The first row's angles may come to the second-level cache: a layer ago they were used last.
     */
    __device__ __forceinline__ void announce_angles() const
    {
        const uint32_t at = threadIdx.x * 32 / sizeof(float); /* sectors of a cache line */
        if (part.table && blockIdx.x < args.step->tokens && at < 2 * args.pairs)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(
                args.table + (uint64_t)blockIdx.x * 2 * args.pairs + at));
    }

    /* Where a row goes. */
    __device__ __forceinline__ uint16_t *place(uint32_t row) const
    {
        if (part.idle)
            return NULL;
        return part.to ? part.to + cache_at(args, row) : part.from + (uint64_t)row * part.pitch;
    }

    __device__ __forceinline__ void load(uint32_t row)
    {
        const uint16_t *from = part.from + (uint64_t)row * part.pitch;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!has(i))
                continue;
            raw[i][0].load(from, unit(i).first, args.head_dim);
            raw[i][1].load(from, unit(i).second, args.head_dim);
        }
    }

    /* Returns the lane's part of the sum of squares. */
    __device__ __forceinline__ float take()
    {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!has(i))
                continue;
            raw[i][0].widen(v[i]);
            raw[i][1].widen(v[i] + C);
#pragma unroll
            for (int e = 0; e < 2 * C; e++)
                sum = __fmaf_rn(v[i][e], v[i][e], sum);
        }
        return sum;
    }

    __device__ __forceinline__ void give(uint32_t row, uint16_t *to, float inverse)
    {
        const float *table = part.table + (uint64_t)row * 2 * args.pairs;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!has(i))
                continue;
            const struct unit u = unit(i);
            const float *cosines = table + u.pair, *sines = cosines + args.pairs;
            if (part.norm)
#pragma unroll
                for (int e = 0; e < 2 * C; e++)
                    v[i][e] = __fmul_rn(__fmul_rn(v[i][e], inverse), w[i][e]);
            if (part.table && u.pair >= 0 && args.interleaved)
                turn_unit<C, true>(cosines, sines, v[i]);
            else if (part.table && u.pair >= 0)
                turn_unit<C, false>(cosines, sines, v[i]);
            run_of<C>::store(to, u.first, args.head_dim, v[i]);
            run_of<C>::store(to, u.second, args.head_dim, v[i] + C);
        }
    }

    /* All rows of the block; all threads of a warp together. */
    __device__ __forceinline__ void run()
    {
        const uint32_t rows = args.step->tokens;
        load_weights();
        announce_angles();
        uint16_t *to = blockIdx.x < rows ? place(blockIdx.x) : NULL;
        device::wait_for_predecessor();
        if (blockIdx.x < rows)
            load(blockIdx.x);
        for (uint32_t r = blockIdx.x; r < rows; r += gridDim.x) {
            uint16_t *const here = to;
            const float sum = take();
            if (r + gridDim.x < rows) {
                load(r + gridDim.x);
                to = place(r + gridDim.x);
            }
            const float mean = __fdiv_rn(mtr_sum_lanes(sum, TEAM), (float)args.head_dim);
            give(r, here, __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, args.eps))));
        }
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, PER_PROCESSOR)
    rope_append_bf16(const __grid_constant__ struct mtr_rope_append_args args)
{
    const bool eights = args.head_dim % 16 == 0 && (!args.table || args.pairs % 8 == 0);
    device::let_successor_start();
    if (eights && args.head_dim <= 16 * TEAM)
        turner<8, 1>(args).run();
    else if (eights)
        turner<8, MAX_HEAD_DIM / 16 / TEAM>(args).run();
    else
        turner<1, MAX_HEAD_DIM / 2 / TEAM>(args).run();
}
