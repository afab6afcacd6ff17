/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rotary tables, and rotation of q and k with the append to the cache.
 *
 * rope_append: a block takes a row, a team of sixteen lanes a head at a time: the query heads, the
 * key heads, then the value heads, which are only copied. A lane holds units of the head: C
 * elements and the C that they turn with, so that a head is read and written once and nothing
 * passes between lanes but the sum of squares. C is four where the head allows, else one. Elements
 * that do not turn are units too. The rotation rounds its two products and their sum one by one,
 * as the host class does.
 */
#include "kernels/args/rope.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS        512
#define ROTARY_THREADS 64
#define TEAM           16
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

template <int C> MTR_DEVICE void load_run(const uint16_t *p, uint32_t at, uint32_t dim, float *v)
{
    if constexpr (C == 4) {
        uint2 raw = *(const uint2 *)(p + at);
        v[0] = mtr_bf16_low(raw.x), v[1] = mtr_bf16_high(raw.x);
        v[2] = mtr_bf16_low(raw.y), v[3] = mtr_bf16_high(raw.y);
    } else {
        v[0] = at < dim ? mtr_bf16_value(p[at]) : 0.0f;
    }
}

template <int C> MTR_DEVICE void store_run(uint16_t *p, uint32_t at, uint32_t dim, const float *v)
{
    if constexpr (C == 4)
        *(uint2 *)(p + at) = make_uint2(mtr_bf16_pair(v[0], v[1]), mtr_bf16_pair(v[2], v[3]));
    else if (at < dim)
        p[at] = mtr_bf16_round(v[0]);
}

template <int C>
MTR_DEVICE void scale_run(const float *weight, uint32_t at, uint32_t dim, float inverse,
                          float offset, float *v)
{
#pragma unroll
    for (int i = 0; i < C; i++)
        if (at + i < dim)
            v[i] = __fmul_rn(__fmul_rn(v[i], inverse), __fadd_rn(weight[at + i], offset));
}

/* v: the C elements of the first run, then those of the second. */
template <int C, bool INTERLEAVED>
MTR_DEVICE void turn_unit(const float *cosines, const float *sines, float *v)
{
#pragma unroll
    for (int i = 0; i < C; i++) {
        constexpr int apart = INTERLEAVED ? 1 : C, step = INTERLEAVED ? 2 : 1;
        float c = cosines[i], s = sines[i], x = v[i * step], y = v[i * step + apart];
        v[i * step] = __fsub_rn(__fmul_rn(x, c), __fmul_rn(y, s));
        v[i * step + apart] = __fadd_rn(__fmul_rn(y, c), __fmul_rn(x, s));
    }
}

/* from -> to: norm and rotation of one head by a team; both are rows of head_dim bf16. All lanes of
 * the warp come here together. */
template <int C>
MTR_DEVICE void turn_head(const struct mtr_rope_append_args &args, const uint16_t *from,
                          const float *norm, const float *table, uint16_t *to, bool active)
{
    constexpr int HELD = MAX_HEAD_DIM / 2 / C / TEAM;
    const uint32_t lane = threadIdx.x % TEAM, dim = args.head_dim,
                   count = (dim + 2 * C - 1) / (2 * C);
    float v[HELD][2 * C], sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        uint32_t n = lane + i * TEAM;
        if (!active || n >= count)
            continue;
        struct unit u = unit_at<C>(args, n);
        load_run<C>(from, u.first, dim, v[i]);
        load_run<C>(from, u.second, dim, v[i] + C);
#pragma unroll
        for (int e = 0; e < 2 * C; e++)
            sum = __fmaf_rn(v[i][e], v[i][e], sum);
    }
    float mean = __fdiv_rn(mtr_sum_lanes(sum, TEAM), (float)dim);
    float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, args.eps)));
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        uint32_t n = lane + i * TEAM;
        if (!active || n >= count)
            continue;
        struct unit u = unit_at<C>(args, n);
        if (norm) {
            scale_run<C>(norm, u.first, dim, inverse, args.unit_offset, v[i]);
            scale_run<C>(norm, u.second, dim, inverse, args.unit_offset, v[i] + C);
        }
        const float *cosines = table + u.pair, *sines = cosines + args.pairs;
        if (table && u.pair >= 0 && args.interleaved)
            turn_unit<C, true>(cosines, sines, v[i]);
        else if (table && u.pair >= 0)
            turn_unit<C, false>(cosines, sines, v[i]);
        store_run<C>(to, u.first, dim, v[i]);
        store_run<C>(to, u.second, dim, v[i] + C);
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

/* What a team does with head h of a row, in the order of heads above. */
struct task {
    const uint16_t *from;
    uint16_t *to;
    const float *norm, *table; /* or NULL */
};

MTR_DEVICE struct task task_of(const struct mtr_rope_append_args &args, uint32_t row, uint32_t h,
                               uint64_t cache)
{
    const uint32_t heads = args.heads, kv_heads = args.kv_heads, dim = args.head_dim;
    const float *table = args.table ? args.table + (uint64_t)row * 2 * args.pairs : NULL;
    if (h < heads) {
        uint16_t *q = (uint16_t *)args.q + ((uint64_t)row * heads + h) * dim;
        return {q, q, (const float *)args.q_norm, table};
    }
    const uint32_t n = (h - heads) % kv_heads;
    const uint64_t from = ((uint64_t)row * kv_heads + n) * dim;
    const uint64_t to = cache + (uint64_t)n * args.block_tokens * dim;
    if (h - heads < kv_heads)
        return {(const uint16_t *)args.k + from, (uint16_t *)args.k_cache + to,
                (const float *)args.k_norm, table};
    return {(const uint16_t *)args.v + from, (uint16_t *)args.v_cache + to, NULL, NULL};
}

template <int C> MTR_DEVICE void append_row(const struct mtr_rope_append_args &args, uint32_t row)
{
    const uint32_t all = args.heads + 2 * args.kv_heads, teams = THREADS / TEAM;
    const uint64_t cache = cache_at(args, row);
    for (uint32_t first = 0; first < all; first += teams) {
        uint32_t h = first + threadIdx.x / TEAM;
        struct task t = task_of(args, row, h < all ? h : 0, cache);
        turn_head<C>(args, t.from, t.norm, t.table, t.to, h < all);
    }
}

MTR_KERNEL(THREADS) rope_append_bf16(const __grid_constant__ struct mtr_rope_append_args args)
{
    mtr_begin();
    bool fours = args.head_dim % 8 == 0 && (!args.table || args.pairs % 4 == 0);
    for (uint32_t r = blockIdx.x; r < args.step->tokens; r += gridDim.x)
        if (fours)
            append_row<4>(args, r);
        else
            append_row<1>(args, r);
}
