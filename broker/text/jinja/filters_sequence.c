/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Filters over lists, dicts and other iterables.
 */
#include "broker/text/jinja/run.h"

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out
#define CALL struct mtr_jr *r, const struct mtr_jcall *call, struct mtr_jv *out

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

static bool is_true(const struct mtr_jv *v)
{
    return given(v) && mtr_jtruth(v);
}

static struct mtr_jv or_none(const struct mtr_jv *v)
{
    return given(v) ? *v : mtr_jnone();
}

/* ---- attributes ---- */

bool mtr_jignore_case(struct mtr_jr *r, struct mtr_jv *v)
{
    return v->kind != MTR_JK_STR || mtr_jcase(r, v, MTR_JCASE_LOWER, v);
}

/* One part of "a.0.b": digits are an index. */
static bool attr_step(struct mtr_jr *r, struct mtr_jv *v, struct mtr_str part,
                      const struct mtr_jv *default_value)
{
    int64_t index;
    struct mtr_jv key = mtr_jstr(part, MTR_JTRUSTED), item;
    bool digits = part.len > 0;
    for (size_t i = 0; i < part.len; i++)
        digits &= part.ptr[i] >= '0' && part.ptr[i] <= '9';
    if (digits && mtr_str_to_i64(part, &index))
        key = mtr_jint(index);
    if (!mtr_jgetitem(r, v, &key, &item))
        return false;
    *v = item.kind == MTR_JK_UNDEFINED && default_value ? *default_value : item;
    return true;
}

bool mtr_jattr_path(struct mtr_jr *r, const struct mtr_jv *item, const struct mtr_jv *attr,
                    const struct mtr_jv *default_value, struct mtr_jv *out)
{
    struct mtr_jv v = *item, next;
    if (attr->kind == MTR_JK_NONE || attr->kind == MTR_JK_MISSING) {
        *out = v;
        return true;
    }
    if (attr->kind != MTR_JK_STR) {
        if (!mtr_jgetitem(r, &v, attr, &next))
            return false;
        *out = next.kind == MTR_JK_UNDEFINED && default_value ? *default_value : next;
        return true;
    }
    struct mtr_str path = mtr_jbytes(attr);
    for (;;) {
        size_t dot = mtr_str_find(path, MTR_STR("."), 0);
        if (!attr_step(r, &v, mtr_str_sub(path, 0, dot), default_value))
            return false;
        if (dot == SIZE_MAX)
            break;
        path = mtr_str_sub(path, dot + 1, path.len);
    }
    *out = v;
    return true;
}

/* The key of sort(): a list with one entry per attribute of "a,b". */
static bool sort_key(struct mtr_jr *r, const struct mtr_jv *item, const struct mtr_jv *attr,
                     bool case_sensitive, struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, 1);
    struct mtr_str rest = attr->kind == MTR_JK_STR ? mtr_jbytes(attr) : MTR_STR("");
    uint32_t cap = 1;
    for (bool more = true; l && more;) {
        struct mtr_jv key, part = *attr;
        size_t comma = mtr_str_find(rest, MTR_STR(","), 0);
        more = attr->kind == MTR_JK_STR && comma != SIZE_MAX;
        if (attr->kind == MTR_JK_STR)
            part = mtr_jstr(mtr_str_sub(rest, 0, comma), MTR_JTRUSTED);
        if (!mtr_jattr_path(r, item, &part, NULL, &key) ||
            (!case_sensitive && !mtr_jignore_case(r, &key)) || !mtr_jlist_push(r, l, &cap, key))
            return false;
        if (more)
            rest = mtr_str_sub(rest, comma + 1, rest.len);
    }
    if (!l)
        return false;
    *out = mtr_jlist_value(l);
    return true;
}

/* ---- sorting ---- */

struct sorter {
    struct mtr_jr *r;
    struct mtr_jv *keys, *items;
    struct mtr_jv *key_buf, *item_buf;
    bool reverse;
};

