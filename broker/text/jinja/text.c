/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Building strings with their provenance, cutting them, joining them, escaping them.
 *
 * A text under construction holds its bytes and the offsets at which provenance changed; since it
 * can only alternate between two values, the offsets and the first value say everything. A finished
 * text of one provenance is a plain string; of both, it is a struct mtr_jmixed.
 *
 * Strings do not change, so that cutting shares bytes. And what was joined last keeps the room
 * behind it: when a template says `s = s + more` again and again, `more` is written behind s in
 * place, where no string that is in use can see it. So building a text in a loop costs its length,
 * not its square.
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

/* The run that a byte belongs to: how many changes are at or before it. */
static uint32_t run_of(const struct mtr_jmixed *m, uint32_t offset)
{
    uint32_t low = 0, high = m->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (m->changes[mid] > offset)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

bool mtr_jtext_slice(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *s, uint32_t from,
                     uint32_t len)
{
    if (!(s->flags & MTR_JF_MIXED))
        return mtr_jtext_put(r, t, s->text + from, len, s->taint);
    const struct mtr_jmixed *m = s->mixed;
    uint32_t end = from + len;
    for (uint32_t run = run_of(m, from); from < end; run++) {
        uint32_t to = run < m->count && m->changes[run] < end ? m->changes[run] : end;
        if (!mtr_jtext_put(r, t, m->text + from, to - from, m->first ^ (run & 1)))
            return false;
        from = to;
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
    if (s->len == 1) {
        if (!turn(r, t, s->taint) || !reserve(r, t, (size_t)times) ||
            !mtr_jstep(r, (uint64_t)times / 64))
            return false;
        memset(t->data + t->len, *s->text, (size_t)times);
        t->len += (uint32_t)times;
        return true;
    }
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
    struct mtr_jmixed *m = mtr_jalloc(r, sizeof *m);
    if (!m)
        return false;
    *m = (struct mtr_jmixed){
        .text = t->data, .changes = t->ends, .count = t->end_count, .first = t->first};
    out->flags |= MTR_JF_MIXED;
    out->mixed = m;
    return true;
}

/* ---- cutting and joining ---- */

uint8_t mtr_jtaint_at(const struct mtr_jv *s, uint32_t offset)
{
    if (!(s->flags & MTR_JF_MIXED))
        return s->taint;
    return s->mixed->first ^ (run_of(s->mixed, offset) & 1);
}

bool mtr_jsub(struct mtr_jr *r, const struct mtr_jv *s, uint32_t from, uint32_t len,
              struct mtr_jv *out)
{
    uint8_t markup = s->flags & MTR_JF_MARKUP;
    const struct mtr_jmixed *m = s->flags & MTR_JF_MIXED ? s->mixed : NULL;
    uint32_t first = m && len ? run_of(m, from) : 0,
             last = m && len ? run_of(m, from + len - 1) : 0;
    if (first == last) {
        uint8_t taint = m ? m->first ^ (first & 1) : s->taint;
        *out = mtr_jstr((struct mtr_str){mtr_jbytes(s).ptr + from, len}, len ? taint : s->taint);
        out->flags = markup;
        return true;
    }
    if (from == 0 && len == s->len) {
        *out = *s;
        return true;
    }
    uint32_t *changes = mtr_jalloc(r, (last - first) * sizeof *changes);
    struct mtr_jmixed *part = mtr_jalloc(r, sizeof *part);
    if (!changes || !part)
        return false;
    for (uint32_t i = first; i < last; i++)
        changes[i - first] = m->changes[i] - from;
    *part = (struct mtr_jmixed){.text = m->text + from,
                                .changes = changes,
                                .count = last - first,
                                .first = m->first ^ (first & 1)};
    *out = mtr_jstr((struct mtr_str){NULL, len}, 0);
    out->flags = MTR_JF_MIXED | markup;
    out->mixed = part;
    return true;
}

bool mtr_jtext_resume(struct mtr_jr *r, const struct mtr_jv *a, size_t more, struct mtr_jtext *t)
{
    const char *bytes = mtr_jbytes(a).ptr;
    for (unsigned i = 0; i < MTR_JTAILS; i++) {
        if (r->tails[i].data == bytes && r->tails[i].len == a->len) {
            *t = r->tails[i];
            r->tails[i] = (struct mtr_jtext){0};
            return true;
        }
    }
    size_t len = a->len + more;
    *t = (struct mtr_jtext){0};
    if (len <= r->limits.output_bytes) {
        t->data = mtr_jalloc(r, len);
        if (!t->data)
            return false;
        t->cap = (uint32_t)len;
    }
    return mtr_jtext_value(r, t, a);
}

void mtr_jtext_keep(struct mtr_jr *r, const struct mtr_jtext *t)
{
    r->tails[r->next_tail++ % MTR_JTAILS] = *t;
}

bool mtr_jconcat(struct mtr_jr *r, const struct mtr_jv *a, const struct mtr_jv *b,
                 struct mtr_jv *out)
{
    struct mtr_jtext t;
    if (a->len == 0 || b->len == 0) {
        *out = a->len == 0 ? *b : *a;
        out->flags &= (uint8_t)~MTR_JF_MARKUP;
        return true;
    }
    if (!mtr_jtext_resume(r, a, b->len, &t) || !mtr_jtext_value(r, &t, b) ||
        !mtr_jtext_finish(r, &t, 0, out))
        return false;
    mtr_jtext_keep(r, &t);
    return true;
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
