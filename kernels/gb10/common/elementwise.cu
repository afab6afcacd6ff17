/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * y = a + b, row by row, bf16 (kernels/args/elementwise.h).
 */
#include "kernels/args/elementwise.h"

#include <cuda_bf16.h>

extern "C" __global__ void add(const __grid_constant__ struct mtr_elementwise_args args)
{
    size_t row = (size_t)blockIdx.x * args.cols;
    const __nv_bfloat16 *a = (const __nv_bfloat16 *)args.a + row;
    const __nv_bfloat16 *b = (const __nv_bfloat16 *)args.b + row;
    __nv_bfloat16 *y = (__nv_bfloat16 *)args.y + row;
    if (blockIdx.x >= args.step->tokens)
        return;
    for (uint32_t i = threadIdx.x; i < args.cols; i += blockDim.x)
        y[i] = __float2bfloat16_rn(__bfloat162float(a[i]) + __bfloat162float(b[i]));
}
