/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Row-wise sums, products and activations, and columns taken apart and put together. */
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

void MTR_HOST_FN(gate)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(gate)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_elementwise_args *args = arguments;
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind), part = args->cols / args->b_cols;
    enum mtr_activation kind = (enum mtr_activation)args->activation;
    for (uint32_t r = block->x; r < rows; r += block->grid_x) {
        const float *a = (const float *)args->a + (size_t)r * args->cols;
        const float *b = (const float *)args->b + (size_t)r * args->b_cols;
        float *y = (float *)args->y + (size_t)r * args->cols;
        for (uint32_t i = 0; i < args->cols; i += 16) {
            size_t n = args->cols - i < 16 ? args->cols - i : 16;
            float open[16] = {0};
            for (uint32_t l = 0; l < n; l++)
                open[l] = b[part == 1 ? i + l : (i + l) / part];
            vf_store_n(y + i, vf_mul(vf_load_n(a + i, n), vf_activate(vf_load(open), kind)), n);
        }
    }
}

void MTR_HOST_FN(slice)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(slice)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_elementwise_args *args = arguments;
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind);
    size_t from = args->a_cols / args->runs, to = args->cols / args->runs;
    for (uint32_t r = block->x; r < rows; r += block->grid_x) {
        const float *a = (const float *)args->a + (size_t)r * args->a_cols + args->first;
        float *y = (float *)args->y + (size_t)r * args->cols;
        for (uint32_t run = 0; run < args->runs; run++)
            memcpy(y + run * to, a + run * from, to * sizeof *y);
    }
}

void MTR_HOST_FN(concat)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(concat)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_elementwise_args *args = arguments;
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind);
    size_t a = args->a_cols, b = args->b_cols, c = args->cols - a - b;
    for (uint32_t r = block->x; r < rows; r += block->grid_x) {
        float *y = (float *)args->y + (size_t)r * args->cols;
        memcpy(y, (const float *)args->a + r * a, a * sizeof *y);
        memcpy(y + a, (const float *)args->b + r * b, b * sizeof *y);
        if (c)
            memcpy(y + a + b, (const float *)args->c + r * c, c * sizeof *y);
    }
}
