/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Filters that make numbers.
 */
#include "broker/text/jinja/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

static bool f_abs(ARGS)
{
    double d;
    switch (a[0].kind) {
    case MTR_JK_BOOL:
        *out = mtr_jint(a[0].boolean);
        return true;
    case MTR_JK_FLOAT:
        d = fabs(a[0].real);
        *out = mtr_jfloat(d);
        return true;
    case MTR_JK_INT:
        return a[0].integer < 0 ? mtr_junary(r, '-', &a[0], out) : mtr_junary(r, '+', &a[0], out);
    case MTR_JK_BIG:
        return mtr_junary(r, a[0].text[0] == '-' ? '-' : '+', &a[0], out);
    default:
        return mtr_jfail(r, MTR_INVALID, "bad operand type for abs(): '%s'", mtr_jtype_name(&a[0]));
    }
}

/* float(v) as far as v allows it; *ok false for Python's TypeError and ValueError. */
static bool to_float(struct mtr_jr *r, const struct mtr_jv *v, double *d, bool *ok)
{
    *ok = true;
    if (v->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, v);
    if (mtr_jis_number(v))
        *d = mtr_jas_double(v);
    else if (v->kind == MTR_JK_STR)
        *ok = mtr_jparse_float(mtr_jbytes(v), d);
    else
        *ok = false;
    return true;
}

static bool f_float(ARGS)
{
    double d = 0;
    bool ok;
    if (!to_float(r, &a[0], &d, &ok))
        return false;
    *out = ok ? mtr_jfloat(d) : given(&a[1]) ? a[1] : mtr_jfloat(0);
    return true;
}

static bool f_int(ARGS)
{
    int64_t base = 10;
    double d = 0;
    bool ok = false;
    if (given(&a[2]) && !mtr_jarg_int(r, "int", &a[2], &base))
        return false;
    if (a[0].kind == MTR_JK_STR) {
        if (base != 0 && (base < 2 || base > 36))
            ok = false;
        else if (!mtr_jparse_int(r, mtr_jbytes(&a[0]), (int)base, out, &ok))
            return false;
        if (ok)
            return true;
    } else if (mtr_jis_int(&a[0]) || a[0].kind == MTR_JK_BIG) {
        *out = a[0];
        if (a[0].kind == MTR_JK_BOOL)
            *out = mtr_jint(a[0].boolean);
        return true;
    }
    if (a[0].kind == MTR_JK_FLOAT && isinf(a[0].real))
        return mtr_jfail(r, MTR_INVALID, "cannot convert float infinity to integer");
    if (!to_float(r, &a[0], &d, &ok))
        return false;
    if (ok && isfinite(d))
        return mtr_jint_of_double(r, d, out);
    *out = given(&a[1]) ? a[1] : mtr_jint(0);
    return true;
}

/* round(d, digits): to the nearest decimal, ties of the exact value to even, which is how printf
 * rounds. Digits left of the point are a matter of how many significant ones there are. */
static double round_float(double d, int64_t digits)
{
    char text[800];
    if (!isfinite(d) || d == 0 || digits > 323)
        return d;
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, d);
        return strtod(text, NULL);
    }
    snprintf(text, sizeof text, "%.20e", d);
    int64_t exponent = strtol(strchr(text, 'e') + 1, NULL, 10);
    int64_t significant = exponent + 1 + digits;
    if (significant > 0) {
        snprintf(text, sizeof text, "%.*e", (int)significant - 1, d);
        return strtod(text, NULL);
    }
    double half = 5 * pow(10, (double)exponent);
    return copysign(significant == 0 && fabs(d) > half ? 2 * half : 0.0, d);
}

static bool round_int(struct mtr_jr *r, int64_t v, int64_t digits, struct mtr_jv *out)
{
    if (digits >= 0) {
        *out = mtr_jint(v);
        return true;
    }
    if (digits < -18) {
        *out = mtr_jint(0);
        return true;
    }
    int64_t unit = 1;
    for (; digits < 0; digits++)
        unit *= 10;
    int64_t rest = v % unit;
    if (rest < 0)
        rest += unit;
    int64_t low;
    if (__builtin_sub_overflow(v, rest, &low))
        return mtr_jfail(r, MTR_INVALID, "an integer beyond 64 bits");
    bool up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
    if (up && __builtin_add_overflow(low, unit, &low))
        return mtr_jfail(r, MTR_INVALID, "an integer beyond 64 bits");
    *out = mtr_jint(low);
    return true;
}

