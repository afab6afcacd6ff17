/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Python's operators ask of any value: truth, length, identity, equality, order, membership.
 *
 * Numbers of all kinds compare with each other by value; strings, lists and tuples order among
 * their own kind; everything else is only equal or not.
 */
#include "broker/text/jinja/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double mtr_jas_double(const struct mtr_jv *v)
{
    if (v->kind == MTR_JK_FLOAT)
        return v->real;
    if (v->kind != MTR_JK_BIG)
        return (double)mtr_jas_int(v);
    /* strtod stops at the digits' end: what follows a number's text is never a digit, but copy the
     * text all the same, since it need not be terminated. */
    char text[400];
    if (v->len >= sizeof text)
        return v->text[0] == '-' ? -INFINITY : INFINITY;
    memcpy(text, v->text, v->len);
    text[v->len] = '\0';
    return strtod(text, NULL);
}

/* ---- truth, length, identity ---- */

bool mtr_jlen(const struct mtr_jv *v, int64_t *len)
{
    switch (v->kind) {
    case MTR_JK_STR:
        *len = mtr_jchars(mtr_jbytes(v));
        return true;
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        *len = v->list->count;
        return true;
    case MTR_JK_DICT:
    case MTR_JK_VIEW:
        *len = v->dict->count;
        return true;
    case MTR_JK_RANGE:
        *len = v->range->count;
        return true;
    case MTR_JK_UNDEFINED:
        *len = 0;
        return true;
    default:
        return false;
    }
}

bool mtr_jtruth(const struct mtr_jv *v)
{
    switch (v->kind) {
    case MTR_JK_MISSING:
    case MTR_JK_UNDEFINED:
    case MTR_JK_NONE:
        return false;
    case MTR_JK_BOOL:
        return v->boolean;
    case MTR_JK_INT:
        return v->integer != 0;
    case MTR_JK_FLOAT:
        return v->real != 0;
    case MTR_JK_STR:
        return v->len != 0;
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        return v->list->count != 0;
    case MTR_JK_DICT:
    case MTR_JK_VIEW:
        return v->dict->count != 0;
    case MTR_JK_RANGE:
        return v->range->count != 0;
    case MTR_JK_JSON:
        return v->json->count != 0;
    default:
        return true;
    }
}

const char *mtr_jtype_name(const struct mtr_jv *v)
{
    static const char *const names[] = {
        [MTR_JK_MISSING] = "missing",
        [MTR_JK_UNDEFINED] = "Undefined",
        [MTR_JK_NONE] = "NoneType",
        [MTR_JK_BOOL] = "bool",
        [MTR_JK_INT] = "int",
        [MTR_JK_BIG] = "int",
        [MTR_JK_FLOAT] = "float",
        [MTR_JK_STR] = "str",
        [MTR_JK_LIST] = "list",
        [MTR_JK_TUPLE] = "tuple",
        [MTR_JK_DICT] = "dict",
        [MTR_JK_VIEW] = "dict view",
        [MTR_JK_RANGE] = "range",
        [MTR_JK_ITER] = "generator",
        [MTR_JK_NAMESPACE] = "Namespace",
        [MTR_JK_MACRO] = "Macro",
        [MTR_JK_LOOP] = "LoopContext",
        [MTR_JK_CYCLER] = "Cycler",
        [MTR_JK_JOINER] = "Joiner",
        [MTR_JK_FUNCTION] = "function",
        [MTR_JK_METHOD] = "method",
        [MTR_JK_BLOCKS] = "TemplateReference",
        [MTR_JK_BLOCK] = "BlockReference",
        [MTR_JK_JSON] = "dict",
    };
    return names[v->kind];
}

bool mtr_jsame(const struct mtr_jv *a, const struct mtr_jv *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case MTR_JK_NONE:
        return true;
    case MTR_JK_BOOL:
        return a->boolean == b->boolean;
    case MTR_JK_INT: /* CPython shares small integers */
        return a->integer == b->integer && a->integer >= -5 && a->integer <= 256;
    case MTR_JK_FLOAT:
        return false;
    case MTR_JK_STR:
        return a->len == b->len && (a->len == 0 || a->pointer == b->pointer);
    case MTR_JK_METHOD:
        return false;
    case MTR_JK_FUNCTION:
        return a->sub == b->sub;
    default:
        return a->pointer == b->pointer;
    }
}

/* ---- equality ---- */

static bool equal_lists(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out)
{
    *out = a->list->count == b->list->count;
    if (!mtr_jdeeper(r))
        return false;
    for (uint32_t i = 0; *out && i < a->list->count; i++) {
        struct mtr_jv x, y;
        if (!mtr_jlist_at(r, a->list, i, &x) || !mtr_jlist_at(r, b->list, i, &y) ||
            !mtr_jequal(r, &x, &y, out))
            return false;
    }
    mtr_jshallower(r);
    return true;
}

