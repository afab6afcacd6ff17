/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Expressions: a walk over the tree, one function a kind of node.
 */
#include "broker/text/jinja/exec.h"

#include "broker/text/jinja/jinja.h"

static bool eval_const(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    (void)r;
    *out = n->constant;
    return true;
}

struct mtr_jv *mtr_jplace(struct mtr_jr *r, const struct mtr_jplace *p)
{
    struct mtr_jact *a = r->act;
    for (uint16_t i = 0; i < p->hops; i++)
        a = a->up;
    return &a->slots[p->slot];
}

static bool eval_name(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    *out = *mtr_jplace(r, &n->name.place);
    if (out->kind == MTR_JK_MISSING)
        *out = mtr_jundefined(n->name.id);
    return true;
}

static bool eval_items(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, n->list.count);
    if (!l)
        return false;
    for (; l->count < n->list.count; l->count++) {
        if (!mtr_jeval(r, n->list.items[l->count], &l->items[l->count]))
            return false;
    }
    *out = n->kind == MTR_JN_LIST ? mtr_jlist_value(l) : mtr_jtuple_value(l);
    return true;
}

static bool eval_dict(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jdict *d = mtr_jdict_new(r, n->list.count / 2);
    if (!d)
        return false;
    for (uint32_t i = 0; i < n->list.count; i += 2) {
        struct mtr_jv key, value;
        if (!mtr_jeval(r, n->list.items[i], &key) || !mtr_jeval(r, n->list.items[i + 1], &value) ||
            !mtr_jdict_put(r, d, key, value))
            return false;
    }
    *out = mtr_jdict_value_of(d);
    return true;
}

static bool eval_cond(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv test;
    if (!mtr_jeval(r, n->cond.test, &test))
        return false;
    const struct mtr_jn *chosen = mtr_jtruth(&test) ? n->cond.yes : n->cond.no;
    if (chosen)
        return mtr_jeval(r, chosen, out);
    *out = mtr_jundefined(MTR_STR("an inline if without else"));
    return true;
}

static bool eval_or(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    if (!mtr_jeval(r, n->binary.left, out))
        return false;
    return mtr_jtruth(out) || mtr_jeval(r, n->binary.right, out);
}

static bool eval_and(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    if (!mtr_jeval(r, n->binary.left, out))
        return false;
    return !mtr_jtruth(out) || mtr_jeval(r, n->binary.right, out);
}

static bool eval_not(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv v;
    if (!mtr_jeval(r, n->binary.left, &v))
        return false;
    *out = mtr_jbool(!mtr_jtruth(&v));
    return true;
}

static bool eval_binary(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv a, b;
    return mtr_jeval(r, n->binary.left, &a) && mtr_jeval(r, n->binary.right, &b) &&
           mtr_jbinary(r, n->binary.op, &a, &b, out);
}

static bool eval_unary(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv a;
    return mtr_jeval(r, n->binary.left, &a) && mtr_junary(r, n->binary.op, &a, out);
}

static bool compare(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                    bool *out)
{
    bool ok;
    switch (op) {
    case 'e':
        return mtr_jequal(r, a, b, out);
    case 'n':
        ok = mtr_jequal(r, a, b, out);
        *out = !*out;
        return ok;
    case 'i':
        return mtr_jcontains(r, b, a, out);
    case 'I':
        ok = mtr_jcontains(r, b, a, out);
        *out = !*out;
        return ok;
    default:
        return mtr_jorder(r, op, a, b, out);
    }
}

static bool eval_compare(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv a, b;
    bool yes = true;
    if (!mtr_jeval(r, n->compare.first, &a))
        return false;
    for (uint32_t i = 0; yes && i < n->compare.count; i++) {
        if (!mtr_jeval(r, n->compare.ops[i].value, &b) ||
            !compare(r, n->compare.ops[i].op, &a, &b, &yes))
            return false;
        a = b;
    }
    *out = mtr_jbool(yes);
    return true;
}

static bool eval_concat(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jtext t = {0};
    for (uint32_t i = 0; i < n->list.count; i++) {
        struct mtr_jv v;
        if (!mtr_jeval(r, n->list.items[i], &v))
            return false;
        bool resume = i == 0 && v.kind == MTR_JK_STR && v.len;
        if (!(resume ? mtr_jtext_resume(r, &v, 0, &t) : mtr_jput_str(r, &t, &v)))
            return false;
    }
    if (!mtr_jtext_finish(r, &t, 0, out))
        return false;
    if (t.len)
        mtr_jtext_keep(r, &t);
    return true;
}

