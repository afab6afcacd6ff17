/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Token ids to text as they come, one at a time.
 *
 * A token may end inside a character; what is handed out never does. The bytes handed out so far
 * and by flush are together what mtr_decode() makes of all ids, with one exception: a run of byte
 * tokens
 * ("<0xE4>") that is not valid as a whole is replaced by mtr_decode(), as by the tokenizers
 * library, one U+FFFD for each byte of the run. Here the characters of the run that were whole
 * before it broke have been handed out already; from the first broken byte on the run is replaced
 * alike.
 *
 * A detokenizer belongs to one sequence and holds a few bytes. The tokenizer must outlive it.
 */
#ifndef MTR_TEXT_DETOKENIZER_H
#define MTR_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/tokenizer.h"
#include "common/base/buf.h"
#include "common/base/error.h"

struct mtr_detokenizer {
    const struct mtr_tokenizer *tokenizer;
    bool skip_special;
    bool begun;         /* a token was pushed */
    bool bad_run;       /* the present run of byte tokens is broken */
    uint32_t strip;     /* spaces that the start of the text may still lose */
    uint8_t held_count; /* bytes of a character that is not whole yet */
    char held[4];
    struct mtr_ids all;   /* only for decoders that need all tokens at once, */
    struct mtr_buf whole; /* the text of all of them, */
    size_t given;         /* and how much of it was handed out */
};

void mtr_detokenizer_init(struct mtr_detokenizer *d, const struct mtr_tokenizer *t,
                          bool skip_special);
void mtr_detokenizer_free(struct mtr_detokenizer *d);

/* Appends to out the characters that id completes, often none. False: no memory. */
bool mtr_detokenizer_push(struct mtr_detokenizer *d, uint32_t id, struct mtr_buf *out,
                          struct mtr_error *err);

/* The end: appends U+FFFD for what never became whole. The detokenizer is then as after init. */
bool mtr_detokenizer_flush(struct mtr_detokenizer *d, struct mtr_buf *out, struct mtr_error *err);

#endif
