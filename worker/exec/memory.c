/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory that outlives a step, and the effects that move it.
 */
#include "worker/exec/memory.h"

#include <stdlib.h>

/* K and V are halves of a block's bytes; a latent cache has K only. */
static uint64_t side_bytes(const struct mtr_cache_group *g)
{
    return g->kind == MTR_CACHE_LATENT ? g->block_bytes : g->block_bytes / 2;
}

static bool init_buffers(struct mtr_exec_memory *m, struct mtr_error *err)
{
    const struct mtr_plan *p = m->plan;
    m->arena = m->backend->ops->alloc(m->backend, p->arena_bytes, err);
    if (!m->arena)
        return mtr_error_prefix(err, "step buffers");
    for (uint32_t i = 0; i < p->buffer_count; i++)
        m->buffers[i] = (uint8_t *)m->arena + p->buffers[i].offset;
    return true;
}

uint64_t mtr_exec_scratch_bytes(const struct mtr_plan *p)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < MTR_MODE_COUNT; m++)
        for (uint32_t i = 0; i < p->lists[m].count; i++) {
            uint64_t bytes = mtr_op_scratch_bytes(p, &p->lists[m].launches[i]);
            most = bytes > most ? bytes : most;
        }
    return most;
}

static bool init_scratch(struct mtr_exec_memory *m, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = m->backend->ops;
    uint64_t bytes = mtr_exec_scratch_bytes(m->plan);
    m->chosen = ops->alloc(m->backend, m->plan->limits.max_step_outputs * sizeof(int32_t), err);
    if (!m->chosen)
        return mtr_error_prefix(err, "chosen tokens");
    if (bytes == 0)
        return true;
    m->scratch = ops->alloc(m->backend, bytes, err);
    return (m->scratch && ops->fill(m->backend, NULL, m->scratch, 0, bytes, err)) ||
           mtr_error_prefix(err, "scratch memory of kernels");
}

static bool init_caches(struct mtr_exec_memory *m, struct mtr_error *err)
{
    for (uint32_t i = 0; i < m->plan->cache_count; i++) {
        uint16_t group = m->plan->caches[i].group;
        const struct mtr_cache_group *g = &m->plan->groups[group];
        uint64_t side = side_bytes(g) * m->group_blocks[group];
        bool both = g->kind != MTR_CACHE_LATENT;
        uint8_t *p = m->backend->ops->alloc_sparse(m->backend, both ? 2 * side : side, err);
        if (!p)
            return mtr_error_prefix(err, "cache group %s, %u blocks", g->name,
                                    m->group_blocks[group]);
        m->caches[i] = (struct mtr_op_cache){p, both ? p + side : NULL, m->group_blocks[group]};
    }
    return true;
}

static bool init_states(struct mtr_exec_memory *m, struct mtr_error *err)
{
    for (uint32_t i = 0; i < m->plan->state_count; i++) {
        uint64_t bytes = m->plan->states[i].slot_bytes * (m->slots + m->snapshots);
        m->states[i] = m->backend->ops->alloc(m->backend, bytes, err);
        if (!m->states[i])
            return mtr_error_prefix(err, "recurrent state of layer %u", m->plan->states[i].layer);
    }
    return true;
}

static bool init_constants(struct mtr_exec_memory *m, struct mtr_error *err)
{
    const struct mtr_backend_ops *ops = m->backend->ops;
    for (uint32_t i = 0; i < m->plan->constant_count; i++) {
        const struct mtr_plan_constant *c = &m->plan->constants[i];
        size_t bytes = c->count * sizeof(float);
        m->constants[i] = ops->alloc(m->backend, bytes, err);
        if (!m->constants[i] ||
            !ops->upload(m->backend, NULL, m->constants[i], c->values, bytes, err))
            return mtr_error_prefix(err, "constant %s", c->name);
    }
    return true;
}

