/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums, products and activations. What stands in rows is one line of elements here, of which a
 * block has TILE, each thread eight; gather, which moves rows, has a block for each.
 */
#include "kernels/args/elementwise.h"

#include "kernels/gb10/common/rows.cuh"

#define THREADS        256
#define TILE           (8 * THREADS)
#define GATHER_THREADS 512

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
    const uint64_t all = (uint64_t)device::row_count(args.step, args.rows_kind) * args.cols;
    const uint64_t at = (uint64_t)blockIdx.x * TILE + 8 * threadIdx.x;
    device::wait_for_predecessor();
    if (at >= all)
        return;
    const uint16_t *x = (const uint16_t *)args.a + at, *z = (const uint16_t *)args.b + at;
    const uint32_t here = all - at < 8 ? (uint32_t)(all - at) : 8;
    float a[8], b[8] = {0};
    mtr_load8(x, 0, here, a);
    if (OP == ADD || OP == GLU)
        mtr_load8(z, 0, here, b);
#pragma unroll
    for (int e = 0; e < 8; e++)
        a[e] = apply<OP>(args, a[e], b[e]);
    mtr_store8((uint16_t *)args.y + at, 0, here, a);
}

#define ELEMENTWISE(name, op)                                                                      \
    MTR_KERNEL(THREADS) name(const __grid_constant__ struct mtr_elementwise_args args)             \
    {                                                                                              \
        device::let_successor_start();                                                             \
        elementwise<op>(args);                                                                     \
    }

ELEMENTWISE(add, ADD)
ELEMENTWISE(glu, GLU)
ELEMENTWISE(activate, ACTIVATE)
ELEMENTWISE(scale, SCALE)

MTR_KERNEL(GATHER_THREADS) gather(const __grid_constant__ struct mtr_elementwise_args args)
{
    mtr_begin();
    const uint32_t rows = device::row_count(args.step, args.rows_kind), cols = args.cols;
    for (uint32_t r = blockIdx.x; r < rows; r += gridDim.x) {
        const uint16_t *x = (const uint16_t *)args.a + (uint64_t)args.gather[r] * cols;
        uint16_t *y = (uint16_t *)args.y + (uint64_t)r * cols;
        if (cols % 8 == 0)
            for (uint32_t i = threadIdx.x; i < cols / 8; i += GATHER_THREADS)
                ((uint4 *)y)[i] = ((const uint4 *)x)[i];
        else
            for (uint32_t i = threadIdx.x; i < cols; i += GATHER_THREADS)
                y[i] = x[i];
    }
}
