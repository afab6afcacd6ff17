/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A slice of bytes that somebody else owns. Not NUL-terminated, may hold NUL bytes.
 */
#ifndef MTR_BASE_STR_H
#define MTR_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mtr_str {
    const char *ptr;
    size_t len;
};

/* A literal: MTR_STR("abc"). */
#define MTR_STR(literal) ((struct mtr_str){(literal), sizeof(literal) - 1})

/* For printf's "%.*s". */
#define MTR_STR_ARG(s) (int)(s).len, (s).ptr

static inline struct mtr_str mtr_str(const char *c)
{
    return (struct mtr_str){c, c ? strlen(c) : 0};
}

static inline bool mtr_str_equal(struct mtr_str a, struct mtr_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool mtr_str_is(struct mtr_str a, const char *c)
{
    return mtr_str_equal(a, mtr_str(c));
}

static inline bool mtr_str_starts(struct mtr_str s, struct mtr_str prefix)
{
    return s.len >= prefix.len && memcmp(s.ptr, prefix.ptr, prefix.len) == 0;
}

static inline bool mtr_str_ends(struct mtr_str s, struct mtr_str suffix)
{
    return s.len >= suffix.len && memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0;
}

/* The bytes [from, from + len), clipped to the slice. */
static inline struct mtr_str mtr_str_sub(struct mtr_str s, size_t from, size_t len)
{
    if (from > s.len)
        from = s.len;
    if (len > s.len - from)
        len = s.len - from;
    return (struct mtr_str){from ? s.ptr + from : s.ptr, len}; /* NULL + 0 is undefined */
}

/* Offset of the first occurrence of needle at or after from, or SIZE_MAX. */
size_t mtr_str_find(struct mtr_str s, struct mtr_str needle, size_t from);

/* The whole slice as a number, in base 10; false when it is anything else or does not fit. */
bool mtr_str_to_i64(struct mtr_str s, int64_t *out);
bool mtr_str_to_u64(struct mtr_str s, uint64_t *out);
bool mtr_str_to_f64(struct mtr_str s, double *out); /* C locale; no hexadecimal, no inf or nan */

#endif
