/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls written as tags, and where a value between tags ends.
 *
 * A value is raw text, so that it may hold anything, the tags themselves too. What closes it is
 * decided by what follows:
 *
 *   V2  its closing tag, if the next parameter or the call's closer follows
 *   V3  a whole header of a call inside of it hides everything up to that call's closer
 *   V4  without a closing tag: before a parameter that is declared and not given yet, and before
 *       the call's closer if the wrapper's, or another call, follows
 *   V5  at the end of the output: the closing tags that end it, in their order
 *
 * Because of V5 closing tags that stand at the end of what came are never written before something
 * else follows them.
 */
#include <string.h>

#include "broker/parse/internal.h"

/* ---- Opening tags -----------------------------------------------------------------------------
 */

static enum mtr_progress need(const struct mtr_parser *p)
{
    return p->v.final ? MTR_NO : MTR_MORE;
}

static void decode_entities(const struct mtr_parser *p, struct mtr_str s, struct mtr_buf *out)
{
    bool entities = p->format->grammar == MTR_CALLS_KIMI3;
    mtr_buf_clear(out);
    for (size_t i = 0; i < s.len;) {
        struct mtr_str rest = mtr_str_sub(s, i, s.len);
        if (entities && mtr_str_starts(rest, MTR_STR("&quot;"))) {
            mtr_buf_byte(out, '"');
            i += 6;
        } else if (entities && mtr_str_starts(rest, MTR_STR("&amp;"))) {
            mtr_buf_byte(out, '&');
            i += 5;
        } else {
            mtr_buf_byte(out, (uint8_t)s.ptr[i++]);
        }
    }
}

/* name=value at *at: a value between quotes of either kind, or up to white space or the tag's end.
 */
static bool read_attribute(struct mtr_str s, size_t *at, struct mtr_str *name,
                           struct mtr_str *value)
{
    size_t i = *at;
    while (i < s.len && !mtr_is_space(s.ptr[i]) && s.ptr[i] != '=')
        i++;
    *name = mtr_str_sub(s, *at, i - *at);
    if (i >= s.len || s.ptr[i] != '=' || !name->len)
        return false;
    i++;
    size_t from = i;
    if (i < s.len && (s.ptr[i] == '"' || s.ptr[i] == '\'')) {
        char quote = s.ptr[i++];
        from = i;
        while (i < s.len && s.ptr[i] != quote)
            i++;
        if (i >= s.len)
            return false;
        *value = mtr_str_sub(s, from, i - from);
        i++;
    } else {
        while (i < s.len && !mtr_is_space(s.ptr[i]))
            i++;
        *value = mtr_str_sub(s, from, i - from);
    }
    *at = i;
    return true;
}

static bool read_attributes(const struct mtr_parser *p, struct mtr_str inside,
                            const char *attribute, struct mtr_tag *tag)
{
    bool named = false;
    struct mtr_str name, value;
    for (size_t at = 0; at < inside.len;) {
        while (at < inside.len && mtr_is_space(inside.ptr[at]))
            at++;
        if (at >= inside.len)
            break;
        if (!read_attribute(inside, &at, &name, &value))
            return false;
        if (attribute && mtr_str_is(name, attribute)) {
            decode_entities(p, value, tag->name);
            named = true;
        } else if (p->format->type_attribute && mtr_str_is(name, p->format->type_attribute) &&
                   value.len < sizeof tag->type) {
            memcpy(tag->type, value.ptr, value.len);
            tag->type[value.len] = '\0';
        }
    }
    return named || !attribute;
}

/* Where the tag ends, quotes respected in attributes; its line's end is the limit. */
static enum mtr_progress tag_end(const struct mtr_parser *p, size_t at, size_t *end)
{
    const char *mark = p->format->tag_end;
    bool token = p->format->grammar == MTR_CALLS_KIMI3;
    for (size_t i = at; i - at <= MTR_PARSE_MAX_HEADER; i++) {
        if (mtr_at_end(p, i))
            return need(p);
        enum mtr_progress r = mtr_look(p, i, mark);
        if (r == MTR_MORE)
            return r;
        *end = i;
        if (r == MTR_YES)
            return r;
        if (p->v.s.ptr[i] == '\n' && !token)
            return MTR_NO;
    }
    return MTR_NO;
}

