/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buffers by liveness.
 *
 * Edges that share memory (an output that takes its input's) form one buffer. A buffer lives from
 * the launch that first writes it to the launch that last touches it. Launches are walked in
 * order: outputs are placed at the lowest offset that fits between the buffers alive now, and what
 * was touched for the last time gives its place back. Offsets are multiples of ALIGN.
 *
 * Logits outlive the step's launches (the sampler reads them) and have the start of the arena to
 * themselves. The lists of both modes are laid out each on their own over the same memory; where
 * both modes run the same groups, they share one list.
 */
#include "common/circuit/planner.h"

#include <string.h>

#define ALIGN    64u
#define MAX_LIVE 64 /* buffers alive at once */

struct span {
    uint16_t buffer;
    uint32_t last; /* launch that touches it last */
    uint64_t from, to;
};

struct layout {
    struct mtr_arena *arena;
    const struct mtr_instance *in;
    const struct mtr_hardware *hardware;
    const struct mtr_cover *cover;
    struct mtr_plan *plan;
    struct mtr_plan_buffer *buffers;
    struct mtr_plan_weight *weights;
    uint16_t *weight_of;        /* [weights] plan weight of each, by family of the class */
    uint16_t *root;             /* [edges] the edge whose memory it has */
    uint16_t *buffer_of;        /* [edges] of root edges, or MTR_NONE */
    uint32_t *last;             /* [edges] of root edges */
    struct span live[MAX_LIVE]; /* by offset */
    uint32_t live_count;
    struct mtr_error *err;
};

uint64_t mtr_plan_max_rows(const struct mtr_plan_limits *limits, enum mtr_rows rows, uint32_t top_k)
{
    switch (rows) {
    case MTR_ROWS_TOKENS:
        return limits->max_step_tokens;
    case MTR_ROWS_OUTPUTS:
        return limits->max_step_outputs;
    case MTR_ROWS_PAIRS:
        return (uint64_t)limits->max_step_tokens * top_k;
    default:
        return limits->max_lanes;
    }
}

static uint16_t root_of(const struct layout *l, uint16_t edge)
{
    while (l->root[edge] != edge)
        edge = l->root[edge];
    return edge;
}

/* Who shares memory, and when each is touched last. */
static void find_lives(struct layout *l)
{
    for (uint32_t e = 0; e < l->in->edge_count; e++) {
        l->root[e] = (uint16_t)e;
        l->buffer_of[e] = MTR_NONE;
        l->last[e] = 0;
    }
    for (uint32_t g = 0; g < l->cover->count; g++) {
        const struct mtr_group *group = &l->cover->groups[g];
        const struct mtr_fusion_rule *r = group->rule;
        for (uint32_t o = 0; o < r->out_count; o++)
            if (r->alias[o] != 0xff)
                l->root[group->edges[r->out[o]]] = root_of(l, group->edges[r->alias[o]]);
        for (uint32_t i = 0; i < r->in_count; i++)
            l->last[root_of(l, group->edges[r->in[i]])] = g;
        for (uint32_t o = 0; o < r->out_count; o++)
            l->last[root_of(l, group->edges[r->out[o]])] = g;
    }
}

static bool buffer_bytes(struct layout *l, const struct mtr_edge *e, uint64_t *row, uint64_t *bytes)
{
    uint64_t rows = mtr_plan_max_rows(&l->plan->limits, e->rows, l->plan->top_k);
    if (!mtr_format_row_bytes(e->format, e->cols, row) ||
        __builtin_mul_overflow(*row, rows, bytes) || *bytes > UINT64_MAX / 4)
        return mtr_fail(l->err, MTR_TOO_LARGE, "buffer %s of %llu rows of %u columns is too large",
                        e->name, (unsigned long long)rows, e->cols);
    *bytes = (*bytes + ALIGN - 1) / ALIGN * ALIGN;
    return true;
}

/* The lowest gap of `bytes` between the live spans; keeps them sorted. */
static bool place(struct layout *l, uint16_t buffer, uint64_t bytes, uint32_t last,
                  uint64_t *offset)
{
    uint64_t at = l->plan->logits == MTR_NONE ? 0 : l->live[0].to;
    uint32_t i = l->plan->logits == MTR_NONE ? 0 : 1;
    while (i < l->live_count && l->live[i].from - at < bytes)
        at = l->live[i++].to;
    if (l->live_count == MAX_LIVE)
        return mtr_fail(l->err, MTR_TOO_LARGE, "more than %d buffers alive at once", MAX_LIVE);
    memmove(&l->live[i + 1], &l->live[i], (l->live_count - i) * sizeof l->live[0]);
    l->live[i] = (struct span){buffer, last, at, at + bytes};
    l->live_count++;
    if (at + bytes > l->plan->arena_bytes)
        l->plan->arena_bytes = at + bytes;
    *offset = at;
    return true;
}

static bool add_buffer(struct layout *l, uint16_t edge, uint32_t last)
{
    const struct mtr_edge *e = &l->in->edges[edge];
    uint64_t row = 0, bytes = 0, offset = 0;
    if (l->plan->buffer_count == MTR_MAX_NODES)
        return mtr_fail(l->err, MTR_TOO_LARGE, "more than %d buffers", MTR_MAX_NODES);
    uint16_t index = (uint16_t)l->plan->buffer_count;
    if (!buffer_bytes(l, e, &row, &bytes) || !place(l, index, bytes, last, &offset))
        return false;
    l->buffers[l->plan->buffer_count++] =
        (struct mtr_plan_buffer){e->name, e->rows, e->cols, e->format, row, offset};
    l->buffer_of[edge] = index;
    return true;
}

static void drop_dead(struct layout *l, uint32_t launch)
{
    uint32_t keep = 0;
    for (uint32_t i = 0; i < l->live_count; i++)
        if (l->live[i].last > launch)
            l->live[keep++] = l->live[i];
    l->live_count = keep;
}

static bool add_plan_weight(struct layout *l, const struct mtr_plan_weight *w, uint16_t *out)
{
    if (l->plan->weight_count == MTR_MAX_NODES)
        return mtr_fail(l->err, MTR_TOO_LARGE, "more than %d tensors", MTR_MAX_NODES);
    *out = (uint16_t)l->plan->weight_count;
    l->weights[l->plan->weight_count++] = *w;
    return true;
}

/* Kernels read scales as f32, those of groups as the file holds them (binding.c). */
static bool add_scales(struct layout *l, const struct mtr_instance_weight *w, uint16_t *out)
{
    struct mtr_plan_weight p = {.name = w->scale_name,
                                .rows = w->stack * w->scale_rows,
                                .cols = w->scale_cols,
                                .format = w->scale_format,
                                .kernel_format =
                                    w->scaling == MTR_SCALING_GROUP16 ? w->scale_format : MTR_F32,
                                .scale = MTR_NONE,
                                .global_scale = MTR_NONE,
                                .tensor_rows = w->stack * w->scale_rows,
                                .role = MTR_WEIGHT_SCALES,
                                .stack = w->stack,
                                .apart = w->apart};
    *out = MTR_NONE;
    return !w->scale_name || add_plan_weight(l, &p, out);
}

static bool add_global(struct layout *l, const struct mtr_instance_weight *w, uint16_t *out)
{
    struct mtr_plan_weight p = {.name = w->global_name,
                                .rows = w->stack,
                                .cols = 1,
                                .format = w->global_format,
                                .kernel_format = MTR_F32,
                                .scale = MTR_NONE,
                                .global_scale = MTR_NONE,
                                .tensor_rows = w->stack,
                                .role = MTR_WEIGHT_GLOBAL,
                                .stack = w->stack,
                                .apart = w->apart,
                                .inverted = w->global_divides};
    *out = MTR_NONE;
    return !w->global_name || add_plan_weight(l, &p, out);
}

static bool bound_before(const struct layout *l, const char *name)
{
    for (uint32_t i = 0; i < l->plan->weight_count; i++)
        if (strcmp(l->weights[i].name, name) == 0)
            return true;
    return false;
}

/* The plan's weight for a tensor as one family reads it; a tensor that two families read (a tied
 * embedding) is two weights, the later ones tied. */
static bool use_weight(struct layout *l, const struct mtr_group *g, uint16_t weight, uint16_t *out)
{
    const struct mtr_instance_weight *w = &l->in->weights[weight];
    uint32_t family = (uint32_t)(g->family - l->hardware->families);
    uint16_t *known = &l->weight_of[(size_t)weight * l->hardware->family_count + family];
    if (*known == MTR_NONE) {
        struct mtr_plan_weight p = {.name = w->name,
                                    .rows = w->stack * w->rows,
                                    .cols = w->cols,
                                    .format = w->format,
                                    .kernel_format = w->vector ? l->hardware->vectors : w->format,
                                    .tensor_rows = w->stack * w->rows,
                                    .stack = w->stack,
                                    .apart = w->apart};
        bool twice = false;
        for (uint32_t i = 0; i < l->hardware->family_count; i++)
            twice |= l->weight_of[(size_t)weight * l->hardware->family_count + i] != MTR_NONE;
        p.tied = twice && bound_before(l, w->name);
        if (!w->vector)
            mtr_kernel_format(g->family, g->rule->function, w, &p.kernel_format);
        if (!add_scales(l, w, &p.scale) || !add_global(l, w, &p.global_scale) ||
            !add_plan_weight(l, &p, known))
            return false;
    }
    *out = *known;
    return true;
}

static void set_param(struct mtr_launch *out, enum mtr_param name, double value)
{
    for (uint32_t i = 0; i < out->param_count; i++)
        if (out->params[i].name == name)
            return;
    out->params[out->param_count++] = (struct mtr_launch_param){name, value};
}

static void fill_numbers(const struct layout *l, const struct mtr_group *g, struct mtr_launch *out)
{
    out->cache = out->state = out->constant = MTR_NONE;
    for (uint32_t i = 0; i < g->rule->set_count; i++)
        set_param(out, g->rule->sets[i].name, g->rule->sets[i].value);
    for (uint32_t n = 0; n < g->rule->node_count; n++) {
        const struct mtr_node *node = &l->in->nodes[g->nodes[n]];
        for (uint32_t i = 0; i < node->param_count; i++)
            set_param(out, node->params[i].name, node->params[i].value);
        out->cache = node->cache == MTR_NONE ? out->cache : node->cache;
        out->state = node->state == MTR_NONE ? out->state : node->state;
        out->constant = node->constant == MTR_NONE ? out->constant : node->constant;
    }
}

static bool fill_weights(struct layout *l, const struct mtr_group *g, struct mtr_launch *out)
{
    const struct mtr_fusion_rule *r = g->rule;
    for (uint32_t i = 0; i < r->weight_count; i++) {
        const struct mtr_node *node = &l->in->nodes[g->nodes[r->weights[i].node]];
        uint8_t slot = r->weights[i].slot;
        uint16_t w = slot < node->weight_count ? node->weights[slot] : MTR_NONE;
        out->weights[i] = MTR_NONE;
        if (w == MTR_NONE)
            continue;
        if (!use_weight(l, g, w, &out->weights[i]))
            return false;
        out->weight_count = (uint8_t)(i + 1);
    }
    return true;
}

static bool make_launch(struct layout *l, uint32_t index, struct mtr_launch *out)
{
    const struct mtr_group *g = &l->cover->groups[index];
    const struct mtr_fusion_rule *r = g->rule;
    out->family = g->family;
    out->point = g->point;
    out->rule = r;
    out->layer = l->in->nodes[g->last].layer;
    out->in_count = r->in_count;
    out->out_count = r->out_count;
    for (uint32_t o = 0; o < r->out_count; o++) {
        uint16_t root = root_of(l, g->edges[r->out[o]]);
        if (l->buffer_of[root] == MTR_NONE && !add_buffer(l, root, l->last[root]))
            return false;
        out->out[o] = l->buffer_of[root];
    }
    for (uint32_t i = 0; i < r->in_count; i++)
        out->in[i] = l->buffer_of[root_of(l, g->edges[r->in[i]])];
    uint16_t rows = r->out_count ? g->edges[r->out[0]] : g->edges[r->in[0]];
    out->rows = l->in->edges[rows].rows;
    fill_numbers(l, g, out);
    drop_dead(l, index);
    return fill_weights(l, g, out);
}

static bool same_cover(const struct mtr_cover *a, const struct mtr_cover *b)
{
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->groups[i].rule != b->groups[i].rule || a->groups[i].point != b->groups[i].point ||
            memcmp(a->groups[i].nodes, b->groups[i].nodes, sizeof a->groups[i].nodes) != 0)
            return false;
    return true;
}

