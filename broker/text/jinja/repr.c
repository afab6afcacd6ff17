/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * str() and repr() of every value.
 */
#include "broker/text/jinja/run.h"

#include <inttypes.h>
#include <stdio.h>

#include "broker/text/jinja/ast.h"
#include "broker/text/jinja/macro.h"

static bool put_number(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    char text[MTR_JFLOAT_BYTES];
    switch (v->kind) {
    case MTR_JK_INT:
        return mtr_jtext_put(r, t, text,
                             (size_t)snprintf(text, sizeof text, "%" PRId64, v->integer), v->taint);
    case MTR_JK_BIG:
        return mtr_jtext_put(r, t, v->text, v->len, v->taint);
    case MTR_JK_BOOL:
        return mtr_jtext_put(r, t, v->boolean ? "True" : "False", v->boolean ? 4 : 5, v->taint);
    default:
        return mtr_jtext_put(r, t, text, mtr_jfloat_repr(v->real, text), v->taint);
    }
}

/* The escape of a character inside quotes, or NULL: it stays. */
static const char *escape_of(uint32_t cp, char quote, char buf[12])
{
    switch (cp) {
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        break;
    }
    if (cp == (uint32_t)quote)
        snprintf(buf, 12, "\\%c", quote);
    else if (mtr_jprintable(cp))
        return NULL;
    else
        snprintf(buf, 12, cp > 0xffff ? "\\U%08x" : cp > 0xff ? "\\u%04x" : "\\x%02x", cp);
    return buf;
}

static bool put_quoted(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    struct mtr_str s = mtr_jbytes(v);
    bool single = s.len && memchr(s.ptr, '\'', s.len);
    bool two = s.len && memchr(s.ptr, '"', s.len);
    char quote = single && !two ? '"' : '\'';
    uint8_t taint = v->flags & MTR_JF_MIXED ? v->mixed->first : v->taint;
    size_t from = 0;
    if (!mtr_jtext_put(r, t, &quote, 1, taint))
        return false;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        char buf[12];
        uint32_t n = mtr_jdecode(s.ptr + at, &cp);
        const char *escape = escape_of(cp, quote, buf);
        if (escape) {
            if (!mtr_jtext_slice(r, t, v, (uint32_t)from, (uint32_t)(at - from)) ||
                !mtr_jtext_put(r, t, escape, strlen(escape), mtr_jtaint_at(v, (uint32_t)at)))
                return false;
            from = at + n;
        }
        at += n;
    }
    return mtr_jtext_slice(r, t, v, (uint32_t)from, (uint32_t)(s.len - from)) &&
           mtr_jtext_put(r, t, &quote, 1, taint);
}

static bool put_str_repr(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    if (!mtr_jis_markup(v))
        return put_quoted(r, t, v);
    return mtr_jtext_puts(r, t, "Markup(") && put_quoted(r, t, v) && mtr_jtext_puts(r, t, ")");
}

static bool put_items(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    bool list = v->kind == MTR_JK_LIST;
    if (!mtr_jtext_put(r, t, list ? "[" : "(", 1, v->taint))
        return false;
    for (uint32_t i = 0; i < v->list->count; i++) {
        struct mtr_jv item;
        if ((i && !mtr_jtext_put(r, t, ", ", 2, v->taint)) || !mtr_jlist_at(r, v->list, i, &item) ||
            !mtr_jput_repr(r, t, &item))
            return false;
    }
    const char *close = list ? "]" : v->list->count == 1 ? ",)" : ")";
    return mtr_jtext_put(r, t, close, strlen(close), v->taint);
}

static bool put_members(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    struct mtr_jdict *d = v->dict;
    if (!mtr_jtext_put(r, t, "{", 1, v->taint))
        return false;
    for (uint32_t i = 0; i < d->count; i++) {
        struct mtr_jv value;
        if ((i && !mtr_jtext_put(r, t, ", ", 2, v->taint)) || !mtr_jput_repr(r, t, &d->keys[i]) ||
            !mtr_jtext_put(r, t, ": ", 2, v->taint) || !mtr_jdict_value(r, d, i, &value) ||
            !mtr_jput_repr(r, t, &value))
            return false;
    }
    return mtr_jtext_put(r, t, "}", 1, v->taint);
}

