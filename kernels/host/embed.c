/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Rows of the embedding table, decoded from its format. */
#include "kernels/args/embed.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rows.h"

MTR_INLINE void embed_row(enum mtr_format f, const uint8_t *row, size_t cols, float multiplier,
                          float *y)
{
    vf m = vf_set1(multiplier);
    size_t j;
    for (j = 0; 32 * j + 32 <= cols; j++) {
        vf w[2];
        decode32(f, row, j, w);
        vf_store(y + 32 * j, vf_mul(w[0], m));
        vf_store(y + 32 * j + 16, vf_mul(w[1], m));
    }
    if (is_plain(f))
        for (size_t i = 32 * j; i < cols; i += 16) {
            size_t n = cols - i < 16 ? cols - i : 16;
            vf_store_n(y + i, vf_mul(decode_tail(f, row, i, n), m), n);
        }
}

MTR_INLINE void embed(enum mtr_format f, const struct mtr_embed_args *args,
                      const struct mtr_host_block *block)
{
    size_t stride = row_bytes(f, args->cols);
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x) {
        const uint8_t *row = args->table;
        row += (size_t)args->step->token_ids[r] * stride;
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
