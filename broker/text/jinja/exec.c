/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Statements.
 *
 * Output goes to r->out, which captures (set blocks, filter blocks, macros) replace for a while. A
 * jump out of a capture leaves it behind with what it had, as in the Python that jinja2 generates.
 */
#include "broker/text/jinja/exec.h"

static enum mtr_jflow flow(bool ok)
{
    return ok ? MTR_JFLOW_NEXT : MTR_JFLOW_FAILED;
}

struct mtr_jact *mtr_jact_new(struct mtr_jr *r, struct mtr_jact *up, uint32_t slots)
{
    struct mtr_jact *a = mtr_jalloc(r, sizeof *a + slots * sizeof *a->slots);
    if (!a)
        return NULL;
    memset(a->slots, 0, slots * sizeof *a->slots);
    a->up = up;
    return a;
}

void mtr_jscope_enter(struct mtr_jr *r, const struct mtr_jscope_code *c)
{
    for (uint32_t i = 0; i < c->count; i++) {
        const struct mtr_jload_entry *e = &c->loads[i];
        struct mtr_jv *slot = &r->act->slots[e->slot];
        if (e->action == MTR_JLOAD_RESOLVE)
            *slot = r->globals[e->global];
        else if (e->action == MTR_JLOAD_ALIAS)
            *slot = *mtr_jplace(r, &e->from);
        else if (e->action == MTR_JLOAD_UNDEFINED)
            slot->kind = MTR_JK_MISSING;
    }
}

void mtr_jscope_leave(struct mtr_jr *r, const struct mtr_jscope_code *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        r->act->slots[c->loads[i].slot].kind = MTR_JK_MISSING;
}

/* ---- assignment ---- */

static bool unpack(struct mtr_jr *r, const struct mtr_jn *target, const struct mtr_jv *value)
{
    struct mtr_jiter *it;
    struct mtr_jv item;
    bool end = false;
    uint32_t count = target->list.count;
    if (value->kind == MTR_JK_TUPLE && value->list->count == count) {
        for (uint32_t i = 0; i < count; i++) {
            if (!mtr_jlist_at(r, value->list, i, &item) ||
                !mtr_jassign(r, target->list.items[i], &item))
                return false;
        }
        return true;
    }
    if (!mtr_jiter_of(r, value, &it))
        return false;
    struct mtr_jlist *l = mtr_jlist_new(r, count);
    for (uint32_t i = 0; l && i < count; i++) {
        if (!mtr_jnext(r, it, &l->items[i], &end))
            return false;
        if (end)
            return mtr_jfail(r, MTR_INVALID, "not enough values to unpack (expected %u, got %u)",
                             count, i);
    }
    if (!l || !mtr_jnext(r, it, &item, &end))
        return false;
    if (!end)
        return mtr_jfail(r, MTR_INVALID, "too many values to unpack (expected %u)", count);
    for (uint32_t i = 0; i < count; i++) {
        if (!mtr_jassign(r, target->list.items[i], &l->items[i]))
            return false;
    }
    return true;
}

bool mtr_jassign(struct mtr_jr *r, const struct mtr_jn *target, const struct mtr_jv *value)
{
    struct mtr_jv *place;
    switch (target->kind) {
    case MTR_JN_NAME:
        *mtr_jplace(r, &target->name.place) = *value;
        if (target->name.export && r->template->block_count)
            r->globals[target->name.export - 1] = *value;
        return true;
    case MTR_JN_NSREF:
        place = mtr_jplace(r, &target->name.place);
        if (place->kind != MTR_JK_NAMESPACE)
            return mtr_jfail(r, MTR_INVALID, "cannot assign attribute on non-namespace object");
        return mtr_jdict_put(r, place->dict, mtr_jstr(target->name.attr, MTR_JTRUSTED), *value);
    default:
        return unpack(r, target, value);
    }
}

static enum mtr_jflow do_set(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv v;
    return flow(mtr_jeval(r, n->set.value, &v) && mtr_jassign(r, n->set.target, &v));
}

