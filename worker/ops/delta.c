/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The gated delta rule and its gates. kernels/args/delta.h has the grids. */
#include "kernels/args/delta.h"

#include "worker/ops/launcher.h"

bool mtr_op_delta_gate(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_delta_gate_args args = {
        .step = c->step,
        .a = mtr_op_in(c, l, 0),
        .b = mtr_op_in(c, l, 1),
        .a_log = mtr_op_weight(c, l, 0),
        .dt_bias = mtr_op_weight(c, l, 1),
        .decay = mtr_op_out(c, l, 0),
        .beta = mtr_op_out(c, l, 1),
        .heads = mtr_op_cols(c, l->out[1]),
    };
    return mtr_op_launch_rows(c, op, &args, sizeof args, err);
}

bool mtr_op_delta_rule(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    uint32_t heads = mtr_launch_u32(l, MTR_P_HEADS, 1);
    const struct mtr_delta_rule_args args = {
        .step = c->step,
        .qkv = mtr_op_in(c, l, 0),
        .decay = mtr_op_in(c, l, 1),
        .beta = mtr_op_in(c, l, 2),
        .y = mtr_op_out(c, l, 0),
        .state = c->states[l->state],
        .heads = heads,
        .key_heads = mtr_launch_u32(l, MTR_P_KV_HEADS, 1),
        .head_dim = mtr_launch_u32(l, MTR_P_HEAD_DIM, 0),
        .value_dim = mtr_launch_u32(l, MTR_P_VALUE_DIM, 0),
        .decays = mtr_op_cols(c, l->in[1]) / heads,
        .scale = (float)mtr_launch_real(l, MTR_P_ATTN_SCALE, 1),
        .eps = (float)mtr_launch_real(l, MTR_P_EPS, -1),
    };
    uint32_t tiles = mtr_op_tiles(args.value_dim, l->point->shapes[0].cols);
    const uint32_t grid[3] = {heads * tiles, c->rows[MTR_ROWS_LANES], 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
