/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Identifier tracking: see scope.h for the rules.
 *
 * A scope has one entry per name. `ids` says in which slot the name lives and is shared by the
 * copies of a scope; the states say what the scope knows about it so far. The branches of an `if`
 * are looked through with a copy of the states each, which are then merged.
 */
#include "broker/text/jinja/scope.h"

struct mtr_jident {
    struct mtr_str name;
    uint32_t slot;
};

struct mtr_jidents {
    struct mtr_jident *items;
    uint32_t count;
    uint32_t cap;
};

struct mtr_jstate {
    bool known; /* the scope has a variable of this name */
    bool stored;
    bool loaded; /* `action` applies on entry */
    uint8_t action;
    uint32_t global;
    const struct mtr_jfunc *from_func; /* ALIAS */
    uint32_t from_slot;
};

static void *alloc(struct mtr_jresolver *v, size_t count, size_t bytes)
{
    void *m = mtr_arena_calloc(v->arena, count ? count : 1, bytes);
    v->no_memory |= !m;
    return m;
}

struct mtr_jscope *mtr_jscope_new(struct mtr_jresolver *v, struct mtr_jscope *parent,
                                  struct mtr_jfunc *func)
{
    struct mtr_jscope *s = alloc(v, 1, sizeof *s);
    if (s)
        *s =
            (struct mtr_jscope){.parent = parent, .func = func, .ids = alloc(v, 1, sizeof *s->ids)};
    return s && s->ids ? s : NULL;
}

/* ---- entries ---- */

static uint32_t find_id(const struct mtr_jscope *s, struct mtr_str name)
{
    for (uint32_t i = 0; i < s->ids->count; i++) {
        if (mtr_str_equal(s->ids->items[i].name, name))
            return i;
    }
    return UINT32_MAX;
}

static struct mtr_jstate *known(struct mtr_jscope *s, struct mtr_str name)
{
    uint32_t i = find_id(s, name);
    return i < s->state_count && s->states[i].known ? &s->states[i] : NULL;
}

/* Makes the array of states as long as that of names. */
static bool extend(struct mtr_jresolver *v, struct mtr_jscope *s)
{
    if (s->state_count >= s->ids->cap)
        return true;
    struct mtr_jstate *grown = alloc(v, s->ids->cap, sizeof *grown);
    if (!grown)
        return false;
    if (s->state_count)
        memcpy(grown, s->states, s->state_count * sizeof *grown);
    s->states = grown;
    s->state_count = s->ids->cap;
    return true;
}

/* The entry of a name, made if need be; NULL when memory is out. */
static struct mtr_jstate *entry(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name,
                                uint32_t *slot)
{
    uint32_t i = find_id(s, name);
    if (i == UINT32_MAX) {
        if (s->ids->count == s->ids->cap) {
            uint32_t cap = s->ids->cap ? 2 * s->ids->cap : 8;
            struct mtr_jident *grown = alloc(v, cap, sizeof *grown);
            if (!grown)
                return NULL;
            if (s->ids->count)
                memcpy(grown, s->ids->items, s->ids->count * sizeof *grown);
            s->ids->items = grown;
            s->ids->cap = cap;
        }
        i = s->ids->count++;
        s->ids->items[i] = (struct mtr_jident){name, s->func->slots++};
    }
    if (!extend(v, s))
        return NULL;
    if (slot)
        *slot = s->ids->items[i].slot;
    return &s->states[i];
}

/* The nearest scope from s outwards that has a variable of this name. */
static struct mtr_jscope *find(struct mtr_jscope *s, struct mtr_str name)
{
    while (s && !known(s, name))
        s = s->parent;
    return s;
}

static void set_alias(struct mtr_jstate *state, struct mtr_jscope *outer, struct mtr_str name)
{
    state->loaded = true;
    state->action = MTR_JLOAD_ALIAS;
    state->from_func = outer->func;
    state->from_slot = outer->ids->items[find_id(outer, name)].slot;
}

static uint32_t global_read(struct mtr_jresolver *v, struct mtr_str name)
{
    uint32_t i = mtr_jscope_global(v, name);
    if (i < v->t->name_count)
        v->t->names[i].read = true;
    return i;
}

static void set_action(struct mtr_jstate *state, uint8_t action, uint32_t global)
{
    state->loaded = true;
    state->action = action;
    state->global = global;
}

uint32_t mtr_jscope_global(struct mtr_jresolver *v, struct mtr_str name)
{
    struct mtr_jinja *t = v->t;
    for (uint32_t i = 0; i < t->name_count; i++) {
        if (mtr_str_equal(t->names[i].text, name))
            return i;
    }
    if (t->name_count == v->name_cap) {
        uint32_t cap = v->name_cap ? 2 * v->name_cap : 16;
        struct mtr_jname *grown = alloc(v, cap, sizeof *grown);
        if (!grown)
            return 0;
        if (t->name_count)
            memcpy(grown, t->names, t->name_count * sizeof *grown);
        t->names = grown;
        v->name_cap = cap;
    }
    t->names[t->name_count].text = name;
    return t->name_count++;
}

