/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A circuit at one shape.
 *
 * Blocks are walked in execution order. An environment holds, for each edge name of the circuit,
 * the edge that the name stands for now; a node reads the environment, gets fresh edges for its
 * outputs, and binds their names to them. Dimensions and parameters are expressions over the
 * settings' symbols, with the renames of the layer's kind on top. Weights are looked up in the
 * checkpoint's tensor list as they are bound, so that shape and format are known from here on; a
 * tensor that is missing or misshaped ends the walk with its name.
 *
 * Arrays are sized in a first walk that only counts, so nothing here grows.
 */
#include <stdio.h>
#include <string.h>

#include "common/circuit/binding.h"
#include "common/circuit/compile.h"
#include "common/circuit/config_map.h"
#include "common/circuit/rope.h"
#include "common/circuit/rules.h"

#define MAX_COLS 0x7fffffffu

struct builder {
    struct mtr_arena *arena;
    const struct mtr_model_source *source;
    const struct mtr_settings *settings;
    const struct mtr_circuit *circuit;
    const struct mtr_hardware *hardware;
    enum mtr_format cache;
    uint32_t block_tokens;
    struct mtr_instance *out;
    struct mtr_symbols symbols; /* of the layer at hand */
    uint16_t layer;             /* MTR_NONE outside layers */
    uint16_t *env;              /* [circuit->edge_count] edges */
    uint16_t *roles;  /* [circuit->weight_count] weights bound in this layer, or MTR_NONE */
    uint16_t *biases; /* [circuit->weight_count] and their biases */
    uint16_t *caches, *states, *tables; /* [circuit->..._count] of this layer, or MTR_NONE */
    struct mtr_error *err;
};

static void forget(uint16_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        list[i] = MTR_NONE;
}

static uint16_t *none_list(struct mtr_arena *arena, uint32_t count)
{
    uint16_t *list = mtr_arena_calloc(arena, count + 1, sizeof *list);
    if (list)
        forget(list, count);
    return list;
}

/* "L3.attn_q" */
static const char *label(struct builder *b, const char *name)
{
    if (b->layer == MTR_NONE)
        return name;
    return mtr_arena_printf(b->arena, "L%u.%s", b->layer, name);
}

static bool integer(struct builder *b, const struct mtr_expr *e, uint64_t min, uint64_t max,
                    uint64_t *out)
{
    return mtr_expr_integer(e, &b->symbols, min, max, out, b->err);
}

static bool add_edge(struct builder *b, uint16_t def, uint16_t *out)
{
    const struct mtr_edge_def *d = &b->circuit->edges[def];
    uint64_t cols;
    if (!integer(b, &d->cols, 1, MAX_COLS, &cols))
        return false;
    struct mtr_edge *e = &b->out->edges[b->out->edge_count];
    e->name = label(b, d->name);
    e->rows = d->rows;
    e->cols = (uint32_t)cols;
    e->format = d->format == MTR_FORMAT_COUNT ? b->hardware->activations : d->format;
    *out = b->env[def] = (uint16_t)b->out->edge_count++;
    return true;
}

/* Its matrix may be quantized with scales in tensors of their own. */
static bool is_matrix(enum mtr_op op)
{
    return op == MTR_OP_LINEAR || op == MTR_OP_EXPERT_LINEAR || op == MTR_OP_LATENT_QUERY ||
           op == MTR_OP_LATENT_VALUE;
}

/* One binding of a slot: a tensor that was bound before in this layer, or a new one. */
static bool bind(struct builder *b, const struct mtr_node_def *node,
                 const struct mtr_binding_def *slot, uint16_t *out)
{
    *out = MTR_NONE;
    bool wanted;
    if (slot->weight == MTR_NONE)
        return true;
    if (!mtr_expr_true(&slot->when, &b->symbols, &wanted, b->err))
        return false;
    if (!wanted)
        return true;
    const struct mtr_weight_def *def = &b->circuit->weights[slot->weight];
    uint16_t *known = slot->bias ? &b->biases[slot->weight] : &b->roles[slot->weight];
    if (*known == MTR_NONE) {
        uint64_t rows = 1, cols, stack = 1;
        if (!integer(b, &def->cols, 1, MAX_COLS, &cols) ||
            (def->stack.text && !integer(b, &def->stack, 1, MAX_COLS, &stack)) ||
            (def->rows.text && !integer(b, &def->rows, 1, MAX_COLS, &rows)))
            return false;
        struct mtr_binding want = {
            .def = def,
            .layer = b->layer,
            .bias = slot->bias,
            .rows = slot->bias ? 1 : rows,
            .cols = slot->bias ? rows : cols,
            .stack = (uint32_t)stack,
            .linear = is_matrix(node->op),
            .conv = node->op == MTR_OP_CONV1D && !b->source->gguf,
        };
        struct mtr_instance_weight *w = &b->out->weights[b->out->weight_count];
        if (!mtr_bind(b->arena, b->source, b->settings, &want, w, b->err))
            return false;
        *known = (uint16_t)b->out->weight_count++;
    }
    *out = *known;
    return true;
}

