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

// Which part and which of its outputs a tile has.
struct place {
    const struct mtr_linear_part *part;
    uint32_t first; // output
    bool outside;   // beyond all parts
};

__device__ inline uint32_t part_count(const struct mtr_linear_args &a)
{
    return a.epilogue == MTR_EPILOGUE_GLU ? 1 : a.parts;
}

__device__ inline place find_place(const struct mtr_linear_args &a, uint32_t tile, uint32_t outputs)
{
    for (uint32_t i = 0; i < part_count(a); i++) {
        uint32_t tiles = (a.part[i].n + outputs - 1) / outputs;
        if (tile < tiles)
            return {&a.part[i], tile * outputs, false};
        tile -= tiles;
    }
    return {nullptr, 0, true};
}

// Tile number `id` of width x height. Row tiles go in groups, so that tiles which are worked on at
// once share weights as well as tokens.
__device__ inline uint2 find_tile(uint32_t id, uint32_t width, uint32_t height)
{
    constexpr uint32_t GROUP = 8;
    uint32_t first = id / (GROUP * width) * GROUP, rows = min(GROUP, height - first);
    uint32_t rest = id - first * width;
    return make_uint2(rest / rows, first + rest % rows);
}

// One tile of the product. Stages are used in turn: `use` counts them from the block's start.
template <class S>
struct block {
    const struct mtr_linear_args &a;
    place at;
    uint32_t token0, chunks;
    bool glu;

    __device__ block(const struct mtr_linear_args &args, uint2 tile)
        : a(args), token0(tile.y * S::COLS), chunks((args.k + S::KC - 1) / S::KC),
          glu(args.epilogue == MTR_EPILOGUE_GLU)
    {
        at = find_place(a, tile.x, glu ? S::ROWS / 2 : S::ROWS);
    }

    __device__ void copy_weights(const typename S::pipe &p, uint32_t use, uint32_t c) const
    {
        const struct mtr_tensor_map *second = glu ? &a.part[1].map : &at.part->map;
        uint32_t row = glu ? at.first : at.first + S::ROWS / 2, to = p.stage(use);
#pragma unroll
        for (int b = 0; b < S::BOXES; b++, to += S::ROWS * 128) {
            uint32_t col = c * S::KC + b * BOX;
            device::copy_box(to, &at.part->map, col, at.first, p.full(use));
            device::copy_box(to + S::ROWS * 64, second, col, row, p.full(use));
        }
    }

    __device__ void copy_tokens(const typename S::pipe &p, uint32_t use, uint32_t c) const
    {
        uint32_t to = p.stage(use) + S::WEIGHT_BYTES;
#pragma unroll
        for (int b = 0; b < S::BOXES; b++, to += S::COLS * 128)
            device::copy_box(to, &a.x_map, c * S::KC + b * BOX, token0, p.full(use));
    }

    // By one thread. Weights are nobody's output: their first stages may come before the
    // predecessor is done.
    __device__ void copy(const typename S::pipe &p) const
    {
        uint32_t ahead = chunks < S::STAGES ? chunks : S::STAGES;
        for (uint32_t c = 0; c < ahead; c++) {
            p.claim(c);
            copy_weights(p, c, c);
        }
        device::wait_for_predecessor();
        for (uint32_t c = 0; c < ahead; c++)
            copy_tokens(p, c, c);
        for (uint32_t c = ahead; c < chunks; c++) {
            p.claim(c);
            copy_weights(p, c, c);
            copy_tokens(p, c, c);
        }
    }
};

// Shared address of a 16-byte piece of a tile of rows of 128 bytes.
__device__ inline uint32_t piece_at(uint32_t base, uint32_t row, uint32_t piece)
{
    return base + row * 128 + ((piece ^ (row & 7)) << 4);
}

// Fragments of a warp's tiles for 16 of K.
template <class S>
struct fragments {
    uint32_t a[S::TILES_M][4], b[S::TILES_N][2];
};

// Where a warp's fragments lie in a stage.
template <class S>
struct reader {
    uint32_t row_a, half_a, row_b, half_b;

    __device__ reader()
    {
        uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        uint32_t wm = warp % S::WARPS_M, wn = warp / S::WARPS_M;
        row_a = wm * S::TILES_M * 16 + lane % 16;
        half_a = lane / 16;
        row_b = wn * S::TILES_N * 8 + (lane & 7) + (S::TILES_N > 1 && lane & 16 ? 8 : 0);
        half_b = lane >> 3 & 1;
    }