void mtr_jscope_load(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name)
{
    if (find(s, name))
        return;
    struct mtr_jstate *state = entry(v, s, name, NULL);
    if (!state)
        return;
    state->known = true;
    set_action(state, MTR_JLOAD_RESOLVE, global_read(v, name));
}

void mtr_jscope_store(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name)
{
    struct mtr_jstate *state = entry(v, s, name, NULL);
    if (!state)
        return;
    state->stored = true;
    if (state->known)
        return;
    struct mtr_jscope *outer = find(s->parent, name);
    state->known = true;
    if (outer)
        set_alias(state, outer, name);
    else
        set_action(state, MTR_JLOAD_UNDEFINED, 0);
}

uint32_t mtr_jscope_param(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_str name)
{
    uint32_t slot = 0;
    struct mtr_jstate *state = entry(v, s, name, &slot);
    if (state) {
        state->stored = state->known = true;
        set_action(state, MTR_JLOAD_PARAMETER, 0);
    }
    return slot;
}

/* ---- looking through ---- */

static struct mtr_jscope *copy(struct mtr_jresolver *v, const struct mtr_jscope *s)
{
    struct mtr_jscope *c = alloc(v, 1, sizeof *c);
    if (!c)
        return NULL;
    *c = *s;
    c->states = alloc(v, s->state_count, sizeof *c->states);
    if (c->states && s->state_count)
        memcpy(c->states, s->states, s->state_count * sizeof *c->states);
    return c->states ? c : NULL;
}

/* What branches learned becomes what the scope knows. */
static void merge(struct mtr_jresolver *v, struct mtr_jscope *s, struct mtr_jscope *branches[3])
{
    if (!extend(v, s))
        return;
    uint32_t count = s->ids->count;
    for (uint32_t i = 0; i < count; i++) {
        struct mtr_jstate *state = &s->states[i];
        bool stored_before = state->stored;
        for (unsigned b = 0; b < 3; b++) {
            if (i >= branches[b]->state_count || !branches[b]->states[i].known)
                continue;
            bool stored = state->stored || branches[b]->states[i].stored;
            *state = branches[b]->states[i];
            state->stored = stored;
        }
        if (!state->stored || stored_before)
            continue;
        struct mtr_str name = s->ids->items[i].name;
        struct mtr_jscope *outer = find(s->parent, name);
        if (outer)
            set_alias(state, outer, name);
        else
            set_action(state, MTR_JLOAD_RESOLVE, global_read(v, name));
    }
}

static void look_if(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n)
{
    mtr_jscope_look(v, s, n->cond_stmt.test);
    const struct mtr_jnodes *bodies[3] = {&n->cond_stmt.body, &n->cond_stmt.elifs,
                                          &n->cond_stmt.otherwise};
    struct mtr_jscope *branches[3];
    for (unsigned b = 0; b < 3; b++) {
        branches[b] = copy(v, s);
        if (!branches[b])
            return;
        mtr_jscope_look_all(v, branches[b], bodies[b]);
    }
    merge(v, s, branches);
}

static void look_args(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jargs *a)
{
    mtr_jscope_look_all(v, s, &a->pos);
    for (uint32_t i = 0; i < a->kw_count; i++)
        mtr_jscope_look(v, s, a->kw[i].value);
    mtr_jscope_look(v, s, a->star);
    mtr_jscope_look(v, s, a->star_star);
}

static void look_name(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n)
{
    if (n->kind == MTR_JN_NSREF || n->ctx == MTR_JCTX_LOAD)
        mtr_jscope_load(v, s, n->name.id);
    else if (n->ctx == MTR_JCTX_PARAM)
        mtr_jscope_param(v, s, n->name.id);
    else
        mtr_jscope_store(v, s, n->name.id);
}

