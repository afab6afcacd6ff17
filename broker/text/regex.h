/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Regular expressions over UTF-8, in the dialect in which tokenizer.json files write their split
 * patterns: Oniguruma's Ruby syntax.
 *
 * Known: literals, `.`, classes with nesting and `&&`, \p{..} for categories and scripts, \s \w \d
 * \h and their complements, escapes, groups, alternation, greedy, lazy and possessive repeats,
 * lookahead and lookbehind, atomic groups, ^ $ \A \z \Z \b \B, (?imx) flags of which i, m and x
 * act, comments. Not known, and refused with MTR_UNSUPPORTED: back references, \X, \G,
 * conditionals, subexpression calls, unbounded repeats of what may be empty.
 *
 * Matching backtracks as that dialect demands (first alternative wins, not the longest). The work
 * is bounded: a scanner has a budget of steps in proportion to its text, and gives up beyond it.
 * The patterns of published tokenizers stay within a few steps a character on any text.
 *
 * An expression is immutable once compiled and may be shared by threads; a scanner belongs to one.
 */
#ifndef MTR_TEXT_REGEX_H
#define MTR_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/str.h"

#define MTR_REGEX_MAX_PATTERN_BYTES 16384
#define MTR_REGEX_MAX_NESTING       64
#define MTR_REGEX_MAX_PROGRAM       16384 /* instructions, after repeats are unrolled */
#define MTR_REGEX_MAX_REPEAT        10000
#define MTR_REGEX_MAX_FRAMES        (4u << 20) /* places to go back to, at one time */
#define MTR_REGEX_STEPS_PER_BYTE    256
#define MTR_REGEX_STEPS_AT_LEAST    (1u << 20)

struct mtr_regex;

/* NULL on failure: MTR_INVALID (with the offset in the pattern), MTR_UNSUPPORTED, MTR_TOO_LARGE. */
struct mtr_regex *mtr_regex_compile(struct mtr_str pattern, struct mtr_error *err);
void mtr_regex_free(struct mtr_regex *r); /* NULL is fine */

struct mtr_regex_frame;

/* Scratch; zeroed before first use, kept between texts. */
struct mtr_regex_scanner {
    struct mtr_regex_frame *frames; /* [cap] */
    size_t count, cap;
    uint64_t steps; /* left */
    bool failed;    /* the budget or the memory ran out */
};

void mtr_regex_scanner_free(struct mtr_regex_scanner *s);

/* Sets the budget for a text of len bytes. */
void mtr_regex_begin(struct mtr_regex_scanner *s, size_t len);

/*
 * The first match at or after from (a character boundary) in valid UTF-8 text: true and its bounds,
 * which may be equal. False: none, or s->failed.
 */
bool mtr_regex_find(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                    size_t from, size_t *start, size_t *end);

#endif
