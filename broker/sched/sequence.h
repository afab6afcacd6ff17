/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A sequence: a request's tokens, and how far they are computed.
 *
 *   tokens  [0, prompt) the prompt  [prompt, known) output
 *           positions < planned are computed, or will be by plans in flight
 *   samples `pending` tokens after `known` are asked for, by plans in flight
 *
 * Between steps: pending == 0 and planned < known, or pending > 0 and planned == known + pending -
 * 1 (the next row is the one behind the last sample; its token stands in the slot's history). While
 * it waits (new, preempted, worker lost) planned is 0.
 */
#ifndef MTR_SCHED_SEQUENCE_H
#define MTR_SCHED_SEQUENCE_H

#include "broker/sched/table.h"
#include "common/base/arena.h"

struct mtr_seq {
    uint64_t id; /* ids ascend: also the order of arrival */
    void *user;
    struct mtr_seq *prev, *next; /* while waiting */
    bool running;

    uint32_t *tokens; /* [known] */
    size_t tokens_cap;
    uint32_t prompt, known, planned, pending;
    uint32_t limit;   /* known never gets larger */
    uint32_t high;    /* the most that was ever computed, to count what is computed again */
    bool prompt_only; /* max_tokens is 0: nothing is sampled */
    bool closing;     /* prompt_only: the last lane is in flight */

    /* The request. */
    uint32_t max_tokens, min_tokens;
    uint32_t adapter;
    struct mtr_sampling sampling;
    const uint32_t *stop_ids; /* [stop_count] */
    uint32_t stop_count;
    const struct mtr_sched_image *images; /* [image_count] */
    uint32_t image_count;
    uint64_t submitted_ns, deadline_ns, after;
    struct mtr_arena memory; /* of the request's arrays */

    bool constrained;
    const uint8_t *mask; /* for the next sample, or NULL */
    uint32_t mask_bytes;

    /* Scores: tokens [1, scored) have theirs delivered, [scored, score_planned) are in flight. */
    bool score;
    uint32_t scored, score_planned;

    /* While running. */
    uint32_t slot;
    bool open; /* the slot is new to it: the next lane says so */
    struct mtr_table table;
    uint32_t snapshot_at; /* recurrent: take a snapshot of the state at this position; 0: none */
    uint32_t draft_count;
    uint32_t draft_row[1 + MTR_SCHED_MAX_DRAFTS]; /* the last token, then the drafts */
    uint64_t last_token_ns;                       /* or when it began to run */

    bool ran; /* at least once */
    uint32_t cached_tokens;
    uint32_t losses; /* of workers while it ran, since its last token or score */
};

/* A copy of the request with id 0. NULL: no memory. */
struct mtr_seq *mtr_seq_create(const struct mtr_sched_params *p, uint64_t now_ns);
void mtr_seq_destroy(struct mtr_seq *q);

bool mtr_seq_append(struct mtr_seq *q, uint32_t token); /* false: no memory */
bool mtr_seq_is_stop(const struct mtr_seq *q, uint32_t token);
static inline uint32_t mtr_seq_outputs(const struct mtr_seq *q)
{
    return q->known - q->prompt;
}

/* Prompt tokens are still to be scored. */
static inline bool mtr_seq_scoring(const struct mtr_seq *q)
{
    return q->score && q->score_planned < q->prompt;
}

/* The key of the sequence's block number `index` in the prefix tree. */
struct mtr_radix_key mtr_seq_key(const struct mtr_seq *q, uint32_t index, uint32_t block_tokens);

/* Sequences in order of arrival. */
struct mtr_seq_list {
    struct mtr_seq *first, *last;
    uint32_t count;
};

void mtr_seq_list_insert(struct mtr_seq_list *l, struct mtr_seq *q);
void mtr_seq_list_remove(struct mtr_seq_list *l, struct mtr_seq *q);

#endif