static void look_expression(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n)
{
    switch (n->kind) {
    case MTR_JN_NAME:
    case MTR_JN_NSREF:
        look_name(v, s, n);
        break;
    case MTR_JN_TUPLE:
    case MTR_JN_LIST:
    case MTR_JN_DICT:
    case MTR_JN_CONCAT:
    case MTR_JN_OUTPUT:
        mtr_jscope_look_all(v, s, &n->list);
        break;
    case MTR_JN_COND:
        mtr_jscope_look(v, s, n->cond.test);
        mtr_jscope_look(v, s, n->cond.yes);
        mtr_jscope_look(v, s, n->cond.no);
        break;
    case MTR_JN_COMPARE:
        mtr_jscope_look(v, s, n->compare.first);
        for (uint32_t i = 0; i < n->compare.count; i++)
            mtr_jscope_look(v, s, n->compare.ops[i].value);
        break;
    case MTR_JN_GETATTR:
        mtr_jscope_look(v, s, n->getattr.object);
        break;
    case MTR_JN_GETITEM:
        mtr_jscope_look(v, s, n->getitem.object);
        mtr_jscope_look(v, s, n->getitem.key);
        break;
    case MTR_JN_SLICE:
        mtr_jscope_look(v, s, n->slice.start);
        mtr_jscope_look(v, s, n->slice.stop);
        mtr_jscope_look(v, s, n->slice.step);
        break;
    case MTR_JN_CALL:
        mtr_jscope_look(v, s, n->call.callee);
        look_args(v, s, n->call.args);
        break;
    case MTR_JN_FILTER:
    case MTR_JN_TEST:
        mtr_jscope_look(v, s, n->filter.value);
        look_args(v, s, n->filter.args);
        break;
    case MTR_JN_OR:
    case MTR_JN_AND:
    case MTR_JN_NOT:
    case MTR_JN_BINARY:
    case MTR_JN_UNARY:
        mtr_jscope_look(v, s, n->binary.left);
        mtr_jscope_look(v, s, n->binary.right);
        break;
    default:
        break;
    }
}

void mtr_jscope_look(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n)
{
    if (!n || v->no_memory)
        return;
    switch (n->kind) {
    case MTR_JN_IF:
        look_if(v, s, n);
        break;
    case MTR_JN_FOR:
        mtr_jscope_look(v, s, n->loop->iter);
        break;
    case MTR_JN_SET:
        mtr_jscope_look(v, s, n->set.value);
        mtr_jscope_look(v, s, n->set.target);
        break;
    case MTR_JN_SET_BLOCK:
        mtr_jscope_look(v, s, n->set_block.target);
        break;
    case MTR_JN_MACRO:
        mtr_jscope_store(v, s, n->macro.target->name.id);
        break;
    case MTR_JN_CALL_BLOCK:
        mtr_jscope_look(v, s, n->macro.call);
        break;
    case MTR_JN_FILTER_BLOCK:
        mtr_jscope_look(v, s, n->filter_block.filter);
        break;
    case MTR_JN_WITH:
        mtr_jscope_look_all(v, s, &n->with.values);
        break;
    case MTR_JN_REFUSED:
        mtr_jscope_look(v, s, n->refused.template);
        mtr_jscope_look_all(v, s, &n->refused.names);
        break;
    default: /* expressions; other statements are scopes and looked through on their own */
        look_expression(v, s, n);
    }
}

void mtr_jscope_look_all(struct mtr_jresolver *v, struct mtr_jscope *s,
                         const struct mtr_jnodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        mtr_jscope_look(v, s, nodes->items[i]);
}

void mtr_jscope_look_params(struct mtr_jresolver *v, struct mtr_jscope *s, const struct mtr_jn *n)
{
    if (n->kind == MTR_JN_NAME)
        mtr_jscope_param(v, s, n->name.id);
    for (uint32_t i = 0; n->kind == MTR_JN_TUPLE && i < n->list.count; i++)
        mtr_jscope_look_params(v, s, n->list.items[i]);
}

/* ---- results ---- */

bool mtr_jscope_place(struct mtr_jscope *s, const struct mtr_jfunc *func, struct mtr_str name,
                      struct mtr_jplace *out)
{
    s = find(s, name);
    if (!s)
        return false;
    out->slot = s->ids->items[find_id(s, name)].slot;
    out->hops = (uint16_t)(func->depth - s->func->depth);
    return true;
}

struct mtr_jscope_code mtr_jscope_code(struct mtr_jresolver *v, const struct mtr_jscope *s)
{
    struct mtr_jscope_code c = {.loads = alloc(v, s->state_count, sizeof *c.loads)};
    for (uint32_t i = 0; c.loads && i < s->ids->count && i < s->state_count; i++) {
        const struct mtr_jstate *state = &s->states[i];
        if (!state->known || !state->loaded)
            continue;
        struct mtr_jload_entry *e = &c.loads[c.count++];
        e->action = state->action;
        e->slot = s->ids->items[i].slot;
        e->global = state->global;
        if (state->action == MTR_JLOAD_ALIAS)
            e->from =
                (struct mtr_jplace){.slot = state->from_slot,
                                    .hops = (uint16_t)(s->func->depth - state->from_func->depth)};
    }
    return c;
}

/* ---- names read before they are set ---- */

struct undeclared {
    const char *const *names;
    unsigned watched; /* bits */
    unsigned found;
};

static void watch(struct undeclared *u, const struct mtr_jn *n);

