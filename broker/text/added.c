/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding added tokens.
 *
 * The trie's edges are entries of one hash table. A bitmap over the first two bytes keeps the
 * search out of it nearly everywhere: a walk begins only where some token may begin.
 */
#include "broker/text/added.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

void mtr_added_free(struct mtr_added *a)
{
    free(a->tokens);
    mtr_map_free(&a->edges);
    mtr_map_free(&a->ends);
    memset(a, 0, sizeof *a);
}

static void mark_begin(struct mtr_added *a, struct mtr_str text)
{
    uint32_t first = (unsigned char)text.ptr[0];
    if (text.len == 1) {
        memset(&a->begins[first * 4], 0xff, 32);
        return;
    }
    uint32_t two = first << 8 | (unsigned char)text.ptr[1];
    a->begins[two >> 6] |= 1ull << (two & 63);
}

bool mtr_added_put(struct mtr_added *a, struct mtr_str text, struct mtr_added_token token)
{
    uint64_t node = 0, known;
    for (size_t i = 0; i < text.len; i++) {
        uint64_t edge = node << 8 | (unsigned char)text.ptr[i];
        if (!mtr_map_get(&a->edges, edge, &node)) {
            node = ++a->node_count;
            if (!mtr_map_put(&a->edges, edge, node))
                return false;
        }
    }
    token.len = (uint32_t)text.len;
    if (mtr_map_get(&a->ends, node, &known)) {
        a->tokens[known] = token;
        return true;
    }
    if (!mtr_grow((void **)&a->tokens, &a->cap, a->count + 1, sizeof token) ||
        !mtr_map_put(&a->ends, node, a->count))
        return false;
    a->tokens[a->count++] = token;
    mark_begin(a, text);
    return true;
}

/* The longest token that begins at text[at], or NULL. */
static const struct mtr_added_token *longest(const struct mtr_added *a, struct mtr_str text,
                                             size_t at)
{
    const struct mtr_added_token *best = NULL;
    uint64_t node = 0, token;
    while (at < text.len &&
           mtr_map_get(&a->edges, node << 8 | (unsigned char)text.ptr[at], &node)) {
        at++;
        if (mtr_map_get(&a->ends, node, &token))
            best = &a->tokens[token];
    }
    return best;
}

static bool may_begin(const struct mtr_added *a, struct mtr_str text, size_t at)
{
    uint32_t first = (unsigned char)text.ptr[at];
    uint32_t second = at + 1 < text.len ? (unsigned char)text.ptr[at + 1] : 0;
    uint32_t two = first << 8 | second;
    return a->begins[two >> 6] >> (two & 63) & 1;
}

enum verdict { REFUSED, ALLOWED, STRADDLES };

/* Whether a special token at [start, end) acts. Calls come in the order of the text. */
static enum verdict judge(struct mtr_trust *t, size_t start, size_t end)
{
    if (t->all)
        return ALLOWED;
    start += t->base;
    end += t->base;
    while (t->at < t->count && t->at_offset + t->spans[t->at].len <= start)
        t->at_offset += t->spans[t->at++].len;
    bool any = false, every = true;
    size_t offset = t->at_offset;
    for (size_t i = t->at; i < t->count && offset < end; offset += t->spans[i++].len) {
        any |= t->spans[i].trusted && t->spans[i].len > 0;
        every &= t->spans[i].trusted || t->spans[i].len == 0;
    }
    return every && offset >= end ? ALLOWED : any ? STRADDLES : REFUSED;
}

static bool is_class(const struct mtr_unicode *u, struct mtr_str text, size_t at, uint8_t bit)
{
    uint32_t cp;
    mtr_utf8_next(text.ptr + at, &cp);
    return (mtr_unicode_properties(u, cp) & bit) != 0;
}

static bool stands_alone(const struct mtr_unicode *u, struct mtr_str text, size_t start, size_t end)
{
    bool before = start > 0 && is_class(u, text, mtr_utf8_back(text.ptr, start), MTR_CHAR_WORD);
    bool after = end < text.len && is_class(u, text, end, MTR_CHAR_WORD);
    return !before && !after;
}

static size_t space_before(const struct mtr_unicode *u, struct mtr_str text, size_t at)
{
    while (at > 0 && is_class(u, text, mtr_utf8_back(text.ptr, at), MTR_CHAR_SPACE))
        at = mtr_utf8_back(text.ptr, at);
    return at;
}

static size_t space_after(const struct mtr_unicode *u, struct mtr_str text, size_t at)
{
    while (at < text.len && is_class(u, text, at, MTR_CHAR_SPACE))
        at += (size_t)mtr_utf8_length(text.ptr[at]);
    return at;
}

static bool add_section(struct mtr_sections *out, size_t start, size_t end, uint32_t id)
{
    if (!mtr_grow((void **)&out->items, &out->cap, out->count + 1, sizeof *out->items))
        return false;
    out->items[out->count++] = (struct mtr_section){start, end, id};
    return true;
}

/* Enters a match: the text before it, then the token with the white space that it takes. */
static bool add_match(const struct mtr_unicode *u, struct mtr_str text,
                      const struct mtr_added_token *token, size_t start, size_t *done,
                      struct mtr_sections *out)
{
    size_t end = start + token->len;
    if (token->lstrip) {
        size_t before = space_before(u, text, start);
        start = before > *done ? before : *done;
    }
    if (token->rstrip)
        end = space_after(u, text, end);
    if (*done < start && !add_section(out, *done, start, MTR_TOKEN_NONE))
        return false;
    *done = end;
    return add_section(out, start, end, token->id);
}

bool mtr_added_cut(const struct mtr_added *a, const struct mtr_unicode *u, struct mtr_str text,
                   struct mtr_trust *trust, struct mtr_sections *out)
{
    size_t done = 0; /* sections cover the text up to here */
    for (size_t at = 0; a->count > 0 && at < text.len;) {
        const struct mtr_added_token *token = may_begin(a, text, at) ? longest(a, text, at) : NULL;
        if (token == NULL) {
            at++;
            continue;
        }
        size_t end = at + token->len;
        enum verdict verdict = token->special ? judge(trust, at, end) : ALLOWED;
        if (verdict == ALLOWED && (!token->single_word || stands_alone(u, text, at, end)) &&
            !add_match(u, text, token, at, &done, out))
            return false;
        /* A refused token is text as a whole; one that reaches into trusted text must not hide
         * what begins there. */
        at = verdict == STRADDLES ? at + 1 : end;
    }
    return done >= text.len || add_section(out, done, text.len, MTR_TOKEN_NONE);
}
