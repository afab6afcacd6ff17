/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The writer's state is what the next token needs to know: whether a comma must come first, and
 * whether a key was just written. Room and failure are the buffer's business; the caller checks
 * out->failed once at the end.
 */
#include "common/base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/json_scan.h"

struct mtr_json_writer mtr_json_writer(struct mtr_buf *out)
{
    return (struct mtr_json_writer){.out = out};
}

/* What stands between the last token and a value. */
static void before_value(struct mtr_json_writer *w)
{
    if (w->need_comma && !w->after_key)
        mtr_buf_byte(w->out, ',');
    w->after_key = false;
    w->need_comma = true;
}

static void put_token(struct mtr_json_writer *w, const char *text, size_t len)
{
    before_value(w);
    mtr_buf_append(w->out, text, len);
}

static void begin(struct mtr_json_writer *w, char bracket)
{
    assert(w->depth < UINT8_MAX);
    put_token(w, &bracket, 1);
    w->depth++;
    w->need_comma = false;
}

static void end(struct mtr_json_writer *w, char bracket)
{
    assert(w->depth > 0 && !w->after_key);
    mtr_buf_byte(w->out, (uint8_t)bracket);
    w->depth--;
    w->need_comma = true;
}

void mtr_json_begin_object(struct mtr_json_writer *w)
{
    begin(w, '{');
}

void mtr_json_end_object(struct mtr_json_writer *w)
{
    end(w, '}');
}

void mtr_json_begin_array(struct mtr_json_writer *w)
{
    begin(w, '[');
}

void mtr_json_end_array(struct mtr_json_writer *w)
{
    end(w, ']');
}

void mtr_json_key_str(struct mtr_json_writer *w, struct mtr_str key)
{
    assert(w->depth > 0 && !w->after_key);
    before_value(w);
    mtr_json_escape(w->out, key);
    mtr_buf_byte(w->out, ':');
    w->after_key = true;
}

void mtr_json_key(struct mtr_json_writer *w, const char *key)
{
    mtr_json_key_str(w, mtr_str(key));
}

void mtr_json_put_null(struct mtr_json_writer *w)
{
    put_token(w, "null", 4);
}

void mtr_json_put_bool(struct mtr_json_writer *w, bool b)
{
    put_token(w, b ? "true" : "false", b ? 4 : 5);
}

static void put_decimal(struct mtr_json_writer *w, bool negative, uint64_t magnitude)
{
    char text[24], *p = text + sizeof text;
    do
        *--p = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (negative)
        *--p = '-';
    put_token(w, p, (size_t)(text + sizeof text - p));
}

void mtr_json_put_i64(struct mtr_json_writer *w, int64_t i)
{
    put_decimal(w, i < 0, i < 0 ? 0 - (uint64_t)i : (uint64_t)i);
}

void mtr_json_put_u64(struct mtr_json_writer *w, uint64_t u)
{
    put_decimal(w, false, u);
}

void mtr_json_put_f64(struct mtr_json_writer *w, double d)
{
    if (!isfinite(d)) {
        mtr_json_put_null(w);
        return;
    }
    char text[40];
    int len = 0;
    for (int digits = 15; digits <= 17; digits++) {
        len = snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    if (!strpbrk(text, ".e")) /* so that it reads back as a REAL */
        len += snprintf(text + len, sizeof text - (size_t)len, ".0");
    put_token(w, text, (size_t)len);
}

void mtr_json_put_str(struct mtr_json_writer *w, struct mtr_str s)
{
    before_value(w);
    mtr_json_escape(w->out, s);
}

void mtr_json_put_cstr(struct mtr_json_writer *w, const char *c)
{
    mtr_json_put_str(w, mtr_str(c));
}

void mtr_json_put_raw(struct mtr_json_writer *w, struct mtr_str json)
{
    put_token(w, json.ptr, json.len);
}

/* Recursion is bounded: no parsed value is nested deeper than MTR_JSON_MAX_DEPTH. */
void mtr_json_put_value(struct mtr_json_writer *w, const struct mtr_json *v)
{
    switch (v->kind) {
    case MTR_JSON_NULL:
        mtr_json_put_null(w);
        break;
    case MTR_JSON_BOOL:
        mtr_json_put_bool(w, v->boolean);
        break;
    case MTR_JSON_INT:
    case MTR_JSON_REAL:
        mtr_json_put_raw(w, v->text);
        break;
    case MTR_JSON_STRING:
        mtr_json_put_str(w, v->text);
        break;
    case MTR_JSON_ARRAY:
        mtr_json_begin_array(w);
        for (uint32_t i = 0; i < v->count; i++)
            mtr_json_put_value(w, &v->items[i]);
        mtr_json_end_array(w);
        break;
    case MTR_JSON_OBJECT:
        mtr_json_begin_object(w);
        for (uint32_t i = 0; i < v->count; i++) {
            mtr_json_key_str(w, v->members[i].key);
            mtr_json_put_value(w, &v->members[i].value);
        }
        mtr_json_end_object(w);
        break;
    }
}

static void escape_byte(struct mtr_buf *out, unsigned char c)
{
    static const char letter[256] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                     ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    if (letter[c])
        mtr_buf_append(out, (char[]){'\\', letter[c]}, 2);
    else if (c < 0x20)
        mtr_buf_printf(out, "\\u%04x", c);
    else
        mtr_buf_append(out, "\xef\xbf\xbd", 3); /* U+FFFD for a byte that is no UTF-8 */
}

bool mtr_json_escape(struct mtr_buf *out, struct mtr_str s)
{
    mtr_buf_byte(out, '"');
    const char *p = s.len ? s.ptr : "", *end = p + s.len;
    while (p < end) {
        const char *stop = mtr_json_skip_text(p, end);
        mtr_buf_append(out, p, (size_t)(stop - p));
        p = stop;
        if (p < end)
            escape_byte(out, (unsigned char)*p++);
    }
    return mtr_buf_byte(out, '"');
}
