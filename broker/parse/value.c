/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Strings are copied in pieces as they come; all else is scanned to its end first, and written when
 * it is whole, so that what turns out to be no value can still be left out.
 */
#include "broker/parse/value.h"

#include <string.h>

#include "common/base/utf8.h"

static const char gemma_quote[] = "<|\"|>";
#define GEMMA_QUOTE ((struct mtr_str){gemma_quote, sizeof gemma_quote - 1})

/* ---- Quotes -----------------------------------------------------------------------------------
 */

enum mtr_progress mtr_quote_open(struct mtr_str s, size_t *at, enum mtr_dialect dialect, bool final,
                                 enum mtr_quote *quote)
{
    if (*at >= s.len)
        return final ? MTR_NO : MTR_MORE;
    char c = s.ptr[*at];
    struct mtr_str rest = mtr_str_sub(s, *at, s.len);
    if (dialect == MTR_DIALECT_GEMMA && c == '<') {
        if (mtr_str_starts(rest, GEMMA_QUOTE)) {
            *quote = MTR_QUOTE_GEMMA;
            *at += GEMMA_QUOTE.len;
            return MTR_YES;
        }
        return !final && mtr_str_starts(GEMMA_QUOTE, rest) ? MTR_MORE : MTR_NO;
    }
    if (c != '"' && (c != '\'' || dialect == MTR_DIALECT_JSON))
        return MTR_NO;
    if (dialect == MTR_DIALECT_PYTHON) {
        if (rest.len < 3 && !final && (rest.len == 1 || rest.ptr[1] == c))
            return MTR_MORE;
        if (rest.len >= 3 && rest.ptr[1] == c && rest.ptr[2] == c) {
            *quote = c == '"' ? MTR_QUOTE_TRIPLE_DOUBLE : MTR_QUOTE_TRIPLE_SINGLE;
            *at += 3;
            return MTR_YES;
        }
    }
    *quote = c == '\''                       ? MTR_QUOTE_SINGLE
             : dialect == MTR_DIALECT_PYTHON ? MTR_QUOTE_DOUBLE
                                             : MTR_QUOTE_JSON;
    (*at)++;
    return MTR_YES;
}

static struct mtr_str closing_of(enum mtr_quote quote)
{
    static const char *const marks[] = {
        [MTR_QUOTE_NONE] = "",
        [MTR_QUOTE_JSON] = "\"",
        [MTR_QUOTE_DOUBLE] = "\"",
        [MTR_QUOTE_SINGLE] = "'",
        [MTR_QUOTE_TRIPLE_DOUBLE] = "\"\"\"",
        [MTR_QUOTE_TRIPLE_SINGLE] = "'''",
        [MTR_QUOTE_GEMMA] = gemma_quote,
    };
    return mtr_str(marks[quote]);
}

/* ---- Characters of strings --------------------------------------------------------------------
 */

