/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Iteration. Filters that are generators in jinja2 (map, select, unique, batch, ...) are lazy here
 * too: an error in one appears when its items are asked for, and only then.
 */
#include "broker/text/jinja/run.h"

struct mtr_jiter *mtr_jiter_new(struct mtr_jr *r, uint8_t kind, const struct mtr_jv *source)
{
    struct mtr_jiter *it = mtr_jalloc(r, sizeof *it);
    if (!it)
        return NULL;
    *it = (struct mtr_jiter){.kind = kind};
    if (source)
        it->source = *source;
    return it;
}

/* How a value is walked; MTR_JI_EMPTY with *no for what can't be. */
static uint8_t kind_for(const struct mtr_jv *v, bool *no)
{
    *no = false;
    switch (v->kind) {
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        return MTR_JI_LIST;
    case MTR_JK_STR:
        return MTR_JI_STR;
    case MTR_JK_DICT:
        return MTR_JI_KEYS;
    case MTR_JK_VIEW:
        return v->sub == MTR_JVIEW_KEYS     ? MTR_JI_KEYS
               : v->sub == MTR_JVIEW_VALUES ? MTR_JI_VALUES
                                            : MTR_JI_ITEMS;
    case MTR_JK_RANGE:
        return MTR_JI_RANGE;
    case MTR_JK_UNDEFINED:
        return MTR_JI_EMPTY;
    default:
        *no = v->kind != MTR_JK_ITER;
        return MTR_JI_EMPTY;
    }
}

bool mtr_jiterable(const struct mtr_jv *v)
{
    bool no;
    kind_for(v, &no);
    return !no || v->kind == MTR_JK_LOOP;
}

bool mtr_jiter_of(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jiter **out)
{
    bool no;
    uint8_t kind = kind_for(v, &no);
    if (v->kind == MTR_JK_ITER) {
        *out = v->iter;
        return true;
    }
    if (no)
        return mtr_jfail(r, MTR_INVALID, "'%s' object is not iterable", mtr_jtype_name(v));
    *out = mtr_jiter_new(r, kind, v);
    return *out;
}

/* ---- the lazy ones ---- */

/* Starts a lazy filter: nothing comes out of what is false, even if it can't be walked. */
static bool start(struct mtr_jr *r, struct mtr_jiter *it, bool ask_truth, bool *end)
{
    if (it->started)
        return true;
    it->started = true;
    if (ask_truth && !mtr_jtruth(&it->source)) {
        it->kind = MTR_JI_EMPTY;
        *end = true;
        return true;
    }
    return mtr_jiter_of(r, &it->source, &it->inner);
}

static bool inner_next(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    return mtr_jnext(r, it->inner, out, end);
}

static bool call_with(struct mtr_jr *r, const struct mtr_jiter *it, uint32_t skip,
                      const struct mtr_jv *item, struct mtr_jcall *call)
{
    struct mtr_jv *pos = mtr_jalloc(r, (it->call->pos_count + 1) * sizeof *pos);
    if (!pos)
        return false;
    *call = *it->call;
    call->pos = pos;
    call->pos_count = it->call->pos_count - skip + 1;
    pos[0] = *item;
    memcpy(pos + 1, it->call->pos + skip, (it->call->pos_count - skip) * sizeof *pos);
    return true;
}

/* The filter or test that an argument names. */
static bool named(struct mtr_jr *r, const struct mtr_jv *name, bool test, size_t *index)
{
    *index = SIZE_MAX;
    if (name->kind == MTR_JK_STR)
        *index = test ? mtr_jtest_find(mtr_jbytes(name)) : mtr_jfilter_find(mtr_jbytes(name));
    if (*index != SIZE_MAX)
        return true;
    if (name->kind != MTR_JK_STR)
        return mtr_jfail(r, MTR_INVALID, "no %s of this name", test ? "test" : "filter");
    return mtr_jfail(r, MTR_INVALID, "no %s named '%.*s'", test ? "test" : "filter",
                     MTR_STR_ARG(mtr_jbytes(name)));
}

static bool next_map(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    struct mtr_jv item;
    if (!start(r, it, true, end) || *end || !inner_next(r, it, &item, end) || *end)
        return *end && !r->failed;
    if (it->by_attr)
        return mtr_jattr_path(r, &item, &it->attr,
                              it->extra.kind == MTR_JK_NONE ? NULL : &it->extra, out);
    size_t filter;
    struct mtr_jcall call;
    if (it->call->pos_count == 0)
        return mtr_jfail(r, MTR_INVALID, "map requires a filter argument");
    return named(r, &it->call->pos[0], false, &filter) && call_with(r, it, 1, &item, &call) &&
           mtr_jfilter_run(r, filter, &call, out);
}

