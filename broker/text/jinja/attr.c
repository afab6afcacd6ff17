/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * obj.name, obj[key] and obj[a:b:c] as the sandbox allows them.
 *
 * obj.name looks for an attribute (for most types: a method) and then for an item; obj['name'] the
 * other way round. Methods that would change a list or dict are there but hidden: the name stands
 * for an undefined, whatever a dict holds under it.
 */
#include "broker/text/jinja/run.h"

#include "broker/text/jinja/macro.h"

enum found { NOT_FOUND, FOUND, FAILED };

static enum found method_value(struct mtr_jr *r, const struct mtr_jv *obj,
                               const struct mtr_jmethod_entry *entry, struct mtr_jv *out)
{
    struct mtr_jmethod *m = mtr_jalloc(r, sizeof *m);
    if (!m)
        return FAILED;
    *m = (struct mtr_jmethod){*obj, entry};
    *out = (struct mtr_jv){.kind = MTR_JK_METHOD, .method = m};
    return FOUND;
}

static enum found cycler_attr(const struct mtr_jv *obj, struct mtr_str name, struct mtr_jv *out)
{
    const struct mtr_jcycler *c = obj->cycler;
    if (mtr_str_is(name, "current"))
        *out = c->items.list->items[c->pos];
    else if (mtr_str_is(name, "items"))
        *out = c->items;
    else if (mtr_str_is(name, "pos"))
        *out = mtr_jint(c->pos);
    else
        return NOT_FOUND;
    return FOUND;
}

static enum found macro_attr(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                             struct mtr_jv *out)
{
    const struct mtr_jmacro_def *d = obj->macro->def;
    if (mtr_str_is(name, "name")) {
        *out = d->name.ptr ? mtr_jstr(d->name, MTR_JTRUSTED) : mtr_jnone();
    } else if (mtr_str_is(name, "arguments")) {
        struct mtr_jlist *l = mtr_jlist_new(r, d->arg_count);
        if (!l)
            return FAILED;
        for (; l->count < d->arg_count; l->count++)
            l->items[l->count] = mtr_jstr(d->args[l->count]->name.id, MTR_JTRUSTED);
        *out = mtr_jtuple_value(l);
    } else if (mtr_str_is(name, "catch_kwargs")) {
        *out = mtr_jbool(d->kwargs_slot != UINT32_MAX);
    } else if (mtr_str_is(name, "catch_varargs")) {
        *out = mtr_jbool(d->varargs_slot != UINT32_MAX);
    } else if (mtr_str_is(name, "caller")) {
        *out = mtr_jbool(d->caller_slot != UINT32_MAX);
    } else if (mtr_str_is(name, "explicit_caller")) {
        *out = mtr_jbool(d->explicit_caller);
    } else {
        return NOT_FOUND;
    }
    return FOUND;
}

static enum found number_attr(const struct mtr_jv *obj, struct mtr_str name, struct mtr_jv *out)
{
    bool is_float = obj->kind == MTR_JK_FLOAT;
    *out = *obj;
    if (obj->kind == MTR_JK_BOOL)
        *out = mtr_jint(obj->boolean);
    if (mtr_str_is(name, "real"))
        return FOUND;
    if (!is_float && mtr_str_is(name, "numerator"))
        return FOUND;
    if (mtr_str_is(name, "imag"))
        *out = is_float ? mtr_jfloat(0) : mtr_jint(0);
    else if (!is_float && mtr_str_is(name, "denominator"))
        *out = mtr_jint(1);
    else
        return NOT_FOUND;
    return FOUND;
}

static enum found block_attr(struct mtr_jr *r, struct mtr_str name, struct mtr_jv *out)
{
    for (uint32_t i = 0; i < r->template->block_count; i++) {
        if (!mtr_str_equal(r->template->blocks[i]->name, name))
            continue;
        struct mtr_jblock *b = mtr_jalloc(r, sizeof *b);
        if (!b)
            return FAILED;
        b->def = r->template->blocks[i];
        *out = (struct mtr_jv){.kind = MTR_JK_BLOCK, .block = b};
        return FOUND;
    }
    return NOT_FOUND;
}

