/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * '{} {name.attr[0]!r:>8}'.format(...): Python's format strings and the format language of strings
 * and numbers behind the colon ([[fill]align][sign][z][#][0][width][grouping][.precision][type]).
 */
#include "broker/text/jinja/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_FIELD       1000000 /* width and precision */
#define MAX_SPEC_NESTED 2

struct spec {
    struct mtr_jv fill; /* one character */
    bool filled;        /* it was given */
    char align;         /* < > ^ = or 0 */
    char sign;          /* + - space */
    bool hash;
    bool negative_zero; /* z: -0 prints as 0 */
    int64_t width;      /* -1: none */
    char grouping;      /* , _ or 0 */
    int64_t precision;  /* -1: none */
    char type;          /* 0: none */
};

static bool read_int(struct mtr_jr *r, struct mtr_str s, size_t *at, int64_t *out)
{
    size_t start = *at;
    *out = 0;
    for (; *at < s.len && s.ptr[*at] >= '0' && s.ptr[*at] <= '9'; (*at)++) {
        *out = *out * 10 + (s.ptr[*at] - '0');
        if (*out > MAX_FIELD)
            return mtr_jfail(r, MTR_TOO_LARGE, "a format width above %d", MAX_FIELD);
    }
    if (*at == start)
        *out = -1;
    return true;
}

static bool take(struct mtr_str s, size_t *at, const char *set, char *out)
{
    if (*at >= s.len || !s.ptr[*at] || !strchr(set, s.ptr[*at]))
        return false;
    *out = s.ptr[(*at)++];
    return true;
}

static void read_align(struct mtr_str s, size_t *at, struct spec *p)
{
    uint32_t cp;
    uint32_t n = s.len ? mtr_jdecode(s.ptr, &cp) : 0;
    p->fill = mtr_jcstr(" ");
    if (n && n < s.len && strchr("<>=^", s.ptr[n]) && s.ptr[n]) {
        p->fill = mtr_jstr(mtr_str_sub(s, 0, n), MTR_JTRUSTED);
        p->align = s.ptr[n];
        p->filled = true;
        *at = n + 1;
        return;
    }
    take(s, at, "<>=^", &p->align);
}

static bool read_spec(struct mtr_jr *r, struct mtr_str s, struct spec *p)
{
    size_t at = 0;
    char c;
    *p = (struct spec){.width = -1, .precision = -1, .sign = '-'};
    read_align(s, &at, p);
    take(s, &at, "+- ", &p->sign);
    p->negative_zero = take(s, &at, "z", &c);
    p->hash = take(s, &at, "#", &c);
    if (take(s, &at, "0", &c)) {
        if (!p->filled)
            p->fill = mtr_jcstr("0");
        if (!p->align)
            p->align = '0'; /* as =, but only where = is allowed */
    }
    if (!read_int(r, s, &at, &p->width))
        return false;
    take(s, &at, ",_", &p->grouping);
    if (take(s, &at, ".", &c)) {
        if (!read_int(r, s, &at, &p->precision))
            return false;
        if (p->precision < 0)
            return mtr_jfail(r, MTR_INVALID, "Format specifier missing precision");
    }
    take(s, &at, "sdbcoxXneEfFgG%", &p->type);
    return at == s.len ||
           mtr_jfail(r, MTR_INVALID, "Invalid format specifier '%.*s'", MTR_STR_ARG(s));
}

static bool bad_type(struct mtr_jr *r, const struct spec *p, const struct mtr_jv *v)
{
    return mtr_jfail(r, MTR_INVALID, "this format code ('%c') does not fit objects of type '%s'",
                     p->type ? p->type : ' ', mtr_jtype_name(v));
}

static bool put_aligned(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p, char align,
                        const struct mtr_jv *text)
{
    int64_t room = p->width - mtr_jchars(mtr_jbytes(text));
    int64_t left = room <= 0 ? 0 : align == '>' ? room : align == '^' ? room / 2 : 0;
    return mtr_jtext_fill(r, t, &p->fill, left) && mtr_jtext_value(r, t, text) &&
           mtr_jtext_fill(r, t, &p->fill, room - left);
}

static bool format_str(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                       const struct mtr_jv *v)
{
    struct mtr_jv text = *v, none = {0}, stop = mtr_jint(p->precision);
    if ((p->type && p->type != 's') || p->sign != '-' || p->hash || p->grouping ||
        p->align == '=' || p->negative_zero)
        return bad_type(r, p, v);
    if (p->precision >= 0 && !mtr_jslice(r, v, &none, &stop, &none, &text))
        return false;
    return put_aligned(r, t, p, p->align == '0' || !p->align ? '<' : p->align, &text);
}

/* ---- numbers: sign, prefix, digits, rest ---- */

struct number {
    bool negative;
    const char *prefix;
    const char *digits;
    size_t digit_count;
    const char *rest; /* from the point, exponent or % */
    uint8_t taint;
};

/* Digits with separators in groups from the right, at least `min` characters wide with zeros. */
static bool put_grouped(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                        const struct number *n, int64_t min)
{
    int64_t group = p->grouping == '_' && p->type && strchr("boxX", p->type) ? 4 : 3;
    int64_t count = (int64_t)n->digit_count;
    if (!p->grouping) {
        struct mtr_jv zero = mtr_jstr(MTR_STR("0"), n->taint);
        return mtr_jtext_fill(r, t, &zero, min - count) &&
               mtr_jtext_put(r, t, n->digits, n->digit_count, n->taint);
    }
    int64_t places = count;
    while (places + (places - 1) / group < min)
        places++;
    for (int64_t i = places; i > 0; i--) {
        char c = i > count ? '0' : n->digits[count - i];
        if (!mtr_jtext_put(r, t, &c, 1, n->taint) ||
            (i > 1 && (i - 1) % group == 0 && !mtr_jtext_put(r, t, &p->grouping, 1, n->taint)))
            return false;
    }
    return true;
}

static bool put_number(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                       const struct number *n)
{
    const char *sign = n->negative ? "-" : p->sign == '+' ? "+" : p->sign == ' ' ? " " : "";
    int64_t fixed = (int64_t)(strlen(sign) + strlen(n->prefix) + strlen(n->rest));
    bool zeros = p->align == '0' || (p->align == '=' && mtr_str_is(mtr_jbytes(&p->fill), "0"));
    struct mtr_jtext body = {0};
    struct mtr_jv text;
    if (!mtr_jtext_put(r, &body, sign, strlen(sign), n->taint) ||
        !mtr_jtext_put(r, &body, n->prefix, strlen(n->prefix), n->taint))
        return false;
    if (p->align == '=' && !zeros) {
        struct mtr_jtext digits = {0};
        if (!put_grouped(r, &digits, p, n, 0) ||
            !mtr_jtext_fill(r, &body, &p->fill, p->width - fixed - (int64_t)digits.len) ||
            !mtr_jtext_put(r, &body, digits.data, digits.len, n->taint))
            return false;
    } else if (!put_grouped(r, &body, p, n, zeros ? p->width - fixed : 0)) {
        return false;
    }
    if (!mtr_jtext_put(r, &body, n->rest, strlen(n->rest), n->taint) ||
        !mtr_jtext_finish(r, &body, 0, &text))
        return false;
    char align = p->align == '=' || p->align == '0' || !p->align ? '>' : p->align;
    return put_aligned(r, t, p, align, &text);
}

static bool format_float(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                         const struct mtr_jv *v);

/* The digits of u in a base, written before *end; a pointer to the first. */
static char *to_base(uint64_t u, unsigned base, bool upper, char *end)
{
    const char *set = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    *--end = '\0';
    do {
        *--end = set[u % base];
        u /= base;
    } while (u);
    return end;
}

static bool format_int(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                       const struct mtr_jv *v)
{
    char buf[72];
    char type = p->type ? p->type : 'd';
    struct number n = {.prefix = "", .rest = "", .taint = v->taint};
    if (strchr("eEfFgG%", type))
        return format_float(r, t, p, v);
    if (type == 's' || p->precision >= 0 || p->negative_zero ||
        (p->grouping == ',' && strchr("boxXcn", type)) || (p->grouping && strchr("cn", type)))
        return bad_type(r, p, v);
    if (type == 'c') {
        struct mtr_jtext c = {0};
        struct mtr_jv text;
        int64_t i = mtr_jis_int(v) ? mtr_jas_int(v) : -1;
        if (p->sign != '-' || p->hash)
            return bad_type(r, p, v);
        if (i < 0 || i > 0x10ffff || (i >= 0xd800 && i <= 0xdfff))
            return mtr_jfail(r, MTR_INVALID, "%%c arg not in range(0x110000)");
        return mtr_jtext_char(r, &c, (uint32_t)i, v->taint) && mtr_jtext_finish(r, &c, 0, &text) &&
               put_aligned(r, t, p, p->align == '0' || !p->align ? '>' : p->align, &text);
    }
    if (v->kind == MTR_JK_BIG) {
        if (strchr("boxX", type))
            return mtr_jfail(r, MTR_INVALID, "an integer beyond 64 bits");
        n.negative = v->text[0] == '-';
        n.digits = v->text + n.negative;
        n.digit_count = v->len - n.negative;
        return put_number(r, t, p, &n);
    }
    int64_t i = mtr_jas_int(v);
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : (type | 0x20) == 'x' ? 16 : 10;
    n.negative = i < 0;
    n.digits =
        to_base(n.negative ? 0 - (uint64_t)i : (uint64_t)i, base, type == 'X', buf + sizeof buf);
    n.digit_count = strlen(n.digits);
    if (p->hash)
        n.prefix = type == 'b'   ? "0b"
                   : type == 'o' ? "0o"
                   : type == 'x' ? "0x"
                   : type == 'X' ? "0X"
                                 : "";
    return put_number(r, t, p, &n);
}

/* A float without type: as repr, but precision counts significant digits and 1e16 stays short. */
static size_t general(double d, int64_t precision, char *out, size_t size)
{
    char text[MTR_JFLOAT_BYTES];
    if (precision < 0) {
        size_t n = mtr_jfloat_repr(d, text);
        memcpy(out, text, n + 1);
        return n;
    }
    if (precision == 0)
        precision = 1;
    /* Like %g, with at least one digit behind the point, and exponents from `precision` on. */
    snprintf(out, size, "%.*e", (int)precision - 1, d);
    int exponent = (int)strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= precision - 1) {
        if (exponent >= -4 && exponent < precision) {
            /* would print without a point: Python prints d.0 unless the digits are all used */
            snprintf(out, size, "%.*e", (int)precision - 1, d);
        }
        char *e = strchr(out, 'e'), tail[16];
        snprintf(tail, sizeof tail, "%s", e);
        char *end = e;
        if (memchr(out, '.', (size_t)(e - out))) {
            while (end[-1] == '0')
                end--;
            if (end[-1] == '.')
                end--;
        }
        snprintf(end, size - (size_t)(end - out), "%s", tail);
        return strlen(out);
    }
    snprintf(out, size, "%.*f", (int)(precision - 1 - exponent), d);
    size_t len = strlen(out);
    char *point = strchr(out, '.');
    if (!point)
        return len + (size_t)snprintf(out + len, size - len, ".0");
    while (len > (size_t)(point - out) + 2 && out[len - 1] == '0')
        out[--len] = '\0';
    return len;
}

static bool format_float(struct mtr_jr *r, struct mtr_jtext *t, const struct spec *p,
                         const struct mtr_jv *v)
{
    double d = mtr_jas_double(v), a = fabs(d);
    int64_t precision = p->precision < 0 ? 6 : p->precision;
    size_t size = (size_t)precision + 400;
    char *text = mtr_jalloc(r, size), format[16];
    struct number n = {.negative = signbit(d) && !isnan(d), .prefix = "", .taint = v->taint};
    if (!text)
        return false;
    if (p->type && strchr("sdbcoxX", p->type))
        return bad_type(r, p, v);
    char type = p->type == 'n' ? 'g' : p->type == '%' ? 'f' : p->type;
    if (!isfinite(d)) {
        bool upper = p->type && strchr("EFG", p->type);
        snprintf(text, size, "%s%s", isnan(d) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"),
                 p->type == '%' ? "%" : "");
    } else if (!type) {
        general(a, p->precision, text, size);
    } else {
        snprintf(format, sizeof format, p->hash ? "%%#.*%c" : "%%.*%c", type);
        snprintf(text, size - 1, format, (int)precision, p->type == '%' ? a * 100 : a);
        if (p->type == '%')
            snprintf(text + strlen(text), 2, "%%");
    }
    if (p->negative_zero && n.negative && strspn(text, "0.") == strlen(text))
        n.negative = false;
    n.digits = text;
    n.digit_count = strspn(text, "0123456789");
    if (!n.digit_count)
        n.digit_count = strlen(text); /* inf, nan */
    n.rest = text + n.digit_count;
    return put_number(r, t, p, &n);
}

bool mtr_jformat_spec(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v,
                      struct mtr_str spec)
{
    struct spec p;
    if (spec.len == 0)
        return mtr_jput_str(r, t, v);
    if (v->kind != MTR_JK_STR && !mtr_jis_number(v))
        return mtr_jfail(r, MTR_INVALID, "unsupported format string passed to %s.__format__",
                         mtr_jtype_name(v));
    if (!read_spec(r, spec, &p))
        return false;
    if (v->kind == MTR_JK_STR)
        return format_str(r, t, &p, v);
    return v->kind == MTR_JK_FLOAT ? format_float(r, t, &p, v) : format_int(r, t, &p, v);
}

/* ---- replacement fields ---- */

struct fields {
    struct mtr_jr *r;
    const struct mtr_jcall *call;
    const struct mtr_jv *format;
    int64_t next;   /* automatic number */
    bool automatic; /* numbering was used */
    bool manual;
};

static bool put_fields(struct fields *f, struct mtr_jtext *t, struct mtr_str s, unsigned nesting);

static bool all_digits(struct mtr_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    }
    return s.len > 0;
}

