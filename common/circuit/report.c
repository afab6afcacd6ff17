/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reports. Layers that run the same kernels by the same rules are printed once, as a run of layers:
 * two layers are alike when their launches are, one by one, but for indices.
 */
#include "common/circuit/report.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"

static const char *const row_names[MTR_ROWS_COUNT] = {"tokens", "outputs", "pairs", "lanes"};

/* A run of consecutive launches of one layer: [from, to). */
struct stretch {
    uint32_t from, to;
};

static struct stretch stretch_at(const struct mtr_launch_list *list, uint32_t from)
{
    struct stretch s = {from, from};
    while (s.to < list->count && list->launches[s.to].layer == list->launches[from].layer)
        s.to++;
    return s;
}

static bool same_weights(const struct mtr_plan *p, const struct mtr_launch *a,
                         const struct mtr_launch *b)
{
    if (a->weight_count != b->weight_count)
        return false;
    for (uint32_t i = 0; i < a->weight_count; i++) {
        bool none = a->weights[i] == MTR_NONE;
        if (none != (b->weights[i] == MTR_NONE))
            return false;
        if (!none && (p->weights[a->weights[i]].format != p->weights[b->weights[i]].format ||
                      p->weights[a->weights[i]].rows != p->weights[b->weights[i]].rows))
            return false;
    }
    return true;
}

static bool alike(const struct mtr_plan *p, const struct mtr_launch_list *list, struct stretch a,
                  struct stretch b)
{
    if (list->launches[a.from].layer == MTR_NONE || list->launches[b.from].layer == MTR_NONE ||
        a.to - a.from != b.to - b.from)
        return false;
    for (uint32_t i = 0; i < a.to - a.from; i++) {
        const struct mtr_launch *x = &list->launches[a.from + i], *y = &list->launches[b.from + i];
        if (x->point != y->point || x->rule != y->rule || x->param_count != y->param_count ||
            memcmp(x->params, y->params, x->param_count * sizeof x->params[0]) != 0 ||
            !same_weights(p, x, y))
            return false;
    }
    return true;
}

/* Calls print for the launches of each run of like layers, with a heading. */
static void
each_run(struct mtr_buf *out, const struct mtr_plan *p, const struct mtr_launch_list *list,
         void (*print)(struct mtr_buf *, const struct mtr_plan *, const struct mtr_launch *))
{
    for (uint32_t at = 0; at < list->count;) {
        struct stretch first = stretch_at(list, at), next = first;
        uint16_t layer = list->launches[at].layer, last = layer;
        while (next.to < list->count && alike(p, list, first, stretch_at(list, next.to))) {
            next = stretch_at(list, next.to);
            last = list->launches[next.from].layer;
        }
        if (layer == MTR_NONE)
            mtr_buf_puts(out, at == 0 ? "before the layers\n" : "after the layers\n");
        else if (layer == last)
            mtr_buf_printf(out, "layer %u\n", layer);
        else
            mtr_buf_printf(out, "layers %u to %u\n", layer, last);
        for (uint32_t i = first.from; i < first.to; i++)
            print(out, p, &list->launches[i]);
        at = next.to;
    }
}

static const char *plain_name(const char *edge)
{
    const char *dot = edge[0] == 'L' ? strchr(edge, '.') : NULL;
    return dot ? dot + 1 : edge;
}

static void show_launch(struct mtr_buf *out, const struct mtr_plan *p, const struct mtr_launch *l)
{
    mtr_buf_printf(out, "  %-20s %-7s", l->point->function, row_names[l->rows]);
    for (uint32_t i = 0; i < l->in_count; i++)
        mtr_buf_printf(out, " %s", plain_name(p->buffers[l->in[i]].name));
    mtr_buf_puts(out, " ->");
    for (uint32_t i = 0; i < l->out_count; i++) {
        const struct mtr_plan_buffer *b = &p->buffers[l->out[i]];
        mtr_buf_printf(out, " %s[%u]", plain_name(b->name), b->cols);
    }
    if (l->cache != MTR_NONE)
        mtr_buf_printf(out, " | cache %s", p->groups[p->caches[l->cache].group].name);
    mtr_buf_printf(out, " | %s, %s", l->rule->name, mtr_tag_name(l->rule->tag));
    if (l->rule->proof)
        mtr_buf_printf(out, " by %s", l->rule->proof);
    mtr_buf_printf(out, " | %s: %s\n", l->family->compute, l->point->numerics);
}

static void put_model(struct mtr_buf *out, const struct mtr_plan *p)
{
    char hex[65];
    mtr_hex(p->digest, sizeof p->digest, hex);
    mtr_buf_printf(out, "circuit %s, class %s, precision %s, plan %s\n", p->circuit, p->hardware,
                   p->precision, hex);
    mtr_buf_printf(out, "%llu parameters, ", (unsigned long long)p->parameters);
    if (p->active != p->parameters)
        mtr_buf_printf(out, "%llu of them for a token (%u experts a layer), ",
                       (unsigned long long)p->active, p->top_k);
    mtr_buf_printf(out, "%u layers, hidden %u, vocabulary %u, context %u tokens\n", p->layers,
                   p->hidden, p->vocab, p->context);
}

