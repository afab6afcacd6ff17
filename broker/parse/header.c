/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Is there a call at this place?
 *
 * A header is what must have come before a call exists: opener, name, and what the format puts
 * before the first argument. Until it is whole all of it is held back; then the call is there, and
 * nothing takes it away again. The name must be declared.
 */
#include <string.h>

#include "broker/parse/internal.h"

static enum mtr_progress need(const struct mtr_parser *p)
{
    return p->v.final ? MTR_NO : MTR_MORE;
}

/* ---- Names ------------------------------------------------------------------------------------
 */

static struct mtr_str trimmed(struct mtr_str s)
{
    while (s.len && mtr_is_space(s.ptr[0]))
        s = mtr_str_sub(s, 1, s.len);
    while (s.len && mtr_is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static struct mtr_str without_index(struct mtr_str name)
{
    size_t at = name.len;
    while (at && name.ptr[at - 1] >= '0' && name.ptr[at - 1] <= '9')
        at--;
    return at && at < name.len && name.ptr[at - 1] == ':' ? mtr_str_sub(name, 0, at - 1) : name;
}

static bool is_declared(struct mtr_parser *p, struct mtr_str name, struct mtr_header *h)
{
    bool found;
    const struct mtr_json *parameters = mtr_schema_of_tool(p->setup.declared, name, &found);
    if (!found || !name.len)
        return false;
    h->parameters = parameters;
    h->name = name;
    return true;
}

bool mtr_declared(struct mtr_parser *p, struct mtr_str name, struct mtr_header *h)
{
    unsigned flags = p->format->flags;
    name = trimmed(name);
    if (is_declared(p, name, h))
        return true;
    if (flags & MTR_FORMAT_INDEX)
        name = without_index(name);
    if (is_declared(p, name, h))
        return true;
    return (flags & MTR_FORMAT_FUNCTIONS) && mtr_str_starts(name, MTR_STR("functions.")) &&
           is_declared(p, mtr_str_sub(name, 10, name.len), h);
}

/* A bare name at `at`: up to a byte of `stops` or white space. MORE: it may go on. */
static enum mtr_progress name_end(const struct mtr_parser *p, size_t at, const char *stops,
                                  size_t *end)
{
    size_t i = at;
    while (!mtr_at_end(p, i) && i - at <= MTR_PARSE_MAX_NAME && !mtr_is_space(p->v.s.ptr[i]) &&
           !(p->v.s.ptr[i] && strchr(stops, p->v.s.ptr[i])))
        i++;
    *end = i;
    if (i - at > MTR_PARSE_MAX_NAME)
        return MTR_NO;
    return mtr_at_end(p, i) ? (p->v.final ? MTR_NO : MTR_MORE) : MTR_YES;
}

/* ---- Name, separator, object ------------------------------------------------------------------
 */

static enum mtr_progress named_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    enum mtr_progress r = mtr_look(p, at, f->wrap_open);
    if (r == MTR_YES)
        at = mtr_look_space(p, at + strlen(f->wrap_open));
    else if (r == MTR_MORE && mtr_look(p, at, f->call_open) == MTR_NO)
        return r;
    if (mtr_at_end(p, at))
        return need(p);
    r = mtr_look(p, at, f->call_open);
    if (r != MTR_YES)
        return r;
    at += strlen(f->call_open);
    for (size_t end = at; end - at <= MTR_PARSE_MAX_NAME; end++) {
        if (mtr_at_end(p, end))
            return need(p);
        enum mtr_progress separator = mtr_look(p, end, f->separator);
        enum mtr_progress closed = mtr_look(p, end, f->call_close);
        struct mtr_str name = mtr_str_sub(p->v.s, at, end - at);
        if (separator == MTR_MORE || closed == MTR_MORE)
            return MTR_MORE;
        if (separator == MTR_NO && closed == MTR_NO)
            continue;
        if (!mtr_declared(p, name, h))
            return MTR_NO;
        h->wrapped = true;
        return mtr_body_try(p, separator == MTR_YES ? end + strlen(f->separator) : end, h);
    }
    return MTR_NO;
}

static enum mtr_progress mistral_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    size_t end;
    enum mtr_progress r = mtr_look(p, at, f->wrap_open);
    if (r != MTR_YES)
        return r;
    at = mtr_look_space(p, at + strlen(f->wrap_open));
    if (mtr_at_end(p, at))
        return need(p);
    if (p->v.s.ptr[at] == '[' || p->v.s.ptr[at] == '{' || p->v.s.ptr[at] == '`')
        return mtr_list_try(p, at, h);
    r = name_end(p, at, "[{", &end);
    if (r != MTR_YES || !mtr_declared(p, mtr_str_sub(p->v.s, at, end - at), h))
        return r == MTR_MORE ? r : MTR_NO;
    at = mtr_look_space(p, end);
    r = mtr_look(p, at, f->call_open);
    if (r == MTR_YES) {
        r = name_end(p, at + strlen(f->call_open), "[{", &end);
        if (r != MTR_YES)
            return r;
        at = mtr_look_space(p, end);
    } else if (r == MTR_MORE) {
        return r;
    }
    r = mtr_look(p, at, f->separator);
    if (r == MTR_MORE)
        return r;
    return mtr_body_try(p, r == MTR_YES ? at + strlen(f->separator) : at, h);
}