enum mtr_progress mtr_tag_open(struct mtr_parser *p, size_t at, const char *word,
                               const char *attribute, struct mtr_tag *tag)
{
    unsigned flags = p->format->flags;
    size_t end;
    enum mtr_progress r = mtr_look(p, at, word);
    if (r != MTR_YES)
        return r;
    at += strlen(word);
    if (mtr_at_end(p, at))
        return need(p);
    char c = p->v.s.ptr[at];
    bool equals = c == '=' && (flags & MTR_FORMAT_EQUALS);
    bool kimi = p->format->grammar == MTR_CALLS_KIMI3;
    bool attributes =
        (mtr_is_space(c) && ((flags & MTR_FORMAT_ATTRIBUTES) || kimi)) || (kimi && c == '<');
    if (!equals && !attributes)
        return MTR_NO;
    r = tag_end(p, at, &end);
    if (r == MTR_MORE)
        return r;
    tag->type[0] = '\0';
    if (r == MTR_NO) {
        tag->malformed = true;
        tag->end = end;
        return mtr_at_end(p, end) ? MTR_NO : MTR_YES;
    }
    tag->end = end + strlen(p->format->tag_end);
    struct mtr_str inside = mtr_str_sub(p->v.s, at, end - at);
    if (equals) {
        struct mtr_str name = mtr_str_sub(inside, 1, inside.len);
        mtr_buf_clear(tag->name);
        mtr_buf_str(tag->name, name);
        tag->malformed = name.len == 0;
    } else {
        tag->malformed = !read_attributes(p, inside, attribute, tag);
    }
    return MTR_YES;
}

/* ---- What follows -----------------------------------------------------------------------------
 */

static enum mtr_progress any_of(const struct mtr_parser *p, size_t at, const char *const *words,
                                size_t count)
{
    enum mtr_progress best = MTR_NO;
    for (size_t i = 0; i < count; i++) {
        enum mtr_progress r = mtr_look(p, at, words[i]);
        if (r == MTR_YES)
            return r;
        if (r == MTR_MORE)
            best = r;
    }
    return best;
}

/* Behind a closing tag: the next parameter, or the call's closer? At the end a piece of either. */
static enum mtr_progress part_follows(const struct mtr_parser *p, size_t at)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->param_open, f->call_close};
    at = mtr_look_space(p, at);
    if (mtr_at_end(p, at))
        return need(p);
    for (size_t i = 0; i < 2; i++)
        if (mtr_look_piece(p, at, words[i], 1))
            return MTR_YES;
    return any_of(p, at, words, 2);
}

/* Behind the call's closer: the wrapper's, or another call? */
static enum mtr_progress call_follows(const struct mtr_parser *p, size_t at)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->wrap_close, f->wrap_open, f->call_open};
    at = mtr_look_space(p, at);
    if (mtr_at_end(p, at))
        return need(p);
    return any_of(p, at, words, 3);
}

/* <arg_key>K</arg_key> <arg_value>: a parameter's opener of the KEYS grammar. */
static enum mtr_progress key_tag(struct mtr_parser *p, size_t at, struct mtr_tag *tag)
{
    const struct mtr_parse_format *f = p->format;
    enum mtr_progress r = mtr_look(p, at, f->param_open);
    if (r != MTR_YES)
        return r;
    at += strlen(f->param_open);
    for (size_t end = at; end - at <= MTR_PARSE_MAX_NAME; end++) {
        if (mtr_at_end(p, end))
            return need(p);
        r = mtr_look(p, end, f->key_close);
        if (r == MTR_MORE)
            return r;
        if (r == MTR_NO)
            continue;
        size_t from = mtr_look_space(p, at), to = end;
        while (to > from && mtr_is_space(p->v.s.ptr[to - 1]))
            to--;
        mtr_buf_clear(tag->name);
        mtr_buf_str(tag->name, mtr_str_sub(p->v.s, from, to > from ? to - from : 0));
        size_t value = mtr_look_space(p, end + strlen(f->key_close));
        if (mtr_at_end(p, value))
            return need(p);
        r = mtr_look(p, value, f->value_open);
        tag->end = value + (r == MTR_YES ? strlen(f->value_open) : 0);
        tag->malformed = r == MTR_NO;
        tag->type[0] = '\0';
        return r == MTR_MORE ? r : MTR_YES;
    }
    return MTR_NO;
}

