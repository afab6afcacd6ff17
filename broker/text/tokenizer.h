/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Text to token ids and back.
 *
 * A tokenizer is read from a Hugging Face tokenizer.json or from the metadata of a GGUF file. It is
 * immutable once built: any number of threads may use one. What a thread needs to encode (scratch,
 * the cache of words already seen) is in its own struct mtr_encoder.
 *
 * Text is UTF-8. Bytes that are not UTF-8 are read as one U+FFFD each, so that no text is refused.
 * Encoding takes time linear in the text (times a logarithm for a word without any boundary).
 *
 * The stages are those of the tokenizers library, whose results are the measure:
 *
 *   text -> added tokens cut out -> normalizer -> pre-tokenizer -> model -> post-processor -> ids
 *   ids -> names of tokens -> decoder -> text
 */
#ifndef MTR_TEXT_TOKENIZER_H
#define MTR_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/str.h"

#define MTR_TOKENIZER_MAX_TOKENS      (4u << 20) /* ids; 16 times the largest vocabulary known */
#define MTR_TOKENIZER_MAX_TOKEN_BYTES 65535u
#define MTR_TOKENIZER_MAX_TEXT_BYTES  (1u << 30) /* of one call of encode */
#define MTR_TOKEN_NONE                UINT32_MAX

struct mtr_tokenizer;
struct mtr_encoder;
struct mtr_gguf;

/* ------------------------------------------------------------------------------------ building */

/*
 * tokenizer_json: the whole file. config_json: tokenizer_config.json, or {NULL, 0}; it names the
 * bos, eos and pad tokens (ids and text come from tokenizer.json alone). Nothing points into the
 * texts afterwards. NULL on failure: MTR_INVALID (not a tokenizer), MTR_UNSUPPORTED (a type of
 * normalizer, model, ... or a regular expression feature that is not implemented, named),
 * MTR_TOO_LARGE, MTR_NO_MEMORY.
 */
struct mtr_tokenizer *mtr_tokenizer_from_json(struct mtr_str tokenizer_json,
                                              struct mtr_str config_json, struct mtr_error *err);

/* From tokenizer.ggml.* of a parsed GGUF file. Nothing points into the mapping afterwards. */
struct mtr_tokenizer *mtr_tokenizer_from_gguf(const struct mtr_gguf *g, struct mtr_error *err);

void mtr_tokenizer_free(struct mtr_tokenizer *t); /* after all of its encoders; NULL is fine */

enum mtr_vocab_model {
    MTR_VOCAB_BPE,    /* byte-level BPE: ranked merges over GPT-2's byte alphabet ("gpt2") */
    MTR_VOCAB_SCORES, /* SentencePiece BPE: the pair whose union scores best first ("llama") */
};

enum mtr_token_type { /* the numbers that GGUF uses */
                      MTR_TOKEN_NORMAL = 1,
                      MTR_TOKEN_UNKNOWN = 2,
                      MTR_TOKEN_CONTROL = 3, /* special: not text, matched in trusted text only */
                      MTR_TOKEN_USER_DEFINED = 4, /* matched whole in any text */
                      MTR_TOKEN_UNUSED = 5,
                      MTR_TOKEN_BYTE = 6, /* <0xAB> */
};

/* A vocabulary as GGUF metadata states it; everything is borrowed for the call. */
struct mtr_vocab_source {
    enum mtr_vocab_model model;
    struct mtr_str pre; /* name of the split pattern: "smollm", "llama-bpe", ... */
    uint32_t token_count;
    const struct mtr_str *tokens; /* [token_count] by id */
    const float *scores;          /* [token_count], or NULL for BPE */
    const uint8_t *types;         /* [token_count] enum mtr_token_type, or NULL: all normal */
    uint32_t merge_count;         /* BPE */
    const struct mtr_str *merges; /* [merge_count] "left right", first is merged first */
    uint32_t bos, eos, eot, eom, unknown, pad; /* MTR_TOKEN_NONE: there is none */
    bool add_bos, add_eos;                     /* what MTR_ENCODE_ADD_SPECIAL adds */
    bool add_space_prefix;                     /* SCORES: a space before the text */
};

struct mtr_tokenizer *mtr_tokenizer_from_source(const struct mtr_vocab_source *source,
                                                struct mtr_error *err);

/* ------------------------------------------------------------------------------------ encoding */

