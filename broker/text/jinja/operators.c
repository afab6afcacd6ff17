/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Arithmetic, with Python's rules: / is a true division, // and % floor, + and * work on sequences.
 * Integers that an operation would carry beyond 64 bits are an error, not a wrong number.
 */
#include "broker/text/jinja/run.h"

#include <math.h>

static bool overflow(struct mtr_jr *r)
{
    return mtr_jfail(r, MTR_INVALID, "an integer beyond 64 bits");
}

static bool zero(struct mtr_jr *r)
{
    return mtr_jfail(r, MTR_INVALID, "division by zero");
}

static bool unsupported(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b)
{
    const struct mtr_jv *u = a->kind == MTR_JK_UNDEFINED ? a : b;
    char one[2] = {op};
    const char *text = op == 'f' ? "//" : op == 'p' ? "**" : one;
    if (u->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, u);
    return mtr_jfail(r, MTR_INVALID, "unsupported operand type(s) for %s: '%s' and '%s'", text,
                     mtr_jtype_name(a), mtr_jtype_name(b));
}

/* ---- integers ---- */

static bool int_power(struct mtr_jr *r, int64_t base, int64_t exponent, struct mtr_jv *out)
{
    if (exponent < 0) {
        if (base == 0)
            return mtr_jfail(r, MTR_INVALID, "0.0 cannot be raised to a negative power");
        *out = mtr_jfloat(pow((double)base, (double)exponent));
        return true;
    }
    int64_t result = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result))
            return overflow(r);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return overflow(r);
    }
    *out = mtr_jint(result);
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static bool int_binary(struct mtr_jr *r, char op, int64_t a, int64_t b, struct mtr_jv *out)
{
    int64_t v = 0;
    switch (op) {
    case '+':
        if (__builtin_add_overflow(a, b, &v))
            return overflow(r);
        break;
    case '-':
        if (__builtin_sub_overflow(a, b, &v))
            return overflow(r);
        break;
    case '*':
        if (__builtin_mul_overflow(a, b, &v))
            return overflow(r);
        break;
    case '/':
        if (b == 0)
            return zero(r);
        *out = mtr_jfloat((double)((long double)a / (long double)b));
        return true;
    case 'f':
        if (b == 0)
            return zero(r);
        if (b == -1)
            return int_binary(r, '-', 0, a, out);
        v = floor_div(a, b);
        break;
    case '%':
        if (b == 0)
            return zero(r);
        v = b == -1 ? 0 : a - floor_div(a, b) * b;
        break;
    default:
        return int_power(r, a, b, out);
    }
    *out = mtr_jint(v);
    return true;
}

/* ---- floats ---- */

/* Python's float division with floor: quotient and remainder that has the sign of b. */
static void float_divmod(double a, double b, double *quotient, double *remainder)
{
    double mod = fmod(a, b);
    double div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1;
        }
    } else {
        mod = copysign(0.0, b);
    }
    if (div != 0) {
        *quotient = floor(div);
        if (div - *quotient > 0.5)
            *quotient += 1;
    } else {
        *quotient = copysign(0.0, a / b);
    }
    *remainder = mod;
}

