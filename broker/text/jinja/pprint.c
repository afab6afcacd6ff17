/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The filter pprint: Python's pprint.pformat with its defaults (80 columns, one blank a level,
 * dicts sorted by key).
 *
 * A value whose repr() fits the rest of its line is written so; one that does not is spread over
 * lines, an item each, and a string over several literals.
 */
#include "broker/text/jinja/run.h"

#define WIDTH 80

struct pretty {
    struct mtr_jr *r;
    struct mtr_jtext t;
};

static bool put(struct pretty *p, const char *literal)
{
    return mtr_jtext_puts(p->r, &p->t, literal);
}

static bool put_newline(struct pretty *p, const char *before, int64_t indent)
{
    struct mtr_jv space = mtr_jcstr(" ");
    return put(p, before) && put(p, "\n") && mtr_jtext_fill(p->r, &p->t, &space, indent);
}

/* ---- repr() with the dicts inside sorted ---- */

/* How Python's sort falls back: values of other types by the names of their types. */
static int rank(const struct mtr_jv *v)
{
    switch (v->kind) {
    case MTR_JK_NONE:
        return 0; /* <class 'NoneType'> */
    case MTR_JK_STR:
        return 2;
    case MTR_JK_TUPLE:
        return 3;
    default:
        return 1; /* <class 'bool'>, 'float', 'int' compare with each other */
    }
}

static bool sorted_dict(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    struct mtr_jdict *d = v->dict, *s = mtr_jdict_new(r, d->count);
    struct mtr_jv *keys = mtr_jalloc(r, (d->count + 1) * sizeof *keys);
    struct mtr_jv *items = mtr_jalloc(r, (d->count + 1) * sizeof *items);
    if (!s || !keys || !items)
        return false;
    for (uint32_t i = 0; i < d->count; i++) {
        items[i] = mtr_jint(i);
        if (!mtr_jpair(r, mtr_jint(rank(&d->keys[i])), d->keys[i], &keys[i]))
            return false;
    }
    if (!mtr_jsort(r, keys, items, d->count, false))
        return false;
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t at = (uint32_t)items[i].integer;
        struct mtr_jv value;
        if (!mtr_jdict_value(r, d, at, &value) || !mtr_jdict_put(r, s, d->keys[at], value))
            return false;
    }
    *out = *v;
    out->dict = s;
    return true;
}

/* The same value with its dicts sorted, all the way down. */
static bool sorted(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    *out = *v;
    if (v->kind != MTR_JK_LIST && v->kind != MTR_JK_TUPLE && v->kind != MTR_JK_DICT)
        return true;
    if (!mtr_jdeeper(r))
        return false;
    if (v->kind == MTR_JK_DICT) {
        if (!sorted_dict(r, v, out))
            return false;
        for (uint32_t i = 0; i < out->dict->count; i++) {
            if (!sorted(r, &out->dict->values[i], &out->dict->values[i]))
                return false;
        }
    } else {
        struct mtr_jlist *l = mtr_jlist_new(r, v->list->count);
        if (!l)
            return false;
        for (; l->count < v->list->count; l->count++) {
            struct mtr_jv item;
            if (!mtr_jlist_at(r, v->list, l->count, &item) ||
                !sorted(r, &item, &l->items[l->count]))
                return false;
        }
        out->list = l;
    }
    mtr_jshallower(r);
    return true;
}

static bool repr(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out, int64_t *chars)
{
    struct mtr_jtext t = {0};
    if (!mtr_jput_repr(r, &t, v) || !mtr_jtext_finish(r, &t, 0, out))
        return false;
    *chars = mtr_jchars(mtr_jbytes(out));
    return true;
}

/* ---- what does not fit ---- */

static bool pretty(struct pretty *p, const struct mtr_jv *v, int64_t indent, int64_t allowance,
                   uint32_t level);

static bool pretty_list(struct pretty *p, const struct mtr_jv *v, int64_t indent, int64_t allowance,
                        uint32_t level)
{
    bool list = v->kind == MTR_JK_LIST;
    const char *close = list ? "]" : v->list->count == 1 ? ",)" : ")";
    if (!put(p, list ? "[" : "("))
        return false;
    for (uint32_t i = 0; i < v->list->count; i++) {
        bool last = i + 1 == v->list->count;
        if (!pretty(p, &v->list->items[i], indent + 1,
                    last ? allowance + (int64_t)strlen(close) : 1, level) ||
            (!last && !put_newline(p, ",", indent + 1)))
            return false;
    }
    return put(p, close);
}

static bool pretty_dict(struct pretty *p, const struct mtr_jv *v, int64_t indent, int64_t allowance,
                        uint32_t level)
{
    if (!put(p, "{"))
        return false;
    for (uint32_t i = 0; i < v->dict->count; i++) {
        bool last = i + 1 == v->dict->count;
        struct mtr_jv key;
        int64_t chars;
        if (!repr(p->r, &v->dict->keys[i], &key, &chars) || !mtr_jtext_value(p->r, &p->t, &key) ||
            !put(p, ": ") ||
            !pretty(p, &v->dict->values[i], indent + 1 + chars + 2, last ? allowance + 1 : 1,
                    level) ||
            (!last && !put_newline(p, ",", indent + 1)))
            return false;
    }
    return put(p, "}");
}

