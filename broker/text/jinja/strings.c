/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * str.strip, str.replace, str.split and str.splitlines: cutting strings at what stands in them.
 */
#include "broker/text/jinja/run.h"

static bool in_chars(uint32_t cp, const struct mtr_str *chars)
{
    if (!chars)
        return mtr_jspace(cp);
    for (size_t i = 0; i < chars->len;) {
        uint32_t c;
        i += mtr_jdecode(chars->ptr + i, &c);
        if (c == cp)
            return true;
    }
    return false;
}

bool mtr_jstrip(struct mtr_jr *r, const struct mtr_jv *string, const struct mtr_jv *chars,
                int sides, struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(string), set = {0};
    uint32_t from = 0, to = string->len, cp;
    if (chars)
        set = mtr_jbytes(chars);
    const struct mtr_str *which = chars ? &set : NULL;
    if (set.len > 64 && !mtr_jstep(r, s.len / 64 * (set.len / 64)))
        return false;
    while (sides & 1 && from < to) {
        uint32_t n = mtr_jdecode(s.ptr + from, &cp);
        if (!in_chars(cp, which))
            break;
        from += n;
    }
    while (sides & 2 && to > from) {
        uint32_t n = mtr_jdecode_last((struct mtr_str){s.ptr + from, to - from}, &cp);
        if (!in_chars(cp, which))
            break;
        to -= n;
    }
    return mtr_jsub(r, string, from, to - from, out);
}

bool mtr_jreplace(struct mtr_jr *r, const struct mtr_jv *string, struct mtr_str old,
                  const struct mtr_jv *new, int64_t count, struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(string);
    struct mtr_jtext t = {0};
    uint8_t markup = string->flags & MTR_JF_MARKUP;
    size_t from = 0;
    if (!mtr_jstep(r, 1 + s.len / 64))
        return false;
    for (size_t at = 0; count != 0; count--) {
        size_t hit = mtr_str_find(s, old, at);
        if (hit == SIZE_MAX)
            break;
        if (!mtr_jtext_slice(r, &t, string, (uint32_t)from, (uint32_t)(hit - from)) ||
            !mtr_jtext_value(r, &t, new))
            return false;
        from = at = hit + old.len;
        if (old.len)
            continue;
        if (at >= s.len) /* between all characters, and at the end */
            break;
        uint32_t cp;
        at += mtr_jdecode(s.ptr + at, &cp);
    }
    return mtr_jtext_slice(r, &t, string, (uint32_t)from, (uint32_t)(s.len - from)) &&
           mtr_jtext_finish(r, &t, markup, out);
}

/* Appends string[from : to] to a list. */
static bool push_part(struct mtr_jr *r, const struct mtr_jv *string, size_t from, size_t to,
                      struct mtr_jlist *l, uint32_t *cap)
{
    struct mtr_jv part;
    return mtr_jsub(r, string, (uint32_t)from, (uint32_t)(to - from), &part) &&
           mtr_jlist_push(r, l, cap, part);
}

bool mtr_jsplitlines(struct mtr_jr *r, const struct mtr_jv *string, bool keep, struct mtr_jv *out)
{
    struct mtr_str s = mtr_jbytes(string);
    struct mtr_jlist *l = mtr_jlist_new(r, 0);
    uint32_t cap = 0;
    size_t from = 0;
    if (!l || !mtr_jstep(r, 1 + s.len / 64))
        return false;
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        size_t end = i + mtr_jdecode(s.ptr + i, &cp);
        if (!mtr_jline_break(cp)) {
            i = end;
            continue;
        }
        if (cp == '\r' && end < s.len && s.ptr[end] == '\n')
            end++;
        if (!push_part(r, string, from, keep ? end : i, l, &cap))
            return false;
        from = i = end;
    }
    if (from < s.len && !push_part(r, string, from, s.len, l, &cap))
        return false;
    *out = mtr_jlist_value(l);
    return true;
}

static void reverse(struct mtr_jlist *l)
{
    for (uint32_t i = 0, k = l->count; i + 1 < k; i++) {
        struct mtr_jv v = l->items[i];
        l->items[i] = l->items[--k];
        l->items[k] = v;
    }
}

