/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The second pass over the tree, as jinja2's code generator makes it: every scope is looked through
 * (scope.c), every name gets its place, filters and tests are found, and what jinja2 or Python's
 * own compiler would refuse is refused.
 */
#include "broker/text/jinja/scope.h"

#include "broker/text/jinja/run.h"

/* What stands around a statement. */
struct frame {
    struct mtr_jscope *scope;
    struct mtr_jfunc *func;
    bool toplevel; /* root, and `if` in it */
    bool soft;     /* inside an `if`: an unknown filter fails only when it runs */
    bool in_loop;  /* break and continue have something to act on */
};

#define NO_SLOT UINT32_MAX

static bool gen(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n);

static bool gen_all(struct mtr_jresolver *v, const struct frame *f, const struct mtr_jnodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (!gen(v, f, nodes->items[i]))
            return false;
    }
    return true;
}

static bool no_memory(struct mtr_jresolver *v)
{
    return mtr_fail(v->err, MTR_NO_MEMORY, "no memory for a template");
}

/* A scope inside a frame, in the same function. */
static bool inner(struct mtr_jresolver *v, const struct frame *f, struct frame *out)
{
    *out = (struct frame){.func = f->func, .in_loop = f->in_loop};
    out->scope = mtr_jscope_new(v, f->scope, f->func);
    return out->scope || no_memory(v);
}

/* A scope inside a frame, in a function of its own. */
static bool inner_function(struct mtr_jresolver *v, const struct frame *f, struct frame *out)
{
    struct mtr_jfunc *func = mtr_arena_calloc(v->arena, 1, sizeof *func);
    if (!func)
        return no_memory(v);
    func->up = f->func;
    func->depth = f->func ? f->func->depth + 1 : 0;
    *out = (struct frame){.func = func};
    out->scope = mtr_jscope_new(v, f->scope, func);
    return out->scope || no_memory(v);
}

/* ---- expressions ---- */

static bool gen_name(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    if (!mtr_jscope_place(f->scope, f->func, n->name.id, &n->name.place))
        return mtr_fail(v->err, MTR_INVALID, "line %u: the name '%.*s' is not known here", n->line,
                        MTR_STR_ARG(n->name.id));
    if (n->kind == MTR_JN_NAME && n->ctx == MTR_JCTX_STORE && f->toplevel)
        n->name.export = mtr_jscope_global(v, n->name.id) + 1;
    return true;
}

static bool gen_args(struct mtr_jresolver *v, const struct frame *f, struct mtr_jargs *a)
{
    if (!gen_all(v, f, &a->pos))
        return false;
    for (uint32_t i = 0; i < a->kw_count; i++) {
        if (!gen(v, f, a->kw[i].value))
            return false;
    }
    return gen(v, f, a->star) && gen(v, f, a->star_star);
}

static bool gen_filter(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    bool test = n->kind == MTR_JN_TEST;
    n->filter.index = test ? mtr_jtest_find(n->filter.name) : mtr_jfilter_find(n->filter.name);
    if (n->filter.index == SIZE_MAX && !f->soft)
        return mtr_fail(v->err, MTR_INVALID, "line %u: no %s named '%.*s'", n->line,
                        test ? "test" : "filter", MTR_STR_ARG(n->filter.name));
    return gen(v, f, n->filter.value) && gen_args(v, f, n->filter.args);
}

static bool gen_compare(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    if (!gen(v, f, n->compare.first))
        return false;
    for (uint32_t i = 0; i < n->compare.count; i++) {
        if (!gen(v, f, n->compare.ops[i].value))
            return false;
    }
    return true;
}