static bool first_value(struct fields *f, struct mtr_str name, struct mtr_jv *out)
{
    int64_t index;
    if (name.len == 0 || all_digits(name)) {
        f->automatic |= name.len == 0;
        f->manual |= name.len > 0;
        if (f->automatic && f->manual)
            return mtr_jfail(f->r, MTR_INVALID,
                             "cannot mix automatic field numbering and manual specification");
        index = f->next;
        if (name.len == 0)
            f->next++;
        else if (!mtr_str_to_i64(name, &index))
            index = INT64_MAX;
        if (index >= f->call->pos_count)
            return mtr_jfail(f->r, MTR_INVALID, "Replacement index out of range");
        *out = f->call->pos[index];
        return true;
    }
    for (uint32_t i = 0; i < f->call->kw_count; i++) {
        if (mtr_str_equal(f->call->kw[i].name, name)) {
            *out = f->call->kw[i].value;
            return true;
        }
    }
    return mtr_jfail(f->r, MTR_INVALID, "format has no value for '%.*s'", MTR_STR_ARG(name));
}

/* "name.attr[key]..." */
static bool field_value(struct fields *f, struct mtr_str name, struct mtr_jv *out)
{
    size_t at = 0;
    while (at < name.len && name.ptr[at] != '.' && name.ptr[at] != '[')
        at++;
    if (!first_value(f, mtr_str_sub(name, 0, at), out))
        return false;
    while (at < name.len) {
        bool attr = name.ptr[at] == '.';
        size_t start = ++at;
        while (at < name.len &&
               (attr ? name.ptr[at] != '.' && name.ptr[at] != '[' : name.ptr[at] != ']'))
            at++;
        struct mtr_str part = mtr_str_sub(name, start, at - start);
        if (!part.len || (!attr && at >= name.len))
            return mtr_jfail(f->r, MTR_INVALID, "Empty attribute in format string");
        struct mtr_jv key = mtr_jstr(part, MTR_JTRUSTED), obj = *out;
        int64_t index;
        if (!attr && all_digits(part) && mtr_str_to_i64(part, &index))
            key = mtr_jint(index);
        if (!(attr ? mtr_jgetattr(f->r, &obj, part, out) : mtr_jgetitem(f->r, &obj, &key, out)))
            return false;
        at += !attr;
        if (!attr && at < name.len && name.ptr[at] != '.' && name.ptr[at] != '[')
            return mtr_jfail(f->r, MTR_INVALID, "Only '.' or '[' may follow ']' in format field");
    }
    return true;
}

