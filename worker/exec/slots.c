/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Histories and tables are one allocation each for all slots, so that a slot is found by
 * multiplication on both sides of the device boundary. Their pages are touched only as sequences
 * grow into them.
 */
#include "worker/exec/slots.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

static uint32_t table_entries(const struct mtr_plan *plan, uint32_t group)
{
    uint32_t block = plan->groups[group].block_tokens;
    return (plan->limits.max_sequence_tokens + block - 1) / block;
}

static bool init_tables(struct mtr_slots *s, struct mtr_backend *b, const struct mtr_plan *plan,
                        struct mtr_error *err)
{
    for (uint32_t g = 0; g < s->group_count; g++) {
        s->stride[g] = table_entries(plan, g);
        size_t bytes = (size_t)s->count * s->stride[g] * sizeof(int32_t);
        s->host[g] = calloc(1, bytes);
        if (!s->host[g])
            return mtr_fail(err, MTR_NO_MEMORY, "no memory for %zu bytes of block tables", bytes);
        s->device[g] = b->ops->alloc(b, bytes, err);
        if (!s->device[g])
            return mtr_error_prefix(err, "block tables of cache group %s", plan->groups[g].name);
    }
    s->last_tokens = b->ops->alloc(b, s->count * sizeof(int32_t), err);
    return s->last_tokens || mtr_error_prefix(err, "last tokens");
}

uint64_t mtr_slots_bytes(const struct mtr_plan *plan, uint32_t count)
{
    uint64_t entries = 1; /* the last token */
    for (uint32_t g = 0; g < plan->group_count; g++)
        entries += table_entries(plan, g);
    return entries * count * sizeof(int32_t);
}

bool mtr_staging_init(struct mtr_staging *s, struct mtr_backend *backend, struct mtr_error *err)
{
    s->entries = backend->ops->alloc_pinned(backend, MTR_STAGING_ENTRIES * sizeof(int32_t), err);
    return s->entries || mtr_error_prefix(err, "staging of block tables");
}

void mtr_staging_free(struct mtr_staging *s, struct mtr_backend *backend)
{
    if (s->entries)
        backend->ops->free_pinned(backend, s->entries);
    *s = (struct mtr_staging){0};
}

bool mtr_slots_init(struct mtr_slots *s, struct mtr_backend *backend, const struct mtr_plan *plan,
                    uint32_t count, struct mtr_error *err)
{
    *s = (struct mtr_slots){
        .count = count,
        .group_count = plan->group_count,
        .sequence_tokens = plan->limits.max_sequence_tokens,
        .slots = calloc(count, sizeof *s->slots),
        .tokens = calloc((size_t)count * (plan->limits.max_sequence_tokens + 1), sizeof(uint32_t)),
    };
    if (!s->slots || !s->tokens)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the histories of %u slots", count);
    for (uint32_t i = 0; i < count; i++)
        s->slots[i].tokens = s->tokens + (size_t)i * (s->sequence_tokens + 1);
    return init_tables(s, backend, plan, err);
}

void mtr_slots_free(struct mtr_slots *s, struct mtr_backend *backend)
{
    if (s->last_tokens)
        backend->ops->free(backend, s->last_tokens);
    for (uint32_t g = s->group_count; g-- > 0;) {
        if (s->device[g])
            backend->ops->free(backend, s->device[g]);
        free(s->host[g]);
    }
    for (uint32_t i = 0; s->slots && i < s->count; i++) {
        free(s->slots[i].bias_ids);
        free(s->slots[i].bias_values);
    }
    free(s->tokens);
    free(s->slots);
    *s = (struct mtr_slots){0};
}

struct mtr_span mtr_span_after(struct mtr_span old, const struct mtr_table_change *change)
{
    uint32_t from = change->first, to = change->first + change->count;
    if (change->count == 0)
        return old;
    if (old.from == old.to || from > old.to || to < old.from)
        return (struct mtr_span){from, to};
    return (struct mtr_span){from < old.from ? from : old.from, to > old.to ? to : old.to};
}

/* Piece by piece, where the staging buffer is too short for all. */
static bool upload_entries(struct mtr_backend *b, struct mtr_stream *stream, struct mtr_staging *t,
                           int32_t *dst, const int32_t *src, uint32_t count, struct mtr_error *err)
{
    while (count) {
        uint32_t room = MTR_STAGING_ENTRIES - t->used, n = count < room ? count : room;
        int32_t *from = t->entries + t->used;
        if (n)
            memcpy(from, src, n * sizeof *from);
        if (n ? !b->ops->upload(b, stream, dst, from, n * sizeof *from, err)
              : !b->ops->stream_wait(b, stream, err))
            return false;
        t->used = n ? t->used + n : 0;
        dst += n;
        src += n;
        count -= n;
    }
    return true;
}

