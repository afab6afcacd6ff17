/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What attention for single rows and for tiles of rows have in common: the numerics, step by step,
 * so that both give a row the same bits.
 *
 * A row's history is cut at absolute multiples of STRETCH. A stretch is worth (o, m, l), computed
 * from its tiles of TILE tokens in order, each a step of the online softmax that starts anew with
 * the stretch:
 *
 *   m' = max(m, max of s)   a = 2^(m - m')   p[t] = 2^(s[t] - m')   l = l a + sum of p
 *   o = o a + p V           by m16n8k16 in steps of 16 tokens, p rounded to bf16
 *
 * with s[t] = q . K[t], by m16n8k16 in steps of 16 of the head, times scale and log2 e. Then the
 * stretch is folded into the row's running result (O, M, L):
 *
 *   M' = max(M, m)   a = 2^(M - M')   b = 2^(m - M')   L = L a + l b   O = O a + o b
 *
 * Sums of p: in a thread of the matrix layout, which holds tokens 2c, 2c + 1, 8 + 2c, 9 + 2c of
 * each sixteen (c = lane % 4), by sixteens, as a tree; l stays in the threads and is summed over
 * the four of a row when the stretch ends.
 *
 * A tile that a row does not see leaves its (o, m, l) as they are, to the bit (a is 1, p is 0; or
 * all is still 0), and so does a stretch its (O, M, L). So it does not matter which of them a block
 * passes over.
 *
 * Rows of the matrix instruction are pairs of row and query head, heads of one row side by side,
 * all of one kv head. Tiles that threads copy to shared memory are rows of PITCH elements whose
 * 16-byte pieces are swizzled: piece p of row r stands at p ^ (r & 7), so that the eight rows of a
 * matrix are in different banks; attention_pipe.cuh has another form.
 * (Milakov, Gimelshein 2018; Dao: "FlashAttention-2", 2023.)
 */
#ifndef MTR_GB10_ATTENTION_CUH
#define MTR_GB10_ATTENTION_CUH

#include <math_constants.h>

#include "kernels/args/attention.h"
#include "kernels/gb10/common/device.cuh"
#include "kernels/gb10/common/rows.cuh"

namespace attention
{

constexpr uint32_t TILE = 64, STRETCH = MTR_ATTENTION_DEVICE_STRETCH, TILES = STRETCH / TILE;
constexpr float LOG2_E = 1.44269504f;

/* Sizes for heads of up to DIM elements; those that a head lacks count as 0. */
template <int DIM_> struct shape {
    static constexpr int DIM = DIM_, PIECES = DIM / 8; /* of 16 bytes */
    static constexpr int PITCH = (DIM + 63) / 64 * 64; /* elements from row to row */
    static constexpr int ROW_BYTES = 2 * PITCH, TILE_BYTES = TILE * ROW_BYTES;
    static constexpr int STEPS = DIM / 16; /* of the matrix instruction along the head */
};

/* One lane's cache as one kv head sees it. */
struct history {
    const int32_t *table; /* block ids */
    uint32_t head;        /* elements before the kv head in a block */
    uint32_t rows;        /* of head_dim elements, the same */
    uint32_t first, end;  /* tokens that some row sees; the others may have no block */
};

MTR_DEVICE struct history history_of(const struct mtr_attention_args &a, uint32_t kv_head,
                                     uint32_t lane)
{
    const struct mtr_step_view *step = a.step;
    const uint64_t slot = (uint32_t)step->lane_slots[lane];
    const int32_t *table = step->tables[a.group] + slot * step->table_stride[a.group];
    return {table, kv_head * a.block_tokens * a.head_dim, kv_head * a.block_tokens, 0, 0};
}

/* The first token that a row at this position sees. */
MTR_DEVICE uint32_t first_seen(const struct mtr_attention_args &a, uint32_t position)
{
    return a.window && position >= a.window ? position - a.window + 1 : 0;
}

/* ---- copies ---- */

/*
 * Copies tiles of keys or values into shared memory, all threads of the block together. look()
 * finds the blocks of a tile ahead of time, copy() starts the copies of the tile last looked for.
 */
template <class S, int THREADS> struct copier {
    static constexpr int PASSES = TILE * S::PIECES / THREADS;
    /* A pass has whole rows, and sixteen tokens are in one block, unless the division is uneven. */
    static constexpr bool EVEN = THREADS % S::PIECES == 0 && PASSES > (int)TILE / 16;
    static constexpr int LOOKS = EVEN ? TILE / 16 : PASSES;
    int32_t blocks[LOOKS];
    uint32_t tile; /* first token */

    __device__ __forceinline__ static uint32_t token(int pass)
    {
        return (threadIdx.x + pass * THREADS) / S::PIECES;
    }

    __device__ __forceinline__ static uint32_t piece(int pass)
    {
        return (threadIdx.x + pass * THREADS) % S::PIECES;
    }

    __device__ __forceinline__ void look(const struct mtr_attention_args &a,
                                         const struct history &h, uint32_t first)
    {
        tile = first;
#pragma unroll
        for (int i = 0; i < LOOKS; i++) {
            uint32_t t = (tile + token(i * PASSES / LOOKS)) & ~15u;
            bool seen = t + 15 >= h.first && t < h.end;
            uint32_t block = a.block_tokens == 16 ? t / 16 : t / a.block_tokens;
            blocks[i] = seen ? h.table[block] : 0;
        }
    }

    __device__ __forceinline__ void copy(const struct mtr_attention_args &a,
                                         const struct history &h, const void *cache,
                                         uint32_t shared) const
    {
        const uint32_t stride = a.kv_heads * a.block_tokens * a.head_dim;
#pragma unroll
        for (int i = 0; i < PASSES; i++) {
            uint32_t row = token(i), t = tile + row;
            uint32_t inside = a.block_tokens == 16 ? t % 16 : t % a.block_tokens;
            uint32_t at = h.head + inside * a.head_dim + 8 * piece(i);
            bool seen = t >= h.first && t < h.end && 8 * piece(i) < a.head_dim;
            uint64_t from = (uint64_t)(uint32_t)blocks[i * LOOKS / PASSES] * stride + at;
            device::copy16(shared + row * S::ROW_BYTES + ((piece(i) ^ (row & 7)) << 4),
                           (const uint16_t *)cache + (seen ? from : 0), seen ? 16 : 0);
        }
    }
};

/* ---- matrices in shared memory ---- */

/*
 * Where a lane reads its rows for ldmatrix, in a tile or at any 16 rows of it (every row begins on
 * a multiple of ROW_BYTES, so that the pieces of a row are reached by exclusive or):
 *   a        16 rows x 16 of A, at pieces 2 i: ^ (i << 5)
 *   keys     16 tokens x 16 of the head as B, two n8 tiles: ^ (i << 5)
 *   values   16 tokens x 16 of the head as B, two n8 tiles, transposed: ^ (i << 5)
 */
template <class S> struct lanes {
    __device__ __forceinline__ static uint32_t at(uint32_t row, uint32_t piece)
    {
        return row * S::ROW_BYTES + ((piece ^ (row & 7)) << 4);
    }

    __device__ __forceinline__ static uint32_t a(uint32_t lane)
    {
        return at((lane & 7) + (lane & 8), lane >> 4);
    }

    __device__ __forceinline__ static uint32_t keys(uint32_t lane)
    {
        return at((lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
    }

    __device__ __forceinline__ static uint32_t values(uint32_t lane)
    {
        return at((lane & 7) + (lane & 8), lane >> 4);
    }
};

/* ---- scores ---- */

/* The factor from a score, as shape_scores() leaves it, to an exponent of 2. */
MTR_DEVICE float exponent_scale(const struct mtr_attention_args &a)
{
    return a.softcap != 0.0f ? LOG2_E : __fmul_rn(a.scale, LOG2_E);
}

MTR_DEVICE float soften(const struct mtr_attention_args &a, float s)
{
    return __fmul_rn(a.softcap, tanhf(__fdiv_rn(__fmul_rn(s, a.scale), a.softcap)));
}

/* Soft cap and mask of n8 tiles side by side; `token` is that of the thread's first element,
 * positions are those of its rows g and g + 8. */
template <int N>
MTR_DEVICE void shape_scores(const struct mtr_attention_args &a, float (&s)[N][4], bool mask,
                             uint32_t token, const uint32_t (&position)[2])
{
    if (a.softcap != 0.0f) {
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][e] = soften(a, s[n][e]);
    }
    if (!mask)
        return;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            uint32_t t = token + 8 * n + (e & 1), last = position[e >> 1];
            if (t > last || t < first_seen(a, last))
                s[n][e] = -CUDART_INF_F;
        }
}

/* Over the four threads of a row. */
MTR_DEVICE float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(MTR_ALL, v, 1));
    return fmaxf(v, __shfl_xor_sync(MTR_ALL, v, 2));
}

