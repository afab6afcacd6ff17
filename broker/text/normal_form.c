/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A text is copied as it is but for stretches around active characters: those that a form may
 * change, move, or join to the character before. A stretch is that character before and all active
 * ones that follow; it is decomposed, its marks are put in the order of their combining classes,
 * and for the composing forms it is composed again. Nothing outside a stretch can be affected.
 */
#include "broker/text/normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "common/base/utf8.h"

#define MAX_PARTS 32 /* the longest decomposition has 18 characters */

void mtr_normal_work_free(struct mtr_normal_work *w)
{
    free(w->chars);
    free(w->other);
    memset(w, 0, sizeof *w);
}

static bool composes(enum mtr_normal_form form)
{
    return form == MTR_NFC || form == MTR_NFKC;
}

static bool compatible(enum mtr_normal_form form)
{
    return form == MTR_NFKC || form == MTR_NFKD;
}

/* Form C has a bit in the property table; the others ask libutf8proc. */
static bool is_active(const struct mtr_unicode *u, enum mtr_normal_form form, uint32_t cp)
{
    if (form == MTR_NFC)
        return (mtr_unicode_properties(u, cp) & MTR_CHAR_ACTIVE) != 0;
    if (cp < 0xa0)
        return false;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)cp);
    bool hangul = (cp >= 0x1161 && cp <= 0x11c2) || (cp >= 0xac00 && cp <= 0xd7a3);
    bool second = p->comb_index >= 0x8000 && p->comb_index != UINT16_MAX;
    bool inert = p->decomp_seqindex == UINT16_MAX && p->combining_class == 0 && !second && !hangul;
    return !inert && !mtr_unicode_unnormalized(cp);
}

/* Offset of the first active character at or after from, and the start of the one before it. */
static size_t next_active(const struct mtr_unicode *u, enum mtr_normal_form form,
                          struct mtr_str text, size_t from, size_t *before)
{
    *before = from;
    for (size_t at = from; at < text.len;) {
        uint32_t cp = (unsigned char)text.ptr[at];
        size_t n = cp < 128 ? 1 : (size_t)mtr_utf8_next(text.ptr + at, &cp);
        if (cp >= 0xa0 && is_active(u, form, cp))
            return at;
        *before = at;
        at += n;
    }
    return text.len;
}

bool mtr_normal_form_needed(const struct mtr_unicode *u, enum mtr_normal_form form,
                            struct mtr_str text)
{
    size_t before;
    return next_active(u, form, text, 0, &before) < text.len;
}

static bool push_char(struct mtr_normal_work *w, uint32_t cp)
{
    if (!mtr_grow((void **)&w->chars, &w->cap, w->count + 1, sizeof *w->chars))
        return false;
    w->chars[w->count++] = cp;
    return true;
}

static bool decompose(struct mtr_normal_work *w, enum mtr_normal_form form, uint32_t cp)
{
    utf8proc_int32_t parts[MAX_PARTS];
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible(form) ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t n =
        mtr_unicode_unnormalized(cp)
            ? 0
            : utf8proc_decompose_char((utf8proc_int32_t)cp, parts, MAX_PARTS, options, NULL);
    if (n <= 0 || n > MAX_PARTS)
        return push_char(w, cp);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        if (!push_char(w, (uint32_t)parts[i]))
            return false;
    return true;
}

static uint8_t combining_class(uint32_t cp)
{
    if (cp < 0x300 || mtr_unicode_unnormalized(cp))
        return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

/* Sorts marks [from, to) by class, equal ones as they came: by counting, hence linear. */
static bool sort_marks(struct mtr_normal_work *w, size_t from, size_t to)
{
    size_t starts[257] = {0}, n = to - from;
    if (!mtr_grow((void **)&w->other, &w->other_cap, n, sizeof *w->other))
        return false;
    for (size_t i = from; i < to; i++)
        starts[combining_class(w->chars[i]) + 1]++;
    for (size_t c = 1; c < 257; c++)
        starts[c] += starts[c - 1];
    for (size_t i = from; i < to; i++)
        w->other[starts[combining_class(w->chars[i])]++] = w->chars[i];
    memcpy(w->chars + from, w->other, n * sizeof *w->chars);
    return true;
}

static bool order_marks(struct mtr_normal_work *w)
{
    for (size_t i = 0; i < w->count;) {
        size_t end = i;
        bool sorted = true;
        uint8_t last = 0, c;
        for (; end < w->count && (c = combining_class(w->chars[end])) != 0; end++) {
            sorted &= c >= last;
            last = c;
        }
        if (!sorted && !sort_marks(w, i, end))
            return false;
        i = end + 1;
    }
    return true;
}

/* Composes between characters that take no part. */
static void compose(struct mtr_normal_work *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count;) {
        size_t end = i;
        while (end < w->count && !mtr_unicode_unnormalized(w->chars[end]))
            end++;
        utf8proc_ssize_t n =
            utf8proc_normalize_utf32((utf8proc_int32_t *)w->chars + i, (utf8proc_ssize_t)(end - i),
                                     UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        memmove(w->chars + kept, w->chars + i, (size_t)n * sizeof *w->chars);
        kept += (size_t)n;
        while (end < w->count && mtr_unicode_unnormalized(w->chars[end]))
            w->chars[kept++] = w->chars[end++];
        i = end;
    }
    w->count = kept;
}

static bool write_chars(const struct mtr_normal_work *w, struct mtr_buf *out)
{
    if (!mtr_buf_reserve(out, w->count * 4))
        return false;
    for (size_t i = 0; i < w->count; i++) {
        char c[4];
        mtr_buf_append(out, c, (size_t)mtr_utf8_encode(w->chars[i], c));
    }
    return !out->failed;
}

/* Reads the stretch at from, whose first character may be inert; returns its end. */
static bool read_stretch(const struct mtr_unicode *u, enum mtr_normal_form form,
                         struct mtr_normal_work *w, struct mtr_str text, size_t from, size_t *end)
{
    w->count = 0;
    for (*end = from; *end < text.len;) {
        uint32_t cp;
        size_t n = (size_t)mtr_utf8_next(text.ptr + *end, &cp);
        if (*end > from && !is_active(u, form, cp))
            break;
        if (!decompose(w, form, cp))
            return false;
        *end += n;
    }
    return true;
}

bool mtr_normal_form(const struct mtr_unicode *u, enum mtr_normal_form form,
                     struct mtr_normal_work *w, struct mtr_str text, struct mtr_buf *out)
{
    for (size_t at = 0; at < text.len;) {
        size_t before, end;
        size_t active = next_active(u, form, text, at, &before);
        if (active == text.len)
            return mtr_buf_append(out, text.ptr + at, text.len - at);
        mtr_buf_append(out, text.ptr + at, before - at);
        if (!read_stretch(u, form, w, text, before, &end))
            return false;
        if (!order_marks(w))
            return false;
        if (composes(form))
            compose(w);
        if (!write_chars(w, out))
            return false;
        at = end;
    }
    return true;
}
