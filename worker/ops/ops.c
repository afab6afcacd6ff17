/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of launchers, and what holds for all of them.
 *
 * A plan is our own product, so a missing slot is a mistake in a circuit or a fuser rule and not a
 * user's; it is still found at load time, by name, instead of by a crash in a kernel.
 */
#include "worker/ops/launcher.h"

#include <string.h>

static const struct mtr_op_shape shapes[] = {
    {"embed", "embed", mtr_op_embed, 0, 1, 1, .params = {MTR_P_COUNT}},
    {"rms_norm", "rms_norm", mtr_op_rms_norm, 1, 1, 1, .params = {MTR_P_EPS, MTR_P_COUNT}},
    {"linear", "linear", mtr_op_linear, 1, 1, 1, .params = {MTR_P_COUNT}},
    {"rope", "rotary", mtr_op_rotary, 0, 1, 0, .constant = true, .params = {MTR_P_COUNT}},
    {"rope", "rope_append", mtr_op_rope_append, 3, 1, 0, .cache = true,
     .params = {MTR_P_HEADS, MTR_P_KV_HEADS, MTR_P_HEAD_DIM, MTR_P_COUNT}},
    {"attention", "attention", mtr_op_attention, 1, 1, 0, .cache = true,
     .params = {MTR_P_HEADS, MTR_P_KV_HEADS, MTR_P_HEAD_DIM, MTR_P_ATTN_SCALE, MTR_P_COUNT}},
    {"attention", "latent_attention", mtr_op_latent_attention, 1, 1, 0, .cache = true,
     .params = {MTR_P_HEADS, MTR_P_HEAD_DIM, MTR_P_ATTN_SCALE, MTR_P_COUNT}},
    {"latent", "latent_query", mtr_op_latent_query, 2, 1, 1,
     .params = {MTR_P_HEADS, MTR_P_VALUE_DIM, MTR_P_ROTARY_DIM, MTR_P_COUNT}},
    {"latent", "latent_append", mtr_op_latent_append, 2, 0, 1, .cache = true,
     .params = {MTR_P_ROTARY_DIM, MTR_P_EPS, MTR_P_COUNT}},
    {"latent", "latent_value", mtr_op_latent_value, 1, 1, 1,
     .params = {MTR_P_HEADS, MTR_P_VALUE_DIM, MTR_P_COUNT}},
    {"elementwise", "add", mtr_op_elementwise, 2, 1, 0, .params = {MTR_P_COUNT}},
    {"elementwise", "glu", mtr_op_elementwise, 2, 1, 0, .params = {MTR_P_ACTIVATION, MTR_P_COUNT}},
    {"elementwise", "activate", mtr_op_elementwise, 1, 1, 0,
     .params = {MTR_P_ACTIVATION, MTR_P_COUNT}},
    {"elementwise", "scale", mtr_op_elementwise, 1, 1, 0,
     .params = {MTR_P_MULTIPLIER, MTR_P_COUNT}},
    {"elementwise", "gather", mtr_op_elementwise, 1, 1, 0, .params = {MTR_P_COUNT}},
    {"elementwise", "gate", mtr_op_elementwise, 2, 1, 0, .params = {MTR_P_ACTIVATION, MTR_P_COUNT}},
    {"elementwise", "slice", mtr_op_elementwise, 1, 1, 0, .params = {MTR_P_FIRST, MTR_P_COUNT}},
    {"elementwise", "concat", mtr_op_elementwise, 2, 1, 0, .params = {MTR_P_COUNT}},
    {"rms_norm", "gated_norm", mtr_op_gated_norm, 2, 1, 1,
     .params = {MTR_P_HEADS, MTR_P_HEAD_DIM, MTR_P_EPS, MTR_P_ACTIVATION, MTR_P_COUNT}},
    {"conv1d", "conv1d", mtr_op_conv1d, 1, 1, 1, .state = true,
     .params = {MTR_P_ACTIVATION, MTR_P_COUNT}},
    {"delta", "delta_gate", mtr_op_delta_gate, 2, 2, 2, .params = {MTR_P_COUNT}},
    {"delta", "delta_rule", mtr_op_delta_rule, 3, 1, 0, .state = true,
     .params = {MTR_P_HEADS, MTR_P_KV_HEADS, MTR_P_HEAD_DIM, MTR_P_VALUE_DIM, MTR_P_ATTN_SCALE,
                MTR_P_COUNT}},
    {"route", "route", mtr_op_route, 1, 2, 0,
     .params = {MTR_P_EXPERTS, MTR_P_TOP_K, MTR_P_SCORING, MTR_P_RENORMALIZE, MTR_P_COUNT}},
    {"experts", "experts", mtr_op_experts, 2, 1, 1,
     .params = {MTR_P_EXPERTS, MTR_P_TOP_K, MTR_P_COUNT}},
    {"combine", "combine", mtr_op_combine, 2, 1, 0, .params = {MTR_P_TOP_K, MTR_P_COUNT}},
    {"scan", "scan", mtr_op_scan, 2, 1, 3, .state = true,
     .params = {MTR_P_HEADS, MTR_P_HEAD_DIM, MTR_P_GROUPS, MTR_P_STATE_DIM, MTR_P_COUNT}},
};

static bool names_function(const struct mtr_op_shape *s, const char *function)
{
    size_t n = strlen(s->function);
    return strncmp(function, s->function, n) == 0 && (function[n] == 0 || function[n] == '_');
}

