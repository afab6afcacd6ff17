/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Filters over strings.
 */
#include "broker/text/jinja/run.h"

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out
#define CALL struct mtr_jr *r, const struct mtr_jcall *call, struct mtr_jv *out

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

static bool is_none(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_MISSING || v->kind == MTR_JK_NONE;
}

static bool case_filter(struct mtr_jr *r, const struct mtr_jv *v, enum mtr_jcase how,
                        struct mtr_jv *out)
{
    struct mtr_jv s;
    return mtr_jsoft_str(r, v, &s) && mtr_jcase(r, &s, how, out);
}

static bool f_upper(ARGS)
{
    return case_filter(r, &a[0], MTR_JCASE_UPPER, out);
}

static bool f_lower(ARGS)
{
    return case_filter(r, &a[0], MTR_JCASE_LOWER, out);
}

static bool f_capitalize(ARGS)
{
    return case_filter(r, &a[0], MTR_JCASE_CAPITALIZE, out);
}

static bool separates(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || mtr_jspace(cp);
}

/* Words begin behind white space, hyphens and opening brackets. */
static bool f_title(ARGS)
{
    struct mtr_jv s, part, done;
    struct mtr_jtext t = {0};
    if (!mtr_jsoft_str(r, &a[0], &s))
        return false;
    struct mtr_str b = mtr_jbytes(&s);
    for (size_t at = 0; at < b.len;) {
        uint32_t cp;
        size_t first = at + mtr_jdecode(b.ptr + at, &cp), end = first;
        bool sep = separates(cp);
        while (end < b.len) {
            uint32_t n = mtr_jdecode(b.ptr + end, &cp);
            if (separates(cp) != sep)
                break;
            end += n;
        }
        if (!mtr_jsub(r, &s, (uint32_t)at, (uint32_t)(first - at), &part) ||
            !mtr_jcase(r, &part, MTR_JCASE_UPPER, &done) || !mtr_jtext_value(r, &t, &done) ||
            !mtr_jsub(r, &s, (uint32_t)first, (uint32_t)(end - first), &part) ||
            !mtr_jcase(r, &part, MTR_JCASE_LOWER, &done) || !mtr_jtext_value(r, &t, &done))
            return false;
        at = end;
    }
    return mtr_jtext_finish(r, &t, 0, out);
}

static bool f_trim(ARGS)
{
    struct mtr_jv s;
    struct mtr_str chars;
    if (!mtr_jsoft_str(r, &a[0], &s) ||
        (!is_none(&a[1]) && !mtr_jarg_str(r, "trim", &a[1], &chars)))
        return false;
    return mtr_jstrip(r, &s, is_none(&a[1]) ? NULL : &a[1], 3, out);
}

static bool f_string(ARGS)
{
    return mtr_jsoft_str(r, &a[0], out);
}

static bool f_safe(ARGS)
{
    if (!mtr_jto_str(r, &a[0], out))
        return false;
    out->flags |= MTR_JF_MARKUP;
    return true;
}

static bool f_escape(ARGS)
{
    return mtr_jescape(r, &a[0], out);
}

static bool f_forceescape(ARGS)
{
    struct mtr_jv s;
    return mtr_jto_str(r, &a[0], &s) && mtr_jescape(r, &s, out);
}

static bool f_replace(ARGS)
{
    struct mtr_jv s, old, new;
    int64_t count = -1;
    if (!is_none(&a[3]) && !mtr_jarg_int(r, "replace", &a[3], &count))
        return false;
    return mtr_jto_str(r, &a[0], &s) && mtr_jto_str(r, &a[1], &old) &&
           mtr_jto_str(r, &a[2], &new) && mtr_jreplace(r, &s, mtr_jbytes(&old), &new, count, out);
}

static bool f_center(ARGS)
{
    struct mtr_jv s, width = given(&a[1]) ? a[1] : mtr_jint(80);
    struct mtr_jcall call = {.pos = &width, .pos_count = 1};
    return mtr_jsoft_str(r, &a[0], &s) &&
           mtr_jcall_method(r, &s, mtr_jstr_method(MTR_STR("center")), &call, out);
}