static enum mtr_progress param_tag(struct mtr_parser *p, size_t at, struct mtr_tag *tag)
{
    if (p->format->grammar == MTR_CALLS_KEYS)
        return key_tag(p, at, tag);
    return mtr_tag_open(p, at, p->format->param_open, p->format->param_attribute, tag);
}

/* A whole header of a call, of any name. */
static enum mtr_progress call_header(struct mtr_parser *p, size_t at, size_t *end)
{
    const struct mtr_parse_format *f = p->format;
    struct mtr_buf name = {0};
    struct mtr_tag tag = {.name = &name};
    enum mtr_progress r;
    if (f->grammar == MTR_CALLS_TAGS) {
        r = mtr_tag_open(p, at, f->call_open, f->name_attribute, &tag);
        *end = tag.end;
        mtr_buf_free(&name);
        return r == MTR_YES && tag.malformed ? MTR_NO : r;
    }
    if (f->grammar != MTR_CALLS_KEYS)
        return MTR_NO;
    r = mtr_look(p, at, f->wrap_open);
    if (r != MTR_YES)
        return r;
    size_t i = at + strlen(f->wrap_open), from = i;
    while (!mtr_at_end(p, i) && p->v.s.ptr[i] != '<' && i - from <= MTR_PARSE_MAX_NAME)
        i++;
    if (mtr_at_end(p, i))
        return need(p);
    if (mtr_look_space(p, from) >= i)
        return MTR_NO;
    *end = i;
    return mtr_look(p, i, f->param_open);
}

/* ---- A value ----------------------------------------------------------------------------------
 */

enum { TAG_PARAM, TAG_CALL, TAG_WRAP, TAG_HIDDEN };

/* A closing tag at `at`: its place in the order. */
static enum mtr_progress closing_tag(const struct mtr_parser *p, size_t at, int *order, size_t *len)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->param_close, f->call_close, f->wrap_close};
    enum mtr_progress best = MTR_NO;
    for (int i = 0; i < 3; i++) {
        enum mtr_progress r = mtr_look(p, at, words[i]);
        if (r == MTR_YES) {
            *order = i;
            *len = strlen(words[i]);
            return r;
        }
        if (r == MTR_MORE)
            best = r;
    }
    if (best == MTR_MORE)
        return best;
    enum mtr_progress r = mtr_look_hidden(p, at, len);
    if (r == MTR_YES)
        *order = TAG_HIDDEN;
    return r;
}

/* A piece of a closing tag that may follow those before, or of a parameter, that ends the output.
 */
static bool cut_tag(const struct mtr_parser *p, size_t at, bool line_start)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->param_close, f->call_close, f->wrap_close};
    const struct mtr_tag_value *v = &p->value;
    for (int i = 0; i < 3; i++)
        if ((v->hold == SIZE_MAX || i >= v->last_tag) && mtr_look_piece(p, at, words[i], 2))
            return true;
    if (!p->v.final || !(line_start || v->hold != SIZE_MAX))
        return false;
    if (mtr_look_piece(p, at, f->param_open, 2))
        return true;
    return mtr_look(p, at, f->param_open) == MTR_YES &&
           !memchr(p->v.s.ptr + at, '\n', p->v.s.len - at);
}

/* Without the newline that belongs to the tag. */
static size_t without_newline(const struct mtr_parser *p, size_t end)
{
    if (!(p->format->flags & MTR_FORMAT_NEWLINES) || end <= p->v.at || p->v.s.ptr[end - 1] != '\n')
        return end;
    end--;
    return end > p->v.at && p->v.s.ptr[end - 1] == '\r' ? end - 1 : end;
}

static void open_string(struct mtr_parser *p)
{
    if (!p->value.opened) {
        mtr_key_put(p);
        mtr_buf_byte(mtr_arguments_out(p), '"');
    }
    p->value.opened = true;
}

/* Writes of a streamed value what is certain, up to `end`. */
static void put_text(struct mtr_parser *p, size_t end)
{
    if (end <= p->v.at)
        return;
    if (!p->silent && p->value.streamed) {
        open_string(p);
        mtr_string_escape(mtr_arguments_out(p), mtr_str_sub(p->v.s, p->v.at, end - p->v.at));
    }
    if (p->silent || p->value.streamed)
        p->v.at = end;
}

