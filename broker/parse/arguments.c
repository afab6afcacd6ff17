/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An object of arguments, member by member: {"K": V} as JSON, {K:V} as Gemma, (K=V) as Python.
 *
 * A key is written when its value begins to be. Strings of parameters that may be strings are
 * written as they come; all else waits for its end, is fitted to the schema and written whole. What
 * can't be read ends the object behind its last whole member, and what follows is text.
 */
#include <string.h>

#include "broker/parse/internal.h"
#include "common/base/hash.h"

/* ---- Keys -------------------------------------------------------------------------------------
 */

static uint64_t hash_of(struct mtr_str key)
{
    return mtr_hash64(key.ptr, key.len, 0x6b657973);
}

bool mtr_key_given(const struct mtr_parser *p, struct mtr_str key)
{
    uint64_t value;
    return mtr_map_get(&p->keys, hash_of(key), &value);
}

bool mtr_key_note(struct mtr_parser *p, struct mtr_str key)
{
    if (mtr_key_given(p, key))
        return false;
    p->failed |= !mtr_map_put(&p->keys, hash_of(key), 1);
    return true;
}

void mtr_key_put(struct mtr_parser *p)
{
    struct mtr_buf *out = mtr_arguments_out(p);
    if (!p->first_member)
        mtr_buf_byte(out, ',');
    p->first_member = false;
    mtr_buf_byte(out, '"');
    mtr_string_escape(out, mtr_buf_view(&p->key));
    mtr_buf_puts(out, "\":");
}

static enum mtr_progress need(const struct mtr_parser *p)
{
    return p->v.final ? MTR_NO : MTR_MORE;
}

/* A key in quotes, decoded into p->key. */
static enum mtr_progress quoted_key(struct mtr_parser *p, size_t *at, enum mtr_quote quote)
{
    struct mtr_buf escaped = {0};
    size_t i = *at;
    mtr_buf_byte(&escaped, '"');
    enum mtr_progress r = mtr_string_copy(p->v.s, &i, quote, p->v.final, &escaped);
    mtr_buf_byte(&escaped, '"');
    if (r == MTR_YES) {
        struct mtr_arena arena;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v =
            mtr_json_parse(&arena, mtr_buf_view(&escaped), MTR_JSON_STRICT, NULL);
        mtr_buf_clear(&p->key);
        if (v && v->kind == MTR_JSON_STRING)
            mtr_buf_str(&p->key, v->text);
        mtr_arena_free(&arena);
        *at = i;
    }
    mtr_buf_free(&escaped);
    return r == MTR_MORE ? need(p) : r;
}

static enum mtr_progress bare_key(struct mtr_parser *p, size_t *at)
{
    size_t end = *at;
    while (!mtr_at_end(p, end) && !strchr(":={}[](),<\"'\n", p->v.s.ptr[end]) && p->v.s.ptr[end])
        end++;
    if (mtr_at_end(p, end))
        return need(p);
    size_t trimmed = end;
    while (trimmed > *at && mtr_is_space(p->v.s.ptr[trimmed - 1]))
        trimmed--;
    if (trimmed == *at)
        return MTR_NO;
    mtr_buf_clear(&p->key);
    mtr_buf_str(&p->key, mtr_str_sub(p->v.s, *at, trimmed - *at));
    *at = end;
    return MTR_YES;
}

/* Key and separator; *at is then where the value begins. */
static enum mtr_progress read_key(struct mtr_parser *p, size_t *at)
{
    enum mtr_quote quote;
    enum mtr_progress r = MTR_NO;
    if (p->dialect != MTR_DIALECT_PYTHON)
        r = mtr_quote_open(p->v.s, at, p->dialect, p->v.final, &quote);
    if (r == MTR_MORE)
        return need(p);
    if (r == MTR_YES)
        r = quoted_key(p, at, quote);
    else if (p->dialect != MTR_DIALECT_JSON)
        r = bare_key(p, at);
    if (r != MTR_YES)
        return r;
    *at = mtr_look_space(p, *at);
    if (mtr_at_end(p, *at))
        return need(p);
    char c = p->v.s.ptr[*at];
    bool separator = (c == ':' && p->dialect != MTR_DIALECT_PYTHON) ||
                     (c == '=' && p->dialect != MTR_DIALECT_JSON);
    if (!separator)
        return MTR_NO;
    *at = mtr_look_space(p, *at + 1);
    return mtr_at_end(p, *at) ? need(p) : MTR_YES;
}

/* ---- Values -----------------------------------------------------------------------------------
 */

/* A string for a parameter that is none: what its text reads as, if that fits. */
static void put_string_fitted(struct mtr_parser *p, struct mtr_str json, unsigned types)
{
    struct mtr_arena arena;
    struct mtr_buf fitted = {0};
    mtr_arena_init(&arena, 0);
    const struct mtr_json *v = mtr_json_parse(&arena, json, MTR_JSON_STRICT, NULL);
    bool ok = v && v->kind == MTR_JSON_STRING && mtr_schema_write(v->text, types, false, &fitted);
    mtr_buf_str(mtr_arguments_out(p), ok ? mtr_buf_view(&fitted) : json);
    mtr_buf_free(&fitted);
    mtr_arena_free(&arena);
}

