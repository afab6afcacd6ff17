/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Numbers as text, both ways, as Python reads and writes them.
 *
 * repr(float) is the shortest decimal that reads back as the same double: 15, 16 and 17 digits are
 * tried in turn (fewer for subnormals, which have less precision), since any decimal of up to 15
 * digits survives the way through a double.
 */
#include "broker/text/jinja/run.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* The digits of d > 0 and its decimal exponent (0.DIGITS * 10^exponent is not used: D.IGITS). */
static int shortest(double d, char digits[20], int *exponent)
{
    char text[40];
    int first = d < 2.3e-308 ? 1 : 15;
    for (int precision = first; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, d);
        if (strtod(text, NULL) == d)
            break;
    }
    char *e = strchr(text, 'e');
    *exponent = (int)strtol(e + 1, NULL, 10);
    int n = 0;
    for (const char *p = text; p < e; p++) {
        if (*p != '.')
            digits[n++] = *p;
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    return n;
}

size_t mtr_jfloat_repr(double d, char out[MTR_JFLOAT_BYTES])
{
    char digits[20];
    int exponent;
    size_t len = 0;
    if (isnan(d))
        return (size_t)snprintf(out, MTR_JFLOAT_BYTES, "nan");
    if (signbit(d))
        out[len++] = '-';
    d = fabs(d);
    if (isinf(d) || d == 0)
        return len + (size_t)snprintf(out + len, MTR_JFLOAT_BYTES - len, isinf(d) ? "inf" : "0.0");
    int n = shortest(d, digits, &exponent);
    if (exponent < -4 || exponent >= 16) {
        out[len++] = digits[0];
        if (n > 1) {
            out[len++] = '.';
            memcpy(out + len, digits + 1, (size_t)n - 1);
            len += (size_t)n - 1;
        }
        return len + (size_t)snprintf(out + len, MTR_JFLOAT_BYTES - len, "e%c%02d",
                                      exponent < 0 ? '-' : '+', abs(exponent));
    }
    int point = exponent + 1; /* digits before the point */
    for (int i = point <= 0 ? point - 1 : 0; i < n || i < point + 1; i++) {
        if (i == point - 1 && point <= 0) {
            out[len++] = '0';
            out[len++] = '.';
            continue;
        }
        if (i == point && point > 0)
            out[len++] = '.';
        if (i < 0)
            out[len++] = '0';
        else if (i < n)
            out[len++] = digits[i];
        else
            out[len++] = '0';
    }
    out[len] = '\0';
    return len;
}

/* ---- reading ---- */

static struct mtr_str trim(struct mtr_str s)
{
    uint32_t cp;
    while (s.len) {
        uint32_t n = mtr_jdecode(s.ptr, &cp);
        if (!mtr_jspace(cp))
            break;
        s = mtr_str_sub(s, n, s.len);
    }
    while (s.len) {
        uint32_t n = mtr_jdecode_last(s, &cp);
        if (!mtr_jspace(cp))
            break;
        s.len -= n;
    }
    return s;
}

/* Copies without the single underscores that Python allows between digits; false when they stand
 * elsewhere or the text is too long. */
static bool plain(struct mtr_str s, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '_') {
            bool between = i > 0 && i + 1 < s.len && isxdigit((unsigned char)s.ptr[i - 1]) &&
                           isxdigit((unsigned char)s.ptr[i + 1]);
            if (!between)
                return false;
            continue;
        }
        if (n + 1 >= size)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

#define MAX_NUMBER_BYTES 4400 /* Python reads integers of up to 4300 digits */

bool mtr_jparse_float(struct mtr_str s, double *out)
{
    char text[512];
    s = trim(s);
    if (!s.len || !plain(s, text, sizeof text))
        return false;
    const char *p = text + (*text == '+' || *text == '-');
    if (strspn(p, "0123456789") == 0 && *p != '.' && strcasecmp(p, "inf") != 0 &&
        strcasecmp(p, "infinity") != 0 && strcasecmp(p, "nan") != 0)
        return false;
    if (strpbrk(p, "xX(") || (*p == '.' && !isdigit((unsigned char)p[1])))
        return false;
    char *end;
    *out = strtod(text, &end);
    return *end == '\0' && strlen(text) > 0;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

/* A decimal integer of any length, canonical: no plus, no leading zeros. */
static bool big(struct mtr_jr *r, bool minus, const char *digits, struct mtr_jv *out)
{
    size_t n = strlen(digits);
    char *text = mtr_jalloc(r, n + 2);
    if (!text)
        return false;
    size_t len = 0;
    if (minus)
        text[len++] = '-';
    memcpy(text + len, digits, n);
    *out = mtr_jstr((struct mtr_str){text, len + n}, MTR_JTRUSTED);
    out->kind = MTR_JK_BIG;
    return true;
}

/* 0x, 0o, 0b in front of p: the base, and *p behind it. 0 when there is none. */
static int prefix(const char **p)
{
    char c = (*p)[0] == '0' ? (char)((*p)[1] | 0x20) : '\0';
    int base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    *p += base ? 2 : 0;
    return base;
}

bool mtr_jparse_int(struct mtr_jr *r, struct mtr_str s, int base, struct mtr_jv *out, bool *ok)
{
    char *text = mtr_jalloc(r, MAX_NUMBER_BYTES);
    if (!text)
        return false;
    *ok = false;
    s = trim(s);
    if (!s.len || !plain(s, text, MAX_NUMBER_BYTES))
        return true;
    bool minus = *text == '-';
    const char *p = text + (*text == '+' || *text == '-');
    const char *digits = p;
    int found = prefix(&digits);
    if (found && (base == found || base == 0)) {
        p = digits;
        base = found;
    } else if (base == 0) {
        base = 10;
        if (*p == '0' && strspn(p, "0") != strlen(p))
            return true;
    }
    for (const char *c = p; *c; c++) {
        if (digit_of(*c) >= base)
            return true;
    }
    if (!*p)
        return true;
    *ok = true;
    while (*p == '0' && p[1])
        p++;
    errno = 0;
    unsigned long long value = strtoull(p, NULL, base);
    if (!errno && value <= (unsigned long long)INT64_MAX + minus) {
        *out = mtr_jint((int64_t)(minus ? 0 - value : value));
        return true;
    }
    if (base != 10)
        return mtr_jfail(r, MTR_INVALID, "an integer of base %d beyond 64 bits", base);
    return big(r, minus, p, out);
}

bool mtr_jint_of_double(struct mtr_jr *r, double d, struct mtr_jv *out)
{
    d = trunc(d);
    if (d >= -9223372036854775808.0 && d < 9223372036854775808.0) {
        *out = mtr_jint((int64_t)d);
        return true;
    }
    char text[400];
    snprintf(text, sizeof text, "%.0f", fabs(d));
    return big(r, d < 0, text, out);
}