static bool apply_table(struct mtr_slots *s, struct mtr_backend *b, struct mtr_stream *stream,
                        struct mtr_staging *staging, uint32_t slot,
                        const struct mtr_table_change *c, struct mtr_error *err)
{
    struct mtr_span *span = &s->slots[slot].tables[c->group];
    size_t at = (size_t)slot * s->stride[c->group] + c->first;
    for (uint32_t i = 0; i < c->count; i++)
        s->host[c->group][at + i] = (int32_t)c->blocks[i];
    *span = mtr_span_after(*span, c);
    return upload_entries(b, stream, staging, (int32_t *)s->device[c->group] + at,
                          s->host[c->group] + at, c->count, err);
}

static bool apply_sampling(struct mtr_slot *slot, const struct mtr_sampling *in,
                           struct mtr_error *err)
{
    void *ids = slot->bias_ids, *values = slot->bias_values;
    bool ok = mtr_grow(&ids, &slot->bias_ids_cap, in->bias_count, sizeof(uint32_t)) &&
              mtr_grow(&values, &slot->bias_values_cap, in->bias_count, sizeof(float));
    slot->bias_ids = ids;
    slot->bias_values = values;
    if (!ok)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u biases", in->bias_count);
    if (in->bias_count) {
        memcpy(ids, in->bias_ids, in->bias_count * sizeof(uint32_t));
        memcpy(values, in->bias_values, in->bias_count * sizeof(float));
    }
    slot->sampling = *in;
    slot->sampling.bias_ids = ids;
    slot->sampling.bias_values = values;
    return true;
}

static void open_slot(struct mtr_slot *slot, const struct mtr_lane *lane)
{
    slot->used = true;
    slot->sequence = lane->sequence;
    slot->known = lane->history_count ? 0 : lane->start;
    slot->length = lane->start;
    slot->pending = 0;
    slot->computed = lane->start;
    slot->sampling = mtr_sampling_greedy();
    memset(slot->tables, 0, sizeof slot->tables);
    if (lane->history_count)
        memcpy(slot->tokens, lane->history, lane->history_count * sizeof(uint32_t));
}

static void append(struct mtr_slot *slot, uint32_t at, const uint32_t *tokens, uint32_t count)
{
    memcpy(slot->tokens + at, tokens, count * sizeof *tokens);
    slot->length = at + count;
    if (at < slot->known)
        slot->known = at;
}

bool mtr_slots_apply(struct mtr_slots *s, struct mtr_backend *backend, struct mtr_stream *stream,
                     struct mtr_staging *staging, const struct mtr_lane *lane,
                     struct mtr_error *err)
{
    struct mtr_slot *slot = &s->slots[lane->slot];
    if (lane->open)
        open_slot(slot, lane);
    if (lane->tokens)
        append(slot, lane->start, lane->tokens, lane->count);
    for (uint32_t i = 0; i < lane->table_count; i++)
        if (!apply_table(s, backend, stream, staging, lane->slot, &lane->tables[i], err))
            return false;
    return !lane->sampling || apply_sampling(slot, lane->sampling, err);
}

void mtr_slots_advance(struct mtr_slots *s, const struct mtr_lane *lane)
{
    struct mtr_slot *slot = &s->slots[lane->slot];
    slot->computed = lane->start + lane->count;
    if (lane->outputs) {
        slot->length = slot->computed + 1;
        slot->pending++;
    }
}

void mtr_slots_settle(struct mtr_slots *s, const struct mtr_lane *lane, uint32_t token)
{
    struct mtr_slot *slot = &s->slots[lane->slot];
    slot->tokens[slot->length - slot->pending--] = token;
}

void mtr_slots_finish(struct mtr_slots *s, const struct mtr_lane *lane, uint32_t accepted,
                      const uint32_t *tokens, uint32_t token_count)
{
    struct mtr_slot *slot = &s->slots[lane->slot];
    uint32_t sure = lane->start + lane->count - lane->drafts;
    slot->computed = sure + accepted;
    if (token_count)
        append(slot, sure, tokens, token_count);
}