static bool write_raw(struct mtr_parser *p, struct mtr_str raw, bool cut, struct mtr_buf *json)
{
    size_t end;
    if (p->value.json && mtr_value_write(raw, 0, MTR_DIALECT_JSON, cut, json, &end)) {
        while (end < raw.len && mtr_is_space(raw.ptr[end]))
            end++;
        if (end == raw.len)
            return true;
        mtr_buf_clear(json);
    }
    return mtr_schema_write(raw, p->value.types, cut, json);
}

/* The value ends at `end`, reading goes on at `next`. cut: by the end of the output. */
static enum mtr_progress end_value(struct mtr_parser *p, size_t end, size_t next, bool cut)
{
    struct mtr_buf json = {0};
    end = without_newline(p, end);
    if (p->value.streamed || p->silent) {
        put_text(p, end);
        if (!p->silent && (p->value.opened || !cut)) {
            open_string(p);
            mtr_buf_byte(mtr_arguments_out(p), '"');
        }
    } else {
        struct mtr_str raw = mtr_str_sub(p->v.s, p->v.at, end - p->v.at);
        if (!(cut && raw.len == 0) && write_raw(p, raw, cut, &json)) {
            mtr_key_put(p);
            mtr_buf_str(mtr_arguments_out(p), mtr_buf_view(&json));
        }
        mtr_buf_free(&json);
    }
    p->v.at = next;
    p->silent = false;
    p->state = MTR_PARSE_TAGS;
    return MTR_YES;
}

static bool at_line_start(const struct mtr_parser *p, size_t at)
{
    return at == 0 || p->v.s.ptr[at - 1] == '\n';
}

/* Right behind the wrapper's opener? */
static bool behind_wrapper(const struct mtr_parser *p, size_t at)
{
    struct mtr_str before = mtr_str_sub(p->v.s, 0, at);
    return p->format->wrap_open && mtr_str_ends(before, mtr_str(p->format->wrap_open));
}

/* V4: does a parameter begin here that has not been given yet? */
static enum mtr_progress new_parameter(struct mtr_parser *p, size_t at)
{
    struct mtr_buf name = {0};
    struct mtr_tag tag = {.name = &name};
    enum mtr_progress r = param_tag(p, at, &tag);
    if (r == MTR_YES) {
        struct mtr_str key = mtr_buf_view(&name);
        bool fresh =
            !tag.malformed && mtr_schema_types(p->parameters, key) != 0 && !mtr_key_given(p, key);
        r = fresh ? MTR_YES : MTR_NO;
    }
    mtr_buf_free(&name);
    return r;
}

/* What a byte that may begin a tag means: YES: the value ends there, *next is where reading goes
 * on. NO: text, *skip bytes of it. */
static enum mtr_progress tag_in_value(struct mtr_parser *p, size_t at, bool start, size_t *next,
                                      size_t *skip)
{
    struct mtr_tag_value *v = &p->value;
    size_t len = 0, end;
    int order = 0;
    bool line = start || at_line_start(p, at);
    enum mtr_progress more = MTR_NO, r;
    *skip = 1;
    if (line || behind_wrapper(p, at)) {
        r = call_header(p, at, &end);
        if (r == MTR_YES) {
            v->depth++;
            v->hold = SIZE_MAX;
            *skip = end - at;
            return MTR_NO;
        }
        more = r;
    }
    r = closing_tag(p, at, &order, &len);
    if (r == MTR_YES && v->depth == 0 && order != TAG_HIDDEN) {
        enum mtr_progress real = order == TAG_PARAM  ? part_follows(p, at + len)
                                 : order == TAG_CALL ? call_follows(p, at + len)
                                                     : MTR_NO;
        if (real == MTR_YES) {
            *next = order == TAG_PARAM ? at + len : at;
            return MTR_YES;
        }
        if (real == MTR_MORE)
            return MTR_MORE;
    }
    if (r == MTR_YES) {
        if (order == TAG_CALL && v->depth > 0)
            v->depth--;
        if (v->hold == SIZE_MAX || order < v->last_tag ||
            (order == v->last_tag && order < TAG_CALL + (p->format->grammar != MTR_CALLS_KEYS)))
            v->hold = at;
        v->last_tag = order;
        *skip = len;
        return MTR_NO;
    }
    if (r == MTR_MORE)
        more = r;
    if (v->depth == 0 && line && !start) {
        r = new_parameter(p, at);
        if (r == MTR_YES) {
            *next = at;
            return r;
        }
        if (r == MTR_MORE)
            more = r;
    }
    if (more == MTR_NO)
        v->hold = SIZE_MAX;
    return more;
}

