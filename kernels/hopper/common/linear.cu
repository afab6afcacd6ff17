// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Module "linear" on Hopper. Steps of few rows are bound by reading weights and run the parent's
// kernel; larger ones run here, on the warpgroup instruction, which sums as mma.sync does: the
// shapes agree in every byte (tests/check/kernel-check). Two warpgroups of 64 weight rows each
// multiply; of a gated unit one has the gates and the other what they gate.
#include "kernels/gb10/common/linear.cuh"
#include "kernels/hopper/common/wgmma.cuh"

namespace
{

template <int COLS, int STAGES> using wide = linear::tile<128, COLS, 64, STAGES, 256, 128>;

template <class S>
__device__ inline void compute_wide(const linear::block<S> &b, const typename S::pipe &p,
                                    float *staged)
{
    uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc[S::COLS / 2] = {};
    for (uint32_t c = 0; c < b.chunks; c++) {
        p.wait(c);
        uint32_t weights = p.stage(c) + warp / 4 * 64 * 128, tokens = p.stage(c) + S::WEIGHT_BYTES;
        hopper::begin_products();
#pragma unroll
        for (int k = 0; k < S::KC / 16; k++)
            hopper::product<S::COLS>::add(acc, hopper::operand(weights + k * 32),
                                          hopper::operand(tokens + k * 32));
        hopper::commit_products();
        hopper::wait_products<1>(); // those of the stage before
        if (c > 0 && lane == 0)
            p.release(c - 1);
    }
    hopper::wait_products<0>();
    device::sync_some<S::COMPUTE>(1); // the stages are read: the result may go there
#pragma unroll
    for (int i = 0; i < S::COLS / 2; i++) {
        uint32_t row = warp * 16 + lane / 4 + (i & 2 ? 8 : 0);
        uint32_t col = i / 4 * 8 + lane % 4 * 2 + (i & 1);
        staged[col * S::PITCH + row] = acc[i];
    }
    device::sync_some<S::COMPUTE>(1);
    linear::write_result(b, staged, threadIdx.x);
}

template <class S> __device__ inline void run_wide(const struct mtr_linear_args &args)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    linear::block<S> b(args);
    typename S::pipe p(memory);
    if (threadIdx.x == 0)
        p.init(S::COMPUTE / 32);
    __syncthreads();
    if (b.at.outside) {
        device::wait_for_predecessor();
        return;
    }
    if (threadIdx.x >= S::COMPUTE) {
        hopper::fewer_registers<40>();
        if (threadIdx.x == S::COMPUTE)
            b.copy(p);
    } else {
        hopper::more_registers<232>();
        device::wait_for_predecessor();
        device::let_successor_start();
        compute_wide<S>(b, p, reinterpret_cast<float *>(memory + (p.stages - p.barriers)));
    }
}

//                        warps  tiles   k  stages
using r8 = linear::shape<2, 1, 1, 1, 128, 6>;
using r16 = linear::shape<2, 1, 1, 2, 128, 5>;
using r32 = linear::shape<2, 1, 1, 4, 128, 4>;
using r64 = linear::shape<2, 2, 1, 4, 128, 4>;
using r128 = wide<128, 5>;
using r256 = wide<256, 4>;

static_assert(r8::SHARED_BYTES == 63488 && r16::SHARED_BYTES == 63488 &&
                  r32::SHARED_BYTES == 67584 && r64::SHARED_BYTES == 100352 &&
                  r128::SHARED_BYTES == 165888 && r256::SHARED_BYTES == 198656,
              "KERNEL_FAMILIES.toml says the same");

} // namespace

#define LINEAR_BF16(s)                                                                             \
    extern "C" __global__ void __launch_bounds__(s::THREADS)                                       \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        linear::run<s>(args);                                                                      \
    }

#define LINEAR_BF16_WIDE(s)                                                                        \
    extern "C" __global__ void __launch_bounds__(s::THREADS, 1)                                    \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        run_wide<s>(args);                                                                         \
    }

LINEAR_BF16(r8)
LINEAR_BF16(r16)
LINEAR_BF16(r32)
LINEAR_BF16(r64)
LINEAR_BF16_WIDE(r128)
LINEAR_BF16_WIDE(r256)
