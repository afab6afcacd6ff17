/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A launch reads its weights once (an embedding: a row for each token), its buffers once, and its
 * share of the cache: attention reads the history of every lane, appending writes the new tokens.
 * A recurrent layer reads and writes the state of every lane. Of a stack of experts those are read
 * that the step's tokens can be expected to choose.
 */
#include "common/circuit/cost.h"

#include <math.h>
#include <string.h>

#include "common/circuit/rules.h"

#define DELTA_OPERATIONS 7 /* of a token, for each number of its state */

uint64_t mtr_weight_bytes(const struct mtr_plan_weight *w)
{
    uint64_t row;
    return mtr_format_row_bytes(w->kernel_format, w->cols, &row) ? row * w->rows : 0;
}

static double rows_of(const struct mtr_plan *p, enum mtr_rows rows, const struct mtr_step_shape *s)
{
    double tokens = (double)s->lanes * s->tokens;
    return rows == MTR_ROWS_TOKENS ? tokens : rows == MTR_ROWS_PAIRS ? tokens * p->top_k : s->lanes;
}

/* How many of a stack's matrices are read by so many tokens that choose evenly. */
static double experts_met(const struct mtr_plan *p, const struct mtr_plan_weight *w, double pairs)
{
    double tokens = pairs / p->top_k, rest = 1 - (double)p->top_k / w->stack;
    return w->stack * (1 - pow(rest > 0 ? rest : 0, tokens));
}

/* A head's matrix has one half for latent_query and one for latent_value. */
static double share_read(const struct mtr_launch *l, const struct mtr_plan_weight *w)
{
    bool query = strncmp(l->point->function, "latent_query", 12) == 0;
    if (!query && strncmp(l->point->function, "latent_value", 12) != 0)
        return 1;
    double values = (double)mtr_launch_u32(l, MTR_P_HEADS, 1) *
                    mtr_launch_u32(l, MTR_P_VALUE_DIM, 0) / (double)w->rows;
    return query ? 1 - values : values;
}

static double weights_read(const struct mtr_plan *p, const struct mtr_launch *l, double rows)
{
    double bytes = 0;
    for (uint32_t i = 0; i < l->weight_count; i++) {
        if (l->weights[i] == MTR_NONE)
            continue;
        const struct mtr_plan_weight *w = &p->weights[l->weights[i]];
        double all = (double)mtr_weight_bytes(w);
        for (uint32_t k = 0; k < 2; k++) {
            uint16_t scale = k ? w->global_scale : w->scale;
            all += scale == MTR_NONE ? 0 : (double)mtr_weight_bytes(&p->weights[scale]);
        }
        bool lookup = strcmp(l->family->name, "embed") == 0;
        if (w->stack > 1)
            all *= experts_met(p, w, rows) / w->stack;
        if (!lookup)
            all *= share_read(l, w);
        bytes += lookup ? all / (double)w->rows * rows : all;
    }
    return bytes;
}

/* Pairs of a query and a key that a causal step looks at. */
static double pairs(const struct mtr_step_shape *s, uint32_t window)
{
    double sum = 0;
    for (uint32_t t = 0; t < s->tokens; t++) {
        double seen = (double)s->context + t + 1;
        sum += window && seen > window ? window : seen;
    }
    return sum * s->lanes;
}

static double cache_moved(const struct mtr_plan *p, const struct mtr_launch *l,
                          const struct mtr_step_shape *s)
{
    if (l->state != MTR_NONE)
        return 2.0 * (double)p->states[l->state].slot_bytes * s->lanes;
    if (l->cache == MTR_NONE)
        return 0;
    const struct mtr_cache_group *g = &p->groups[p->caches[l->cache].group];
    double token = (double)g->block_bytes / g->block_tokens;
    double history = (double)s->context + s->tokens;
    if (g->window && history > g->window)
        history = g->window;
    bool reads = strstr(l->family->name, "attention") != NULL;
    return token * s->lanes * (reads ? history : s->tokens);
}