static bool put_view(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    static const char *const names[] = {"dict_keys(", "dict_values(", "dict_items("};
    struct mtr_jlist *l;
    if (!mtr_jcollect(r, v, &l) || !mtr_jtext_puts(r, t, names[v->sub]))
        return false;
    struct mtr_jv items = mtr_jlist_value(l);
    return put_items(r, t, &items) && mtr_jtext_puts(r, t, ")");
}

static bool put_range(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jrange *g)
{
    char text[80];
    if (g->step == 1)
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", g->start, g->stop);
    else
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", g->start,
                 g->stop, g->step);
    return mtr_jtext_puts(r, t, text);
}

static bool put_macro(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jmacro *m)
{
    if (!m->def->name.ptr)
        return mtr_jtext_puts(r, t, "<Macro anonymous>");
    struct mtr_jv name = mtr_jstr(m->def->name, MTR_JTRUSTED);
    return mtr_jtext_puts(r, t, "<Macro ") && put_quoted(r, t, &name) && mtr_jtext_puts(r, t, ">");
}

/* Things that Python prints with their address, which no other program can print. */
static bool put_opaque(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    return mtr_jtext_puts(r, t, "<") && mtr_jtext_puts(r, t, mtr_jtype_name(v)) &&
           mtr_jtext_puts(r, t, " object>");
}

static bool put_repr(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    switch (v->kind) {
    case MTR_JK_UNDEFINED:
        return mtr_jtext_puts(r, t, "Undefined");
    case MTR_JK_NONE:
        return mtr_jtext_put(r, t, "None", 4, v->taint);
    case MTR_JK_BOOL:
    case MTR_JK_INT:
    case MTR_JK_BIG:
    case MTR_JK_FLOAT:
        return put_number(r, t, v);
    case MTR_JK_STR:
        return put_str_repr(r, t, v);
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        return put_items(r, t, v);
    case MTR_JK_DICT:
        return put_members(r, t, v);
    case MTR_JK_VIEW:
        return put_view(r, t, v);
    case MTR_JK_RANGE:
        return put_range(r, t, v->range);
    case MTR_JK_NAMESPACE:
        return mtr_jtext_puts(r, t, "<Namespace ") && put_members(r, t, v) &&
               mtr_jtext_puts(r, t, ">");
    case MTR_JK_MACRO:
        return put_macro(r, t, v->macro);
    case MTR_JK_LOOP:
        return mtr_jloop_repr(r, t, v->loop);
    case MTR_JK_BLOCKS:
        return mtr_jtext_puts(r, t, "<TemplateReference None>");
    case MTR_JK_FUNCTION:
        return mtr_jtext_puts(r, t, mtr_jglobal_name(v->sub));
    default:
        return put_opaque(r, t, v);
    }
}

bool mtr_jput_repr(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    if (!mtr_jstep(r, 1) || !mtr_jdeeper(r))
        return false;
    bool ok = put_repr(r, t, v);
    mtr_jshallower(r);
    return ok;
}

bool mtr_jput_str(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v)
{
    if (v->kind == MTR_JK_STR)
        return mtr_jtext_value(r, t, v);
    if (v->kind == MTR_JK_UNDEFINED)
        return true;
    return mtr_jput_repr(r, t, v);
}

bool mtr_jto_str(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    if (v->kind == MTR_JK_STR) {
        *out = *v;
        out->flags &= (uint8_t)~MTR_JF_MARKUP;
        return true;
    }
    struct mtr_jtext t = {0};
    return mtr_jput_str(r, &t, v) && mtr_jtext_finish(r, &t, 0, out);
}

bool mtr_jsoft_str(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    if (v->kind != MTR_JK_STR)
        return mtr_jto_str(r, v, out);
    *out = *v;
    return true;
}