/* Merge sort of [from, to): stable, also in reverse. */
static bool merge_sort(struct sorter *s, uint32_t from, uint32_t to)
{
    if (to - from < 2)
        return true;
    uint32_t mid = from + (to - from) / 2, i = from, k = mid, n = from;
    if (!merge_sort(s, from, mid) || !merge_sort(s, mid, to))
        return false;
    while (i < mid && k < to) {
        bool right;
        bool ok = s->reverse ? mtr_jless(s->r, &s->keys[i], &s->keys[k], &right)
                             : mtr_jless(s->r, &s->keys[k], &s->keys[i], &right);
        if (!ok)
            return false;
        uint32_t from_index = right ? k++ : i++;
        s->key_buf[n] = s->keys[from_index];
        s->item_buf[n++] = s->items[from_index];
    }
    for (; i < mid; i++, n++) {
        s->key_buf[n] = s->keys[i];
        s->item_buf[n] = s->items[i];
    }
    for (; k < to; k++, n++) {
        s->key_buf[n] = s->keys[k];
        s->item_buf[n] = s->items[k];
    }
    memcpy(s->keys + from, s->key_buf + from, (to - from) * sizeof *s->keys);
    memcpy(s->items + from, s->item_buf + from, (to - from) * sizeof *s->items);
    return true;
}

bool mtr_jsort(struct mtr_jr *r, struct mtr_jv *keys, struct mtr_jv *items, uint32_t count,
               bool reverse)
{
    struct sorter s = {.r = r, .keys = keys, .items = items, .reverse = reverse};
    s.key_buf = mtr_jalloc(r, 2 * ((size_t)count + 1) * sizeof *keys);
    if (!s.key_buf)
        return false;
    s.item_buf = s.key_buf + count + 1;
    return merge_sort(&s, 0, count);
}

static bool f_sort(ARGS)
{
    struct mtr_jlist *l;
    struct mtr_jv attr = or_none(&a[3]);
    if (!mtr_jcollect(r, &a[0], &l))
        return false;
    struct mtr_jv *keys = mtr_jalloc(r, (l->count + 1) * sizeof *keys);
    if (!keys)
        return false;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!sort_key(r, &l->items[i], &attr, is_true(&a[2]), &keys[i]))
            return false;
    }
    *out = mtr_jlist_value(l);
    return mtr_jsort(r, keys, l->items, l->count, is_true(&a[1]));
}

static bool f_dictsort(ARGS)
{
    bool by_value = false;
    if (a[0].kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, &a[0]);
    if (a[0].kind != MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "'%s' object has no attribute 'items'",
                         mtr_jtype_name(&a[0]));
    if (given(&a[2])) {
        struct mtr_str by = a[2].kind == MTR_JK_STR ? mtr_jbytes(&a[2]) : MTR_STR("");
        by_value = mtr_str_is(by, "value");
        if (!by_value && !mtr_str_is(by, "key"))
            return mtr_jfail(r, MTR_INVALID, "You can only sort by either \"key\" or \"value\"");
    }
    struct mtr_jdict *d = a[0].dict;
    struct mtr_jlist *l = mtr_jlist_new(r, d->count);
    struct mtr_jv *keys = mtr_jalloc(r, (d->count + 1) * sizeof *keys);
    if (!l || !keys)
        return false;
    for (uint32_t i = 0; i < d->count; i++) {
        struct mtr_jv value;
        if (!mtr_jdict_value(r, d, i, &value) || !mtr_jpair(r, d->keys[i], value, &l->items[i]))
            return false;
        keys[i] = by_value ? value : d->keys[i];
        if (!is_true(&a[1]) && !mtr_jignore_case(r, &keys[i]))
            return false;
    }
    l->count = d->count;
    *out = mtr_jlist_value(l);
    return mtr_jsort(r, keys, l->items, l->count, is_true(&a[3]));
}