static void put_byte(struct mtr_buf *out, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    static const char short_form[] = {[8] = 'b', [9] = 't', [10] = 'n', [12] = 'f', [13] = 'r'};
    if (c == '"' || c == '\\') {
        char two[2] = {'\\', (char)c};
        mtr_buf_append(out, two, 2);
    } else if (c >= 0x20) {
        mtr_buf_byte(out, c);
    } else if (c < sizeof short_form && short_form[c]) {
        char two[2] = {'\\', short_form[c]};
        mtr_buf_append(out, two, 2);
    } else {
        char six[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        mtr_buf_append(out, six, 6);
    }
}

/* How far s goes on from `at` without a byte that needs attention. */
static size_t plain_end(struct mtr_str s, size_t at, char stop)
{
    while (at < s.len) {
        uint8_t c = (uint8_t)s.ptr[at];
        if (c < 0x20 || c == '"' || c == '\\' || c == (uint8_t)stop)
            break;
        at++;
    }
    return at;
}

void mtr_string_escape(struct mtr_buf *out, struct mtr_str s)
{
    for (size_t at = 0; at < s.len;) {
        size_t end = plain_end(s, at, '\\');
        mtr_buf_append(out, s.ptr + at, end - at);
        at = end;
        if (at < s.len)
            put_byte(out, (uint8_t)s.ptr[at++]);
    }
}

static void put_character(struct mtr_buf *out, uint32_t cp)
{
    char utf8[4];
    if (cp < 0x80) {
        put_byte(out, (uint8_t)cp);
        return;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        cp = 0xfffd;
    mtr_buf_append(out, utf8, (size_t)mtr_utf8_encode(cp, utf8));
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Exactly n hexadecimal digits at s[at]. */
static enum mtr_progress read_hex(struct mtr_str s, size_t at, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++) {
        if (at + i >= s.len)
            return MTR_MORE;
        int d = hex_value(s.ptr[at + i]);
        if (d < 0)
            return MTR_NO;
        *value = *value << 4 | (uint32_t)d;
    }
    return MTR_YES;
}

/* The second half of a surrogate pair at s[at]: "\uDC00". */
static enum mtr_progress low_surrogate(struct mtr_str s, size_t at, uint32_t *low)
{
    if (at >= s.len || (s.ptr[at] == '\\' && at + 1 >= s.len))
        return MTR_MORE;
    if (s.ptr[at] != '\\' || s.ptr[at + 1] != 'u')
        return MTR_NO;
    enum mtr_progress r = read_hex(s, at + 2, 4, low);
    return r == MTR_YES && (*low & 0xfc00) != 0xdc00 ? MTR_NO : r;
}

static enum mtr_progress unicode_escape(struct mtr_str s, size_t *at, size_t n, bool final,
                                        struct mtr_buf *out)
{
    uint32_t cp, low;
    enum mtr_progress r = read_hex(s, *at + 2, n, &cp);
    if (r != MTR_YES)
        return r;
    size_t end = *at + 2 + n;
    if (n == 4 && (cp & 0xfc00) == 0xd800) {
        r = low_surrogate(s, end, &low);
        if (r == MTR_MORE && !final)
            return MTR_MORE;
        if (r == MTR_YES) {
            cp = 0x10000 + ((cp & 0x3ff) << 10) + (low & 0x3ff);
            end += 6;
        }
    }
    put_character(out, cp);
    *at = end;
    return MTR_YES;
}

static enum mtr_progress octal_escape(struct mtr_str s, size_t *at, bool final, struct mtr_buf *out)
{
    uint32_t value = 0;
    size_t i = *at + 1;
    while (i < s.len && i < *at + 4 && s.ptr[i] >= '0' && s.ptr[i] <= '7')
        value = value << 3 | (uint32_t)(s.ptr[i++] - '0');
    if (i == s.len && i < *at + 4 && !final)
        return MTR_MORE;
    put_character(out, value);
    *at = i;
    return MTR_YES;
}

/* The escape at s[*at], a backslash. NO: it is none, so the backslash is a character. */
static enum mtr_progress copy_escape(struct mtr_str s, size_t *at, bool python, bool final,
                                     struct mtr_buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    static const char python_from[] = "\"\\'bfnrtav", python_to[] = "\"\\'\b\f\n\r\t\a\v";
    if (*at + 1 >= s.len)
        return MTR_MORE;
    char c = s.ptr[*at + 1];
    const char *names = python ? python_from : from;
    const char *hit = c ? strchr(names, c) : NULL;
    if (hit) {
        put_byte(out, (uint8_t)(python ? python_to : to)[hit - names]);
        *at += 2;
        return MTR_YES;
    }
    if (c == 'u')
        return unicode_escape(s, at, 4, final, out);
    if (python && c == 'U')
        return unicode_escape(s, at, 8, final, out);
    if (python && c == 'x')
        return unicode_escape(s, at, 2, final, out);
    if (python && c >= '0' && c <= '7')
        return octal_escape(s, at, final, out);
    if (python && c == '\n') {
        *at += 2;
        return MTR_YES;
    }
    return MTR_NO;
}

enum mtr_progress mtr_string_copy(struct mtr_str s, size_t *at, enum mtr_quote quote, bool final,
                                  struct mtr_buf *out)
{
    struct mtr_str close = closing_of(quote);
    bool escapes = quote != MTR_QUOTE_GEMMA, python = quote != MTR_QUOTE_JSON;
    while (*at < s.len) {
        size_t end = plain_end(s, *at, close.ptr[0]);
        mtr_buf_append(out, s.ptr + *at, end - *at);
        *at = end;
        if (end == s.len)
            break;
        char c = s.ptr[end];
        struct mtr_str rest = mtr_str_sub(s, end, s.len);
        if (c == close.ptr[0]) {
            if (mtr_str_starts(rest, close)) {
                *at += close.len;
                return MTR_YES;
            }
            if (mtr_str_starts(close, rest) && (!final || quote == MTR_QUOTE_GEMMA)) {
                if (final && rest.len < 2)
                    put_byte(out, (uint8_t)c);
                *at = final ? s.len : *at;
                return MTR_MORE;
            }
        } else if (c == '\\' && escapes) {
            enum mtr_progress r = copy_escape(s, at, python, final, out);
            if (r == MTR_YES)
                continue;
            if (r == MTR_MORE) {
                *at = final ? s.len : *at;
                return MTR_MORE;
            }
        }
        put_byte(out, (uint8_t)c);
        (*at)++;
    }
    return MTR_MORE;
}

/* ---- The end of a value -----------------------------------------------------------------------
 */

/* Moves behind the string's content. Backslashes hide the byte behind them. */
static enum mtr_progress scan_string(struct mtr_value_scan *v, struct mtr_str s, bool final)
{
    struct mtr_str close = closing_of(v->quote);
    while (v->at < s.len) {
        struct mtr_str rest = mtr_str_sub(s, v->at, s.len);
        if (rest.ptr[0] == '\\' && v->quote != MTR_QUOTE_GEMMA) {
            if (rest.len < 2)
                return MTR_MORE;
            v->at += 2;
        } else if (mtr_str_starts(rest, close)) {
            v->at += close.len;
            v->quote = MTR_QUOTE_NONE;
            return MTR_YES;
        } else if (!final && rest.ptr[0] == close.ptr[0] && mtr_str_starts(close, rest)) {
            return MTR_MORE;
        } else {
            v->at++;
        }
    }
    return MTR_MORE;
}

static bool scalar_byte(char c, enum mtr_dialect dialect)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c && strchr("+-._", c)))
        return true;
    return dialect == MTR_DIALECT_GEMMA && (uint8_t)c >= 0x20 && !strchr(",]})[{(<\"'", c);
}

