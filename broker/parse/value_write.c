/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A whole value, or what there is of a cut one, as compact JSON: see value.h. */
#include <string.h>

#include "broker/parse/schema.h"
#include "broker/parse/value.h"

struct reader {
    struct mtr_str s;
    size_t at;
    enum mtr_dialect dialect;
    bool cut;
    struct mtr_buf *out;
    int depth;
};

/* OK: written. GONE: the input ended and nothing is left of it. BAD: no value. */
enum outcome { OK, GONE, BAD };

static enum outcome read_value(struct reader *r);

static void skip_space(struct reader *r)
{
    while (r->at < r->s.len && mtr_is_space(r->s.ptr[r->at]))
        r->at++;
}

static bool at_end(const struct reader *r)
{
    return r->at >= r->s.len;
}

static enum outcome read_string(struct reader *r, enum mtr_quote quote)
{
    size_t before = r->out->len;
    mtr_buf_byte(r->out, '"');
    if (mtr_string_copy(r->s, &r->at, quote, true, r->out) != MTR_YES && !r->cut) {
        r->out->len = before;
        return BAD;
    }
    mtr_buf_byte(r->out, '"');
    return OK;
}

static const char *literal_of(struct mtr_str t)
{
    static const char *const literals[][2] = {{"true", "true"},   {"True", "true"},
                                              {"false", "false"}, {"False", "false"},
                                              {"null", "null"},   {"None", "null"}};
    for (size_t i = 0; i < 6; i++)
        if (mtr_str_is(t, literals[i][0]))
            return literals[i][1];
    return NULL;
}

/* A piece of a literal or number that the end cut off. */
static bool is_cut_scalar(struct mtr_str t)
{
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
    for (size_t i = 0; i < 6; i++)
        if (mtr_str_starts(mtr_str(words[i]), t))
            return true;
    return t.len && strchr("-+.eE", t.ptr[t.len - 1]) &&
           (t.ptr[0] == '-' || (t.ptr[0] >= '0' && t.ptr[0] <= '9'));
}

static bool word_byte(const struct reader *r, char c)
{
    if (r->dialect == MTR_DIALECT_GEMMA)
        return (uint8_t)c >= 0x20 && !strchr(",]})[{(<\"'", c);
    return !mtr_is_space(c) && !strchr(",]}):[{(\"'", c);
}

static enum outcome read_scalar(struct reader *r)
{
    size_t from = r->at, end;
    bool integer;
    while (!at_end(r) && word_byte(r, r->s.ptr[r->at]))
        r->at++;
    for (end = r->at; end > from && mtr_is_space(r->s.ptr[end - 1]);)
        end--;
    struct mtr_str t = mtr_str_sub(r->s, from, end - from);
    const char *literal = literal_of(t);
    if (literal) {
        mtr_buf_puts(r->out, literal);
    } else if (mtr_is_json_number(t, &integer)) {
        mtr_buf_str(r->out, t);
    } else if (r->cut && at_end(r) && is_cut_scalar(t)) {
        return GONE;
    } else if (r->dialect == MTR_DIALECT_GEMMA && t.len) {
        mtr_buf_byte(r->out, '"');
        mtr_string_escape(r->out, t);
        mtr_buf_byte(r->out, '"');
    } else {
        return BAD;
    }
    return OK;
}

/* A key, written with its colon. */
static enum outcome read_key(struct reader *r)
{
    enum mtr_quote quote;
    enum outcome o = OK;
    if (mtr_quote_open(r->s, &r->at, r->dialect, true, &quote) == MTR_YES) {
        o = read_string(r, quote);
    } else if (r->dialect == MTR_DIALECT_GEMMA) {
        size_t from = r->at;
        while (!at_end(r) && !strchr(":={}[](),<\n", r->s.ptr[r->at]))
            r->at++;
        size_t end = r->at;
        while (end > from && mtr_is_space(r->s.ptr[end - 1]))
            end--;
        if (end == from)
            return BAD;
        mtr_buf_byte(r->out, '"');
        mtr_string_escape(r->out, mtr_str_sub(r->s, from, end - from));
        mtr_buf_byte(r->out, '"');
    } else {
        return BAD;
    }
    skip_space(r);
    if (at_end(r))
        return GONE;
    char c = r->s.ptr[r->at];
    if (c != ':' && !(c == '=' && r->dialect == MTR_DIALECT_GEMMA))
        return BAD;
    r->at++;
    mtr_buf_byte(r->out, ':');
    return o;
}

static enum outcome read_container(struct reader *r, char close)
{
    bool object = close == '}', first = true;
    r->at++;
    mtr_buf_byte(r->out, object ? '{' : '[');
    for (;;) {
        size_t before = r->out->len;
        skip_space(r);
        if (!at_end(r) && !first && r->s.ptr[r->at] == ',') {
            r->at++;
            skip_space(r);
        } else if (!at_end(r) && !first && r->s.ptr[r->at] != close) {
            return BAD;
        }
        if (at_end(r) || r->s.ptr[r->at] == close)
            break;
        if (!first)
            mtr_buf_byte(r->out, ',');
        enum outcome o = object ? read_key(r) : OK;
        skip_space(r);
        if (o == OK)
            o = at_end(r) ? GONE : read_value(r);
        if (o == BAD)
            return BAD;
        if (o == GONE) {
            r->out->len = before;
            r->at = r->s.len;
            break;
        }
        first = false;
    }
    if (at_end(r) && !r->cut)
        return BAD;
    r->at += !at_end(r);
    mtr_buf_byte(r->out, object ? '}' : ']');
    return OK;
}

static enum outcome read_value(struct reader *r)
{
    enum mtr_quote quote;
    enum outcome o;
    if (mtr_quote_open(r->s, &r->at, r->dialect, true, &quote) == MTR_YES)
        return read_string(r, quote);
    char c = r->s.ptr[r->at];
    if (++r->depth > MTR_VALUE_MAX_DEPTH)
        return BAD;
    if (c == '{' || c == '[')
        o = read_container(r, c == '{' ? '}' : ']');
    else if (c == '(' && r->dialect == MTR_DIALECT_PYTHON)
        o = read_container(r, ')');
    else
        o = read_scalar(r);
    r->depth--;
    return o;
}

bool mtr_value_write(struct mtr_str s, size_t at, enum mtr_dialect dialect, bool cut,
                     struct mtr_buf *out, size_t *end)
{
    struct reader r = {s, at, dialect, cut, out, 0};
    size_t before = out->len;
    skip_space(&r);
    if (!at_end(&r) && read_value(&r) == OK) {
        *end = r.at;
        return true;
    }
    out->len = before;
    return false;
}