/* A growing run of ids on the heap. The owner zeroes it first and calls mtr_ids_free(). */
struct mtr_ids {
    uint32_t *ids; /* [count] */
    size_t count;
    size_t cap;
};

void mtr_ids_free(struct mtr_ids *v);
bool mtr_ids_push(struct mtr_ids *v, uint32_t id); /* false: no memory */

enum mtr_encode_flags {
    MTR_ENCODE_ADD_SPECIAL = 1, /* put <bos>, <eos>, [CLS] ... around, as the post-processor says */
    MTR_ENCODE_PARSE_SPECIAL = 2, /* the text of a special token stands for the token */
};

/* For one thread at a time; as many as wanted for one tokenizer. NULL: no memory. */
struct mtr_encoder *mtr_encoder_new(const struct mtr_tokenizer *t);
void mtr_encoder_free(struct mtr_encoder *e);

/*
 * Appends the ids of text. Without MTR_ENCODE_PARSE_SPECIAL a special token's text is text
 * ("<|im_end|>" becomes several ids); added tokens that are not special match in any text.
 * On failure (MTR_TOO_LARGE, MTR_NO_MEMORY, or a split pattern that gave up) out is as it was.
 */
bool mtr_encode(struct mtr_encoder *e, struct mtr_str text, unsigned flags, struct mtr_ids *out,
                struct mtr_error *err);

/* A piece of a text of mixed origin: what a chat template wrote, and what users wrote into it. */
struct mtr_text_span {
    size_t len;   /* bytes */
    bool trusted; /* special tokens act that lie in trusted spans with all of their bytes */
};

/*
 * As mtr_encode over the whole text, except that special tokens are parsed in trusted spans only.
 * The lengths must add up to text.len. Pieces are split and merged as if there were no spans.
 */
bool mtr_encode_spans(struct mtr_encoder *e, struct mtr_str text, const struct mtr_text_span *spans,
                      size_t span_count, unsigned flags, struct mtr_ids *out,
                      struct mtr_error *err);

/* ------------------------------------------------------------------------------------ decoding */

/* Appends the text of ids; ids that are not in the vocabulary are left out. For output that comes
 * id by id see detokenizer.h. False: no memory. */
bool mtr_decode(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count, bool skip_special,
                struct mtr_buf *out, struct mtr_error *err);

/* ---------------------------------------------------------------------------------- vocabulary */

/* One more than the largest id. A model's logits may have more rows: those have no token. */
uint32_t mtr_tokenizer_size(const struct mtr_tokenizer *t);

/* The token's spelling in the vocabulary ("Ġthe", "▁the", "<|im_end|>"); {NULL, 0}: no such id. */
struct mtr_str mtr_token_name(const struct mtr_tokenizer *t, uint32_t id);

/* The id of that spelling, added tokens first; MTR_TOKEN_NONE. */
uint32_t mtr_token_id(const struct mtr_tokenizer *t, struct mtr_str name);

/* The bytes that the token stands for in the middle of a text: "Ġthe" is " the", "<0xE4>" is one
 * byte that need not be valid UTF-8, a special token is its own text. {NULL, 0}: no such id. */
struct mtr_str mtr_token_bytes(const struct mtr_tokenizer *t, uint32_t id);

/* Special: not part of an answer's text (skip_special leaves it out). */
bool mtr_token_is_special(const struct mtr_tokenizer *t, uint32_t id);

/* End of generation: eos, and the end-of-turn tokens that the files or well-known names give. */
bool mtr_token_is_eog(const struct mtr_tokenizer *t, uint32_t id);

uint32_t mtr_tokenizer_bos(const struct mtr_tokenizer *t); /* MTR_TOKEN_NONE: there is none */
uint32_t mtr_tokenizer_eos(const struct mtr_tokenizer *t);
uint32_t mtr_tokenizer_pad(const struct mtr_tokenizer *t);
uint32_t mtr_tokenizer_unknown(const struct mtr_tokenizer *t);

/* All end-of-generation ids, ascending. */
const uint32_t *mtr_tokenizer_eog(const struct mtr_tokenizer *t, size_t *count);

/* "byte-level BPE, 49152 tokens, pattern smollm": for logs. Static as long as the tokenizer. */
const char *mtr_tokenizer_describe(const struct mtr_tokenizer *t);

#endif