/* The largest score of a row (half 0: g, 1: g + 8) in the thread. */
template <int N> MTR_DEVICE float largest(const float (&s)[N][4], int half)
{
    float v = fmaxf(s[0][2 * half], s[0][2 * half + 1]);
#pragma unroll
    for (int n = 1; n < N; n++)
        v = fmaxf(v, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    return v;
}

/* ---- the online softmax ---- */

/* A maximum to subtract: that of a row which has seen nothing yet is any finite number. */
MTR_DEVICE float subtrahend(float m)
{
    return m == -CUDART_INF_F ? 0.0f : m;
}

/* Takes the largest score of a tile into m; returns a. */
MTR_DEVICE float raise(float *m, float largest, float scale)
{
    float old = *m;
    *m = fmaxf(old, __fmul_rn(largest, scale));
    return mtr_exp2(__fsub_rn(old, subtrahend(*m)));
}

MTR_DEVICE float weight(float s, float scale, float m)
{
    return mtr_exp2(__fmaf_rn(s, scale, -m));
}

/* Scores to weights, two n8 tiles and one row; returns the thread's part of their sum. */
MTR_DEVICE float weigh16(float (&first)[4], float (&second)[4], int half, float scale, float m)
{
    const int i = 2 * half;
    first[i] = weight(first[i], scale, m);
    first[i + 1] = weight(first[i + 1], scale, m);
    second[i] = weight(second[i], scale, m);
    second[i + 1] = weight(second[i + 1], scale, m);
    return __fadd_rn(__fadd_rn(first[i], first[i + 1]), __fadd_rn(second[i], second[i + 1]));
}

/* l after a tile of four times sixteen tokens. */
MTR_DEVICE float add_weights(float l, float a, const float (&sums)[4])
{
    return __fmaf_rn(l, a, __fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3])));
}

