/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rope_append: head norms, rotation, and the write of k and v into the cache.
 *
 * A head is worked on in the thread's scratch and then stored: q in place, k as the cache's format.
 */
#include "kernels/args/rope.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rms.h"
#include "kernels/host/rotate.h"
#include "kernels/host/rows.h"

/* from -> to: norm and rotation of one head; to may be from. */
static void turn_head(const struct mtr_rope_append_args *args, uint32_t row, const float *from,
                      const float *norm, float *to)
{
    uint32_t dim = args->head_dim, pairs = args->pairs;
    if (norm) {
        float inverse = mtr_inverse_rms(mtr_square_sum(from, dim), dim, args->eps);
        mtr_norm_row(from, norm, inverse, args->unit_offset, dim, to);
    } else if (to != from) {
        memcpy(to, from, dim * sizeof *to);
    }
    if (!args->table)
        return;
    const float *cosine = args->table + (size_t)row * 2 * pairs;
    rotate(args->interleaved, to, cosine, cosine + pairs, pairs);
}

MTR_INLINE void append_row(enum mtr_format cache, const struct mtr_rope_append_args *args,
                           uint32_t row, float *head)
{
    const struct mtr_step_view *step = args->step;
    uint32_t position = (uint32_t)step->positions[row], dim = args->head_dim;
    uint32_t slot = (uint32_t)step->lane_slots[step->token_lanes[row]];
    const int32_t *table =
        step->tables[args->group] + (size_t)slot * step->table_stride[args->group];
    size_t block = (size_t)table[position / args->block_tokens];
    const float *k = (const float *)args->k + (size_t)row * args->kv_heads * dim;
    const float *v = (const float *)args->v + (size_t)row * args->kv_heads * dim;
    for (uint32_t h = 0; h < args->kv_heads; h++) {
        size_t token =
            (block * args->kv_heads + h) * args->block_tokens + position % args->block_tokens;
        turn_head(args, row, k + h * dim, args->k_norm, head);
        store_head(cache, args->k_cache, token * dim, head, dim);
        store_head(cache, args->v_cache, token * dim, v + h * dim, dim);
    }
}

MTR_INLINE void rope_append(enum mtr_format cache, const struct mtr_rope_append_args *args,
                            const struct mtr_host_block *block)
{
    for (uint32_t r = block->x; r < args->step->tokens; r += block->grid_x) {
        float *q = (float *)args->q + (size_t)r * args->heads * args->head_dim;
        for (uint32_t h = 0; h < args->heads; h++, q += args->head_dim)
            turn_head(args, r, q, args->q_norm, q);
        append_row(cache, args, r, block->scratch);
    }
}

void MTR_HOST_FN(rope_append_f32)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(rope_append_f32)(const void *args, const struct mtr_host_block *block)
{
    rope_append(MTR_F32, args, block);
}

void MTR_HOST_FN(rope_append_bf16)(const void *args, const struct mtr_host_block *block);
void MTR_HOST_FN(rope_append_bf16)(const void *args, const struct mtr_host_block *block)
{
    rope_append(MTR_BF16, args, block);
}