bool mtr_report_show(struct mtr_buf *out, const struct mtr_plan *plan)
{
    put_model(out, plan);
    bool same = plan->lists[0].launches == plan->lists[1].launches;
    mtr_buf_printf(out, "%u launches %s\n", plan->lists[0].count,
                   same ? "in every step" : "in steps that prefill");
    each_run(out, plan, &plan->lists[0], show_launch);
    if (!same) {
        mtr_buf_printf(out, "%u launches in steps that decode only\n", plan->lists[1].count);
        each_run(out, plan, &plan->lists[1], show_launch);
    }
    return !out->failed;
}

/* "1.25 GB": three digits are enough for people. */
static void put_bytes(struct mtr_buf *out, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    uint32_t u = 0;
    while (bytes >= 1000 && u < 4) {
        bytes /= 1000;
        u++;
    }
    mtr_buf_printf(out, u ? "%.3g %s" : "%.0f %s", bytes, units[u]);
}

static void put_line(struct mtr_buf *out, const char *what, uint64_t bytes)
{
    mtr_buf_printf(out, "  %-28s %15llu  ", what, (unsigned long long)bytes);
    put_bytes(out, (double)bytes);
    mtr_buf_puts(out, "\n");
}

static double sequence_bytes(const struct mtr_memory_need *n, uint32_t tokens)
{
    return (double)n->cache_token * tokens + (double)n->cache_sequence + (double)n->state_sequence;
}

static void put_fit(struct mtr_buf *out, const struct mtr_plan *p, const struct mtr_device *d)
{
    struct mtr_memory_need n = mtr_plan_memory(p);
    double room = d->memory_bytes - d->reserve_bytes - (double)(n.weights + n.arena + n.constants);
    mtr_buf_printf(out, "on %s (%s): ", d->name, d->title);
    put_bytes(out, d->memory_bytes);
    mtr_buf_puts(out, ", of which ");
    put_bytes(out, d->reserve_bytes);
    mtr_buf_puts(out, " for the system\n");
    if (room < 0) {
        mtr_buf_puts(out, "  does not fit: ");
        put_bytes(out, -room);
        mtr_buf_puts(out, " too much before any cache\n");
        return;
    }
    mtr_buf_puts(out, "  fits; ");
    put_bytes(out, room);
    mtr_buf_puts(out, " left for sequences:");
    for (uint32_t tokens = 1024; tokens < p->limits.max_sequence_tokens; tokens *= 4)
        mtr_buf_printf(out, " %.0f of %u tokens,", room / sequence_bytes(&n, tokens), tokens);
    mtr_buf_printf(out, " %.0f of %u tokens\n",
                   room / sequence_bytes(&n, p->limits.max_sequence_tokens),
                   p->limits.max_sequence_tokens);
}

bool mtr_report_memory(struct mtr_buf *out, const struct mtr_plan *plan,
                       const struct mtr_device *device)
{
    struct mtr_memory_need n = mtr_plan_memory(plan);
    put_model(out, plan);
    mtr_buf_puts(out, "bytes that do not depend on the load\n");
    put_line(out, "weights", n.weights);
    put_line(out, "buffers of a step", n.arena);
    put_line(out, "constants", n.constants);
    mtr_buf_puts(out, "bytes of the load\n");
    put_line(out, "cache for each token", n.cache_token);
    put_line(out, "windows for each sequence", n.cache_sequence);
    put_line(out, "states for each sequence", n.state_sequence);
    for (uint32_t i = 0; i < plan->group_count; i++) {
        const struct mtr_cache_group *g = &plan->groups[i];
        mtr_buf_printf(out, "cache group %s: %u layers, %u heads of %u, %s, blocks of %u tokens, ",
                       g->name, g->layers, g->kv_heads, g->head_dim,
                       mtr_format_info(g->format)->name, g->block_tokens);
        mtr_buf_printf(out, "%llu bytes each\n", (unsigned long long)g->block_bytes * g->layers);
    }
    if (device)
        put_fit(out, plan, device);
    return !out->failed;
}

static void put_step(struct mtr_buf *out, const struct mtr_plan *p, const struct mtr_device *d,
                     const char *name, struct mtr_step_shape shape)
{
    struct mtr_cost c = mtr_step_cost(p, &shape, d);
    double tokens = (double)shape.lanes * shape.tokens;
    mtr_buf_printf(out, "  %-22s %9.2f MB  %9.2f MB  %9.2f MB  %10.3f GFLOP  %9.3f ms  %8.0f\n",
                   name, c.weight_bytes / 1e6, c.cache_bytes / 1e6, c.activation_bytes / 1e6,
                   c.operations / 1e9, c.seconds * 1e3, tokens / c.seconds);
}

