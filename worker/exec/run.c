/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Walking a launch list. Where the backend has graphs, a decode pass with one row a lane replays a
 * graph of a certain width, captured once for each view: kernels read everything that changes
 * through the step view, whose address belongs to the key. Widths are few: a pass takes the next
 * larger one, and the kernels' blocks beyond its true rows have nothing to do.
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

/* The launches of a list, and the choice of tokens behind them. */
static bool walk_all(const struct mtr_exec *e, const struct mtr_op_context *c, enum mtr_mode mode,
                     bool choose, struct mtr_error *err)
{
    return walk(e, c, mode, err) &&
           (!choose || mtr_op_sample(c, e->choose, e->memory.chosen, e->slots.last_tokens, err));
}

/* 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ...: the first that is enough, at most `most`. */
static uint32_t width_for(uint32_t lanes, uint32_t most)
{
    uint32_t power = 1;
    while (power < lanes)
        power *= 2;
    uint32_t width = power >= 32 && lanes <= power / 4 * 3 ? power / 4 * 3 : power;
    return width < most ? width : most;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The most lanes of a step that decodes. */
static uint32_t most_lanes(const struct mtr_exec *e)
{
    const struct mtr_plan_limits *l = &e->plan->limits;
    return least(l->max_lanes, least(l->max_step_tokens, l->max_step_outputs));
}

static struct mtr_op_context context_of(const struct mtr_exec *e, const struct mtr_view *view,
                                        uint32_t tokens, uint32_t lanes, uint32_t outputs)
{
    return (struct mtr_op_context){
        .backend = e->backend,
        .stream = e->stream,
        .plan = e->plan,
        .step = mtr_view_device(view),
        .output_rows = mtr_view_device_outputs(view),
        .rows = {[MTR_ROWS_TOKENS] = tokens,
                 [MTR_ROWS_OUTPUTS] = outputs,
                 [MTR_ROWS_PAIRS] = tokens * e->plan->top_k,
                 [MTR_ROWS_LANES] = lanes},
        .buffers = e->memory.buffers,
        .weights = e->weights,
        .caches = e->memory.caches,
        .states = e->memory.states,
        .constants = e->memory.constants,
        .scratch = e->memory.scratch,
        .processors = e->device.processors,
    };
}

static struct mtr_graph *capture(const struct mtr_exec *e, const struct mtr_op_context *c,
                                 struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (!ops->graph_begin(e->backend, e->stream, err))
        return NULL;
    bool walked = walk_all(e, c, MTR_MODE_DECODE, true, err);
    struct mtr_graph *g = ops->graph_end(e->backend, e->stream, walked ? err : NULL);
    if (!walked && g) {
        ops->graph_destroy(e->backend, g);
        g = NULL;
    }
    return g;
}

static bool replay(struct mtr_exec *e, struct mtr_flight *f, uint32_t width, struct mtr_error *err)
{
    struct mtr_graph **slot = &e->graphs[f - e->flights][width];
    struct mtr_op_context c = context_of(e, &f->view, width, width, width);
    if (!*slot)
        *slot = capture(e, &c, err);
    return *slot && e->backend->ops->graph_launch(e->backend, e->stream, *slot, err);
}

bool mtr_exec_run(struct mtr_exec *e, struct mtr_flight *f, const struct mtr_pass *pass,
                  bool choose, struct mtr_error *err)
{
    uint32_t lanes = pass->segment_count;
    if (!mtr_view_fill(&f->view, e->backend, e->stream, f->plan, pass,
                       e->device.direct ? NULL : f->samples, &e->slots, err))
        return false;
    if (e->device.graphs && pass->decode && pass->tokens == lanes && lanes)
        return replay(e, f, width_for(lanes, most_lanes(e)), err);
    struct mtr_op_context c = context_of(e, &f->view, pass->tokens, lanes, pass->outputs);
    return walk_all(e, &c, pass->decode ? MTR_MODE_DECODE : MTR_MODE_MIXED, choose, err);
}

/* All shapes of the mixed list's kernels: with the rows of each power of two. */
static bool warm_list(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    uint32_t most = e->plan->limits.max_step_tokens;
    for (uint64_t rows = 1; rows < 2ull * most; rows *= 2) {
        struct mtr_op_context c =
            context_of(e, &f->view, rows < most ? (uint32_t)rows : most, 1, 1);
        if (!walk_all(e, &c, MTR_MODE_MIXED, true, err))
            return false;
    }
    return true;
}

static bool warm_graphs(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    uint32_t most = most_lanes(e);
    for (uint32_t width = 1;; width = width_for(width + 1, most)) {
        if (!replay(e, f, width, err))
            return false;
        if (width == most)
            return true;
    }
}

bool mtr_exec_warm_up(struct mtr_exec *e, struct mtr_error *err)
{
    static const struct mtr_step_plan nothing = {0};
    const struct mtr_pass empty = {0};
    for (uint32_t i = 0; e->device.graphs && i < MTR_PLANS_IN_FLIGHT; i++) {
        struct mtr_flight *f = &e->flights[i];
        if (!mtr_view_fill(&f->view, e->backend, e->stream, &nothing, &empty, NULL, &e->slots,
                           err) ||
            (i == 0 && !warm_list(e, f, err)) || !warm_graphs(e, f, err))
            return mtr_error_prefix(err, "warm-up");
    }
    return e->backend->ops->stream_wait(e->backend, e->stream, err);
}