static bool gen_expression(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    struct frame soft = *f;
    soft.soft = true;
    switch (n->kind) {
    case MTR_JN_NAME:
    case MTR_JN_NSREF:
        return gen_name(v, f, n);
    case MTR_JN_TUPLE:
    case MTR_JN_LIST:
    case MTR_JN_DICT:
    case MTR_JN_CONCAT:
    case MTR_JN_OUTPUT:
        return gen_all(v, f, &n->list);
    case MTR_JN_COND:
        return gen(v, &soft, n->cond.test) && gen(v, &soft, n->cond.yes) &&
               gen(v, &soft, n->cond.no);
    case MTR_JN_COMPARE:
        return gen_compare(v, f, n);
    case MTR_JN_GETATTR:
        return gen(v, f, n->getattr.object);
    case MTR_JN_GETITEM:
        return gen(v, f, n->getitem.object) && gen(v, f, n->getitem.key);
    case MTR_JN_SLICE:
        return gen(v, f, n->slice.start) && gen(v, f, n->slice.stop) && gen(v, f, n->slice.step);
    case MTR_JN_CALL:
        return gen(v, f, n->call.callee) && gen_args(v, f, n->call.args);
    case MTR_JN_FILTER:
    case MTR_JN_TEST:
        return gen_filter(v, f, n);
    case MTR_JN_OR:
    case MTR_JN_AND:
        /* jinja2 computes constants when it compiles, and never sees what they rule out. */
        if (n->binary.left->kind == MTR_JN_CONST &&
            mtr_jtruth(&n->binary.left->constant) == (n->kind == MTR_JN_OR))
            return true;
        return gen(v, f, n->binary.left) && gen(v, f, n->binary.right);
    case MTR_JN_NOT:
    case MTR_JN_BINARY:
    case MTR_JN_UNARY:
        return gen(v, f, n->binary.left) && gen(v, f, n->binary.right);
    default:
        return true;
    }
}

/* ---- macros ---- */

static bool explicit_caller_ok(const struct mtr_jmacro_def *d)
{
    for (uint32_t i = 0; i < d->arg_count; i++) {
        if (mtr_str_is(d->args[i]->name.id, "caller"))
            return d->arg_count - i <= d->default_count;
    }
    return true;
}

static bool has_arg(const struct mtr_jmacro_def *d, const char *name)
{
    for (uint32_t i = 0; i < d->arg_count; i++) {
        if (mtr_str_is(d->args[i]->name.id, name))
            return true;
    }
    return false;
}

static bool gen_macro(struct mtr_jresolver *v, const struct frame *f, struct mtr_jmacro_def *d,
                      uint32_t line)
{
    static const char *const special[3] = {"caller", "kwargs", "varargs"};
    struct mtr_jnodes args = {d->args, d->arg_count};
    struct mtr_jnodes defaults = {d->defaults, d->default_count};
    struct frame m;
    if (!inner_function(v, f, &m))
        return false;
    for (unsigned pass = 0; pass < 2; pass++) {
        mtr_jscope_look_all(v, m.scope, &args);
        mtr_jscope_look_all(v, m.scope, &defaults);
        mtr_jscope_look_all(v, m.scope, &d->body);
        if (pass == 1)
            break;
        unsigned asked = mtr_jundeclared(&d->body, special);
        d->explicit_caller = has_arg(d, "caller");
        if ((asked & 1) && !explicit_caller_ok(d))
            return mtr_fail(v->err, MTR_INVALID,
                            "line %u: the argument 'caller' must have a default", line);
        d->caller_slot = (asked & 1) && !d->explicit_caller
                             ? mtr_jscope_param(v, m.scope, mtr_str("caller"))
                             : NO_SLOT;
        d->kwargs_slot = (asked & 2) && !has_arg(d, "kwargs")
                             ? mtr_jscope_param(v, m.scope, mtr_str("kwargs"))
                             : NO_SLOT;
        d->varargs_slot = (asked & 4) && !has_arg(d, "varargs")
                              ? mtr_jscope_param(v, m.scope, mtr_str("varargs"))
                              : NO_SLOT;
    }
    if (!gen_all(v, &m, &args) || !gen_all(v, &m, &defaults) || !gen_all(v, &m, &d->body))
        return false;
    d->scope = mtr_jscope_code(v, m.scope);
    d->slot_count = m.func->slots;
    return true;
}

/* ---- loops ---- */

/* Whether anything in the nodes assigns to `loop` (a macro's argument may have that name). */
static bool stores_loop(const struct mtr_jnodes *nodes);

static bool node_stores_loop(const struct mtr_jn *n)
{
    if (!n)
        return false;
    switch (n->kind) {
    case MTR_JN_NAME:
        return n->ctx == MTR_JCTX_STORE && mtr_str_is(n->name.id, "loop");
    case MTR_JN_TUPLE:
        return stores_loop(&n->list);
    case MTR_JN_IF:
        return stores_loop(&n->cond_stmt.body) || stores_loop(&n->cond_stmt.elifs) ||
               stores_loop(&n->cond_stmt.otherwise);
    case MTR_JN_FOR:
        return node_stores_loop(n->loop->target) || stores_loop(&n->loop->body) ||
               stores_loop(&n->loop->otherwise);
    case MTR_JN_SET:
        return node_stores_loop(n->set.target);
    case MTR_JN_SET_BLOCK:
        return node_stores_loop(n->set_block.target) || stores_loop(&n->set_block.body);
    case MTR_JN_MACRO:
    case MTR_JN_CALL_BLOCK:
    case MTR_JN_GENERATION:
        return stores_loop(&n->macro.def->body);
    case MTR_JN_FILTER_BLOCK:
        return stores_loop(&n->filter_block.body);
    case MTR_JN_WITH:
    case MTR_JN_SCOPE:
        return stores_loop(&n->with.body);
    case MTR_JN_BLOCK:
        return stores_loop(&n->block.def->body);
    default:
        return false;
    }
}

