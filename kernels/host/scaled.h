/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights whose scales stand in tensors of their own (kernels/args/linear.h): e4m3 scaled by
 * tensor, channel or block, e2m1 scaled by groups of 16. Any number of columns of e4m3, whole
 * groups of e2m1; a run of 32 or the 16 at most that end a row are decoded at a time.
 *
 * The scales of a tile's rows are made ready first (prepare_scaled): as f32, in the scratch. Those
 * of groups are e4m3 times the global scale, rounded; those of e4m3 weights are the file's times
 * 256, since vf_load_e4m3() gives 1/256 of a weight. All powers of two are exact, so a weight times
 * its scale rounds once, as if they had not been there.
 */
#ifndef MTR_HOST_SCALED_H
#define MTR_HOST_SCALED_H

#include "common/circuit/ir.h"
#include "kernels/args/linear.h"
#include "kernels/host/dequant.h"

#define SCALE_BLOCK 128 /* rows and columns that share a scale */
#define SCALE_GROUP 16  /* columns */

/* Floats from row to row of what is prepared. Rows of a tile are of one block. */
MTR_INLINE size_t scaled_stride(enum mtr_scaling s, size_t k)
{
    return s == MTR_SCALING_GROUP16 ? (k / SCALE_GROUP + 15) / 16 * 16 : s == MTR_SCALING_CHANNEL;
}

/* [k / SCALE_GROUP] e4m3 times global: out, whole vectors of it. */
MTR_INLINE void widen_groups(const uint8_t *scale, float global, size_t k, float *out)
{
    vf g = vf_set1(256.0f * global);
    size_t groups = k / SCALE_GROUP, i;
    for (i = 0; i + 16 <= groups; i += 16)
        vf_store(out + i, vf_mul(vf_load_e4m3(scale + i), g));
    if (i < groups) {
        uint8_t rest[16] = {0};
        memcpy(rest, scale + i, groups - i);
        vf_store(out + i, vf_mul(vf_load_e4m3(rest), g));
    }
}

/* The scales of rows [row, row + n) of a part. */
MTR_INLINE void prepare_scaled(enum mtr_scaling s, const struct mtr_linear_part *p, size_t row,
                               size_t n, size_t k, float *out)
{
    size_t blocks = (k + SCALE_BLOCK - 1) / SCALE_BLOCK, count = 1;
    const float *scale = p->scale;
    if (s == MTR_SCALING_GROUP16) {
        const uint8_t *groups = (const uint8_t *)p->scale + row * (k / SCALE_GROUP);
        for (size_t i = 0; i < n; i++, groups += k / SCALE_GROUP)
            widen_groups(groups, *(const float *)p->global_scale, k, out + i * scaled_stride(s, k));
        return;
    }
    if (s == MTR_SCALING_CHANNEL) {
        scale += row;
        count = n;
    }
    if (s == MTR_SCALING_BLOCK) {
        scale += row / SCALE_BLOCK * blocks;
        count = blocks;
    }
    for (size_t i = 0; i < count; i++)
        out[i] = 256.0f * scale[i];
}

/* The scale of column i, from those of its row. */
MTR_INLINE float scale_of(enum mtr_scaling s, const float *scales, size_t i)
{
    return scales[s == MTR_SCALING_GROUP16 ? i / SCALE_GROUP
                  : s == MTR_SCALING_BLOCK ? i / SCALE_BLOCK
                                           : 0];
}

/* Sixteen columns whose bytes begin at p. */
MTR_INLINE vf scaled16(enum mtr_format f, const uint8_t *p, float scale)
{
    if (f == MTR_E2M1)
        return vf_load_fp4(p, vf_fp4_table(scale));
    return vf_mul(vf_load_e4m3(p), vf_set1(scale));
}

/* Columns [32 run, 32 run + 32) of a row. */
MTR_INLINE void scaled32(enum mtr_format f, enum mtr_scaling s, const uint8_t *row, size_t run,
                         const float *scales, vf out[2])
{
    for (size_t half = 0; half < 2; half++) {
        size_t i = 32 * run + 16 * half;
        out[half] = scaled16(f, row + row_bytes(f, i), scale_of(s, scales, i));
    }
}

/* Columns [first, first + n), n <= 16, the rest 0. */
MTR_INLINE vf scaled_tail(enum mtr_format f, enum mtr_scaling s, const uint8_t *row, size_t first,
                          size_t n, const float *scales)
{
    uint8_t copy[16] = {0};
    memcpy(copy, row + row_bytes(f, first), row_bytes(f, n));
    return scaled16(f, copy, scale_of(s, scales, first));
}

/* A whole row of k columns into out [k rounded up to 16], padded with 0. */
MTR_INLINE void scaled_row(enum mtr_format f, enum mtr_scaling s, const uint8_t *row, size_t k,
                           const float *scales, float *out)
{
    size_t i;
    for (i = 0; i + 32 <= k; i += 32) {
        vf v[2];
        scaled32(f, s, row, i / 32, scales, v);
        vf_store(out + i, v[0]);
        vf_store(out + i + 16, v[1]);
    }
    for (; i < k; i += 16)
        vf_store(out + i, scaled_tail(f, s, row, i, k - i < 16 ? k - i : 16, scales));
}

#endif