/* T4: a number or boolean for a parameter that is only a string becomes the text it was written as.
 */
static bool put_as_text(struct mtr_parser *p, struct mtr_str raw, struct mtr_str json,
                        unsigned types)
{
    bool scalar = json.len && (json.ptr[0] == '-' || (json.ptr[0] >= '0' && json.ptr[0] <= '9') ||
                               mtr_str_is(json, "true") || mtr_str_is(json, "false"));
    if (types != MTR_TYPE_STRING || !scalar)
        return false;
    while (raw.len && mtr_is_space(raw.ptr[raw.len - 1]))
        raw.len--;
    struct mtr_buf *out = mtr_arguments_out(p);
    mtr_buf_byte(out, '"');
    mtr_string_escape(out, raw);
    mtr_buf_byte(out, '"');
    return true;
}

static bool only_text(unsigned types)
{
    return types == 0 || (types & MTR_TYPE_STRING);
}

static void put_value(struct mtr_parser *p, struct mtr_str raw, struct mtr_str json, unsigned types)
{
    if (p->silent)
        return;
    mtr_key_put(p);
    if (json.ptr[0] == '"' && !only_text(types))
        put_string_fitted(p, json, types);
    else if (!put_as_text(p, raw, json, types))
        mtr_buf_str(mtr_arguments_out(p), json);
}

/* A value that waits for its end, at `at`. */
static enum mtr_progress whole_value(struct mtr_parser *p, size_t at, unsigned types)
{
    size_t end, written;
    enum mtr_progress r = mtr_look_value(p, at, p->dialect, &end);
    bool cut = r == MTR_MORE;
    struct mtr_buf json = {0};
    if (cut && !p->v.final)
        return MTR_MORE;
    if (r == MTR_NO)
        return MTR_NO;
    struct mtr_str raw = mtr_str_sub(p->v.s, at, end - at);
    cut |= mtr_at_end(p, end) && p->v.final;
    bool ok = mtr_value_write(raw, 0, p->dialect, cut, &json, &written);
    if (ok)
        put_value(p, raw, mtr_buf_view(&json), types);
    mtr_buf_free(&json);
    if (!ok && !cut)
        return MTR_NO;
    p->v.at = end;
    return MTR_YES;
}

/* ---- Steps ------------------------------------------------------------------------------------
 */

static enum mtr_progress object_end(struct mtr_parser *p)
{
    if (p->tags_after)
        p->state = MTR_PARSE_TAGS;
    else
        mtr_call_end(p);
    return MTR_YES;
}

static enum mtr_progress member(struct mtr_parser *p, size_t at)
{
    size_t value = at;
    enum mtr_quote quote;
    enum mtr_progress r = read_key(p, &value);
    if (r != MTR_YES)
        return r;
    unsigned types = mtr_schema_types(p->parameters, mtr_buf_view(&p->key));
    size_t content = value;
    r = mtr_quote_open(p->v.s, &content, p->dialect, p->v.final, &quote);
    if (r == MTR_MORE)
        return r;
    bool text = r == MTR_YES && only_text(types);
    p->silent = mtr_key_given(p, mtr_buf_view(&p->key));
    if (text) {
        mtr_key_note(p, mtr_buf_view(&p->key));
        if (!p->silent) {
            mtr_key_put(p);
            mtr_buf_byte(mtr_arguments_out(p), '"');
        }
        p->quote = quote;
        p->state = MTR_PARSE_STRING;
        p->v.at = content;
        return MTR_YES;
    }
    r = whole_value(p, value, types);
    if (r == MTR_YES)
        mtr_key_note(p, mtr_buf_view(&p->key));
    return r;
}

static bool closes(const struct mtr_parser *p, char c)
{
    return c == p->close || (p->dialect == MTR_DIALECT_GEMMA && (c == '}' || c == ')'));
}

/* Is what stands before the next member right? Members are separated by commas. */
enum mtr_progress mtr_object_step(struct mtr_parser *p)
{
    size_t at = p->v.at;
    bool comma = p->first_member && !p->keys.count;
    for (;; at++) {
        at = mtr_look_space(p, at);
        if (mtr_at_end(p, at))
            break;
        if (p->v.s.ptr[at] != ',')
            break;
        comma = true;
    }
    if (mtr_at_end(p, at)) {
        if (!p->v.final)
            return MTR_MORE;
        p->v.at = at;
        return object_end(p);
    }
    if (closes(p, p->v.s.ptr[at])) {
        p->v.at = at + 1;
        return object_end(p);
    }
    enum mtr_progress r = comma ? member(p, at) : MTR_NO;
    if (r != MTR_NO)
        return r;
    /* No member, and never one; or the end came within it (E2): then it goes with it. */
    size_t probe = at;
    bool cut = p->v.final && comma && read_key(p, &probe) == MTR_NO && mtr_at_end(p, probe);
    if (p->v.final && comma && !cut) {
        struct mtr_value_scan scan = {.at = at};
        mtr_value_scan(&scan, p->v.s, p->dialect, true);
        cut = mtr_at_end(p, scan.at);
    }
    p->v.at = cut ? p->v.s.len : at;
    p->envelope &= cut; /* what is left of it is text */
    return object_end(p);
}