    // Step k of the stage.
    __device__ void load(fragments<S> &f, uint32_t stage, int k) const
    {
        uint32_t a = stage + k / 4 * S::ROWS * 128;
        uint32_t b = stage + S::WEIGHT_BYTES + k / 4 * S::COLS * 128, piece = k % 4 * 2;
#pragma unroll
        for (int i = 0; i < S::TILES_M; i++)
            device::load_matrix4(f.a[i], piece_at(a, row_a + i * 16, piece + half_a));
        // Two n8 tiles at once: lanes 0-15 address the first, 16-31 the second.
        if constexpr (S::TILES_N == 1)
            device::load_matrix2(f.b[0], piece_at(b, row_b, piece + half_b));
        else
#pragma unroll
            for (int j = 0; j < S::TILES_N; j += 2)
                device::load_matrix4(f.b[j][0], f.b[j][1], f.b[j + 1][0], f.b[j + 1][1],
                                     piece_at(b, row_b + j * 8, piece + half_b));
    }
};

template <class S>
__device__ inline void multiply(float (&acc)[S::TILES_M][S::TILES_N][4], const fragments<S> &f)
{
#pragma unroll
    for (int i = 0; i < S::TILES_M; i++)
#pragma unroll
        for (int j = 0; j < S::TILES_N; j++)
            device::mma(acc[i][j], f.a[i], f.b[j]);
}

