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
    for (uint32_t i = 0; i < cols; i += 16) {
        size_t n = cols - i < 16 ? cols - i : 16;
        vf w = vf_add(vf_load_n(weight + i, n), vf_set1(offset));
        vf_store_n(y + i, vf_mul(vf_mul(vf_load_n(x + i, n), vf_set1(inverse)), w), n);
    }
}

static inline float mtr_square_sum(const float *x, uint32_t cols)
{
    vf acc = vf_zero();
    for (uint32_t i = 0; i < cols; i += 16) {
        vf v = vf_load_n(x + i, cols - i < 16 ? cols - i : 16);
        acc = vf_fma(v, v, acc);
    }
    return vf_sum(acc);
}

#endif