static bool f_format(CALL)
{
    struct mtr_jv s, args;
    struct mtr_jlist *l = mtr_jlist_new(r, call->pos_count);
    struct mtr_jdict *d = mtr_jdict_new(r, call->kw_count);
    if (!l || !d || !mtr_jsoft_str(r, &call->pos[0], &s))
        return false;
    if (call->pos_count > 1 && call->kw_count)
        return mtr_jfail(r, MTR_INVALID,
                         "can't handle positional and keyword arguments at the same time");
    for (uint32_t i = 1; i < call->pos_count; i++)
        l->items[l->count++] = call->pos[i];
    for (uint32_t i = 0; i < call->kw_count; i++) {
        if (!mtr_jdict_put(r, d, mtr_jstr(call->kw[i].name, MTR_JTRUSTED), call->kw[i].value))
            return false;
    }
    args = call->kw_count ? mtr_jdict_value_of(d) : mtr_jtuple_value(l);
    return mtr_jpercent(r, &s, &args, out);
}

static bool f_wordcount(ARGS)
{
    struct mtr_jv s;
    int64_t n = 0;
    bool in_word = false;
    if (!mtr_jsoft_str(r, &a[0], &s))
        return false;
    struct mtr_str b = mtr_jbytes(&s);
    for (size_t at = 0; at < b.len;) {
        uint32_t cp;
        at += mtr_jdecode(b.ptr + at, &cp);
        bool word = mtr_jword(cp);
        n += word && !in_word;
        in_word = word;
    }
    *out = mtr_jint(n);
    return mtr_jstep(r, s.len / 16);
}

static bool f_indent(ARGS)
{
    struct mtr_jv lines, newline = mtr_jcstr("\n"), width = mtr_jcstr(" "), text;
    struct mtr_jtext t = {0};
    bool first = given(&a[2]) && mtr_jtruth(&a[2]), blank = given(&a[3]) && mtr_jtruth(&a[3]);
    int64_t times = 4;
    struct mtr_str s;
    if (a[0].kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, &a[0]);
    if (!mtr_jarg_str(r, "indent", &a[0], &s))
        return false;
    if (a[1].kind == MTR_JK_STR) {
        width = a[1];
        times = 1;
    } else if (given(&a[1]) && !mtr_jarg_int(r, "indent", &a[1], &times)) {
        return false;
    }
    if (!mtr_jconcat(r, &a[0], &newline, &text) || !mtr_jsplitlines(r, &text, false, &lines) ||
        (first && !mtr_jtext_fill(r, &t, &width, times)))
        return false;
    for (uint32_t i = 0; i < lines.list->count; i++) {
        const struct mtr_jv *line = &lines.list->items[i];
        if (i && (!mtr_jtext_value(r, &t, &newline) ||
                  ((blank || line->len) && !mtr_jtext_fill(r, &t, &width, times))))
            return false;
        if (!mtr_jtext_value(r, &t, line))
            return false;
    }
    return mtr_jtext_finish(r, &t, a[0].flags & MTR_JF_MARKUP, out);
}

