/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* RMS norms: with or without a residual that is updated first, or gated. Grid: row tiles. */
#include "kernels/args/rms_norm.h"

#include "worker/ops/launcher.h"

/* The last norm reads the rows of all tokens and writes those whose logits are wanted. */
static bool gathers(const struct mtr_op_context *c, const struct mtr_launch *l)
{
    return l->rows == MTR_ROWS_OUTPUTS && c->plan->buffers[l->in[0]].rows == MTR_ROWS_TOKENS;
}

bool mtr_op_rms_norm(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                     struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_rms_norm_args args = {
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .residual = mtr_op_in(c, l, 1),
        .weight = mtr_op_weight(c, l, 0),
        .y = mtr_op_out(c, l, 0),
        .gather = gathers(c, l) ? c->output_rows : NULL,
        .rows_kind = l->rows,
        .cols = mtr_op_cols(c, l->in[0]),
        .eps = (float)mtr_launch_real(l, MTR_P_EPS, 0),
        .unit_offset = (float)mtr_launch_real(l, MTR_P_UNIT_OFFSET, 0),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}

bool mtr_op_gated_norm(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_gated_norm_args args = {
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .gate = mtr_op_in(c, l, 1),
        .weight = mtr_op_weight(c, l, 0),
        .y = mtr_op_out(c, l, 0),
        .heads = mtr_launch_u32(l, MTR_P_HEADS, 0),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .wide = c->plan->weights[l->weights[0]].cols > mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .gate_first = mtr_launch_u32(l, MTR_P_GATE_FIRST, 0),
        .activation = mtr_launch_u32(l, MTR_P_ACTIVATION, MTR_ACT_NONE),
        .eps = (float)mtr_launch_real(l, MTR_P_EPS, 0),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}