static const struct mtr_op_shape *find_shape(const struct mtr_launch *l)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].module, l->family->name) == 0 &&
            names_function(&shapes[i], l->point->function))
            return &shapes[i];
    return NULL;
}

static bool indices_inside(const uint16_t *index, uint32_t count, uint32_t room, uint32_t limit,
                           uint32_t needed)
{
    if (count < needed || count > room)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (index[i] == MTR_NONE ? i < needed : index[i] >= limit)
            return false;
    return true;
}

static bool index_inside(uint16_t index, uint32_t limit, bool needed)
{
    return index == MTR_NONE ? !needed : index < limit;
}

/* NULL, or what is wrong with the launch. */
static const char *find_fault(const struct mtr_plan *p, const struct mtr_launch *l,
                              const struct mtr_op_shape *s)
{
    if (!indices_inside(l->in, l->in_count, MTR_LAUNCH_IN, p->buffer_count, s->in))
        return "its inputs";
    if (!indices_inside(l->out, l->out_count, MTR_LAUNCH_OUT, p->buffer_count, s->out))
        return "its outputs";
    if (!indices_inside(l->weights, l->weight_count, MTR_LAUNCH_WEIGHTS, p->weight_count,
                        s->weights))
        return "its weights";
    if (!index_inside(l->cache, p->cache_count, s->cache))
        return "its cache";
    if (!index_inside(l->state, p->state_count, s->state))
        return "its state";
    if (!index_inside(l->constant, p->constant_count, s->constant))
        return "its constant";
    for (uint32_t i = 0; i < 6 && s->params[i] != MTR_P_COUNT; i++)
        if (mtr_launch_real(l, s->params[i], -1) == -1 && mtr_launch_real(l, s->params[i], 0) == 0)
            return "a parameter";
    return NULL;
}

bool mtr_op_resolve(struct mtr_resolved_op *op, struct mtr_backend *backend,
                    const struct mtr_plan *plan, const struct mtr_launch *launch,
                    struct mtr_error *err)
{
    const char *module = launch->family->name, *function = launch->point->function;
    const struct mtr_op_shape *s = find_shape(launch);
    if (!s)
        return mtr_fail(err, MTR_UNSUPPORTED, "no launcher for %s of module %s", function, module);
    const char *fault = find_fault(plan, launch, s);
    if (fault)
        return mtr_fail(err, MTR_INTERNAL, "plan of circuit %s, layer %d: %s lacks %s",
                        plan->circuit, launch->layer == MTR_NONE ? -1 : launch->layer, function,
                        fault);
    if (strcmp(launch->family->name, "attention") == 0 && !mtr_op_attention_fits(launch))
        return mtr_fail(err, MTR_UNSUPPORTED,
                        "%s wants heads whose length is a multiple of 8, not %u", function,
                        mtr_launch_u32(launch, MTR_P_HEAD_DIM, 0));
    *op = (struct mtr_resolved_op){.launch = launch, .run = s->run};
    for (uint32_t i = 0; i < launch->point->shape_count; i++) {
        op->kernels[i] =
            backend->ops->kernel(backend, module, launch->point->shapes[i].function, err);
        if (!op->kernels[i])
            return mtr_error_prefix(err, "hardware class %s", backend->ops->name);
    }
    return true;
}

uint64_t mtr_op_scratch_bytes(const struct mtr_plan *plan, const struct mtr_launch *launch)
{
    return strcmp(launch->family->name, "attention") == 0 ? mtr_op_attention_scratch(plan, launch)
                                                          : 0;
}

bool mtr_op_run(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                struct mtr_error *err)
{
    if (c->rows[op->launch->rows] == 0)
        return true;
    return op->run(c, op, err);
}

uint32_t mtr_op_shape_for(const struct mtr_resolved_op *op, uint32_t rows)
{
    const struct mtr_point *p = op->launch->point;
    uint32_t i = 0;
    while (i + 1 < p->shape_count && p->shapes[i].rows < rows)
        i++;
    return i;
}

bool mtr_op_launch_shape(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         uint32_t shape, const uint32_t grid[3], const void *args,
                         size_t args_bytes, struct mtr_error *err)
{
    const struct mtr_point_shape *s = &op->launch->point->shapes[shape];
    const uint32_t block[3] = {s->threads ? s->threads : 1, 1, 1};
    if (c->backend->ops->launch(c->backend, c->stream, op->kernels[shape], grid, block,
                                s->shared_bytes, args, args_bytes, err))
        return true;
    return mtr_error_prefix(err, "%s", s->function);
}

bool mtr_op_launch_rows(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                        const void *args, size_t args_bytes, struct mtr_error *err)
{
    return mtr_op_launch_tiles(c, op, 0, args, args_bytes, err);
}

bool mtr_op_launch_tiles(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                         uint32_t cols, const void *args, size_t args_bytes, struct mtr_error *err)
{
    uint32_t rows = c->rows[op->launch->rows], shape = mtr_op_shape_for(op, rows);
    const struct mtr_point_shape *s = &op->launch->point->shapes[shape];
    uint32_t grid[3] = {mtr_op_tiles(rows, s->rows ? s->rows : 1), mtr_op_tiles(cols, s->cols), 1};
    if (s->persistent && c->processors)
        grid[0] = mtr_op_least(grid[0], mtr_op_tiles(c->processors * s->persistent, grid[1]));
    return mtr_op_launch_shape(c, op, shape, grid, args, args_bytes, err);
}