static bool same_group(const struct mtr_cache_group *g, const struct mtr_cache_group *want)
{
    return g->kind == want->kind && g->window == want->window && g->kv_heads == want->kv_heads &&
           g->head_dim == want->head_dim && strcmp(g->name, want->name) == 0;
}

/* The layer's share of a cache group, made at its first use. */
static bool use_cache(struct builder *b, uint16_t def, uint16_t *out)
{
    const struct mtr_cache_def *d = &b->circuit->caches[def];
    uint64_t heads, dim, window, bytes;
    if (b->caches[def] != MTR_NONE) {
        *out = b->caches[def];
        return true;
    }
    if (!integer(b, &d->kv_heads, 1, 65536, &heads) || !integer(b, &d->head_dim, 1, 65536, &dim) ||
        !integer(b, &d->window, 0, MAX_COLS, &window))
        return false;
    struct mtr_cache_group want = {d->name,          d->kind,         b->cache,
                                   (uint32_t)window, b->block_tokens, 0,
                                   (uint32_t)heads,  (uint32_t)dim,   0};
    bool pair = d->kind == MTR_CACHE_FULL || d->kind == MTR_CACHE_SLIDING;
    if (!mtr_format_row_bytes(b->cache, dim, &bytes))
        return mtr_fail(b->err, MTR_UNSUPPORTED, "a cache of %s needs another head width than %llu",
                        mtr_format_info(b->cache)->name, (unsigned long long)dim);
    want.block_bytes = bytes * heads * b->block_tokens * (pair ? 2 : 1);
    uint32_t g = 0;
    while (g < b->out->group_count && !same_group(&b->out->groups[g], &want))
        g++;
    if (g == MTR_PLAN_GROUPS)
        return mtr_fail(b->err, MTR_UNSUPPORTED, "more than %u cache groups", MTR_PLAN_GROUPS);
    if (g == b->out->group_count)
        b->out->groups[b->out->group_count++] = want;
    b->out->caches[b->out->cache_count] =
        (struct mtr_plan_cache){(uint16_t)g, (uint16_t)b->out->groups[g].layers++};
    *out = b->caches[def] = (uint16_t)b->out->cache_count++;
    return true;
}

static bool use_state(struct builder *b, uint16_t def, uint16_t *out)
{
    const struct mtr_state_def *d = &b->circuit->states[def];
    uint64_t bytes;
    if (b->states[def] == MTR_NONE) {
        if (!integer(b, &d->bytes, 1, MAX_COLS, &bytes))
            return false;
        b->out->states[b->out->state_count] = (struct mtr_plan_state){d->kind, b->layer, bytes};
        b->states[def] = (uint16_t)b->out->state_count++;
    }
    *out = b->states[def];
    return true;
}

/* Tables are made once for the whole model: they stay bound across layers. */
static bool use_table(struct builder *b, uint16_t def, uint16_t *out)
{
    const struct mtr_table_def *d = &b->circuit->tables[def];
    if (b->tables[def] == MTR_NONE) {
        uint32_t pairs = (uint32_t)mtr_symbol_get(&b->symbols, "rotary_dim", 0) / 2;
        const float *values = mtr_rope_frequencies(b->arena, &b->symbols, d->prefix, pairs);
        if (!values)
            return mtr_fail(b->err, MTR_NO_MEMORY, "no memory for %u frequencies", pairs);
        b->out->constants[b->out->constant_count] =
            (struct mtr_plan_constant){d->name, pairs, values};
        b->tables[def] = (uint16_t)b->out->constant_count++;
    }
    *out = b->tables[def];
    return true;
}

static bool use_memory(struct builder *b, const struct mtr_node_def *d, struct mtr_node *n)
{
    n->cache = n->state = n->constant = MTR_NONE;
    switch (mtr_op_info(d->op)->memory) {
    case MTR_MEM_CACHE:
        return use_cache(b, d->memory, &n->cache);
    case MTR_MEM_STATE:
        return use_state(b, d->memory, &n->state);
    case MTR_MEM_CONSTANT:
        return use_table(b, d->memory, &n->constant);
    case MTR_MEM_NONE:
        break;
    }
    return true;
}

