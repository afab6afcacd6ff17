/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that every template can call.
 */
#include "broker/text/jinja/run.h"

#define CALL struct mtr_jr *r, const struct mtr_jcall *call, struct mtr_jv *out

/* ---- dict(), namespace() ---- */

static bool add_pairs(struct mtr_jr *r, struct mtr_jdict *d, const struct mtr_jv *from)
{
    struct mtr_jlist *pairs;
    if (from->kind == MTR_JK_DICT) {
        for (uint32_t i = 0; i < from->dict->count; i++) {
            struct mtr_jv value;
            if (!mtr_jdict_value(r, from->dict, i, &value) ||
                !mtr_jdict_put(r, d, from->dict->keys[i], value))
                return false;
        }
        return true;
    }
    if (!mtr_jcollect(r, from, &pairs))
        return false;
    for (uint32_t i = 0; i < pairs->count; i++) {
        struct mtr_jlist *pair;
        if (!mtr_jcollect(r, &pairs->items[i], &pair))
            return false;
        if (pair->count != 2)
            return mtr_jfail(r, MTR_INVALID, "element %u has length %u; 2 is required", i,
                             pair->count);
        if (!mtr_jdict_put(r, d, pair->items[0], pair->items[1]))
            return false;
    }
    return true;
}

bool mtr_jmake_dict(struct mtr_jr *r, const char *what, const struct mtr_jcall *call,
                    struct mtr_jdict **out)
{
    struct mtr_jdict *d = mtr_jdict_new(r, call->kw_count);
    if (!d)
        return false;
    if (call->pos_count > 1)
        return mtr_jfail(r, MTR_INVALID, "%s expected at most 1 argument, got %u", what,
                         call->pos_count);
    if (call->pos_count && !add_pairs(r, d, &call->pos[0]))
        return false;
    for (uint32_t i = 0; i < call->kw_count; i++) {
        struct mtr_jv key = mtr_jstr(call->kw[i].name, MTR_JTRUSTED);
        if (!mtr_jdict_put(r, d, key, call->kw[i].value))
            return false;
    }
    *out = d;
    return true;
}

static bool g_dict(CALL)
{
    struct mtr_jdict *d;
    if (!mtr_jmake_dict(r, "dict", call, &d))
        return false;
    *out = mtr_jdict_value_of(d);
    return true;
}

static bool g_namespace(CALL)
{
    struct mtr_jdict *d;
    if (!mtr_jmake_dict(r, "namespace", call, &d))
        return false;
    *out = (struct mtr_jv){.kind = MTR_JK_NAMESPACE, .dict = d};
    return true;
}

/* ---- range(), cycler(), joiner() ---- */

static bool g_range(CALL)
{
    struct mtr_jv a[3];
    struct mtr_jrange *g = mtr_jalloc(r, sizeof *g);
    int64_t first = 0, second = 0, step = 1;
    if (!g || !mtr_jbind(r, "range", call, "/start /stop /step", 1, a, 3) ||
        !mtr_jarg_int(r, "range", &a[0], &first) ||
        (call->pos_count > 1 && !mtr_jarg_int(r, "range", &a[1], &second)) ||
        (call->pos_count > 2 && !mtr_jarg_int(r, "range", &a[2], &step)))
        return false;
    if (step == 0)
        return mtr_jfail(r, MTR_INVALID, "range() arg 3 must not be zero");
    *g = call->pos_count > 1 ? (struct mtr_jrange){first, second, step, 0}
                             : (struct mtr_jrange){0, first, 1, 0};
    /* Differences of 64-bit numbers as unsigned ones: they fit. */
    uint64_t span = 0, stride = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
    if (g->step > 0 && g->stop > g->start)
        span = (uint64_t)g->stop - (uint64_t)g->start;
    else if (g->step < 0 && g->stop < g->start)
        span = (uint64_t)g->start - (uint64_t)g->stop;
    uint64_t count = span ? (span - 1) / stride + 1 : 0;
    if (count > MTR_JINJA_MAX_RANGE)
        return mtr_jfail(r, MTR_INVALID, "Range too big: more than %d items", MTR_JINJA_MAX_RANGE);
    g->count = (int64_t)count;
    *out = (struct mtr_jv){.kind = MTR_JK_RANGE, .range = g};
    return true;
}