/* ---- Gemma, Python ----------------------------------------------------------------------------
 */

static enum mtr_progress gemma_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    size_t end;
    enum mtr_progress r = mtr_look(p, at, f->wrap_open);
    if (r != MTR_YES)
        return r;
    at = mtr_look_space(p, at + strlen(f->wrap_open));
    r = name_end(p, at, "{(<", &end);
    if (r != MTR_YES)
        return r;
    struct mtr_str name = mtr_str_sub(p->v.s, at, end - at);
    if (mtr_str_starts(name, MTR_STR("call:")))
        name = mtr_str_sub(name, 5, name.len);
    else if (name.len && name.ptr[0] == ':')
        name = mtr_str_sub(name, 1, name.len);
    if (!name.len) { /* "call: N" */
        at = mtr_look_space(p, end);
        r = name_end(p, at, "{(<", &end);
        if (r != MTR_YES)
            return r;
        name = mtr_str_sub(p->v.s, at, end - at);
    }
    end = mtr_look_space(p, end);
    if (mtr_at_end(p, end))
        return need(p);
    if ((p->v.s.ptr[end] != '{' && p->v.s.ptr[end] != '(') || !mtr_declared(p, name, h))
        return MTR_NO;
    h->form = MTR_ARGS_STREAM;
    h->dialect = MTR_DIALECT_GEMMA;
    h->state = MTR_PARSE_OBJECT;
    h->body = end;
    h->wrapped = true;
    return MTR_YES;
}

/* N( at `at`, or N.call( */
static enum mtr_progress python_call_try(struct mtr_parser *p, size_t at, bool builtin,
                                         struct mtr_header *h)
{
    size_t end;
    *h = (struct mtr_header){
        .form = MTR_ARGS_STREAM, .dialect = MTR_DIALECT_PYTHON, .state = MTR_PARSE_OBJECT};
    enum mtr_progress r = name_end(p, at, "([]{},:;\"'`=<", &end);
    if (r != MTR_YES)
        return r;
    struct mtr_str name = mtr_str_sub(p->v.s, at, end - at);
    size_t open = mtr_look_space(p, end);
    if (mtr_at_end(p, open))
        return need(p);
    if (p->v.s.ptr[open] != '(')
        return MTR_NO;
    if (builtin) {
        if (!mtr_str_ends(name, MTR_STR(".call")))
            return MTR_NO;
        name.len -= 5;
    }
    h->body = open;
    return mtr_declared(p, name, h) ? MTR_YES : MTR_NO;
}

/* [N(...), ...]: calls before the first declared one are skipped. */
static enum mtr_progress python_list_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    size_t skipped = 0, end = 0;
    at = mtr_look_space(p, at);
    if (mtr_at_end(p, at))
        return need(p);
    if (p->v.s.ptr[at] != '[')
        return MTR_NO;
    at = mtr_look_space(p, at + 1);
    for (;;) {
        if (mtr_at_end(p, at))
            return need(p);
        enum mtr_progress r = python_call_try(p, at, false, h);
        if (r == MTR_YES) {
            h->list = true;
            h->skipped = skipped;
            h->skipped_end = end;
        }
        if (r != MTR_NO || !h->body)
            return r;
        r = mtr_look_value(p, h->body, MTR_DIALECT_PYTHON, &end);
        if (r != MTR_YES)
            return r == MTR_MORE ? need(p) : r;
        if (!skipped)
            skipped = at;
        at = mtr_look_space(p, end);
        if (mtr_at_end(p, at))
            return need(p);
        if (p->v.s.ptr[at] != ',')
            return MTR_NO;
        at = mtr_look_space(p, at + 1);
    }
}

