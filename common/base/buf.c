/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Capacity doubles. One byte more than the content is always kept for the NUL, so the limit is held
 * against the content alone.
 */
#include "common/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MIN_BYTES 64u

void mtr_buf_free(struct mtr_buf *b)
{
    free(b->data);
    *b = (struct mtr_buf){0};
}

static bool fail(struct mtr_buf *b)
{
    b->failed = true;
    return false;
}

static bool over_limit(const struct mtr_buf *b, size_t more)
{
    return b->limit_bytes && (b->len > b->limit_bytes || more > b->limit_bytes - b->len);
}

bool mtr_buf_reserve(struct mtr_buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < b->cap - b->len)
        return true;
    if (more > SIZE_MAX / 4 - b->len || over_limit(b, more))
        return fail(b);
    size_t cap = b->cap < MIN_BYTES ? MIN_BYTES : b->cap * 2;
    cap = cap < b->len + more + 1 ? b->len + more + 1 : cap;
    char *data = realloc(b->data, cap);
    if (!data)
        return fail(b);
    b->data = data;
    b->cap = cap;
    return true;
}

bool mtr_buf_append_slow(struct mtr_buf *b, const void *bytes, size_t len)
{
    if (over_limit(b, len))
        return fail(b);
    if (!mtr_buf_reserve(b, len))
        return false;
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = 0;
    return true;
}

bool mtr_buf_str(struct mtr_buf *b, struct mtr_str s)
{
    return mtr_buf_append(b, s.ptr, s.len);
}

bool mtr_buf_puts(struct mtr_buf *b, const char *c)
{
    return mtr_buf_append(b, c, strlen(c));
}

bool mtr_buf_printf(struct mtr_buf *b, const char *format, ...)
{
    if (!mtr_buf_reserve(b, 0))
        return false;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(b->data + b->len, b->cap - b->len, format, args);
    bool ok = len >= 0 && !over_limit(b, (size_t)len) && mtr_buf_reserve(b, (size_t)len);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)len + 1, format, again);
        b->len += (size_t)len;
    } else {
        b->data[b->len] = 0;
        b->failed = true;
    }
    va_end(again);
    va_end(args);
    return ok;
}

void mtr_buf_consume(struct mtr_buf *b, size_t len)
{
    if (len > b->len)
        len = b->len;
    if (len == 0)
        return;
    memmove(b->data, b->data + len, b->len - len);
    b->len -= len;
    b->data[b->len] = 0;
}

bool mtr_grow(void **array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;
    size_t count = *cap < 8 ? 8 : *cap, bytes;
    while (count < need) {
        if (count > SIZE_MAX / 2)
            return false;
        count *= 2;
    }
    if (__builtin_mul_overflow(count, size, &bytes))
        return false;
    void *grown = realloc(*array, bytes);
    if (!grown)
        return false;
    *array = grown;
    *cap = count;
    return true;
}