/* ---- output ---- */

static enum mtr_jflow do_output(struct mtr_jr *r, const struct mtr_jn *n)
{
    for (uint32_t i = 0; i < n->list.count; i++) {
        const struct mtr_jn *c = n->list.items[i];
        struct mtr_jv v;
        if (c->kind == MTR_JN_CONST) {
            if (!mtr_jput_str(r, r->out, &c->constant))
                return MTR_JFLOW_FAILED;
        } else if (!mtr_jeval(r, c, &v) || !mtr_jput_str(r, r->out, &v)) {
            return MTR_JFLOW_FAILED;
        }
    }
    return MTR_JFLOW_NEXT;
}

/* Runs a body in a scope of its own and keeps what it prints. */
static enum mtr_jflow capture(struct mtr_jr *r, const struct mtr_jscope_code *scope,
                              const struct mtr_jnodes *body, struct mtr_jv *out)
{
    struct mtr_jtext text = {0}, *outer = r->out;
    mtr_jscope_enter(r, scope);
    r->out = &text;
    enum mtr_jflow f = mtr_jexec_all(r, body);
    r->out = outer;
    if (f == MTR_JFLOW_NEXT && !mtr_jtext_finish(r, &text, 0, out))
        f = MTR_JFLOW_FAILED;
    return f;
}

static bool apply_filters(struct mtr_jr *r, const struct mtr_jn *filter, struct mtr_jv *text)
{
    struct mtr_jv outer = r->captured;
    r->captured = *text;
    bool ok = mtr_jeval(r, filter, text);
    r->captured = outer;
    return ok;
}

static enum mtr_jflow do_set_block(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv text;
    enum mtr_jflow f = capture(r, &n->set_block.scope, &n->set_block.body, &text);
    if (f != MTR_JFLOW_NEXT)
        return f;
    if (n->set_block.filter && !apply_filters(r, n->set_block.filter, &text))
        return MTR_JFLOW_FAILED;
    if (!mtr_jassign(r, n->set_block.target, &text))
        return MTR_JFLOW_FAILED;
    mtr_jscope_leave(r, &n->set_block.scope);
    return MTR_JFLOW_NEXT;
}

static enum mtr_jflow do_filter_block(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv text;
    enum mtr_jflow f = capture(r, &n->filter_block.scope, &n->filter_block.body, &text);
    if (f != MTR_JFLOW_NEXT)
        return f;
    if (!apply_filters(r, n->filter_block.filter, &text) || !mtr_jput_str(r, r->out, &text))
        return MTR_JFLOW_FAILED;
    mtr_jscope_leave(r, &n->filter_block.scope);
    return MTR_JFLOW_NEXT;
}

/* ---- if, with ---- */

static bool test(struct mtr_jr *r, const struct mtr_jn *n, bool *yes)
{
    struct mtr_jv v;
    if (!mtr_jeval(r, n->cond_stmt.test, &v))
        return false;
    *yes = mtr_jtruth(&v);
    return true;
}

static enum mtr_jflow do_if(struct mtr_jr *r, const struct mtr_jn *n)
{
    bool yes;
    if (!test(r, n, &yes))
        return MTR_JFLOW_FAILED;
    if (yes)
        return mtr_jexec_all(r, &n->cond_stmt.body);
    for (uint32_t i = 0; i < n->cond_stmt.elifs.count; i++) {
        const struct mtr_jn *e = n->cond_stmt.elifs.items[i];
        if (!test(r, e, &yes))
            return MTR_JFLOW_FAILED;
        if (yes)
            return mtr_jexec_all(r, &e->cond_stmt.body);
    }
    return mtr_jexec_all(r, &n->cond_stmt.otherwise);
}

