/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Byte pair encoding (Sennrich, Haddow, Birch 2016): of all neighbours that a rule merges, the pair
 * with the lowest rank, the leftmost of equal ones, becomes one symbol, until no rule applies.
 *
 * Two kinds of rules. A table of ranked pairs of ids (tokenizer.json, GGUF "gpt2"). Or, as
 * SentencePiece states it (GGUF "llama"): two neighbours merge if their text together is a token,
 * the highest score first; symbols are then spans of the text.
 *
 * Short words are merged by scanning for the lowest rank; long ones with a heap of candidates, so
 * that a word of a million letters takes n log n steps.
 */
#ifndef MTR_TEXT_BPE_H
#define MTR_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/vocab.h"

struct mtr_bpe_pair {
    uint32_t left, right;
    uint32_t rank;
    uint32_t id; /* of the merged symbol; MTR_TOKEN_NONE: the entry is free */
};

/* Ranked pairs: immutable once filled. */
struct mtr_bpe_table {
    struct mtr_bpe_pair *pairs; /* [mask + 1] */
    size_t mask;
    uint64_t *maybe; /* [maybe_mask + 1] bits: clear where no pair has that hash */
    uint64_t maybe_mask;
};

/* Room for at most `merges` pairs. False: no memory. */
bool mtr_bpe_table_init(struct mtr_bpe_table *t, size_t merges);
void mtr_bpe_table_free(struct mtr_bpe_table *t);

/* A pair that is already there gets the new rank and id. */
void mtr_bpe_table_put(struct mtr_bpe_table *t, struct mtr_bpe_pair pair);

/* The entry of a pair, or NULL. */
const struct mtr_bpe_pair *mtr_bpe_table_find(const struct mtr_bpe_table *t, uint32_t left,
                                              uint32_t right);

/* Tokens by text with scores: borrowed from the model. */
struct mtr_bpe_scores {
    const struct mtr_vocab *vocab; /* tokens that merges may make */
    const uint32_t *rank;          /* [vocab->size] low for a high score */
};

/* rank of a score: any two scores compare as their ranks do, reversed. NaN ranks last. */
uint32_t mtr_bpe_score_rank(float score);

/* A symbol of a word. */
struct mtr_bpe_symbol {
    uint32_t id;
    uint32_t len; /* bytes of text; 0: merged into one on its left */
};

struct mtr_bpe_node;

/* Scratch of one thread; zeroed before first use. */
struct mtr_bpe_work {
    struct mtr_bpe_symbol *symbols; /* [count] in: characters or bytes; out: merged */
    size_t count, cap;
    struct mtr_bpe_node *nodes; /* for long words */
    size_t node_cap;
    uint64_t *heap;
    size_t heap_count, heap_cap;
};

void mtr_bpe_work_free(struct mtr_bpe_work *w);
bool mtr_bpe_push(struct mtr_bpe_work *w, uint32_t id, uint32_t len); /* false: no memory */

/* Merges w->symbols in place. False: no memory. */
bool mtr_bpe_merge_ranked(const struct mtr_bpe_table *t, struct mtr_bpe_work *w);

/* The same by scores: symbols are spans of text behind one another. */
bool mtr_bpe_merge_scored(const struct mtr_bpe_scores *s, struct mtr_bpe_work *w,
                          struct mtr_str text);

#endif
