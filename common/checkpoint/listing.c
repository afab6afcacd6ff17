/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two questions about a list of tensors are answered by sorting it: by offset, neighbours show
 * whether two claim the same bytes; by name, neighbours show whether a name repeats, and a binary
 * search finds one. Sorting costs the same whatever the file says, which a hash table does not.
 */
#include "common/checkpoint/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/utf8.h"

#define MAX_TENSOR_BYTES (UINT64_C(1) << 62)

const char *mtr_quoted(struct mtr_str name, char out[MTR_QUOTED_BYTES])
{
    const size_t room = MTR_QUOTED_BYTES - sizeof("\"...\"");
    struct mtr_str shown = mtr_str_sub(name, 0, room);
    shown.len = mtr_utf8_complete(shown);
    bool utf8 = mtr_utf8_valid(shown);
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < shown.len; i++) {
        unsigned char c = (unsigned char)shown.ptr[i];
        out[n++] = c < 0x20 || c == 0x7f || (c > 0x7f && !utf8) ? '?' : (char)c;
    }
    snprintf(out + n, MTR_QUOTED_BYTES - n, shown.len < name.len ? "...\"" : "\"");
    return out;
}

bool mtr_name_check(struct mtr_str name, size_t max_bytes, struct mtr_error *err)
{
    if (name.len == 0)
        return mtr_fail(err, MTR_INVALID, "the name is empty");
    if (name.len > max_bytes)
        return mtr_fail(err, MTR_INVALID, "the name has %zu bytes, at most %zu are allowed",
                        name.len, max_bytes);
    if (!mtr_utf8_valid(name))
        return mtr_fail(err, MTR_INVALID, "the name is not valid UTF-8");
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < 0x20 || c == 0x7f)
            return mtr_fail(err, MTR_INVALID, "the name has the control character 0x%02x", c);
    }
    return true;
}

