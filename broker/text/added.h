/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Added tokens: strings that are cut out of a text whole, before anything else looks at it.
 *
 * They are found by a trie, leftmost first and of several at one place the longest. A token may ask
 * for more: to be a word of its own, to swallow the white space on its left or right.
 */
#ifndef MTR_TEXT_ADDED_H
#define MTR_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/tokenizer.h"
#include "broker/text/unicode.h"
#include "common/base/map.h"

struct mtr_added_token {
    uint32_t id;
    uint32_t len; /* bytes of its text */
    bool special, single_word, lstrip, rstrip;
};

struct mtr_added {
    struct mtr_added_token *tokens; /* [count] */
    size_t count, cap;
    struct mtr_map edges; /* node << 8 | byte to node; the root is 0 */
    struct mtr_map ends;  /* node to index of the token that ends there */
    uint32_t node_count;
    uint64_t begins[1024]; /* a bit for every two bytes that a token may begin with */
};

void mtr_added_free(struct mtr_added *a); /* a zeroed struct holds nothing */

/* Text of at least one byte; a text that is already there gets the new token. False: no memory. */
bool mtr_added_put(struct mtr_added *a, struct mtr_str text, struct mtr_added_token token);

/* Which special tokens act. */
struct mtr_trust {
    bool all;                          /* every one */
    const struct mtr_text_span *spans; /* [count] else: those inside trusted spans */
    size_t count;                      /* 0: none */
    size_t base;                       /* offset of the searched text in the spans' text */
    size_t at, at_offset;              /* the span that was looked at last, and where it begins */
};

/* A part of the text: a token (id) or what lies between (MTR_TOKEN_NONE). */
struct mtr_section {
    size_t start, end;
    uint32_t id;
};

struct mtr_sections {
    struct mtr_section *items; /* [count] on the heap */
    size_t count, cap;
};

/* Cuts text into sections, appended to out; text is valid UTF-8. False: no memory. */
bool mtr_added_cut(const struct mtr_added *a, const struct mtr_unicode *u, struct mtr_str text,
                   struct mtr_trust *trust, struct mtr_sections *out);

#endif