/* A linear's matrix must join its edges: a mistake in a circuit, not in a checkpoint. */
static bool check_linear(struct builder *b, const struct mtr_node *n)
{
    if (n->op != MTR_OP_LINEAR && n->op != MTR_OP_EXPERT_LINEAR)
        return true;
    const struct mtr_instance_weight *w = &b->out->weights[n->weights[0]];
    const struct mtr_edge *x = &b->out->edges[n->in[0]], *y = &b->out->edges[n->out[0]];
    if (w->cols == x->cols && w->rows == y->cols)
        return true;
    return mtr_fail(b->err, MTR_INTERNAL,
                    "circuit %s: %s joins edges of %u and %u by a matrix [%llu, %llu]",
                    b->circuit->name, n->name, x->cols, y->cols, (unsigned long long)w->rows,
                    (unsigned long long)w->cols);
}

static bool add_node(struct builder *b, const struct mtr_node_def *d)
{
    bool wanted;
    if (!mtr_expr_true(&d->when, &b->symbols, &wanted, b->err))
        return false;
    if (!wanted)
        return true;
    struct mtr_node *n = &b->out->nodes[b->out->node_count];
    n->op = d->op;
    n->name = label(b, d->name);
    n->role = d->role;
    n->layer = b->layer;
    n->in_count = d->in_count;
    n->out_count = d->out_count;
    n->weight_count = d->binding_count;
    n->param_count = d->param_count;
    for (uint32_t i = 0; i < d->in_count; i++)
        n->in[i] = d->in[i] == MTR_NONE ? MTR_NONE : b->env[d->in[i]];
    for (uint32_t i = 0; i < d->binding_count; i++)
        if (!bind(b, d, &d->bindings[i], &n->weights[i]))
            return false;
    for (uint32_t i = 0; i < d->param_count; i++) {
        n->params[i].name = d->params[i].name;
        if (!mtr_expr_eval(&d->params[i].value, &b->symbols, &n->params[i].value, b->err))
            return false;
    }
    for (uint32_t i = 0; i < d->out_count; i++)
        if (!add_edge(b, d->out[i], &n->out[i]))
            return false;
    b->out->node_count++;
    return use_memory(b, d, n) && check_linear(b, n);
}

static bool add_block(struct builder *b, uint16_t block)
{
    const struct mtr_block_def *d = &b->circuit->blocks[block];
    for (uint32_t i = 0; i < d->node_count; i++)
        if (!add_node(b, &d->nodes[i]))
            return false;
    return true;
}

static bool add_blocks(struct builder *b, const uint16_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!add_block(b, blocks[i]))
            return false;
    return true;
}

static bool add_kind(struct builder *b, const struct mtr_kind_def *kind)
{
    for (uint32_t i = 0; i < kind->block_count; i++) {
        bool wanted;
        if (!mtr_expr_true(&kind->blocks[i].when, &b->symbols, &wanted, b->err) ||
            (wanted && !add_block(b, kind->blocks[i].block)))
            return false;
    }
    return true;
}

/* The symbols of a layer: the model's, its number, the lists that have it, its kind's renames. */
static bool take_symbols(struct builder *b, uint32_t layer, const struct mtr_kind_def *kind)
{
    struct mtr_symbols numbered = b->settings->symbols;
    mtr_symbol_set(&numbered, "layer", layer);
    for (uint32_t i = 0; i < b->settings->member_count; i++) {
        const struct mtr_layer_members *m = &b->settings->members[i];
        numbered.values[m->symbol] = m->has[layer];
        numbered.known[m->symbol] = true;
    }
    b->symbols = numbered;
    for (uint32_t i = 0; i < kind->rename_count; i++) {
        const struct mtr_rename_def *r = &kind->renames[i];
        if (!mtr_expr_eval(&r->value, &numbered, &b->symbols.values[r->symbol], b->err))
            return false;
        b->symbols.known[r->symbol] = true;
    }
    return true;
}

/* Weights bound outside layers (the embedding) stay bound: a tied head finds them again. */
static bool add_layer(struct builder *b, uint32_t layer)
{
    const struct mtr_kind_def *kind = &b->circuit->kinds[b->settings->kinds[layer]];
    uint32_t weights = b->circuit->weight_count;
    b->layer = (uint16_t)layer;
    if (!take_symbols(b, layer, kind))
        return false;
    uint16_t *outer_roles = b->roles, *outer_biases = b->biases;
    b->roles = none_list(b->arena, weights);
    b->biases = none_list(b->arena, weights);
    if (!b->roles || !b->biases)
        return mtr_fail(b->err, MTR_NO_MEMORY, "no memory for layer %u", layer);
    forget(b->caches, b->circuit->cache_count);
    forget(b->states, b->circuit->state_count);
    bool good = add_kind(b, kind);
    b->roles = outer_roles;
    b->biases = outer_biases;
    return good;
}

