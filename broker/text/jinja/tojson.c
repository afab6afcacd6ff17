/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * json.dumps, byte for byte as Python's.
 */
#include "broker/text/jinja/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct dump {
    struct mtr_jr *r;
    struct mtr_jtext *t;
    const struct mtr_jdump *how;
    uint32_t level;
};

static bool put(struct dump *d, const char *bytes, size_t len, uint8_t taint)
{
    return mtr_jtext_put(d->r, d->t, bytes, len, taint);
}

static bool put_cstr(struct dump *d, const char *c, uint8_t taint)
{
    return put(d, c, strlen(c), taint);
}

/* The escape of a character, or NULL: it stays as it is. */
static const char *escape_of(uint32_t cp, bool ensure_ascii, char buf[16])
{
    switch (cp) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        break;
    }
    if (cp >= 0x20 && !(ensure_ascii && cp >= 0x7f))
        return NULL;
    if (cp == 0x7f)
        return NULL;
    if (cp > 0xffff)
        snprintf(buf, 16, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                 0xdc00 + ((cp - 0x10000) & 0x3ff));
    else
        snprintf(buf, 16, "\\u%04x", cp);
    return buf;
}

static bool put_string(struct dump *d, const struct mtr_jv *v)
{
    struct mtr_str s = mtr_jbytes(v);
    uint8_t taint = v->flags & MTR_JF_MIXED ? v->mixed->first : v->taint;
    size_t from = 0;
    if (!put(d, "\"", 1, taint))
        return false;
    for (size_t at = 0; at < s.len;) {
        unsigned char c = (unsigned char)s.ptr[at];
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || !d->how->ensure_ascii)) {
            at++;
            continue;
        }
        uint32_t cp;
        char buf[16];
        uint32_t n = mtr_jdecode(s.ptr + at, &cp);
        const char *escape = escape_of(cp, d->how->ensure_ascii, buf);
        if (escape) {
            if (!mtr_jtext_slice(d->r, d->t, v, (uint32_t)from, (uint32_t)(at - from)) ||
                !put_cstr(d, escape, mtr_jtaint_at(v, (uint32_t)at)))
                return false;
            from = at + n;
        }
        at += n;
    }
    return mtr_jtext_slice(d->r, d->t, v, (uint32_t)from, (uint32_t)(s.len - from)) &&
           put(d, "\"", 1, taint);
}

static bool put_newline(struct dump *d, uint8_t taint)
{
    if (!d->how->indented)
        return true;
    if (!put(d, "\n", 1, taint))
        return false;
    struct mtr_str s = mtr_jbytes(&d->how->indent);
    for (uint32_t i = 0; i < d->level; i++) {
        if (!put(d, s.ptr, s.len, taint))
            return false;
    }
    return true;
}

static bool put_separator(struct dump *d, const struct mtr_jv *sep, uint8_t taint)
{
    struct mtr_str s = mtr_jbytes(sep);
    return put(d, s.ptr, s.len, sep->taint ? sep->taint : taint);
}

/* A float, or the text that stands for what JSON does not have. */
static size_t float_text(double f, char out[MTR_JFLOAT_BYTES])
{
    if (isnan(f))
        return (size_t)snprintf(out, MTR_JFLOAT_BYTES, "NaN");
    if (isinf(f))
        return (size_t)snprintf(out, MTR_JFLOAT_BYTES, f < 0 ? "-Infinity" : "Infinity");
    return mtr_jfloat_repr(f, out);
}

static bool put_scalar(struct dump *d, const struct mtr_jv *v)
{
    char text[MTR_JFLOAT_BYTES];
    switch (v->kind) {
    case MTR_JK_NONE:
        return put(d, "null", 4, v->taint);
    case MTR_JK_BOOL:
        return put_cstr(d, v->boolean ? "true" : "false", v->taint);
    case MTR_JK_INT:
        return put(d, text, (size_t)snprintf(text, sizeof text, "%" PRId64, v->integer), v->taint);
    case MTR_JK_BIG:
        return put(d, v->text, v->len, v->taint);
    case MTR_JK_FLOAT:
        return put(d, text, float_text(v->real, text), v->taint);
    default:
        return mtr_jfail(d->r, MTR_INVALID, "Object of type %s is not JSON serializable",
                         mtr_jtype_name(v));
    }
}

