/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokens from logits. Where there are enough blocks, those of a cluster look for a row's largest
 * logit together; the first of them goes on alone if the token is drawn.
 *
 * Greedy: a logit and its index become one 64-bit key whose order is that of the logits, and among
 * equals that of falling indices; the largest key of a row is the same in whatever order its blocks
 * meet them. NaN and -infinity have the key 0.
 *
 * Drawn: nothing is sorted. All weights are integers, so sums are exact in any order. Tokens are
 * counted into bins of nearly equal s, the likeliest first; every question ("how much do the first
 * k weigh", "who stands at this weight") is about a prefix of the order and falls into one bin,
 * whose few tokens are listed, each then finding its own place among the others. If they are too
 * many for the list, the range of keys is halved first. The likely bins are counted alone at first:
 * most tokens are in the others.
 */
#include <math_constants.h>

#include "kernels/args/sample.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS MTR_SAMPLE_THREADS
#define SPLIT   MTR_SAMPLE_SPLIT
#define AHEAD   4             /* loads of a thread in flight */
#define BINS    (2 * THREADS) /* two a thread */
#define SCALE   96.0f         /* bins a unit of s: the last begins where weights end */
#define HEAD    960           /* bins counted first: to exp(-10) of the largest */
#define LISTED  THREADS
#define PARTS   3 /* of a weight, ten bits each, so that sums fit 32 bits */

/* ---- over the block: called by all threads at once ---- */

struct block_sum {
    uint64_t parts[THREADS / MTR_WARP];
};

MTR_DEVICE uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

MTR_DEVICE uint64_t largest_of_block(uint64_t key, struct block_sum *shared)
{
    __syncthreads();
    for (int i = MTR_WARP / 2; i > 0; i /= 2)
        key = larger(key, __shfl_xor_sync(MTR_ALL, key, i));
    if (threadIdx.x % MTR_WARP == 0)
        shared->parts[threadIdx.x / MTR_WARP] = key;
    __syncthreads();
    for (uint32_t i = 0; i < THREADS / MTR_WARP; i++)
        key = larger(key, shared->parts[i]);
    return key;
}

MTR_DEVICE uint64_t sum_of_block(uint64_t v, struct block_sum *shared)
{
    __syncthreads();
    for (int i = MTR_WARP / 2; i > 0; i /= 2)
        v += __shfl_xor_sync(MTR_ALL, v, i);
    if (threadIdx.x % MTR_WARP == 0)
        shared->parts[threadIdx.x / MTR_WARP] = v;
    __syncthreads();
    v = 0;
    for (uint32_t i = 0; i < THREADS / MTR_WARP; i++)
        v += shared->parts[i];
    return v;
}

/* The sum of the threads before this one. */
MTR_DEVICE uint64_t sum_before(uint64_t v, struct block_sum *shared)
{
    const uint32_t lane = threadIdx.x % MTR_WARP, warp = threadIdx.x / MTR_WARP;
    uint64_t sum = v;
    __syncthreads();
    for (uint32_t i = 1; i < MTR_WARP; i *= 2) {
        uint64_t other = __shfl_up_sync(MTR_ALL, sum, i);
        sum += lane >= i ? other : 0;
    }
    if (lane == MTR_WARP - 1)
        shared->parts[warp] = sum;
    __syncthreads();
    for (uint32_t i = 0; i < warp; i++)
        sum += shared->parts[i];
    return sum - v;
}

/* ---- a row ---- */

/* use(logit, index) for all logits of a row, each by one thread. */
template <class F> MTR_DEVICE void each_logit(const float *x, uint32_t count, bool aligned, F use)
{
    const uint32_t fours = aligned ? count / 4 : 0;
    for (uint32_t i = threadIdx.x; i < fours; i += AHEAD * THREADS) {
        float4 v[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (i + a * THREADS < fours)
                v[a] = ((const float4 *)x)[i + a * THREADS];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const uint32_t at = 4 * (i + a * THREADS);
            if (at >= 4 * fours)
                break;
            use(v[a].x, at);
            use(v[a].y, at + 1);
            use(v[a].z, at + 2);
            use(v[a].w, at + 3);
        }
    }
    for (uint32_t i = 4 * fours + threadIdx.x; i < count; i += THREADS)
        use(x[i], i);
}

/* ---- the largest ---- */

/* The bits of a float order like the number once negative ones are inverted and positive ones get
 * the top bit. Adding 0 makes -0 the equal of 0. */
MTR_DEVICE uint64_t key_of(float x, uint32_t index)
{
    uint32_t bits = __float_as_uint(x + 0.0f);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return x > -CUDART_INF_F ? (uint64_t)bits << 32 | (uint32_t)~index : 0;
}

/* Of the threads of a cluster; what they wrote to shared memory before is there behind it. */
MTR_DEVICE void sync_cluster(void)
{
    asm volatile("barrier.cluster.arrive.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
}

/* mtr_begin(), and all blocks of the cluster have begun: before that a block's shared memory is not
 * for others. */
MTR_DEVICE void begin_cluster(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    mtr_begin();
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

/* Into the shared memory of the cluster's first block, where that one has *here. */
MTR_DEVICE void put_first(uint64_t *here, uint64_t value)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, 0;\n"
                 "st.shared::cluster.b64 [there], %1;\n"
                 "}" ::"r"(device::shared_address(here)),
                 "l"(value)
                 : "memory");
}

/* The rows that a block has, alone or with its cluster, of which it is number `part`. */
struct rows {
    uint32_t first, step;
    uint32_t part, parts;
};

MTR_DEVICE struct rows rows_of_block(const struct mtr_step_view *step)
{
    if (gridDim.x / SPLIT < step->outputs)
        return {blockIdx.x, gridDim.x, 0, 1};
    return {blockIdx.x / SPLIT, gridDim.x / SPLIT, blockIdx.x % SPLIT, SPLIT};
}

/* The largest of the row, for the first block of those that have it. */
MTR_DEVICE uint64_t largest_of_row(const struct rows &rows, const float *x, uint32_t count,
                                   bool aligned, struct block_sum *shared, uint64_t (&keys)[SPLIT])
{
    const uint32_t part = (count + 4 * rows.parts - 1) / (4 * rows.parts) * 4;
    const uint32_t from = min(rows.part * part, count);
    uint64_t best = 0;
    each_logit(x + from, min(part, count - from), aligned,
               [&](float v, uint32_t i) { best = larger(best, key_of(v, from + i)); });
    best = largest_of_block(best, shared);
    if (rows.parts == 1)
        return best;
    if (threadIdx.x == 0)
        put_first(&keys[rows.part], best);
    sync_cluster();
    for (int i = 0; i < SPLIT && rows.part == 0; i++)
        best = larger(best, keys[i]);
    return best;
}

MTR_DEVICE uint32_t token_of(uint64_t key)
{
    return key ? ~(uint32_t)key : 0;
}

/* ---- drawing ---- */

/* Everything that a row's block shares. */
struct draw_memory;

struct drawing {
    const float *x;
    uint32_t count;
    bool aligned;
    float max, inverse;
    struct draw_memory *memory;
};

struct draw_memory {
    struct block_sum sum;
    union {
        uint32_t counted[PARTS + 1][BINS]; /* parts of weights, and how many */
        struct {
            uint64_t weights[BINS + 1]; /* in the bins before */
            uint32_t counts[BINS + 1];
        } before;
    };
    uint64_t list[LISTED]; /* key and id */
    uint32_t listed;
    uint32_t bins;  /* counted so far */
    uint32_t found; /* bin, or BINS */
    struct {
        uint64_t before; /* weight of the tokens before */
        uint32_t weight, token;
    } place;
};

/* e^x for x <= 0 as worker/exec/vocab.c computes it, operation by operation. */
MTR_DEVICE float exp_negative(float x)
{
    x = x > -80.0f ? x : -80.0f; /* NaN too */
    float shifted = __fadd_rn(__fmul_rn(x, 1.44269504088896341f), 12582912.0f);
    float n = __fsub_rn(shifted, 12582912.0f);
    float r = __fsub_rn(__fsub_rn(x, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, -2.12194440e-4f));
    float p = 1.9875691500e-4f;
    p = __fadd_rn(__fmul_rn(p, r), 1.3981999507e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 8.3334519073e-3f);
    p = __fadd_rn(__fmul_rn(p, r), 4.1665795894e-2f);
    p = __fadd_rn(__fmul_rn(p, r), 1.6666665459e-1f);
    p = __fadd_rn(__fmul_rn(p, r), 5.0000001201e-1f);
    p = __fadd_rn(__fadd_rn(__fmul_rn(p, __fmul_rn(r, r)), r), 1.0f);
    return __fmul_rn(p, __uint_as_float((__float_as_uint(shifted) + 127) << 23));
}

MTR_DEVICE float scaled(const struct drawing &d, float x)
{
    return __fmul_rn(__fsub_rn(x, d.max), d.inverse);
}

MTR_DEVICE uint32_t weight_of(float s)
{
    return (uint32_t)(int32_t)__fadd_rn(__fmul_rn(exp_negative(s), MTR_SAMPLE_WEIGHT), 0.5f);
}

/* The order of the draw: ascending. */
MTR_DEVICE uint64_t place_key(float s, uint32_t token)
{
    return (uint64_t)__float_as_uint(__fadd_rn(-s, 0.0f)) << 32 | token;
}

MTR_DEVICE uint32_t bin_of(float s)
{
    uint32_t b = (uint32_t)(s * -SCALE);
    return b < BINS ? b : BINS - 1;
}

/* use(s, weight, token) for all tokens that weigh anything. */
template <class F> MTR_DEVICE void each_token(const struct drawing &d, F use)
{
    each_logit(d.x, d.count, d.aligned, [&](float x, uint32_t i) {
        float s = scaled(d, x);
        uint32_t w = weight_of(s);
        if (w)
            use(s, w, i);
    });
}

/* Weight of the tokens with s >= limit. */
MTR_DEVICE uint64_t weight_above(const struct drawing &d, float limit)
{
    uint64_t sum = 0;
    each_token(d, [&](float s, uint32_t w, uint32_t) { sum += s >= limit ? w : 0; });
    return sum_of_block(sum, &d.memory->sum);
}

/* Counts the first `bins` bins; then each knows what stands before it. */
MTR_DEVICE void count_bins(const struct drawing &d, uint32_t bins)
{
    struct draw_memory *m = d.memory;
    const uint32_t mine = 2 * threadIdx.x;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < (PARTS + 1) * BINS; i += THREADS)
        m->counted[i / BINS][i % BINS] = 0;
    __syncthreads();
    each_token(d, [&](float s, uint32_t w, uint32_t) {
        uint32_t b = bin_of(s);
        if (b >= bins)
            return;
        for (int part = 0; part < PARTS; part++)
            atomicAdd(&m->counted[part][b], w >> 10 * part & (part < PARTS - 1 ? 1023 : ~0u));
        atomicAdd(&m->counted[PARTS][b], 1u);
    });
    __syncthreads();
    uint64_t weights[2], counts[2];
    for (int i = 0; i < 2; i++) {
        weights[i] = 0;
        for (int part = 0; part < PARTS; part++)
            weights[i] += (uint64_t)m->counted[part][mine + i] << 10 * part;
        counts[i] = m->counted[PARTS][mine + i];
    }
    uint64_t weight = sum_before(weights[0] + weights[1], &m->sum);
    uint64_t count = sum_before(counts[0] + counts[1], &m->sum);
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        m->before.weights[mine + i] = weight;
        m->before.counts[mine + i] = (uint32_t)count;
        weight += weights[i];
        count += counts[i];
    }
    if (mine + 2 == BINS) {
        m->before.weights[BINS] = weight;
        m->before.counts[BINS] = (uint32_t)count;
    }
    m->bins = bins;
    __syncthreads();
}

