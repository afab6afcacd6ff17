/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A growing run of bytes on the heap: what text, frames and reports are built in.
 *
 * The owner calls mtr_buf_free(). A failed append (memory, or the limit) sets `failed` and leaves
 * the content as it was; further appends do nothing, so that a long sequence of appends needs one
 * check at its end. data always has a NUL behind its len bytes once anything was appended.
 */
#ifndef MTR_BASE_BUF_H
#define MTR_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/str.h"

struct mtr_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t limit_bytes; /* 0: no limit */
    bool failed;
};

void mtr_buf_free(struct mtr_buf *b); /* frees and zeroes, the limit too */
static inline void mtr_buf_clear(struct mtr_buf *b)
{
    b->len = 0;
    b->failed = false;
}

bool mtr_buf_reserve(struct mtr_buf *b, size_t more); /* room for `more` bytes and a NUL */
bool mtr_buf_append_slow(struct mtr_buf *b, const void *bytes, size_t len); /* any case */

/* Appends what most often fits: in line, without a call. */
static inline bool mtr_buf_append(struct mtr_buf *b, const void *bytes, size_t len)
{
    if (b->failed || b->limit_bytes || len >= b->cap - b->len)
        return mtr_buf_append_slow(b, bytes, len);
    if (len)
        memcpy(b->data + b->len, bytes, len);
    b->len += len;
    b->data[b->len] = 0;
    return true;
}

static inline bool mtr_buf_byte(struct mtr_buf *b, uint8_t byte)
{
    return mtr_buf_append(b, &byte, 1);
}

bool mtr_buf_str(struct mtr_buf *b, struct mtr_str s);
bool mtr_buf_puts(struct mtr_buf *b, const char *c);
bool mtr_buf_printf(struct mtr_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Drops the first `len` bytes and moves the rest down. */
void mtr_buf_consume(struct mtr_buf *b, size_t len);

static inline struct mtr_str mtr_buf_view(const struct mtr_buf *b)
{
    return (struct mtr_str){b->data, b->len};
}

/*
 * Room for one more element in a heap array of `size`-byte elements: grows *array to at least
 * `need` elements, doubling, and updates *cap. The new part is not cleared. False when memory is
 * out or the product overflows; the array is then unchanged.
 */
bool mtr_grow(void **array, size_t *cap, size_t need, size_t size);

#endif
