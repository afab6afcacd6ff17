/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Row-wise kernels, one argument struct for all: kernels/args/elementwise.h. Grid: row tiles; of a
 * point with tile_cols, tiles of so many elements of all rows, which stand one behind the other.
 */
#include "kernels/args/elementwise.h"

#include <string.h>

#include "worker/ops/launcher.h"

/* Columns of the input in a slot, 0 where there is none. */
static uint32_t cols_in(const struct mtr_op_context *c, const struct mtr_launch *l, uint32_t slot)
{
    return mtr_op_in(c, l, slot) ? mtr_op_cols(c, l->in[slot]) : 0;
}

bool mtr_op_elementwise(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    bool gather = strcmp(l->point->function, "gather") == 0;
    const struct mtr_elementwise_args args = {
        .step = c->step,
        .a = mtr_op_in(c, l, 0),
        .b = mtr_op_in(c, l, 1),
        .c = mtr_op_in(c, l, 2),
        .y = mtr_op_out(c, l, 0),
        .gather = gather ? c->output_rows : NULL,
        .rows_kind = l->rows,
        .cols = mtr_op_cols(c, l->out[0]),
        .a_cols = cols_in(c, l, 0),
        .b_cols = cols_in(c, l, 1),
        .runs = mtr_launch_u32(l, MTR_P_HEADS, 1),
        .first = mtr_launch_u32(l, MTR_P_FIRST, 0),
        .activation = mtr_launch_u32(l, MTR_P_ACTIVATION, MTR_ACT_NONE),
        .multiplier = (float)mtr_launch_real(l, MTR_P_MULTIPLIER, 1),
    };
    const uint32_t tile = l->point->shapes[0].cols;
    if (!tile)
        return mtr_op_launch_rows(c, op, &args, sizeof args, err);
    const uint64_t elements = (uint64_t)c->rows[l->rows] * args.cols;
    const uint32_t grid[3] = {(uint32_t)((elements + tile - 1) / tile), 1, 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