// The sums of a tile. Fragments are read AHEAD steps before they are multiplied, over the ends of
// stages: with few warps a processor nothing else hides how long that takes, and the chain of
// products of a long row would be most of a step.
template <class S>
__device__ inline void multiply_all(float (&acc)[S::TILES_M][S::TILES_N][4],
                                    const typename S::pipe &p, uint32_t chunks)
{
    constexpr int STEPS = S::KC / 16, HELD = 4, AHEAD = HELD - 1;
    static_assert(STEPS % HELD == 0, "a step's fragments lie at the same place in all stages");
    reader<S> r;
    fragments<S> f[HELD];
    p.wait(0);
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        r.load(f[k], p.stage(0), k);
    for (uint32_t c = 0; c < chunks; c++) {
        bool more = c + 1 < chunks;
#pragma unroll
        for (int k = 0; k < STEPS; k++) {
            int next = k + AHEAD;
            if (next < STEPS)
                r.load(f[next % HELD], p.stage(c), next);
            if (next == STEPS) {
                __syncwarp(); // all lanes have read the stage
                if (threadIdx.x % 32 == 0)
                    p.release(c);
                if (more)
                    p.wait(c + 1);
            }
            if (next >= STEPS && more)
                r.load(f[next % HELD], p.stage(c + 1), next - STEPS);
            multiply<S>(acc, f[k % HELD]);
        }
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

// ---- from sums to outputs ----

__device__ inline float number(float y)
{
    return y;
}

__device__ inline float number(__nv_bfloat16 y)
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

// V elements in one access.
template <class T, int V>
struct __align__(sizeof(T) * V) elements {
    T e[V];
};

// The outputs of one thread: V side by side, of every STEP-th token from token0 on, AT_ONCE of them
// at a time, so that what they are added to comes together.
template <class S, class T, bool GLU, int TOKENS>
struct writer {
    static constexpr int OUTPUTS = GLU ? S::ROWS / 2 : S::ROWS;
    static constexpr int V = OUTPUTS >= 128 ? 4 : OUTPUTS >= 64 ? 2 : 1;
    static constexpr int ACROSS = OUTPUTS / V, STEP = S::COMPUTE / ACROSS;
    static constexpr int STEPS = TOKENS / STEP > 0 ? TOKENS / STEP : 1;
    static constexpr int AT_ONCE = STEPS < 2 ? STEPS : 2;
    using vector = elements<T, V>;

    // Copies: a store to y might change the arguments, for all that the compiler knows.
    T *y;            // of the thread's first output
    uint32_t stride; // from token to token
    float multiplier, bias[V], other[V];
    uint32_t activation;
    uint32_t first, count; // of the block's outputs
    bool add, whole;       // all V are there, and one access reaches them

    __device__ writer(const block<S> &b, uint32_t thread)
    {
        const struct mtr_linear_part &p = *b.at.part;
        first = thread % ACROSS * V;
        uint32_t left = p.n - b.at.first, output = b.at.first + first;
        count = first < left ? min(uint32_t(V), left - first) : 0;
        y = static_cast<T *>(p.y) + output;
        stride = p.y_stride;
        multiplier = b.a.multiplier;
        activation = b.a.activation;
        add = b.a.epilogue == MTR_EPILOGUE_ADD;
        whole = count == V && stride % V == 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            bias[v] = bias_of(p, output, v);
            other[v] = GLU ? bias_of(b.a.part[1], output, v) : 0;
        }
    }

    __device__ float bias_of(const struct mtr_linear_part &p, uint32_t output, int v) const
    {
        return p.bias && v < count ? static_cast<const float *>(p.bias)[output + v] : 0;
    }

    __device__ T *at(uint32_t token) const
    {
        return y + size_t(token) * stride;
    }

    __device__ float value(const float *sums, int v) const
    {
        float gate = multiplier * sums[first + v] + bias[v];
        if (!GLU)
            return gate;
        return device::activate(gate, activation) *
               (multiplier * sums[OUTPUTS + first + v] + other[v]);
    }

    __device__ void write(uint32_t token, const float *sums, const vector &old) const
    {
        vector out;
#pragma unroll
        for (int v = 0; v < V; v++)
            put(&out.e[v], value(sums, v) + number(old.e[v]));
        if (whole) {
            *reinterpret_cast<vector *>(at(token)) = out;
            return;
        }
        for (int v = 0; v < count; v++)
            at(token)[v] = out.e[v];
    }

    __device__ vector old(uint32_t token) const
    {
        vector before;
        if (add && whole)
            return *reinterpret_cast<const vector *>(at(token));
#pragma unroll
        for (int v = 0; v < V; v++)
            if (add && v < count)
                before.e[v] = at(token)[v];
            else
                put(&before.e[v], -0.0f); // adding it changes nothing, not even a zero's sign
        return before;
    }

    // staged [TOKENS][PITCH] are the sums of tokens from `token` on, of which there are `tokens`.
    __device__ void run(const float *staged, uint32_t token, uint32_t tokens, uint32_t thread) const
    {
        for (uint32_t from = thread / ACROSS; from < TOKENS && count; from += STEP * AT_ONCE) {
            vector before[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (token + from + i * STEP < tokens)
                    before[i] = old(token + from + i * STEP);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                uint32_t t = from + i * STEP;
                if (t < TOKENS && token + t < tokens)
                    write(token + t, staged + t * S::PITCH, before[i]);
            }
        }
    }
};

// The staged sums of TOKENS tokens from `token` on to y.
template <int TOKENS, class S>
__device__ inline void write_result(const block<S> &b, const float *staged, uint32_t token,
                                    uint32_t tokens, uint32_t thread)
{
    if (b.a.y_f32)
        writer<S, float, false, TOKENS>(b, thread).run(staged, token, tokens, thread);
    else if (b.glu)
        writer<S, __nv_bfloat16, true, TOKENS>(b, thread).run(staged, token, tokens, thread);
    else
        writer<S, __nv_bfloat16, false, TOKENS>(b, thread).run(staged, token, tokens, thread);
}

template <class S>
__device__ inline void compute(const block<S> &b, const typename S::pipe &p, float *staged)
{
    float acc[S::TILES_M][S::TILES_N][4] = {};
    multiply_all<S>(acc, p, b.chunks);
    device::sync_some<S::COMPUTE>(1); // the stages are read: the result may go there
    stage_result<S>(acc, staged);
    device::sync_some<S::COMPUTE>(1);
    uint32_t tokens = device::row_count(b.a.step, b.a.rows_kind);
    write_result<S::COLS>(b, staged, b.token0, tokens, threadIdx.x);
}

// compute_tile(block, pipe, staged) by the threads that multiply; one of another warp copies.
template <class S, class F>
__device__ inline void run(const struct mtr_linear_args &args, F compute_tile)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    block<S> b(args, find_tile(blockIdx.y * gridDim.x + blockIdx.x, gridDim.x, gridDim.y));
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::COMPUTE / 32);
    __syncthreads();
    if (threadIdx.x == S::COMPUTE && !b.at.outside)
        b.copy(p);
    device::wait_for_predecessor();
    device::let_successor_start();
    unsigned char *staged = memory + (p.stages - device::shared_address(memory));
    if (threadIdx.x < S::COMPUTE && !b.at.outside)
        compute_tile(b, p, reinterpret_cast<float *>(staged));
}

template <class S>
__device__ inline void run(const struct mtr_linear_args &args)
{
    run<S>(args, [](const block<S> &b, const typename S::pipe &p, float *staged) {
        compute<S>(b, p, staged);
    });
}

} // namespace linear