/* What a question asks for: the token with `at` tokens, or so much weight, before it. */
struct question {
    uint64_t at;
    bool by_count;
};

MTR_DEVICE bool covers(const struct question &q, uint64_t weight_before, uint64_t weight,
                       uint64_t count_before, uint64_t count)
{
    uint64_t first = q.by_count ? count_before : weight_before;
    return first <= q.at && q.at - first < (q.by_count ? count : weight);
}

/* The bin of the answer, among those that are counted; BINS if it is in none. */
MTR_DEVICE uint32_t find_bin(const struct drawing &d, const struct question &q)
{
    struct draw_memory *m = d.memory;
    __syncthreads();
    if (threadIdx.x == 0)
        m->found = BINS;
    __syncthreads();
    for (uint32_t b = 2 * threadIdx.x; b < 2 * threadIdx.x + 2; b++) {
        if (b >= m->bins)
            continue;
        uint64_t weight = m->before.weights[b], count = m->before.counts[b];
        if (covers(q, weight, m->before.weights[b + 1] - weight, count,
                   m->before.counts[b + 1] - count))
            m->found = b;
    }
    __syncthreads();
    return m->found;
}

/* Tokens of a bin, and keys [low, high) in it. */
struct range {
    uint32_t bin;
    uint64_t low, high;
    uint64_t weight_before, count_before, count;
};

