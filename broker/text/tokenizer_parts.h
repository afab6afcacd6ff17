/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a tokenizer is made of. Filled by the two readers (tokenizer_json.c, tokenizer_source.c),
 * used by tokenizer.c and detokenizer.c, seen by nobody else.
 */
#ifndef MTR_TEXT_TOKENIZER_PARTS_H
#define MTR_TEXT_TOKENIZER_PARTS_H

#include "broker/text/added.h"
#include "broker/text/decoder.h"
#include "broker/text/model.h"
#include "broker/text/normalizer.h"
#include "broker/text/pretokenizer.h"
#include "broker/text/tokenizer.h"
#include "broker/text/unicode.h"
#include "broker/text/vocab.h"

#define MTR_TOKENIZER_MAX_AFFIX 64 /* ids that the post-processor adds on one side */

enum mtr_token_flag { MTR_FLAG_SPECIAL = 1, MTR_FLAG_EOG = 2, MTR_FLAG_BYTE = 4 };

struct mtr_tokenizer {
    struct mtr_unicode unicode;
    struct mtr_vocab names;     /* all tokens by spelling */
    struct mtr_vocab bytes;     /* what they stand for; not to be searched */
    struct mtr_vocab respelled; /* added tokens that normalizing changes: decoded as changed */
    uint8_t *flags;             /* [names.size] enum mtr_token_flag */
    struct mtr_added added;     /* cut out of the text as it came */
    struct mtr_added added_normalized; /* cut out of the normalized text */
    struct mtr_normalizer normalizer;
    struct mtr_pretokenizer pretokenizer;
    struct mtr_model model;
    struct mtr_decoder decoder;
    uint32_t before[MTR_TOKENIZER_MAX_AFFIX], after[MTR_TOKENIZER_MAX_AFFIX];
    size_t before_count, after_count; /* MTR_ENCODE_ADD_SPECIAL */
    uint32_t bos, eos, pad, unknown;
    uint32_t *eog; /* [eog_count] ascending */
    size_t eog_count;
    char describe[128];
};

/* The name that decoders see. */
static inline struct mtr_str mtr_tokenizer_spelling(const struct mtr_tokenizer *t, uint32_t id)
{
    return mtr_vocab_get(mtr_vocab_has(&t->respelled, id) ? &t->respelled : &t->names, id);
}

/* Empty, with the character tables unfolded. NULL: no memory. */
struct mtr_tokenizer *mtr_tokenizer_new(struct mtr_error *err);

/* When names, model and decoder are filled: what every token stands for, and its flags cleared. */
bool mtr_tokenizer_fill_bytes(struct mtr_tokenizer *t, struct mtr_error *err);

/* When special flags are set: end-of-generation tokens from `eos` and well-known names. */
bool mtr_tokenizer_fill_eog(struct mtr_tokenizer *t, const uint32_t *more, size_t count,
                            struct mtr_error *err);

#endif
