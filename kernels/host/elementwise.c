/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Row-wise sums, products and activations. */
#include "kernels/args/elementwise.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

enum operation { ADD, GLU, ACTIVATE, SCALE };

MTR_INLINE vf apply(enum operation op, const struct mtr_elementwise_args *args, vf a, vf b)
{
    switch (op) {
    case ADD:
        return vf_add(a, b);
    case GLU:
        return vf_mul(vf_activate(a, (enum mtr_activation)args->activation), b);
    case ACTIVATE:
        return vf_activate(a, (enum mtr_activation)args->activation);
    case SCALE:
        return vf_mul(a, vf_set1(args->multiplier));
    }
    return a;
}

MTR_INLINE void elementwise(enum operation op, const struct mtr_elementwise_args *args,
                            const struct mtr_host_block *block)
{
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind);
    for (uint32_t r = block->x; r < rows; r += block->grid_x) {
        size_t at = (size_t)r * args->cols;
        const float *a = (const float *)args->a + at;
        const float *b = op == ADD || op == GLU ? (const float *)args->b + at : a;
        float *y = (float *)args->y + at;
        for (uint32_t i = 0; i < args->cols; i += 16) {
            size_t n = args->cols - i < 16 ? args->cols - i : 16;
            vf_store_n(y + i, apply(op, args, vf_load_n(a + i, n), vf_load_n(b + i, n)), n);
        }
    }
}

#define ELEMENTWISE(name, op)                                                                      \
    void MTR_HOST_FN(name)(const void *args, const struct mtr_host_block *block);                  \
    void MTR_HOST_FN(name)(const void *args, const struct mtr_host_block *block)                   \
    {                                                                                              \
        elementwise(op, args, block);                                                              \
    }

ELEMENTWISE(add, ADD)
ELEMENTWISE(glu, GLU)
ELEMENTWISE(activate, ACTIVATE)
ELEMENTWISE(scale, SCALE)

void MTR_HOST_FN(gather)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(gather)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_elementwise_args *args = arguments;
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind);
    for (uint32_t r = block->x; r < rows; r += block->grid_x)
        memcpy((float *)args->y + (size_t)r * args->cols,
               (const float *)args->a + (size_t)args->gather[r] * args->cols,
               args->cols * sizeof(float));
}