/* One byte outside of strings. Inside containers separators and white space are free. */
static enum mtr_progress scan_byte(struct mtr_value_scan *v, struct mtr_str s,
                                   enum mtr_dialect dialect)
{
    char c = s.ptr[v->at];
    bool round = dialect != MTR_DIALECT_JSON;
    if (c == '{' || c == '[' || (c == '(' && round)) {
        if (++v->depth > MTR_VALUE_MAX_DEPTH)
            return MTR_NO;
    } else if (c == '}' || c == ']' || (c == ')' && round)) {
        v->at++;
        return --v->depth == 0 ? MTR_YES : MTR_MORE;
    } else if (!mtr_is_space(c) && c != ',' && c != ':' && !scalar_byte(c, dialect) &&
               !(c == '=' && dialect != MTR_DIALECT_JSON)) {
        return MTR_NO;
    }
    v->at++;
    return MTR_MORE;
}

static enum mtr_progress scan_scalar(struct mtr_value_scan *v, struct mtr_str s,
                                     enum mtr_dialect dialect, bool final)
{
    size_t from = v->at;
    while (v->at < s.len && scalar_byte(s.ptr[v->at], dialect))
        v->at++;
    if (v->at == s.len && !final) {
        v->at = from;
        return MTR_MORE;
    }
    return v->at > from ? MTR_YES : MTR_NO;
}

enum mtr_progress mtr_value_scan(struct mtr_value_scan *v, struct mtr_str s,
                                 enum mtr_dialect dialect, bool final)
{
    while (v->at < s.len) {
        enum mtr_progress r;
        if (v->quote == MTR_QUOTE_NONE) {
            r = mtr_quote_open(s, &v->at, dialect, final, &v->quote);
            if (r == MTR_MORE)
                return MTR_MORE;
        }
        if (v->quote != MTR_QUOTE_NONE) {
            r = scan_string(v, s, final);
            if (r == MTR_MORE)
                return MTR_MORE;
            if (v->depth == 0)
                return MTR_YES;
            continue;
        }
        char c = s.ptr[v->at];
        if (v->depth == 0 && c != '{' && c != '[' && (c != '(' || dialect == MTR_DIALECT_JSON))
            return scan_scalar(v, s, dialect, final);
        r = scan_byte(v, s, dialect);
        if (r != MTR_MORE)
            return r;
    }
    return MTR_MORE;
}
