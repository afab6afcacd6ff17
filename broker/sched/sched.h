/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler: which sequences run, what each step computes, where its cache blocks are.
 *
 * It owns all sequences with all their tokens and everything that the worker's memory means. It is
 * pure: no I/O, no clock, no threads; time comes as an argument, so that a test can run years of it
 * under a virtual clock. One thread uses it:
 *
 *   submit, cancel, mask ..>  [ waiting -> running -> gone ]  ..> events
 *                              plan() -> StepPlan -> worker -> StepResult -> result()
 *
 * The driver's loop: after anything happened, call mtr_sched_plan until it returns NULL and send
 * what it gives; take the events after every call that may make some (they are listed there); sleep
 * until mtr_sched_next_ns at the latest. Up to MTR_PLANS_IN_FLIGHT plans are unanswered: a plan is
 * made before the tokens of the one before are known, and its decode lanes refer to them by
 * position (lane.tokens NULL).
 *
 * A worker may die. worker_lost sends all running sequences back to waiting with their tokens and
 * forgets the plans in flight; after worker_ready they prefill prompt and output again and go on.
 * What they sample depends on (seed, position) alone, so their clients see nothing but a pause; one
 * that ran in MTR_SCHED_MAX_LOSSES workers that died, and got nothing from any, ends with an error.
 * The same holds for preemption: when blocks run out, the sequence that arrived last gives its
 * blocks back. The oldest sequence is never preempted, so that all finish.
 *
 * Models with recurrent state (geometry.recurrent): prefill lanes start at multiples of
 * chunk_tokens, snapshots for the prefix cache are taken there, output tokens are not shared, and a
 * sequence that starts again replays its own output one token a step, as it was computed first.
 */
#ifndef MTR_SCHED_SCHED_H
#define MTR_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/plan.h"
#include "common/wire/step.h"

#define MTR_SCHED_MAX_STOPS   256     /* stop ids of a request */
#define MTR_SCHED_MAX_IMAGES  256     /* images of a request */
#define MTR_SCHED_MAX_BATCH   4096    /* sequences at once */
#define MTR_SCHED_MAX_QUEUE   1000000 /* waiting sequences */
#define MTR_SCHED_MAX_DRAFTS  16
#define MTR_SCHED_MAX_RETRY_S 60
#define MTR_SCHED_PROMPT_TAIL 16 /* tokens at a prompt's end that the next turn may not have */

struct mtr_sched;

enum mtr_sched_policy {
    MTR_SCHED_FIFO, /* first come, first served */
    MTR_SCHED_SLAI, /* deadline-aware: see policy.h */
};

/* What the model's cache looks like; from the launch plan, by mtr_sched_geometry(). */
struct mtr_sched_geometry {
    uint32_t vocab;
    uint32_t block_tokens; /* 16 */
    uint32_t group_count;  /* 0 only for purely recurrent models */
    struct {
        enum mtr_cache_kind kind;
        uint32_t window; /* SLIDING: tokens that a token sees, itself included; else 0 */
    } groups[MTR_MAX_GROUPS];
    bool recurrent;
    uint32_t
        chunk_tokens; /* recurrent: prefill is cut at its multiples; a multiple of block_tokens */
};

struct mtr_sched_config {
    struct mtr_sched_geometry geometry;
    enum mtr_sched_policy policy;
    bool prefix_cache;
    uint32_t max_batch_size;           /* sequences that run at once; also the worker's slots */
    uint32_t max_num_seqs;             /* sequences that wait, beyond which submit says busy */
    uint32_t max_prefill_tokens;       /* prompt tokens that one step computes */
    uint32_t max_sequence_tokens;      /* prompt and output */
    uint32_t max_drafts;               /* draft tokens to verify, of one lane; 0: none */
    uint32_t max_score_rows;           /* scored tokens of one step: each needs a row of logits */
    uint32_t tbt_deadline_ms;          /* SLAI: time between two tokens of a sequence */
    uint32_t snapshot_interval_tokens; /* recurrent; a multiple of chunk_tokens; 0: only near the
                                          end of each prompt */
};