static bool eval_getattr(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv object;
    return mtr_jeval(r, n->getattr.object, &object) &&
           mtr_jgetattr(r, &object, n->getattr.name, out);
}

static bool eval_optional(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    *out = (struct mtr_jv){.kind = MTR_JK_MISSING};
    return !n || mtr_jeval(r, n, out);
}

static bool eval_getitem(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jv object, key, stop, step;
    const struct mtr_jn *k = n->getitem.key;
    if (!mtr_jeval(r, n->getitem.object, &object))
        return false;
    if (k->kind != MTR_JN_SLICE)
        return mtr_jeval(r, k, &key) && mtr_jgetitem(r, &object, &key, out);
    return eval_optional(r, k->slice.start, &key) && eval_optional(r, k->slice.stop, &stop) &&
           eval_optional(r, k->slice.step, &step) &&
           mtr_jslice(r, &object, &key, &stop, &step, out);
}

/* ---- calls ---- */

static bool spread_star(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jlist **out)
{
    struct mtr_jv v;
    *out = NULL;
    return !n || (mtr_jeval(r, n, &v) && mtr_jcollect(r, &v, out));
}

static bool spread_star_star(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    *out = (struct mtr_jv){.kind = MTR_JK_MISSING};
    if (!n)
        return true;
    if (!mtr_jeval(r, n, out))
        return false;
    return out->kind == MTR_JK_DICT ||
           mtr_jfail(r, MTR_INVALID, "argument after ** must be a mapping, not %s",
                     mtr_jtype_name(out));
}

static bool add_keyword(struct mtr_jr *r, struct mtr_jcall *c, struct mtr_str name,
                        struct mtr_jv value)
{
    for (uint32_t i = 0; i < c->kw_count; i++) {
        if (mtr_str_equal(c->kw[i].name, name))
            return mtr_jfail(r, MTR_INVALID, "got multiple values for keyword argument '%.*s'",
                             MTR_STR_ARG(name));
    }
    c->kw[c->kw_count++] = (struct mtr_jkeyword){name, value};
    return true;
}

/* Evaluates arguments. first: put before the positional ones, or NULL. caller: added as a keyword.
 */
static bool eval_args(struct mtr_jr *r, const struct mtr_jargs *a, const struct mtr_jv *first,
                      const struct mtr_jv *caller, struct mtr_jcall *c)
{
    uint32_t before = first ? 1 : 0;
    struct mtr_jlist *star = NULL;
    struct mtr_jv more = {0};
    *c = (struct mtr_jcall){0};
    /* Room for the plain ones; * and ** come last and may make it larger. */
    c->pos = mtr_jalloc(r, (before + a->pos.count + 1) * sizeof *c->pos);
    if (!c->pos)
        return false;
    if (first)
        c->pos[c->pos_count++] = *first;
    for (uint32_t i = 0; i < a->pos.count; i++) {
        if (!mtr_jeval(r, a->pos.items[i], &c->pos[c->pos_count++]))
            return false;
    }
    uint32_t named = a->kw_count + (caller ? 1 : 0);
    if (!named && !a->star && !a->star_star)
        return true;
    struct mtr_jv *values = mtr_jalloc(r, (a->kw_count + 1) * sizeof *values);
    if (!values)
        return false;
    for (uint32_t i = 0; i < a->kw_count; i++) {
        if (!mtr_jeval(r, a->kw[i].value, &values[i]))
            return false;
    }
    if (!spread_star(r, a->star, &star) || !spread_star_star(r, a->star_star, &more))
        return false;
    if (star) {
        struct mtr_jv *pos = mtr_jalloc(r, (c->pos_count + star->count + 1) * sizeof *pos);
        if (!pos)
            return false;
        memcpy(pos, c->pos, c->pos_count * sizeof *pos);
        memcpy(pos + c->pos_count, star->items, star->count * sizeof *pos);
        c->pos = pos;
        c->pos_count += star->count;
    }
    named += more.kind == MTR_JK_DICT ? more.dict->count : 0;
    c->kw = mtr_jalloc(r, (named + 1) * sizeof *c->kw);
    if (!c->kw)
        return false;
    for (uint32_t i = 0; i < a->kw_count; i++)
        c->kw[c->kw_count++] = (struct mtr_jkeyword){a->kw[i].name, values[i]};
    if (caller && !add_keyword(r, c, MTR_STR("caller"), *caller))
        return false;
    for (uint32_t i = 0; more.kind == MTR_JK_DICT && i < more.dict->count; i++) {
        struct mtr_jv value;
        if (more.dict->keys[i].kind != MTR_JK_STR)
            return mtr_jfail(r, MTR_INVALID, "keywords must be strings");
        if (!mtr_jdict_value(r, more.dict, i, &value) ||
            !add_keyword(r, c, mtr_jbytes(&more.dict->keys[i]), value))
            return false;
    }
    return true;
}

