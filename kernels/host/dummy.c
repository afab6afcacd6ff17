/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random weights: kernels/args/dummy.h says which. */
#include "kernels/args/dummy.h"

#include <string.h>

#include "common/base/philox.h"
#include "common/numeric/numeric.h"
#include "kernels/host/host_kernel.h"
#include "kernels/host/vec.h"

#define MTR_INLINE static inline __attribute__((always_inline))

enum plain { PLAIN_F32, PLAIN_F16, PLAIN_BF16 };

MTR_INLINE void put(enum plain format, float value, uint8_t *dst, uint64_t i)
{
    uint16_t h;
    if (format == PLAIN_F32) {
        memcpy(dst + 4 * i, &value, sizeof value);
        return;
    }
    h = format == PLAIN_F16 ? mtr_f16_from_f32(value) : mtr_bf16_from_f32(value);
    memcpy(dst + 2 * i, &h, sizeof h);
}

MTR_INLINE void fill_group(enum plain format, const struct mtr_dummy_args *a, uint64_t group)
{
    uint32_t words[4];
    mtr_philox(a->seed, group, 0, words);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t e = group * 4 + i;
        float u = (float)(words[i] >> 8) * 0x1p-24f - 0.5f;
        if (e >= a->first && e - a->first < a->count)
            put(format, a->offset + a->range * u, a->dst, e - a->first);
    }
}

MTR_INLINE void fill_plain(enum plain format, const struct mtr_dummy_args *a,
                           const struct mtr_host_block *block)
{
    for (uint64_t g = (uint64_t)block->x * MTR_DUMMY_TILE; g < a->items;
         g += (uint64_t)block->grid_x * MTR_DUMMY_TILE)
        for (uint64_t i = g; i < a->items && i < g + MTR_DUMMY_TILE; i++)
            fill_group(format, a, a->first / 4 + i);
}

#define PLAIN(name, format)                                                                        \
    void MTR_HOST_FN(dummy_##name)(const void *args, const struct mtr_host_block *block);          \
    void MTR_HOST_FN(dummy_##name)(const void *args, const struct mtr_host_block *block)           \
    {                                                                                              \
        fill_plain(format, args, block);                                                           \
    }

PLAIN(f32, PLAIN_F32)
PLAIN(f16, PLAIN_F16)
PLAIN(bf16, PLAIN_BF16)

static void fill_piece(const struct mtr_dummy_args *a, uint64_t block, uint32_t piece)
{
    uint32_t words[4], at = piece * MTR_DUMMY_PIECE, left = a->block_bytes - at;
    uint8_t *dst = (uint8_t *)a->dst + block * a->block_bytes + at;
    mtr_philox(a->seed, a->first + block, at, words);
    for (uint32_t s = 0; s < a->scale_count; s++)
        if (a->scale_at[s] >= at && a->scale_at[s] - at < MTR_DUMMY_PIECE)
            memcpy((uint8_t *)words + (a->scale_at[s] - at), &a->scale[s], sizeof a->scale[s]);
    memcpy(dst, words, left < MTR_DUMMY_PIECE ? left : MTR_DUMMY_PIECE);
}

void MTR_HOST_FN(dummy_blocks)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(dummy_blocks)(const void *args, const struct mtr_host_block *block)
{
    const struct mtr_dummy_args *a = args;
    uint32_t pieces = a->block_pieces;
    for (uint64_t t = (uint64_t)block->x * MTR_DUMMY_TILE; t < a->items;
         t += (uint64_t)block->grid_x * MTR_DUMMY_TILE)
        for (uint64_t i = t; i < a->items && i < t + MTR_DUMMY_TILE; i++)
            fill_piece(a, i / pieces, (uint32_t)(i % pieces));
}

static void fill_bytes(const struct mtr_dummy_args *a, uint64_t piece)
{
    uint32_t words[4];
    uint8_t bytes[MTR_DUMMY_PIECE];
    mtr_philox(a->seed, piece, 0, words);
    memcpy(bytes, words, sizeof bytes);
    for (uint32_t i = 0; i < MTR_DUMMY_PIECE; i++) {
        uint64_t e = piece * MTR_DUMMY_PIECE + i;
        if (e >= a->first && e - a->first < a->count)
            ((uint8_t *)a->dst)[e - a->first] = (bytes[i] & a->byte_mask) | a->byte_bits;
    }
}

void MTR_HOST_FN(dummy_bytes)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(dummy_bytes)(const void *args, const struct mtr_host_block *block)
{
    const struct mtr_dummy_args *a = args;
    for (uint64_t t = (uint64_t)block->x * MTR_DUMMY_TILE; t < a->items;
         t += (uint64_t)block->grid_x * MTR_DUMMY_TILE)
        for (uint64_t i = t; i < a->items && i < t + MTR_DUMMY_TILE; i++)
            fill_bytes(a, a->first / MTR_DUMMY_PIECE + i);
}
