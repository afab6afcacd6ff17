/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Searching, and numbers from text.
 *
 * Decimal to double: a significand below 2^53 and a power of ten up to 10^22 are both exact
 * doubles, so one multiplication or division gives the correctly rounded result (W. D. Clinger,
 * "How to read floating point numbers accurately", PLDI 1990). Everything else goes to strtod,
 * which needs a NUL and the C locale; no program here calls setlocale.
 */
#include "common/base/str.h"

#include <stdlib.h>

/* Longer numbers than this are refused; 17 digits name any double. */
#define MAX_NUMBER_BYTES 1024

size_t mtr_str_find(struct mtr_str s, struct mtr_str needle, size_t from)
{
    if (from > s.len || needle.len > s.len - from)
        return SIZE_MAX;
    if (needle.len == 0)
        return from;
    const char *hit = memmem(s.ptr + from, s.len - from, needle.ptr, needle.len);
    return hit ? (size_t)(hit - s.ptr) : SIZE_MAX;
}

bool mtr_str_to_u64(struct mtr_str s, uint64_t *out)
{
    if (s.len == 0)
        return false;
    uint64_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned char)s.ptr[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, digit, &n))
            return false;
    }
    *out = n;
    return true;
}

bool mtr_str_to_i64(struct mtr_str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    uint64_t magnitude;
    if (!mtr_str_to_u64(mtr_str_sub(s, negative, s.len), &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* A decimal literal taken apart: the value is `significand` x 10^`exponent` when `exact`. */
struct decimal {
    uint64_t significand;
    int exponent;
    bool negative;
    bool exact; /* no digit was dropped, the exponent is small */
};

static size_t take_digits(struct mtr_str s, size_t i, struct decimal *d, bool fraction)
{
    for (; i < s.len && (unsigned char)(s.ptr[i] - '0') <= 9; i++) {
        if (d->significand >= UINT64_MAX / 10 - 1)
            d->exact = false;
        else
            d->significand = d->significand * 10 + (unsigned)(s.ptr[i] - '0');
        d->exponent -= fraction;
    }
    return i;
}

static size_t take_exponent(struct mtr_str s, size_t i, struct decimal *d)
{
    if (i >= s.len || (s.ptr[i] | 0x20) != 'e')
        return i;
    i++;
    bool negative = i < s.len && s.ptr[i] == '-';
    i += i < s.len && (s.ptr[i] == '-' || s.ptr[i] == '+');
    size_t first = i;
    int e = 0;
    for (; i < s.len && (unsigned char)(s.ptr[i] - '0') <= 9; i++)
        e = e < 100000 ? e * 10 + (s.ptr[i] - '0') : e;
    d->exponent += negative ? -e : e;
    return i > first ? i : SIZE_MAX;
}

/* False when s is not [+-] digits [. digits] [e [+-] digits] with a digit before the e. */
static bool take_decimal(struct mtr_str s, struct decimal *d)
{
    *d = (struct decimal){.exact = true};
    d->negative = s.len > 0 && s.ptr[0] == '-';
    size_t i = s.len > 0 && (s.ptr[0] == '-' || s.ptr[0] == '+');
    size_t first = i;
    i = take_digits(s, i, d, false);
    size_t digits = i - first;
    if (i < s.len && s.ptr[i] == '.') {
        size_t point = ++i;
        i = take_digits(s, i, d, true);
        digits += i - point;
    }
    return digits > 0 && take_exponent(s, i, d) == s.len;
}

bool mtr_str_to_f64(struct mtr_str s, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal d;
    if (s.len > MAX_NUMBER_BYTES || !take_decimal(s, &d))
        return false;
    if (d.exact && d.significand < 1ull << 53 && d.exponent >= -22 && d.exponent <= 22) {
        double v = (double)d.significand;
        v = d.exponent < 0 ? v / power[-d.exponent] : v * power[d.exponent];
        *out = d.negative ? -v : v;
        return true;
    }
    char text[MAX_NUMBER_BYTES + 1];
    memcpy(text, s.ptr, s.len);
    text[s.len] = 0;
    *out = strtod(text, NULL);
    return true;
}