static bool f_groupby(ARGS)
{
    struct mtr_jlist *l, *groups = mtr_jlist_new(r, 0), *group = NULL;
    uint32_t groups_cap = 0, group_cap = 0;
    struct mtr_jv default_value = or_none(&a[2]);
    const struct mtr_jv *fallback = default_value.kind == MTR_JK_NONE ? NULL : &default_value;
    bool case_sensitive = is_true(&a[3]);
    if (!groups || !mtr_jcollect(r, &a[0], &l))
        return false;
    struct mtr_jv *keys = mtr_jalloc(r, (l->count + 1) * sizeof *keys);
    if (!keys)
        return false;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!mtr_jattr_path(r, &l->items[i], &a[1], fallback, &keys[i]) ||
            (!case_sensitive && !mtr_jignore_case(r, &keys[i])))
            return false;
    }
    if (!mtr_jsort(r, keys, l->items, l->count, false))
        return false;
    for (uint32_t i = 0; i < l->count; i++) {
        bool same = false;
        if (i && !mtr_jequal(r, &keys[i - 1], &keys[i], &same))
            return false;
        if (!same) {
            struct mtr_jv grouper = keys[i], pair;
            group = mtr_jlist_new(r, 0);
            group_cap = 0;
            if (!group ||
                (!case_sensitive && !mtr_jattr_path(r, &l->items[i], &a[1], fallback, &grouper)) ||
                !mtr_jpair(r, grouper, mtr_jlist_value(group), &pair))
                return false;
            pair.flags |= MTR_JF_GROUP;
            if (!mtr_jlist_push(r, groups, &groups_cap, pair))
                return false;
        }
        if (!mtr_jlist_push(r, group, &group_cap, l->items[i]))
            return false;
    }
    *out = mtr_jlist_value(groups);
    return true;
}

/* ---- one out of many ---- */

static bool f_first(ARGS)
{
    struct mtr_jiter *it;
    bool end;
    if (!mtr_jiter_of(r, &a[0], &it) || !mtr_jnext(r, it, out, &end))
        return false;
    if (end)
        *out = mtr_jundefined(MTR_STR("the first item of nothing"));
    return true;
}

static bool f_last(ARGS)
{
    struct mtr_jv reversed;
    bool end;
    if (a[0].kind == MTR_JK_ITER || (a[0].kind == MTR_JK_VIEW && false))
        return mtr_jfail(r, MTR_INVALID, "'generator' object is not reversible");
    if (!mtr_jreversed(r, &a[0], &reversed) || !mtr_jnext(r, reversed.iter, out, &end))
        return false;
    if (end)
        *out = mtr_jundefined(MTR_STR("the last item of nothing"));
    return true;
}

static bool min_or_max(struct mtr_jr *r, const struct mtr_jv *a, bool max, struct mtr_jv *out)
{
    struct mtr_jiter *it;
    struct mtr_jv attr = or_none(&a[2]), best_key = {0};
    bool have = false;
    *out = mtr_jundefined(MTR_STR("the extreme of nothing"));
    if (!mtr_jiter_of(r, &a[0], &it))
        return false;
    for (;;) {
        struct mtr_jv item, key;
        bool end, better = true;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            return true;
        if (!mtr_jattr_path(r, &item, &attr, NULL, &key) ||
            (!is_true(&a[1]) && !mtr_jignore_case(r, &key)))
            return false;
        if (have && !mtr_jorder(r, max ? '>' : '<', &key, &best_key, &better))
            return false;
        if (better) {
            *out = item;
            best_key = key;
        }
        have = true;
    }
}

static bool f_min(ARGS)
{
    return min_or_max(r, a, false, out);
}

static bool f_max(ARGS)
{
    return min_or_max(r, a, true, out);
}

static bool f_random(ARGS)
{
    (void)a, (void)out;
    return mtr_jfail(r, MTR_INVALID,
                     "the filter random is not available: the same request gives the same prompt");
}

/* ---- all of them ---- */

static bool f_length(ARGS)
{
    int64_t len;
    if (a[0].kind == MTR_JK_LOOP) {
        if (!mtr_jloop_len(r, a[0].loop, &len))
            return false;
    } else if (!mtr_jlen(&a[0], &len)) {
        return mtr_jfail(r, MTR_INVALID, "object of type '%s' has no len()", mtr_jtype_name(&a[0]));
    }
    *out = mtr_jint(len);
    return mtr_jstep(r, a[0].kind == MTR_JK_STR ? a[0].len / 64 : 0);
}

static bool f_list(ARGS)
{
    struct mtr_jlist *l;
    if (!mtr_jcollect(r, &a[0], &l))
        return false;
    *out = mtr_jlist_value(l);
    return true;
}

