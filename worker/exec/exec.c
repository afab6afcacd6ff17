/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The executor's life, and what memory it takes.
 */
#include "worker/exec/exec.h"

#include <stdlib.h>

#include "worker/backend/host/pool.h"
#include "worker/exec/executor.h"

#define RESULT_BYTES (256u << 20) /* a limit, not a reservation: scores of a long prompt */
#define MIN_BLOCKS   16           /* of each group: less serves nobody */
#define CACHE_SHARE  2            /* cached prefixes beside running sequences */
#define LOGITS_BYTES (32u << 20)  /* pinned, at most, unless one row takes more */
#define POOL_THREADS 16           /* that sample, where the backend has none */

/* Sampling runs on the backend's threads, where it has some to lend. */
static bool init_samplers(struct mtr_exec *e, struct mtr_error *err)
{
    uint32_t n = e->device.processors; /* of a device: not threads */
    if (!e->device.direct && n > POOL_THREADS)
        n = POOL_THREADS;
    if (!e->backend->ops->parallel) {
        n = mtr_pool_cores() < POOL_THREADS ? mtr_pool_cores() : POOL_THREADS;
        e->pool = mtr_pool_create(n, err);
        if (!e->pool)
            return false;
    }
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
    if (!e->slot_marks || !e->segments)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u lanes", l->max_lanes);
    return init_samplers(e, err);
}

static bool init_flight(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    const struct mtr_plan_limits *l = &e->plan->limits;
    mtr_arena_init(&f->arena, RESULT_BYTES);
    f->rows = calloc(l->max_step_outputs, sizeof *f->rows);
    f->samples = calloc(l->max_step_outputs, sizeof *f->samples);
    if (!f->rows || !f->samples)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %u rows", l->max_step_outputs);
    f->first = ops->event_create(e->backend, err);
    f->last = f->first ? ops->event_create(e->backend, err) : NULL;
    if (!f->last || !mtr_view_init(&f->view, e->backend, l, err) ||
        !mtr_staging_init(&f->staging, e->backend, err))
        return false;
    f->view.top_k = e->plan->top_k;
    f->chosen = ops->alloc_pinned(e->backend, l->max_step_outputs * sizeof *f->chosen, err);
    return f->chosen || mtr_error_prefix(err, "chosen tokens");
}

static bool init_device(struct mtr_exec *e, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    e->stream = ops->stream_create(e->backend, err);
    const char *choose = e->device.direct ? "argmax" : "sample"; /* sampling here is faster */
    e->choose = e->stream ? ops->kernel(e->backend, "sample", choose, err) : NULL;
    if (!e->choose)
        return false;
    for (uint32_t i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        if (!init_flight(e, &e->flights[i], err))
            return false;
    if (e->device.direct)
        return true;
    size_t row = e->plan->buffers[e->plan->logits].row_bytes, most = LOGITS_BYTES / row;
    uint32_t rows = e->plan->limits.max_step_outputs;
    e->logit_rows = most < 1 ? 1 : most < rows ? (uint32_t)most : rows;
    e->logits = ops->alloc_pinned(e->backend, e->logit_rows * row, err);
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

static void free_flight(struct mtr_exec *e, struct mtr_flight *f)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (f->chosen)
        ops->free_pinned(e->backend, f->chosen);
    mtr_staging_free(&f->staging, e->backend);
    mtr_view_free(&f->view, e->backend);
    if (f->last)
        ops->event_destroy(e->backend, f->last);
    if (f->first)
        ops->event_destroy(e->backend, f->first);
    free(f->samples);
    free(f->rows);
    mtr_arena_free(&f->arena);
}

static void free_device(struct mtr_exec *e)
{
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (e->logits)
        ops->free_pinned(e->backend, e->logits);
    for (uint32_t i = MTR_PLANS_IN_FLIGHT; i-- > 0;)
        free_flight(e, &e->flights[i]);
    if (e->stream)
        ops->stream_destroy(e->backend, e->stream);
}

void mtr_exec_destroy(struct mtr_exec *e)
{
    if (!e)
        return;
    if (e->in_flight) /* it reads and writes what is freed here */
        e->backend->ops->stream_wait(e->backend, e->stream, NULL);
    mtr_slots_free(&e->slots, e->backend);
    mtr_exec_memory_free(&e->memory);
    mtr_exec_unresolve(e);
    free_device(e);
    for (uint32_t i = 0; i < e->sampler_count; i++)
        mtr_sampler_scratch_free(&e->samplers[i]);
    free(e->samplers);
    mtr_pool_destroy(e->pool);
    free(e->segments);
    free(e->slot_marks);
    free(e);
}

void mtr_exec_observe(struct mtr_exec *e, struct mtr_exec_observer observer)
{
    e->observer = observer;
}

uint64_t mtr_exec_fixed_bytes(const struct mtr_plan *p, uint32_t max_slots, uint32_t snapshots)
{
    uint64_t bytes = p->arena_bytes + MTR_PLANS_IN_FLIGHT * mtr_view_bytes(&p->limits);
    bytes += mtr_exec_scratch_bytes(p) + p->limits.max_step_outputs * sizeof(int32_t);
    for (uint32_t i = 0; i < p->state_count; i++)
        bytes += p->states[i].slot_bytes * ((uint64_t)max_slots + snapshots);
    uint64_t tokens = (uint64_t)max_slots * p->limits.max_sequence_tokens;
    return bytes + 2 * mtr_slots_bytes(p, max_slots) + tokens * sizeof(uint32_t);
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
