/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A token's experts added. Grid: rows. */
#include "kernels/args/combine.h"

#include "worker/ops/launcher.h"

bool mtr_op_combine(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                    struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_combine_args args = {
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .shares = mtr_op_in(c, l, 1),
        .y = mtr_op_out(c, l, 0),
        .cols = mtr_op_cols(c, l->out[0]),
        .top_k = mtr_launch_u32(l, MTR_P_TOP_K, 0),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}
