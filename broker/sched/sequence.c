/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sequences keep every token until they finish: a worker's loss costs time, never tokens. */
#include "broker/sched/sequence.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/hash.h"

/* Copies count x size bytes; a NULL for nothing. False: no memory. */
static bool keep(struct mtr_arena *a, const void **array, uint32_t count, size_t size)
{
    void *copy = count ? mtr_arena_calloc(a, count, size) : NULL;
    if (copy)
        memcpy(copy, *array, count * size);
    *array = copy;
    return copy || count == 0;
}

static bool keep_all(struct mtr_seq *q, const struct mtr_sched_params *p)
{
    const void *stops = p->stop_ids, *images = p->images;
    const void *ids = p->sampling.bias_ids, *values = p->sampling.bias_values;
    bool ok = keep(&q->memory, &stops, p->stop_count, sizeof(*p->stop_ids)) &&
              keep(&q->memory, &images, p->image_count, sizeof(*p->images)) &&
              keep(&q->memory, &ids, p->sampling.bias_count, sizeof(uint32_t)) &&
              keep(&q->memory, &values, p->sampling.bias_count, sizeof(float));
    q->stop_ids = stops;
    q->images = images;
    q->sampling.bias_ids = ids;
    q->sampling.bias_values = values;
    return ok;
}

static bool keep_tokens(struct mtr_seq *q, const struct mtr_sched_params *p)
{
    void *array = NULL;
    if (!mtr_grow(&array, &q->tokens_cap, p->token_count, sizeof(uint32_t)))
        return false;
    q->tokens = array;
    memcpy(q->tokens, p->tokens, p->token_count * sizeof(uint32_t));
    q->prompt = q->known = p->token_count;
    return true;
}

struct mtr_seq *mtr_seq_create(const struct mtr_sched_params *p, uint64_t now_ns)
{
    struct mtr_seq *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    mtr_arena_init(&q->memory, 0);
    q->user = p->user;
    q->sampling = p->sampling;
    q->sampling.output_start = p->token_count;
    q->max_tokens = p->max_tokens;
    q->min_tokens = p->min_tokens;
    q->prompt_only = p->max_tokens == 0;
    q->stop_count = p->stop_count;
    q->image_count = p->image_count;
    q->adapter = p->adapter;
    q->score = p->score;
    q->scored = q->score_planned = 1;
    q->constrained = p->constrained;
    q->submitted_ns = now_ns;
    q->deadline_ns = p->deadline_ns;
    q->after = p->after;
    if (keep_all(q, p) && keep_tokens(q, p))
        return q;
    mtr_seq_destroy(q);
    return NULL;
}

void mtr_seq_destroy(struct mtr_seq *q)
{
    if (!q)
        return;
    mtr_table_free(&q->table);
    mtr_arena_free(&q->memory);
    free(q->tokens);
    free(q);
}

bool mtr_seq_append(struct mtr_seq *q, uint32_t token)
{
    if (q->known == q->tokens_cap) {
        void *array = q->tokens;
        if (!mtr_grow(&array, &q->tokens_cap, q->known + 1ul, sizeof(uint32_t)))
            return false;
        q->tokens = array;
    }
    q->tokens[q->known++] = token;
    q->losses = 0;
    return true;
}

bool mtr_seq_is_stop(const struct mtr_seq *q, uint32_t token)
{
    for (uint32_t i = 0; i < q->stop_count; i++)
        if (q->stop_ids[i] == token)
            return true;
    return false;
}

/* Digests, and offsets into the images, of what reaches into [first, first + count). */
static void image_key(const struct mtr_seq *q, uint32_t first, uint32_t count,
                      uint8_t key[MTR_RADIX_IMAGE_BYTES])
{
    for (uint32_t i = 0; i < q->image_count; i++) {
        const struct mtr_sched_image *image = &q->images[i];
        if (image->first >= first + count || image->first + image->count <= first)
            continue;
        struct {
            uint8_t before[MTR_RADIX_IMAGE_BYTES];
            uint8_t digest[32];
            int64_t offset;
        } text = {.offset = (int64_t)first - image->first};
        uint8_t digest[32];
        memcpy(text.before, key, sizeof(text.before));
        memcpy(text.digest, image->digest, sizeof(text.digest));
        mtr_sha256(&text, sizeof(text), digest);
        memcpy(key, digest, MTR_RADIX_IMAGE_BYTES);
    }
}

struct mtr_radix_key mtr_seq_key(const struct mtr_seq *q, uint32_t index, uint32_t block_tokens)
{
    struct mtr_radix_key key = {.adapter = q->adapter,
                                .tokens = q->tokens + (size_t)index * block_tokens};
    image_key(q, index * block_tokens, block_tokens, key.image);
    return key;
}

/* Preempted sequences are older than most that wait: look from the front. New ones are the newest
 * of all: look at the back first. */
void mtr_seq_list_insert(struct mtr_seq_list *l, struct mtr_seq *q)
{
    struct mtr_seq *next = l->last && l->last->id < q->id ? NULL : l->first;
    while (next && next->id < q->id)
        next = next->next;
    struct mtr_seq *prev = next ? next->prev : l->last;
    q->prev = prev;
    q->next = next;
    *(prev ? &prev->next : &l->first) = q;
    *(next ? &next->prev : &l->last) = q;
    l->count++;
}

void mtr_seq_list_remove(struct mtr_seq_list *l, struct mtr_seq *q)
{
    *(q->prev ? &q->prev->next : &l->first) = q->next;
    *(q->next ? &q->next->prev : &l->last) = q->prev;
    q->prev = q->next = NULL;
    l->count--;
}
