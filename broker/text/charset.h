/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sets of characters, as regular expressions and pre-tokenizers use them.
 *
 * While a set is put together it is a sorted list of ranges (struct mtr_ranges), on which union,
 * intersection and complement are short merges. What is asked afterwards is a struct mtr_charset: a
 * bitmap for ASCII, and for the rest an index of blocks of 256 bits, most of which are all ones or
 * all zeros and shared.
 */
#ifndef MTR_TEXT_CHARSET_H
#define MTR_TEXT_CHARSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/unicode.h"

struct mtr_range {
    uint32_t first, last; /* both inside */
};

/* Sorted, not touching one another once normalized. On the heap; zeroed is the empty set. */
struct mtr_ranges {
    struct mtr_range *items; /* [count] */
    size_t count, cap;
    bool failed; /* memory ran out; the set must not be used */
};

void mtr_ranges_free(struct mtr_ranges *r);
void mtr_ranges_add(struct mtr_ranges *r, uint32_t first, uint32_t last);
void mtr_ranges_add_categories(struct mtr_ranges *r, uint32_t mask); /* MTR_MASK_* */
void mtr_ranges_add_script(struct mtr_ranges *r, uint8_t script);
void mtr_ranges_add_space(struct mtr_ranges *r); /* \s: White_Space */
void mtr_ranges_add_word(struct mtr_ranges *r);  /* letters, marks, digits, connectors */
void mtr_ranges_add_all(struct mtr_ranges *r, const struct mtr_ranges *other);
void mtr_ranges_fold(struct mtr_ranges *r);       /* adds what differs only in case */
void mtr_ranges_normalize(struct mtr_ranges *r);  /* sorts and joins */
void mtr_ranges_complement(struct mtr_ranges *r); /* within the scalar values; normalizes */
void mtr_ranges_intersect(struct mtr_ranges *r, struct mtr_ranges *other); /* normalizes both */

struct mtr_charset {
    uint64_t ascii[2];
    uint16_t stage[MTR_UNICODE_BLOCKS];
    uint64_t (*blocks)[4]; /* [block_count] on the heap; 0 is empty, 1 is full */
    size_t block_count;
};

/* False: no memory (also when a range list failed). The ranges are normalized. */
bool mtr_charset_init(struct mtr_charset *s, struct mtr_ranges *ranges);
void mtr_charset_free(struct mtr_charset *s);

static inline bool mtr_charset_has(const struct mtr_charset *s, uint32_t cp)
{
    if (cp < 128)
        return s->ascii[cp >> 6] >> (cp & 63) & 1;
    return s->blocks[s->stage[cp >> 8]][cp >> 6 & 3] >> (cp & 63) & 1;
}

/* The length of the first character of valid UTF-8 text if it is a member, else 0. */
static inline size_t mtr_charset_one(const struct mtr_charset *s, const char *text, size_t len)
{
    uint32_t cp;
    if (len == 0)
        return 0;
    cp = (unsigned char)text[0];
    if (cp < 128)
        return s->ascii[cp >> 6] >> (cp & 63) & 1;
    size_t n = (size_t)mtr_utf8_next(text, &cp);
    return mtr_charset_has(s, cp) ? n : 0;
}

/* Length of the longest prefix of valid UTF-8 text made of members, at most max characters. */
size_t mtr_charset_run(const struct mtr_charset *s, const char *text, size_t len, size_t max);

#endif
