/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows of the embedding table, decoded from its format. */
#include "kernels/args/embed.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"

#define SEGMENT 8192 /* elements at once */

/* k is a multiple of 16, at most SEGMENT; in formats with blocks, whole blocks. */
MTR_INLINE void embed_segment(enum mtr_format f, const uint8_t *row, size_t k, float multiplier,
                              float *y)
{
    _Alignas(64) uint8_t raw[SEGMENT / 8];
    _Alignas(64) float scales[SEGMENT / 16];
    collect_scales(f, row, k, raw);
    widen_scales(f, raw, k, scales);
    decode_row(f, row, k, scales, y);
    for (size_t i = 0; i < k; i += 16)
        vf_store(y + i, vf_mul(vf_load(y + i), vf_set1(multiplier)));
}

MTR_INLINE void embed_row(enum mtr_format f, const uint8_t *row, size_t cols, float multiplier,
                          float *y)
{
    size_t whole = cols / 16 * 16, rest = cols - whole;
    for (size_t i = 0; i < whole; i += SEGMENT) {
        size_t k = whole - i < SEGMENT ? whole - i : SEGMENT;
        embed_segment(f, row + row_bytes(f, i), k, multiplier, y + i);
    }
    if (is_plain(f) && rest)
        vf_store_n(y + whole, vf_mul(decode_tail(f, row, whole, rest), vf_set1(multiplier)), rest);
}

MTR_INLINE void embed(enum mtr_format f, const struct mtr_embed_args *args,
                      const struct mtr_host_block *block)
{
    size_t stride = row_bytes(f, args->cols);
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x) {
        int32_t token = args->step->token_ids[r];
        if (token < 0)
            token = args->step->last_tokens[-1 - token];
        const uint8_t *row = (const uint8_t *)args->table + (size_t)token * stride;
        embed_row(f, row, args->cols, args->multiplier, (float *)args->y + (size_t)r * args->cols);
    }
}

#define EMBED(name, format)                                                                        \
    void MTR_HOST_FN(embed_##name)(const void *args, const struct mtr_host_block *block);          \
    void MTR_HOST_FN(embed_##name)(const void *args, const struct mtr_host_block *block)           \
    {                                                                                              \
        embed(format, args, block);                                                                \
    }

EMBED(f32, MTR_F32)
EMBED(f16, MTR_F16)
EMBED(bf16, MTR_BF16)
EMBED(q4_0, MTR_Q4_0)
EMBED(q4_1, MTR_Q4_1)
EMBED(q5_0, MTR_Q5_0)
EMBED(q5_1, MTR_Q5_1)
EMBED(q8_0, MTR_Q8_0)
EMBED(q4_k, MTR_Q4_K)
EMBED(q5_k, MTR_Q5_K)
EMBED(q6_k, MTR_Q6_K)