static double operations(const struct mtr_plan *p, const struct mtr_launch *l, double rows,
                         const struct mtr_step_shape *s)
{
    double ops = 0;
    if (strcmp(l->family->name, "linear") == 0 || strcmp(l->family->name, "experts") == 0)
        for (uint32_t i = 0; i < l->weight_count; i++) {
            const struct mtr_plan_weight *w =
                l->weights[i] == MTR_NONE ? NULL : &p->weights[l->weights[i]];
            double each = w && w->stack > 1 ? (double)w->rows / w->stack : w ? (double)w->rows : 0;
            ops += w && w->rows > 1 ? 2.0 * rows * each * (double)w->cols : 0;
        }
    if (strcmp(l->family->name, "latent") == 0 && l->cache == MTR_NONE) {
        const struct mtr_plan_weight *w = &p->weights[l->weights[0]];
        ops = 2.0 * rows * (double)w->rows * (double)w->cols * share_read(l, w);
    }
    if (strcmp(l->family->name, "attention") == 0)
        ops = 4.0 * mtr_launch_u32(l, MTR_P_HEADS, 0) * mtr_launch_u32(l, MTR_P_HEAD_DIM, 0) *
              pairs(s, mtr_launch_u32(l, MTR_P_WINDOW, 0));
    if (strcmp(l->family->name, "delta") == 0 && l->state != MTR_NONE)
        ops = DELTA_OPERATIONS * (double)p->states[l->state].slot_bytes / sizeof(float) * rows;
    return ops;
}

static double rate(const struct mtr_device *d)
{
    return d->flops_bf16 > 0 ? d->flops_bf16 : d->flops_f32;
}

struct mtr_cost mtr_launch_cost(const struct mtr_plan *plan, const struct mtr_launch *l,
                                const struct mtr_step_shape *shape, const struct mtr_device *device)
{
    struct mtr_cost c = {0};
    double rows = rows_of(plan, l->rows, shape);
    c.weight_bytes = weights_read(plan, l, rows);
    c.cache_bytes = cache_moved(plan, l, shape);
    for (uint32_t i = 0; i < l->in_count; i++) {
        const struct mtr_plan_buffer *b = &plan->buffers[l->in[i]];
        bool pairs = b->rows == MTR_ROWS_PAIRS || l->rows == MTR_ROWS_PAIRS;
        double count = pairs ? rows_of(plan, b->rows, shape) : rows;
        c.activation_bytes += (double)b->row_bytes * count;
    }
    for (uint32_t i = 0; i < l->out_count; i++)
        c.activation_bytes += (double)plan->buffers[l->out[i]].row_bytes * rows;
    c.operations = operations(plan, l, rows, shape);
    if (device)
        c.seconds = fmax((c.weight_bytes + c.cache_bytes + c.activation_bytes) / device->bandwidth,
                         c.operations / rate(device));
    return c;
}

struct mtr_cost mtr_step_cost(const struct mtr_plan *plan, const struct mtr_step_shape *shape,
                              const struct mtr_device *device)
{
    struct mtr_cost sum = {0};
    enum mtr_mode mode = shape->tokens > 1 ? MTR_MODE_MIXED : MTR_MODE_DECODE;
    for (uint32_t i = 0; i < plan->lists[mode].count; i++) {
        struct mtr_cost c = mtr_launch_cost(plan, &plan->lists[mode].launches[i], shape, device);
        sum.weight_bytes += c.weight_bytes;
        sum.cache_bytes += c.cache_bytes;
        sum.activation_bytes += c.activation_bytes;
        sum.operations += c.operations;
        sum.seconds += c.seconds;
    }
    return sum;
}

/* A tied weight is in memory once where both readers take the same format. */
static bool shares_memory(const struct mtr_plan *p, uint32_t weight)
{
    const struct mtr_plan_weight *w = &p->weights[weight];
    for (uint32_t i = 0; w->tied && i < weight; i++)
        if (p->weights[i].kernel_format == w->kernel_format &&
            strcmp(p->weights[i].name, w->name) == 0)
            return true;
    return false;
}

struct mtr_memory_need mtr_plan_memory(const struct mtr_plan *p)
{
    struct mtr_memory_need n = {.arena = p->arena_bytes};
    for (uint32_t i = 0; i < p->weight_count; i++)
        n.weights += shares_memory(p, i) ? 0 : mtr_weight_bytes(&p->weights[i]);
    for (uint32_t i = 0; i < p->constant_count; i++)
        n.constants += p->constants[i].count * sizeof(float);
    for (uint32_t i = 0; i < p->group_count; i++) {
        const struct mtr_cache_group *g = &p->groups[i];
        uint64_t token = g->block_bytes / g->block_tokens * g->layers;
        if (g->window)
            n.cache_sequence += token * g->window;
        else
            n.cache_token += token;
    }
    for (uint32_t i = 0; i < p->state_count; i++)
        n.state_sequence += p->states[i].slot_bytes;
    return n;
}