bool mtr_report_plan(struct mtr_buf *out, const struct mtr_plan *plan,
                     const struct mtr_device *device, uint32_t context)
{
    uint32_t quarter = plan->context / 4;
    context = context ? context : quarter > 4096 ? 4096 : quarter;
    put_model(out, plan);
    put_fit(out, plan, device);
    mtr_buf_printf(out, "bounds with %u tokens of history", context);
    if (strcmp(device->hardware, plan->hardware) != 0)
        mtr_buf_printf(out, " (launches of class %s, on a device of class %s)", plan->hardware,
                       device->hardware);
    mtr_buf_printf(out, "; %s\n", device->source);
    mtr_buf_printf(out, "  %-22s %12s  %12s  %12s  %16s  %12s  %8s\n", "step", "weights", "cache",
                   "activations", "operations", "at least", "tokens/s");
    for (uint32_t lanes = 1; lanes <= 8 && lanes <= plan->limits.max_lanes; lanes *= 2) {
        char name[32];
        snprintf(name, sizeof name, "decode, %u lane%s", lanes, lanes > 1 ? "s" : "");
        put_step(out, plan, device, name, (struct mtr_step_shape){lanes, 1, context});
    }
    char name[32];
    snprintf(name, sizeof name, "prefill, %u tokens", plan->limits.max_step_tokens);
    put_step(out, plan, device, name, (struct mtr_step_shape){1, plan->limits.max_step_tokens, 0});
    return !out->failed;
}

static void put_format(struct mtr_buf *out, const struct mtr_plan_weight *w)
{
    mtr_buf_puts(out, mtr_format_info(w->format)->name);
    if (w->kernel_format != w->format)
        mtr_buf_printf(out, " as %s", mtr_format_info(w->kernel_format)->name);
    if (w->inverted)
        mtr_buf_puts(out, " inverted");
}

/* "e2m1 by e4m3 by f32 inverted": a matrix and the scales beside it. */
static void put_formats(struct mtr_buf *out, const struct mtr_plan *p,
                        const struct mtr_plan_weight *w)
{
    put_format(out, w);
    for (int level = 0; level < 2; level++) {
        uint16_t scale = level ? w->global_scale : w->scale;
        if (scale == MTR_NONE)
            continue;
        mtr_buf_puts(out, " by ");
        put_format(out, &p->weights[scale]);
    }
}

static void precision_launch(struct mtr_buf *out, const struct mtr_plan *p,
                             const struct mtr_launch *l)
{
    mtr_buf_printf(out, "  %-20s", l->point->function);
    for (uint32_t i = 0; i < l->in_count; i++) {
        const struct mtr_plan_buffer *b = &p->buffers[l->in[i]];
        mtr_buf_printf(out, " %s %s", plain_name(b->name), mtr_format_info(b->format)->name);
    }
    for (uint32_t i = 0; i < l->weight_count; i++) {
        if (l->weights[i] == MTR_NONE)
            continue;
        mtr_buf_puts(out, i ? ", " : " | weights ");
        put_formats(out, p, &p->weights[l->weights[i]]);
    }
    if (l->cache != MTR_NONE)
        mtr_buf_printf(out, " | cache %s",
                       mtr_format_info(p->groups[p->caches[l->cache].group].format)->name);
    mtr_buf_puts(out, " |");
    for (uint32_t i = 0; i < l->out_count; i++) {
        const struct mtr_plan_buffer *b = &p->buffers[l->out[i]];
        mtr_buf_printf(out, " %s %s", plain_name(b->name), mtr_format_info(b->format)->name);
    }
    mtr_buf_printf(out, " | %s\n", l->point->numerics);
}

/* How many numbers of a kind the checkpoint has in each format. */
static void put_counts(struct mtr_buf *out, const struct mtr_plan *plan, bool scales)
{
    uint64_t count[MTR_FORMAT_COUNT] = {0};
    for (uint32_t i = 0; i < plan->weight_count; i++) {
        const struct mtr_plan_weight *w = &plan->weights[i];
        if (!w->tied && (w->role != MTR_WEIGHT_VALUES) == scales)
            count[w->format] += w->rows * w->cols;
    }
    for (uint32_t f = 0; f < MTR_FORMAT_COUNT; f++)
        if (count[f])
            mtr_buf_printf(out, "%llu %s in %s\n", (unsigned long long)count[f],
                           scales ? "scales" : "elements", mtr_format_info(f)->name);
}

bool mtr_report_precision(struct mtr_buf *out, const struct mtr_plan *plan)
{
    put_model(out, plan);
    put_counts(out, plan, false);
    put_counts(out, plan, true);
    mtr_buf_puts(out, "kernel, inputs | weights | cache | outputs | numerics\n");
    each_run(out, plan, &plan->lists[0], precision_launch);
    return !out->failed;
}
