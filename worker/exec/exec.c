/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The executor's life, and the order of a step.
 */
#include "worker/exec/exec.h"

#include <stdlib.h>

#include "worker/exec/executor.h"

#define RESULT_BYTES (256u << 20) /* a limit, not a reservation: scores of a long prompt */
#define MIN_BLOCKS   16           /* of each group: less serves nobody */
#define CACHE_SHARE  2            /* cached prefixes beside running sequences */

static bool init_samplers(struct mtr_exec *e, struct mtr_error *err)
{
    uint32_t n = e->device.processors;
    n = n < 1 ? 1 : n > MTR_EXEC_MAX_SAMPLERS ? MTR_EXEC_MAX_SAMPLERS : n;
    e->samplers = calloc(n, sizeof *e->samplers);
    if (!e->samplers)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u samplers", n);
    for (; e->sampler_count < n; e->sampler_count++)
        if (!mtr_sampler_scratch_init(&e->samplers[e->sampler_count], e->plan->vocab, err))
            return false;
    return true;
}

static bool init_host(struct mtr_exec *e, uint32_t max_slots, struct mtr_error *err)
{
    const struct mtr_plan_limits *l = &e->plan->limits;
    e->slot_marks = calloc(max_slots, sizeof *e->slot_marks);
    e->segments = calloc(l->max_lanes, sizeof *e->segments);
    e->rows = calloc(l->max_step_outputs, sizeof *e->rows);
    if (!e->slot_marks || !e->segments || !e->rows)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u lanes", l->max_lanes);
    mtr_arena_init(&e->arena, RESULT_BYTES);
    return init_samplers(e, err);
}

static bool init_device(struct mtr_exec *e, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    const struct mtr_plan_limits *l = &e->plan->limits;
    e->stream = ops->stream_create(e->backend, err);
    if (!e->stream)
        return false;
    e->first = ops->event_create(e->backend, err);
    e->last = e->first ? ops->event_create(e->backend, err) : NULL;
    if (!e->last)
        return false;
    for (uint32_t i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        if (!mtr_view_init(&e->views[i], e->backend, l, err))
            return false;
    if (e->device.unified)
        return true;
    size_t bytes = l->max_step_outputs * e->plan->buffers[e->plan->logits].row_bytes;
    e->logits = ops->alloc_pinned(e->backend, bytes, err);
    return e->logits || mtr_error_prefix(err, "logits");
}

static bool check_plan(const struct mtr_plan *p, uint32_t max_slots, struct mtr_error *err)
{
    const struct mtr_plan_limits *l = &p->limits;
    if (p->group_count > MTR_MAX_GROUPS || p->logits >= p->buffer_count)
        return mtr_fail(err, MTR_INTERNAL, "plan of circuit %s: %u cache groups, logits in %u",
                        p->circuit, p->group_count, p->logits);
    if (!max_slots || !l->max_lanes || !l->max_step_tokens || !l->max_step_outputs ||
        !l->max_sequence_tokens)
        return mtr_fail(err, MTR_INVALID,
                        "limits of 0: %u slots, %u lanes, %u tokens and %u outputs a step, %u "
                        "tokens a sequence",
                        max_slots, l->max_lanes, l->max_step_tokens, l->max_step_outputs,
                        l->max_sequence_tokens);
    return true;
}

struct mtr_exec *mtr_exec_create(const struct mtr_exec_options *o, struct mtr_error *err)
{
    if (!check_plan(o->plan, o->max_slots, err))
        return NULL;
    struct mtr_exec *e = calloc(1, sizeof *e);
    if (!e) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the executor");
        return NULL;
    }
    e->backend = o->backend;
    e->plan = o->plan;
    e->weights = o->weights;
    e->observer = o->observer;
    if (e->backend->ops->info(e->backend, &e->device, err) && init_host(e, o->max_slots, err) &&
        init_device(e, err) && mtr_exec_resolve(e, err) &&
        mtr_exec_memory_init(&e->memory, e->backend, e->plan, o->group_blocks, o->max_slots,
                             o->snapshots, err) &&
        mtr_slots_init(&e->slots, e->backend, e->plan, o->max_slots, err))
        return e;
    mtr_exec_destroy(e);
    return NULL;
}

static void free_device(struct mtr_exec *e)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (e->logits)
        ops->free_pinned(e->backend, e->logits);
    for (uint32_t i = MTR_PLANS_IN_FLIGHT; i-- > 0;)
        mtr_view_free(&e->views[i], e->backend);
    if (e->last)
        ops->event_destroy(e->backend, e->last);
    if (e->first)
        ops->event_destroy(e->backend, e->first);
    if (e->stream)
        ops->stream_destroy(e->backend, e->stream);
}