/* Logits first: they keep the start of the arena, and later lists find them there. */
static bool place_logits(struct layout *l)
{
    uint16_t edge = l->in->logits;
    if (l->plan->logits == MTR_NONE) {
        if (!add_buffer(l, edge, UINT32_MAX))
            return false;
        l->plan->logits = l->buffer_of[edge];
        return true;
    }
    l->buffer_of[edge] = l->plan->logits;
    l->live_count = 1;
    return true;
}

static bool lay_out_list(struct layout *l, struct mtr_launch_list *list)
{
    struct mtr_launch *launches = mtr_arena_calloc(l->arena, l->cover->count, sizeof *launches);
    if (!launches)
        return mtr_fail(l->err, MTR_NO_MEMORY, "no memory for %u launches", l->cover->count);
    find_lives(l);
    if (!place_logits(l))
        return false;
    for (uint32_t i = 0; i < l->cover->count; i++)
        if (!make_launch(l, i, &launches[i]))
            return false;
    *list = (struct mtr_launch_list){l->cover->count, launches};
    return true;
}

static bool allocate(struct layout *l)
{
    size_t edges = l->in->edge_count, weights = l->in->weight_count;
    size_t uses = weights * l->hardware->family_count;
    l->buffers = mtr_arena_calloc(l->arena, MTR_MODE_COUNT * edges, sizeof *l->buffers);
    l->weights = mtr_arena_calloc(l->arena, 3 * weights + weights, sizeof *l->weights);
    l->weight_of = mtr_arena_calloc(l->arena, uses, sizeof *l->weight_of);
    l->root = mtr_arena_calloc(l->arena, edges, sizeof *l->root);
    l->buffer_of = mtr_arena_calloc(l->arena, edges, sizeof *l->buffer_of);
    l->last = mtr_arena_calloc(l->arena, edges, sizeof *l->last);
    if (mtr_arena_failed(l->arena))
        return mtr_fail(l->err, MTR_NO_MEMORY, "no memory to lay out the plan");
    memset(l->weight_of, 0xff, uses * sizeof *l->weight_of);
    return true;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* At most so many experts of each layer counted. What a table of the step is made of is in the
 * checkpoint, but was never trained. */
static uint64_t parameters(const struct mtr_instance *in, uint32_t experts)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < in->weight_count; i++)
        sum += in->weights[i].rows * in->weights[i].cols * least(in->weights[i].stack, experts);
    for (uint32_t n = 0; n < in->node_count; n++)
        for (uint32_t i = 0; in->nodes[n].op == MTR_OP_ROTARY && i < in->nodes[n].weight_count; i++)
            if (in->nodes[n].weights[i] != MTR_NONE)
                sum -= in->weights[in->nodes[n].weights[i]].cols;
    return sum;
}

