/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The step view that kernels read (kernels/args/step.h): built in pinned memory, uploaded whole.
 *
 * View and arrays are one block, as short as the pass lets it be. The view itself and output_rows,
 * whose addresses stand in captured graphs, never move. There is one block for each plan in flight:
 * while the device reads one, the next is written.
 */
#ifndef MTR_EXEC_VIEW_H
#define MTR_EXEC_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/plan.h"
#include "common/wire/step.h"
#include "kernels/args/sample.h"
#include "worker/backend/backend.h"
#include "worker/exec/slots.h"

/* Rows [first, first + count) of a lane, of which the last `outputs` rows give logits. */
struct mtr_segment {
    uint32_t lane; /* of the step plan */
    uint32_t first, count;
    uint32_t outputs;
};

/* What runs as one walk over a launch list. */
struct mtr_pass {
    uint32_t segment_count;
    struct mtr_segment *segments; /* [max_lanes] */
    uint32_t tokens, outputs;
    bool decode; /* every segment is all outputs: the decode list will do */
};

struct mtr_view {
    uint8_t *host; /* pinned; struct mtr_step_view first */
    uint8_t *device;
    size_t bytes;   /* of the whole block, at most */
    uint32_t top_k; /* of the plan */
};

size_t mtr_view_bytes(const struct mtr_plan_limits *limits);
bool mtr_view_init(struct mtr_view *v, struct mtr_backend *backend,
                   const struct mtr_plan_limits *limits, struct mtr_error *err);
void mtr_view_free(struct mtr_view *v, struct mtr_backend *backend);

/* Fills and uploads the view of a pass. Tokens come from the slots' histories; one that is still on
 * the device only is named by its slot. samples [pass->outputs] or NULL. */
bool mtr_view_fill(struct mtr_view *v, struct mtr_backend *backend, struct mtr_stream *stream,
                   const struct mtr_step_plan *plan, const struct mtr_pass *pass,
                   const struct mtr_sample_row *samples, const struct mtr_slots *slots,
                   struct mtr_error *err);

const struct mtr_step_view *mtr_view_device(const struct mtr_view *v);
const int32_t *mtr_view_device_outputs(const struct mtr_view *v); /* output_rows on the device */

#endif
