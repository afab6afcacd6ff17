/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The methods of dicts, lists, numbers and of the helpers that templates make (cyclers, loops).
 */
#include "broker/text/jinja/run.h"

#include <math.h>
#include <stdio.h>

#define SELF struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jv *a, struct mtr_jv *out

/* ---- dicts ---- */

static bool dict_get(SELF)
{
    uint32_t at;
    if (!mtr_jdict_find(r, self->dict, &a[0], &at))
        return false;
    if (at != UINT32_MAX)
        return mtr_jdict_value(r, self->dict, at, out);
    *out = a[1].kind == MTR_JK_MISSING ? mtr_jnone() : a[1];
    return true;
}

static bool view(const struct mtr_jv *self, uint8_t which, struct mtr_jv *out)
{
    *out = *self;
    out->kind = MTR_JK_VIEW;
    out->sub = which;
    return true;
}

static bool dict_items(SELF)
{
    (void)r, (void)a;
    return view(self, MTR_JVIEW_ITEMS, out);
}

static bool dict_keys(SELF)
{
    (void)r, (void)a;
    return view(self, MTR_JVIEW_KEYS, out);
}

static bool dict_values(SELF)
{
    (void)r, (void)a;
    return view(self, MTR_JVIEW_VALUES, out);
}

/* Nothing changes dicts and lists, so that a copy may share; but it is another object. */
static bool dict_copy(SELF)
{
    struct mtr_jdict *d = mtr_jalloc(r, sizeof *d);
    (void)a;
    if (!d)
        return false;
    *d = *self->dict;
    *out = *self;
    out->dict = d;
    return true;
}

static bool dict_fromkeys(SELF)
{
    struct mtr_jlist *keys;
    struct mtr_jdict *d;
    (void)self;
    if (!mtr_jcollect(r, &a[0], &keys) || !(d = mtr_jdict_new(r, keys->count)))
        return false;
    for (uint32_t i = 0; i < keys->count; i++) {
        struct mtr_jv value = a[1].kind == MTR_JK_MISSING ? mtr_jnone() : a[1];
        if (!mtr_jdict_put(r, d, keys->items[i], value))
            return false;
    }
    *out = mtr_jdict_value_of(d);
    return true;
}

static bool view_isdisjoint(SELF)
{
    struct mtr_jiter *it;
    bool hit = false, end = false;
    struct mtr_jv item;
    if (!mtr_jiter_of(r, &a[0], &it))
        return false;
    while (!hit) {
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            break;
        if (!mtr_jcontains(r, self, &item, &hit))
            return false;
    }
    *out = mtr_jbool(!hit);
    return true;
}

/* ---- lists, tuples, ranges ---- */

static bool list_copy(SELF)
{
    struct mtr_jlist *l = mtr_jalloc(r, sizeof *l);
    (void)a;
    if (!l)
        return false;
    *l = *self->list;
    *out = *self;
    out->list = l;
    return true;
}

static bool seq_at(struct mtr_jr *r, const struct mtr_jv *self, int64_t i, struct mtr_jv *out)
{
    if (self->kind != MTR_JK_RANGE)
        return mtr_jlist_at(r, self->list, (uint32_t)i, out);
    *out = mtr_jint(self->range->start + i * self->range->step);
    return true;
}

static bool seq_count(SELF)
{
    int64_t len, n = 0;
    mtr_jlen(self, &len);
    for (int64_t i = 0; i < len; i++) {
        struct mtr_jv item;
        bool eq;
        if (!seq_at(r, self, i, &item) || !mtr_jequal(r, &item, &a[0], &eq))
            return false;
        n += eq;
    }
    *out = mtr_jint(n);
    return true;
}

static bool seq_index(SELF)
{
    int64_t len, from = 0, to;
    mtr_jlen(self, &len);
    to = len;
    if ((a[1].kind != MTR_JK_MISSING && !mtr_jarg_int(r, "start", &a[1], &from)) ||
        (a[2].kind != MTR_JK_MISSING && !mtr_jarg_int(r, "stop", &a[2], &to)))
        return false;
    from += from < 0 ? len : 0;
    to += to < 0 ? len : 0;
    from = from < 0 ? 0 : from;
    to = to > len ? len : to;
    for (int64_t i = from; i < to; i++) {
        struct mtr_jv item;
        bool eq;
        if (!seq_at(r, self, i, &item) || !mtr_jequal(r, &item, &a[0], &eq))
            return false;
        if (eq) {
            *out = mtr_jint(i);
            return true;
        }
    }
    return mtr_jfail(r, MTR_INVALID, "the value is not in the list");
}

/* ---- numbers ---- */

static bool int_bit_length(SELF)
{
    (void)r, (void)a;
    int64_t i = mtr_jas_int(self);
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    *out = mtr_jint(u ? 64 - __builtin_clzll(u) : 0);
    return true;
}

static bool int_bit_count(SELF)
{
    (void)r, (void)a;
    int64_t i = mtr_jas_int(self);
    *out = mtr_jint(__builtin_popcountll(i < 0 ? 0 - (uint64_t)i : (uint64_t)i));
    return true;
}

static bool conjugate(SELF)
{
    (void)r, (void)a;
    *out = *self;
    if (self->kind == MTR_JK_BOOL)
        *out = mtr_jint(self->boolean);
    return true;
}

