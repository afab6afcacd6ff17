/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The pre-tokenizer of a tokenizer.json: cuts a normalized text into pieces that the model then
 * encodes one by one.
 *
 * Known types: Split (String or Regex, every behavior, inverted or not), ByteLevel, Metaspace,
 * Digits, Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer,
 * UnicodeScripts, FixedLength, Sequence of these, and null.
 *
 * Where ByteLevel is the last step, its mapping of bytes to characters is left out and the pieces
 * stay raw text: the model then works on bytes (mtr_pretokenizer.raw_bytes).
 */
#ifndef MTR_TEXT_PRETOKENIZER_H
#define MTR_TEXT_PRETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/pattern.h"

#define MTR_PRETOKENIZER_MAX_STEPS 64
#define MTR_PRETOKENIZER_MAX_BYTES 0xf0000000u /* of a text that steps have rewritten */

struct mtr_pretokenizer_step;

struct mtr_pretokenizer {
    struct mtr_pretokenizer_step *steps; /* [count] on the heap */
    size_t count, cap;
    bool raw_bytes;
};

struct mtr_piece {
    uint32_t at, len; /* in the text of mtr_pieces; never empty */
};

/* The pieces of one text, and the scratch of their making; zeroed before first use. */
struct mtr_pieces {
    struct mtr_str text;     /* what the pieces lie in */
    struct mtr_piece *items; /* [count] */
    size_t count, cap;
    struct mtr_piece *other; /* the next step's */
    size_t other_count, other_cap;
    struct mtr_buf buffers[2];
    int side;
    struct mtr_regex_scanner scanner;
};

void mtr_pieces_free(struct mtr_pieces *p);

/* v: the member "pre_tokenizer" (NULL and JSON null: no steps, one piece). */
bool mtr_pretokenizer_from_json(struct mtr_pretokenizer *p, const struct mtr_json *v,
                                struct mtr_error *err);

/* Byte-level with these split expressions one after the other, each match and each gap a piece. */
bool mtr_pretokenizer_from_regexes(struct mtr_pretokenizer *p, const char *const *regexes,
                                   size_t count, struct mtr_error *err);
void mtr_pretokenizer_free(struct mtr_pretokenizer *p);

/* Cuts text (valid UTF-8). first: the text begins the input, which Metaspace may ask for. */
bool mtr_pretokenize(const struct mtr_pretokenizer *p, struct mtr_pieces *pieces,
                     struct mtr_str text, bool first, struct mtr_error *err);

#endif
