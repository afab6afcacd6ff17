/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Token embedding. Grid: row tiles. */
#include "kernels/args/embed.h"

#include "worker/ops/launcher.h"

bool mtr_op_embed(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                  struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_embed_args args = {
        .step = c->step,
        .table = mtr_op_weight(c, l, 0),
        .y = mtr_op_out(c, l, 0),
        .cols = mtr_op_cols(c, l->out[0]),
        .multiplier = (float)mtr_launch_real(l, MTR_P_MULTIPLIER, 1),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}
