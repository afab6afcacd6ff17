/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stretches of single rows that different blocks have worked on: where they leave them, who is the
 * last, and how that one folds them, in the order of the history, into the row's result. Each
 * thread has four elements of a head; what is to come is on its way while the eight before it are
 * folded.
 */
#ifndef MTR_GB10_ATTENTION_FOLD_CUH
#define MTR_GB10_ATTENTION_FOLD_CUH

#include "kernels/gb10/common/attention.cuh"
#include "kernels/gb10/common/pipe.cuh"

namespace attention
{

constexpr int SINGLE_WARPS = 4, SINGLE_WORKERS = SINGLE_WARPS * MTR_WARP;
constexpr int SINGLE_THREADS = SINGLE_WORKERS + MTR_WARP;
constexpr int WEIGHT_PITCH = 2 * STRETCH + 16; /* bytes from row to row, so that banks differ */
constexpr int WEIGHT_BYTES = 16 * WEIGHT_PITCH, RING_BYTES = 81920;
constexpr int MEETING_BYTES = WEIGHT_BYTES + 21760; /* struct meeting of attention_single.cuh */
constexpr int SINGLE_SHARED = MTR_PIPE_BYTES + RING_BYTES + MEETING_BYTES;

static_assert(SINGLE_SHARED == 114176, "as KERNEL_FAMILIES.toml says");
static_assert(TILES == SINGLE_WARPS && TILE == 16 * SINGLE_WARPS, "sixteen tokens a warp");

/* A run: stretches [begin, end) of the row's, which are [first, first + count). */
struct single {
    uint32_t row, lane, position, slot, kv_head, group;
    uint32_t tile; /* first query head of the m16 tile */
    uint32_t first, count, begin, end;
    bool alone; /* no other block has any */
};

/* Where stretch s of a query head stands in scratch: head_dim sums, maximum, weight. */
MTR_DEVICE float *scratch_of(const struct mtr_attention_args &a, const struct single &w,
                             uint32_t head, uint32_t s)
{
    float *base = (float *)((uint8_t *)a.scratch + MTR_ATTENTION_COUNTERS);
    uint64_t at = ((uint64_t)w.lane * a.heads + head) * a.stretches + s;
    return base + at * (a.head_dim + MTR_ATTENTION_EXTRA);
}

/* Whether all stretches of the row and kv head are there now, after the block's own. */
MTR_DEVICE bool is_last(const struct mtr_attention_args &a, const struct single &w, uint8_t *memory)
{
    volatile uint32_t *last = (uint32_t *)memory;
    uint32_t *counter = (uint32_t *)a.scratch + (uint64_t)w.lane * a.kv_heads + w.kv_head;
    const uint32_t run = w.end - w.begin;
    device::sync_some<SINGLE_WORKERS>(1);
    if (threadIdx.x == 0) {
        __threadfence();
        *last = atomicAdd(counter, run) + run == w.count;
        if (*last)
            *counter = 0; /* for the next launch */
        __threadfence();
    }
    device::sync_some<SINGLE_WORKERS>(1);
    return *last;
}

constexpr uint32_t FOLD_AHEAD = 8; /* stretches on their way while as many are folded */

/* Folds a row's stretches for as many heads as threads, of four elements each, go round. */
struct folder {
    const struct mtr_attention_args &a;
    const struct single &w;
    float2 *pairs;      /* [heads, room] maxima and weights of some stretches, in shared memory */
    uint32_t heads;     /* at once */
    uint32_t room;      /* of pairs, stretches of a head; a multiple of FOLD_AHEAD */
    uint32_t quarter;   /* of the head's elements, that the thread has */
    uint32_t index;     /* of the thread's head among them */
    const float *from;  /* the head's first stretch */
    float M, L;
    float4 O;

