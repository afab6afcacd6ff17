/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A worker's half of the step plan without a model: it keeps slots, block tables, block contents
 * and state as a worker does, and checks them as no worker can.
 *
 * What stands in a cache block for a token is the token, its position and a hash of all tokens up
 * to it, which is computed from the entry before, read through the block table. So a wrong table, a
 * block written by two sequences or a stale copy gives other hashes, and with `deep` every
 * entry that a lane can see is compared with the chain, and must be older than the step. A
 * recurrent model's state is a hash too, folded chunk by chunk over the prompt and token by token
 * over the output, which differ as the real kernels do.
 *
 * The next token is a hash of all that, the seed and the position: a pure function of the request,
 * which mtr_scripted_expect() computes without any scheduling. Without `physical` it depends on
 * seed and position alone, or is read from a recorded list by its index in the output.
 */
#ifndef MTR_SUPPORT_SCRIPTED_MODEL_H
#define MTR_SUPPORT_SCRIPTED_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/wire/step.h"

struct mtr_scripted_config {
    uint32_t vocab;
    uint32_t slots;
    uint32_t block_tokens;
    uint32_t group_count;
    uint32_t group_blocks[MTR_MAX_GROUPS];
    uint32_t windows[MTR_MAX_GROUPS]; /* 0: full attention; else at least 2 */
    uint32_t snapshots;
    bool recurrent;
    uint32_t chunk_tokens;
    uint32_t max_drafts; /* proposes some, right and wrong, after each sample */
    bool physical;
    bool deep;
    const uint32_t *recorded; /* [recorded_count] owned by the caller, or NULL */
    uint32_t recorded_count;
};

struct mtr_scripted;

struct mtr_scripted *mtr_scripted_create(const struct mtr_scripted_config *c,
                                         struct mtr_error *err);
void mtr_scripted_destroy(struct mtr_scripted *m);

/* Runs a step. False: the plan breaks a rule, and err says which. The result lives in the arena. */
bool mtr_scripted_step(struct mtr_scripted *m, struct mtr_arena *arena,
                       const struct mtr_step_plan *plan, struct mtr_step_result *result,
                       struct mtr_error *err);

/* A request as the scripted model sees it. */
struct mtr_scripted_request {
    const uint32_t *prompt; /* [prompt_count] */
    uint32_t prompt_count;
    uint32_t adapter;
    uint64_t seed;
    const uint32_t *stop_ids; /* [stop_count] */
    uint32_t stop_count;
    uint32_t min_tokens;
    const uint8_t *mask; /* the same for each token, or NULL */
};

/* The tokens that the model gives for it, `count` of them or up to the first stop id, which is
 * included. Returns how many were written to out [count]. Physical models only. */
uint32_t mtr_scripted_expect(const struct mtr_scripted_config *c,
                             const struct mtr_scripted_request *r, uint32_t count, uint32_t *out);

/* The log-probability that it gives for the prompt's token at `position`. */
float mtr_scripted_score(const struct mtr_scripted_config *c, const struct mtr_scripted_request *r,
                         uint32_t position);

#endif
