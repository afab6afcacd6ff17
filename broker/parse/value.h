/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Values as models write them, into compact JSON.
 *
 * Three dialects, each JSON and more. JSON: raw control characters in strings, unknown escapes,
 * trailing commas, True, False, None. PYTHON: also strings between single and triple quotes, its
 * escapes, tuples. GEMMA: also strings between <|"|>, bare keys and bare words.
 */
#ifndef MTR_PARSE_VALUE_H
#define MTR_PARSE_VALUE_H

#include "common/base/buf.h"
#include "common/base/str.h"

#define MTR_VALUE_MAX_DEPTH 128

enum mtr_dialect { MTR_DIALECT_JSON, MTR_DIALECT_PYTHON, MTR_DIALECT_GEMMA };

static inline bool mtr_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* How a string is delimited. */
enum mtr_quote {
    MTR_QUOTE_NONE,
    MTR_QUOTE_JSON,   /* "..." with JSON's escapes */
    MTR_QUOTE_DOUBLE, /* "..." with Python's */
    MTR_QUOTE_SINGLE, /* '...' with Python's */
    MTR_QUOTE_TRIPLE_DOUBLE,
    MTR_QUOTE_TRIPLE_SINGLE,
    MTR_QUOTE_GEMMA, /* <|"|>...<|"|>, no escapes */
};

enum mtr_progress { MTR_NO, MTR_MORE, MTR_YES };

/* A string that begins at s[*at]: which, and *at moves behind the opening quotes. NO: none begins
 * there. MORE: s ends too early to tell; final says that it ends for good. */
enum mtr_progress mtr_quote_open(struct mtr_str s, size_t *at, enum mtr_dialect dialect, bool final,
                                 enum mtr_quote *quote);

/* Appends what s has of the string's content from *at on, escaped for JSON, and moves *at. YES: the
 * closing quotes were there, *at is behind them. MORE: a beginning of an escape or of the quotes
 * may be left; at the end for good (final) it is dropped. */
enum mtr_progress mtr_string_copy(struct mtr_str s, size_t *at, enum mtr_quote quote, bool final,
                                  struct mtr_buf *out);

/* Appends s as content of a JSON string: shortest escapes. */
void mtr_string_escape(struct mtr_buf *out, struct mtr_str s);

/*
 * Appends the value at s[at] as compact JSON, *end is behind it. False, and nothing appended: it is
 * no value. cut: s ends for good, maybe within it: strings keep what they have, numbers and
 * literals are kept if whole, keys without value are dropped, what is open is closed. False then
 * also where nothing of the value is left.
 */
bool mtr_value_write(struct mtr_str s, size_t at, enum mtr_dialect dialect, bool cut,
                     struct mtr_buf *out, size_t *end);

/* Where a value ends, found in time linear in it although it comes in pieces. */
struct mtr_value_scan {
    size_t at; /* next byte to look at */
    uint32_t depth;
    enum mtr_quote quote;
};

/* From where the scan stands (zeroed but for at: the value's beginning) to its end, where at is
 * then. NO: a byte that can't stand there. MORE: not all of it is there. */
enum mtr_progress mtr_value_scan(struct mtr_value_scan *v, struct mtr_str s,
                                 enum mtr_dialect dialect, bool final);

#endif