static bool f_items(ARGS)
{
    struct mtr_jiter *it = mtr_jiter_new(r, MTR_JI_LAZY_ITEMS, &a[0]);
    if (!it)
        return false;
    *out = mtr_jiter_value(it);
    return true;
}

static bool f_reverse(ARGS)
{
    struct mtr_jv step = mtr_jint(-1), none = {0};
    struct mtr_jlist *l;
    if (a[0].kind == MTR_JK_STR)
        return mtr_jslice(r, &a[0], &none, &none, &step, out);
    if (a[0].kind != MTR_JK_ITER)
        return mtr_jreversed(r, &a[0], out);
    if (!mtr_jcollect(r, &a[0], &l))
        return false;
    for (uint32_t i = 0, k = l->count; i + 1 < k; i++) {
        struct mtr_jv v = l->items[i];
        l->items[i] = l->items[--k];
        l->items[k] = v;
    }
    *out = mtr_jlist_value(l);
    return true;
}

static bool f_join(ARGS)
{
    struct mtr_jiter *it;
    struct mtr_jtext t = {0};
    struct mtr_jv sep = mtr_jcstr("");
    if ((given(&a[1]) && !mtr_jto_str(r, &a[1], &sep)) || !mtr_jiter_of(r, &a[0], &it))
        return false;
    struct mtr_jv attr = or_none(&a[2]);
    for (bool first = true;; first = false) {
        struct mtr_jv item;
        bool end;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            return mtr_jtext_finish(r, &t, 0, out);
        if (!mtr_jattr_path(r, &item, &attr, NULL, &item) ||
            (!first && !mtr_jtext_value(r, &t, &sep)) || !mtr_jput_str(r, &t, &item))
            return false;
    }
}

static bool f_sum(ARGS)
{
    struct mtr_jiter *it;
    struct mtr_jv attr = or_none(&a[1]), total = given(&a[2]) ? a[2] : mtr_jint(0);
    if (total.kind == MTR_JK_STR)
        return mtr_jfail(r, MTR_INVALID, "sum() can't sum strings");
    if (!mtr_jiter_of(r, &a[0], &it))
        return false;
    for (;;) {
        struct mtr_jv item;
        bool end;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            break;
        if (!mtr_jattr_path(r, &item, &attr, NULL, &item) ||
            !mtr_jbinary(r, '+', &total, &item, &total))
            return false;
    }
    *out = total;
    return true;
}

static bool lazy(struct mtr_jr *r, uint8_t kind, const struct mtr_jv *source, struct mtr_jiter **it,
                 struct mtr_jv *out)
{
    *it = mtr_jiter_new(r, kind, source);
    if (!*it)
        return false;
    *out = mtr_jiter_value(*it);
    return true;
}

static bool f_unique(ARGS)
{
    struct mtr_jiter *it;
    if (!lazy(r, MTR_JI_UNIQUE, &a[0], &it, out))
        return false;
    it->case_sensitive = is_true(&a[1]);
    it->attr = or_none(&a[2]);
    it->extra.dict = mtr_jdict_new(r, 0);
    return it->extra.dict;
}

static bool sized(struct mtr_jr *r, uint8_t kind, const struct mtr_jv *a, struct mtr_jv *out)
{
    struct mtr_jiter *it;
    int64_t size;
    if (!mtr_jarg_int(r, "the size", &a[1], &size) || !lazy(r, kind, &a[0], &it, out))
        return false;
    it->end = size;
    it->extra = or_none(&a[2]);
    return true;
}

static bool f_batch(ARGS)
{
    return sized(r, MTR_JI_BATCH, a, out);
}

static bool f_slice(ARGS)
{
    return sized(r, MTR_JI_SLICE, a, out);
}

/* Splits a call into the value and the rest. */
static bool keep_call(struct mtr_jr *r, uint8_t kind, const struct mtr_jcall *call,
                      struct mtr_jiter **it, struct mtr_jv *out)
{
    struct mtr_jcall *rest = mtr_jalloc(r, sizeof *rest);
    if (!rest || !lazy(r, kind, &call->pos[0], it, out))
        return false;
    *rest = *call;
    rest->pos++;
    rest->pos_count--;
    (*it)->call = rest;
    return true;
}

