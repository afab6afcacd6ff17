// SPDX-License-Identifier: MIT OR Apache-2.0
//
// linear.cuh's tiles by the warpgroup instruction, for prompts and for steps of many lanes.
//
// Prompts: there are as many blocks as processors, each takes one tile after the other: while two
// warpgroups (64 weight rows each; of a gated unit one has the gates and the other what they gate)
// bring the sums of a tile out, PASS tokens at a time through shared memory, the copying warp fills
// the stages for the next.
//
// Many lanes: a block has one tile of 64 weight rows, with stages small enough for two blocks a
// processor. What binds there is the way from the L2 cache to the processors: with half as many
// rows a block, tokens would travel twice as often.
#pragma once

#include "kernels/gb10/common/linear.cuh"
#include "kernels/hopper/common/wgmma.cuh"

namespace wide {

constexpr int PASS = 64; // tokens

template <int COLS, int STAGES>
struct tile : linear::tile<128, COLS, 64, STAGES, 256, 128> {
    using base = linear::tile<128, COLS, 64, STAGES, 256, 128>;
    static constexpr int SHARED_BYTES =
        MTR_PIPE_BYTES + STAGES * base::STAGE_BYTES + PASS * base::PITCH * 4;
};

template <int COLS, int STAGES>
using tall = linear::tile<64, COLS, 64, STAGES, 128, 32>;

// The tiles of a launch, and which of them a block has.
template <class S>
struct work {
    uint32_t width, height, tokens;

    __device__ explicit work(const struct mtr_linear_args &a)
        : width(0), tokens(device::row_count(a.step, a.rows_kind))
    {
        uint32_t outputs = a.epilogue == MTR_EPILOGUE_GLU ? S::ROWS / 2 : S::ROWS;
        for (uint32_t i = 0; i < linear::part_count(a); i++)
            width += (a.part[i].n + outputs - 1) / outputs;
        height = (tokens + S::COLS - 1) / S::COLS;
    }

    // do_tile(block) for each tile of this block.
    template <class F>
    __device__ void each(const struct mtr_linear_args &a, F do_tile) const
    {
        for (uint32_t id = blockIdx.x; id < width * height; id += gridDim.x)
            do_tile(linear::block<S>(a, linear::find_tile(id, width, height)));
    }
};

template <class S>
__device__ inline void copy_tiles(const struct mtr_linear_args &a, const work<S> &w,
                                  const typename S::pipe &p)
{
    uint32_t use = 0;
    w.each(a, [&](const linear::block<S> &b) {
        for (uint32_t c = 0; c < b.chunks; c++, use++) {
            p.claim(use);
            b.copy_weights(p, use, c);
            b.copy_tokens(p, use, c);
        }
    });
}

// The sums of a tile. Returns how many stages were used so far.
template <class S>
__device__ inline uint32_t multiply(float (&acc)[S::COLS / 2], const linear::block<S> &b,
                                    const typename S::pipe &p, uint32_t use)
{
    uint32_t group = threadIdx.x / 128;
    bool speaks = threadIdx.x % 32 == 0;
#pragma unroll
    for (int i = 0; i < S::COLS / 2; i++)
        acc[i] = 0;
    for (uint32_t c = 0; c < b.chunks; c++, use++) {
        p.wait(use);
        uint32_t weights = p.stage(use) + group * 64 * 128, tokens = p.stage(use) + S::WEIGHT_BYTES;
        hopper::begin_products();
#pragma unroll
        for (int k = 0; k < S::KC / 16; k++)
            hopper::product<S::COLS>::add(acc, hopper::operand(weights + k * 32),
                                          hopper::operand(tokens + k * 32));
        hopper::commit_products();
        hopper::wait_products<1>(); // those of the stage before
        if (c > 0 && speaks)
            p.release(use - 1);
    }
    hopper::wait_products<0>();
    if (speaks)
        p.release(use - 1);
    return use;
}

template <class S>
__device__ inline void write_tile(const float (&acc)[S::COLS / 2], const linear::block<S> &b,
                                  float *staged, uint32_t tokens)
{
    uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int pass = 0; pass < S::COLS; pass += PASS) {
        device::sync_some<S::COMPUTE>(1); // what was staged before is out
#pragma unroll
        for (int i = 0; i < PASS / 2; i++) {
            uint32_t col = i / 4 * 8 + lane % 4 * 2 + (i & 1);
            staged[col * S::PITCH + row + (i & 2 ? 8 : 0)] = acc[pass / 2 + i];
        }
        device::sync_some<S::COMPUTE>(1);
        linear::write_result<PASS>(b, staged, b.token0 + pass, tokens, threadIdx.x);
    }
}

template <class S>
__device__ inline void run(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::COMPUTE / 32);
    __syncthreads();
    device::let_successor_start();
    device::wait_for_predecessor();
    work<S> w(args);
    if (threadIdx.x >= S::COMPUTE) {
        hopper::fewer_registers<24>();
        if (threadIdx.x == S::COMPUTE)
            copy_tiles<S>(args, w, p);
    } else {
        hopper::more_registers<240>();
        uint32_t stages = p.stages - p.barriers + S::STAGES * S::STAGE_BYTES, use = 0;
        float *staged = reinterpret_cast<float *>(memory + stages), acc[S::COLS / 2];
        w.each(args, [&](const linear::block<S> &b) {
            use = multiply<S>(acc, b, p, use);
            write_tile<S>(acc, b, staged, w.tokens);
        });
    }
}

template <class S>
__device__ inline void run_tall(const struct mtr_linear_args &args)
{
    linear::run<S>(args, [](const linear::block<S> &b, const typename S::pipe &p, float *staged) {
        float acc[S::COLS / 2];
        multiply<S>(acc, b, p, 0);
        write_tile<S>(acc, b, staged, device::row_count(b.a.step, b.a.rows_kind));
    });
}

} // namespace wide
