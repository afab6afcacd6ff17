// SPDX-License-Identifier: MIT OR Apache-2.0
//
// y = x W^T on tensor cores, weights on the row side of the matrix instruction and the step's rows
// on its column side:
//
//            tokens (n8 tiles) ->
//   weights  +----+----+----+
//   (m16     |    |    |    |    D[16 x 8] += A[16 weights x 16 k] B[16 k x 8 tokens]
//    tiles)  +----+----+----+    k in steps of 16, in order, one accumulator an output
//
// So an output's sum is the same chain of instructions whatever the tile: a row's bits depend
// neither on the rows beside it nor on the shape. (PTX ISA, "mma.m16n8k16".)
//
// A block computes ROWS weight rows for COLS tokens. Of a gated unit the first half of the rows are
// gates and the second half what they gate, so that it has ROWS / 2 outputs. One thread of a warp
// of its own has the copy engine bring stages of KC columns of K, in boxes of 64 columns (rows of
// 128 bytes) whose 16-byte pieces are swizzled by row, which keeps ldmatrix free of bank conflicts:
//
//   stage   box 0: [ROWS / 2, 64] weights  [ROWS / 2, 64] weights    then box 1 of K, ...
//           box 0: [COLS, 64] tokens                                 then box 1 of K, ...
#pragma once

#include <cuda_bf16.h>
#include <stdint.h>

#include "kernels/args/linear.h"
#include "kernels/gb10/common/device.cuh"
#include "kernels/gb10/common/pipe.cuh"

namespace linear {

constexpr int BOX = MTR_TENSOR_MAP_COLS;

// What a block covers: COMPUTE threads multiply, one more warp or warpgroup copies.
template <int ROWS_, int COLS_, int KC_, int STAGES_, int COMPUTE_, int COPY_>
struct tile {
    static constexpr int ROWS = ROWS_, COLS = COLS_, KC = KC_, STAGES = STAGES_;
    static constexpr int COMPUTE = COMPUTE_, THREADS = COMPUTE_ + COPY_;
    static constexpr int BOXES = KC / BOX;
    static constexpr int WEIGHT_BYTES = ROWS * KC * 2, TOKEN_BYTES = COLS * KC * 2;
    static constexpr int STAGE_BYTES = WEIGHT_BYTES + TOKEN_BYTES;
    static constexpr int PITCH = ROWS + 4; // f32 elements between tokens of the staged result
    static constexpr int STAGED_BYTES = COLS * PITCH * 4;
    static constexpr int SHARED_BYTES =
        MTR_PIPE_BYTES +
        (STAGES * STAGE_BYTES > STAGED_BYTES ? STAGES * STAGE_BYTES : STAGED_BYTES);
    using pipe = ::pipe<STAGES, STAGE_BYTES>;
};

// The same, with how warps share it: WARPS_M x WARPS_N warps of TILES_M x TILES_N tiles each.
template <int WARPS_M_, int WARPS_N_, int TILES_M_, int TILES_N_, int KC_, int STAGES_>
struct shape : tile<16 * WARPS_M_ * TILES_M_, 8 * WARPS_N_ * TILES_N_, KC_, STAGES_,
                    32 * WARPS_M_ * WARPS_N_, 32> {
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
    static constexpr int TILES_M = TILES_M_, TILES_N = TILES_N_;
};

// Which part and which of its outputs a block has.
struct place {
    const struct mtr_linear_part *part;
    uint32_t first; // output
    bool outside;   // beyond all parts
};

__device__ inline place find_place(const struct mtr_linear_args &a, uint32_t tile, uint32_t outputs)
{
    uint32_t parts = a.epilogue == MTR_EPILOGUE_GLU ? 1 : a.parts;
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t tiles = (a.part[i].n + outputs - 1) / outputs;
        if (tile < tiles)
            return {&a.part[i], tile * outputs, false};
        tile -= tiles;
    }
    return {nullptr, 0, true};
}

// Row tiles in groups, so that blocks which run at once share weights as well as tokens.
__device__ inline void find_tile(uint32_t &x, uint32_t &y)
{
    constexpr uint32_t GROUP = 8;
    uint32_t id = blockIdx.y * gridDim.x + blockIdx.x;
    uint32_t first = id / (GROUP * gridDim.x) * GROUP;
    uint32_t height = min(GROUP, gridDim.y - first);
    uint32_t rest = id - first * gridDim.x;
    x = rest / height;
    y = first + rest % height;
}

// What a block works on.
template <class S>
struct block {
    const struct mtr_linear_args &a;
    place at;
    uint32_t token0, chunks;
    bool glu;