/* A hidden token's beginning, or all of it, that ends what is there: it may be the end's. */
static size_t held_back(const struct mtr_parser *p, size_t from)
{
    size_t len, start = p->v.s.len > 64 ? p->v.s.len - 64 : 0;
    if (p->v.final)
        return p->v.s.len;
    for (size_t at = start > from ? start : from; at < p->v.s.len; at++) {
        if (!p->interesting[(uint8_t)p->v.s.ptr[at]])
            continue;
        enum mtr_progress r = mtr_look_hidden(p, at, &len);
        if (r == MTR_MORE || (r == MTR_YES && at + len == p->v.s.len))
            return at;
    }
    return p->v.s.len;
}

enum mtr_progress mtr_string_step(struct mtr_parser *p)
{
    struct mtr_buf nowhere = {0};
    struct mtr_buf *out = p->silent ? &nowhere : mtr_arguments_out(p);
    struct mtr_str s = mtr_str_sub(p->v.s, 0, held_back(p, p->v.at));
    size_t at = p->v.at;
    enum mtr_progress r = mtr_string_copy(s, &at, p->quote, p->v.final, out);
    p->v.at = at;
    if (r == MTR_YES || p->v.final) {
        if (!p->silent)
            mtr_buf_byte(out, '"');
        p->state = MTR_PARSE_OBJECT;
        p->silent = false;
        r = MTR_YES;
    }
    mtr_buf_free(&nowhere);
    return r;
}

/* The rest of an object around arguments: other members are ignored. */
enum mtr_progress mtr_envelope_step(struct mtr_parser *p)
{
    size_t at = p->v.at, end;
    for (;;) {
        at = mtr_look_space(p, at);
        if (mtr_at_end(p, at) && !p->v.final)
            return MTR_MORE;
        if (mtr_at_end(p, at) || p->v.s.ptr[at] != ',')
            break;
        at++;
    }
    p->state = MTR_PARSE_TEXT;
    if (mtr_at_end(p, at)) {
        p->v.at = at;
        return MTR_YES;
    }
    char c = p->v.s.ptr[at];
    if (c == '}') {
        p->v.at = at + 1;
        return MTR_YES;
    }
    if (c != '"')
        return MTR_YES;
    enum mtr_progress r = mtr_look_value(p, at, MTR_DIALECT_JSON, &end);
    for (int part = 0; part < 2 && r == MTR_YES; part++) {
        end = mtr_look_space(p, end);
        if (mtr_at_end(p, end)) {
            r = MTR_MORE;
        } else if (part == 0) {
            r = p->v.s.ptr[end] == ':' ? MTR_YES : MTR_NO;
            end++;
        } else {
            size_t from = end;
            r = mtr_look_value(p, from, MTR_DIALECT_JSON, &end);
        }
    }
    if (r == MTR_MORE && !p->v.final) {
        p->state = MTR_PARSE_ENVELOPE;
        return MTR_MORE;
    }
    if (r == MTR_NO)
        return MTR_YES;
    p->v.at = r == MTR_MORE ? p->v.s.len : end;
    p->state = MTR_PARSE_ENVELOPE;
    return MTR_YES;
}

void mtr_object_whole(struct mtr_parser *p, struct mtr_str text, bool cut)
{
    struct mtr_view kept = p->v;
    enum mtr_parse_state state = p->state;
    enum mtr_dialect dialect = p->dialect;
    bool tags = p->tags_after;
    size_t from = 0;
    while (from < text.len && mtr_is_space(text.ptr[from]))
        from++;
    p->v = (struct mtr_view){mtr_str_sub(text, from, text.len), 1, true};
    p->state = MTR_PARSE_OBJECT;
    p->dialect = MTR_DIALECT_JSON;
    p->close = '}';
    p->tags_after = true; /* so that the end of the object is not that of the call */
    while (p->state == MTR_PARSE_OBJECT || p->state == MTR_PARSE_STRING) {
        if ((p->state == MTR_PARSE_OBJECT ? mtr_object_step(p) : mtr_string_step(p)) != MTR_YES)
            break;
    }
    (void)cut; /* what the end cut off is closed in any case */
    p->v = kept;
    p->state = state;
    p->dialect = dialect;
    p->tags_after = tags;
}
