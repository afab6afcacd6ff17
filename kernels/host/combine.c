/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a token's experts say, weighted and added in the order of the slots. */
#include "kernels/args/combine.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"

void MTR_HOST_FN(combine)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(combine)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_combine_args *a = arguments;
    for (uint32_t t = block->x; t < a->step->tokens; t += block->grid_x) {
        const float *x = (const float *)a->x + (size_t)t * a->top_k * a->cols;
        const float *shares = a->shares + (size_t)t * a->top_k;
        float *y = (float *)a->y + (size_t)t * a->cols;
        for (uint32_t i = 0; i < a->cols; i += 16) {
            size_t n = a->cols - i < 16 ? a->cols - i : 16;
            vf sum = vf_zero();
            for (uint32_t s = 0; s < a->top_k; s++)
                sum = vf_fma(vf_set1(shares[s]), vf_load_n(x + (size_t)s * a->cols + i, n), sum);
            vf_store_n(y + i, sum, n);
        }
    }
}
