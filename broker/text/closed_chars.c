/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For each symbol the lowest rank at which it merges to its right and to its left; then each
 * character that is a token is merged by itself, watching its outermost parts.
 */
#include "broker/text/closed_chars.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/utf8.h"

struct lowest { /* ranks at which a symbol merges with another behind (right) or before it (left) */
    uint32_t right, left;
    uint32_t right_high, left_high; /* where a byte above 7F meets it */
};

static void lower(uint32_t *rank, uint32_t candidate)
{
    *rank = candidate < *rank ? candidate : *rank;
}

static void note_merges(const struct mtr_vocab *pieces, const struct mtr_bpe_table *merges,
                        struct lowest *lowest)
{
    for (size_t i = 0; i <= merges->mask; i++) {
        const struct mtr_bpe_pair *p = &merges->pairs[i];
        struct mtr_str left = mtr_vocab_get(pieces, p->left);
        struct mtr_str right = mtr_vocab_get(pieces, p->right);
        if (p->id == MTR_TOKEN_NONE || left.len == 0 || right.len == 0)
            continue;
        lower(&lowest[p->left].right, p->rank);
        lower(&lowest[p->right].left, p->rank);
        if ((uint8_t)right.ptr[0] >= 0x80)
            lower(&lowest[p->left].right_high, p->rank);
        if ((uint8_t)left.ptr[left.len - 1] >= 0x80)
            lower(&lowest[p->right].left_high, p->rank);
    }
}

/* The pair of neighbours that merges first; false: none does. */
static bool first_pair(const struct mtr_bpe_table *merges, const uint32_t *symbols, size_t count,
                       size_t *at, struct mtr_bpe_pair *pair)
{
    bool found = false;
    for (size_t i = 0; i + 1 < count; i++) {
        const struct mtr_bpe_pair *p = mtr_bpe_table_find(merges, symbols[i], symbols[i + 1]);
        if (p == NULL || (found && p->rank >= pair->rank))
            continue;
        *at = i;
        *pair = *p;
        found = true;
    }
    return found;
}

static bool is_closed(const struct mtr_bpe_table *merges, const struct lowest *lowest,
                      const uint32_t byte_ids[256], struct mtr_str bytes, uint32_t id)
{
    uint32_t symbols[4], highest = 0, crossing = UINT32_MAX;
    size_t count = bytes.len, at = 0;
    for (size_t i = 0; i < count; i++) {
        symbols[i] = byte_ids[(uint8_t)bytes.ptr[i]];
        if (symbols[i] == MTR_TOKEN_NONE)
            return false;
    }
    while (count > 1) {
        struct mtr_bpe_pair pair = {0};
        lower(&crossing, lowest[symbols[0]].left_high);
        lower(&crossing, lowest[symbols[count - 1]].right_high);
        if (!first_pair(merges, symbols, count, &at, &pair))
            return false;
        highest = pair.rank > highest ? pair.rank : highest;
        symbols[at] = pair.id;
        count--;
        memmove(symbols + at + 1, symbols + at + 2, (count - at - 1) * sizeof *symbols);
    }
    return symbols[0] == id && highest < crossing && highest < lowest[id].left &&
           highest < lowest[id].right;
}

uint32_t *mtr_closed_chars(const struct mtr_vocab *pieces, const struct mtr_bpe_table *merges,
                           const uint32_t byte_ids[256])
{
    uint32_t *ids = malloc(MTR_CLOSED_CHARS * sizeof *ids);
    struct lowest *lowest = malloc(((size_t)pieces->size + 1) * sizeof *lowest);
    if (ids == NULL || lowest == NULL) {
        free(ids);
        free(lowest);
        return NULL;
    }
    memset(ids, 0xff, MTR_CLOSED_CHARS * sizeof *ids);
    memset(lowest, 0xff, (size_t)pieces->size * sizeof *lowest);
    note_merges(pieces, merges, lowest);
    for (uint32_t id = 0; id < pieces->size; id++) {
        struct mtr_str bytes = mtr_vocab_get(pieces, id);
        uint32_t cp;
        if ((bytes.len == 2 || bytes.len == 3) &&
            mtr_utf8_decode(bytes.ptr, bytes.len, &cp) == (int)bytes.len &&
            is_closed(merges, lowest, byte_ids, bytes, id))
            ids[cp] = id;
    }
    free(lowest);
    return ids;
}