static bool select_passes(struct mtr_jr *r, struct mtr_jiter *it, const struct mtr_jv *item,
                          bool *pass)
{
    struct mtr_jv v = *item;
    uint32_t off = it->by_attr ? 1 : 0;
    if (it->by_attr && it->call->pos_count == 0)
        return mtr_jfail(r, MTR_INVALID, "Missing parameter for attribute name");
    if (it->by_attr && !mtr_jattr_path(r, item, &it->call->pos[0], NULL, &v))
        return false;
    if (it->call->pos_count > off) {
        size_t test;
        struct mtr_jcall call;
        if (!named(r, &it->call->pos[off], true, &test) || !call_with(r, it, off + 1, &v, &call) ||
            !mtr_jtest_run(r, test, &call, pass))
            return false;
    } else {
        *pass = mtr_jtruth(&v);
    }
    *pass = *pass != it->reject;
    return true;
}

static bool next_select(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    if (!start(r, it, true, end) || *end)
        return *end;
    for (;;) {
        bool pass;
        if (!inner_next(r, it, out, end))
            return false;
        if (*end)
            return true;
        if (!select_passes(r, it, out, &pass))
            return false;
        if (pass)
            return true;
    }
}

static bool next_unique(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    if (!start(r, it, false, end))
        return false;
    for (;;) {
        struct mtr_jv key;
        uint32_t at;
        if (!inner_next(r, it, out, end))
            return false;
        if (*end)
            return true;
        if (!mtr_jattr_path(r, out, &it->attr, NULL, &key) ||
            (!it->case_sensitive && !mtr_jignore_case(r, &key)) ||
            !mtr_jdict_find(r, it->extra.dict, &key, &at))
            return false;
        if (at == UINT32_MAX)
            return mtr_jdict_put(r, it->extra.dict, key, mtr_jnone());
    }
}

static bool next_batch(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    struct mtr_jlist *l = mtr_jlist_new(r, 0);
    uint32_t cap = 0;
    if (!l || !start(r, it, false, end))
        return false;
    /* A group is given out when an item comes that does not fit in: so a size below 1 makes one
     * group of everything, and size 0 an empty one first. */
    for (;;) {
        struct mtr_jv item;
        bool done = false;
        if (it->attr.kind != MTR_JK_MISSING) {
            item = it->attr;
            it->attr.kind = MTR_JK_MISSING;
        } else if (!inner_next(r, it, &item, &done)) {
            return false;
        }
        if (done) {
            *end = l->count == 0;
            while (l->count && it->extra.kind != MTR_JK_NONE && l->count < it->end) {
                if (!mtr_jlist_push(r, l, &cap, it->extra))
                    return false;
            }
            break;
        }
        if (l->count == it->end && !(it->end == 0 && it->pos)) {
            it->attr = item;
            it->pos = it->end == 0;
            break;
        }
        it->pos = 0;
        if (!mtr_jlist_push(r, l, &cap, item))
            return false;
    }
    *out = mtr_jlist_value(l);
    return true;
}

static bool next_slice(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    if (!it->started) {
        struct mtr_jlist *all;
        it->started = true;
        if (!mtr_jcollect(r, &it->source, &all))
            return false;
        it->source = mtr_jlist_value(all);
        if (it->end == 0)
            return mtr_jfail(r, MTR_INVALID, "integer division or modulo by zero");
    }
    struct mtr_jlist *all = it->source.list;
    if (it->pos >= it->end) {
        *end = true;
        return true;
    }
    int64_t each = all->count / it->end, more = all->count % it->end, n = it->pos++;
    int64_t from = n * each + (n < more ? n : more);
    int64_t count = each + (n < more);
    struct mtr_jlist *l = mtr_jlist_new(r, (uint32_t)count + 1);
    if (!l)
        return false;
    for (int64_t i = 0; i < count; i++)
        l->items[l->count++] = all->items[from + i];
    if (it->extra.kind != MTR_JK_NONE && n >= more)
        l->items[l->count++] = it->extra;
    *out = mtr_jlist_value(l);
    return true;
}

static bool next_items(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    if (it->source.kind == MTR_JK_UNDEFINED) {
        *end = true;
        return true;
    }
    if (it->source.kind != MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "Can only get item pairs from a mapping.");
    it->kind = MTR_JI_ITEMS;
    return mtr_jnext(r, it, out, end);
}