static bool put_value(struct dump *d, const struct mtr_jv *v);

static bool put_list(struct dump *d, const struct mtr_jv *v)
{
    if (v->list->count == 0)
        return put(d, "[]", 2, v->taint);
    if (!put(d, "[", 1, v->taint))
        return false;
    d->level++;
    for (uint32_t i = 0; i < v->list->count; i++) {
        struct mtr_jv item;
        if ((i && !put_separator(d, &d->how->item_separator, v->taint)) ||
            !put_newline(d, v->taint) || !mtr_jlist_at(d->r, v->list, i, &item) ||
            !put_value(d, &item))
            return false;
    }
    d->level--;
    return put_newline(d, v->taint) && put(d, "]", 1, v->taint);
}

static bool put_key(struct dump *d, const struct mtr_jv *key)
{
    if (key->kind == MTR_JK_STR)
        return put_string(d, key);
    if (!mtr_jis_number(key) && key->kind != MTR_JK_NONE)
        return mtr_jfail(d->r, MTR_INVALID, "keys must be str, int, float, bool or None, not %s",
                         mtr_jtype_name(key));
    return put(d, "\"", 1, key->taint) && put_scalar(d, key) && put(d, "\"", 1, key->taint);
}

/* Positions of the members in the order in which they are written. */
static bool ordered(struct dump *d, struct mtr_jdict *m, struct mtr_jv **positions)
{
    *positions = NULL;
    if (!d->how->sort_keys)
        return true;
    struct mtr_jv *p = mtr_jalloc(d->r, (m->count + 1) * sizeof *p);
    struct mtr_jv *keys = mtr_jalloc(d->r, (m->count + 1) * sizeof *keys);
    if (!p || !keys)
        return false;
    for (uint32_t i = 0; i < m->count; i++) {
        p[i] = mtr_jint(i);
        keys[i] = m->keys[i];
    }
    *positions = p;
    return mtr_jsort(d->r, keys, p, m->count, false);
}

static bool put_dict(struct dump *d, const struct mtr_jv *v)
{
    struct mtr_jdict *m = v->dict;
    struct mtr_jv *positions;
    if (m->count == 0)
        return put(d, "{}", 2, v->taint);
    if (!ordered(d, m, &positions) || !put(d, "{", 1, v->taint))
        return false;
    d->level++;
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t at = positions ? (uint32_t)positions[i].integer : i;
        struct mtr_jv value;
        if ((i && !put_separator(d, &d->how->item_separator, v->taint)) ||
            !put_newline(d, v->taint) || !put_key(d, &m->keys[at]) ||
            !put_separator(d, &d->how->key_separator, v->taint) ||
            !mtr_jdict_value(d->r, m, at, &value) || !put_value(d, &value))
            return false;
    }
    d->level--;
    return put_newline(d, v->taint) && put(d, "}", 1, v->taint);
}

static bool put_value(struct dump *d, const struct mtr_jv *v)
{
    bool ok;
    if (!mtr_jstep(d->r, 1))
        return false;
    switch (v->kind) {
    case MTR_JK_STR:
        return put_string(d, v);
    case MTR_JK_LIST:
    case MTR_JK_TUPLE:
        ok = mtr_jdeeper(d->r) && put_list(d, v);
        break;
    case MTR_JK_DICT:
        ok = mtr_jdeeper(d->r) && put_dict(d, v);
        break;
    default:
        return put_scalar(d, v);
    }
    mtr_jshallower(d->r);
    return ok;
}

bool mtr_jdumps(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jdump *how,
                const struct mtr_jv *v)
{
    struct dump d = {.r = r, .t = t, .how = how};
    return put_value(&d, v);
}