static bool stores_loop(const struct mtr_jnodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (node_stores_loop(nodes->items[i]))
            return true;
    }
    return false;
}

/* The function that filters the items. */
static bool gen_loop_test(struct mtr_jresolver *v, const struct frame *f, struct mtr_jfor *l)
{
    struct frame t;
    if (!inner_function(v, f, &t))
        return false;
    mtr_jscope_look_params(v, t.scope, l->test_target);
    mtr_jscope_look(v, t.scope, l->test);
    if (!gen(v, &t, l->test_target) || !gen(v, &t, l->test))
        return false;
    l->test_scope = mtr_jscope_code(v, t.scope);
    l->test_slots = t.func->slots;
    return true;
}

static bool gen_for(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    static const char *const loop_name[3] = {"loop"};
    struct mtr_jfor *l = n->loop;
    struct frame body, otherwise;
    bool extended = l->recursive || mtr_jundeclared(&l->body, loop_name);
    if (node_stores_loop(n))
        return mtr_fail(v->err, MTR_INVALID, "line %u: can't assign to the special variable loop",
                        n->line);
    if (!(l->recursive ? inner_function(v, f, &body) : inner(v, f, &body)))
        return false;
    l->loop_slot = extended ? mtr_jscope_param(v, body.scope, mtr_str("loop")) : NO_SLOT;
    mtr_jscope_look_params(v, body.scope, l->target);
    mtr_jscope_look_all(v, body.scope, &l->body);

    otherwise = (struct frame){.func = body.func, .in_loop = l->recursive ? false : f->in_loop};
    otherwise.scope = mtr_jscope_new(v, f->scope, body.func);
    if (!otherwise.scope)
        return no_memory(v);
    mtr_jscope_look_all(v, otherwise.scope, &l->otherwise);

    body.in_loop = true;
    if ((l->test && !gen_loop_test(v, f, l)) || !gen(v, f, l->iter) || !gen(v, &body, l->target) ||
        !gen_all(v, &body, &l->body) || !gen_all(v, &otherwise, &l->otherwise))
        return false;
    l->scope = mtr_jscope_code(v, body.scope);
    l->else_scope = mtr_jscope_code(v, otherwise.scope);
    l->slot_count = body.func->slots;
    return true;
}

/* ---- other statements ---- */

static bool gen_if(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    struct frame soft = *f;
    soft.soft = true;
    return gen(v, &soft, n->cond_stmt.test) && gen_all(v, &soft, &n->cond_stmt.body) &&
           gen_all(v, &soft, &n->cond_stmt.elifs) && gen_all(v, &soft, &n->cond_stmt.otherwise);
}

static bool gen_set_block(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    struct frame b;
    if (!inner(v, f, &b))
        return false;
    mtr_jscope_look_all(v, b.scope, &n->set_block.body);
    if (!gen_all(v, &b, &n->set_block.body) || !gen(v, f, n->set_block.target) ||
        !gen(v, &b, n->set_block.filter))
        return false;
    n->set_block.scope = mtr_jscope_code(v, b.scope);
    return true;
}

static bool gen_filter_block(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    struct frame b;
    if (!inner(v, f, &b))
        return false;
    mtr_jscope_look_all(v, b.scope, &n->filter_block.body);
    mtr_jscope_look(v, b.scope, n->filter_block.filter);
    if (!gen_all(v, &b, &n->filter_block.body) || !gen(v, &b, n->filter_block.filter))
        return false;
    n->filter_block.scope = mtr_jscope_code(v, b.scope);
    return true;
}

static bool gen_with(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    struct frame b;
    if (!inner(v, f, &b))
        return false;
    mtr_jscope_look_all(v, b.scope, &n->with.targets);
    mtr_jscope_look_all(v, b.scope, &n->with.body);
    if (!gen_all(v, &b, &n->with.targets) || !gen_all(v, f, &n->with.values) ||
        !gen_all(v, &b, &n->with.body))
        return false;
    n->with.scope = mtr_jscope_code(v, b.scope);
    return true;
}

