/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The executor's inside, shared by the files of this directory only.
 *
 *   check.c    is this plan right?            (reads)
 *   memory.c   arena, caches, states, effects
 *   slots.c    what is remembered of a sequence
 *   passes.c   cuts a step into passes
 *   view.c     tells kernels about a pass
 *   run.c      walks a launch list, or replays its graph
 *   outputs.c  logits to results
 *   flight.c   a step's way: begin, finish
 *   exec.c     life
 */
#ifndef MTR_EXEC_EXECUTOR_H
#define MTR_EXEC_EXECUTOR_H

#include "common/base/arena.h"
#include "kernels/args/sample.h"
#include "worker/exec/exec.h"
#include "worker/exec/memory.h"
#include "worker/exec/sampler.h"
#include "worker/exec/slots.h"
#include "worker/exec/view.h"
#include "worker/ops/ops.h"

#define MTR_EXEC_MAX_SAMPLERS 64 /* threads that sample at once */

/* Who chooses a token, and how. */
enum mtr_choice {
    MTR_CHOICE_GREEDY, /* the device: the largest logit */
    MTR_CHOICE_DRAW,   /* the device: as mtr_sample_row says */
    MTR_CHOICE_HOST,   /* sampler.c */
};

/* A lane of the step that gives something back. */
struct mtr_lane_output {
    const struct mtr_lane *lane;
    enum mtr_choice choice;              /* of its sampled tokens */
    uint32_t *sampled;                   /* [outputs] */
    struct mtr_token_logprobs *logprobs; /* [outputs], or NULL */
    struct mtr_token_logprobs *scores;   /* [count - 1], or NULL */
};

/* A row of logits and what it is for. */
struct mtr_output_row {
    struct mtr_lane_output *out;
    uint32_t row;        /* of the lane */
    uint32_t logit;      /* row of the logits */
    bool chosen;         /* the device's choice will do: nobody reads the logits */
    const float *logits; /* where this process reads them, once they are fetched */
};

/* A step on its way. */
struct mtr_flight {
    const struct mtr_step_plan *plan;
    struct mtr_view view;
    struct mtr_staging staging;
    struct mtr_event *first, *last;  /* around all that the device does for it */
    struct mtr_arena arena;          /* of the result */
    struct mtr_lane_output *outputs; /* [plan->lane_count] */
    int32_t *chosen;                 /* pinned [max_step_outputs] by the device */
    struct mtr_output_row *rows;     /* [max_step_outputs] of the last pass */
    struct mtr_sample_row *samples;  /* [max_step_outputs] the same for the device, which draws */
    uint32_t row_count, fetched;     /* rows below `fetched` are on their way or here */
    bool settles_later;              /* nothing of it is decided here: slots have advanced */
};

struct mtr_exec {
    struct mtr_backend *backend;
    const struct mtr_plan *plan;
    void *const *weights;
    struct mtr_exec_observer observer;
    struct mtr_device_info device;

    struct mtr_stream *stream;
    struct mtr_resolved_op *ops[MTR_MODE_COUNT];    /* [plan->lists[mode].count] */
    struct mtr_kernel *choose;                      /* the tokens */
    struct mtr_graph **graphs[MTR_PLANS_IN_FLIGHT]; /* [max_lanes + 1] of decode steps, by width */
    struct mtr_exec_memory memory;
    struct mtr_slots slots;
    struct mtr_flight flights[MTR_PLANS_IN_FLIGHT];
    uint32_t oldest, in_flight; /* a ring */

    uint64_t *slot_marks; /* [max_slots] the last check that met the slot */
    uint64_t mark;
    struct mtr_segment *segments; /* [max_lanes] */

    float *logits; /* pinned [logit_rows, vocab], unless direct: of one flight at a time */
    uint32_t logit_rows;
    struct mtr_pool *pool;                /* where the backend has no threads to lend */
    struct mtr_sampler_scratch *samplers; /* [sampler_count] */
    uint32_t sampler_count;
};

/* check.c: MTR_INVALID or MTR_UNSUPPORTED with the reason; changes nothing but marks. */
bool mtr_exec_check(struct mtr_exec *e, const struct mtr_step_plan *plan, struct mtr_error *err);

/* passes.c: a place in the step, and the next pass from there; false when there are no more rows.
 */
struct mtr_cursor {
    uint32_t lane, row;
};
bool mtr_exec_next_pass(const struct mtr_exec *e, const struct mtr_step_plan *plan,
                        struct mtr_cursor *at, struct mtr_pass *pass);

/* Rows of a lane that give logits: the last ones, or all when it is scored. */
static inline uint32_t mtr_lane_logit_rows(const struct mtr_lane *lane)
{
    return lane->score ? lane->count : lane->outputs;
}

/* run.c: everything of a pass that the device does; `choose` with the choice of tokens. */
bool mtr_exec_resolve(struct mtr_exec *e, struct mtr_error *err);
void mtr_exec_unresolve(struct mtr_exec *e);
bool mtr_exec_run(struct mtr_exec *e, struct mtr_flight *f, const struct mtr_pass *pass,
                  bool choose, struct mtr_error *err);

/* outputs.c: room for results before the passes; a pass's rows, and what is fetched of them behind
 * its launches; their use, when the device is through; what it all came to. */
bool mtr_outputs_begin(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err);
void mtr_outputs_list(struct mtr_exec *e, struct mtr_flight *f, const struct mtr_pass *pass);
bool mtr_outputs_fetch(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err);
bool mtr_outputs_use(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err);
bool mtr_outputs_end(struct mtr_exec *e, struct mtr_flight *f, struct mtr_step_result *result,
                     struct mtr_error *err);

#endif