static bool walk(struct builder *b)
{
    const struct mtr_circuit *c = b->circuit;
    b->layer = MTR_NONE;
    b->symbols = b->settings->symbols;
    if (!add_blocks(b, c->pre, c->pre_count))
        return false;
    for (uint32_t i = 0; i < b->settings->layers; i++)
        if (!add_layer(b, i))
            return false;
    b->layer = MTR_NONE;
    b->symbols = b->settings->symbols;
    return add_blocks(b, c->post, c->post_count);
}

/* Upper bounds: every node of every block present. */
struct counts {
    uint32_t nodes, edges, weights;
};

static void count_block(const struct mtr_circuit *c, uint16_t block, struct counts *n)
{
    const struct mtr_block_def *d = &c->blocks[block];
    for (uint32_t i = 0; i < d->node_count; i++) {
        n->nodes++;
        n->edges += d->nodes[i].out_count;
        n->weights += d->nodes[i].binding_count;
    }
}

static bool allocate(struct builder *b)
{
    const struct mtr_circuit *c = b->circuit;
    struct mtr_instance *o = b->out;
    struct counts n = {0};
    for (uint32_t i = 0; i < c->pre_count; i++)
        count_block(c, c->pre[i], &n);
    for (uint32_t i = 0; i < b->settings->layers; i++) {
        const struct mtr_kind_def *k = &c->kinds[b->settings->kinds[i]];
        for (uint32_t j = 0; j < k->block_count; j++)
            count_block(c, k->blocks[j].block, &n);
    }
    for (uint32_t i = 0; i < c->post_count; i++)
        count_block(c, c->post[i], &n);
    if (n.nodes > MTR_MAX_NODES || n.edges > MTR_MAX_NODES || n.weights > MTR_MAX_NODES)
        return mtr_fail(b->err, MTR_TOO_LARGE,
                        "%u nodes and %u tensors; at most %u each are planned", n.nodes, n.weights,
                        MTR_MAX_NODES);
    o->nodes = mtr_arena_calloc(b->arena, n.nodes, sizeof *o->nodes);
    o->edges = mtr_arena_calloc(b->arena, n.edges, sizeof *o->edges);
    o->weights = mtr_arena_calloc(b->arena, n.weights, sizeof *o->weights);
    o->groups = mtr_arena_calloc(b->arena, MTR_PLAN_GROUPS, sizeof *o->groups);
    o->caches = mtr_arena_calloc(b->arena, n.nodes, sizeof *o->caches);
    o->states = mtr_arena_calloc(b->arena, n.nodes, sizeof *o->states);
    o->constants = mtr_arena_calloc(b->arena, c->table_count + 1, sizeof *o->constants);
    b->env = none_list(b->arena, c->edge_count);
    b->roles = none_list(b->arena, c->weight_count);
    b->biases = none_list(b->arena, c->weight_count);
    b->caches = none_list(b->arena, c->cache_count);
    b->states = none_list(b->arena, c->state_count);
    b->tables = none_list(b->arena, c->table_count);
    return !mtr_arena_failed(b->arena) ||
           mtr_fail(b->err, MTR_NO_MEMORY, "no memory for the circuit");
}

static bool find_logits(struct builder *b)
{
    for (uint32_t i = 0; i < b->circuit->edge_count; i++)
        if (strcmp(b->circuit->edges[i].name, b->circuit->logits) == 0)
            b->out->logits = b->env[i];
    return b->out->logits != MTR_NONE ||
           mtr_fail(b->err, MTR_INTERNAL, "circuit %s has no logits", b->circuit->name);
}

bool mtr_instantiate(struct mtr_arena *arena, const struct mtr_model_source *source,
                     const struct mtr_settings *settings, const struct mtr_hardware *hardware,
                     const struct mtr_plan_options *options, struct mtr_instance *out,
                     struct mtr_error *err)
{
    memset(out, 0, sizeof *out);
    struct builder b = {
        .arena = arena,
        .source = source,
        .settings = settings,
        .circuit = settings->map->circuit,
        .hardware = hardware,
        .cache = options->cache == MTR_FORMAT_COUNT ? hardware->default_cache : options->cache,
        .block_tokens = options->block_tokens ? options->block_tokens : MTR_DEFAULT_BLOCK_TOKENS,
        .out = out,
        .err = err,
    };
    out->circuit = b.circuit->name;
    out->layers = settings->layers;
    out->vocab = (uint32_t)mtr_symbol_get(&settings->symbols, "vocab", 0);
    out->hidden = (uint32_t)mtr_symbol_get(&settings->symbols, "hidden", 0);
    out->context = (uint32_t)mtr_symbol_get(&settings->symbols, "context", 0);
    out->logits = MTR_NONE;
    return allocate(&b) && walk(&b) && find_logits(&b) &&
           (!mtr_arena_failed(arena) || mtr_fail(err, MTR_NO_MEMORY, "no memory for the circuit"));
}