static enum found range_attr(const struct mtr_jv *obj, struct mtr_str name, struct mtr_jv *out)
{
    const struct mtr_jrange *g = obj->range;
    if (mtr_str_is(name, "start"))
        *out = mtr_jint(g->start);
    else if (mtr_str_is(name, "stop"))
        *out = mtr_jint(g->stop);
    else if (mtr_str_is(name, "step"))
        *out = mtr_jint(g->step);
    else
        return NOT_FOUND;
    return FOUND;
}

static enum found namespace_attr(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                                 struct mtr_jv *out)
{
    uint32_t at = mtr_jdict_find_str(obj->dict, name);
    if (at == UINT32_MAX)
        return NOT_FOUND;
    return mtr_jdict_value(r, obj->dict, at, out) ? FOUND : FAILED;
}

static enum found loop_attr(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                            struct mtr_jv *out)
{
    bool found;
    if (!mtr_jloop_attr(r, obj->loop, name, out, &found))
        return FAILED;
    return found ? FOUND : NOT_FOUND;
}

/* Python's getattr(), for names without leading underscore. */
static enum found attribute(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                            struct mtr_jv *out)
{
    enum found f = NOT_FOUND;
    if (name.len && name.ptr[0] == '_' && obj->kind != MTR_JK_NAMESPACE)
        return NOT_FOUND;
    switch (obj->kind) {
    case MTR_JK_NAMESPACE:
        return namespace_attr(r, obj, name, out);
    case MTR_JK_LOOP:
        f = loop_attr(r, obj, name, out);
        break;
    case MTR_JK_CYCLER:
        f = cycler_attr(obj, name, out);
        break;
    case MTR_JK_MACRO:
        f = macro_attr(r, obj, name, out);
        break;
    case MTR_JK_RANGE:
        f = range_attr(obj, name, out);
        break;
    case MTR_JK_BOOL:
    case MTR_JK_INT:
    case MTR_JK_BIG:
    case MTR_JK_FLOAT:
        f = number_attr(obj, name, out);
        break;
    case MTR_JK_TUPLE:
        if (obj->flags & MTR_JF_GROUP && mtr_str_is(name, "grouper"))
            return mtr_jlist_at(r, obj->list, 0, out) ? FOUND : FAILED;
        if (obj->flags & MTR_JF_GROUP && mtr_str_is(name, "list"))
            return mtr_jlist_at(r, obj->list, 1, out) ? FOUND : FAILED;
        break;
    default:
        break;
    }
    if (f != NOT_FOUND)
        return f;
    if (mtr_jmutates(obj, name)) {
        *out = mtr_jundefined(name);
        out->flags = MTR_JF_UNSAFE;
        return FOUND;
    }
    const struct mtr_jmethod_entry *m =
        obj->kind == MTR_JK_STR ? mtr_jstr_method(name) : mtr_jother_method(obj, name);
    return m ? method_value(r, obj, m, out) : NOT_FOUND;
}

/* Whether v can be an index, and which. */
static bool as_index(const struct mtr_jv *v, int64_t *out)
{
    if (!mtr_jis_int(v))
        return false;
    *out = mtr_jas_int(v);
    return true;
}

static bool clip_index(int64_t *i, int64_t len)
{
    if (*i < 0)
        *i += len;
    return *i >= 0 && *i < len;
}

/* The byte offset of character i, which may be negative, at a cost that goes with i; the length
 * when there is none. */
static uint32_t char_offset(struct mtr_str s, int64_t i)
{
    uint32_t cp, at = (uint32_t)s.len;
    if (i >= 0)
        return (uint64_t)i < s.len ? mtr_joffset(s, i) : at;
    for (; i < 0; i++) {
        if (at == 0)
            return (uint32_t)s.len;
        at -= mtr_jdecode_last((struct mtr_str){s.ptr, at}, &cp);
    }
    return at;
}