MTR_DEVICE float quad_sum(float v)
{
    return mtr_sum_lanes(v, 4);
}

/* ---- the running result ---- */

/* The factors of the old and of the stretch's result. */
struct factors {
    float old, added;
};

MTR_DEVICE struct factors fold(float *M, float *L, float m, float l)
{
    float top = fmaxf(*M, m), base = subtrahend(top);
    struct factors f = {mtr_exp2(__fsub_rn(*M, base)), mtr_exp2(__fsub_rn(m, base))};
    *M = top;
    *L = __fmaf_rn(l, f.added, __fmul_rn(*L, f.old));
    return f;
}

MTR_DEVICE float fold_value(float old, float added, struct factors f)
{
    return __fmaf_rn(added, f.added, __fmul_rn(old, f.old));
}

/* What the values of a row are multiplied with in the end; the sink logit joins the sum. */
MTR_DEVICE float final_factor(const struct mtr_attention_args &a, uint32_t head, float M, float L)
{
    float kept = 1.0f;
    if (a.sinks) {
        float sink = __fmul_rn(a.sinks[head], LOG2_E), top = fmaxf(M, sink);
        kept = mtr_exp2(__fsub_rn(M, top));
        L = __fmaf_rn(L, kept, mtr_exp2(__fsub_rn(sink, top)));
    }
    return __fdiv_rn(kept, L);
}

} /* namespace attention */

#endif