static bool next_loop_filter(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    if (!start(r, it, false, end))
        return false;
    for (;;) {
        bool pass = false;
        if (!inner_next(r, it, out, end))
            return false;
        if (*end)
            return true;
        if (!mtr_jfilter_passes(r, it, out, &pass))
            return false;
        if (pass)
            return true;
    }
}

/* ---- all of them ---- */

static bool next_char(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(&it->source);
    uint32_t cp;
    uint32_t n = mtr_jdecode(s.ptr + it->pos, &cp);
    if (!mtr_jsub(r, &it->source, (uint32_t)it->pos, n, out))
        return false;
    out->flags &= (uint8_t)~MTR_JF_MARKUP; /* iterating markup gives plain strings */
    it->pos += n;
    return true;
}

static bool next_member(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out)
{
    struct mtr_jdict *d = it->source.dict;
    uint32_t i = (uint32_t)it->pos++;
    struct mtr_jv value;
    if (it->kind == MTR_JI_KEYS) {
        *out = d->keys[i];
        return true;
    }
    if (!mtr_jdict_value(r, d, i, &value))
        return false;
    if (it->kind == MTR_JI_ITEMS)
        return mtr_jpair(r, d->keys[i], value, out);
    *out = value;
    return true;
}

/* Lazy ones may be stacked as deep as a template likes. */
static bool next_lazy(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    static bool (*const next[])(struct mtr_jr *, struct mtr_jiter *, struct mtr_jv *, bool *) = {
        [MTR_JI_MAP] = next_map,
        [MTR_JI_SELECT] = next_select,
        [MTR_JI_UNIQUE] = next_unique,
        [MTR_JI_BATCH] = next_batch,
        [MTR_JI_SLICE] = next_slice,
        [MTR_JI_LAZY_ITEMS] = next_items,
        [MTR_JI_LOOP_FILTER] = next_loop_filter,
    };
    if (!mtr_jdeeper(r))
        return false;
    bool ok = next[it->kind](r, it, out, end);
    mtr_jshallower(r);
    return ok;
}

bool mtr_jnext(struct mtr_jr *r, struct mtr_jiter *it, struct mtr_jv *out, bool *end)
{
    *end = false;
    if (!mtr_jstep(r, 1))
        return false;
    switch (it->kind) {
    case MTR_JI_LIST:
        if (it->pos < it->source.list->count)
            return mtr_jlist_at(r, it->source.list, (uint32_t)it->pos++, out);
        break;
    case MTR_JI_REVERSE:
        if (it->pos < it->source.list->count)
            return mtr_jlist_at(r, it->source.list,
                                (uint32_t)(it->source.list->count - 1 - it->pos++), out);
        break;
    case MTR_JI_STR:
        if (it->pos < it->source.len)
            return next_char(r, it, out);
        break;
    case MTR_JI_KEYS:
    case MTR_JI_VALUES:
    case MTR_JI_ITEMS:
        if (it->pos < it->source.dict->count)
            return next_member(r, it, out);
        break;
    case MTR_JI_RANGE:
        if (it->pos < it->source.range->count) {
            *out = mtr_jint(it->source.range->start + it->pos++ * it->source.range->step);
            return true;
        }
        break;
    case MTR_JI_EMPTY:
        break;
    default:
        return next_lazy(r, it, out, end);
    }
    *end = true;
    return true;
}

bool mtr_jcollect(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jlist **out)
{
    struct mtr_jiter *it;
    struct mtr_jlist *l = mtr_jlist_new(r, 0);
    uint32_t cap = 0;
    if (!l || !mtr_jiter_of(r, v, &it))
        return false;
    for (;;) {
        struct mtr_jv item;
        bool end;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            break;
        if (!mtr_jlist_push(r, l, &cap, item))
            return false;
    }
    *out = l;
    return true;
}

bool mtr_jreversed(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    struct mtr_jlist *l = NULL;
    struct mtr_jv list;
    struct mtr_jiter *it;
    if (v->kind == MTR_JK_LIST || v->kind == MTR_JK_TUPLE) {
        list = *v;
    } else {
        if (!mtr_jcollect(r, v, &l))
            return false;
        list = mtr_jlist_value(l);
    }
    it = mtr_jiter_new(r, MTR_JI_REVERSE, &list);
    if (!it)
        return false;
    *out = mtr_jiter_value(it);
    return true;
}
