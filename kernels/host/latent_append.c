/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cache entries of latent attention: a normalized latent, then the key that all heads share. */
#include "kernels/args/latent.h"

#include "kernels/host/rms.h"
#include "kernels/host/rotate.h"
#include "kernels/host/rows.h"

MTR_INLINE void latent_append(enum mtr_format cache, const struct mtr_latent_append_args *a,
                              const struct mtr_host_block *block)
{
    const struct mtr_step_view *step = a->step;
    uint32_t rank = a->rank, dim = rank + 2 * a->pairs;
    float *entry = block->scratch;
    for (uint32_t r = block->x; r < step->tokens; r += block->grid_x) {
        const float *kv = (const float *)a->kv + (size_t)r * dim;
        const float *cosine = a->table + (size_t)r * 2 * a->pairs;
        uint32_t position = (uint32_t)step->positions[r];
        uint32_t slot = (uint32_t)step->lane_slots[step->token_lanes[r]];
        const int32_t *table = step->tables[a->group] + (size_t)slot * step->table_stride[a->group];
        size_t place = (size_t)table[position / a->block_tokens] * a->block_tokens;
        mtr_norm_row(kv, a->norm, mtr_inverse_rms(mtr_square_sum(kv, rank), rank, a->eps),
                     a->unit_offset, rank, entry);
        memcpy(entry + rank, kv + rank, 2 * (size_t)a->pairs * sizeof *entry);
        rotate(a->interleaved, entry + rank, cosine, cosine + a->pairs, a->pairs);
        store_head(cache, a->cache, (place + position % a->block_tokens) * dim, entry, dim);
    }
}

void MTR_HOST_FN(latent_append_f32)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(latent_append_f32)(const void *args, const struct mtr_host_block *block)
{
    latent_append(MTR_F32, args, block);
}

void MTR_HOST_FN(latent_append_bf16)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(latent_append_bf16)(const void *args, const struct mtr_host_block *block)
{
    latent_append(MTR_BF16, args, block);
}