static bool split_space(struct mtr_jr *r, const struct mtr_jv *string, int64_t max,
                        struct mtr_jlist *l)
{
    struct mtr_str s = mtr_jbytes(string);
    uint32_t cap = 0, cp;
    size_t i = 0;
    for (;;) {
        while (i < s.len) {
            uint32_t n = mtr_jdecode(s.ptr + i, &cp);
            if (!mtr_jspace(cp))
                break;
            i += n;
        }
        if (i >= s.len)
            return true;
        size_t from = i, to = s.len;
        if (max-- == 0)
            return push_part(r, string, from, to, l, &cap);
        while (i < s.len) {
            uint32_t n = mtr_jdecode(s.ptr + i, &cp);
            if (mtr_jspace(cp))
                break;
            i += n;
        }
        if (!push_part(r, string, from, i, l, &cap))
            return false;
    }
}

static bool rsplit_space(struct mtr_jr *r, const struct mtr_jv *string, int64_t max,
                         struct mtr_jlist *l)
{
    struct mtr_str s = mtr_jbytes(string);
    uint32_t cap = 0, cp;
    size_t i = s.len;
    for (;;) {
        while (i > 0) {
            uint32_t n = mtr_jdecode_last((struct mtr_str){s.ptr, i}, &cp);
            if (!mtr_jspace(cp))
                break;
            i -= n;
        }
        if (i == 0)
            break;
        size_t to = i;
        if (max-- == 0) {
            if (!push_part(r, string, 0, to, l, &cap))
                return false;
            break;
        }
        while (i > 0) {
            uint32_t n = mtr_jdecode_last((struct mtr_str){s.ptr, i}, &cp);
            if (mtr_jspace(cp))
                break;
            i -= n;
        }
        if (!push_part(r, string, i, to, l, &cap))
            return false;
    }
    reverse(l);
    return true;
}

static bool split_by(struct mtr_jr *r, const struct mtr_jv *string, struct mtr_str sep, int64_t max,
                     struct mtr_jlist *l)
{
    struct mtr_str s = mtr_jbytes(string);
    uint32_t cap = 0;
    size_t from = 0;
    for (; max != 0; max--) {
        size_t hit = mtr_str_find(s, sep, from);
        if (hit == SIZE_MAX)
            break;
        if (!push_part(r, string, from, hit, l, &cap))
            return false;
        from = hit + sep.len;
    }
    return push_part(r, string, from, s.len, l, &cap);
}

static bool rsplit_by(struct mtr_jr *r, const struct mtr_jv *string, struct mtr_str sep,
                      int64_t max, struct mtr_jlist *l)
{
    struct mtr_str s = mtr_jbytes(string);
    uint32_t cap = 0;
    size_t to = s.len;
    if (!mtr_jstep(r, s.len / 64 * (sep.len / 64)))
        return false;
    for (size_t at = s.len; max != 0 && at >= sep.len;) {
        if (memcmp(s.ptr + at - sep.len, sep.ptr, sep.len) != 0) {
            at--;
            continue;
        }
        if (!push_part(r, string, at, to, l, &cap))
            return false;
        to = at = at - sep.len;
        max--;
    }
    if (!push_part(r, string, 0, to, l, &cap))
        return false;
    reverse(l);
    return true;
}

bool mtr_jsplit(struct mtr_jr *r, const struct mtr_jv *string, const struct mtr_str *sep,
                int64_t max, bool right, struct mtr_jv *out)
{
    struct mtr_jlist *l = mtr_jlist_new(r, 0);
    if (!l || !mtr_jstep(r, 1 + string->len / 64))
        return false;
    *out = mtr_jlist_value(l);
    if (!sep)
        return right ? rsplit_space(r, string, max, l) : split_space(r, string, max, l);
    if (sep->len == 0)
        return mtr_jfail(r, MTR_INVALID, "empty separator");
    return right ? rsplit_by(r, string, *sep, max, l) : split_by(r, string, *sep, max, l);
}
