/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Matrix products that share an input. Grid: (tiles of columns, tiles of rows); the columns of all
 * parts stand side by side, each part in whole tiles. With GLU the two parts share their columns.
 */
#include "kernels/args/linear.h"

#include "common/circuit/planner.h"
#include "worker/ops/launcher.h"

static const void *scale_of(const struct mtr_op_context *c, uint16_t scale)
{
    return scale == MTR_NONE ? NULL : c->weights[scale];
}

static struct mtr_linear_part part_of(const struct mtr_op_context *c, const struct mtr_launch *l,
                                      uint32_t i)
{
    const struct mtr_plan_weight *w = &c->plan->weights[l->weights[2 * i]];
    uint32_t o = i < l->out_count ? i : 0; /* GLU: both write the one output */
    const struct mtr_plan_buffer *y = &c->plan->buffers[l->out[o]];
    return (struct mtr_linear_part){
        .weight = mtr_op_weight(c, l, 2 * i),
        .scale = scale_of(c, w->scale),
        .global_scale = scale_of(c, w->global_scale),
        .bias = mtr_op_weight(c, l, 2 * i + 1),
        .y = mtr_op_out(c, l, o),
        .n = (uint32_t)w->rows,
        .y_stride = (uint32_t)(y->row_bytes / mtr_format_info(y->format)->block_bytes),
    };
}

/* Tells the copy engine, where there is one, of x and of every weight that stands as in the file.
 */
static bool map_matrices(const struct mtr_op_context *c, const struct mtr_plan_buffer *x,
                         const struct mtr_point *point, const struct mtr_point_shape *shape,
                         struct mtr_linear_args *a, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = c->backend->ops;
    if (!ops->tensor_map)
        return true;
    uint64_t rows = mtr_plan_max_rows(&c->plan->limits, x->rows, 1);
    if (!ops->tensor_map(c->backend, &a->x_map, a->x, rows, a->k, x->row_bytes, shape->rows, err))
        return mtr_error_prefix(err, "input %s", x->name);
    for (uint32_t i = 0; i < a->parts && !point->repack; i++)
        if (!ops->tensor_map(c->backend, &a->part[i].map, a->part[i].weight, a->part[i].n, a->k,
                             a->k * sizeof(uint16_t), shape->cols / 2, err))
            return false;
    return true;
}

/* Tiles of outputs: those of all parts, or of the first in a gated unit. */
static uint32_t output_tiles(const struct mtr_linear_args *a, const struct mtr_point_shape *s)
{
    bool glu = a->epilogue == MTR_EPILOGUE_GLU;
    uint32_t tiles = 0, cols = glu && s->glu_cols ? s->glu_cols : s->cols;
    for (uint32_t i = 0; i < (glu ? 1 : a->parts); i++)
        tiles += mtr_op_tiles(a->part[i].n, cols);
    return tiles;
}

/* The last one for so many rows, or the nearest before it that has tiles enough. */
static uint32_t choose_shape(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                             const struct mtr_linear_args *a, uint32_t rows)
{
    const struct mtr_point *p = op->launch->point;
    const struct mtr_point_shape *s = p->shapes;
    uint32_t i = mtr_op_shape_for(op, rows);
    while (i + 1 < p->shape_count && s[i + 1].rows == s[i].rows)
        i++;
    while (i > 0 && 100ull * output_tiles(a, &s[i]) * mtr_op_tiles(rows, s[i].rows) <
                        (uint64_t)s[i].fill * c->processors)
        i--;
    return i;
}

bool mtr_op_linear(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_buffer *x = &c->plan->buffers[l->in[0]];
    struct mtr_linear_args args = {
        .step = c->step,
        .x = mtr_op_in(c, l, 0),
        .parts = (l->weight_count + 1u) / 2,
        .k = (uint32_t)c->plan->weights[l->weights[0]].cols,
        .x_stride = (uint32_t)(x->row_bytes / mtr_format_info(x->format)->block_bytes),
        .rows_kind = l->rows,
        .epilogue = mtr_launch_u32(l, MTR_P_EPILOGUE, MTR_EPILOGUE_NONE),
        .activation = mtr_launch_u32(l, MTR_P_ACTIVATION, MTR_ACT_NONE),
        .multiplier = (float)mtr_launch_real(l, MTR_P_MULTIPLIER, 1),
        .y_f32 = c->plan->buffers[l->out[0]].format == MTR_F32,
    };
    for (uint32_t i = 0; i < args.parts; i++)
        args.part[i] = part_of(c, l, i);
    uint32_t rows = c->rows[l->rows], shape = choose_shape(c, op, &args, rows);
    const struct mtr_point_shape *s = &l->point->shapes[shape];
    if (!map_matrices(c, x, l->point, s, &args, err))
        return false;
    uint32_t grid[3] = {output_tiles(&args, s), mtr_op_tiles(rows, s->rows), 1};
    if (s->persistent) {
        uint32_t tiles = grid[0] * grid[1];
        grid[0] = mtr_op_least(tiles, c->processors * s->persistent);
        grid[1] = 1;
    }
    return mtr_op_launch_shape(c, op, shape, grid, &args, sizeof args, err);
}