uint64_t mtr_tensor_elements(const struct mtr_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

const char *mtr_tensor_shape(const struct mtr_tensor *t, char out[MTR_SHAPE_BYTES])
{
    size_t n = (size_t)snprintf(out, MTR_SHAPE_BYTES, "[");
    for (uint32_t i = 0; i < t->rank && n < MTR_SHAPE_BYTES; i++)
        n += (size_t)snprintf(out + n, MTR_SHAPE_BYTES - n, "%s%" PRIu64, i ? ", " : "",
                              t->shape[i]);
    if (n < MTR_SHAPE_BYTES)
        snprintf(out + n, MTR_SHAPE_BYTES - n, "]");
    return out;
}

bool mtr_listing_size(struct mtr_tensor *t, struct mtr_error *err)
{
    const struct mtr_format_info *info = mtr_format_info(t->format);
    char shape[MTR_SHAPE_BYTES];
    uint64_t elements = 1, rows = 1, row_bytes;
    bool empty = false, fits = true;
    for (uint32_t i = 0; i < t->rank; i++) {
        empty |= t->shape[i] == 0;
        uint64_t d = t->shape[i] ? t->shape[i] : 1;
        fits &= !__builtin_mul_overflow(elements, d, &elements) && elements <= MAX_TENSOR_BYTES;
        rows *= i + 1 < t->rank ? d : 1; /* wraps only where fits is false */
    }
    if (!fits)
        return mtr_fail(err, MTR_INVALID, "the product of its shape %s is out of range",
                        mtr_tensor_shape(t, shape));
    uint64_t innermost = t->rank ? t->shape[t->rank - 1] : 1;
    if (innermost % info->block_elements != 0)
        return mtr_fail(err, MTR_INVALID,
                        "its shape %s: the innermost dimension is no multiple of the %" PRIu32
                        " elements of a block of %s",
                        mtr_tensor_shape(t, shape), info->block_elements, info->name);
    if (empty) {
        t->bytes = 0;
        return true;
    }
    if (!mtr_format_row_bytes(t->format, innermost, &row_bytes) ||
        __builtin_mul_overflow(rows, row_bytes, &t->bytes) || t->bytes > MAX_TENSOR_BYTES)
        return mtr_fail(err, MTR_INVALID, "the bytes of its shape %s in %s are out of range",
                        mtr_tensor_shape(t, shape), info->name);
    return true;
}

static int by_offset(const void *pa, const void *pb, void *context)
{
    const struct mtr_tensor *t = context;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    if (t[a].offset != t[b].offset)
        return t[a].offset < t[b].offset ? -1 : 1;
    if (t[a].bytes != t[b].bytes) /* an empty tensor comes before the one that begins where it is */
        return t[a].bytes < t[b].bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool layout_inside(const struct mtr_tensor *t, uint64_t begin, uint64_t end,
                          struct mtr_error *err)
{
    char name[MTR_QUOTED_BYTES];
    if (t->offset >= begin && t->offset <= end && t->bytes <= end - t->offset)
        return true;
    return mtr_fail(err, MTR_INVALID,
                    "tensor %s: its %" PRIu64 " bytes at byte %" PRIu64
                    " leave the file's data, bytes %" PRIu64 " to %" PRIu64
                    " (is the file cut off?)",
                    mtr_quoted(t->name, name), t->bytes, t->offset, begin, end);
}

static bool layout_neighbours(const struct mtr_tensor *t, const uint32_t *order, uint32_t count,
                              uint64_t begin, uint64_t end, enum mtr_listing_holes holes,
                              struct mtr_error *err)
{
    char a[MTR_QUOTED_BYTES], b[MTR_QUOTED_BYTES];
    const struct mtr_tensor *before = NULL;
    uint64_t at = begin;
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_tensor *x = &t[order[i]];
        if (x->offset < at && x->bytes > 0)
            return mtr_fail(err, MTR_INVALID,
                            "tensor %s begins at byte %" PRIu64
                            ", inside tensor %s, which ends at %" PRIu64,
                            mtr_quoted(x->name, a), x->offset, mtr_quoted(before->name, b), at);
        if (x->offset > at && holes == MTR_HOLES_REFUSED)
            return mtr_fail(err, MTR_INVALID,
                            "bytes %" PRIu64 " to %" PRIu64
                            ", before tensor %s, belong to no tensor",
                            at, x->offset, mtr_quoted(x->name, a));
        if (x->bytes > 0) {
            at = x->offset + x->bytes;
            before = x;
        }
    }
    if (at != end && holes == MTR_HOLES_REFUSED)
        return mtr_fail(err, MTR_INVALID,
                        "the last tensor ends at byte %" PRIu64 ", the file at %" PRIu64, at, end);
    return true;
}

bool mtr_listing_layout(const struct mtr_tensor *t, uint32_t count, uint64_t begin, uint64_t end,
                        enum mtr_listing_holes holes, struct mtr_error *err)
{
    uint32_t *order = malloc(count ? count * sizeof *order : 1);
    if (!order)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the order of %" PRIu32 " tensors",
                        count);
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        order[i] = i;
        ok = layout_inside(&t[i], begin, end, err);
    }
    if (ok) {
        qsort_r(order, count, sizeof *order, by_offset, (void *)t);
        ok = layout_neighbours(t, order, count, begin, end, holes, err);
    }
    free(order);
    return ok;
}

int mtr_str_order(struct mtr_str a, struct mtr_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int by_name(const void *pa, const void *pb, void *context)
{
    const struct mtr_tensor *t = context;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    int c = mtr_str_order(t[a].name, t[b].name);
    return c ? c : a < b ? -1 : a > b; /* a total order: duplicates stand in file order */
}

uint32_t *mtr_listing_sort(struct mtr_arena *arena, const struct mtr_tensor *t, uint32_t count)
{
    uint32_t *order = mtr_arena_calloc(arena, count ? count : 1, sizeof *order);
    if (!order)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, by_name, (void *)t);
    return order;
}
