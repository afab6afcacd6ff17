/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All conversions go through f32, a stretch at a time that stays in the first-level cache.
 */
#include "worker/weights/convert.h"

#include "common/numeric/numeric.h"

#define STRETCH 1024 /* elements: a multiple of every block */

bool mtr_convertible(enum mtr_format from, enum mtr_format to)
{
    if (from == to)
        return true;
    return (to == MTR_F32 || to == MTR_BF16 || to == MTR_F16) && mtr_format_info(from)->dequantize;
}

static void narrow(const float *x, uint64_t n, enum mtr_format to, uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h = to == MTR_BF16 ? mtr_bf16_from_f32(x[i]) : mtr_f16_from_f32(x[i]);
        memcpy(dst + 2 * i, &h, sizeof h);
    }
}

void mtr_convert(enum mtr_format from, const void *src, enum mtr_format to, void *dst,
                 uint64_t elements)
{
    const struct mtr_format_info *in = mtr_format_info(from), *out = mtr_format_info(to);
    float x[STRETCH];
    if (from == to) {
        memcpy(dst, src, elements / in->block_elements * in->block_bytes);
        return;
    }
    for (uint64_t at = 0; at < elements; at += STRETCH) {
        uint64_t n = elements - at < STRETCH ? elements - at : STRETCH;
        const uint8_t *s = (const uint8_t *)src + at / in->block_elements * in->block_bytes;
        uint8_t *d = (uint8_t *)dst + at / out->block_elements * out->block_bytes;
        in->dequantize(s, x, n / in->block_elements);
        if (to == MTR_F32)
            memcpy(d, x, n * sizeof *x);
        else
            narrow(x, n, to, d);
    }
}

void mtr_invert(void *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float f;
        memcpy(&f, (uint8_t *)x + i * sizeof f, sizeof f);
        f = 1.0f / f;
        memcpy((uint8_t *)x + i * sizeof f, &f, sizeof f);
    }
}
