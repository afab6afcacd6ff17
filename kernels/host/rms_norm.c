/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Root-mean-square norm of rows, with the residual added first where there is one. */
#include "kernels/args/rms_norm.h"

#include "kernels/host/rms.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

static void add_row(float *residual, const float *x, uint32_t cols)
{
    for (uint32_t i = 0; i < cols; i += 16) {
        size_t n = cols - i < 16 ? cols - i : 16;
        vf_store_n(residual + i, vf_add(vf_load_n(residual + i, n), vf_load_n(x + i, n)), n);
    }
}

void MTR_HOST_FN(rms_norm)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(rms_norm)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_rms_norm_args *args = arguments;
    uint32_t rows = mtr_step_rows(args->step, args->rows_kind);
    for (uint32_t r = block->x; r < rows; r += block->grid_x) {
        size_t from = (args->gather ? (size_t)args->gather[r] : r) * args->cols;
        const float *x = (const float *)args->x + from;
        if (args->residual) {
            float *residual = (float *)args->residual + from;
            add_row(residual, x, args->cols);
            x = residual;
        }
        float inverse = mtr_inverse_rms(mtr_square_sum(x, args->cols), args->cols, args->eps);
        mtr_norm_row(x, args->weight, inverse, args->unit_offset, args->cols,
                     (float *)args->y + (size_t)r * args->cols);
    }
}

/* y = x * act(gate); y may be x. */
static void gate_head(const struct mtr_gated_norm_args *args, const float *x, const float *gate,
                      float *y)
{
    for (uint32_t i = 0; i < args->head_dim; i += 16) {
        size_t n = args->head_dim - i < 16 ? args->head_dim - i : 16;
        vf open = vf_activate(vf_load_n(gate + i, n), (enum mtr_activation)args->activation);
        vf_store_n(y + i, vf_mul(vf_load_n(x + i, n), open), n);
    }
}

void MTR_HOST_FN(gated_norm)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(gated_norm)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_gated_norm_args *args = arguments;
    uint32_t dim = args->head_dim;
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x)
        for (uint32_t h = 0; h < args->heads; h++) {
            size_t at = ((size_t)r * args->heads + h) * dim;
            const float *x = (const float *)args->x + at;
            const float *gate = (const float *)args->gate + at;
            const float *weight = (const float *)args->weight + (args->wide ? h * dim : 0);
            float *y = (float *)args->y + at;
            if (args->gate_first)
                gate_head(args, x, gate, y);
            x = args->gate_first ? y : x;
            float inverse = mtr_inverse_rms(mtr_square_sum(x, dim), dim, args->eps);
            mtr_norm_row(x, weight, inverse, 0, dim, y);
            if (!args->gate_first)
                gate_head(args, y, gate, y);
        }
}