static bool equal_dicts(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out)
{
    *out = a->dict->count == b->dict->count;
    if (!mtr_jdeeper(r))
        return false;
    for (uint32_t i = 0; *out && i < a->dict->count; i++) {
        struct mtr_jv x, y;
        uint32_t at;
        if (!mtr_jdict_find(r, b->dict, &a->dict->keys[i], &at))
            return false;
        if (at == UINT32_MAX) {
            *out = false;
            break;
        }
        if (!mtr_jdict_value(r, a->dict, i, &x) || !mtr_jdict_value(r, b->dict, at, &y) ||
            !mtr_jequal(r, &x, &y, out))
            return false;
    }
    mtr_jshallower(r);
    return true;
}

static bool equal_ranges(const struct mtr_jrange *a, const struct mtr_jrange *b)
{
    return a->count == b->count && (a->count == 0 || a->start == b->start) &&
           (a->count <= 1 || a->step == b->step);
}

#define EXACT_DOUBLES 9007199254740992.0 /* beyond 2^53 a double stands for several integers */
#define INTEGER_BYTES 400

/* The decimal text of an integer, or of a double that is one. */
static struct mtr_str integer_text(const struct mtr_jv *v, char buf[INTEGER_BYTES])
{
    if (v->kind == MTR_JK_BIG)
        return (struct mtr_str){v->text, v->len};
    int n = v->kind == MTR_JK_FLOAT ? snprintf(buf, INTEGER_BYTES, "%.0f", v->real)
                                    : snprintf(buf, INTEGER_BYTES, "%" PRId64, mtr_jas_int(v));
    return (struct mtr_str){buf, (size_t)n};
}

/* Of two decimal texts of integers. */
static int compare_big(struct mtr_str a, struct mtr_str b)
{
    bool minus = a.len && a.ptr[0] == '-';
    if (minus != (b.len && b.ptr[0] == '-'))
        return minus ? -1 : 1;
    int cmp = a.len != b.len ? (a.len < b.len ? -1 : 1) : memcmp(a.ptr, b.ptr, a.len);
    return minus ? -cmp : cmp;
}

/* a against b: negative, 0, positive; neither is NaN. */
static int compare_numbers(const struct mtr_jv *a, const struct mtr_jv *b)
{
    char x[INTEGER_BYTES], y[INTEGER_BYTES];
    if (mtr_jis_int(a) && mtr_jis_int(b)) {
        int64_t i = mtr_jas_int(a), k = mtr_jas_int(b);
        return (i > k) - (i < k);
    }
    double d = mtr_jas_double(a), e = mtr_jas_double(b);
    bool floats = a->kind == MTR_JK_FLOAT && b->kind == MTR_JK_FLOAT;
    bool infinite = (a->kind == MTR_JK_FLOAT && isinf(d)) || (b->kind == MTR_JK_FLOAT && isinf(e));
    if (floats || infinite || fabs(d) < EXACT_DOUBLES || fabs(e) < EXACT_DOUBLES)
        return (d > e) - (d < e);
    return compare_big(integer_text(a, x), integer_text(b, y));
}

static bool equal_numbers(const struct mtr_jv *a, const struct mtr_jv *b)
{
    if ((a->kind == MTR_JK_FLOAT && isnan(a->real)) || (b->kind == MTR_JK_FLOAT && isnan(b->real)))
        return false;
    return compare_numbers(a, b) == 0;
}

bool mtr_jequal(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out)
{
    if (!mtr_jstep(r, 1))
        return false;
    if (mtr_jis_number(a) && mtr_jis_number(b)) {
        *out = equal_numbers(a, b);
        return true;
    }
    if (a->kind != b->kind) {
        *out = false;
        return true;
    }
    switch (a->kind) {
    case MTR_JK_NONE:
    case MTR_JK_UNDEFINED:
        *out = true;
        return true;
    case MTR_JK_STR:
        *out = mtr_str_equal(mtr_jbytes(a), mtr_jbytes(b));
        return mtr_jstep(r, a->len == b->len ? a->len / 64 : 0);
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        return equal_lists(r, a, b, out);
    case MTR_JK_DICT:
        return equal_dicts(r, a, b, out);
    case MTR_JK_VIEW:
        *out = a->dict == b->dict && a->sub == b->sub && a->sub != MTR_JVIEW_VALUES;
        return true;
    case MTR_JK_RANGE:
        *out = equal_ranges(a->range, b->range);
        return true;
    case MTR_JK_METHOD:
        *out =
            a->method->entry == b->method->entry && mtr_jsame(&a->method->self, &b->method->self);
        return true;
    default:
        *out = mtr_jsame(a, b);
        return true;
    }
}

/* ---- order ---- */

static bool unordered(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b)
{
    if (a->kind == MTR_JK_UNDEFINED || b->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, a->kind == MTR_JK_UNDEFINED ? a : b);
    char text[3] = {op == 'l' ? '<' : op == 'g' ? '>' : op, op == 'l' || op == 'g' ? '=' : '\0'};
    return mtr_jfail(r, MTR_INVALID, "'%s' not supported between instances of '%s' and '%s'", text,
                     mtr_jtype_name(a), mtr_jtype_name(b));
}