static enum mtr_jflow do_with(struct mtr_jr *r, const struct mtr_jn *n)
{
    mtr_jscope_enter(r, &n->with.scope);
    for (uint32_t i = 0; i < n->with.targets.count; i++) {
        struct mtr_jv v;
        if (!mtr_jeval(r, n->with.values.items[i], &v) ||
            !mtr_jassign(r, n->with.targets.items[i], &v))
            return MTR_JFLOW_FAILED;
    }
    enum mtr_jflow f = mtr_jexec_all(r, &n->with.body);
    if (f == MTR_JFLOW_NEXT)
        mtr_jscope_leave(r, &n->with.scope);
    return f;
}

/* ---- loops ---- */

static bool filtered(struct mtr_jr *r, const struct mtr_jfor *f, struct mtr_jact *home,
                     struct mtr_jv *items)
{
    struct mtr_jiter *it = mtr_jiter_new(r, MTR_JI_LOOP_FILTER, items);
    struct mtr_jact *outer = r->act;
    if (!it || !(it->act = mtr_jact_new(r, home, f->test_slots)))
        return false;
    it->loop = f;
    r->act = it->act;
    mtr_jscope_enter(r, &f->test_scope);
    r->act = outer;
    *items = mtr_jiter_value(it);
    return true;
}

bool mtr_jfilter_passes(struct mtr_jr *r, struct mtr_jiter *it, const struct mtr_jv *item,
                        bool *pass)
{
    struct mtr_jact *outer = r->act;
    struct mtr_jv v;
    r->act = it->act;
    bool ok = mtr_jassign(r, it->loop->test_target, item) && mtr_jeval(r, it->loop->test, &v);
    r->act = outer;
    *pass = ok && mtr_jtruth(&v);
    return ok;
}

/* Where the items of a round come from: the loop variable if somebody asks for it. */
struct rounds {
    struct mtr_jloop *loop;
    struct mtr_jiter *iter;
};

static bool next_round(struct mtr_jr *r, const struct rounds *s, struct mtr_jv *item, bool *end)
{
    return s->loop ? mtr_jloop_next(r, s->loop, item, end) : mtr_jnext(r, s->iter, item, end);
}

enum mtr_jflow mtr_jrun_loop(struct mtr_jr *r, const struct mtr_jfor *f, const struct mtr_jv *items,
                             struct mtr_jact *home, int64_t depth0)
{
    struct mtr_jv source = *items, item;
    struct rounds s = {0};
    bool ran = false;
    if (f->test && !filtered(r, f, home, &source))
        return MTR_JFLOW_FAILED;
    if (f->loop_slot != UINT32_MAX)
        s.loop = mtr_jloop_new(r, f, &source, home, depth0);
    if (f->loop_slot != UINT32_MAX ? !s.loop : !mtr_jiter_of(r, &source, &s.iter))
        return MTR_JFLOW_FAILED;
    for (;;) {
        bool end;
        if (!next_round(r, &s, &item, &end))
            return MTR_JFLOW_FAILED;
        if (end)
            break;
        if (!mtr_jassign(r, f->target, &item))
            return MTR_JFLOW_FAILED;
        if (s.loop)
            r->act->slots[f->loop_slot] = (struct mtr_jv){.kind = MTR_JK_LOOP, .loop = s.loop};
        mtr_jscope_enter(r, &f->scope);
        enum mtr_jflow flow = mtr_jexec_all(r, &f->body);
        if (flow == MTR_JFLOW_FAILED)
            return flow;
        /* What jinja2 writes behind the body is skipped by both jumps, so that `else` runs if no
         * round reached its end. */
        if (flow == MTR_JFLOW_BREAK)
            break;
        ran |= flow == MTR_JFLOW_NEXT;
    }
    mtr_jscope_leave(r, &f->scope);
    if (ran || !f->otherwise.count)
        return MTR_JFLOW_NEXT;
    mtr_jscope_enter(r, &f->else_scope);
    enum mtr_jflow flow = mtr_jexec_all(r, &f->otherwise);
    if (flow == MTR_JFLOW_NEXT)
        mtr_jscope_leave(r, &f->else_scope);
    return flow;
}