static const char *const python_tags[] = {"<|python_tag|>", "<|python_start|>", "<|python_end|>"};

/* Behind such a token what follows may be a call anywhere on a line. */
static enum mtr_progress skip_python_tag(const struct mtr_parser *p, size_t *at, bool *tag)
{
    *tag = false;
    for (size_t i = 0; i < 3; i++) {
        enum mtr_progress r = mtr_look(p, *at, python_tags[i]);
        if (r == MTR_MORE)
            return r;
        if (r == MTR_YES) {
            *at = mtr_look_space(p, *at + strlen(python_tags[i]));
            *tag = true;
            return mtr_at_end(p, *at) ? need(p) : MTR_YES;
        }
    }
    return MTR_YES;
}

static enum mtr_progress loose_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    bool tag = false;
    bool llama = p->format->grammar == MTR_CALLS_PYTHON || (p->format->flags & MTR_FORMAT_BUILTIN);
    if (p->run.reasoning)
        return MTR_NO;
    if (llama) {
        enum mtr_progress r = skip_python_tag(p, &at, &tag);
        if (r != MTR_YES)
            return r;
    }
    if (!tag && !mtr_run_at_line_start(p))
        return MTR_NO;
    char c = p->v.s.ptr[at];
    if (p->format->grammar == MTR_CALLS_PYTHON)
        return python_list_try(p, at, h);
    if (c == '{' || c == '[')
        return mtr_list_try(p, at, h);
    return tag ? python_call_try(p, at, true, h) : MTR_NO;
}

/* ---- Tags -------------------------------------------------------------------------------------
 */

static enum mtr_progress tags_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    struct mtr_tag tag = {.name = &p->name};
    bool wrapped = false;
    enum mtr_progress r = mtr_look(p, at, f->wrap_open);
    if (r == MTR_YES) {
        wrapped = true;
        at = mtr_look_space(p, at + strlen(f->wrap_open));
        if (mtr_at_end(p, at))
            return need(p);
    } else if (r == MTR_MORE && mtr_look(p, at, f->call_open) == MTR_NO) {
        return r;
    }
    if (!wrapped && !mtr_run_at_line_start(p))
        return r;
    r = mtr_tag_open(p, at, f->call_open, f->name_attribute, &tag);
    if (r != MTR_YES)
        return r;
    if (tag.malformed || !mtr_declared(p, mtr_buf_view(&p->name), h)) {
        h->refused = true;
        return MTR_NO;
    }
    h->form = MTR_ARGS_STREAM;
    h->state = MTR_PARSE_TAGS;
    h->body = tag.end;
    h->wrapped = wrapped || p->wrapped;
    return MTR_YES;
}

/* <tool_call>N followed by a key or the closer. */
static enum mtr_progress keys_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    enum mtr_progress r = mtr_look(p, at, f->wrap_open);
    if (r != MTR_YES)
        return r;
    at += strlen(f->wrap_open);
    size_t first = mtr_look_space(p, at);
    if (mtr_at_end(p, first))
        return need(p);
    char c = p->v.s.ptr[first];
    if ((f->flags & MTR_FORMAT_JSON_TOO) && (c == '{' || c == '[' || c == '`'))
        return mtr_wrapped_list_try(p, first, h);
    size_t end = first;
    while (!mtr_at_end(p, end) && p->v.s.ptr[end] != '<' && end - first <= MTR_PARSE_MAX_NAME)
        end++;
    if (mtr_at_end(p, end))
        return need(p);
    if (p->v.s.ptr[end] != '<' || !mtr_declared(p, mtr_str_sub(p->v.s, at, end - at), h))
        return MTR_NO;
    r = mtr_look(p, end, f->param_open);
    if (r == MTR_NO)
        r = mtr_look(p, end, f->call_close);
    else if (r == MTR_MORE && mtr_look(p, end, f->call_close) == MTR_YES)
        r = MTR_YES;
    h->form = MTR_ARGS_STREAM;
    h->state = MTR_PARSE_TAGS;
    h->body = end;
    h->wrapped = false;
    return r;
}

/* ---- Any --------------------------------------------------------------------------------------
 */