    __device__ explicit block(const struct mtr_linear_args &args)
        : a(args), chunks((args.k + S::KC - 1) / S::KC), glu(args.epilogue == MTR_EPILOGUE_GLU)
    {
        uint32_t x, y;
        find_tile(x, y);
        at = find_place(a, x, glu ? S::ROWS / 2 : S::ROWS);
        token0 = y * S::COLS;
    }

    __device__ void copy_weights(const typename S::pipe &p, uint32_t c) const
    {
        const struct mtr_tensor_map *second = glu ? &a.part[1].map : &at.part->map;
        uint32_t row = glu ? at.first : at.first + S::ROWS / 2, to = p.stage(c);
#pragma unroll
        for (int b = 0; b < S::BOXES; b++, to += S::ROWS * 128) {
            uint32_t col = c * S::KC + b * BOX;
            device::copy_box(to, &at.part->map, col, at.first, p.full(c));
            device::copy_box(to + S::ROWS * 64, second, col, row, p.full(c));
        }
    }

    __device__ void copy_tokens(const typename S::pipe &p, uint32_t c) const
    {
        uint32_t to = p.stage(c) + S::WEIGHT_BYTES;
#pragma unroll
        for (int b = 0; b < S::BOXES; b++, to += S::COLS * 128)
            device::copy_box(to, &a.x_map, c * S::KC + b * BOX, token0, p.full(c));
    }

    // By one thread. Weights are nobody's output: their first stages may come before the
    // predecessor is done.
    __device__ void copy(const typename S::pipe &p) const
    {
        uint32_t ahead = chunks < S::STAGES ? chunks : S::STAGES;
        for (uint32_t c = 0; c < ahead; c++) {
            p.claim(c);
            copy_weights(p, c);
        }
        device::wait_for_predecessor();
        for (uint32_t c = 0; c < ahead; c++)
            copy_tokens(p, c);
        for (uint32_t c = ahead; c < chunks; c++) {
            p.claim(c);
            copy_weights(p, c);
            copy_tokens(p, c);
        }
    }
};

// Shared address of a 16-byte piece of a tile of rows of 128 bytes.
__device__ inline uint32_t piece_at(uint32_t base, uint32_t row, uint32_t piece)
{
    return base + row * 128 + ((piece ^ (row & 7)) << 4);
}

template <class S>
__device__ inline void multiply(float (&acc)[S::TILES_M][S::TILES_N][4], uint32_t stage)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t wm = warp % S::WARPS_M, wn = warp / S::WARPS_M;
    uint32_t row_a = wm * S::TILES_M * 16 + lane % 16, half_a = lane / 16;
    uint32_t row_b = wn * S::TILES_N * 8 + (lane & 7) + (S::TILES_N > 1 && lane & 16 ? 8 : 0);
    uint32_t half_b = lane >> 3 & 1;
#pragma unroll
    for (int k = 0; k < S::KC / 16; k++) {
        uint32_t a = stage + k / 4 * S::ROWS * 128;
        uint32_t b = stage + S::WEIGHT_BYTES + k / 4 * S::COLS * 128, piece = k % 4 * 2;
        uint32_t fa[S::TILES_M][4], fb[S::TILES_N][2];
#pragma unroll
        for (int i = 0; i < S::TILES_M; i++)
            device::load_matrix4(fa[i], piece_at(a, row_a + i * 16, piece + half_a));
        // Two n8 tiles at once: lanes 0-15 address the first, 16-31 the second.
        if constexpr (S::TILES_N == 1)
            device::load_matrix2(fb[0], piece_at(b, row_b, piece + half_b));
        else
#pragma unroll
            for (int j = 0; j < S::TILES_N; j += 2)
                device::load_matrix4(fb[j][0], fb[j][1], fb[j + 1][0], fb[j + 1][1],
                                     piece_at(b, row_b + j * 8, piece + half_b));
#pragma unroll
        for (int i = 0; i < S::TILES_M; i++)
#pragma unroll
            for (int j = 0; j < S::TILES_N; j++)
                device::mma(acc[i][j], fa[i], fb[j]);
    }
}

// Accumulators to shared memory, [token][row of the tile] f32.
template <class S>
__device__ inline void stage_result(const float (&acc)[S::TILES_M][S::TILES_N][4], float *out)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t wm = warp % S::WARPS_M, wn = warp / S::WARPS_M;
#pragma unroll
    for (int i = 0; i < S::TILES_M; i++)
