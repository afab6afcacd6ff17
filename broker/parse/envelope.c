/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls as JSON objects: {"name": N, "arguments": J}, one or a list of them.
 *
 * The keys may come in any order, so an object of arguments that comes before the name waits for
 * it. Elements of a list that are no calls are stepped over as long as one is found behind them.
 */
#include <string.h>

#include "broker/parse/internal.h"

static struct mtr_str trimmed(struct mtr_str s)
{
    while (s.len && mtr_is_space(s.ptr[0]))
        s = mtr_str_sub(s, 1, s.len);
    while (s.len && mtr_is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

struct envelope {
    bool named, given, empty, text;
    size_t from, end; /* of an object that came before the name */
    bool text_cut;
};

static enum mtr_progress need(const struct mtr_parser *p)
{
    return p->v.final ? MTR_NO : MTR_MORE;
}

/* The string at *at, decoded, appended to out. cut: the output ended in it. */
static enum mtr_progress read_string(const struct mtr_parser *p, size_t *at, struct mtr_buf *out,
                                     bool *cut)
{
    enum mtr_quote quote;
    struct mtr_buf escaped = {0};
    size_t i = *at;
    enum mtr_progress r = mtr_quote_open(p->v.s, &i, MTR_DIALECT_JSON, p->v.final, &quote);
    if (r != MTR_YES)
        return r;
    mtr_buf_byte(&escaped, '"');
    r = mtr_string_copy(p->v.s, &i, quote, p->v.final, &escaped);
    mtr_buf_byte(&escaped, '"');
    *cut = r != MTR_YES;
    if (r == MTR_YES || p->v.final) {
        struct mtr_arena arena;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v =
            mtr_json_parse(&arena, mtr_buf_view(&escaped), MTR_JSON_STRICT, NULL);
        if (v && v->kind == MTR_JSON_STRING)
            mtr_buf_str(out, v->text);
        mtr_arena_free(&arena);
        *at = i;
        r = MTR_YES;
    }
    mtr_buf_free(&escaped);
    return r;
}

static enum mtr_progress read_name(struct mtr_parser *p, size_t *at, struct envelope *e,
                                   struct mtr_header *h)
{
    bool cut;
    mtr_buf_clear(&p->name);
    enum mtr_progress r = read_string(p, at, &p->name, &cut);
    if (r != MTR_YES)
        return r;
    if (cut || !mtr_declared(p, mtr_buf_view(&p->name), h))
        return MTR_NO;
    e->named = true;
    return MTR_YES;
}

static bool is_object_text(struct mtr_str s)
{
    s = trimmed(s);
    return s.len && s.ptr[0] == '{';
}

/* The arguments' value at *at. YES with h->body set: the object begins there and the name is known.
 */
static enum mtr_progress read_arguments(struct mtr_parser *p, size_t *at, struct envelope *e,
                                        struct mtr_header *h)
{
    char c = p->v.s.ptr[*at];
    enum mtr_progress r;
    e->given = true;
    if (c == '{') {
        e->from = *at;
        if (e->named) {
            h->form = MTR_ARGS_STREAM;
            h->body = *at;
            return MTR_YES;
        }
        r = mtr_look_value(p, *at, MTR_DIALECT_JSON, &e->end);
        *at = e->end;
        return r == MTR_MORE ? need(p) : r;
    }
    if (c == '"') {
        size_t end;
        r = mtr_look_value(p, *at, MTR_DIALECT_JSON, &end);
        if (r == MTR_MORE && !p->v.final)
            return MTR_MORE;
        mtr_buf_clear(&p->text);
        r = read_string(p, at, &p->text, &e->text_cut);
        if (r == MTR_YES && !is_object_text(mtr_buf_view(&p->text)))
            return MTR_NO;
        e->text = true;
        return r;
    }
    r = mtr_look(p, *at, "null");
    if (r != MTR_YES)
        return r;
    *at += 4;
    e->empty = true;
    return MTR_YES;
}

/* All that the header needs is there: the form that the arguments have. */
static void envelope_done(struct mtr_parser *p, const struct envelope *e, size_t at, bool closed,
                          struct mtr_header *h)
{
    h->dialect = MTR_DIALECT_JSON;
    h->state = MTR_PARSE_OBJECT;
    h->envelope = !closed;
    if (h->form == MTR_ARGS_STREAM)
        return;
    h->body = at;
    if (e->text) {
        h->form = MTR_ARGS_TEXT;
        h->text = mtr_buf_view(&p->text);
        h->text_cut = e->text_cut;
    } else if (e->given && !e->empty) {
        h->form = MTR_ARGS_TEXT;
        h->text = mtr_str_sub(p->v.s, e->from, e->end - e->from);
    }
}

static enum mtr_progress read_member(struct mtr_parser *p, size_t *at, struct envelope *e,
                                     struct mtr_header *h)
{
    struct mtr_buf key = {0};
    bool cut;
    enum mtr_progress r = read_string(p, at, &key, &cut);
    bool name = mtr_str_is(mtr_buf_view(&key), "name") && !e->named;
    bool arguments = (mtr_str_is(mtr_buf_view(&key), "arguments") ||
                      mtr_str_is(mtr_buf_view(&key), "parameters")) &&
                     !e->given;
    mtr_buf_free(&key);
    if (r != MTR_YES || cut)
        return r == MTR_YES ? MTR_NO : r;
    *at = mtr_look_space(p, *at);
    if (mtr_at_end(p, *at))
        return need(p);
    if (p->v.s.ptr[*at] != ':')
        return MTR_NO;
    *at = mtr_look_space(p, *at + 1);
    if (mtr_at_end(p, *at))
        return need(p);
    if (name)
        return read_name(p, at, e, h);
    if (arguments)
        return read_arguments(p, at, e, h);
    size_t end;
    r = mtr_look_value(p, *at, MTR_DIALECT_JSON, &end);
    *at = end;
    return r == MTR_MORE ? need(p) : r;
}

/* An object with name and arguments at `at`. */
enum mtr_progress mtr_envelope_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    struct envelope e = {0};
    bool tags = p->format->grammar != MTR_CALLS_BARE; /* then no arguments are {} */
    *h = (struct mtr_header){.form = MTR_ARGS_EMPTY};
    if (mtr_at_end(p, at))
        return need(p);
    if (p->v.s.ptr[at] != '{')
        return MTR_NO;
    for (at++;;) {
        at = mtr_look_space(p, at);
        if (mtr_at_end(p, at))
            return need(p);
        if (p->v.s.ptr[at] == ',') {
            at++;
            continue;
        }
        if (p->v.s.ptr[at] == '}') {
            if (!e.named || (!e.given && !tags))
                return MTR_NO;
            envelope_done(p, &e, at + 1, true, h);
            return MTR_YES;
        }
        enum mtr_progress r = read_member(p, &at, &e, h);
        if (r != MTR_YES)
            return r;
        if (e.named && e.given && !(e.empty && !tags)) {
            envelope_done(p, &e, at, false, h);
            return MTR_YES;
        }
    }
}

/* "```json\n" between an opener and its body. */
static enum mtr_progress skip_fence(const struct mtr_parser *p, size_t *at, bool *fenced)
{
    enum mtr_progress r = mtr_look(p, *at, "```");
    if (r != MTR_YES)
        return r;
    size_t end = *at + 3;
    while (!mtr_at_end(p, end) && p->v.s.ptr[end] != '\n' && end - *at < 32)
        end++;
    if (mtr_at_end(p, end))
        return need(p);
    if (p->v.s.ptr[end] != '\n')
        return MTR_NO;
    *fenced = true;
    *at = mtr_look_space(p, end);
    return MTR_YES;
}

/* One envelope, or a list of which at least one is. Elements before it that are none are skipped.
 */
enum mtr_progress mtr_list_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    bool list = false, fenced = false;
    size_t skipped = 0, skipped_end = 0;
    at = mtr_look_space(p, at);
    if (mtr_at_end(p, at))
        return need(p);
    if (p->format->grammar != MTR_CALLS_BARE) {
        enum mtr_progress r = skip_fence(p, &at, &fenced);
        if (r == MTR_MORE || mtr_at_end(p, at))
            return r == MTR_MORE ? r : need(p);
    }
    if (p->v.s.ptr[at] == '[') {
        list = true;
        at = mtr_look_space(p, at + 1);
    }
    for (;;) {
        enum mtr_progress r = mtr_envelope_try(p, at, h);
        if (r == MTR_YES) {
            h->list = list;
            h->fenced = fenced;
            h->skipped = skipped;
            h->skipped_end = skipped_end;
        }
        if (r != MTR_NO || !list || mtr_at_end(p, at) || p->v.s.ptr[at] != '{')
            return r;
        r = mtr_look_value(p, at, MTR_DIALECT_JSON, &skipped_end);
        if (r != MTR_YES)
            return r == MTR_MORE ? need(p) : r;
        if (!skipped)
            skipped = at;
        at = mtr_look_space(p, skipped_end);
        if (mtr_at_end(p, at))
            return need(p);
        if (p->v.s.ptr[at] != ',')
            return MTR_NO;
        at = mtr_look_space(p, at + 1);
    }
}

enum mtr_progress mtr_wrapped_list_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    enum mtr_progress r = mtr_list_try(p, at, h);
    if (r == MTR_YES)
        h->wrapped = p->format->wrap_close != NULL;
    return r;
}

/* What may stand for the arguments where they are due. */
enum mtr_progress mtr_body_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    struct envelope e = {.named = true};
    size_t body = mtr_look_space(p, at);
    enum mtr_progress fence = skip_fence(p, &body, &h->fenced);
    if (fence == MTR_MORE)
        return fence;
    h->dialect = MTR_DIALECT_JSON;
    h->state = MTR_PARSE_OBJECT;
    h->form = MTR_ARGS_EMPTY;
    if (mtr_at_end(p, body))
        return need(p);
    enum mtr_progress closed = mtr_look(p, body, p->format->call_close);
    if (closed == MTR_MORE)
        return closed;
    h->body = body;
    if (closed == MTR_YES && p->format->grammar == MTR_CALLS_NAMED)
        return MTR_YES;
    enum mtr_progress r = read_arguments(p, &body, &e, h);
    if (r == MTR_YES)
        envelope_done(p, &e, body, true, h);
    return r;
}
