/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * '%s and %d' % values: Python's printf-style formatting.
 */
#include "broker/text/jinja/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* One conversion: %(key)-08.3f */
struct conversion {
    bool minus, plus, space, hash, zero;
    int64_t width;
    int64_t precision; /* -1: none */
    char type;
    bool markup; /* the format is markup: values are escaped */
};

struct state {
    struct mtr_jr *r;
    struct mtr_jtext t;
    struct mtr_str f;
    size_t at;
    const struct mtr_jv *args;
    uint32_t next;   /* of a tuple */
    bool used_whole; /* args, no tuple, was taken as the only value */
};

#define MAX_FIELD 1000000 /* width and precision */

static bool is_mapping(const struct mtr_jv *v)
{
    return v->kind == MTR_JK_DICT || v->kind == MTR_JK_UNDEFINED || v->kind == MTR_JK_LIST ||
           v->kind == MTR_JK_RANGE || v->kind == MTR_JK_BLOCKS;
}

static bool next_value(struct state *s, struct mtr_jv *out)
{
    if (s->args->kind == MTR_JK_TUPLE && s->next < s->args->list->count)
        return mtr_jlist_at(s->r, s->args->list, s->next++, out);
    if (s->args->kind == MTR_JK_TUPLE || s->used_whole)
        return mtr_jfail(s->r, MTR_INVALID, "not enough arguments for format string");
    s->used_whole = true;
    *out = *s->args;
    return true;
}

static char peek(const struct state *s)
{
    return s->at < s->f.len ? s->f.ptr[s->at] : '\0';
}