MTR_DEVICE bool inside(const struct range &r, float s, uint64_t key)
{
    return bin_of(s) == r.bin && key >= r.low && key < r.high;
}

/* Halves the range until its tokens fit the list. */
MTR_DEVICE void narrow(const struct drawing &d, const struct question &q, struct range *r)
{
    while (r->count > LISTED) {
        struct range low = *r;
        low.high = r->low + (r->high - r->low) / 2;
        uint64_t weight = 0, count = 0;
        each_token(d, [&](float s, uint32_t w, uint32_t token) {
            bool counts = inside(low, s, place_key(s, token));
            weight += counts ? w : 0;
            count += counts;
        });
        weight = sum_of_block(weight, &d.memory->sum);
        low.count = sum_of_block(count, &d.memory->sum);
        if (covers(q, r->weight_before, weight, r->count_before, low.count)) {
            *r = low;
        } else {
            r->low = low.high;
            r->weight_before += weight;
            r->count_before += low.count;
            r->count -= low.count;
        }
    }
}

/* Lists the tokens of the range; the one that the question asks for says so. */
MTR_DEVICE void pick(const struct drawing &d, const struct question &q, const struct range &r)
{
    struct draw_memory *m = d.memory;
    __syncthreads();
    if (threadIdx.x == 0)
        m->listed = 0;
    __syncthreads();
    each_token(d, [&](float s, uint32_t, uint32_t token) {
        uint64_t key = place_key(s, token);
        if (inside(r, s, key))
            m->list[atomicAdd(&m->listed, 1u)] = key;
    });
    __syncthreads();
    if (threadIdx.x < m->listed) {
        const uint64_t mine = m->list[threadIdx.x];
        const float s = -__uint_as_float((uint32_t)(mine >> 32));
        uint64_t weight = r.weight_before, count = r.count_before;
        for (uint32_t i = 0; i < m->listed; i++) {
            bool before = m->list[i] < mine;
            uint32_t w = weight_of(-__uint_as_float((uint32_t)(m->list[i] >> 32)));
            weight += before ? w : 0;
            count += before;
        }
        if (covers(q, weight, weight_of(s), count, 1)) {
            m->place.before = weight;
            m->place.weight = weight_of(s);
            m->place.token = (uint32_t)mine;
        }
    }
    __syncthreads();
}