static enum mtr_jflow do_for(struct mtr_jr *r, const struct mtr_jn *n)
{
    const struct mtr_jfor *f = n->loop;
    struct mtr_jv items;
    if (!mtr_jeval(r, f->iter, &items))
        return MTR_JFLOW_FAILED;
    if (!f->recursive)
        return mtr_jrun_loop(r, f, &items, r->act, 0);
    struct mtr_jact *home = r->act;
    r->act = mtr_jact_new(r, home, f->slot_count);
    enum mtr_jflow flow = r->act ? mtr_jrun_loop(r, f, &items, home, 0) : MTR_JFLOW_FAILED;
    r->act = home;
    return flow;
}

/* ---- macros, blocks ---- */

static enum mtr_jflow do_macro(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv m;
    return flow(mtr_jmacro_value(r, n->macro.def, &m) && mtr_jassign(r, n->macro.target, &m));
}

static enum mtr_jflow do_call_block(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv caller, text;
    return flow(mtr_jmacro_value(r, n->macro.def, &caller) &&
                mtr_jeval_call(r, n->macro.call, &caller, &text) && mtr_jput_str(r, r->out, &text));
}

/* The body of {% generation %} is a function without arguments that is called on the spot. */
static enum mtr_jflow do_generation(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jv body, text;
    struct mtr_jcall none = {0};
    return flow(mtr_jmacro_value(r, n->macro.def, &body) &&
                mtr_jcall_macro(r, body.macro, &none, &text) && mtr_jput_str(r, r->out, &text));
}

static enum mtr_jflow do_block(struct mtr_jr *r, const struct mtr_jn *n)
{
    struct mtr_jblock b = {n->block.def};
    struct mtr_jv text;
    return flow(mtr_jcall_block(r, &b, &text) && mtr_jput_str(r, r->out, &text));
}

static enum mtr_jflow do_refused(struct mtr_jr *r, const struct mtr_jn *n)
{
    return flow(mtr_jfail(r, MTR_INVALID,
                          "{%% %s %%} is not available: there are no other templates",
                          n->refused.tag));
}

static enum mtr_jflow do_break(struct mtr_jr *r, const struct mtr_jn *n)
{
    (void)r, (void)n;
    return MTR_JFLOW_BREAK;
}

static enum mtr_jflow do_continue(struct mtr_jr *r, const struct mtr_jn *n)
{
    (void)r, (void)n;
    return MTR_JFLOW_CONTINUE;
}

enum mtr_jflow mtr_jexec_all(struct mtr_jr *r, const struct mtr_jnodes *nodes)
{
    static enum mtr_jflow (*const run[])(struct mtr_jr *, const struct mtr_jn *) = {
        [MTR_JN_OUTPUT] = do_output,
        [MTR_JN_IF] = do_if,
        [MTR_JN_FOR] = do_for,
        [MTR_JN_SET] = do_set,
        [MTR_JN_SET_BLOCK] = do_set_block,
        [MTR_JN_MACRO] = do_macro,
        [MTR_JN_CALL_BLOCK] = do_call_block,
        [MTR_JN_GENERATION] = do_generation,
        [MTR_JN_FILTER_BLOCK] = do_filter_block,
        [MTR_JN_WITH] = do_with,
        [MTR_JN_SCOPE] = do_with,
        [MTR_JN_BLOCK] = do_block,
        [MTR_JN_BREAK] = do_break,
        [MTR_JN_CONTINUE] = do_continue,
        [MTR_JN_REFUSED] = do_refused,
    };
    enum mtr_jflow f = MTR_JFLOW_NEXT;
    if (!mtr_jenter(r))
        return MTR_JFLOW_FAILED;
    for (uint32_t i = 0; i < nodes->count && f == MTR_JFLOW_NEXT; i++) {
        const struct mtr_jn *n = nodes->items[i];
        r->line = n->line;
        f = mtr_jstep(r, 1) ? run[n->kind](r, n) : MTR_JFLOW_FAILED;
    }
    r->depth--;
    return f;
}
