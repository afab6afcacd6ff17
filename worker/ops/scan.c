/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mamba-2's selective state space. Grid: (heads x column tiles, lanes). */
#include "kernels/args/scan.h"

#include "worker/ops/launcher.h"

bool mtr_op_scan(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                 struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_scan_args args = {
        .step = c->step,
        .xbc = mtr_op_in(c, l, 0),
        .dt = mtr_op_in(c, l, 1),
        .a_log = mtr_op_weight(c, l, 0),
        .d = mtr_op_weight(c, l, 1),
        .dt_bias = mtr_op_weight(c, l, 2),
        .y = mtr_op_out(c, l, 0),
        .state = c->states[l->state],
        .heads = mtr_launch_u32(l, MTR_P_HEADS, 0),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .groups = mtr_launch_u32(l, MTR_P_GROUPS, 1),
        .state_dim = mtr_launch_u32(l, MTR_P_STATE_DIM, 0),
        .least = (float)mtr_launch_real(l, MTR_P_CLAMP, 0),
    };
    uint32_t tiles = mtr_op_tiles(args.head_dim, l->point->shapes[0].cols);
    const uint32_t grid[3] = {args.heads * tiles, c->rows[MTR_ROWS_LANES], 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