/* The answer into memory->place; false if the question goes beyond the last token. */
MTR_DEVICE bool answer(const struct drawing &d, const struct question &q)
{
    struct draw_memory *m = d.memory;
    uint32_t bin = find_bin(d, q);
    if (bin == BINS && m->bins < BINS) {
        count_bins(d, BINS);
        bin = find_bin(d, q);
    }
    if (bin == BINS)
        return false;
    struct range r = {bin, 0, ~0ull, m->before.weights[bin], m->before.counts[bin], 0};
    r.count = m->before.counts[bin + 1] - r.count_before;
    narrow(d, q, &r);
    pick(d, q, r);
    return true;
}

/* The questions of a draw, in order; each but the last says what weight is kept. */
enum step { TOP_K, TOP_P, DRAW, STEPS };

/* False: the row does not ask it, or the answer is known. */
MTR_DEVICE bool ask(const struct drawing &d, const struct mtr_sample_row &row, int step,
                    uint64_t total, uint64_t *kept, struct question *q)
{
    if (step == TOP_K) {
        *q = {row.top_k, true};
        return row.top_k > 0;
    }
    if (step == TOP_P) {
        uint64_t share = (uint64_t)ceil((double)row.top_p * (double)*kept);
        *q = {share ? share - 1 : 0, false};
        if (row.top_p < 1.0f && share >= total)
            *kept = total;
        return row.top_p < 1.0f && share < total;
    }
    if (row.least > -CUDART_INF_F) {
        uint64_t above = weight_above(d, row.least < 0.0f ? row.least : 0.0f);
        *kept = above < *kept ? above : *kept;
    }
    *q = {__umul64hi(*kept, row.fraction) << 40 | *kept * row.fraction >> 24, false};
    return true;
}