/* What one worker life has room for; from Ready. */
struct mtr_sched_capacity {
    uint32_t group_blocks[MTR_MAX_GROUPS];
    uint32_t snapshots;
};

/* An image's place in the prompt: its tokens are the same for all images, its digest is not. */
struct mtr_sched_image {
    uint32_t first;
    uint32_t count;
    uint8_t digest[32];
};

/* A request for one sequence. Everything is copied. ignore_eos is said by leaving the end-of-text
 * ids out of stop_ids; n > 1 by n requests with seeds of their own, each but the first `after` the
 * first. */
struct mtr_sched_params {
    const uint32_t *tokens; /* [token_count], each < vocab */
    uint32_t token_count;
    uint32_t max_tokens;      /* to generate; 0: none, the prompt is only computed (and scored) */
    uint32_t min_tokens;      /* stop ids can't be sampled before so many */
    const uint32_t *stop_ids; /* [stop_count] */
    uint32_t stop_count;
    struct mtr_sampling sampling; /* output_start is set by the scheduler */
    bool score;       /* log-probabilities of the prompt's tokens but the first (echo) */
    bool constrained; /* each token needs a mask first: mtr_sched_mask */
    uint32_t adapter;
    const struct mtr_sched_image *images; /* [image_count], ascending */
    uint32_t image_count;
    uint64_t deadline_ns; /* absolute, 0: none */
    uint64_t after;       /* another sequence that computes the same prompt, or 0: wait for it */
    void *user;           /* comes back with each event */
};

#define MTR_SCHED_MAX_LOSSES 6 /* of workers in a row, in which a sequence ran in vain */

enum mtr_finish {
    MTR_FINISH_NONE,
    MTR_FINISH_STOP,   /* one of stop_ids */
    MTR_FINISH_LENGTH, /* max_tokens, max_sequence_tokens or all that the cache can hold */
    MTR_FINISH_CANCELLED,
    MTR_FINISH_DEADLINE,
    MTR_FINISH_ERROR, /* error says what */
};

const char *mtr_finish_name(enum mtr_finish f);

enum mtr_sched_event_kind { MTR_SCHED_TOKENS, MTR_SCHED_SCORES, MTR_SCHED_FINISHED };

struct mtr_sched_event {
    enum mtr_sched_event_kind kind;
    uint64_t id;
    void *user;
    uint32_t cached_tokens; /* of the prompt, taken from the prefix cache when it first ran */
    /* TOKENS: new tokens, without the stop id. Point into the result that gave them. */
    uint32_t count;
    const uint32_t *tokens;                    /* [count] */
    const struct mtr_token_logprobs *logprobs; /* TOKENS: [count] or NULL; SCORES: [count] */
    uint32_t first; /* SCORES: position of the token that logprobs[0] is about */
    /* FINISHED: nothing more comes of this id. */
    enum mtr_finish finish;
    uint32_t stop_id; /* STOP */
    uint32_t prompt_tokens;
    uint32_t output_tokens;        /* the stop id included */
    const struct mtr_error *error; /* ERROR, else NULL */
};

struct mtr_sched_stats {
    uint32_t running, waiting;
    uint32_t group_count;
    struct {
        uint32_t blocks;
        uint32_t used;   /* by running sequences */
        uint32_t cached; /* by the prefix cache alone: evictable */
        uint32_t free;
    } groups[MTR_MAX_GROUPS];
    uint32_t snapshots, snapshots_used;
    uint64_t prefix_hit_tokens;  /* prompt tokens that were found in the cache */
    uint64_t prefix_miss_tokens; /* and those that were not */
    uint64_t evicted_blocks;
    uint64_t preemptions;
    uint64_t replayed_tokens; /* computed again after preemption or loss */
    uint64_t steps, lanes, prefill_tokens, decode_tokens;
    uint64_t draft_tokens, accepted_tokens;
};

enum mtr_sched_state { MTR_SCHED_WAITING, MTR_SCHED_PREFILL, MTR_SCHED_DECODE };

struct mtr_sched_info {
    uint64_t id;
    void *user;
    enum mtr_sched_state state;
    uint32_t prompt_tokens, cached_tokens, output_tokens;
    uint64_t submitted_ns;
};

