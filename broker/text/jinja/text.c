/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Building strings with their provenance, cutting them, escaping them.
 *
 * A text under construction holds its bytes and the offsets at which provenance changed; since it
 * can only alternate between two values, the offsets and the first value say everything. A finished
 * text of one provenance is a plain string; of both, it is a struct mtr_jmixed.
 */
#include "broker/text/jinja/run.h"

#include "common/base/utf8.h"

/* ---- appending ---- */

static bool reserve(struct mtr_jr *r, struct mtr_jtext *t, size_t more)
{
    if (more <= t->cap - t->len)
        return true;
    if (more > r->limits.output_bytes || t->len + more > r->limits.output_bytes)
        return mtr_jfail(r, MTR_TOO_LARGE, "a text of more than %u bytes", r->limits.output_bytes);
    size_t cap = t->cap ? 2 * (size_t)t->cap : 64;
    while (cap < t->len + more)
        cap *= 2;
    if (cap > UINT32_MAX)
        cap = UINT32_MAX;
    char *grown = mtr_jalloc(r, cap);
    if (!grown)
        return false;
    if (t->len)
        memcpy(grown, t->data, t->len);
    t->data = grown;
    t->cap = (uint32_t)cap;
    return true;
}

/* The bytes that come next are of this provenance. */
static bool turn(struct mtr_jr *r, struct mtr_jtext *t, uint8_t taint)
{
    if (t->len == 0) {
        t->first = t->taint = taint;
        t->end_count = 0;
        return true;
    }
    if (t->taint == taint)
        return true;
    if (t->end_count == t->end_cap) {
        uint32_t cap = t->end_cap ? 2 * t->end_cap : 8;
        uint32_t *grown = mtr_jalloc(r, cap * sizeof *grown);
        if (!grown)
            return false;
        if (t->end_count)
            memcpy(grown, t->ends, t->end_count * sizeof *grown);
        t->ends = grown;
        t->end_cap = cap;
    }
    t->ends[t->end_count++] = t->len;
    t->taint = taint;
    return true;
}

bool mtr_jtext_put(struct mtr_jr *r, struct mtr_jtext *t, const char *bytes, size_t len,
                   uint8_t taint)
{
    if (len == 0)
        return true;
    if (!turn(r, t, taint) || !reserve(r, t, len) || !mtr_jstep(r, len / 64))
        return false;
    memcpy(t->data + t->len, bytes, len);
    t->len += (uint32_t)len;
    return true;
}

bool mtr_jtext_puts(struct mtr_jr *r, struct mtr_jtext *t, const char *literal)
{
    return mtr_jtext_put(r, t, literal, strlen(literal), MTR_JTRUSTED);
}

bool mtr_jtext_char(struct mtr_jr *r, struct mtr_jtext *t, uint32_t cp, uint8_t taint)
{
    char c[4];
    return mtr_jtext_put(r, t, c, (size_t)mtr_utf8_encode(cp, c), taint);
}

bool mtr_jtext_slice(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *s, uint32_t from,
                     uint32_t len)
{
    if (!(s->flags & MTR_JF_MIXED))
        return mtr_jtext_put(r, t, s->text + from, len, s->taint);
    const struct mtr_jmixed *m = s->mixed;
    uint32_t start = 0;
    uint8_t taint = m->first;
    for (uint32_t i = 0; i < m->count && start < from + len; i++) {
        uint32_t a = start > from ? start : from;
        uint32_t b = m->ends[i] < from + len ? m->ends[i] : from + len;
        if (b > a && !mtr_jtext_put(r, t, m->text + a, b - a, taint))
            return false;
        start = m->ends[i];
        taint = !taint;
    }
    return true;
}

bool mtr_jtext_value(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *s)
{
    return mtr_jtext_slice(r, t, s, 0, s->len);
}

bool mtr_jtext_fill(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *s, int64_t times)
{
    if (times <= 0 || s->len == 0)
        return true;
    if ((uint64_t)times > r->limits.output_bytes / s->len)
        return mtr_jfail(r, MTR_TOO_LARGE, "a text of more than %u bytes", r->limits.output_bytes);
    for (int64_t i = 0; i < times; i++) {
        if (!mtr_jtext_value(r, t, s))
            return false;
    }
    return mtr_jstep(r, (uint64_t)times / 16);
}

