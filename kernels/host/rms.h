/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The root mean square of a row, shared by rms_norm and the head norms of rope_append. */
#ifndef MTR_HOST_RMS_H
#define MTR_HOST_RMS_H

#include <math.h>

#include "kernels/host/vec.h"

static inline float mtr_inverse_rms(float square_sum, uint32_t cols, float eps)
{
    return 1.0f / sqrtf(square_sum / (float)cols + eps);
}

/* y = x * inverse * (offset + weight); y may be x. */
static inline void mtr_norm_row(const float *x, const float *weight, float inverse, float offset,
                                uint32_t cols, float *y)
{
    const vf scale = vf_set1(inverse), shift = vf_set1(offset);
    uint32_t i;
    for (i = 0; i + 16 <= cols; i += 16)
        vf_store(y + i, vf_mul(vf_mul(vf_load(x + i), scale), vf_add(vf_load(weight + i), shift)));
    if (i < cols) {
        vf w = vf_add(vf_load_n(weight + i, cols - i), shift);
        vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, cols - i), scale), w), cols - i);
    }
}

static inline float mtr_square_sum(const float *x, uint32_t cols)
{
    vf acc = vf_zero();
    uint32_t i;
    for (i = 0; i + 16 <= cols; i += 16) {
        vf v = vf_load(x + i);
        acc = vf_fma(v, v, acc);
    }
    vf v = vf_load_n(x + i, cols - i);
    return vf_sum(vf_fma(v, v, acc));
}

#endif