/* A word and the white space behind it, from `at`: its end. */
static uint32_t part_end(struct mtr_str s, uint32_t at)
{
    bool space = false;
    while (at < s.len) {
        uint32_t cp;
        uint32_t n = mtr_jdecode(s.ptr + at, &cp);
        if (space && !mtr_jspace(cp))
            break;
        space = mtr_jspace(cp);
        at += n;
    }
    return at;
}

struct literals {
    struct mtr_jlist *list;
    uint32_t cap;
};

/* line[from : to] as a literal of its own. */
static bool push_literal(struct mtr_jr *r, struct literals *l, const struct mtr_jv *line,
                         uint32_t from, uint32_t to)
{
    struct mtr_jv part, text;
    int64_t chars;
    return mtr_jsub(r, line, from, to - from, &part) && repr(r, &part, &text, &chars) &&
           mtr_jlist_push(r, l->list, &l->cap, text);
}

/* Cuts a line at its words into literals of at most `width` characters; the last part of the last
 * line has `allowance` less. */
static bool cut_line(struct mtr_jr *r, struct literals *l, const struct mtr_jv *line, bool last,
                     int64_t width, int64_t allowance)
{
    struct mtr_str s = mtr_jbytes(line);
    uint32_t from = 0;
    for (uint32_t at = 0; at < s.len;) {
        uint32_t end = part_end(s, at);
        struct mtr_jv part, text;
        int64_t chars;
        if (last && end == s.len)
            width -= allowance;
        if (!mtr_jsub(r, line, from, end - from, &part) || !repr(r, &part, &text, &chars))
            return false;
        if (chars > width) {
            if (at > from && !push_literal(r, l, line, from, at))
                return false;
            from = at;
        }
        at = end;
    }
    return from == s.len || push_literal(r, l, line, from, (uint32_t)s.len);
}

static bool pretty_str(struct pretty *p, const struct mtr_jv *v, int64_t indent, int64_t allowance,
                       uint32_t level)
{
    struct mtr_jv lines;
    struct literals l = {.list = mtr_jlist_new(p->r, 0)};
    indent += level == 1;
    allowance += level == 1;
    if (!l.list || !mtr_jsplitlines(p->r, v, true, &lines))
        return false;
    for (uint32_t i = 0; i < lines.list->count; i++) {
        struct mtr_jv text;
        int64_t chars, width = WIDTH - indent;
        bool last = i + 1 == lines.list->count;
        if (!repr(p->r, &lines.list->items[i], &text, &chars))
            return false;
        bool ok = chars <= width - (last ? allowance : 0)
                      ? mtr_jlist_push(p->r, l.list, &l.cap, text)
                      : cut_line(p->r, &l, &lines.list->items[i], last, width, allowance);
        if (!ok)
            return false;
    }
    bool several = l.list->count > 1;
    if (several && level == 1 && !put(p, "("))
        return false;
    for (uint32_t i = 0; i < l.list->count; i++) {
        if ((i && !put_newline(p, "", indent)) || !mtr_jtext_value(p->r, &p->t, &l.list->items[i]))
            return false;
    }
    return !several || level != 1 || put(p, ")");
}

static bool pretty(struct pretty *p, const struct mtr_jv *v, int64_t indent, int64_t allowance,
                   uint32_t level)
{
    struct mtr_jv text;
    int64_t chars;
    bool ok;
    if (!repr(p->r, v, &text, &chars))
        return false;
    if (chars <= WIDTH - indent - allowance)
        return mtr_jtext_value(p->r, &p->t, &text);
    if (!mtr_jdeeper(p->r))
        return false;
    if (v->kind == MTR_JK_LIST || (v->kind == MTR_JK_TUPLE && !(v->flags & MTR_JF_GROUP)))
        ok = pretty_list(p, v, indent, allowance, level + 1);
    else if (v->kind == MTR_JK_DICT)
        ok = pretty_dict(p, v, indent, allowance, level + 1);
    else if (v->kind == MTR_JK_STR && v->len && !mtr_jis_markup(v))
        ok = pretty_str(p, v, indent, allowance, level + 1);
    else
        ok = mtr_jtext_value(p->r, &p->t, &text);
    mtr_jshallower(p->r);
    return ok;
}

static bool f_pprint(struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out)
{
    struct pretty p = {.r = r};
    struct mtr_jv v;
    return sorted(r, &a[0], &v) && pretty(&p, &v, 0, 0, 0) && mtr_jtext_finish(r, &p.t, 0, out);
}

static const struct mtr_jfilter_entry filters[] = {
    {"pprint", "value", 1, 1, f_pprint, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_pprint(void)
{
    return filters;
}
