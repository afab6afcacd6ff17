/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Strings with ids, and the way back.
 *
 * A list is filled once, in any order of ids, holes allowed, and then read by many threads. All
 * strings lie in one block behind one another, so that 260,000 of them are two allocations.
 */
#ifndef MTR_TEXT_VOCAB_H
#define MTR_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/tokenizer.h"
#include "common/base/error.h"
#include "common/base/str.h"

struct mtr_vocab_slot {
    uint32_t at; /* offset in bytes; UINT32_MAX: no such id */
    uint32_t len;
};

struct mtr_vocab {
    char *bytes;
    size_t byte_count, byte_cap;
    struct mtr_vocab_slot *slots; /* [size] */
    uint32_t size;                /* one more than the largest id */
    size_t slot_cap;
    uint64_t *table; /* [mask + 1] hash << 32 | id + 1; 0 is empty */
    size_t mask;
    uint32_t count; /* of strings in the table */
    bool doubles;   /* some string has two ids */
};

/* Room for `count` strings of `bytes` in all: only saves growing. False: no memory. */
bool mtr_vocab_reserve(struct mtr_vocab *v, uint32_t count, size_t bytes);
void mtr_vocab_free(struct mtr_vocab *v);

/* Gives id its string (once) and makes the string lead to id: of several, the first stays, unless
 * `replace`. MTR_TOO_LARGE for ids and strings beyond the limits of tokenizer.h. */
bool mtr_vocab_put(struct mtr_vocab *v, uint32_t id, struct mtr_str s, bool replace,
                   struct mtr_error *err);

/* As put, but the string is not to be found: only id leads to it. */
bool mtr_vocab_set(struct mtr_vocab *v, uint32_t id, struct mtr_str s, struct mtr_error *err);

/* MTR_TOKEN_NONE: not there. */
uint32_t mtr_vocab_find(const struct mtr_vocab *v, struct mtr_str s);

/* Finds a and b written behind one another. hint: an id that is looked at first, because the
 * results of merges mostly have ids in a row; any number will do. */
uint32_t mtr_vocab_find_pair(const struct mtr_vocab *v, struct mtr_str a, struct mtr_str b,
                             uint32_t hint);

static inline bool mtr_vocab_has(const struct mtr_vocab *v, uint32_t id)
{
    return id < v->size && v->slots[id].at != UINT32_MAX;
}

/* {NULL, 0}: no such id. */
static inline struct mtr_str mtr_vocab_get(const struct mtr_vocab *v, uint32_t id)
{
    if (!mtr_vocab_has(v, id))
        return (struct mtr_str){NULL, 0};
    return (struct mtr_str){v->bytes + v->slots[id].at, v->slots[id].len};
}

/* A short string's hash, for tables within this room. */
static inline uint64_t mtr_short_hash(const char *p, size_t len)
{
    uint64_t h = len * 0x9e3779b97f4a7c15u, w;
    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    if (len >= 4) {
        uint32_t low, high; /* overlapping words cover 4..7 bytes */
        memcpy(&low, p, 4);
        memcpy(&high, p + len - 4, 4);
        w = (uint64_t)high << 32 | low;
    } else if (len > 0) {
        w = (uint64_t)(unsigned char)p[0] << 16 | (uint64_t)(unsigned char)p[len >> 1] << 8 |
            (unsigned char)p[len - 1];
    } else {
        w = 0;
    }
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 29;
}

#endif