/* The method that object.name is, so that calling it needs no value of its own; or NULL. */
static const struct mtr_jmethod_entry *direct_method(const struct mtr_jv *object,
                                                     struct mtr_str name)
{
    if (object->kind == MTR_JK_STR)
        return mtr_jstr_method(name);
    if (object->kind == MTR_JK_DICT || object->kind == MTR_JK_LIST)
        return mtr_jother_method(object, name);
    return NULL;
}

bool mtr_jeval_call(struct mtr_jr *r, const struct mtr_jn *n, const struct mtr_jv *caller,
                    struct mtr_jv *out)
{
    const struct mtr_jn *callee = n->call.callee;
    struct mtr_jcall c;
    struct mtr_jv f;
    if (callee->kind != MTR_JN_GETATTR)
        return mtr_jeval(r, callee, &f) && eval_args(r, n->call.args, NULL, caller, &c) &&
               mtr_jcall_value(r, &f, &c, out);
    struct mtr_jv object;
    if (!mtr_jeval(r, callee->getattr.object, &object))
        return false;
    const struct mtr_jmethod_entry *m = direct_method(&object, callee->getattr.name);
    if (m)
        return eval_args(r, n->call.args, NULL, caller, &c) &&
               mtr_jcall_method(r, &object, m, &c, out);
    return mtr_jgetattr(r, &object, callee->getattr.name, &f) &&
           eval_args(r, n->call.args, NULL, caller, &c) && mtr_jcall_value(r, &f, &c, out);
}

static bool eval_call(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    return mtr_jeval_call(r, n, NULL, out);
}

static bool eval_filter(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jcall c;
    struct mtr_jv value = r->captured;
    if (n->filter.value && !mtr_jeval(r, n->filter.value, &value))
        return false;
    if (n->filter.index == SIZE_MAX)
        return mtr_jfail(r, MTR_INVALID, "no filter named '%.*s'", MTR_STR_ARG(n->filter.name));
    return eval_args(r, n->filter.args, &value, NULL, &c) &&
           mtr_jfilter_run(r, n->filter.index, &c, out);
}

static bool eval_test(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    struct mtr_jcall c;
    struct mtr_jv value;
    bool yes = false;
    if (!mtr_jeval(r, n->filter.value, &value))
        return false;
    if (n->filter.index == SIZE_MAX)
        return mtr_jfail(r, MTR_INVALID, "no test named '%.*s'", MTR_STR_ARG(n->filter.name));
    if (!eval_args(r, n->filter.args, &value, NULL, &c) ||
        !mtr_jtest_run(r, n->filter.index, &c, &yes))
        return false;
    *out = mtr_jbool(yes);
    return true;
}

bool mtr_jeval(struct mtr_jr *r, const struct mtr_jn *n, struct mtr_jv *out)
{
    static bool (*const eval[])(struct mtr_jr *, const struct mtr_jn *, struct mtr_jv *) = {
        [MTR_JN_CONST] = eval_const,     [MTR_JN_NAME] = eval_name,
        [MTR_JN_TUPLE] = eval_items,     [MTR_JN_LIST] = eval_items,
        [MTR_JN_DICT] = eval_dict,       [MTR_JN_COND] = eval_cond,
        [MTR_JN_OR] = eval_or,           [MTR_JN_AND] = eval_and,
        [MTR_JN_NOT] = eval_not,         [MTR_JN_COMPARE] = eval_compare,
        [MTR_JN_BINARY] = eval_binary,   [MTR_JN_UNARY] = eval_unary,
        [MTR_JN_CONCAT] = eval_concat,   [MTR_JN_GETATTR] = eval_getattr,
        [MTR_JN_GETITEM] = eval_getitem, [MTR_JN_CALL] = eval_call,
        [MTR_JN_FILTER] = eval_filter,   [MTR_JN_TEST] = eval_test,
    };
    r->line = n->line;
    if (!mtr_jstep(r, 1) || !mtr_jenter(r))
        return false;
    bool ok = eval[n->kind](r, n, out);
    r->depth--;
    return ok;
}
