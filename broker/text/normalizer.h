/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The normalizer of a tokenizer.json: steps that rewrite a text one after the other.
 *
 * Known types: NFC NFD NFKC NFKD, Lowercase, Strip, StripAccents, Nmt, Replace, Prepend,
 * Precompiled, BertNormalizer, ByteLevel, Sequence of these, and null.
 */
#ifndef MTR_TEXT_NORMALIZER_H
#define MTR_TEXT_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/text/charsmap.h"
#include "broker/text/normal_form.h"
#include "broker/text/pattern.h"

#define MTR_NORMALIZER_MAX_STEPS 64
#define MTR_NORMALIZER_MAX_BYTES 0xf0000000u /* of a rewritten text */

struct mtr_normalizer_step;

struct mtr_normalizer {
    struct mtr_normalizer_step *steps; /* [count] on the heap */
    size_t count, cap;
};

/* Scratch of one thread; zeroed before first use. */
struct mtr_normalizer_work {
    struct mtr_buf buffers[2];
    struct mtr_normal_work normal;
    struct mtr_regex_scanner scanner;
};

void mtr_normalizer_work_free(struct mtr_normalizer_work *w);

/* v: the member "normalizer" (NULL and JSON null: no steps). A zeroed struct has no steps. */
bool mtr_normalizer_from_json(struct mtr_normalizer *n, const struct mtr_json *v,
                              struct mtr_error *err);

/* Form C alone; and what SentencePiece does: a mark "▁" before the text if prefix, and for spaces.
 */
bool mtr_normalizer_for_nfc(struct mtr_normalizer *n, struct mtr_error *err);
bool mtr_normalizer_for_sentencepiece(struct mtr_normalizer *n, bool prefix, struct mtr_error *err);
void mtr_normalizer_free(struct mtr_normalizer *n);

/*
 * *out is the text rewritten: text itself when no step changed it, else in the scratch until its
 * next use. Text is valid UTF-8, and so is *out.
 */
bool mtr_normalize(const struct mtr_normalizer *n, const struct mtr_unicode *u,
                   struct mtr_normalizer_work *w, struct mtr_str text, struct mtr_str *out,
                   bool *cut, struct mtr_error *err);

#endif