static bool int_as_integer_ratio(SELF)
{
    (void)a;
    return mtr_jpair(r, mtr_jint(mtr_jas_int(self)), mtr_jint(1), out);
}

static bool float_is_integer(SELF)
{
    (void)r, (void)a;
    *out = mtr_jbool(isfinite(self->real) && self->real == floor(self->real));
    return true;
}

/* ---- cyclers and loops ---- */

static bool cycler_next(SELF)
{
    (void)r, (void)a;
    struct mtr_jcycler *c = self->cycler;
    *out = c->items.list->items[c->pos];
    c->pos = (c->pos + 1) % c->items.list->count;
    return true;
}

static bool cycler_reset(SELF)
{
    (void)r, (void)a;
    self->cycler->pos = 0;
    *out = mtr_jnone();
    return true;
}

static bool loop_cycle(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                       struct mtr_jv *out)
{
    return mtr_jloop_method(r, self->loop, "cycle", call, out);
}

static bool loop_changed(struct mtr_jr *r, const struct mtr_jv *self, const struct mtr_jcall *call,
                         struct mtr_jv *out)
{
    return mtr_jloop_method(r, self->loop, "changed", call, out);
}

/* ---- tables ---- */

static const struct mtr_jmethod_entry dict_methods[] = {
    {"get", "/key /default", 1, 2, dict_get, NULL},
    {"items", "", 0, 0, dict_items, NULL},
    {"keys", "", 0, 0, dict_keys, NULL},
    {"values", "", 0, 0, dict_values, NULL},
    {"copy", "", 0, 0, dict_copy, NULL},
    {"fromkeys", "/iterable /value", 1, 2, dict_fromkeys, NULL},
    {0},
};

static const struct mtr_jmethod_entry view_methods[] = {
    {"isdisjoint", "/other", 1, 1, view_isdisjoint, NULL},
    {0},
};

static const struct mtr_jmethod_entry list_methods[] = {
    {"index", "/value /start /stop", 1, 3, seq_index, NULL},
    {"count", "/value", 1, 1, seq_count, NULL},
    {"copy", "", 0, 0, list_copy, NULL},
    {0},
};

static const struct mtr_jmethod_entry tuple_methods[] = {
    {"index", "/value /start /stop", 1, 3, seq_index, NULL},
    {"count", "/value", 1, 1, seq_count, NULL},
    {0},
};

static const struct mtr_jmethod_entry int_methods[] = {
    {"bit_length", "", 0, 0, int_bit_length, NULL},
    {"bit_count", "", 0, 0, int_bit_count, NULL},
    {"conjugate", "", 0, 0, conjugate, NULL},
    {"as_integer_ratio", "", 0, 0, int_as_integer_ratio, NULL},
    {0},
};

static const struct mtr_jmethod_entry float_methods[] = {
    {"is_integer", "", 0, 0, float_is_integer, NULL},
    {"conjugate", "", 0, 0, conjugate, NULL},
    {0},
};

static const struct mtr_jmethod_entry cycler_methods[] = {
    {"next", "", 0, 0, cycler_next, NULL},
    {"reset", "", 0, 0, cycler_reset, NULL},
    {0},
};

static const struct mtr_jmethod_entry loop_methods[] = {
    {"cycle", NULL, 0, MTR_JRAW, NULL, loop_cycle},
    {"changed", NULL, 0, MTR_JRAW, NULL, loop_changed},
    {0},
};

static const struct mtr_jmethod_entry *table_for(const struct mtr_jv *v)
{
    switch (v->kind) {
    case MTR_JK_DICT:
        return dict_methods;
    case MTR_JK_VIEW:
        return v->sub == MTR_JVIEW_VALUES ? NULL : view_methods;
    case MTR_JK_LIST:
        return list_methods;
    case MTR_JK_TUPLE:
    case MTR_JK_RANGE:
        return tuple_methods;
    case MTR_JK_INT:
    case MTR_JK_BOOL:
        return int_methods;
    case MTR_JK_FLOAT:
        return float_methods;
    case MTR_JK_CYCLER:
        return cycler_methods;
    case MTR_JK_LOOP:
        return loop_methods;
    default:
        return NULL;
    }
}

const struct mtr_jmethod_entry *mtr_jother_method(const struct mtr_jv *v, struct mtr_str name)
{
    for (const struct mtr_jmethod_entry *m = table_for(v); m && m->name; m++) {
        if (mtr_str_is(name, m->name))
            return m;
    }
    return NULL;
}

bool mtr_jmutates(const struct mtr_jv *v, struct mtr_str name)
{
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    const char *const *names = v->kind == MTR_JK_DICT   ? of_dict
                               : v->kind == MTR_JK_LIST ? of_list
                                                        : NULL;
    for (; names && *names; names++) {
        if (mtr_str_is(name, *names))
            return true;
    }
    return false;
}

#define MAX_METHOD_ARGS 4

bool mtr_jcall_method(struct mtr_jr *r, const struct mtr_jv *self,
                      const struct mtr_jmethod_entry *m, const struct mtr_jcall *call,
                      struct mtr_jv *out)
{
    struct mtr_jv args[MAX_METHOD_ARGS] = {0};
    if (m->count == MTR_JRAW)
        return m->raw(r, self, call, out);
    return mtr_jbind(r, m->name, call, m->params, m->required, args, m->count) &&
           m->run(r, self, args, out);
}
