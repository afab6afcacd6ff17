/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler's own state, shared by its source files:
 *
 *   sched.c   create, submit, cancel, worker ready and lost, events, statistics
 *   plan.c    one step from what runs and waits
 *   result.c  tokens and scores of a step to their sequences
 *   policy.c  who is admitted next, how much prefill a step takes
 *   check.c   all invariants, for tests
 */
#ifndef MTR_SCHED_INTERNAL_H
#define MTR_SCHED_INTERNAL_H

#include "broker/sched/policy.h"
#include "broker/sched/sequence.h"
#include "common/base/map.h"

/* What is remembered of a lane until its result. */
struct mtr_flight_lane {
    uint64_t id;
    uint32_t start, count;
    uint32_t outputs, drafts;
    uint32_t logprobs; /* as in struct mtr_sampling */
    bool score;
    bool prefill; /* prompt tokens, or output that is computed again in bulk */
    bool closing;
};

struct mtr_flight {
    uint64_t step;
    uint32_t lane_count;
    struct mtr_flight_lane *lanes; /* [max_batch_size] */
};

struct mtr_sched {
    struct mtr_sched_config config;
    bool ready; /* a worker is there */
    struct mtr_radix radix;
    struct mtr_id_pool slots;
    uint32_t most_tokens;      /* that the cache can hold of one sequence */
    uint32_t most_lane_tokens; /* that one lane from position 0 can write */

    uint64_t next_id;
    struct mtr_map by_id; /* id to struct mtr_seq * */
    struct mtr_seq_list waiting;
    struct mtr_seq **running; /* [running_count] in order of arrival; room for max_batch_size */
    uint32_t running_count;
    uint64_t next_deadline_ns; /* no deadline is earlier */

    uint64_t step;
    struct mtr_flight flights[MTR_PLANS_IN_FLIGHT]; /* [flying], the oldest first */
    uint32_t flying;

    /* The step that is being made, or was made last; arrays are kept from step to step. */
    struct mtr_step_plan plan;
    struct mtr_lane *lanes;           /* [max_batch_size] */
    struct mtr_table_change *changes; /* [max_batch_size, group_count] */
    struct mtr_effect *effects;
    size_t effects_cap;
    uint32_t prefill_left, score_left; /* of the step's budgets */
    uint64_t *fresh; /* [fresh_count] sequences with prefill in the last plan; max_batch_size */
    uint32_t fresh_count;

    struct mtr_sched_event *events;
    size_t event_count, events_cap;
    size_t events_taken;
    struct mtr_arena event_memory[2]; /* of errors, in turns */
    uint32_t event_turn;

    struct mtr_policy_state policy;
    struct mtr_sched_stats stats; /* the counters only */
    uint64_t last_finish_ns;
    uint64_t finish_interval_ns; /* between two ends of sequences, smoothed; 0: not known yet */
};

struct mtr_seq *mtr_sched_find(const struct mtr_sched *s, uint64_t id);

/* A running sequence goes back to waiting; what it computed stays in the prefix cache. */
void mtr_sched_preempt(struct mtr_sched *s, struct mtr_seq *q);

/* Ends a sequence and frees it. why: with MTR_FINISH_ERROR. */
void mtr_sched_finish(struct mtr_sched *s, struct mtr_seq *q, enum mtr_finish finish,
                      uint32_t stop_id, const struct mtr_error *why, uint64_t now_ns);

/* Room for one more event about q, cleared but for what names it. NULL: no memory; the sequence's
 * FINISHED event is never lost so, because room for it is made on submission. */
struct mtr_sched_event *mtr_sched_event(struct mtr_sched *s, struct mtr_seq *q,
                                        enum mtr_sched_event_kind kind);

#endif
