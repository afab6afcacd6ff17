/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Walking a launch list. Where the backend has graphs, a decode pass of n lanes with one row each
 * is captured the first time it is met and replayed from then on: kernels read everything that
 * changes through the step view, whose address belongs to the key.
 */
#include <stdlib.h>

#include "worker/exec/executor.h"

static bool resolve_list(struct mtr_exec *e, enum mtr_mode mode, struct mtr_error *err)
{
    const struct mtr_launch_list *list = &e->plan->lists[mode];
    e->ops[mode] = calloc(list->count + 1, sizeof *e->ops[mode]);
    if (!e->ops[mode])
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u launches", list->count);
    for (uint32_t i = 0; i < list->count; i++)
        if (!mtr_op_resolve(&e->ops[mode][i], e->backend, e->plan, &list->launches[i], err))
            return false;
    return true;
}

bool mtr_exec_resolve(struct mtr_exec *e, struct mtr_error *err)
{
    for (uint32_t m = 0; m < MTR_MODE_COUNT; m++)
        if (!resolve_list(e, (enum mtr_mode)m, err))
            return false;
    for (uint32_t v = 0; e->device.graphs && v < MTR_PLANS_IN_FLIGHT; v++) {
        e->graphs[v] = calloc(e->plan->limits.max_lanes + 1, sizeof *e->graphs[v]);
        if (!e->graphs[v])
            return mtr_fail(err, MTR_NO_MEMORY, "no memory for graphs");
    }
    return true;
}

void mtr_exec_unresolve(struct mtr_exec *e)
{
    for (uint32_t v = 0; v < MTR_PLANS_IN_FLIGHT; v++) {
        for (uint32_t i = 0; e->graphs[v] && i <= e->plan->limits.max_lanes; i++)
            if (e->graphs[v][i])
                e->backend->ops->graph_destroy(e->backend, e->graphs[v][i]);
        free(e->graphs[v]);
    }
    for (uint32_t m = 0; m < MTR_MODE_COUNT; m++)
        free(e->ops[m]);
}

static bool walk(const struct mtr_exec *e, const struct mtr_op_context *c, enum mtr_mode mode,
                 struct mtr_error *err)
{
    for (uint32_t i = 0; i < e->plan->lists[mode].count; i++) {
        const struct mtr_resolved_op *op = &e->ops[mode][i];
        if (mtr_op_run(c, op, err))
            continue;
        if (op->launch->layer == MTR_NONE)
            return false;
        return mtr_error_prefix(err, "layer %u", op->launch->layer);
    }
    return true;
}

static struct mtr_graph *capture(const struct mtr_exec *e, const struct mtr_op_context *c,
                                 struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (!ops->graph_begin(e->backend, e->stream, err))
        return NULL;
    bool walked = walk(e, c, MTR_MODE_DECODE, err);
    struct mtr_graph *g = ops->graph_end(e->backend, e->stream, walked ? err : NULL);
    if (!walked && g) {
        ops->graph_destroy(e->backend, g);
        g = NULL;
    }
    return g;
}

static bool replay(struct mtr_exec *e, const struct mtr_op_context *c, uint32_t view,
                   uint32_t lanes, struct mtr_error *err)
{
    struct mtr_graph **slot = &e->graphs[view][lanes];
    if (!*slot)
        *slot = capture(e, c, err);
    return *slot && e->backend->ops->graph_launch(e->backend, e->stream, *slot, err);
}

static struct mtr_op_context context_of(const struct mtr_exec *e, const struct mtr_view *view,
                                        const struct mtr_pass *pass)
{
    return (struct mtr_op_context){
        .backend = e->backend,
        .stream = e->stream,
        .plan = e->plan,
        .step = mtr_view_device(view),
        .output_rows = mtr_view_device_outputs(view),
        .rows = {[MTR_ROWS_TOKENS] = pass->tokens,
                 [MTR_ROWS_OUTPUTS] = pass->outputs,
                 [MTR_ROWS_LANES] = pass->segment_count},
        .buffers = e->memory.buffers,
        .weights = e->weights,
        .caches = e->memory.caches,
        .states = e->memory.states,
        .constants = e->memory.constants,
    };
}

bool mtr_exec_run(struct mtr_exec *e, const struct mtr_step_plan *plan, const struct mtr_pass *pass,
                  struct mtr_error *err)
{
    uint32_t v = e->next_view;
    struct mtr_view *view = &e->views[v];
    e->next_view = (v + 1) % MTR_PLANS_IN_FLIGHT;
    if (!mtr_view_fill(view, e->backend, e->stream, &e->plan->limits, plan, pass, &e->slots, err))
        return false;
    struct mtr_op_context c = context_of(e, view, pass);
    bool single_rows = pass->decode && pass->tokens == pass->segment_count;
    if (e->device.graphs && single_rows)
        return replay(e, &c, v, pass->segment_count, err);
    return walk(e, &c, pass->decode ? MTR_MODE_DECODE : MTR_MODE_MIXED, err);
}
