/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The router's choice. Grid: rows. */
#include "kernels/args/route.h"

#include "worker/ops/launcher.h"

bool mtr_op_route(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                  struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_route_args args = {
        .step = c->step,
        .logits = mtr_op_in(c, l, 0),
        .bias = mtr_op_weight(c, l, 0),
        .chosen = mtr_op_out(c, l, 0),
        .shares = mtr_op_out(c, l, 1),
        .experts = mtr_launch_u32(l, MTR_P_EXPERTS, 0),
        .top_k = mtr_launch_u32(l, MTR_P_TOP_K, 0),
        .scoring = mtr_launch_u32(l, MTR_P_SCORING, MTR_SCORE_SOFTMAX),
        .renormalize = mtr_launch_u32(l, MTR_P_RENORMALIZE, 0),
        .groups = mtr_launch_u32(l, MTR_P_GROUPS, 1),
        .top_groups = mtr_launch_u32(l, MTR_P_TOP_GROUPS, 1),
        .multiplier = (float)mtr_launch_real(l, MTR_P_MULTIPLIER, 1),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}
