/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The executor: runs step plans on a backend, by the launch lists of a circuit's plan.
 *
 * It makes no decisions. A step is checked against everything that the model and the executor's
 * memory say (slots, block ids, token ids, positions, tables); a plan that can't be right is
 * refused with MTR_INVALID and has changed nothing. Then, in order: effects, lanes into slots, one
 * or more passes over the launch list, sampling. A pass is as much of the step as max_step_outputs
 * allows; more than one is needed only when lanes are scored, and since a row's bits do not depend
 * on how rows are cut into passes, nobody can tell.
 *
 * A step begins and finishes. Begun, it is under way on the device, and the caller is free to do
 * something else, or to begin the next one: up to MTR_PLANS_IN_FLIGHT run one behind the other.
 * Where every token that a step is to give is the largest logit, or a draw without penalties,
 * masks, log-probabilities and the like, the device chooses it, and the next step reads it there.
 * Other tokens are chosen by this process when the step finishes, and a step that needs them can't
 * begin before (mtr_exec_can_begin). Their bits are the same.
 *
 * A slot is what the scheduler gives a sequence: a token history, one block table for each cache
 * group, sampling parameters. Slots persist between steps; the broker names them by number.
 *
 * Memory: the arena, caches, state slots and tables are allocated at creation (on the host class
 * untouched pages cost nothing until the cache grows into them). After the first steps a step does
 * not allocate.
 *
 * Not thread-safe: one thread calls.
 */
#ifndef MTR_EXEC_EXEC_H
#define MTR_EXEC_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/plan.h"
#include "common/wire/step.h"
#include "worker/backend/backend.h"

struct mtr_exec;

/* Told of every row of logits before it is used: for golden checks. */
struct mtr_exec_observer {
    void (*row)(void *context, uint64_t sequence, uint32_t position, const float *logits);
    void *context;
};

/* What stays the caller's and must outlive the executor: backend, plan, weights. */
struct mtr_exec_options {
    struct mtr_backend *backend;
    const struct mtr_plan *plan;
    void *const *weights; /* [plan->weight_count] device addresses */
    uint32_t max_slots;
    uint32_t group_blocks[MTR_MAX_GROUPS]; /* capacity of each cache group */
    uint32_t snapshots;                    /* of recurrent state, beside one state a slot */
    struct mtr_exec_observer observer;     /* row NULL: none */
};

struct mtr_exec *mtr_exec_create(const struct mtr_exec_options *options, struct mtr_error *err);
void mtr_exec_destroy(struct mtr_exec *e); /* NULL is fine */

/* Loads kernels and captures graphs with steps of no rows, so that the first steps are as fast as
 * later ones and nothing is allocated in them. Once, before the first step. */
bool mtr_exec_warm_up(struct mtr_exec *e, struct mtr_error *err);

/* Whether a step may begin now: a place is free, and what the steps in flight have not given yet
 * is either not needed or read on the device. If not: finish a step, ask again. */
bool mtr_exec_can_begin(const struct mtr_exec *e, const struct mtr_step_plan *plan);

/* Brings a step under way. The plan must stay as it is until the step has finished. Codes:
 * MTR_INVALID and MTR_UNSUPPORTED for plans that are refused, which does not disturb steps in
 * flight; anything else means that the device or this process is in trouble and the executor must
 * not be used again. */
bool mtr_exec_begin(struct mtr_exec *e, const struct mtr_step_plan *plan, struct mtr_error *err);

uint32_t mtr_exec_in_flight(const struct mtr_exec *e);

/* Whether the oldest step in flight has been run, so that it can finish without waiting. */
bool mtr_exec_done(struct mtr_exec *e, bool *done, struct mtr_error *err);

/* Waits for the oldest step in flight. The result's arrays are valid until the next step begins.
 * An error means that the executor must not be used again. */
bool mtr_exec_finish(struct mtr_exec *e, struct mtr_step_result *result, struct mtr_error *err);

/* Both, for callers that have nothing to do between and no other step in flight. */
bool mtr_exec_step(struct mtr_exec *e, const struct mtr_step_plan *plan,
                   struct mtr_step_result *result, struct mtr_error *err);

/* Sets the observer, or removes it (row NULL); while no step is in flight. A step that is observed
 * chooses no token on the device. */
void mtr_exec_observe(struct mtr_exec *e, struct mtr_exec_observer observer);

/* Bytes that the executor takes: all of plan's arena, tables and step views, without caches. */
uint64_t mtr_exec_fixed_bytes(const struct mtr_plan *plan, uint32_t max_slots, uint32_t snapshots);

/*
 * Divides cache memory between the groups, so that each can hold the same number of sequences of
 * max_sequence_tokens (a window group needs its window only, and the tokens of one step). Fills
 * blocks [plan->group_count], at most what max_slots such sequences need twice over, so that the
 * prefix cache has room. MTR_NO_MEMORY when not even one sequence of 16 blocks fits.
 */
bool mtr_exec_divide_cache(const struct mtr_plan *plan, uint32_t max_slots, uint64_t bytes,
                           uint32_t blocks[MTR_MAX_GROUPS], struct mtr_error *err);

#endif
