/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wordwrap, as Python's textwrap does it.
 *
 * A paragraph is cut into chunks: runs of white space, and words, which end behind a hyphen between
 * letters and at a dash of several. Lines are filled greedily; a chunk longer than a line is
 * broken, behind a hyphen if it has one that fits.
 */
#include "broker/text/jinja/run.h"

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out

struct wrap {
    struct mtr_jr *r;
    int64_t width;
    bool break_long;
    bool break_hyphens;
    struct mtr_str s;       /* the paragraph */
    const struct mtr_jv *v; /* the same */
    uint32_t *ends;         /* [count] of the chunks, in bytes */
    uint32_t count;
    uint32_t cap;
};

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

/* textwrap's white space is ASCII's. */
static bool blank(char c)
{
    return c && strchr("\t\n\v\f\r ", c);
}

static bool letter(uint32_t cp)
{
    return mtr_jword(cp) && cp != '_' && !mtr_jdecimal(cp);
}

static bool punct_or_word(uint32_t cp)
{
    return mtr_jword(cp) || (cp < 0x80 && cp && strchr("!\"'&.,?", (int)cp));
}

/* The character that ends before, or starts at, a byte offset; 0 at the ends. */
static uint32_t before(struct mtr_str s, size_t at)
{
    uint32_t cp = 0;
    if (at > 0)
        mtr_jdecode_last((struct mtr_str){s.ptr, at}, &cp);
    return cp;
}

static uint32_t after(struct mtr_str s, size_t at)
{
    uint32_t cp = 0;
    if (at < s.len)
        mtr_jdecode(s.ptr + at, &cp);
    return cp;
}

/* Whether a word may end behind the hyphen at `at`: letters around it, as in "e-mail". */
static bool hyphen_break(struct mtr_str s, size_t from, size_t at)
{
    if (at < from + 1)
        return false;
    uint32_t one = before(s, at);
    uint32_t cp;
    size_t back = at - mtr_jdecode_last((struct mtr_str){s.ptr, at}, &cp);
    uint32_t two = before(s, back);
    bool letters_before = letter(one) && letter(two);
    if (!letters_before && punct_or_word(one) && two == '-' && back > 0)
        letters_before = letter(before(s, back - 1));
    if (!letters_before)
        return false;
    size_t next = at + 1;
    uint32_t n = after(s, next);
    if (!letter(n))
        return false;
    next += mtr_jdecode(s.ptr + next, &cp);
    if (after(s, next) == '-')
        next++;
    return letter(after(s, next));
}

/* Two or more hyphens at `at` with a word behind them: their end, or 0. */
static size_t dash_end(struct mtr_str s, size_t at)
{
    size_t end = at;
    while (end < s.len && s.ptr[end] == '-')
        end++;
    return end - at >= 2 && mtr_jword(after(s, end)) ? end : 0;
}

static size_t chunk_end(const struct wrap *w, size_t at)
{
    struct mtr_str s = w->s;
    size_t start = at;
    if (blank(s.ptr[at])) {
        while (at < s.len && blank(s.ptr[at]))
            at++;
        return at;
    }
    if (!w->break_hyphens) {
        while (at < s.len && !blank(s.ptr[at]))
            at++;
        return at;
    }
    if (punct_or_word(before(s, at)) && dash_end(s, at))
        return dash_end(s, at);
    for (;;) {
        /* At least one character, then the first place where a word may end. */
        uint32_t cp;
        if (at > start && s.ptr[at] == '-' && hyphen_break(s, start, at))
            return at + 1;
        at += mtr_jdecode(s.ptr + at, &cp);
        if (at >= s.len || blank(s.ptr[at]))
            return at;
        if (punct_or_word(before(s, at)) && dash_end(s, at))
            return at;
    }
}

static bool cut(struct wrap *w)
{
    w->count = 0;
    for (size_t at = 0; at < w->s.len;) {
        at = chunk_end(w, at);
        if (w->count == w->cap) {
            uint32_t cap = w->cap ? 2 * w->cap : 32;
            uint32_t *grown = mtr_jalloc(w->r, cap * sizeof *grown);
            if (!grown)
                return false;
            if (w->count)
                memcpy(grown, w->ends, w->count * sizeof *grown);
            w->ends = grown;
            w->cap = cap;
        }
        w->ends[w->count++] = (uint32_t)at;
    }
    return mtr_jstep(w->r, w->s.len / 4);
}

