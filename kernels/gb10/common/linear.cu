// SPDX-License-Identifier: MIT OR Apache-2.0
// Module "linear": the points of kernels/gb10/common/KERNEL_FAMILIES.toml, which also states each
// shape's rows (tokens), columns (outputs), threads and shared memory. Small shapes hide latency
// with many stages, since a step of few rows is bound by reading weights.
#include "kernels/gb10/common/linear_packed.cuh"

namespace
{

//                        warps  tiles   k  stages
using r8 = linear::shape<2, 1, 1, 1, 128, 6>;
using r16 = linear::shape<2, 1, 1, 2, 128, 5>;
using r32 = linear::shape<2, 1, 1, 4, 128, 4>;
using r64 = linear::shape<2, 2, 1, 4, 128, 3>;
using r128 = linear::shape<4, 2, 2, 8, 64, 3>;

static_assert(r8::SHARED_BYTES == 63488 && r16::SHARED_BYTES == 63488 &&
                  r32::SHARED_BYTES == 67584 && r64::SHARED_BYTES == 75776 &&
                  r128::SHARED_BYTES == 100352,
              "KERNEL_FAMILIES.toml says the same");

} // namespace

#define LINEAR_BF16(s)                                                                             \
    extern "C" __global__ void __launch_bounds__(s::THREADS)                                       \
        linear_bf16_##s(const __grid_constant__ struct mtr_linear_args args)                       \
    {                                                                                              \
        linear::run<s>(args);                                                                      \
    }

LINEAR_BF16(r8)
LINEAR_BF16(r16)
LINEAR_BF16(r32)
LINEAR_BF16(r64)
LINEAR_BF16(r128)

namespace linear
{

constexpr int PACKED_BYTES = 98 * 1024; // KERNEL_FAMILIES.toml says the same

//                                                   strips ways tokens pieces ring
template <class F> using packed_r8 = packed_tile<F, 2, 4, 8, 2, 3, PACKED_BYTES>;
template <class F> using packed_r16 = packed_tile<F, 2, 4, 16, 2, 3, PACKED_BYTES>;
template <class F> using packed_r32 = packed_tile<F, 2, 4, 32, 1, 3, PACKED_BYTES>;
template <class F> using packed_r64 = packed_tile<F, 4, 1, 64, 2, 3, PACKED_BYTES>;
template <class F> using packed_r128 = packed_tile<F, 4, 1, 128, 1, 3, PACKED_BYTES>;

} // namespace linear

#define LINEAR_PACKED_WIDE(point, format) LINEAR_PACKED_SHAPE(point, format, 128)

LINEAR_PACKED_POINTS(LINEAR_PACKED)
LINEAR_PACKED_POINTS(LINEAR_PACKED_WIDE)