static bool f_truncate(ARGS)
{
    int64_t length = 255, leeway = 5, len;
    bool kill = given(&a[2]) && mtr_jtruth(&a[2]);
    struct mtr_jv end = given(&a[3]) ? a[3] : mtr_jcstr("..."), none = {0}, stop, cut;
    struct mtr_str e;
    if ((given(&a[1]) && !mtr_jarg_int(r, "truncate", &a[1], &length)) ||
        (!is_none(&a[4]) && !mtr_jarg_int(r, "truncate", &a[4], &leeway)) ||
        !mtr_jarg_str(r, "truncate", &end, &e))
        return false;
    if (length < mtr_jchars(e) || leeway < 0)
        return mtr_jfail(r, MTR_INVALID, "truncate: the length is below that of the end");
    if (!mtr_jlen(&a[0], &len))
        return mtr_jfail(r, MTR_INVALID, "object of type '%s' has no len()", mtr_jtype_name(&a[0]));
    if (len <= length + leeway) {
        *out = a[0];
        return true;
    }
    if (a[0].kind != MTR_JK_STR)
        return mtr_jfail(r, MTR_INVALID, "truncate: expected str, got %s", mtr_jtype_name(&a[0]));
    stop = mtr_jint(length - mtr_jchars(e));
    if (!mtr_jslice(r, &a[0], &none, &stop, &none, &cut))
        return false;
    if (!kill) {
        struct mtr_str s = mtr_jbytes(&cut);
        size_t space = s.len;
        while (space > 0 && s.ptr[space - 1] != ' ')
            space--;
        if (space > 0 && !mtr_jsub(r, &cut, 0, (uint32_t)space - 1, &cut))
            return false;
    }
    return mtr_jbinary(r, '+', &cut, &end, out);
}

/* json.dumps(value, ensure_ascii, indent, separators, sort_keys) */
static bool f_tojson(ARGS)
{
    struct mtr_jtext t = {0};
    struct mtr_jdump how = {.ensure_ascii = given(&a[1]) && mtr_jtruth(&a[1]),
                            .sort_keys = given(&a[4]) && mtr_jtruth(&a[4]),
                            .indented = !is_none(&a[2]),
                            .indent = mtr_jcstr("")};
    struct mtr_jlist *separators;
    how.item_separator = mtr_jcstr(how.indented ? "," : ", ");
    how.key_separator = mtr_jcstr(": ");
    if (a[2].kind == MTR_JK_STR) {
        how.indent = a[2];
    } else if (how.indented) {
        struct mtr_jv space = mtr_jcstr(" ");
        if (!mtr_jis_int(&a[2]))
            return mtr_jfail(r, MTR_INVALID, "tojson: indent must be an integer or a string");
        if (!mtr_jbinary(r, '*', &space, &a[2], &how.indent))
            return false;
    }
    if (!is_none(&a[3])) {
        if (!mtr_jcollect(r, &a[3], &separators))
            return false;
        if (separators->count != 2 || separators->items[0].kind != MTR_JK_STR ||
            separators->items[1].kind != MTR_JK_STR)
            return mtr_jfail(r, MTR_INVALID, "tojson: separators must be two strings");
        how.item_separator = separators->items[0];
        how.key_separator = separators->items[1];
    }
    return mtr_jdumps(r, &t, &how, &a[0]) && mtr_jtext_finish(r, &t, 0, out);
}

static const struct mtr_jfilter_entry filters[] = {
    {"tojson", "value ensure_ascii indent separators sort_keys", 1, 5, f_tojson, NULL},
    {"trim", "value chars", 1, 2, f_trim, NULL},
    {"string", "/object", 1, 1, f_string, NULL},
    {"safe", "value", 1, 1, f_safe, NULL},
    {"escape", "/s", 1, 1, f_escape, NULL},
    {"e", "/s", 1, 1, f_escape, NULL},
    {"forceescape", "value", 1, 1, f_forceescape, NULL},
    {"upper", "s", 1, 1, f_upper, NULL},
    {"lower", "s", 1, 1, f_lower, NULL},
    {"capitalize", "s", 1, 1, f_capitalize, NULL},
    {"title", "s", 1, 1, f_title, NULL},
    {"replace", "s old new count", 3, 4, f_replace, NULL},
    {"center", "value width", 1, 2, f_center, NULL},
    {"format", NULL, 1, MTR_JRAW, NULL, f_format},
    {"wordcount", "s", 1, 1, f_wordcount, NULL},
    {"indent", "s width first blank", 1, 4, f_indent, NULL},
    {"truncate", "s length killwords end leeway", 1, 5, f_truncate, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_text(void)
{
    return filters;
}