/* The most experts that a token has anywhere. */
static uint32_t top_k(const struct mtr_instance *in)
{
    double most = 1;
    for (uint32_t n = 0; n < in->node_count; n++)
        for (uint32_t i = 0;
             in->nodes[n].op == MTR_OP_EXPERT_LINEAR && i < in->nodes[n].param_count; i++)
            if (in->nodes[n].params[i].name == MTR_P_TOP_K && in->nodes[n].params[i].value > most)
                most = in->nodes[n].params[i].value;
    return (uint32_t)most;
}

bool mtr_plan_lay_out(struct mtr_arena *arena, const struct mtr_instance *in,
                      const struct mtr_hardware *hardware,
                      const struct mtr_cover covers[MTR_MODE_COUNT], struct mtr_plan *plan,
                      struct mtr_error *err)
{
    struct layout l = {.arena = arena, .in = in, .hardware = hardware, .plan = plan, .err = err};
    plan->logits = MTR_NONE;
    plan->top_k = top_k(in);
    if (!allocate(&l))
        return false;
    for (uint32_t mode = 0; mode < MTR_MODE_COUNT; mode++) {
        l.cover = &covers[mode];
        if (mode > 0 && same_cover(&covers[mode], &covers[0]))
            plan->lists[mode] = plan->lists[0];
        else if (!lay_out_list(&l, &plan->lists[mode]))
            return false;
    }
    plan->buffers = l.buffers;
    plan->weights = l.weights;
    plan->group_count = in->group_count;
    plan->groups = in->groups;
    plan->cache_count = in->cache_count;
    plan->caches = in->caches;
    plan->state_count = in->state_count;
    plan->states = in->states;
    plan->constant_count = in->constant_count;
    plan->constants = in->constants;
    plan->parameters = parameters(in, UINT32_MAX);
    plan->active = parameters(in, plan->top_k);
    return true;
}
