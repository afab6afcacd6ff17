/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The decoder of a tokenizer.json: names of tokens back into text.
 *
 * Two kinds of chains cover what language models use, and are reduced to bytes per token:
 *
 *   BYTES   ByteLevel: a token's name in GPT-2's alphabet is its bytes
 *   SPACES  a mark ("▁") stands for a space, "<0xE4>" for a byte, and up to `strip` spaces at
 *           the start of the text are dropped: Replace, Metaspace, ByteFallback, Fuse, Strip in
 *           that order
 *
 * Every other chain (WordPiece, BPEDecoder, CTC, other orders) is kept as steps over lists of
 * strings, which is how the tokenizers library defines them; they need all tokens at once.
 */
#ifndef MTR_TEXT_DECODER_H
#define MTR_TEXT_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/pattern.h"
#include "common/base/buf.h"

#define MTR_DECODER_MAX_STEPS 64

enum mtr_decoder_kind { MTR_DECODE_BYTES, MTR_DECODE_SPACES, MTR_DECODE_CHAIN };

struct mtr_decoder_step;

struct mtr_decoder {
    enum mtr_decoder_kind kind;
    struct mtr_buf mark;  /* SPACES: what stands for a space */
    struct mtr_buf space; /* SPACES: what it stands for */
    bool byte_tokens;     /* SPACES: "<0xE4>" is a byte */
    bool first_bare;      /* SPACES: marks in the first token vanish (Metaspace) */
    uint32_t strip;       /* SPACES: characters `stripped` dropped at the start of the text */
    struct mtr_buf stripped;
    struct mtr_decoder_step *steps; /* [count] CHAIN; also while a chain is being reduced */
    size_t count, cap;
};

/* v: the member "decoder" (NULL and JSON null: names with spaces between). */
bool mtr_decoder_from_json(struct mtr_decoder *d, const struct mtr_json *v, struct mtr_error *err);

/* SPACES with the mark "▁", byte tokens, and one space stripped if `strip`. */
bool mtr_decoder_for_sentencepiece(struct mtr_decoder *d, bool strip, struct mtr_error *err);
void mtr_decoder_free(struct mtr_decoder *d);

/* Appends what a token's name stands for by itself, away from the start of the text. *byte: the
 * name is that of a byte. False: no memory. */
bool mtr_decoder_token(const struct mtr_decoder *d, struct mtr_str name, struct mtr_buf *out,
                       bool *byte);

/* The byte of "<0xE4>", or -1. */
int mtr_byte_token(struct mtr_str name);

/* CHAIN: appends the text of all names. */
bool mtr_decoder_chain(const struct mtr_decoder *d, const struct mtr_str *names, size_t count,
                       struct mtr_buf *out, struct mtr_error *err);

/* Appends bytes as valid UTF-8: each longest piece that could begin a character and does not become
 * one is replaced by one U+FFFD (the practice of the Unicode standard, section 3.9). */
bool mtr_lossy(struct mtr_str bytes, struct mtr_buf *out);

#endif