/* A value that may be null or a string is one of them once it is longer than null. */
static void decide_stream(struct mtr_parser *p)
{
    struct mtr_tag_value *v = &p->value;
    if (v->streamed || v->types != (MTR_TYPE_STRING | MTR_TYPE_NULL))
        return;
    size_t from = mtr_look_space(p, p->v.at), end = from;
    while (end < v->scan && !mtr_is_space(p->v.s.ptr[end]))
        end++;
    v->streamed = end - from > 4;
}

static enum mtr_progress value_waits(struct mtr_parser *p)
{
    struct mtr_tag_value *v = &p->value;
    size_t end = v->hold != SIZE_MAX ? v->hold : v->scan;
    if (p->v.final) {
        bool closed = v->hold != SIZE_MAX;
        return end_value(p, end, closed ? end : p->v.s.len, !closed);
    }
    decide_stream(p);
    size_t safe = without_newline(p, end);
    if (safe > p->v.at && p->v.s.ptr[safe - 1] == '\r' && (p->format->flags & MTR_FORMAT_NEWLINES))
        safe--;
    put_text(p, safe);
    return MTR_MORE;
}

enum mtr_progress mtr_value_step(struct mtr_parser *p)
{
    struct mtr_tag_value *v = &p->value;
    size_t next, skip;
    while (!mtr_at_end(p, v->scan)) {
        char c = p->v.s.ptr[v->scan];
        if (!p->interesting[(uint8_t)c]) {
            if (!mtr_is_space(c))
                v->hold = SIZE_MAX;
            v->begun = true;
            v->scan++;
            continue;
        }
        bool start = !v->begun;
        if (cut_tag(p, v->scan, start || at_line_start(p, v->scan))) {
            size_t end = v->hold != SIZE_MAX ? v->hold : v->scan;
            return end_value(p, end, p->v.s.len, v->hold == SIZE_MAX);
        }
        enum mtr_progress r = tag_in_value(p, v->scan, start, &next, &skip);
        if (r == MTR_YES)
            return end_value(p, v->scan, next, false);
        if (r == MTR_MORE)
            return value_waits(p);
        v->begun = true;
        v->scan += skip;
    }
    return value_waits(p);
}

/* ---- Between parameters -----------------------------------------------------------------------
 */