/* ceil or floor of value * 10^digits, divided again. */
static bool round_to(struct mtr_jr *r, const struct mtr_jv *v, int64_t digits, bool ceiling,
                     struct mtr_jv *out)
{
    struct mtr_jv ten = mtr_jint(10), n = mtr_jint(digits), unit, scaled, whole;
    if (!mtr_jbinary(r, 'p', &ten, &n, &unit) || !mtr_jbinary(r, '*', v, &unit, &scaled))
        return false;
    if (scaled.kind == MTR_JK_FLOAT) {
        if (!isfinite(scaled.real))
            return mtr_jfail(r, MTR_INVALID, "cannot convert float infinity to integer");
        double d = ceiling ? ceil(scaled.real) : floor(scaled.real);
        if (!mtr_jint_of_double(r, d, &whole))
            return false;
    } else {
        whole = scaled;
    }
    return mtr_jbinary(r, '/', &whole, &unit, out);
}

static bool f_round(ARGS)
{
    int64_t digits = 0;
    struct mtr_str method = MTR_STR("common");
    if (given(&a[2]) && !mtr_jarg_str(r, "round", &a[2], &method))
        return false;
    bool ceiling = mtr_str_is(method, "ceil"), floors = mtr_str_is(method, "floor");
    if (!ceiling && !floors && !mtr_str_is(method, "common"))
        return mtr_jfail(r, MTR_INVALID, "method must be common, ceil or floor");
    bool none = a[1].kind == MTR_JK_NONE; /* round(v, None) is an integer */
    if (given(&a[1]) && !none && !mtr_jarg_int(r, "round", &a[1], &digits))
        return false;
    if (!mtr_jis_number(&a[0]))
        return mtr_jfail(r, MTR_INVALID, "type %s doesn't define __round__ method",
                         mtr_jtype_name(&a[0]));
    if (ceiling || floors)
        return none ? mtr_jfail(r, MTR_INVALID, "round: precision must be a number")
                    : round_to(r, &a[0], digits, ceiling, out);
    if (a[0].kind == MTR_JK_BIG) {
        *out = a[0];
        return digits >= 0 || mtr_jfail(r, MTR_INVALID, "an integer beyond 64 bits");
    }
    if (mtr_jis_int(&a[0]))
        return round_int(r, mtr_jas_int(&a[0]), digits, out);
    if (none && !isfinite(a[0].real))
        return mtr_jfail(r, MTR_INVALID, "cannot convert float to integer");
    double d = round_float(a[0].real, digits);
    if (none)
        return mtr_jint_of_double(r, d, out);
    *out = mtr_jfloat(d);
    return true;
}

static bool f_filesizeformat(ARGS)
{
    static const char *const units[2][8] = {
        {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
        {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    bool binary = given(&a[1]) && mtr_jtruth(&a[1]), ok;
    double bytes, base = binary ? 1024 : 1000, unit = base;
    struct mtr_jtext t = {0};
    char text[400];
    if (!to_float(r, &a[0], &bytes, &ok))
        return false;
    if (!ok || isnan(bytes))
        return mtr_jfail(r, MTR_INVALID, "filesizeformat needs a number");
    if (bytes == 1) {
        snprintf(text, sizeof text, "1 Byte");
    } else if (bytes < base) {
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        unsigned i = 0;
        for (unit = base * base; i < 7 && bytes >= unit; i++)
            unit *= base;
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[binary][i]);
    }
    return mtr_jtext_puts(r, &t, text) && mtr_jtext_finish(r, &t, 0, out);
}

static const struct mtr_jfilter_entry filters[] = {
    {"abs", "/x", 1, 1, f_abs, NULL},
    {"int", "value default base", 1, 3, f_int, NULL},
    {"float", "value default", 1, 2, f_float, NULL},
    {"round", "value precision method", 1, 3, f_round, NULL},
    {"filesizeformat", "value binary", 1, 2, f_filesizeformat, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_number(void)
{
    return filters;
}
