/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Token ids to text as they come, one at a time.
 *
 * A token may end inside a character; what is handed out never does. The bytes handed out so far
 * and by flush are together what mtr_decode() makes of all ids, with one exception: after a run of
 * byte tokens ("<0xE4>") that breaks off inside a character, mtr_decode() follows the tokenizers
 * library and replaces every byte of the run; characters of the run that were whole have been
 * handed out here, and only what is left of the broken one is replaced, one U+FFFD a byte.
 *
 * A detokenizer belongs to one sequence and holds a few bytes. The tokenizer must outlive it.
 */
#ifndef MTR_TEXT_DETOKENIZER_H
#define MTR_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"

struct mtr_tokenizer;

#define MTR_DETOKENIZER_HELD_BYTES 8

struct mtr_detokenizer {
    const struct mtr_tokenizer *tokenizer;
    bool skip_special;
    bool begun;         /* some token was pushed: the leading space rule is behind us */
    bool byte_run;      /* held bytes come from byte tokens */
    uint8_t held_count; /* bytes of a character that is not whole yet */
    uint8_t held[MTR_DETOKENIZER_HELD_BYTES];
    struct mtr_buf whole; /* used only by decoders that need all tokens at once */
    size_t given;         /* bytes of `whole` handed out */
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
