/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Row-wise sums, products and activations. A block takes a row. */
#include "kernels/args/elementwise.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS 512

enum operation { ADD, GLU, ACTIVATE, SCALE };

template <enum operation OP>
MTR_DEVICE float apply(const struct mtr_elementwise_args &args, float a, float b)
{
    switch (OP) {
    case ADD:
        return a + b;
    case GLU:
        return device::activate(a, args.activation) * b;
    case ACTIVATE:
        return device::activate(a, args.activation);
    case SCALE:
        return a * args.multiplier;
    }
    return a;
}

template <enum operation OP> MTR_DEVICE void elementwise(const struct mtr_elementwise_args &args)
{
    const uint32_t rows = device::row_count(args.step, args.rows_kind), cols = args.cols;
    for (uint32_t r = blockIdx.x; r < rows; r += gridDim.x) {
        uint64_t from = (uint64_t)r * cols;
        const uint16_t *x = (const uint16_t *)args.a + from, *z = (const uint16_t *)args.b + from;
        uint16_t *y = (uint16_t *)args.y + from;
#pragma unroll 2
        for (uint32_t at = 8 * threadIdx.x; at < cols; at += 8 * THREADS) {
            float a[8], b[8] = {0};
            mtr_load8(x, at, cols, a);
            if (OP == ADD || OP == GLU)
                mtr_load8(z, at, cols, b);
#pragma unroll
            for (int e = 0; e < 8; e++)
                a[e] = apply<OP>(args, a[e], b[e]);
            mtr_store8(y, at, cols, a);
        }
    }
}

#define ELEMENTWISE(name, op)                                                                      \
    MTR_KERNEL(THREADS) name(const __grid_constant__ struct mtr_elementwise_args args)             \
    {                                                                                              \
        mtr_begin();                                                                               \
        elementwise<op>(args);                                                                     \
    }

ELEMENTWISE(add, ADD)
ELEMENTWISE(glu, GLU)
ELEMENTWISE(activate, ACTIVATE)
ELEMENTWISE(scale, SCALE)

MTR_KERNEL(THREADS) gather(const __grid_constant__ struct mtr_elementwise_args args)
{
    mtr_begin();
    const uint32_t rows = device::row_count(args.step, args.rows_kind), cols = args.cols;
    for (uint32_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const uint16_t *x = (const uint16_t *)args.a + (uint64_t)args.gather[r] * cols;
        uint16_t *y = (uint16_t *)args.y + (uint64_t)r * cols;
        if (cols % 8 == 0)
            for (uint32_t i = threadIdx.x; i < cols / 8; i += THREADS)
                ((uint4 *)y)[i] = ((const uint4 *)x)[i];
        else
            for (uint32_t i = threadIdx.x; i < cols; i += THREADS)
                y[i] = x[i];
    }
}