static bool add_block(struct mtr_jresolver *v, struct mtr_jblock_def *d, uint32_t line)
{
    struct mtr_jinja *t = v->t;
    for (uint32_t i = 0; i < t->block_count; i++) {
        if (mtr_str_equal(t->blocks[i]->name, d->name))
            return mtr_fail(v->err, MTR_INVALID, "line %u: block '%.*s' defined twice", line,
                            MTR_STR_ARG(d->name));
    }
    struct mtr_jblock_def **grown = mtr_arena_calloc(v->arena, t->block_count + 1, sizeof *grown);
    if (!grown)
        return no_memory(v);
    if (t->block_count)
        memcpy(grown, t->blocks, t->block_count * sizeof *grown);
    grown[t->block_count++] = d;
    t->blocks = grown;
    return true;
}

/* A block sees the variables of the rendering and of the top level, and the scopes around it only
 * if it says that it is scoped. */
static bool gen_block(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    static const char *const special[3] = {"self", "super"};
    struct mtr_jblock_def *d = n->block.def;
    struct frame none = {0}, b;
    if (!add_block(v, d, n->line) || !inner_function(v, d->scoped ? f : &none, &b))
        return false;
    unsigned asked = mtr_jundeclared(&d->body, special);
    d->self_slot = asked & 1 ? mtr_jscope_param(v, b.scope, mtr_str("self")) : NO_SLOT;
    d->super_slot = asked & 2 ? mtr_jscope_param(v, b.scope, mtr_str("super")) : NO_SLOT;
    mtr_jscope_look_all(v, b.scope, &d->body);
    if (!gen_all(v, &b, &d->body))
        return false;
    d->scope = mtr_jscope_code(v, b.scope);
    d->slot_count = b.func->slots;
    return true;
}

static bool gen_jump(struct mtr_jresolver *v, const struct frame *f, const struct mtr_jn *n)
{
    return f->in_loop || mtr_fail(v->err, MTR_INVALID, "line %u: '%s' outside of a loop", n->line,
                                  n->kind == MTR_JN_BREAK ? "break" : "continue");
}

static bool gen(struct mtr_jresolver *v, const struct frame *f, struct mtr_jn *n)
{
    if (!n)
        return true;
    if (v->no_memory)
        return no_memory(v);
    switch (n->kind) {
    case MTR_JN_IF:
        return gen_if(v, f, n);
    case MTR_JN_FOR:
        return gen_for(v, f, n);
    case MTR_JN_SET:
        return gen(v, f, n->set.target) && gen(v, f, n->set.value);
    case MTR_JN_SET_BLOCK:
        return gen_set_block(v, f, n);
    case MTR_JN_MACRO:
        return gen_macro(v, f, n->macro.def, n->line) && gen(v, f, n->macro.target);
    case MTR_JN_CALL_BLOCK:
        return gen_macro(v, f, n->macro.def, n->line) && gen(v, f, n->macro.call);
    case MTR_JN_GENERATION:
        return gen_macro(v, f, n->macro.def, n->line);
    case MTR_JN_FILTER_BLOCK:
        return gen_filter_block(v, f, n);
    case MTR_JN_WITH:
    case MTR_JN_SCOPE:
        return gen_with(v, f, n);
    case MTR_JN_BLOCK:
        return gen_block(v, f, n);
    case MTR_JN_BREAK:
    case MTR_JN_CONTINUE:
        return gen_jump(v, f, n);
    case MTR_JN_REFUSED:
        return gen(v, f, n->refused.template) && gen_all(v, f, &n->refused.names);
    default:
        return gen_expression(v, f, n);
    }
}

bool mtr_jresolve(struct mtr_arena *arena, struct mtr_jinja *t, struct mtr_error *err)
{
    static const char *const special[3] = {"self"};
    struct mtr_jresolver v = {.arena = arena, .err = err, .t = t};
    struct frame none = {0}, root;
    if (!inner_function(&v, &none, &root))
        return false;
    root.toplevel = true;
    t->self_slot = mtr_jundeclared(&t->body, special)
                       ? mtr_jscope_param(&v, root.scope, mtr_str("self"))
                       : NO_SLOT;
    mtr_jscope_look_all(&v, root.scope, &t->body);
    if (!gen_all(&v, &root, &t->body))
        return false;
    t->scope = mtr_jscope_code(&v, root.scope);
    t->slot_count = root.func->slots;
    return !v.no_memory || no_memory(&v);
}