/* The cache geometry of a launch plan. chunk_tokens: of recurrent models, else ignored. */
struct mtr_sched_geometry mtr_sched_geometry(const struct mtr_plan *plan, uint32_t chunk_tokens);

/* NULL with err filled when the numbers make no sense together or memory is out. */
struct mtr_sched *mtr_sched_create(const struct mtr_sched_config *c, struct mtr_error *err);
void mtr_sched_destroy(struct mtr_sched *s);

/*
 * Takes a request into the queue and gives it an id (never 0, never reused). Errors: MTR_INVALID
 * (can't be right, or can't ever fit: the message says why), MTR_BUSY (queue full: try again after
 * mtr_sched_retry_after_s), MTR_NO_MEMORY. Makes no events.
 */
bool mtr_sched_submit(struct mtr_sched *s, const struct mtr_sched_params *p, uint64_t now_ns,
                      uint64_t *id, struct mtr_error *err);
uint32_t mtr_sched_retry_after_s(const struct mtr_sched *s);

/* Ends a sequence, at the next step at the latest for the worker. Makes a FINISHED event. False: no
 * such sequence. */
bool mtr_sched_cancel(struct mtr_sched *s, uint64_t id, enum mtr_finish why, uint64_t now_ns);

/* The tokens that a constrained sequence may take next: one bit an id, [ceil(vocab / 8)] bytes,
 * owned by the caller until the sequence's next TOKENS or FINISHED event. False: no such sequence.
 */
bool mtr_sched_mask(struct mtr_sched *s, uint64_t id, const uint8_t *mask, uint32_t bytes);

/* A worker with empty memory is there. Fails with MTR_INVALID when its capacity can't run anything.
 * May make FINISHED events (sequences that can't fit, or that lost too many workers). */
bool mtr_sched_worker_ready(struct mtr_sched *s, const struct mtr_sched_capacity *capacity,
                            uint64_t now_ns, struct mtr_error *err);

/* It is gone, or is about to be. Makes no events. */
void mtr_sched_worker_lost(struct mtr_sched *s, uint64_t now_ns);

/* Finishes every sequence with this error (no worker came back in time). */
void mtr_sched_fail_all(struct mtr_sched *s, const struct mtr_error *why, uint64_t now_ns);

/*
 * The next step, or NULL when there is none: nothing to do, no worker, or MTR_PLANS_IN_FLIGHT
 * unanswered. The plan stays valid until the next call that changes the scheduler: pack it at once.
 * May make FINISHED events (deadlines).
 */
const struct mtr_step_plan *mtr_sched_plan(struct mtr_sched *s, uint64_t now_ns);

/* Takes the oldest unanswered step's result. False (MTR_INVALID): it doesn't answer that step; the
 * worker can't be trusted any more, treat it as lost. Makes events. */
bool mtr_sched_result(struct mtr_sched *s, const struct mtr_step_result *result, uint64_t now_ns,
                      struct mtr_error *err);

/* Finishes what is past its deadline; for when there is no plan to be made. Makes events. */
void mtr_sched_expire(struct mtr_sched *s, uint64_t now_ns);

/* The earliest time at which something is to be done without any other cause; UINT64_MAX: never. */
uint64_t mtr_sched_next_ns(const struct mtr_sched *s);

/* The events since the last call, in order; valid until the next call that changes the scheduler
 * (what their `error` points to, until events are taken twice more). */
size_t mtr_sched_events(struct mtr_sched *s, const struct mtr_sched_event **events);

uint32_t mtr_sched_in_flight(const struct mtr_sched *s); /* unanswered plans */
void mtr_sched_stats(const struct mtr_sched *s, struct mtr_sched_stats *out);

/* Fills out [max] with the sequences in order of arrival; returns how many there are in all. */
size_t mtr_sched_list(const struct mtr_sched *s, struct mtr_sched_info *out, size_t max);

/* Every invariant between sequences, tables, pools and the prefix cache; for tests. False: broken,
 * and err says which. Walks everything. */
bool mtr_sched_check(const struct mtr_sched *s, struct mtr_error *err);

#endif
