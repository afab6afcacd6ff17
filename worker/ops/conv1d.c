/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Short causal convolution. Grid: (channel tiles, lanes). */
#include "kernels/args/conv1d.h"

#include "worker/ops/launcher.h"

bool mtr_op_conv1d(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_conv1d_args args = {
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .weight = mtr_op_weight(c, l, 0),
        .bias = mtr_op_weight(c, l, 1),
        .y = mtr_op_out(c, l, 0),
        .state = c->states[l->state],
        .channels = mtr_op_cols(c, l->out[0]),
        .taps = (uint32_t)c->plan->weights[l->weights[0]].cols,
        .activation = mtr_launch_u32(l, MTR_P_ACTIVATION, MTR_ACT_NONE),
    };
    uint32_t tile = l->point->shapes[0].cols;
    const uint32_t grid[3] = {mtr_op_tiles(args.channels, tile), c->rows[MTR_ROWS_LANES], 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