static bool decide(char op, int cmp)
{
    return op == '<' ? cmp < 0 : op == '>' ? cmp > 0 : op == 'l' ? cmp <= 0 : cmp >= 0;
}

static bool order_numbers(char op, const struct mtr_jv *a, const struct mtr_jv *b)
{
    if ((a->kind == MTR_JK_FLOAT && isnan(a->real)) || (b->kind == MTR_JK_FLOAT && isnan(b->real)))
        return false;
    return decide(op, compare_numbers(a, b));
}

static bool order_lists(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                        bool *out)
{
    uint32_t n = a->list->count < b->list->count ? a->list->count : b->list->count;
    if (!mtr_jdeeper(r))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct mtr_jv x, y;
        bool eq;
        if (!mtr_jlist_at(r, a->list, i, &x) || !mtr_jlist_at(r, b->list, i, &y) ||
            !mtr_jequal(r, &x, &y, &eq))
            return false;
        if (!eq) {
            bool ok = mtr_jorder(r, op, &x, &y, out);
            mtr_jshallower(r);
            return ok;
        }
    }
    mtr_jshallower(r);
    *out = decide(op, (a->list->count > b->list->count) - (a->list->count < b->list->count));
    return true;
}

bool mtr_jorder(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                bool *out)
{
    if (!mtr_jstep(r, 1))
        return false;
    if (mtr_jis_number(a) && mtr_jis_number(b)) {
        *out = order_numbers(op, a, b);
        return true;
    }
    if (a->kind == MTR_JK_STR && b->kind == MTR_JK_STR) {
        struct mtr_str x = mtr_jbytes(a), y = mtr_jbytes(b);
        size_t n = x.len < y.len ? x.len : y.len;
        int cmp = n ? memcmp(x.ptr, y.ptr, n) : 0; /* UTF-8 orders as its characters do */
        *out = decide(op, cmp ? cmp : (x.len > y.len) - (x.len < y.len));
        return mtr_jstep(r, n / 64);
    }
    if (a->kind == b->kind && (a->kind == MTR_JK_LIST || a->kind == MTR_JK_TUPLE))
        return order_lists(r, op, a, b, out);
    return unordered(r, op, a, b);
}

bool mtr_jless(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b, bool *out)
{
    return mtr_jorder(r, '<', a, b, out);
}

/* ---- membership ---- */

static bool range_contains(const struct mtr_jrange *g, const struct mtr_jv *v)
{
    int64_t i;
    if (mtr_jis_int(v))
        i = mtr_jas_int(v);
    else if (v->kind == MTR_JK_FLOAT && v->real == floor(v->real) && fabs(v->real) < 9e18)
        i = (int64_t)v->real;
    else
        return false;
    if (g->step > 0 ? i < g->start || i >= g->stop : i > g->start || i <= g->stop)
        return false;
    return (i - g->start) % g->step == 0;
}

static bool walk_contains(struct mtr_jr *r, const struct mtr_jv *c, const struct mtr_jv *item,
                          bool *out)
{
    struct mtr_jiter *it;
    if (!mtr_jiter_of(r, c, &it))
        return false;
    *out = false;
    while (!*out) {
        struct mtr_jv v;
        bool end = false;
        if (!mtr_jnext(r, it, &v, &end))
            return false;
        if (end)
            break;
        if (!mtr_jequal(r, &v, item, out))
            return false;
        *out = *out || (v.kind != MTR_JK_FLOAT && mtr_jsame(&v, item));
    }
    return true;
}

bool mtr_jcontains(struct mtr_jr *r, const struct mtr_jv *c, const struct mtr_jv *item, bool *out)
{
    uint32_t at;
    switch (c->kind) {
    case MTR_JK_STR:
        if (item->kind != MTR_JK_STR)
            return mtr_jfail(r, MTR_INVALID,
                             "'in <string>' requires string as left operand, not %s",
                             mtr_jtype_name(item));
        *out = mtr_str_find(mtr_jbytes(c), mtr_jbytes(item), 0) != SIZE_MAX;
        return mtr_jstep(r, 1 + c->len / 64);
    case MTR_JK_DICT:
        if (!mtr_jdict_find(r, c->dict, item, &at))
            return false;
        *out = at != UINT32_MAX;
        return true;
    case MTR_JK_RANGE:
        *out = range_contains(c->range, item);
        return true;
    case MTR_JK_VIEW:
        if (c->sub == MTR_JVIEW_KEYS) {
            if (!mtr_jdict_find(r, c->dict, item, &at))
                return false;
            *out = at != UINT32_MAX;
            return true;
        }
        return walk_contains(r, c, item, out);
    default:
        return walk_contains(r, c, item, out);
    }
}
