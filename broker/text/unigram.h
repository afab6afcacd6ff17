/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SentencePiece's unigram model (Kudo 2018): of all ways to write a text as tokens the one whose
 * scores (log-probabilities) add up highest, found by dynamic programming over the positions.
 *
 * A character that is no token costs ten less than the lowest score of the vocabulary.
 */
#ifndef MTR_TEXT_UNIGRAM_H
#define MTR_TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/text/vocab.h"

struct mtr_trie_node {
    uint32_t id; /* of the token that ends here, MTR_TOKEN_NONE */
    uint32_t first_child;
    uint16_t child_count;
    uint8_t byte; /* on the edge to this node */
};

struct mtr_unigram {
    struct mtr_trie_node *nodes; /* [node_count] children of a node side by side, by byte */
    size_t node_count, node_cap;
    const double *scores; /* [size] borrowed */
    double unknown_score;
};

/* Tokens are those of the vocabulary's ids [0, size); both are borrowed. */
bool mtr_unigram_init(struct mtr_unigram *u, const struct mtr_vocab *vocab, const double *scores,
                      struct mtr_error *err);
void mtr_unigram_free(struct mtr_unigram *u);

struct mtr_unigram_step {
    double score;
    uint32_t start; /* of the last token of the best way here; UINT32_MAX: none */
    uint32_t id;    /* MTR_TOKEN_NONE: a character that is no token */
};

/* Scratch; zeroed before first use. */
struct mtr_unigram_work {
    struct mtr_unigram_step *steps; /* [text.len + 1] */
    size_t cap;
    uint32_t *ends; /* [count] ends of the tokens of the best way, in order */
    size_t count, end_cap;
};

void mtr_unigram_work_free(struct mtr_unigram_work *w);

/* Fills w->ends; the id of the token that ends at e is w->steps[e].id. False: no memory. */
bool mtr_unigram_split(const struct mtr_unigram *u, struct mtr_unigram_work *w,
                       struct mtr_str text);

#endif
