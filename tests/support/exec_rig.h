/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An executor on the host backend with the tiny model, and short ways to run steps on it. Slot s of
 * RIG_SLOTS has blocks [s * RIG_BLOCKS, (s + 1) * RIG_BLOCKS) for itself. Logits of every row that
 * gives some are kept by (sequence, position).
 */
#ifndef MTR_SUPPORT_EXEC_RIG_H
#define MTR_SUPPORT_EXEC_RIG_H

#include "tests/support/tiny_model.h"
#include "worker/exec/exec.h"

#define RIG_SLOTS     6
#define RIG_BLOCKS    8
#define RIG_TOKENS    (RIG_BLOCKS * 16)
#define RIG_SEQUENCES 16

struct rig {
    struct tiny_model model;
    struct mtr_backend *backend;
    struct mtr_exec *exec;
    struct mtr_step_result result;
    uint64_t step;
    struct mtr_error err;
    float logits[RIG_SEQUENCES][RIG_TOKENS][TINY_VOCAB];
    bool seen[RIG_SEQUENCES][RIG_TOKENS];
};

void rig_open(struct rig *r, uint32_t max_step_outputs, enum mtr_format cache);
void rig_close(struct rig *r);

/* Runs a step of these lanes; the test fails unless it succeeds. */
void rig_step(struct rig *r, const struct mtr_lane *lanes, uint32_t count);
/* The same, told. */
bool rig_try(struct rig *r, const struct mtr_step_plan *plan);

/* A lane of slot's first step or a later one, with its own whole table when it opens. */
struct mtr_lane rig_lane(uint32_t slot, uint64_t sequence, uint32_t start, const uint32_t *tokens,
                         uint32_t count, uint32_t outputs);

/* Token i of a fixed text. */
uint32_t rig_token(uint32_t i);

/* Greedy continuation: prompt [prompt] tokens of the fixed text in one step, then count tokens. */
void rig_greedy(struct rig *r, uint32_t slot, uint64_t sequence, uint32_t prompt, uint32_t *tokens,
                uint32_t count);

#endif