bool mtr_jtext_finish(struct mtr_jr *r, struct mtr_jtext *t, uint8_t flags, struct mtr_jv *out)
{
    *out = mtr_jstr((struct mtr_str){t->len ? t->data : "", t->len}, t->len ? t->first : 0);
    out->flags = flags;
    if (t->end_count == 0)
        return true;
    struct mtr_jmixed *m = mtr_jalloc(r, sizeof *m + (t->end_count + 1) * sizeof *m->ends);
    if (!m)
        return false;
    m->text = t->data;
    m->count = t->end_count + 1;
    m->first = t->first;
    memcpy(m->ends, t->ends, t->end_count * sizeof *m->ends);
    m->ends[t->end_count] = t->len;
    out->flags |= MTR_JF_MIXED;
    out->mixed = m;
    return true;
}

/* ---- cutting and joining ---- */

uint8_t mtr_jtaint_at(const struct mtr_jv *s, uint32_t offset)
{
    if (!(s->flags & MTR_JF_MIXED))
        return s->taint;
    uint32_t low = 0, high = s->mixed->count - 1; /* the first run that ends behind offset */
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (s->mixed->ends[mid] > offset)
            high = mid;
        else
            low = mid + 1;
    }
    return s->mixed->first ^ (low & 1);
}

bool mtr_jsub(struct mtr_jr *r, const struct mtr_jv *s, uint32_t from, uint32_t len,
              struct mtr_jv *out)
{
    uint8_t markup = s->flags & MTR_JF_MARKUP;
    if (!(s->flags & MTR_JF_MIXED)) {
        *out = mtr_jstr((struct mtr_str){s->text + from, len}, s->taint);
        out->flags = markup;
        return true;
    }
    if (from == 0 && len == s->len) {
        *out = *s;
        return true;
    }
    struct mtr_jtext t = {0};
    return mtr_jtext_slice(r, &t, s, from, len) && mtr_jtext_finish(r, &t, markup, out);
}

bool mtr_jconcat(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b,
                 struct mtr_jv *out)
{
    struct mtr_jtext t = {0};
    if (a->len == 0 || b->len == 0) {
        *out = a->len == 0 ? *b : *a;
        out->flags &= (uint8_t)~MTR_JF_MARKUP;
        return true;
    }
    size_t len = (size_t)a->len + b->len;
    if (len <= r->limits.output_bytes) {
        t.data = mtr_jalloc(r, len);
        if (!t.data)
            return false;
        t.cap = (uint32_t)len;
    }
    return mtr_jtext_value(r, &t, a) && mtr_jtext_value(r, &t, b) &&
           mtr_jtext_finish(r, &t, 0, out);
}

/* ---- markup ---- */

bool mtr_jtext_escape(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *s)
{
    static const char specials[] = "&<>'\"";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct mtr_str b = mtr_jbytes(s);
    uint32_t from = 0;
    for (uint32_t i = 0; i < b.len; i++) {
        const char *found = b.ptr[i] ? strchr(specials, b.ptr[i]) : NULL;
        if (!found)
            continue;
        const char *escape = escapes[found - specials];
        if (!mtr_jtext_slice(r, t, s, from, i - from) ||
            !mtr_jtext_put(r, t, escape, strlen(escape), mtr_jtaint_at(s, i)))
            return false;
        from = i + 1;
    }
    return mtr_jtext_slice(r, t, s, from, s->len - from);
}

bool mtr_jescape(struct mtr_jr *r, const struct mtr_jv *v, struct mtr_jv *out)
{
    struct mtr_jv s;
    if (mtr_jis_markup(v)) {
        *out = *v;
        return true;
    }
    struct mtr_jtext t = {0};
    return mtr_jto_str(r, v, &s) && mtr_jtext_escape(r, &t, &s) &&
           mtr_jtext_finish(r, &t, MTR_JF_MARKUP, out);
}

/* ---- characters ---- */

int64_t mtr_jchars(struct mtr_str s)
{
    int64_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += (s.ptr[i] & 0xc0) != 0x80;
    return n;
}

uint32_t mtr_joffset(struct mtr_str s, int64_t index)
{
    size_t i = 0;
    for (; i < s.len; i++) {
        if ((s.ptr[i] & 0xc0) != 0x80 && index-- == 0)
            break;
    }
    return (uint32_t)i;
}

uint32_t mtr_jdecode(const char *p, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)p;
    if (s[0] < 0x80) {
        *cp = s[0];
        return 1;
    }
    if (s[0] < 0xe0) {
        *cp = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
        return 2;
    }
    if (s[0] < 0xf0) {
        *cp = (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
        return 3;
    }
    *cp = (s[0] & 0x07u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
    return 4;
}

uint32_t mtr_jdecode_last(struct mtr_str s, uint32_t *cp)
{
    size_t at = s.len - 1;
    while (at > 0 && (s.ptr[at] & 0xc0) == 0x80)
        at--;
    mtr_jdecode(s.ptr + at, cp);
    return (uint32_t)(s.len - at);
}

/* ---- str.strip, replace, split, splitlines ---- */

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
