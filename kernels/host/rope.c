/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * rope_append: head norms, rotation, and the write of k and v into the cache.
 *
 * A head is worked on in the thread's scratch and then stored: q in place, k as the cache's format.
 * The rotation rounds its two products and their sum one by one, as the reference model does.
 */
#include "kernels/args/rope.h"

#include "kernels/host/dequant.h"
#include "kernels/host/rms.h"
#include "kernels/host/rows.h"

static void rotate_halves(float *head, const float *cosine, const float *sine, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i += 16) {
        size_t n = pairs - i < 16 ? pairs - i : 16;
        vf c = vf_load_n(cosine + i, n), s = vf_load_n(sine + i, n);
        vf a = vf_load_n(head + i, n), b = vf_load_n(head + pairs + i, n);
        vf_store_n(head + i, vf_sub(vf_mul(a, c), vf_mul(b, s)), n);
        vf_store_n(head + pairs + i, vf_add(vf_mul(b, c), vf_mul(a, s)), n);
    }
}

static void rotate_interleaved(float *head, const float *cosine, const float *sine, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        float a = head[2 * i], b = head[2 * i + 1];
        float ac = a * cosine[i], bs = b * sine[i], bc = b * cosine[i], as = a * sine[i];
        head[2 * i] = ac - bs;
        head[2 * i + 1] = bc + as;
    }
}

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
    if (args->interleaved)
        rotate_interleaved(to, cosine, cosine + pairs, pairs);
    else
        rotate_halves(to, cosine, cosine + pairs, pairs);
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