MTR_DEVICE uint32_t draw(const struct drawing &d, const struct mtr_sample_row &row)
{
    const uint64_t total = weight_above(d, -CUDART_INF_F);
    uint64_t kept = total;
    count_bins(d, HEAD);
#pragma unroll 1
    for (int step = TOP_K; step < STEPS; step++) {
        struct question q;
        if (ask(d, row, step, total, &kept, &q) && answer(d, q))
            kept = d.memory->place.before + (step == TOP_P ? d.memory->place.weight : 0);
    }
    return d.memory->place.token;
}

/* ---- the kernels ---- */

/* The slot of the lane whose last output row r is, or -1. */
MTR_DEVICE int32_t slot_behind(const struct mtr_step_view *step, uint32_t r)
{
    int32_t row = step->output_rows[r], lane = step->token_lanes[row];
    return step->lane_rows[lane + 1] == row + 1 ? step->lane_slots[lane] : -1;
}

MTR_DEVICE void give(const struct mtr_sample_args &args, uint32_t r, uint32_t token)
{
    if (threadIdx.x > 0)
        return;
    int32_t slot = slot_behind(args.step, r);
    args.tokens[r] = (int32_t)token;
    if (slot >= 0)
        args.last_tokens[slot] = (int32_t)token;
}

/* use(rows, r, x) for the block's rows, each with its logits. */
template <class F> MTR_DEVICE void each_row(const struct mtr_sample_args &args, F use)
{
    const struct rows rows = rows_of_block(args.step);
    for (uint32_t r = rows.first; r < args.step->outputs; r += rows.step) {
        use(rows, r, args.logits + (uint64_t)r * args.stride);
        if (rows.parts > 1 && r + rows.step < args.step->outputs)
            sync_cluster(); /* keys are read */
    }
}

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, 1)
    argmax(const __grid_constant__ struct mtr_sample_args args)
{
    __shared__ struct block_sum memory;
    __shared__ uint64_t keys[SPLIT];
    begin_cluster();
    each_row(args, [&](const struct rows &rows, uint32_t r, const float *x) {
        const bool aligned = args.stride % 4 == 0;
        const uint64_t best = largest_of_row(rows, x, args.vocab, aligned, &memory, keys);
        if (rows.part == 0)
            give(args, r, token_of(best));
    });
}

extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, 1)
    sample(const __grid_constant__ struct mtr_sample_args args)
{
    __shared__ struct draw_memory memory;
    __shared__ uint64_t keys[SPLIT];
    begin_cluster();
    each_row(args, [&](const struct rows &rows, uint32_t r, const float *x) {
        const bool aligned = args.stride % 4 == 0;
        const struct mtr_sample_row row = args.step->sampling[r];
        const uint64_t best = largest_of_row(rows, x, args.vocab, aligned, &memory.sum, keys);
        uint32_t token = token_of(best);
        if (rows.part > 0)
            return;
        if (best && row.inverse > 0.0f && x[token] < CUDART_INF_F)
            token = draw({x, args.vocab, aligned, x[token], row.inverse, &memory}, row);
        give(args, r, token);
    });
}
