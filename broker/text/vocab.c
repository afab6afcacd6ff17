/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An open-addressing table from strings to ids. An entry holds 32 bits of the hash beside the id,
 * so that a miss, the usual case while pairs are tried, seldom touches a string.
 */
#include "broker/text/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/tokenizer.h"
#include "common/base/buf.h"

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "vocabulary: out of memory");
}

static bool resize_table(struct mtr_vocab *v, size_t capacity)
{
    uint64_t *table = calloc(capacity, sizeof *table);
    if (table == NULL)
        return false;
    for (size_t i = 0; v->table != NULL && i <= v->mask; i++) {
        if (v->table[i] == 0)
            continue;
        size_t at = v->table[i] >> 32 & (capacity - 1);
        while (table[at] != 0)
            at = (at + 1) & (capacity - 1);
        table[at] = v->table[i];
    }
    free(v->table);
    v->table = table;
    v->mask = capacity - 1;
    return true;
}

bool mtr_vocab_reserve(struct mtr_vocab *v, uint32_t count, size_t bytes)
{
    size_t capacity = 64;
    while (capacity < (size_t)count * 2)
        capacity *= 2;
    if ((v->table == NULL || capacity > v->mask + 1) && !resize_table(v, capacity))
        return false;
    return mtr_grow((void **)&v->slots, &v->slot_cap, count, sizeof *v->slots) &&
           mtr_grow((void **)&v->bytes, &v->byte_cap, bytes, 1);
}

void mtr_vocab_free(struct mtr_vocab *v)
{
    free(v->bytes);
    free(v->slots);
    free(v->table);
    memset(v, 0, sizeof *v);
}

bool mtr_vocab_set(struct mtr_vocab *v, uint32_t id, struct mtr_str s, struct mtr_error *err)
{
    if (id >= MTR_TOKENIZER_MAX_TOKENS)
        return mtr_fail(err, MTR_TOO_LARGE, "token id %u: at most %u are supported", id,
                        MTR_TOKENIZER_MAX_TOKENS);
    if (s.len > MTR_TOKENIZER_MAX_TOKEN_BYTES || v->byte_count + s.len >= UINT32_MAX)
        return mtr_fail(err, MTR_TOO_LARGE, "token %u: %zu bytes, more than %u", id, s.len,
                        MTR_TOKENIZER_MAX_TOKEN_BYTES);
    if (!mtr_grow((void **)&v->slots, &v->slot_cap, (size_t)id + 1, sizeof *v->slots) ||
        !mtr_grow((void **)&v->bytes, &v->byte_cap, v->byte_count + s.len + 1, 1))
        return no_memory(err);
    for (; v->size <= id; v->size++)
        v->slots[v->size] = (struct mtr_vocab_slot){UINT32_MAX, 0};
    v->slots[id] = (struct mtr_vocab_slot){(uint32_t)v->byte_count, (uint32_t)s.len};
    if (s.len > 0)
        memcpy(v->bytes + v->byte_count, s.ptr, s.len);
    v->byte_count += s.len;
    return true;
}

/* The entry that holds s, or the free one where it belongs. */
static size_t probe(const struct mtr_vocab *v, struct mtr_str s, uint32_t hash)
{
    size_t at = hash & v->mask;
    while (v->table[at] != 0) {
        struct mtr_vocab_slot slot = v->slots[(uint32_t)v->table[at] - 1];
        if (v->table[at] >> 32 == hash && slot.len == s.len &&
            memcmp(v->bytes + slot.at, s.ptr, s.len) == 0)
            break;
        at = (at + 1) & v->mask;
    }
    return at;
}

bool mtr_vocab_put(struct mtr_vocab *v, uint32_t id, struct mtr_str s, bool replace,
                   struct mtr_error *err)
{
    if (!mtr_vocab_set(v, id, s, err))
        return false;
    if ((v->table == NULL || v->count + 1 > v->mask / 2) &&
        !resize_table(v, v->table == NULL ? 64 : (v->mask + 1) * 2))
        return no_memory(err);
    uint32_t hash = (uint32_t)mtr_short_hash(s.ptr, s.len);
    size_t at = probe(v, s, hash);
    if (v->table[at] == 0)
        v->count++;
    else
        v->doubles = true;
    if (v->table[at] == 0 || replace)
        v->table[at] = (uint64_t)hash << 32 | (id + 1);
    return true;
}

uint32_t mtr_vocab_find(const struct mtr_vocab *v, struct mtr_str s)
{
    if (v->table == NULL)
        return MTR_TOKEN_NONE;
    return (uint32_t)v->table[probe(v, s, (uint32_t)mtr_short_hash(s.ptr, s.len))] - 1;
}

/* Whether id is a and b behind one another, and what a search would find. */
static bool is_pair(const struct mtr_vocab *v, uint32_t id, struct mtr_str a, struct mtr_str b)
{
    struct mtr_str s = mtr_vocab_get(v, id);
    return !v->doubles && s.ptr != NULL && s.len == a.len + b.len && mtr_str_starts(s, a) &&
           mtr_str_ends(s, b);
}

uint32_t mtr_vocab_find_pair(const struct mtr_vocab *v, struct mtr_str a, struct mtr_str b,
                             uint32_t hint)
{
    char small[256];
    struct mtr_str s = {small, a.len + b.len};
    if (is_pair(v, hint, a, b))
        return hint;
    char *heap = s.len > sizeof small ? malloc(s.len) : NULL;
    if (heap != NULL)
        s.ptr = heap;
    else if (s.len > sizeof small)
        return MTR_TOKEN_NONE;
    memcpy((char *)s.ptr, a.ptr, a.len);
    memcpy((char *)s.ptr + a.len, b.ptr, b.len);
    uint32_t id = mtr_vocab_find(v, s);
    free(heap);
    return id;
}
