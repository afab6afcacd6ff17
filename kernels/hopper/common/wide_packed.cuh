// SPDX-License-Identifier: MIT OR Apache-2.0
//
// wide.cuh for matrices in the layout of packed.cuh. The warpgroup instruction takes weights from
// registers, so that they go through shared memory in four to eight bits, too. While the products
// of one 64 of K run, each warp decodes the next into its other registers.
#pragma once

#include "kernels/gb10/common/linear_packed.cuh"
#include "kernels/hopper/common/wgmma_registers.cuh"
#include "kernels/hopper/common/wide.cuh"

namespace wide
{

template <class F, int COLS, int STAGES>
struct packed_tile : linear::packed_tile<F, 8, COLS, 64, STAGES, 128> {
    using base = linear::packed_tile<F, 8, COLS, 64, STAGES, 128>;
    static constexpr int SHARED_BYTES =
        MTR_PIPE_BYTES + STAGES * base::STAGE_BYTES + PASS * base::PITCH * 4;
};

template <class S>
__device__ inline void copy_packed_tiles(const struct mtr_linear_args &a, const work<S> &w,
                                         const typename S::pipe &p)
{
    uint32_t use = 0;
    w.each(a, [&](const linear::block<S> &b) {
        linear::copier<S> copier(b, p);
        for (uint32_t c = 0; c < b.chunks; c++, use++) {
            copier.claim(use, c);
            copier.copy_boxes(use, c);
            copier.copy_strips(use, c);
        }
    });
}

// What a warp needs to know of its strip, and where it is in it.
template <class S> struct walk {
    const typename S::pipe &p;
    linear::block_scales<S> scales;
    uint32_t use, lane, warp;

    // The products of chunk c run on return; `f` are theirs until the next chunk's run.
    __device__ void step(float (&acc)[S::COLS / 2], packed::fragment &f, uint32_t c)
    {
        scales.turn(c);
        p.wait(use);
        uint32_t stage = p.stage(use);
        linear::decode_piece(f, stage + S::TOKEN_BYTES + warp * S::STRIP_BYTES, c, 0, scales, lane);
        hopper::begin_products();
#pragma unroll
        for (int k = 0; k < 4; k++)
            hopper::product_by_registers<S::COLS>::add(acc, f[k], hopper::operand(stage + k * 32));
        hopper::commit_products();
        hopper::wait_products<1>(); // those of the chunk before
        if (c > 0 && lane == 0)
            p.release(use - 1);
        use++;
    }
};

// The sums of a tile. Returns how many stages were used so far.
template <class S>
__device__ inline uint32_t multiply_packed(float (&acc)[S::COLS / 2], const linear::block<S> &b,
                                           const typename S::pipe &p, uint32_t use)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    linear::strip s(b, warp);
    walk<S> w = {p, linear::block_scales<S>(s, b.a.k), use, lane, warp};
    packed::fragment even, odd;
#pragma unroll
    for (int i = 0; i < S::COLS / 2; i++)
        acc[i] = 0;
    for (uint32_t c = 0; c + 1 < b.chunks; c += 2) {
        w.step(acc, even, c);
        w.step(acc, odd, c + 1);
    }
    if (b.chunks % 2)
        w.step(acc, even, b.chunks - 1);
    hopper::wait_products<0>();
    if (lane == 0)
        p.release(w.use - 1);
    float scale[2];
    linear::row_scales<S>(scale, s, lane);
#pragma unroll
    for (int i = 0; i < S::COLS / 2; i++)
        acc[i] *= scale[i / 2 % 2];
    return w.use;
}

template <class S> __device__ inline void run_packed(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::STRIPS);
    __syncthreads();
    device::let_successor_start();
    device::wait_for_predecessor();
    work<S> w(args);
    if (threadIdx.x >= S::COMPUTE) {
        hopper::fewer_registers<40>();
        if (threadIdx.x < S::COMPUTE + 32)
            copy_packed_tiles<S>(args, w, p);
    } else {
        hopper::more_registers<232>();
        uint32_t stages = p.stages - p.barriers + S::STAGES * S::STAGE_BYTES, use = 0;
        float *staged = reinterpret_cast<float *>(memory + stages), acc[S::COLS / 2];
        w.each(args, [&](const linear::block<S> &b) {
            use = multiply_packed<S>(acc, b, p, use);
            write_tile<S>(acc, b, staged, w.tokens);
        });
    }
}

template <class F> using packed_r256 = packed_tile<F, 256, 4>;

} // namespace wide
