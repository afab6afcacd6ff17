/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scheduler on a table: a small configuration to change before start, requests by a few numbers,
 * steps that are answered by hand.
 */
#ifndef MTR_SUPPORT_SCHED_RIG_H
#define MTR_SUPPORT_SCHED_RIG_H

#include "broker/sched/internal.h"

#define RIG_VOCAB 1000
#define RIG_LANES 64

struct sched_rig {
    struct mtr_sched_config config;     /* blocks of 4 tokens, one full group */
    struct mtr_sched_capacity capacity; /* 64 blocks */
    struct mtr_sched_params
        params; /* of the next request; tokens and count are set by rig_submit */
    struct mtr_sched *sched;
    uint64_t now_ns;
    struct mtr_error err;
    uint32_t token; /* of the last answer: events point to it */
};

void rig_init(struct sched_rig *r);
void rig_start(struct sched_rig *r); /* creates the scheduler and makes a worker ready */
void rig_free(struct sched_rig *r);

/* Tokens first, first + 1, ... (modulo the vocabulary). */
uint64_t rig_submit(struct sched_rig *r, uint32_t first, uint32_t count, uint32_t max_tokens);

const struct mtr_step_plan *rig_plan(struct sched_rig *r);

/* The plan's lane of a sequence, or NULL. */
const struct mtr_lane *rig_lane(const struct mtr_step_plan *plan, uint64_t id);

/* Answers the oldest unanswered plan with this token for every output. */
bool rig_answer(struct sched_rig *r, uint32_t token);

/* Plans and answers until nothing is left to do, at most `steps` times; returns how many steps. */
uint32_t rig_run(struct sched_rig *r, uint32_t token, uint32_t steps);

/* The first event of this kind for a sequence among those that wait; NULL: none. Takes them. */
const struct mtr_sched_event *rig_event(struct sched_rig *r, uint64_t id,
                                        enum mtr_sched_event_kind kind);

#endif
