/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What can stand behind `is`.
 */
#include "broker/text/jinja/run.h"

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, bool *out

static bool remainder_is(struct mtr_jr *r, const struct mtr_jv *v, const struct mtr_jv *by,
                         int64_t want, bool *out)
{
    struct mtr_jv rest, wanted = mtr_jint(want);
    return mtr_jbinary(r, '%', v, by, &rest) && mtr_jequal(r, &rest, &wanted, out);
}

static bool t_odd(ARGS)
{
    struct mtr_jv two = mtr_jint(2);
    return remainder_is(r, &a[0], &two, 1, out);
}

static bool t_even(ARGS)
{
    struct mtr_jv two = mtr_jint(2);
    return remainder_is(r, &a[0], &two, 0, out);
}

static bool t_divisibleby(ARGS)
{
    return remainder_is(r, &a[0], &a[1], 0, out);
}

static bool t_defined(ARGS)
{
    (void)r;
    *out = a[0].kind != MTR_JK_UNDEFINED;
    return true;
}

static bool t_undefined(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_UNDEFINED;
    return true;
}

/* Unhashable names are an error, as looking them up in a dict is. */
static bool t_filter(ARGS)
{
    if (a[0].kind == MTR_JK_LIST || a[0].kind == MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "unhashable type: '%s'", mtr_jtype_name(&a[0]));
    *out = a[0].kind == MTR_JK_STR && mtr_jfilter_find(mtr_jbytes(&a[0])) != SIZE_MAX;
    return true;
}

static bool t_test(ARGS)
{
    if (a[0].kind == MTR_JK_LIST || a[0].kind == MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "unhashable type: '%s'", mtr_jtype_name(&a[0]));
    *out = a[0].kind == MTR_JK_STR && mtr_jtest_find(mtr_jbytes(&a[0])) != SIZE_MAX;
    return true;
}

static bool t_none(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_NONE;
    return true;
}

static bool t_boolean(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_BOOL;
    return true;
}

static bool t_false(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_BOOL && !a[0].boolean;
    return true;
}

static bool t_true(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_BOOL && a[0].boolean;
    return true;
}

static bool t_integer(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_INT || a[0].kind == MTR_JK_BIG;
    return true;
}

static bool t_float(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_FLOAT;
    return true;
}

static bool t_number(ARGS)
{
    (void)r;
    *out = mtr_jis_number(&a[0]);
    return true;
}

static bool ask_str(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_str method, bool *out)
{
    struct mtr_jv s, yes;
    struct mtr_jcall none = {0};
    if (!mtr_jto_str(r, v, &s) || !mtr_jcall_method(r, &s, mtr_jstr_method(method), &none, &yes))
        return false;
    *out = yes.boolean;
    return true;
}

static bool t_lower(ARGS)
{
    return ask_str(r, &a[0], MTR_STR("islower"), out);
}

static bool t_upper(ARGS)
{
    return ask_str(r, &a[0], MTR_STR("isupper"), out);
}

static bool t_string(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_STR;
    return true;
}

static bool t_mapping(ARGS)
{
    (void)r;
    *out = a[0].kind == MTR_JK_DICT;
    return true;
}

static bool t_sequence(ARGS)
{
    (void)r;
    switch (a[0].kind) {
    case MTR_JK_STR:
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
    case MTR_JK_DICT:
    case MTR_JK_RANGE:
    case MTR_JK_UNDEFINED:
        *out = true;
        return true;
    default:
        *out = false;
        return true;
    }
}

static bool t_iterable(ARGS)
{
    (void)r;
    *out = mtr_jiterable(&a[0]);
    return true;
}

static bool t_callable(ARGS)
{
    (void)r;
    switch (a[0].kind) {
    case MTR_JK_UNDEFINED:
    case MTR_JK_MACRO:
    case MTR_JK_LOOP:
    case MTR_JK_JOINER:
    case MTR_JK_FUNCTION:
    case MTR_JK_METHOD:
    case MTR_JK_BLOCK:
        *out = true;
        return true;
    default:
        *out = false;
        return true;
    }
}

static bool t_sameas(ARGS)
{
    (void)r;
    *out = mtr_jsame(&a[0], &a[1]);
    return true;
}

static bool t_escaped(ARGS)
{
    (void)r;
    *out = mtr_jis_markup(&a[0]);
    return true;
}

static bool t_in(ARGS)
{
    return mtr_jcontains(r, &a[1], &a[0], out);
}

static bool t_eq(ARGS)
{
    return mtr_jequal(r, &a[0], &a[1], out);
}

static bool t_ne(ARGS)
{
    if (!mtr_jequal(r, &a[0], &a[1], out))
        return false;
    *out = !*out;
    return true;
}

static bool t_gt(ARGS)
{
    return mtr_jorder(r, '>', &a[0], &a[1], out);
}

static bool t_ge(ARGS)
{
    return mtr_jorder(r, 'g', &a[0], &a[1], out);
}

static bool t_lt(ARGS)
{
    return mtr_jorder(r, '<', &a[0], &a[1], out);
}

static bool t_le(ARGS)
{
    return mtr_jorder(r, 'l', &a[0], &a[1], out);
}

static const struct {
    const char *name;
    const char *params;
    uint8_t count;
    bool (*run)(ARGS);
} tests[] = {
    {"defined", "value", 1, t_defined},
    {"string", "value", 1, t_string},
    {"none", "value", 1, t_none},
    {"mapping", "value", 1, t_mapping},
    {"iterable", "value", 1, t_iterable},
    {"sequence", "value", 1, t_sequence},
    {"undefined", "value", 1, t_undefined},
    {"true", "value", 1, t_true},
    {"false", "value", 1, t_false},
    {"boolean", "value", 1, t_boolean},
    {"integer", "value", 1, t_integer},
    {"float", "value", 1, t_float},
    {"number", "value", 1, t_number},
    {"odd", "value", 1, t_odd},
    {"even", "value", 1, t_even},
    {"divisibleby", "value num", 2, t_divisibleby},
    {"filter", "value", 1, t_filter},
    {"test", "value", 1, t_test},
    {"lower", "value", 1, t_lower},
    {"upper", "value", 1, t_upper},
    {"callable", "/value", 1, t_callable},
    {"sameas", "value other", 2, t_sameas},
    {"escaped", "value", 1, t_escaped},
    {"in", "value seq", 2, t_in},
    {"==", "/a /b", 2, t_eq},
    {"eq", "/a /b", 2, t_eq},
    {"equalto", "/a /b", 2, t_eq},
    {"!=", "/a /b", 2, t_ne},
    {"ne", "/a /b", 2, t_ne},
    {">", "/a /b", 2, t_gt},
    {"gt", "/a /b", 2, t_gt},
    {"greaterthan", "/a /b", 2, t_gt},
    {">=", "/a /b", 2, t_ge},
    {"ge", "/a /b", 2, t_ge},
    {"<", "/a /b", 2, t_lt},
    {"lt", "/a /b", 2, t_lt},
    {"lessthan", "/a /b", 2, t_lt},
    {"<=", "/a /b", 2, t_le},
    {"le", "/a /b", 2, t_le},
};

size_t mtr_jtest_find(struct mtr_str name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (mtr_str_is(name, tests[i].name))
            return i;
    }
    return SIZE_MAX;
}

bool mtr_jtest_run(struct mtr_jr *r, size_t test, const struct mtr_jcall *call, bool *out)
{
    struct mtr_jv args[2];
    return mtr_jbind(r, tests[test].name, call, tests[test].params, tests[test].count, args,
                     tests[test].count) &&
           tests[test].run(r, args, out);
}