static bool float_power(struct mtr_jr *r, double a, double b, struct mtr_jv *out)
{
    if (a == 0 && b < 0)
        return mtr_jfail(r, MTR_INVALID, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
        return mtr_jfail(r, MTR_INVALID, "a negative number to a fractional power");
    double v = pow(a, b);
    if (isinf(v) && isfinite(a) && isfinite(b))
        return mtr_jfail(r, MTR_INVALID, "numerical result out of range");
    *out = mtr_jfloat(v);
    return true;
}

static bool float_binary(struct mtr_jr *r, char op, double a, double b, struct mtr_jv *out)
{
    double quotient, remainder;
    switch (op) {
    case '+':
        *out = mtr_jfloat(a + b);
        return true;
    case '-':
        *out = mtr_jfloat(a - b);
        return true;
    case '*':
        *out = mtr_jfloat(a * b);
        return true;
    case 'p':
        return float_power(r, a, b, out);
    default:
        break;
    }
    if (b == 0)
        return zero(r);
    if (op == '/') {
        *out = mtr_jfloat(a / b);
        return true;
    }
    float_divmod(a, b, &quotient, &remainder);
    *out = mtr_jfloat(op == 'f' ? quotient : remainder);
    return true;
}

static bool numbers(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                    struct mtr_jv *out)
{
    bool ok;
    if (mtr_jis_int(a) && mtr_jis_int(b))
        ok = int_binary(r, op, mtr_jas_int(a), mtr_jas_int(b), out);
    else if (a->kind != MTR_JK_FLOAT && b->kind != MTR_JK_FLOAT && op != '/')
        return overflow(r); /* digits beyond 64 bits are for printing */
    else
        ok = float_binary(r, op, mtr_jas_double(a), mtr_jas_double(b), out);
    out->taint = a->taint | b->taint;
    return ok;
}

/* ---- sequences ---- */

/* a + b. What was joined last keeps its room, so that `l = l + [x]` in a loop appends in place. */
static bool join_lists(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b,
                       struct mtr_jv *out)
{
    struct mtr_jlist *tail = &r->list_tail, *l = mtr_jlist_new(r, 0);
    uint32_t count = a->list->count + b->list->count;
    bool grows = tail->items == a->list->items && tail->count == a->list->count && tail->count;
    if (!l || !mtr_jstep(r, b->list->count / 4))
        return false;
    l->items = a->list->items;
    if (!grows || count > r->list_tail_cap) {
        uint32_t cap = grows ? 2 * count : count;
        l->items = mtr_jalloc(r, ((size_t)cap + 1) * sizeof *l->items);
        if (!l->items || !mtr_jstep(r, a->list->count / 4))
            return false;
        memcpy(l->items, a->list->items, a->list->count * sizeof *l->items);
        r->list_tail_cap = cap;
    }
    memcpy(l->items + a->list->count, b->list->items, b->list->count * sizeof *l->items);
    l->count = count;
    *tail = *l;
    *out = *a;
    out->flags = 0;
    out->taint = a->taint | b->taint;
    out->list = l;
    return true;
}

static bool add_strings(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b,
                        struct mtr_jv *out)
{
    if (!mtr_jis_markup(a) && !mtr_jis_markup(b))
        return mtr_jconcat(r, a, b, out);
    struct mtr_jv x, y;
    if (!mtr_jescape(r, a, &x) || !mtr_jescape(r, b, &y) || !mtr_jconcat(r, &x, &y, out))
        return false;
    out->flags |= MTR_JF_MARKUP;
    return true;
}

static bool repeat(struct mtr_jr *r, const struct mtr_jv *s, int64_t times, struct mtr_jv *out)
{
    struct mtr_jtext t = {0};
    if (times < 0)
        times = 0;
    if (s->kind == MTR_JK_STR)
        return mtr_jtext_fill(r, &t, s, times) &&
               mtr_jtext_finish(r, &t, s->flags & MTR_JF_MARKUP, out);
    uint32_t each = s->list->count;
    if (each && (uint64_t)times > (UINT32_MAX >> 8) / each)
        return mtr_jfail(r, MTR_TOO_LARGE, "a list of more than %u items", UINT32_MAX >> 8);
    if (!each)
        times = 0;
    struct mtr_jlist *l = mtr_jlist_new(r, each * (uint32_t)times);
    if (!l || !mtr_jstep(r, each * (uint64_t)times / 4))
        return false;
    for (int64_t i = 0; i < times; i++)
        memcpy(l->items + i * each, s->list->items, each * sizeof *l->items);
    l->count = each * (uint32_t)times;
    *out = *s;
    out->flags = 0;
    out->list = l;
    return true;
}

static bool is_sequence(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_STR || v->kind == MTR_JK_LIST || v->kind == MTR_JK_TUPLE;
}

bool mtr_jbinary(struct mtr_jr *r, char op, const struct mtr_jv *a, const struct mtr_jv *b,
                 struct mtr_jv *out)
{
    if (mtr_jis_number(a) && mtr_jis_number(b))
        return numbers(r, op, a, b, out);
    if (op == '+' && a->kind == b->kind && is_sequence(a))
        return a->kind == MTR_JK_STR ? add_strings(r, a, b, out) : join_lists(r, a, b, out);
    if (op == '*' && is_sequence(a) && mtr_jis_int(b))
        return repeat(r, a, mtr_jas_int(b), out);
    if (op == '*' && is_sequence(b) && mtr_jis_int(a))
        return repeat(r, b, mtr_jas_int(a), out);
    if (op == '%' && a->kind == MTR_JK_STR)
        return mtr_jpercent(r, a, b, out);
    return unsupported(r, op, a, b);
}

bool mtr_junary(struct mtr_jr *r, char op, const struct mtr_jv *a, struct mtr_jv *out)
{
    if (mtr_jis_int(a)) {
        bool ok = int_binary(r, op, 0, mtr_jas_int(a), out);
        out->taint = a->taint;
        return ok;
    }
    if (a->kind == MTR_JK_FLOAT) {
        *out = *a;
        out->real = op == '-' ? -a->real : a->real;
        return true;
    }
    if (a->kind == MTR_JK_BIG && op == '+') {
        *out = *a;
        return true;
    }
    if (a->kind == MTR_JK_BIG) {
        struct mtr_jtext t = {0};
        bool minus = a->text[0] == '-';
        if ((!minus && !mtr_jtext_put(r, &t, "-", 1, a->taint)) ||
            !mtr_jtext_put(r, &t, a->text + minus, a->len - minus, a->taint) ||
            !mtr_jtext_finish(r, &t, 0, out))
            return false;
        out->kind = MTR_JK_BIG;
        return true;
    }
    if (a->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, a);
    return mtr_jfail(r, MTR_INVALID, "bad operand type for unary %c: '%s'", op, mtr_jtype_name(a));
}