static bool convert(struct fields *f, char how, struct mtr_jv *v)
{
    struct mtr_jtext t = {0};
    if (how == 's')
        return mtr_jto_str(f->r, v, v);
    if (how != 'r')
        return mtr_jfail(f->r, MTR_INVALID, "Unknown conversion specifier '%c'", how);
    return mtr_jput_repr(f->r, &t, v) && mtr_jtext_finish(f->r, &t, 0, v);
}

/* The body of "{name!r:spec}". */
static bool put_field(struct fields *f, struct mtr_jtext *t, struct mtr_str body, unsigned nesting)
{
    size_t end = 0;
    unsigned bracket = 0;
    for (; end < body.len; end++) {
        char c = body.ptr[end];
        bracket = c == '[' ? 1 : c == ']' ? 0 : bracket;
        if (!bracket && (c == '!' || c == ':'))
            break;
    }
    struct mtr_jv v;
    struct mtr_str spec = MTR_STR("");
    struct mtr_jtext expanded = {0};
    char how = '\0';
    if (end < body.len && body.ptr[end] == '!') {
        if (end + 1 >= body.len || (end + 2 < body.len && body.ptr[end + 2] != ':'))
            return mtr_jfail(f->r, MTR_INVALID, "expected ':' after conversion specifier");
        how = body.ptr[end + 1];
        spec = mtr_str_sub(body, end + 3, body.len);
    } else {
        spec = mtr_str_sub(body, end + 1, body.len);
    }
    if (!field_value(f, mtr_str_sub(body, 0, end), &v) || (how && !convert(f, how, &v)) ||
        !put_fields(f, &expanded, spec, nesting + 1))
        return false;
    spec = (struct mtr_str){expanded.len ? expanded.data : "", expanded.len};
    if (!mtr_jis_markup(f->format))
        return mtr_jformat_spec(f->r, t, &v, spec);
    if (mtr_jis_markup(&v) && spec.len)
        return mtr_jfail(f->r, MTR_INVALID, "Unsupported format specification for Markup.");
    struct mtr_jtext text = {0};
    if (!mtr_jis_markup(&v) &&
        (!mtr_jformat_spec(f->r, &text, &v, spec) || !mtr_jtext_finish(f->r, &text, 0, &v)))
        return false;
    return mtr_jescape(f->r, &v, &v) && mtr_jtext_value(f->r, t, &v);
}

