/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Choosing tokens. No launch of the plan: the executor appends it to a list. Grid: MTR_SAMPLE_SPLIT
 * blocks for each of few rows, one for each of many.
 */
#include "kernels/args/sample.h"

#include "worker/ops/launcher.h"

#define FEW 16 /* rows that leave processors idle, a block each */

bool mtr_op_sample(const struct mtr_op_context *c, struct mtr_kernel *argmax, int32_t *tokens,
                   int32_t *last_tokens, struct mtr_error *err)
{
    const struct mtr_plan_buffer *logits = &c->plan->buffers[c->plan->logits];
    const struct mtr_sample_args args = {
        .step = c->step,
        .logits = c->buffers[c->plan->logits],
        .tokens = tokens,
        .last_tokens = last_tokens,
        .vocab = c->plan->vocab,
        .stride = (uint32_t)(logits->row_bytes / sizeof(float)),
    };
    const uint32_t rows = c->rows[MTR_ROWS_OUTPUTS];
    const uint32_t sets = rows > FEW ? mtr_op_tiles(rows, MTR_SAMPLE_SPLIT) : rows;
    const uint32_t grid[3] = {sets * MTR_SAMPLE_SPLIT, 1, 1};
    const uint32_t block[3] = {MTR_SAMPLE_THREADS, 1, 1};
    if (grid[0] == 0 || c->backend->ops->launch(c->backend, c->stream, argmax, grid, block, 0,
                                                &args, sizeof args, err))
        return true;
    return mtr_error_prefix(err, "argmax");
}