enum mtr_progress mtr_header_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    const struct mtr_parse_format *f = p->format;
    enum mtr_progress r;
    *h = (struct mtr_header){.form = MTR_ARGS_EMPTY};
    switch (f->grammar) {
    case MTR_CALLS_ENVELOPE:
        r = mtr_look(p, at, f->wrap_open);
        return r == MTR_YES ? mtr_wrapped_list_try(p, at + strlen(f->wrap_open), h) : r;
    case MTR_CALLS_BARE:
    case MTR_CALLS_PYTHON:
        return loose_try(p, at, h);
    case MTR_CALLS_MISTRAL:
        return mistral_try(p, at, h);
    case MTR_CALLS_NAMED:
        return named_try(p, at, h);
    case MTR_CALLS_TAGS:
        return tags_try(p, at, h);
    case MTR_CALLS_KEYS:
        return keys_try(p, at, h);
    case MTR_CALLS_GEMMA:
        return gemma_try(p, at, h);
    case MTR_CALLS_NONE:
    case MTR_CALLS_KIMI3:
    case MTR_CALLS_HARMONY: /* a message's header */
        break;
    }
    return MTR_NO;
}

enum mtr_progress mtr_element_try(struct mtr_parser *p, size_t at, struct mtr_header *h)
{
    enum mtr_progress r = p->format->grammar == MTR_CALLS_PYTHON ? python_call_try(p, at, false, h)
                                                                 : mtr_envelope_try(p, at, h);
    if (r == MTR_YES) {
        h->list = p->list;
        h->wrapped = p->wrapped;
    }
    return r;
}

/* The text of list elements that were no calls, each a run of its own. */
static void put_skipped(struct mtr_parser *p, const struct mtr_header *h)
{
    enum mtr_dialect dialect =
        p->format->grammar == MTR_CALLS_PYTHON ? MTR_DIALECT_PYTHON : MTR_DIALECT_JSON;
    for (size_t at = h->skipped; at < h->skipped_end;) {
        struct mtr_value_scan scan = {.at = at};
        while (scan.at < h->skipped_end && !strchr("{(", p->v.s.ptr[scan.at]))
            scan.at++;
        mtr_value_scan(&scan, p->v.s, dialect, true);
        if (scan.at > h->skipped_end || scan.at <= at)
            scan.at = h->skipped_end;
        mtr_run_put(p, mtr_str_sub(p->v.s, at, scan.at - at));
        mtr_run_mark(p, MTR_MARK_CALL);
        at = scan.at;
        while (at < h->skipped_end && (mtr_is_space(p->v.s.ptr[at]) || p->v.s.ptr[at] == ','))
            at++;
    }
}

void mtr_call_begin(struct mtr_parser *p, const struct mtr_header *h)
{
    mtr_run_mark(p, MTR_MARK_CALL);
    mtr_run_switch(p, false);
    put_skipped(p, h);
    p->run.fence_taken |= h->fenced;
    p->wrapped = h->wrapped;
    p->list = h->list;
    p->calls++;
    mtr_put_piece(p, MTR_PIECE_CALL, h->name);
    p->parameters = h->parameters;
    p->dialect = h->dialect;
    p->envelope = h->envelope;
    p->tags_after = false;
    p->first_member = true;
    p->silent = false;
    mtr_map_free(&p->keys);
    mtr_buf_clear(&p->stray);
    mtr_buf_byte(mtr_arguments_out(p), '{');
    p->state = h->state;
    size_t body = h->body;
    if (h->form == MTR_ARGS_STREAM && h->state == MTR_PARSE_OBJECT) {
        p->close = p->v.s.ptr[body] == '(' ? ')' : '}';
        p->v.at = body + 1;
        return;
    }
    if (h->form == MTR_ARGS_TEXT)
        mtr_object_whole(p, h->text, h->text_cut);
    p->v.at = body;
    if (h->form != MTR_ARGS_STREAM)
        mtr_call_end(p);
}

void mtr_call_end(struct mtr_parser *p)
{
    mtr_buf_byte(mtr_arguments_out(p), '}');
    mtr_put_piece(p, MTR_PIECE_CALL_END, (struct mtr_str){0});
    p->state = p->envelope ? MTR_PARSE_ENVELOPE : MTR_PARSE_TEXT;
    mtr_run_mark(p, MTR_MARK_CALL);
    if (p->stray.len) {
        mtr_run_put(p, mtr_buf_view(&p->stray));
        mtr_buf_clear(&p->stray);
        mtr_run_mark(p, MTR_MARK_CALL);
    }
}
