/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A model loaded in this process, without broker or wire: what the check runners and benchmarks
 * step.
 *
 * Slot s has blocks [s * blocks, (s + 1) * blocks) of each cache group for itself, unless a run
 * names a slot to take its prefix from.
 */
#ifndef MTR_CHECK_ENGINE_H
#define MTR_CHECK_ENGINE_H

#include <string.h>

#include "common/base/arena.h"
#include "common/checkpoint/checkpoint.h"
#include "common/circuit/plan.h"
#include "worker/backend/backend.h"
#include "worker/exec/exec.h"
#include "worker/weights/weights.h"

#define ENGINE_MAX_SLOTS 64

struct engine_options {
    const char *hardware; /* "host", "auto", ... */
    const char *isa;      /* or NULL */
    const char *cache;    /* "f32", "bf16"; NULL: f32 on the host, elsewhere the class's own */
    uint32_t device;      /* CUDA ordinal */
    bool no_overlap;      /* CUDA: each kernel starts after the one before it has ended */
    uint32_t threads;     /* 0: all */
    uint32_t slots;
    uint32_t sequence_tokens;
    uint32_t step_tokens, step_outputs;
    bool last_only; /* observed logits all go to row 0: the newest stays */
    bool dummy;     /* random weights: the checkpoint needs no tensors */
};

/* A plan in flight. */
struct engine_flight {
    struct mtr_step_plan plan;
    struct mtr_lane lanes[ENGINE_MAX_SLOTS];
    struct mtr_table_change changes[ENGINE_MAX_SLOTS][MTR_MAX_GROUPS];
    struct mtr_effect effects[2 * ENGINE_MAX_SLOTS];
};

struct engine {
    struct mtr_arena arena;
    struct mtr_checkpoint *checkpoint;
    struct mtr_plan *plan;
    struct mtr_weights weights;
    struct mtr_backend *backend;
    struct mtr_exec *exec;
    struct mtr_step_result result;
    uint32_t slots, blocks; /* a slot and group */
    uint64_t step;
    struct engine_flight flights[MTR_PLANS_IN_FLIGHT]; /* by step */
    uint32_t *tables;                                  /* [slots, blocks] */
    /* Where observed logits of a slot's sequence go: row of position p at rows[slot] + p * vocab;
     * or nowhere. */
    float *rows[ENGINE_MAX_SLOTS];
    bool last_only;
    bool draws; /* the device draws tokens, so that such steps can overlap */
};

bool engine_open(struct engine *e, const char *model, const struct engine_options *o,
                 struct mtr_error *err);
void engine_close(struct engine *e);

/* Whether it computes and keeps all in f32, as the records do. */
static inline bool engine_exact(const struct engine *e)
{
    return strcmp(e->plan->hardware, "host") == 0 && e->plan->groups[0].format == MTR_F32;
}

/* What one slot shall do in a step. */
struct engine_run {
    uint32_t slot;
    uint32_t start, count;
    const uint32_t *tokens; /* of positions [start, start + count), or NULL */
    bool output;            /* sample after the last */
    bool score;
    const struct mtr_sampling *sampling; /* or NULL */
    bool borrow; /* start > 0: take the blocks below start from slot `lender`, and the snapshot */
    uint32_t lender;
    bool snapshot; /* keep the slot's recurrent state as it is before this run */
};

/* Begins a step; finishes the oldest one, into e->result. A step that can't begin yet (it needs
 * what the one before it has not given) is MTR_INTERNAL. */
bool engine_begin(struct engine *e, const struct engine_run *runs, uint32_t count,
                  struct mtr_error *err);
bool engine_finish(struct engine *e, struct mtr_error *err);

/* Whether rows are observed: yes, until somebody says no. Tokens are then chosen by the device. */
void engine_observe(struct engine *e, bool on);

/* One step; e->result has the lanes that gave something. */
bool engine_step(struct engine *e, const struct engine_run *runs, uint32_t count,
                 struct mtr_error *err);

#endif
