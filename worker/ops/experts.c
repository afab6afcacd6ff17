/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Token-expert pairs through their experts' matrices. Grid: (tiles of columns, experts, or pairs
 * where there are fewer). A stack whose matrices hold gate and up one behind the other is both
 * parts of a gated unit.
 */
#include "kernels/args/experts.h"

#include "worker/ops/launcher.h"

static const void *scale_of(const struct mtr_op_context *c, uint16_t scale)
{
    return scale == MTR_NONE ? NULL : c->weights[scale];
}

static uint64_t row_bytes(const struct mtr_plan_weight *w)
{
    uint64_t bytes = 0;
    mtr_format_row_bytes(w->kernel_format, w->cols, &bytes); /* held when it was placed */
    return bytes;
}

/* Bytes of one matrix of a stack. */
static uint64_t stride_of(const struct mtr_op_context *c, uint16_t weight)
{
    const struct mtr_plan_weight *w = weight == MTR_NONE ? NULL : &c->plan->weights[weight];
    return w ? row_bytes(w) * (w->rows / w->stack) : 0;
}

static void set_parts(const struct mtr_op_context *c, const struct mtr_launch *l,
                      struct mtr_linear_args *a)
{
    const struct mtr_plan_buffer *y = &c->plan->buffers[l->out[0]];
    for (uint32_t i = 0; i < l->weight_count; i++) {
        const struct mtr_plan_weight *w = &c->plan->weights[l->weights[i]];
        a->part[i] = (struct mtr_linear_part){
            .weight = c->weights[l->weights[i]],
            .scale = scale_of(c, w->scale),
            .global_scale = scale_of(c, w->global_scale),
            .y = mtr_op_out(c, l, 0),
            .n = y->cols,
            .y_stride = y->cols,
        };
    }
    if (a->parts == 1 && a->epilogue == MTR_EPILOGUE_GLU) {
        a->part[1] = a->part[0];
        a->part[1].weight = (const uint8_t *)a->part[0].weight +
                            y->cols * row_bytes(&c->plan->weights[l->weights[0]]);
        a->parts = 2;
    }
}

bool mtr_op_experts(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                    struct mtr_error *err)
{
    const struct mtr_launch *l = op->launch;
    const struct mtr_plan_buffer *x = &c->plan->buffers[l->in[0]];
    const struct mtr_plan_weight *w = &c->plan->weights[l->weights[0]];
    uint32_t pairs = c->rows[l->rows], experts = mtr_launch_u32(l, MTR_P_EXPERTS, 0);
    struct mtr_experts_args args = {
        .linear = {.step = c->step,
                   .x = mtr_op_in(c, l, 0),
                   .parts = l->weight_count,
                   .k = (uint32_t)w->cols,
                   .x_stride = x->cols,
                   .rows_kind = l->rows,
                   .epilogue = mtr_launch_u32(l, MTR_P_EPILOGUE, MTR_EPILOGUE_NONE),
                   .activation = mtr_launch_u32(l, MTR_P_ACTIVATION, MTR_ACT_NONE),
                   .multiplier = 1},
        .chosen = mtr_op_in(c, l, 1),
        .experts = experts,
        .top_k = mtr_launch_u32(l, MTR_P_TOP_K, 0),
        .x_pairs = x->rows == MTR_ROWS_PAIRS,
        .by_pair = pairs < experts,
        .weight_bytes = stride_of(c, l->weights[0]),
        .scale_bytes = stride_of(c, w->scale),
        .global_bytes = stride_of(c, w->global_scale),
    };
    set_parts(c, l, &args.linear);
    uint32_t cols = l->point->shapes[0].cols;
    const uint32_t grid[3] = {mtr_op_tiles(args.linear.part[0].n, cols),
                              args.by_pair ? pairs : experts, 1};
    return mtr_op_launch_shape(c, op, 0, grid, &args, sizeof args, err);
}