void mtr_exec_destroy(struct mtr_exec *e)
{
    if (!e)
        return;
    mtr_slots_free(&e->slots, e->backend);
    mtr_exec_memory_free(&e->memory);
    mtr_exec_unresolve(e);
    free_device(e);
    for (uint32_t i = 0; i < e->sampler_count; i++)
        mtr_sampler_scratch_free(&e->samplers[i]);
    free(e->samplers);
    mtr_arena_free(&e->arena);
    free(e->rows);
    free(e->segments);
    free(e->slot_marks);
    free(e);
}

/* Effects and lanes, in the order of the plan. */
static bool apply(struct mtr_exec *e, const struct mtr_step_plan *plan, struct mtr_error *err)
{
    for (uint32_t i = 0; i < plan->effect_count; i++)
        if (!mtr_exec_effect(&e->memory, e->stream, &plan->effects[i], err))
            return false;
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (!mtr_slots_apply(&e->slots, e->backend, e->stream, &plan->lanes[i], err))
            return false;
    return true;
}

static bool run_passes(struct mtr_exec *e, const struct mtr_step_plan *plan,
                       struct mtr_lane_output *outputs, struct mtr_error *err)
{
    struct mtr_cursor at = {0};
    struct mtr_pass pass;
    while (mtr_exec_next_pass(e, plan, &at, &pass))
        if (!mtr_exec_run(e, plan, &pass, err) || !mtr_outputs_pass(e, plan, &pass, outputs, err))
            return false;
    return true;
}

bool mtr_exec_step(struct mtr_exec *e, const struct mtr_step_plan *plan,
                   struct mtr_step_result *result, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    struct mtr_lane_output *outputs;
    *result = (struct mtr_step_result){.step = plan->step};
    if (!mtr_exec_check(e, plan, err))
        return false;
    return ops->event_record(e->backend, e->first, e->stream, err) && apply(e, plan, err) &&
           mtr_outputs_begin(e, plan, &outputs, err) && run_passes(e, plan, outputs, err) &&
           mtr_outputs_end(e, plan, outputs, result, err) &&
           ops->event_record(e->backend, e->last, e->stream, err) &&
           ops->event_wait(e->backend, e->last, err) &&
           ops->event_elapsed_ns(e->backend, e->first, e->last, &result->device_ns, err);
}

uint64_t mtr_exec_fixed_bytes(const struct mtr_plan *p, uint32_t max_slots, uint32_t snapshots)
{
    uint64_t bytes = p->arena_bytes + MTR_PLANS_IN_FLIGHT * mtr_view_bytes(&p->limits);
    for (uint32_t i = 0; i < p->state_count; i++)
        bytes += p->states[i].slot_bytes * ((uint64_t)max_slots + snapshots);
    uint64_t tokens = (uint64_t)max_slots * p->limits.max_sequence_tokens;
    for (uint32_t g = 0; g < p->group_count; g++)
        bytes += tokens / p->groups[g].block_tokens * sizeof(int32_t) * 2;
    return bytes + tokens * sizeof(uint32_t);
}

/* Blocks of a group that one sequence of the greatest length holds at once. */
static uint64_t blocks_of_one(const struct mtr_plan *p, const struct mtr_cache_group *g)
{
    uint64_t tokens = p->limits.max_sequence_tokens;
    uint64_t window = (uint64_t)g->window + p->limits.max_step_tokens + g->block_tokens;
    if (g->kind == MTR_CACHE_SLIDING && window < tokens)
        tokens = window;
    return (tokens + g->block_tokens - 1) / g->block_tokens;
}

bool mtr_exec_divide_cache(const struct mtr_plan *p, uint32_t max_slots, uint64_t bytes,
                           uint32_t blocks[MTR_MAX_GROUPS], struct mtr_error *err)
{
    double one = 0; /* bytes that one sequence of the greatest length takes */
    for (uint32_t g = 0; g < p->group_count; g++)
        one += (double)(blocks_of_one(p, &p->groups[g]) * p->groups[g].block_bytes) *
               p->groups[g].layers;
    double sequences = one > 0 ? (double)bytes / one : 0;
    if (sequences > (double)max_slots * CACHE_SHARE)
        sequences = (double)max_slots * CACHE_SHARE;
    for (uint32_t g = 0; g < p->group_count; g++) {
        double n = sequences * (double)blocks_of_one(p, &p->groups[g]);
        if (n < MIN_BLOCKS)
            return mtr_fail(err, MTR_NO_MEMORY,
                            "%llu bytes of cache are %u blocks of group %s, at least %u are needed",
                            (unsigned long long)bytes, (unsigned)n, p->groups[g].name, MIN_BLOCKS);
        blocks[g] = n > INT32_MAX ? INT32_MAX : (uint32_t)n;
    }
    return true;
}
