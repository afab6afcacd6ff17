/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the launchers share; private to worker/ops.
 */
#ifndef MTR_OPS_LAUNCHER_H
#define MTR_OPS_LAUNCHER_H

#include "worker/ops/ops.h"

/* One row of the table: a function of a family, or all that begin with this name and '_'. */
struct mtr_op_shape {
    const char *module;
    const char *function;
    mtr_launcher run;
    uint8_t in, out, weights;    /* the fewest slots */
    bool cache, state, constant; /* needs them */
    enum mtr_param params[6];    /* needed; ends with MTR_P_COUNT when fewer */
};

bool mtr_op_embed(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                  struct mtr_error *err);
bool mtr_op_rms_norm(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                     struct mtr_error *err);
bool mtr_op_linear(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err);
bool mtr_op_rotary(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err);
bool mtr_op_rope_append(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        struct mtr_error *err);
bool mtr_op_attention(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                      struct mtr_error *err);
bool mtr_op_attention_fits(const struct mtr_launch *launch);
uint64_t mtr_op_attention_scratch(const struct mtr_plan *plan, const struct mtr_launch *launch);
bool mtr_op_latent_query(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         struct mtr_error *err);
bool mtr_op_latent_append(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                          struct mtr_error *err);
bool mtr_op_latent_attention(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                             struct mtr_error *err);
bool mtr_op_latent_value(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         struct mtr_error *err);
bool mtr_op_gated_norm(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err);
bool mtr_op_conv1d(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                   struct mtr_error *err);
bool mtr_op_delta_gate(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err);
bool mtr_op_delta_rule(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                       struct mtr_error *err);
bool mtr_op_scan(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                 struct mtr_error *err);
bool mtr_op_route(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                  struct mtr_error *err);
bool mtr_op_experts(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                    struct mtr_error *err);
bool mtr_op_combine(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                    struct mtr_error *err);
bool mtr_op_elementwise(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        struct mtr_error *err);

/* The address behind a slot, or NULL for MTR_NONE and slots beyond the count. */
static inline void *mtr_op_in(const struct mtr_op_context *c, const struct mtr_launch *l,
                              uint32_t slot)
{
    return slot < l->in_count && l->in[slot] != MTR_NONE ? c->buffers[l->in[slot]] : NULL;
}

static inline void *mtr_op_out(const struct mtr_op_context *c, const struct mtr_launch *l,
                               uint32_t slot)
{
    return slot < l->out_count && l->out[slot] != MTR_NONE ? c->buffers[l->out[slot]] : NULL;
}

static inline void *mtr_op_weight(const struct mtr_op_context *c, const struct mtr_launch *l,
                                  uint32_t slot)
{
    return slot < l->weight_count && l->weights[slot] != MTR_NONE ? c->weights[l->weights[slot]]
                                                                  : NULL;
}

/* Columns of the buffer in a slot of l->in or l->out. */
static inline uint32_t mtr_op_cols(const struct mtr_op_context *c, uint16_t buffer)
{
    return c->plan->buffers[buffer].cols;
}

/* The index of the shape for so many rows: the smallest that covers them, or the largest. */
uint32_t mtr_op_shape_for(const struct mtr_resolved_op *op, uint32_t rows);

/* Launches shape `shape` with a grid of x by y by z blocks. */
bool mtr_op_launch_shape(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         uint32_t shape, const uint32_t grid[3], const void *args,
                         size_t args_bytes, struct mtr_error *err);

/* Launches a row-wise kernel: blocks that cover the launch's rows. */
bool mtr_op_launch_rows(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        const void *args, size_t args_bytes, struct mtr_error *err);

/* The same, with blocks side by side that cover `cols`, in whatever unit the shape counts them. */
bool mtr_op_launch_tiles(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         uint32_t cols, const void *args, size_t args_bytes, struct mtr_error *err);

static inline uint32_t mtr_op_least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t mtr_op_tiles(uint32_t count, uint32_t tile)
{
    return tile ? (count + tile - 1) / tile : 1;
}

#endif