#pragma unroll
        for (int j = 0; j < S::TILES_N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                uint32_t row = (wm * S::TILES_M + i) * 16 + lane / 4 + (e & 2 ? 8 : 0);
                uint32_t col = (wn * S::TILES_N + j) * 8 + lane % 4 * 2 + (e & 1);
                out[col * S::PITCH + row] = acc[i][j][e];
            }
}

__device__ inline float biased(float sum, const struct mtr_linear_args &a,
                               const struct mtr_linear_part &p, uint32_t n)
{
    float y = a.multiplier * sum;
    return p.bias ? y + static_cast<const float *>(p.bias)[n] : y;
}

// Output i of the block from the staged sums of its token.
template <class S>
__device__ inline float output_of(const block<S> &b, const float *sums, uint32_t i)
{
    float y = biased(sums[i], b.a, *b.at.part, b.at.first + i);
    if (!b.glu)
        return y;
    float up = biased(sums[S::ROWS / 2 + i], b.a, b.a.part[1], b.at.first + i);
    return device::activate(y, b.a.activation) * up;
}

__device__ inline float old_value(float y)
{
    return y;
}

__device__ inline float old_value(__nv_bfloat16 y)
{
    return __bfloat162float(y);
}

__device__ inline void put(float *y, float value)
{
    *y = value;
}

__device__ inline void put(__nv_bfloat16 *y, float value)
{
    *y = __float2bfloat16(value);
}

// Two outputs side by side in one store.
__device__ inline void put2(float *y, float a, float b)
{
    *reinterpret_cast<float2 *>(y) = make_float2(a, b);
}

__device__ inline void put2(__nv_bfloat16 *y, float a, float b)
{
    *reinterpret_cast<__nv_bfloat162 *>(y) = __floats2bfloat162_rn(a, b);
}

// The staged tile to y: consecutive threads write consecutive outputs.
template <class S, class T>
__device__ inline void write_result(const block<S> &b, const float *staged, uint32_t thread)
{
    const struct mtr_linear_part &p = *b.at.part;
    uint32_t tokens = device::row_count(b.a.step, b.a.rows_kind);
    uint32_t outputs = min(uint32_t(b.glu ? S::ROWS / 2 : S::ROWS), p.n - b.at.first);
    uint32_t rows = b.token0 < tokens ? min(uint32_t(S::COLS), tokens - b.token0) : 0;
    uint32_t pairs = (outputs + 1) / 2;
    bool add = b.a.epilogue == MTR_EPILOGUE_ADD, even = p.y_stride % 2 == 0;
    for (uint32_t i = thread; i < rows * pairs; i += S::COMPUTE) {
        uint32_t t = i / pairs, c = i % pairs * 2;
        const float *sums = staged + t * S::PITCH;
        T *y = static_cast<T *>(p.y) + size_t(b.token0 + t) * p.y_stride + b.at.first + c;
        bool both = c + 1 < outputs;
        float y0 = output_of(b, sums, c), y1 = both ? output_of(b, sums, c + 1) : 0;
        if (add) {
            y0 += old_value(y[0]);
            y1 += both ? old_value(y[1]) : 0;
        }
        if (both && even) {
            put2(y, y0, y1);
            continue;
        }
        put(y, y0);
        if (both)
            put(y + 1, y1);
    }
}

template <class S>
__device__ inline void write_result(const block<S> &b, const float *staged, uint32_t thread)
{
    if (b.a.y_f32)
        write_result<S, float>(b, staged, thread);
    else
        write_result<S, __nv_bfloat16>(b, staged, thread);
}

template <class S>
__device__ inline void compute(const block<S> &b, const typename S::pipe &p, float *staged)
{
    float acc[S::TILES_M][S::TILES_N][4] = {};
    for (uint32_t c = 0; c < b.chunks; c++) {
        p.wait(c);
        multiply<S>(acc, p.stage(c));
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            p.release(c);
    }
    device::sync_some<S::COMPUTE>(1); // the stages are read: the result may go there
    stage_result<S>(acc, staged);
    device::sync_some<S::COMPUTE>(1);
    write_result(b, staged, threadIdx.x);
}

template <class S>
__device__ inline void run(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    block<S> b(args);
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::COMPUTE / 32);
    __syncthreads();
    if (threadIdx.x == S::COMPUTE && !b.at.outside)
        b.copy(p);
    device::wait_for_predecessor();
    device::let_successor_start();
    if (threadIdx.x < S::COMPUTE && !b.at.outside)
        compute(b, p,
                reinterpret_cast<float *>(memory + (p.stages - device::shared_address(memory))));
}

} // namespace linear