static bool f_map(CALL)
{
    struct mtr_jiter *it;
    if (!keep_call(r, MTR_JI_MAP, call, &it, out))
        return false;
    it->extra = mtr_jnone();
    for (uint32_t i = 0; it->call->pos_count == 0 && i < call->kw_count; i++) {
        if (mtr_str_is(call->kw[i].name, "attribute")) {
            it->by_attr = true;
            it->attr = call->kw[i].value;
        } else if (mtr_str_is(call->kw[i].name, "default")) {
            it->extra = call->kw[i].value;
        } else {
            it->reject = true; /* an unknown keyword: an error when it runs, if by attribute */
        }
    }
    if (it->by_attr && it->reject) {
        it->by_attr = false;
        it->call->pos_count = 0;
    }
    return true;
}

static bool select_call(CALL, bool by_attr, bool reject)
{
    struct mtr_jiter *it;
    if (!keep_call(r, MTR_JI_SELECT, call, &it, out))
        return false;
    it->by_attr = by_attr;
    it->reject = reject;
    return true;
}

static bool f_select(CALL)
{
    return select_call(r, call, out, false, false);
}

static bool f_reject(CALL)
{
    return select_call(r, call, out, false, true);
}

static bool f_selectattr(CALL)
{
    return select_call(r, call, out, true, false);
}

static bool f_rejectattr(CALL)
{
    return select_call(r, call, out, true, true);
}

/* ---- any value ---- */

static bool f_default(ARGS)
{
    (void)r;
    bool use = a[0].kind == MTR_JK_UNDEFINED || (is_true(&a[2]) && !mtr_jtruth(&a[0]));
    *out = !use ? a[0] : given(&a[1]) ? a[1] : mtr_jcstr("");
    return true;
}

/* obj.name, but never an item. */
static bool f_attr(ARGS)
{
    struct mtr_str name;
    if (!mtr_jarg_str(r, "attr", &a[1], &name))
        return false;
    if (a[0].kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, &a[0]);
    if (a[0].kind == MTR_JK_DICT && !mtr_jother_method(&a[0], name)) {
        *out = mtr_jundefined(name);
        return true;
    }
    return mtr_jgetattr(r, &a[0], name, out);
}

static const struct mtr_jfilter_entry filters[] = {
    {"length", "/value", 1, 1, f_length, NULL},
    {"count", "/value", 1, 1, f_length, NULL},
    {"default", "value default_value boolean", 1, 3, f_default, NULL},
    {"d", "value default_value boolean", 1, 3, f_default, NULL},
    {"list", "value", 1, 1, f_list, NULL},
    {"items", "value", 1, 1, f_items, NULL},
    {"join", "value d attribute", 1, 3, f_join, NULL},
    {"map", NULL, 1, MTR_JRAW, NULL, f_map},
    {"select", NULL, 1, MTR_JRAW, NULL, f_select},
    {"reject", NULL, 1, MTR_JRAW, NULL, f_reject},
    {"selectattr", NULL, 1, MTR_JRAW, NULL, f_selectattr},
    {"rejectattr", NULL, 1, MTR_JRAW, NULL, f_rejectattr},
    {"first", "seq", 1, 1, f_first, NULL},
    {"last", "seq", 1, 1, f_last, NULL},
    {"sort", "value reverse case_sensitive attribute", 1, 4, f_sort, NULL},
    {"dictsort", "value case_sensitive by reverse", 1, 4, f_dictsort, NULL},
    {"groupby", "value attribute default case_sensitive", 2, 4, f_groupby, NULL},
    {"unique", "value case_sensitive attribute", 1, 3, f_unique, NULL},
    {"reverse", "value", 1, 1, f_reverse, NULL},
    {"batch", "value linecount fill_with", 2, 3, f_batch, NULL},
    {"slice", "value slices fill_with", 2, 3, f_slice, NULL},
    {"sum", "iterable attribute start", 1, 3, f_sum, NULL},
    {"min", "value case_sensitive attribute", 1, 3, f_min, NULL},
    {"max", "value case_sensitive attribute", 1, 3, f_max, NULL},
    {"random", "seq", 1, 1, f_random, NULL},
    {"attr", "obj name", 2, 2, f_attr, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_sequence(void)
{
    return filters;
}