static void watch_all(struct undeclared *u, const struct mtr_jnodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        watch(u, nodes->items[i]);
}

static void watch_args(struct undeclared *u, const struct mtr_jargs *a)
{
    watch_all(u, &a->pos);
    for (uint32_t i = 0; i < a->kw_count; i++)
        watch(u, a->kw[i].value);
    watch(u, a->star);
    watch(u, a->star_star);
}

static void watch_name(struct undeclared *u, const struct mtr_jn *n)
{
    for (unsigned i = 0; i < 3 && u->names[i]; i++) {
        if (!(u->watched >> i & 1) || !mtr_str_is(n->name.id, u->names[i]))
            continue;
        if (n->ctx == MTR_JCTX_LOAD)
            u->found |= 1u << i;
        else
            u->watched &= ~(1u << i);
    }
}

static void watch_macro(struct undeclared *u, const struct mtr_jmacro_def *d)
{
    watch_all(u, &(struct mtr_jnodes){d->args, d->arg_count});
    watch_all(u, &(struct mtr_jnodes){d->defaults, d->default_count});
    watch_all(u, &d->body);
}

static void watch_expression(struct undeclared *u, const struct mtr_jn *n)
{
    switch (n->kind) {
    case MTR_JN_NAME:
        watch_name(u, n);
        break;
    case MTR_JN_TUPLE:
    case MTR_JN_LIST:
    case MTR_JN_DICT:
    case MTR_JN_CONCAT:
    case MTR_JN_OUTPUT:
        watch_all(u, &n->list);
        break;
    case MTR_JN_COND:
        watch(u, n->cond.test);
        watch(u, n->cond.yes);
        watch(u, n->cond.no);
        break;
    case MTR_JN_COMPARE:
        watch(u, n->compare.first);
        for (uint32_t i = 0; i < n->compare.count; i++)
            watch(u, n->compare.ops[i].value);
        break;
    case MTR_JN_GETATTR:
        watch(u, n->getattr.object);
        break;
    case MTR_JN_GETITEM:
        watch(u, n->getitem.object);
        watch(u, n->getitem.key);
        break;
    case MTR_JN_SLICE:
        watch(u, n->slice.start);
        watch(u, n->slice.stop);
        watch(u, n->slice.step);
        break;
    case MTR_JN_CALL:
        watch(u, n->call.callee);
        watch_args(u, n->call.args);
        break;
    case MTR_JN_FILTER:
    case MTR_JN_TEST:
        watch(u, n->filter.value);
        watch_args(u, n->filter.args);
        break;
    case MTR_JN_OR:
    case MTR_JN_AND:
    case MTR_JN_NOT:
    case MTR_JN_BINARY:
    case MTR_JN_UNARY:
        watch(u, n->binary.left);
        watch(u, n->binary.right);
        break;
    default:
        break;
    }
}

/* In the order of the fields of jinja2's nodes, which decides what counts as "before". */
static void watch(struct undeclared *u, const struct mtr_jn *n)
{
    if (!n)
        return;
    switch (n->kind) {
    case MTR_JN_IF:
        watch(u, n->cond_stmt.test);
        watch_all(u, &n->cond_stmt.body);
        watch_all(u, &n->cond_stmt.elifs);
        watch_all(u, &n->cond_stmt.otherwise);
        break;
    case MTR_JN_FOR:
        watch(u, n->loop->target);
        watch(u, n->loop->iter);
        watch_all(u, &n->loop->body);
        watch_all(u, &n->loop->otherwise);
        watch(u, n->loop->test);
        break;
    case MTR_JN_SET:
        watch(u, n->set.target);
        watch(u, n->set.value);
        break;
    case MTR_JN_SET_BLOCK:
        watch(u, n->set_block.target);
        watch(u, n->set_block.filter);
        watch_all(u, &n->set_block.body);
        break;
    case MTR_JN_CALL_BLOCK:
        watch(u, n->macro.call);
        watch_macro(u, n->macro.def);
        break;
    case MTR_JN_MACRO:
    case MTR_JN_GENERATION:
        watch_macro(u, n->macro.def);
        break;
    case MTR_JN_FILTER_BLOCK:
        watch_all(u, &n->filter_block.body);
        watch(u, n->filter_block.filter);
        break;
    case MTR_JN_WITH:
    case MTR_JN_SCOPE:
        watch_all(u, &n->with.targets);
        watch_all(u, &n->with.values);
        watch_all(u, &n->with.body);
        break;
    case MTR_JN_REFUSED:
        watch(u, n->refused.template);
        break;
    default: /* a block is not looked into */
        watch_expression(u, n);
    }
}

unsigned mtr_jundeclared(const struct mtr_jnodes *nodes, const char *const names[3])
{
    struct undeclared u = {.names = names, .watched = 7};
    watch_all(&u, nodes);
    return u.found;
}