bool mtr_exec_memory_init(struct mtr_exec_memory *m, struct mtr_backend *backend,
                          const struct mtr_plan *plan, const uint32_t *group_blocks, uint32_t slots,
                          uint32_t snapshots, struct mtr_error *err)
{
    *m = (struct mtr_exec_memory){
        .plan = plan,
        .backend = backend,
        .slots = slots,
        .snapshots = snapshots,
        .buffers = calloc(plan->buffer_count + 1, sizeof *m->buffers),
        .caches = calloc(plan->cache_count + 1, sizeof *m->caches),
        .states = calloc(plan->state_count + 1, sizeof *m->states),
        .constants = calloc(plan->constant_count + 1, sizeof *m->constants),
    };
    for (uint32_t g = 0; g < plan->group_count; g++)
        m->group_blocks[g] = group_blocks[g];
    if (!m->buffers || !m->caches || !m->states || !m->constants)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the executor's tables");
    return init_buffers(m, err) && init_scratch(m, err) && init_caches(m, err) &&
           init_states(m, err) && init_constants(m, err) &&
           backend->ops->stream_wait(backend, NULL, err);
}

void mtr_exec_memory_free(struct mtr_exec_memory *m)
{
    if (!m->backend)
        return;
    const struct mtr_backend_ops *ops = m->backend->ops;
    for (uint32_t i = 0; m->constants && i < m->plan->constant_count; i++)
        if (m->constants[i])
            ops->free(m->backend, m->constants[i]);
    for (uint32_t i = 0; m->states && i < m->plan->state_count; i++)
        if (m->states[i])
            ops->free(m->backend, m->states[i]);
    for (uint32_t i = 0; m->caches && i < m->plan->cache_count; i++)
        if (m->caches[i].k)
            ops->free(m->backend, m->caches[i].k);
    if (m->scratch)
        ops->free(m->backend, m->scratch);
    if (m->chosen)
        ops->free(m->backend, m->chosen);
    if (m->arena)
        ops->free(m->backend, m->arena);
    free(m->constants);
    free(m->states);
    free(m->caches);
    free(m->buffers);
    *m = (struct mtr_exec_memory){0};
}

static bool copy_block(struct mtr_exec_memory *m, struct mtr_stream *s, const struct mtr_effect *e,
                       struct mtr_error *err)
{
    uint64_t bytes = side_bytes(&m->plan->groups[e->group]);
    const struct mtr_backend_ops *ops = m->backend->ops;
    for (uint32_t i = 0; i < m->plan->cache_count; i++) {
        if (m->plan->caches[i].group != e->group)
            continue;
        uint8_t *k = m->caches[i].k, *v = m->caches[i].v;
        if (!ops->copy(m->backend, s, k + e->dst * bytes, k + e->src * bytes, bytes, err))
            return false;
        if (v && !ops->copy(m->backend, s, v + e->dst * bytes, v + e->src * bytes, bytes, err))
            return false;
    }
    return true;
}

/* State index: live slots first, snapshots behind them. */
static bool copy_state(struct mtr_exec_memory *m, struct mtr_stream *s, uint32_t dst, uint32_t src,
                       struct mtr_error *err)
{
    for (uint32_t i = 0; i < m->plan->state_count; i++) {
        uint64_t bytes = m->plan->states[i].slot_bytes;
        uint8_t *base = m->states[i];
        if (!m->backend->ops->copy(m->backend, s, base + dst * bytes, base + src * bytes, bytes,
                                   err))
            return false;
    }
    return true;
}

static bool zero_state(struct mtr_exec_memory *m, struct mtr_stream *s, uint32_t slot,
                       struct mtr_error *err)
{
    for (uint32_t i = 0; i < m->plan->state_count; i++) {
        uint64_t bytes = m->plan->states[i].slot_bytes;
        if (!m->backend->ops->fill(m->backend, s, (uint8_t *)m->states[i] + slot * bytes, 0, bytes,
                                   err))
            return false;
    }
    return true;
}

bool mtr_exec_effect(struct mtr_exec_memory *m, struct mtr_stream *stream,
                     const struct mtr_effect *e, struct mtr_error *err)
{
    switch (e->kind) {
    case MTR_COPY_BLOCK:
        return copy_block(m, stream, e, err);
    case MTR_ZERO_STATE:
        return zero_state(m, stream, e->dst, err);
    case MTR_SNAPSHOT_STATE:
        return copy_state(m, stream, m->slots + e->dst, e->src, err);
    case MTR_RESTORE_STATE:
        return copy_state(m, stream, e->dst, m->slots + e->src, err);
    default:
        return true; /* MTR_FREE_BLOCK: dead content stays until it is overwritten */
    }
}
