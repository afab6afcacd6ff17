/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Plain formats get uniform numbers. Blocks get random bits as quants and fixed small scales, which
 * is cheaper than quantizing and all that a measurement of speed asks for. Philox counts blocks, so
 * that a part can be filled without what stands before it.
 */
#include "worker/weights/dummy.h"

#include "common/base/philox.h"
#include "common/numeric/numeric.h"

#define MATRIX_RANGE 0.04f /* uniform in +-half of it */
#define VECTOR_RANGE 0.1f

/* Where a block has f16 numbers, and what they are set to. */
static const struct {
    enum mtr_format format;
    uint16_t at[2];
    float value[2];
    uint8_t count;
} scales[] = {
    {MTR_Q4_0, {0}, {0.0025f}, 1},
    {MTR_Q4_1, {0, 2}, {0.0025f, -0.01875f}, 2},
    {MTR_Q5_0, {0}, {0.00125f}, 1},
    {MTR_Q5_1, {0, 2}, {0.00125f, -0.019375f}, 2},
    {MTR_Q8_0, {0}, {0.00016f}, 1},
    {MTR_Q4_K, {0, 2}, {0.00008f, 0.0006f}, 2},
    {MTR_Q5_K, {0, 2}, {0.00004f, 0.0006f}, 2},
    {MTR_Q6_K, {208}, {0.00001f}, 1},
};

static void random_bytes(uint64_t seed, uint32_t index, uint64_t block, uint8_t *dst,
                         uint32_t bytes)
{
    uint32_t words[4];
    for (uint32_t at = 0; at < bytes; at += sizeof words) {
        mtr_philox(seed ^ (uint64_t)index << 32, block, at, words);
        uint32_t n = bytes - at < sizeof words ? bytes - at : (uint32_t)sizeof words;
        memcpy(dst + at, words, n);
    }
}

static float plain_value(bool vector, uint32_t word)
{
    float u = (float)(word >> 8) * 0x1p-24f - 0.5f;
    return vector ? 1.0f + VECTOR_RANGE * u : MATRIX_RANGE * u;
}

static void put_plain(enum mtr_format format, float value, uint8_t *dst)
{
    uint16_t h = format == MTR_BF16 ? mtr_bf16_from_f32(value) : mtr_f16_from_f32(value);
    if (format == MTR_F32)
        memcpy(dst, &value, sizeof value);
    else
        memcpy(dst, &h, sizeof h);
}

static void set_scales(size_t entry, uint8_t *block)
{
    for (uint8_t k = 0; k < scales[entry].count; k++) {
        uint16_t h = mtr_f16_from_f32(scales[entry].value[k]);
        memcpy(block + scales[entry].at[k], &h, sizeof h);
    }
}

bool mtr_dummy_fill(enum mtr_format format, bool vector, uint64_t seed, uint32_t index,
                    uint64_t first, uint64_t elements, void *dst)
{
    const struct mtr_format_info *info = mtr_format_info(format);
    bool plain = format == MTR_F32 || format == MTR_BF16 || format == MTR_F16;
    size_t entry = 0, entries = sizeof scales / sizeof scales[0];
    while (entry < entries && scales[entry].format != format)
        entry++;
    if (!plain && entry == entries)
        return false;
    uint8_t *out = dst;
    for (uint64_t i = 0; i < elements; i += info->block_elements, out += info->block_bytes) {
        uint64_t block = (first + i) / info->block_elements;
        uint32_t words[4];
        if (plain) {
            mtr_philox(seed ^ (uint64_t)index << 32, block / 4, 0, words);
            put_plain(format, plain_value(vector, words[block % 4]), out);
        } else {
            random_bytes(seed, index, block, out, info->block_bytes);
            set_scales(entry, out);
        }
    }
    return true;
}
