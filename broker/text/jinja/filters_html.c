/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Filters from the world of HTML and URLs.
 */
#include "broker/text/jinja/run.h"

#include <stdio.h>

#define ARGS struct mtr_jr *r, const struct mtr_jv *a, struct mtr_jv *out

static bool given(const struct mtr_jv *v)
{
    return v->kind != MTR_JK_MISSING;
}

/* ---- urlencode ---- */

static bool quote(struct mtr_jr *r, struct mtr_jtext *t, const struct mtr_jv *v, bool query)
{
    struct mtr_jv s;
    if (!mtr_jto_str(r, v, &s))
        return false;
    struct mtr_str b = mtr_jbytes(&s);
    for (uint32_t i = 0; i < b.len; i++) {
        unsigned char c = (unsigned char)b.ptr[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        char text[4] = {(char)c};
        if (query && c == ' ')
            text[0] = '+';
        else if (!plain)
            snprintf(text, sizeof text, "%%%02X", c);
        if (!mtr_jtext_put(r, t, text, strlen(text), mtr_jtaint_at(&s, i)))
            return false;
    }
    return true;
}

static bool f_urlencode(ARGS)
{
    struct mtr_jtext t = {0};
    struct mtr_jv pairs = a[0], item;
    struct mtr_jiter *it;
    if (a[0].kind == MTR_JK_STR || !mtr_jiterable(&a[0]))
        return quote(r, &t, &a[0], false) && mtr_jtext_finish(r, &t, 0, out);
    if (pairs.kind == MTR_JK_DICT) {
        pairs.kind = MTR_JK_VIEW;
        pairs.sub = MTR_JVIEW_ITEMS;
    }
    if (!mtr_jiter_of(r, &pairs, &it))
        return false;
    for (bool first = true;; first = false) {
        struct mtr_jlist *pair;
        bool end;
        if (!mtr_jnext(r, it, &item, &end))
            return false;
        if (end)
            return mtr_jtext_finish(r, &t, 0, out);
        if (!mtr_jcollect(r, &item, &pair))
            return false;
        if (pair->count != 2)
            return mtr_jfail(r, MTR_INVALID, "urlencode: expected pairs");
        if ((!first && !mtr_jtext_puts(r, &t, "&")) || !quote(r, &t, &pair->items[0], true) ||
            !mtr_jtext_puts(r, &t, "=") || !quote(r, &t, &pair->items[1], true))
            return false;
    }
}

/* ---- xmlattr ---- */

static bool f_xmlattr(ARGS)
{
    struct mtr_jtext t = {0};
    bool space = !given(&a[1]) || mtr_jtruth(&a[1]);
    if (a[0].kind == MTR_JK_UNDEFINED)
        return mtr_jfail_undefined(r, &a[0]);
    if (a[0].kind != MTR_JK_DICT)
        return mtr_jfail(r, MTR_INVALID, "xmlattr needs a mapping");
    for (uint32_t i = 0; i < a[0].dict->count; i++) {
        struct mtr_jv key = a[0].dict->keys[i], value;
        struct mtr_str k;
        if (!mtr_jdict_value(r, a[0].dict, i, &value))
            return false;
        if (value.kind == MTR_JK_NONE || value.kind == MTR_JK_UNDEFINED)
            continue;
        if (!mtr_jarg_str(r, "xmlattr", &key, &k))
            return false;
        for (size_t n = 0; n < k.len; n++) {
            if (k.ptr[n] && strchr(" \t\n\r\f\v/>=", k.ptr[n]))
                return mtr_jfail(r, MTR_INVALID, "Invalid character in attribute name");
        }
        if (!mtr_jescape(r, &key, &key) || !mtr_jescape(r, &value, &value) ||
            ((space || t.len) && !mtr_jtext_puts(r, &t, " ")) || !mtr_jtext_value(r, &t, &key) ||
            !mtr_jtext_puts(r, &t, "=\"") || !mtr_jtext_value(r, &t, &value) ||
            !mtr_jtext_puts(r, &t, "\""))
            return false;
    }
    return mtr_jtext_finish(r, &t, 0, out);
}

/* ---- striptags ---- */

/* The text without comments and tags; an unclosed one stays, with what follows. */
static bool without_tags(struct mtr_jr *r, const struct mtr_jv *s, struct mtr_jv *out)
{
    struct mtr_str b = mtr_jbytes(s);
    struct mtr_jtext t = {0};
    size_t from = 0;
    for (;;) {
        size_t open = mtr_str_find(b, MTR_STR("<"), from);
        if (open == SIZE_MAX)
            break;
        bool comment = mtr_str_starts(mtr_str_sub(b, open, b.len), MTR_STR("<!--"));
        size_t close = comment ? mtr_str_find(b, MTR_STR("-->"), open + 4)
                               : mtr_str_find(b, MTR_STR(">"), open);
        if (close == SIZE_MAX)
            break;
        if (!mtr_jtext_slice(r, &t, s, (uint32_t)from, (uint32_t)(open - from)))
            return false;
        from = close + (comment ? 3 : 1);
    }
    return mtr_jtext_slice(r, &t, s, (uint32_t)from, (uint32_t)(b.len - from)) &&
           mtr_jtext_finish(r, &t, 0, out);
}

/* "&amp;" and the like at s: the character and the length, or 0. The named ones are those that
 * escaping makes and the commonest others. */
static size_t entity(struct mtr_str s, uint32_t *cp)
{
    static const struct {
        const char *name;
        uint32_t cp;
    } named[] = {{"&amp;", '&'},      {"&lt;", '<'},        {"&gt;", '>'},
                 {"&quot;", '"'},     {"&apos;", '\''},     {"&nbsp;", 0xa0},
                 {"&copy;", 0xa9},    {"&reg;", 0xae},      {"&laquo;", 0xab},
                 {"&raquo;", 0xbb},   {"&hellip;", 0x2026}, {"&ndash;", 0x2013},
                 {"&mdash;", 0x2014}, {"&lsquo;", 0x2018},  {"&rsquo;", 0x2019},
                 {"&ldquo;", 0x201c}, {"&rdquo;", 0x201d},  {"&bull;", 0x2022},
                 {"&euro;", 0x20ac},  {"&middot;", 0xb7},   {"&deg;", 0xb0}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (mtr_str_starts(s, mtr_str(named[i].name))) {
            *cp = named[i].cp;
            return strlen(named[i].name);
        }
    }
    if (!mtr_str_starts(s, MTR_STR("&#")))
        return 0;
    bool hex = s.len > 2 && (s.ptr[2] | 0x20) == 'x';
    size_t at = hex ? 3 : 2, start = at;
    for (*cp = 0; at < s.len && *cp <= 0x10ffff; at++) {
        char c = s.ptr[at], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *cp = *cp * (hex ? 16 : 10) + (uint32_t)(c - '0');
        else if (hex && low >= 'a' && low <= 'f')
            *cp = *cp * 16 + (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    if (at == start || *cp == 0 || *cp > 0x10ffff || (*cp >= 0xd800 && *cp <= 0xdfff))
        return 0;
    return at + (at < s.len && s.ptr[at] == ';');
}

static bool unescape(struct mtr_jr *r, const struct mtr_jv *s, struct mtr_jv *out)
{
    struct mtr_str b = mtr_jbytes(s);
    struct mtr_jtext t = {0};
    size_t from = 0;
    for (size_t at = 0; (at = mtr_str_find(b, MTR_STR("&"), at)) != SIZE_MAX;) {
        uint32_t cp;
        size_t n = entity(mtr_str_sub(b, at, b.len), &cp);
        if (n && (!mtr_jtext_slice(r, &t, s, (uint32_t)from, (uint32_t)(at - from)) ||
                  !mtr_jtext_char(r, &t, cp, mtr_jtaint_at(s, (uint32_t)at))))
            return false;
        at += n ? n : 1;
        if (n)
            from = at;
    }
    return mtr_jtext_slice(r, &t, s, (uint32_t)from, (uint32_t)(b.len - from)) &&
           mtr_jtext_finish(r, &t, 0, out);
}

static bool f_striptags(ARGS)
{
    struct mtr_jv s, words;
    struct mtr_jtext t = {0};
    if (!mtr_jto_str(r, &a[0], &s) || !without_tags(r, &s, &s) ||
        !mtr_jsplit(r, &s, NULL, -1, false, &words))
        return false;
    for (uint32_t i = 0; i < words.list->count; i++) {
        if ((i && !mtr_jtext_puts(r, &t, " ")) || !mtr_jtext_value(r, &t, &words.list->items[i]))
            return false;
    }
    return mtr_jtext_finish(r, &t, 0, &s) && unescape(r, &s, out);
}

static bool f_urlize(ARGS)
{
    (void)a, (void)out;
    return mtr_jfail(r, MTR_UNSUPPORTED,
                     "the filter urlize is not available: prompts are not HTML");
}

static const struct mtr_jfilter_entry filters[] = {
    {"urlencode", "value", 1, 1, f_urlencode, NULL},
    {"xmlattr", "d autospace", 1, 2, f_xmlattr, NULL},
    {"striptags", "value", 1, 1, f_striptags, NULL},
    {"urlize", "value trim_url_limit nofollow target rel extra_schemes", 1, 6, f_urlize, NULL},
    {0},
};

const struct mtr_jfilter_entry *mtr_jfilters_html(void)
{
    return filters;
}