/* "(key)" and its value. */
static bool keyed_value(struct state *s, struct mtr_jv *out)
{
    size_t start = ++s->at;
    int depth = 1;
    for (; s->at < s->f.len; s->at++) {
        depth += s->f.ptr[s->at] == '(';
        depth -= s->f.ptr[s->at] == ')';
        if (depth == 0)
            break;
    }
    if (s->at >= s->f.len)
        return mtr_jfail(s->r, MTR_INVALID, "incomplete format key");
    struct mtr_jv key = mtr_jstr(mtr_str_sub(s->f, start, s->at - start), MTR_JTRUSTED);
    uint32_t at;
    s->at++;
    if (s->args->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(s->r, s->args);
    if (s->args->kind != MTR_JK_DICT)
        return mtr_jfail(s->r, MTR_INVALID, "format requires a mapping");
    if (!mtr_jdict_find(s->r, s->args->dict, &key, &at))
        return false;
    if (at == UINT32_MAX)
        return mtr_jfail(s->r, MTR_INVALID, "format key '%.*s' is missing",
                         MTR_STR_ARG(mtr_jbytes(&key)));
    s->used_whole = true;
    return mtr_jdict_value(s->r, s->args->dict, at, out);
}

static bool read_number(struct state *s, int64_t *out)
{
    struct mtr_jv v;
    if (peek(s) == '*') {
        s->at++;
        if (!next_value(s, &v))
            return false;
        if (!mtr_jis_int(&v))
            return mtr_jfail(s->r, MTR_INVALID, "* wants int");
        *out = mtr_jas_int(&v);
    } else {
        for (*out = 0; peek(s) >= '0' && peek(s) <= '9' && *out <= MAX_FIELD; s->at++)
            *out = *out * 10 + (peek(s) - '0');
    }
    if (*out > MAX_FIELD || *out < -MAX_FIELD)
        return mtr_jfail(s->r, MTR_TOO_LARGE, "a format width above %d", MAX_FIELD);
    return true;
}

static bool read_flags(struct state *s, struct conversion *c)
{
    for (;; s->at++) {
        switch (peek(s)) {
        case '-':
            c->minus = true;
            break;
        case '+':
            c->plus = true;
            break;
        case ' ':
            c->space = true;
            break;
        case '#':
            c->hash = true;
            break;
        case '0':
            c->zero = true;
            break;
        default:
            return true;
        }
    }
}

static bool read_conversion(struct state *s, struct conversion *c)
{
    c->precision = -1;
    if (!read_flags(s, c) || !read_number(s, &c->width))
        return false;
    if (c->width < 0) {
        c->minus = true;
        c->width = -c->width;
    }
    if (peek(s) == '.') {
        s->at++;
        if (!read_number(s, &c->precision))
            return false;
        if (c->precision < 0)
            c->precision = 0;
    }
    while (peek(s) == 'l' || peek(s) == 'h' || peek(s) == 'L')
        s->at++;
    if (s->at >= s->f.len)
        return mtr_jfail(s->r, MTR_INVALID, "incomplete format");
    c->type = s->f.ptr[s->at++];
    return true;
}

/* ---- values ---- */

static bool put_padded(struct state *s, const struct conversion *c, const struct mtr_jv *text)
{
    struct mtr_jv space = mtr_jcstr(" ");
    int64_t room = c->width - mtr_jchars(mtr_jbytes(text));
    return (c->minus || mtr_jtext_fill(s->r, &s->t, &space, room)) &&
           mtr_jtext_value(s->r, &s->t, text) &&
           (!c->minus || mtr_jtext_fill(s->r, &s->t, &space, room));
}

static bool escaped(struct state *s, const struct conversion *c, struct mtr_jv *text)
{
    return !c->markup || mtr_jescape(s->r, text, text);
}

static bool put_ascii(struct mtr_jr *r, struct mtr_jv *text)
{
    struct mtr_str b = mtr_jbytes(text);
    struct mtr_jtext t = {0};
    char buf[12];
    for (size_t at = 0; at < b.len;) {
        uint32_t cp;
        uint32_t n = mtr_jdecode(b.ptr + at, &cp);
        size_t len = 1;
        buf[0] = (char)cp;
        if (cp > 0x7e)
            len = (size_t)snprintf(buf, sizeof buf,
                                   cp > 0xffff ? "\\U%08x"
                                   : cp > 0xff ? "\\u%04x"
                                               : "\\x%02x",
                                   cp);
        if (!mtr_jtext_put(r, &t, buf, len, mtr_jtaint_at(text, (uint32_t)at)))
            return false;
        at += n;
    }
    return mtr_jtext_finish(r, &t, 0, text);
}

static bool put_text(struct state *s, const struct conversion *c, const struct mtr_jv *v)
{
    struct mtr_jv text, none = {0}, stop = mtr_jint(c->precision);
    struct mtr_jtext t = {0};
    if (c->type == 's') {
        if (!(c->markup ? mtr_jescape(s->r, v, &text) : mtr_jto_str(s->r, v, &text)))
            return false;
    } else if (!mtr_jput_repr(s->r, &t, v) || !mtr_jtext_finish(s->r, &t, 0, &text) ||
               !escaped(s, c, &text) || (c->type == 'a' && !put_ascii(s->r, &text))) {
        return false;
    }
    if (c->precision >= 0 && !mtr_jslice(s->r, &text, &none, &stop, &none, &text))
        return false;
    return put_padded(s, c, &text);
}

/* Sign, prefix and digits, padded as the flags say. */
static bool put_digits(struct state *s, const struct conversion *c, bool negative,
                       const char *prefix, const char *digits, uint8_t taint)
{
    struct mtr_jv zero = mtr_jstr(MTR_STR("0"), taint), space = mtr_jcstr(" ");
    const char *sign = negative ? "-" : c->plus ? "+" : c->space ? " " : "";
    int64_t len = (int64_t)(strlen(sign) + strlen(prefix) + strlen(digits));
    int64_t room = c->width > len ? c->width - len : 0;
    bool zeros = c->zero && !c->minus;
    return (c->minus || zeros || mtr_jtext_fill(s->r, &s->t, &space, room)) &&
           mtr_jtext_put(s->r, &s->t, sign, strlen(sign), taint) &&
           mtr_jtext_put(s->r, &s->t, prefix, strlen(prefix), taint) &&
           (!zeros || mtr_jtext_fill(s->r, &s->t, &zero, room)) &&
           mtr_jtext_put(s->r, &s->t, digits, strlen(digits), taint) &&
           (!c->minus || mtr_jtext_fill(s->r, &s->t, &space, room));
}

static bool put_integer(struct state *s, const struct conversion *c, const struct mtr_jv *value)
{
    struct mtr_jv v = *value;
    bool decimal = strchr("diu", c->type);
    if (v.kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(s->r, &v);
    if (v.kind == MTR_JK_FLOAT && decimal) {
        if (!isfinite(v.real))
            return mtr_jfail(s->r, MTR_INVALID, "cannot convert float to integer");
        if (!mtr_jint_of_double(s->r, v.real, &v))
            return false;
    }
    if (!mtr_jis_int(&v) && v.kind != MTR_JK_BIG)
        return mtr_jfail(s->r, MTR_INVALID, "%%%c format: a number is required, not %s", c->type,
                         mtr_jtype_name(value));
    if (v.kind == MTR_JK_BIG && !decimal)
        return mtr_jfail(s->r, MTR_INVALID, "an integer beyond 64 bits");
    char *digits = mtr_jalloc(s->r, (size_t)(c->precision > 0 ? c->precision : 0) + v.len + 80);
    if (!digits)
        return false;
    bool negative;
    char plain[32];
    struct mtr_str text = {v.text, v.len};
    if (v.kind == MTR_JK_BIG) {
        negative = text.ptr[0] == '-';
        text = mtr_str_sub(text, negative, text.len);
    } else {
        int64_t i = mtr_jas_int(&v);
        negative = i < 0;
        uint64_t u = negative ? 0 - (uint64_t)i : (uint64_t)i;
        const char *format = c->type == 'x'   ? "%" PRIx64
                             : c->type == 'X' ? "%" PRIX64
                             : c->type == 'o' ? "%" PRIo64
                                              : "%" PRIu64;
        text = (struct mtr_str){plain, (size_t)snprintf(plain, sizeof plain, format, u)};
    }
    size_t zeros = c->precision > (int64_t)text.len ? (size_t)c->precision - text.len : 0;
    memset(digits, '0', zeros);
    memcpy(digits + zeros, text.ptr, text.len);
    digits[zeros + text.len] = '\0';
    const char *prefix = !c->hash         ? ""
                         : c->type == 'x' ? "0x"
                         : c->type == 'X' ? "0X"
                         : c->type == 'o' ? "0o"
                                          : "";
    return put_digits(s, c, negative, prefix, digits, v.taint);
}

static bool put_float(struct state *s, const struct conversion *c, const struct mtr_jv *v)
{
    double d;
    if (v->kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(s->r, v);
    if (!mtr_jis_number(v))
        return mtr_jfail(s->r, MTR_INVALID, "must be real number, not %s", mtr_jtype_name(v));
    d = mtr_jas_double(v);
    int64_t precision = c->precision < 0 ? 6 : c->precision;
    size_t size = (size_t)precision + 400;
    char format[16], *text = mtr_jalloc(s->r, size);
    if (!text)
        return false;
    snprintf(format, sizeof format, c->hash ? "%%#.*%c" : "%%.*%c", c->type);
    struct conversion plain = *c;
    if (!isfinite(d)) {
        bool upper = c->type < 'a';
        snprintf(text, size, "%s", isnan(d) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
    } else {
        snprintf(text, size, format, (int)precision, fabs(d));
    }
    return put_digits(s, &plain, signbit(d) && !isnan(d), "", text, v->taint);
}

static bool put_char(struct state *s, const struct conversion *c, const struct mtr_jv *v)
{
    struct mtr_jv text = *v;
    struct mtr_jtext t = {0};
    if (v->kind == MTR_JK_STR) {
        if (mtr_jchars(mtr_jbytes(v)) != 1)
            return mtr_jfail(s->r, MTR_INVALID, "%%c requires int or char");
    } else {
        int64_t i = mtr_jis_int(v) ? mtr_jas_int(v) : -1;
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i <= 0xdfff))
            return mtr_jfail(s->r, MTR_INVALID, "%%c requires int or char");
        if (!mtr_jtext_char(s->r, &t, (uint32_t)i, v->taint) ||
            !mtr_jtext_finish(s->r, &t, 0, &text))
            return false;
    }
    return put_padded(s, c, &text);
}

static bool put_conversion(struct state *s, bool markup)
{
    struct conversion c = {.markup = markup};
    struct mtr_jv v = {0};
    bool keyed = peek(s) == '(';
    if ((keyed && !keyed_value(s, &v)) || !read_conversion(s, &c))
        return false;
    if (c.type == '%')
        return mtr_jtext_puts(s->r, &s->t, "%");
    if (!c.type || !strchr("sradiuoxXeEfFgGc", c.type))
        return mtr_jfail(s->r, MTR_INVALID, "unsupported format character");
    if (!keyed && !next_value(s, &v))
        return false;
    if (strchr("sra", c.type))
        return put_text(s, &c, &v);
    if (strchr("diuoxX", c.type))
        return put_integer(s, &c, &v);
    return c.type == 'c' ? put_char(s, &c, &v) : put_float(s, &c, &v);
}

bool mtr_jpercent(struct mtr_jr *r, const struct mtr_jv *format, const struct mtr_jv *args,
                  struct mtr_jv *out)
{
    struct state s = {.r = r, .f = mtr_jbytes(format), .args = args};
    bool markup = mtr_jis_markup(format);
    while (s.at < s.f.len) {
        size_t percent = mtr_str_find(s.f, MTR_STR("%"), s.at);
        size_t end = percent == SIZE_MAX ? s.f.len : percent;
        if (!mtr_jtext_slice(r, &s.t, format, (uint32_t)s.at, (uint32_t)(end - s.at)))
            return false;
        s.at = end;
        if (percent == SIZE_MAX)
            break;
        s.at++;
        if (!put_conversion(&s, markup))
            return false;
    }
    bool rest = args->kind == MTR_JK_TUPLE ? s.next < args->list->count
                                           : !s.used_whole && !is_mapping(args);
    if (rest)
        return mtr_jfail(r, MTR_INVALID, "not all arguments converted during string formatting");
    return mtr_jtext_finish(r, &s.t, markup ? MTR_JF_MARKUP : 0, out);
}