static bool all_blank(struct mtr_str s)
{
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        i += mtr_jdecode(s.ptr + i, &cp);
        if (!mtr_jspace(cp))
            return false;
    }
    return true;
}

/* The length of a chunk, but no more than one above the width: chunks may be very long. */
static int64_t length(const struct wrap *w, struct mtr_str chunk)
{
    int64_t n = 0;
    for (size_t i = 0; i < chunk.len && n <= w->width; i++)
        n += (chunk.ptr[i] & 0xc0) != 0x80;
    return n;
}

/* How many bytes of a chunk that is longer than a line still go onto this one. */
static uint32_t broken(const struct wrap *w, struct mtr_str chunk, int64_t room)
{
    uint32_t end = mtr_joffset(chunk, room);
    if (!w->break_hyphens || end == chunk.len)
        return end;
    for (uint32_t at = end; at-- > 1;) {
        if (chunk.ptr[at] != '-')
            continue;
        for (uint32_t i = 0; i < at; i++) {
            if (chunk.ptr[i] != '-')
                return at + 1;
        }
        break;
    }
    return end;
}

/* Fills lines of the paragraph; each is appended with `sep` before it unless it is the first. */
static bool fill(struct wrap *w, struct mtr_jtext *t, const struct mtr_jv *sep)
{
    uint32_t chunk = 0, at = 0; /* at: start of what is left of the chunk */
    bool lines = false;
    while (chunk < w->count) {
        uint32_t from, end;
        int64_t len = 0;
        if (lines && all_blank(mtr_str_sub(w->s, at, w->ends[chunk] - at))) {
            at = w->ends[chunk++];
            if (chunk == w->count)
                break;
        }
        from = end = at;
        uint32_t last = at; /* start of the last chunk of the line */
        bool any = false;
        while (chunk < w->count) {
            int64_t n = length(w, mtr_str_sub(w->s, at, w->ends[chunk] - at));
            if (len + n > w->width)
                break;
            last = at;
            any = true;
            len += n;
            at = end = w->ends[chunk++];
        }
        if (chunk < w->count) {
            struct mtr_str rest = mtr_str_sub(w->s, at, w->ends[chunk] - at);
            if (length(w, rest) > w->width && w->break_long) {
                last = at;
                any = true;
                at = end = at + broken(w, rest, w->width - len);
            } else if (length(w, rest) > w->width && !any) {
                last = at;
                any = true;
                at = end = w->ends[chunk++];
            }
        }
        if (any && all_blank(mtr_str_sub(w->s, last, end - last)))
            end = last;
        if (end == from)
            continue;
        if ((lines && !mtr_jtext_value(w->r, t, sep)) ||
            !mtr_jtext_slice(w->r, t, w->v, from, end - from) || !mtr_jstep(w->r, 1))
            return false;
        lines = true;
    }
    return true;
}

static bool f_wordwrap(ARGS)
{
    struct wrap w = {.r = r, .width = 79, .break_long = true, .break_hyphens = true};
    struct mtr_jv sep = mtr_jcstr("\n"), lines;
    struct mtr_jtext t = {0};
    struct mtr_str s;
    if (a[0].kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, &a[0]);
    if (!mtr_jarg_str(r, "wordwrap", &a[0], &s) ||
        (given(&a[1]) && !mtr_jarg_int(r, "wordwrap", &a[1], &w.width)))
        return false;
    if (given(&a[2]))
        w.break_long = mtr_jtruth(&a[2]);
    if (given(&a[3]) && a[3].kind != MTR_JK_NONE)
        sep = a[3];
    if (given(&a[4]))
        w.break_hyphens = mtr_jtruth(&a[4]);
    if (!mtr_jarg_str(r, "wordwrap", &sep, &s) || !mtr_jsplitlines(r, &a[0], false, &lines))
        return false;
    for (uint32_t i = 0; i < lines.list->count; i++) {
        w.v = &lines.list->items[i];
        w.s = mtr_jbytes(w.v);
        if (w.width <= 0)
            return mtr_jfail(r, MTR_INVALID, "wordwrap: the width must be above 0");
        if ((i && !mtr_jtext_value(r, &t, &sep)) || !cut(&w) || !fill(&w, &t, &sep))
            return false;
    }
    return mtr_jtext_finish(r, &t, 0, out);
}

static const struct mtr_jfilter_entry filters[] = {
    {"wordwrap", "s width break_long_words wrapstring break_on_hyphens", 1, 5, f_wordwrap, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_wrap(void)
{
    return filters;
}