static enum found str_item(struct mtr_jr *r, const struct mtr_jv *obj, int64_t i,
                           struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(obj);
    uint32_t cp, from = char_offset(s, i);
    if (from >= s.len)
        return NOT_FOUND;
    if (!mtr_jstep(r, (i < 0 ? s.len - from : from) / 64))
        return FAILED;
    return mtr_jsub(r, obj, from, mtr_jdecode(s.ptr + from, &cp), out) ? FOUND : FAILED;
}

/* Python's obj[key] where it neither fails with TypeError nor LookupError. */
static enum found item(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jv *key,
                       struct mtr_jv *out)
{
    int64_t i;
    uint32_t at;
    switch (obj->kind) {
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        if (!as_index(key, &i) || !clip_index(&i, obj->list->count))
            return NOT_FOUND;
        return mtr_jlist_at(r, obj->list, (uint32_t)i, out) ? FOUND : FAILED;
    case MTR_JK_STR:
        return as_index(key, &i) ? str_item(r, obj, i, out) : NOT_FOUND;
    case MTR_JK_RANGE:
        if (!as_index(key, &i) || !clip_index(&i, obj->range->count))
            return NOT_FOUND;
        *out = mtr_jint(obj->range->start + i * obj->range->step);
        return FOUND;
    case MTR_JK_DICT:
        if (key->kind == MTR_JK_STR)
            at = mtr_jdict_find_str(obj->dict, mtr_jbytes(key));
        else if (key->kind == MTR_JK_LIST || key->kind == MTR_JK_DICT || key->kind == MTR_JK_VIEW)
            return NOT_FOUND;
        else if (!mtr_jdict_find(r, obj->dict, key, &at))
            return FAILED;
        if (at == UINT32_MAX)
            return NOT_FOUND;
        return mtr_jdict_value(r, obj->dict, at, out) ? FOUND : FAILED;
    case MTR_JK_BLOCKS:
        return key->kind == MTR_JK_STR ? block_attr(r, mtr_jbytes(key), out) : NOT_FOUND;
    default:
        return NOT_FOUND;
    }
}

bool mtr_jgetattr(struct mtr_jr *r, const struct mtr_jv *obj, struct mtr_str name,
                  struct mtr_jv *out)
{
    if (obj->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, obj);
    enum found f = attribute(r, obj, name, out);
    if (f == NOT_FOUND) {
        struct mtr_jv key = mtr_jstr(name, MTR_JTRUSTED);
        f = item(r, obj, &key, out);
    }
    if (f == NOT_FOUND)
        *out = mtr_jundefined(name);
    return f != FAILED;
}

bool mtr_jgetitem(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jv *key,
                  struct mtr_jv *out)
{
    if (obj->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, obj);
    enum found f = item(r, obj, key, out);
    if (f == NOT_FOUND && key->kind == MTR_JK_STR)
        f = attribute(r, obj, mtr_jbytes(key), out);
    if (f == NOT_FOUND)
        *out = mtr_jundefined(key->kind == MTR_JK_STR ? mtr_jbytes(key) : mtr_str("element"));
    return f != FAILED;
}

/* ---- slices ---- */

static bool slice_bound(struct mtr_jr *r, const struct mtr_jv *v, bool *given, int64_t *out)
{
    *given = v->kind != MTR_JK_MISSING && v->kind != MTR_JK_NONE;
    if (!*given)
        return true;
    if (v->kind == MTR_JK_BIG) {
        *out = v->text[0] == '-' ? INT64_MIN / 2 : INT64_MAX / 2;
        return true;
    }
    if (!mtr_jis_int(v))
        return mtr_jfail(r, MTR_INVALID, "slice indices must be integers or None, not '%s'",
                         mtr_jtype_name(v));
    *out = mtr_jas_int(v);
    return true;
}

