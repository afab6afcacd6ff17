/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The model of a tokenizer: turns a piece of text into ids.
 *
 * Filled by tokenizer_json.c or tokenizer_gguf.c, finished by mtr_model_finish(), immutable then.
 */
#ifndef MTR_TEXT_MODEL_H
#define MTR_TEXT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/bpe.h"
#include "broker/text/joints.h"
#include "broker/text/unigram.h"
#include "broker/text/vocab.h"

enum mtr_model_kind {
    MTR_MODEL_BPE_BYTES, /* ranked merges; symbols are bytes */
    MTR_MODEL_BPE_CHARS, /* ranked merges; symbols are characters */
    MTR_MODEL_SCORES,    /* SentencePiece BPE */
    MTR_MODEL_UNIGRAM,
    MTR_MODEL_WORDPIECE, /* longest match first, word by word */
    MTR_MODEL_WORDLEVEL, /* whole words */
};

#define MTR_MODEL_MAX_AFFIX_BYTES 64

struct mtr_model {
    enum mtr_model_kind kind;
    struct mtr_vocab pieces; /* what the model matches: raw bytes for BPE_BYTES, else names */
    uint32_t unknown;        /* MTR_TOKEN_NONE: unknown characters vanish */
    bool fuse_unknown;       /* unknown characters side by side are one token */
    bool byte_fallback;      /* an unknown character becomes its bytes' tokens */
    bool ignore_merges;      /* a piece that is a token is that token */
    uint32_t byte_ids[256];  /* of single bytes, or of "<0x00>" ...; MTR_TOKEN_NONE */

    struct mtr_bpe_table merges;
    struct mtr_joints joints;
    bool cuts;       /* joints are in use */
    uint32_t *chars; /* [MTR_CLOSED_CHARS] characters that enter merging as one symbol: the closed
                      * ones for BPE_BYTES, else those that are tokens */
    char prefix[MTR_MODEL_MAX_AFFIX_BYTES + 1]; /* before pieces inside a word: "##" */
    char suffix[MTR_MODEL_MAX_AFFIX_BYTES + 1]; /* behind the last piece of a word: "</w>" */
    size_t prefix_len, suffix_len;

    uint32_t *ranks; /* SCORES: [pieces.size] */
    double *scores;  /* UNIGRAM: [pieces.size] */
    struct mtr_unigram unigram;
    uint32_t max_chars; /* WORDPIECE: longer words are unknown */
};

/* When pieces, merges and scores are filled: byte ids, joints, the trie. */
bool mtr_model_finish(struct mtr_model *m, struct mtr_error *err);
void mtr_model_free(struct mtr_model *m);

struct mtr_cached_word;

/* Scratch and the cache of words; zeroed before first use. */
struct mtr_model_work {
    struct mtr_bpe_work bpe;
    struct mtr_unigram_work unigram;
    struct mtr_cached_word *cache; /* made at first use; doing without it is no failure */
    bool cache_tried;
};

void mtr_model_work_free(struct mtr_model_work *w);

/* Appends the ids of a piece: valid UTF-8 and not empty. False: no memory. */
bool mtr_model_encode(const struct mtr_model *m, struct mtr_model_work *w, struct mtr_str piece,
                      struct mtr_ids *out);

#endif