static bool g_cycler(CALL)
{
    struct mtr_jcycler *c = mtr_jalloc(r, sizeof *c);
    struct mtr_jlist *l = mtr_jlist_new(r, call->pos_count);
    if (!c || !l)
        return false;
    if (!call->pos_count || call->kw_count)
        return mtr_jfail(r, MTR_INVALID, "at least one item has to be provided");
    for (; l->count < call->pos_count; l->count++)
        l->items[l->count] = call->pos[l->count];
    *c = (struct mtr_jcycler){.items = mtr_jtuple_value(l)};
    *out = (struct mtr_jv){.kind = MTR_JK_CYCLER, .cycler = c};
    return true;
}

static bool g_joiner(CALL)
{
    struct mtr_jjoiner *j = mtr_jalloc(r, sizeof *j);
    struct mtr_jv sep;
    if (!j || !mtr_jbind(r, "joiner", call, "sep", 0, &sep, 1))
        return false;
    *j = (struct mtr_jjoiner){.sep = sep.kind == MTR_JK_MISSING ? mtr_jcstr(", ") : sep};
    *out = (struct mtr_jv){.kind = MTR_JK_JOINER, .joiner = j};
    return true;
}

static bool g_lipsum(CALL)
{
    (void)call, (void)out;
    return mtr_jfail(
        r, MTR_INVALID,
        "lipsum() is random and not available: the same request gives the same prompt");
}

/* ---- what transformers adds ---- */

static bool g_raise_exception(CALL)
{
    struct mtr_jv message;
    (void)out;
    if (!mtr_jbind(r, "raise_exception", call, "message", 1, &message, 1) ||
        !mtr_jto_str(r, &message, &r->message))
        return false;
    struct mtr_str s = mtr_jbytes(&r->message);
    r->raised = r->failed = true;
    return mtr_fail(r->err, MTR_INVALID, "%.*s", MTR_STR_ARG(s));
}

static bool g_strftime_now(CALL)
{
    struct mtr_jv format;
    struct mtr_jtext t = {0};
    struct mtr_str s;
    return mtr_jbind(r, "strftime_now", call, "format", 1, &format, 1) &&
           mtr_jarg_str(r, "strftime_now", &format, &s) &&
           mtr_jstrftime(r, &t, &format, &r->options->now) && mtr_jtext_finish(r, &t, 0, out);
}

static const struct {
    const char *name;
    const char *repr;
    bool (*call)(CALL);
} functions[] = {
    {"range", "<function range>", g_range},
    {"dict", "<class 'dict'>", g_dict},
    {"namespace", "<class 'jinja2.utils.Namespace'>", g_namespace},
    {"cycler", "<class 'jinja2.utils.Cycler'>", g_cycler},
    {"joiner", "<class 'jinja2.utils.Joiner'>", g_joiner},
    {"lipsum", "<function lipsum>", g_lipsum},
    {"raise_exception", "<function raise_exception>", g_raise_exception},
    {"strftime_now", "<function strftime_now>", g_strftime_now},
};

bool mtr_jglobal_find(struct mtr_str name, struct mtr_jv *out)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!mtr_str_is(name, functions[i].name))
            continue;
        *out = (struct mtr_jv){.kind = MTR_JK_FUNCTION, .sub = (uint8_t)i};
        return true;
    }
    return false;
}

bool mtr_jglobal_call(struct mtr_jr *r, uint8_t function, const struct mtr_jcall *call,
                      struct mtr_jv *out)
{
    return functions[function].call(r, call, out);
}

const char *mtr_jglobal_name(uint8_t function)
{
    return functions[function].repr;
}