static bool is_identifier(struct mtr_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

/* The type of a value where the schema is silent: as the tag says, else a string. */
static unsigned type_of(const struct mtr_parser *p, const struct mtr_tag *tag)
{
    unsigned types = mtr_schema_types(p->parameters, mtr_buf_view(&p->key));
    if (types || !tag->type[0])
        return types ? types : MTR_TYPE_STRING;
    if (strcmp(tag->type, "true") == 0)
        return MTR_TYPE_STRING;
    if (strcmp(tag->type, "false") == 0)
        return MTR_TYPE_ANY;
    types = mtr_schema_type_named(mtr_str(tag->type));
    return types ? types : MTR_TYPE_STRING;
}

static enum mtr_progress begin_value(struct mtr_parser *p, const struct mtr_tag *tag)
{
    struct mtr_str key = mtr_buf_view(&p->key);
    size_t at = tag->end;
    if ((p->format->flags & MTR_FORMAT_NEWLINES) && !tag->malformed) {
        if (mtr_at_end(p, at) && !p->v.final)
            return MTR_MORE;
        if (!mtr_at_end(p, at) && p->v.s.ptr[at] == '\r') {
            if (mtr_at_end(p, at + 1) && !p->v.final)
                return MTR_MORE;
            at += !mtr_at_end(p, at + 1) && p->v.s.ptr[at + 1] == '\n' ? 2 : 0;
        } else if (!mtr_at_end(p, at) && p->v.s.ptr[at] == '\n') {
            at++;
        }
    }
    unsigned types = type_of(p, tag);
    bool json_text =
        tag->type[0] && !mtr_schema_types(p->parameters, key) && strcmp(tag->type, "false") == 0;
    p->silent = tag->malformed ||
                (!mtr_schema_types(p->parameters, key) && !is_identifier(key) &&
                 p->format->grammar == MTR_CALLS_TAGS) ||
                !mtr_key_note(p, key);
    p->value = (struct mtr_tag_value){.types = types,
                                      .json = json_text,
                                      .streamed = types == MTR_TYPE_STRING,
                                      .scan = at,
                                      .hold = SIZE_MAX};
    p->v.at = at;
    p->state = MTR_PARSE_VALUE;
    return MTR_YES;
}

/* <|open|>json type="object"<|sep|>{...}: all arguments at once. */
static enum mtr_progress json_block(struct mtr_parser *p, size_t at)
{
    struct mtr_tag tag = {.name = &p->key};
    enum mtr_progress r = mtr_tag_open(p, at, "<|open|>json", NULL, &tag);
    if (r != MTR_YES)
        return r;
    size_t body = mtr_look_space(p, tag.end);
    if (mtr_at_end(p, body))
        return need(p);
    if (p->v.s.ptr[body] != '{')
        return MTR_NO;
    p->v.at = body + 1;
    p->close = '}';
    p->dialect = MTR_DIALECT_JSON;
    p->tags_after = true;
    p->state = MTR_PARSE_OBJECT;
    return MTR_YES;
}

static enum mtr_progress end_call(struct mtr_parser *p, size_t at)
{
    p->v.at = at;
    mtr_call_end(p);
    return MTR_YES;
}

/* Closing tags between parameters. */
static enum mtr_progress close_tags(struct mtr_parser *p, size_t at)
{
    size_t len = 0;
    int order;
    enum mtr_progress r = closing_tag(p, at, &order, &len);
    if (r != MTR_YES)
        return r;
    if (order == TAG_HIDDEN && p->format->grammar == MTR_CALLS_KIMI3)
        return MTR_NO;
    p->v.at = at + len;
    if (order == TAG_CALL || order == TAG_WRAP) {
        bool wrap = order == TAG_WRAP;
        mtr_call_end(p);
        p->wrapped &= !wrap;
    }
    return MTR_YES;
}

static enum mtr_progress stray_text(struct mtr_parser *p, size_t at)
{
    size_t end = at + 1;
    while (!mtr_at_end(p, end) && !p->interesting[(uint8_t)p->v.s.ptr[end]])
        end++;
    while (end > at + 1 && mtr_is_space(p->v.s.ptr[end - 1]))
        end--; /* what touches a tag goes with it */
    mtr_buf_str(&p->stray, mtr_str_sub(p->v.s, p->v.at, end - p->v.at));
    p->v.at = end;
    return MTR_YES;
}

enum mtr_progress mtr_tags_step(struct mtr_parser *p)
{
    const struct mtr_parse_format *f = p->format;
    const char *const words[] = {f->param_open, f->param_close, f->call_close, f->wrap_close};
    struct mtr_tag tag = {.name = &p->key};
    size_t at = mtr_look_space(p, p->v.at), end;
    if (mtr_at_end(p, at))
        return p->v.final ? end_call(p, at) : MTR_MORE;
    enum mtr_progress r = param_tag(p, at, &tag), more = r;
    if (r == MTR_YES)
        return begin_value(p, &tag);
    r = close_tags(p, at);
    if (r == MTR_YES)
        return r;
    more = r == MTR_MORE ? r : more;
    if (f->grammar == MTR_CALLS_KIMI3) {
        r = json_block(p, at);
        if (r != MTR_NO)
            return r;
        r = mtr_look(p, at, "<|close|>json<|sep|>");
        if (r == MTR_YES)
            p->v.at = at + 20;
        if (r != MTR_NO)
            return r;
        /* Any other tag ends the call. */
        r = mtr_look(p, at, "<|open|>");
        r = r == MTR_NO ? mtr_look(p, at, "<|close|>") : r;
        if (r == MTR_YES && more == MTR_NO && !p->v.final)
            return end_call(p, at);
        more = r == MTR_MORE ? r : more;
    }
    if (p->v.final) {
        for (size_t i = 0; i < 4; i++)
            if (mtr_look_piece(p, at, words[i], 1) ||
                (i == 0 && mtr_look(p, at, words[0]) == MTR_YES))
                return end_call(p, p->v.s.len);
    }
    r = mtr_look(p, at, f->wrap_open);
    if (r == MTR_NO)
        r = call_header(p, at, &end);
    if (r == MTR_YES)
        return end_call(p, at);
    if (r == MTR_MORE || more == MTR_MORE)
        return MTR_MORE;
    return stray_text(p, at);
}