/* Text with fields; s is part of the format or of a spec in it. */
static bool put_fields(struct fields *f, struct mtr_jtext *t, struct mtr_str s, unsigned nesting)
{
    const char *base = mtr_jbytes(f->format).ptr;
    if (nesting > MAX_SPEC_NESTED)
        return mtr_jfail(f->r, MTR_INVALID, "Max string recursion exceeded");
    for (size_t at = 0; at < s.len;) {
        char c = s.ptr[at];
        if ((c == '{' || c == '}') && at + 1 < s.len && s.ptr[at + 1] == c) {
            if (!mtr_jtext_put(f->r, t, &c, 1, f->format->taint))
                return false;
            at += 2;
            continue;
        }
        if (c == '}')
            return mtr_jfail(f->r, MTR_INVALID, "Single '}' encountered in format string");
        if (c != '{') {
            size_t end = at;
            while (end < s.len && s.ptr[end] != '{' && s.ptr[end] != '}')
                end++;
            if (!mtr_jtext_slice(f->r, t, f->format, (uint32_t)(s.ptr + at - base),
                                 (uint32_t)(end - at)))
                return false;
            at = end;
            continue;
        }
        size_t end = at + 1;
        for (unsigned depth = 1; end < s.len; end++) {
            depth += s.ptr[end] == '{';
            depth -= s.ptr[end] == '}';
            if (depth == 0)
                break;
        }
        if (end >= s.len)
            return mtr_jfail(f->r, MTR_INVALID, "expected '}' before end of string");
        if (!put_field(f, t, mtr_str_sub(s, at + 1, end - at - 1), nesting))
            return false;
        at = end + 1;
    }
    return true;
}

bool mtr_jformat(struct mtr_jr *r, const struct mtr_jv *format, const struct mtr_jcall *call,
                 struct mtr_jv *out)
{
    struct fields f = {.r = r, .call = call, .format = format};
    struct mtr_jtext t = {0};
    return put_fields(&f, &t, mtr_jbytes(format), 0) &&
           mtr_jtext_finish(r, &t, format->flags & MTR_JF_MARKUP, out);
}