/* As Python's slice.indices(len): first index and number of items. */
static bool slice_range(struct mtr_jr *r, int64_t len, const struct mtr_jv *start,
                        const struct mtr_jv *stop, const struct mtr_jv *step,
                        struct mtr_jrange *out)
{
    int64_t a = 0, b = 0, s = 1;
    bool has_a, has_b, has_s;
    if (!slice_bound(r, start, &has_a, &a) || !slice_bound(r, stop, &has_b, &b) ||
        !slice_bound(r, step, &has_s, &s))
        return false;
    if (!has_s)
        s = 1;
    if (s == 0)
        return mtr_jfail(r, MTR_INVALID, "slice step cannot be zero");
    if (s < -INT64_MAX / 4)
        s = -INT64_MAX / 4;
    if (s > INT64_MAX / 4)
        s = INT64_MAX / 4;
    int64_t low = s > 0 ? 0 : -1, high = s > 0 ? len : len - 1;
    int64_t *ends[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        if (!(i ? has_b : has_a)) {
            *ends[i] = (s > 0) == (i == 0) ? low : high;
            continue;
        }
        if (*ends[i] < 0)
            *ends[i] += len;
        *ends[i] = *ends[i] < low ? low : *ends[i] > high ? high : *ends[i];
    }
    int64_t count = s > 0 ? (b > a ? (b - a + s - 1) / s : 0) : (a > b ? (a - b - s - 1) / -s : 0);
    *out = (struct mtr_jrange){.start = a, .stop = b, .step = s, .count = count};
    return true;
}

static bool slice_str(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jrange *g,
                      struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(obj);
    struct mtr_jtext t = {0};
    if (!mtr_jstep(r, s.len / 64))
        return false;
    if (g->count <= 0)
        return mtr_jsub(r, obj, 0, 0, out);
    if (g->step == 1) {
        uint32_t from = mtr_joffset(s, g->start);
        uint32_t len = mtr_joffset(mtr_str_sub(s, from, s.len), g->count);
        return mtr_jsub(r, obj, from, len, out);
    }
    uint32_t at = mtr_joffset(s, g->start), cp;
    for (int64_t i = 0; i < g->count; i++) {
        if (!mtr_jtext_slice(r, &t, obj, at, mtr_jdecode(s.ptr + at, &cp)) || !mtr_jstep(r, 1))
            return false;
        int64_t left = i + 1 < g->count ? g->step : 0;
        for (; left > 0; left--)
            at += mtr_jdecode(s.ptr + at, &cp);
        for (; left < 0; left++)
            at -= mtr_jdecode_last((struct mtr_str){s.ptr, at}, &cp);
    }
    return mtr_jtext_finish(r, &t, obj->flags & MTR_JF_MARKUP, out);
}

static bool slice_list(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jrange *g,
                       struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, (uint32_t)g->count);
    if (!l || !mtr_jstep(r, (uint64_t)g->count / 4))
        return false;
    for (int64_t i = 0; i < g->count; i++) {
        if (!mtr_jlist_at(r, obj->list, (uint32_t)(g->start + i * g->step), &l->items[i]))
            return false;
    }
    l->count = (uint32_t)g->count;
    *out = *obj;
    out->flags = 0;
    out->list = l;
    return true;
}

bool mtr_jslice(struct mtr_jr *r, const struct mtr_jv *obj, const struct mtr_jv *start,
                const struct mtr_jv *stop, const struct mtr_jv *step, struct mtr_jv *out)
{
    struct mtr_jrange g;
    int64_t len;
    if (obj->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, obj);
    bool sliceable = obj->kind == MTR_JK_STR || obj->kind == MTR_JK_LIST ||
                     obj->kind == MTR_JK_TUPLE || obj->kind == MTR_JK_RANGE;
    if (!sliceable || !mtr_jlen(obj, &len))
        return mtr_jfail(r, MTR_INVALID, "'%s' object can't be sliced", mtr_jtype_name(obj));
    if (!slice_range(r, len, start, stop, step, &g))
        return false;
    if (obj->kind == MTR_JK_STR)
        return slice_str(r, obj, &g, out);
    if (obj->kind != MTR_JK_RANGE)
        return slice_list(r, obj, &g, out);
    struct mtr_jrange *sub = mtr_jalloc(r, sizeof *sub);
    if (!sub)
        return false;
    *sub = g;
    sub->start = obj->range->start + g.start * obj->range->step;
    sub->stop = obj->range->start + g.stop * obj->range->step;
    sub->step = obj->range->step * g.step;
    *out = *obj;
    out->range = sub;
    return true;
}
