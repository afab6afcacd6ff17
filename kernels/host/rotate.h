/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rotation of a head, and its way into the cache. The rotation rounds its two products and their
 * sum one by one, as the reference model does.
 */
#ifndef MTR_HOST_ROTATE_H
#define MTR_HOST_ROTATE_H

#include "kernels/host/dequant.h"

static inline void rotate_halves(float *head, const float *cosine, const float *sine,
                                 uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 16) {
        size_t n = pairs - i < 16 ? pairs - i : 16;
        vf c = vf_load_n(cosine + i, n), s = vf_load_n(sine + i, n);
        vf a = vf_load_n(head + i, n), b = vf_load_n(head + pairs + i, n);
        vf_store_n(head + i, vf_sub(vf_mul(a, c), vf_mul(b, s)), n);
        vf_store_n(head + pairs + i, vf_add(vf_mul(b, c), vf_mul(a, s)), n);
    }
}

static inline void rotate_interleaved(float *head, const float *cosine, const float *sine,
                                      uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float a = head[2 * i], b = head[2 * i + 1];
        float ac = a * cosine[i], bs = b * sine[i], bc = b * cosine[i], as = a * sine[i];
        head[2 * i] = ac - bs;
        head[2 * i + 1] = bc + as;
    }
}

/* Pairs (2i, 2i + 1), or (i, i + pairs). */
static inline void rotate(uint32_t interleaved, float *head, const float *cosine, const float *sine,
                          uint32_t pairs)
{
    if (interleaved)
        rotate_interleaved(head, cosine, sine, pairs);
    else
        rotate_halves(head, cosine, sine, pairs);
}

/* One head into the cache at element `at`. */
MTR_INLINE void store_head(enum mtr_format cache, void *base, size_t at, const float *head,
                           uint32_t dim)
{
    if (cache == MTR_F32) {
        memcpy((float *)base + at, head, dim * sizeof *head);
        return;
    }
    uint16_t *to = (uint16_t *)base + at;
    uint32_t i;
    for (i = 0; i + 16 <= dim; i += 16)
        vf_store_bf16(to + i, vf_load(head + i));
    if (i < dim) {
        uint16_t rest[16];
        vf_store_bf16(rest, vf_load_n(head + i, dim - i));
        memcpy(to + i, rest, (dim - i) * sizeof *to);
    }
}

#endif