    __device__ __forceinline__ folder(const struct mtr_attention_args &args,
                                      const struct single &single, uint8_t *memory)
        : a(args), w(single), pairs((float2 *)memory), heads(4 * SINGLE_WORKERS / args.head_dim)
    {
        room = MEETING_BYTES / sizeof(float2) / heads / FOLD_AHEAD * FOLD_AHEAD;
        index = threadIdx.x / (a.head_dim / 4);
        quarter = threadIdx.x % (a.head_dim / 4);
    }

    __device__ __forceinline__ uint32_t pitch() const
    {
        return a.head_dim + MTR_ATTENTION_EXTRA;
    }

    __device__ __forceinline__ void load(float4 (&o)[FOLD_AHEAD], uint32_t n) const
    {
#pragma unroll
        for (uint32_t i = 0; i < FOLD_AHEAD; i++)
            if (n + i < w.count)
                o[i] = __ldcg((const float4 *)(from + (uint64_t)(n + i) * pitch()) + quarter);
    }

    /* Maxima and weights of stretches from n on, by all threads. */
    __device__ __forceinline__ void load_pairs(uint32_t head, uint32_t n) const
    {
        const uint32_t some = min(room, w.count - n);
        for (uint32_t i = threadIdx.x; i < heads * some; i += SINGLE_WORKERS) {
            const uint32_t h = i / some, s = i % some;
            if (head + h >= w.group)
                break;
            const float *at = scratch_of(a, w, w.kv_head * w.group + head + h, w.first + n + s);
            pairs[h * room + s] = __ldcg((const float2 *)(at + a.head_dim));
        }
    }

    __device__ __forceinline__ void add(const float4 (&o)[FOLD_AHEAD], uint32_t n)
    {
#pragma unroll
        for (uint32_t i = 0; i < FOLD_AHEAD; i++) {
            if (n + i >= w.count)
                return;
            const float2 pair = pairs[index * room + (n + i) % room];
            const struct factors f = fold(&M, &L, pair.x, pair.y);
            O.x = fold_value(O.x, o[i].x, f);
            O.y = fold_value(O.y, o[i].y, f);
            O.z = fold_value(O.z, o[i].z, f);
            O.w = fold_value(O.w, o[i].w, f);
        }
    }

    /* Heads [head, head + heads) of the group. */
    __device__ __forceinline__ void run(uint32_t head)
    {
        const bool mine = index < heads && head + index < w.group;
        const uint32_t of = w.kv_head * w.group + head + index;
        float4 o[FOLD_AHEAD], next[FOLD_AHEAD];
        from = scratch_of(a, w, mine ? of : w.kv_head * w.group, w.first);
        M = -CUDART_INF_F, L = 0.0f, O = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (mine)
            load(next, 0);
        for (uint32_t n = 0; n < w.count; n += FOLD_AHEAD) {
            if (n % room == 0) {
                device::sync_some<SINGLE_WORKERS>(1);
                load_pairs(head, n);
                device::sync_some<SINGLE_WORKERS>(1);
            }
            if (!mine)
                continue;
#pragma unroll
            for (uint32_t i = 0; i < FOLD_AHEAD; i++)
                o[i] = next[i];
            load(next, n + FOLD_AHEAD);
            add(o, n);
        }
        if (mine)
            store(of);
    }

    __device__ __forceinline__ void store(uint32_t head) const
    {
        const float f = final_factor(a, head, M, L);
        uint16_t *out = (uint16_t *)a.out + ((uint64_t)w.row * a.heads + head) * a.head_dim;
        *((uint2 *)out + quarter) =
            make_uint2(mtr_bf16_pair(__fmul_rn(O.x, f), __fmul_rn(O.y, f)),
                       mtr_bf16_pair(__fmul_rn(O.z, f), __fmul_rn(O.w, f)));
    }
};

MTR_DEVICE void fold_scratch(const struct mtr_attention_args &a, const struct single &w,
                             uint8_t *memory)
{
    struct folder f(a, w, memory);
    for (uint32_t head = 0; head < w.group; head += f.heads)
        f.run(head);
    device::sync_some<SINGLE_WORKERS>(1); /* the next run writes to the same memory */
}

} /* namespace attention */

#endif
