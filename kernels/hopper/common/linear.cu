// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Module "linear" on Hopper. Steps of few rows are bound by reading weights and run the parent's
// kernel; larger ones run here, on the warpgroup instruction, which sums as mma.sync does: the
// shapes agree in every byte (tests/check/kernel-check).
#include "kernels/gb10/common/linear_packed.cuh"
#include "kernels/gb10/common/linear_single.cuh"
#include "kernels/hopper/common/wide.cuh"
#include "kernels/hopper/common/wide_packed.cuh"

namespace
{

// What many lanes want depends on how many blocks a matrix makes: with one a processor, stages
// enough for all that is on its way; with more, tiles of which several fit.
//                            warps  tiles   k  stages
using r8 = linear::shape<2, 1, 1, 1, 128, 6>;
using r16 = linear::shape<2, 2, 1, 1, 128, 5>;
using r32 = linear::shape<2, 2, 1, 2, 128, 6>;
using r64 = linear::shape<2, 2, 1, 4, 128, 6>;
using r64b = linear::shape<2, 2, 1, 4, 128, 4>;
using r64c = wide::tall<64, 4>;
using r128 = wide::tile<128, 5>;
using r256 = wide::tile<256, 4>;

static_assert(r8::SHARED_BYTES == 63488 && r16::SHARED_BYTES == 63488 &&
                  r32::SHARED_BYTES == 100352 && r64::SHARED_BYTES == 149504 &&
                  r64b::SHARED_BYTES == 100352 && r64c::SHARED_BYTES == 67584 &&
                  r128::SHARED_BYTES == 199680 && r256::SHARED_BYTES == 232448,
              "KERNEL_FAMILIES.toml says the same");

} // namespace

#define LINEAR_BF16(s)                                                                             \
    extern "C" __global__ void __launch_bounds__(s::THREADS)                                       \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        linear::run<s>(args);                                                                      \
    }

#define LINEAR_BF16_TALL(s)                                                                        \
    extern "C" __global__ void __launch_bounds__(s::THREADS)                                       \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        wide::run_tall<s>(args);                                                                   \
    }

#define LINEAR_BF16_WIDE(s)                                                                        \
    extern "C" __global__ void __launch_bounds__(s::THREADS, 1)                                    \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        wide::run<s>(args);                                                                        \
    }

LINEAR_BF16(r8)
LINEAR_BF16(r16)
LINEAR_BF16(r32)
LINEAR_BF16(r64)
LINEAR_BF16(r64b)
LINEAR_BF16_TALL(r64c)
LINEAR_BF16_WIDE(r128)
LINEAR_BF16_WIDE(r256)

namespace linear
{

// KERNEL_FAMILIES.toml says the same.
constexpr int HALF_BYTES = 112 * 1024, WHOLE_BYTES = 226 * 1024;

// Steps of more rows want more of a matrix in a block, which then share tokens.
//                                                   strips ways tokens pieces ring
template <class F>
using packed_r1 = single_tile<F, 2, 4, F::TERMS == 1 ? HALF_BYTES : WHOLE_BYTES>;
template <class F> using packed_r8 = packed_tile<F, 2, 4, 8, 4, 3, HALF_BYTES>;
template <class F> using packed_r16 = packed_tile<F, 2, 4, 16, 2, 3, HALF_BYTES>;
template <class F> using packed_r32 = packed_tile<F, 4, 4, 32, 2, 3, WHOLE_BYTES>;
template <class F> using packed_r64 = packed_tile<F, 4, 4, 64, 1, 3, WHOLE_BYTES>;

} // namespace linear

#define LINEAR_PACKED_WIDE(point, format)                                                          \
    extern "C" __global__ void __launch_bounds__(wide::packed_r128<format>::THREADS, 1)            \
        linear_##point##_r128(const __grid_constant__ struct mtr_linear_args args)                 \
    {                                                                                              \
        wide::run_packed<wide::packed_r128<format>>(args);                                         \
    }

#define LINEAR_PACKED_SINGLE(point, format)                                                        \
    extern "C" __global__ void __launch_bounds__(linear::packed_r1<format>::THREADS,               \
                                                 linear::packed_r1<format>::BLOCKS)                \
        linear_##point##_r1(const __grid_constant__ struct mtr_linear_args args)                   \
    {                                                                                              \
        linear::run_single<linear::packed_r1<format>>(args);                                       \
    }

LINEAR_PACKED_POINTS(LINEAR_PACKED_SINGLE)
LINEAR_PACKED_POINTS(LINEAR_PACKED)
LINEAR_PACKED_POINTS(LINEAR_PACKED_WIDE)
