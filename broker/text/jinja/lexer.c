/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lexer alternates between text and tags.
 *
 * In text it looks for the next "{{", "{%" or "{#". What stands before is data; a '-' behind the
 * opening strips the white space at its end, and otherwise (lstrip_blocks) a tag or comment that
 * starts its line takes the blanks before it away, unless a '+' says no. Closing with '-' eats the
 * white space that follows; a plain closing of tag or comment eats one line break (trim_blocks).
 * In tags it reads names, numbers, strings and operators; a closing counts only where all brackets
 * are closed, so that {{ {'a': {}} }} works.
 */
#include "broker/text/jinja/lexer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/text/jinja/jinja.h"
#include "broker/text/jinja/text.h"
#include "common/base/utf8.h"

#define MAX_BRACKETS 256

struct lexer {
    struct mtr_arena *arena;
    struct mtr_error *err;
    struct mtr_str src;
    size_t pos;
    uint32_t line;
    bool line_starting; /* what was read last ended with a line break */
    struct mtr_jtok *tokens;
    size_t count;
    size_t cap;
    char brackets[MAX_BRACKETS]; /* closers that are awaited */
    unsigned bracket_count;
};

static bool fail_at(struct lexer *x, uint32_t line, const char *what)
{
    return mtr_fail(x->err, MTR_INVALID, "line %u: %s", line, what);
}

static struct mtr_jtok *push(struct lexer *x, uint8_t kind)
{
    if (x->count == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 256;
        struct mtr_jtok *grown = mtr_arena_calloc(x->arena, cap, sizeof *grown);
        if (!grown) {
            mtr_fail(x->err, MTR_NO_MEMORY, "no memory for the tokens of a template");
            return NULL;
        }
        if (x->count)
            memcpy(grown, x->tokens, x->count * sizeof *grown);
        x->tokens = grown;
        x->cap = cap;
    }
    struct mtr_jtok *t = &x->tokens[x->count++];
    *t = (struct mtr_jtok){.kind = kind, .line = x->line};
    return t;
}

/* ---- characters ---- */

static char peek(const struct lexer *x, size_t ahead)
{
    return x->pos + ahead < x->src.len ? x->src.ptr[x->pos + ahead] : '\0';
}

static bool looking_at(const struct lexer *x, size_t at, const char *c)
{
    size_t n = strlen(c);
    return at <= x->src.len && x->src.len - at >= n && memcmp(x->src.ptr + at, c, n) == 0;
}

static size_t skip_space(const struct lexer *x, size_t at)
{
    while (at < x->src.len) {
        uint32_t cp;
        uint32_t n = mtr_jdecode(x->src.ptr + at, &cp);
        if (!mtr_jspace(cp))
            break;
        at += n;
    }
    return at;
}

/* Moves on and counts lines. */
static void advance(struct lexer *x, size_t to)
{
    for (size_t i = x->pos; i < to; i++)
        x->line += x->src.ptr[i] == '\n';
    if (to > x->pos)
        x->line_starting = x->src.ptr[to - 1] == '\n';
    x->pos = to;
}

/* ---- text ---- */

/* The end of text before a tag at `end`; sign is what follows the tag's opening. */
static size_t strip_before(const struct lexer *x, size_t start, size_t end, char sign,
                           bool variable)
{
    if (sign == '-') {
        while (end > start) {
            uint32_t cp;
            uint32_t n = mtr_jdecode_last(mtr_str_sub(x->src, start, end - start), &cp);
            if (!mtr_jspace(cp))
                break;
            end -= n;
        }
        return end;
    }
    if (sign == '+' || variable)
        return end;
    size_t line = end;
    while (line > start && x->src.ptr[line - 1] != '\n')
        line--;
    if (line == start && !x->line_starting)
        return end;
    return skip_space(x, line) >= end ? line : end;
}

static bool put_data(struct lexer *x, size_t from, size_t to)
{
    if (from == to)
        return true;
    struct mtr_jtok *t = push(x, MTR_JT_DATA);
    if (!t)
        return false;
    t->text = mtr_str_sub(x->src, from, to - from);
    return true;
}

/* "-%}" with white space, "+%}", "%}" with one line break: the end of it, or 0. close: "%}". */
static size_t close_end(const struct lexer *x, size_t at, const char *close, bool plus, bool trim)
{
    if (looking_at(x, at, "-") && looking_at(x, at + 1, close))
        return skip_space(x, at + 3);
    if (plus && looking_at(x, at, "+") && looking_at(x, at + 1, close))
        return at + 3;
    if (!looking_at(x, at, close))
        return 0;
    at += 2;
    return trim && looking_at(x, at, "\n") ? at + 1 : at;
}

/* {% raw %} at `at`? Then the position behind it, else 0. */
static size_t raw_begin(const struct lexer *x, size_t at)
{
    at += 2;
    if (looking_at(x, at, "-") || looking_at(x, at, "+"))
        at++;
    at = skip_space(x, at);
    if (!looking_at(x, at, "raw"))
        return 0;
    return close_end(x, skip_space(x, at + 3), "%}", false, false);
}

static char sign_at(const struct lexer *x, size_t at)
{
    return looking_at(x, at, "-") ? '-' : looking_at(x, at, "+") ? '+' : ' ';
}

/* From behind {% raw %} to behind its {% endraw %}. */
static bool lex_raw(struct lexer *x)
{
    if (x->pos >= x->src.len) /* jinja2 lets an opening at the very end pass */
        return true;
    for (size_t at = x->pos; at < x->src.len; at++) {
        if (!looking_at(x, at, "{%"))
            continue;
        char sign = sign_at(x, at + 2);
        size_t word = skip_space(x, at + 2 + (sign != ' '));
        if (!looking_at(x, word, "endraw"))
            continue;
        size_t end = close_end(x, skip_space(x, word + 6), "%}", true, true);
        if (!end)
            continue;
        if (!put_data(x, x->pos, strip_before(x, x->pos, at, sign, false)))
            return false;
        advance(x, end);
        return true;
    }
    return fail_at(x, x->line, "Missing end of raw directive");
}

static bool lex_comment(struct lexer *x)
{
    if (x->pos >= x->src.len)
        return true;
    for (size_t at = x->pos; at < x->src.len; at++) {
        char c = x->src.ptr[at];
        if (c != '#' && c != '-' && c != '+')
            continue;
        size_t end = close_end(x, at, "#}", true, true);
        if (end) {
            advance(x, end);
            return true;
        }
    }
    return fail_at(x, x->line, "Missing end of comment tag");
}

static bool lex_tag(struct lexer *x, bool variable);

/* One stretch of text and the tag behind it. */
static bool lex_text(struct lexer *x)
{
    size_t at = x->pos;
    for (;; at++) {
        const char *brace = at < x->src.len ? memchr(x->src.ptr + at, '{', x->src.len - at) : NULL;
        if (!brace) {
            if (!put_data(x, x->pos, x->src.len))
                return false;
            advance(x, x->src.len);
            return true;
        }
        at = (size_t)(brace - x->src.ptr);
        if (looking_at(x, at + 1, "{") || looking_at(x, at + 1, "%") || looking_at(x, at + 1, "#"))
            break;
    }
    char kind = x->src.ptr[at + 1];
    char sign = sign_at(x, at + 2);
    if (!put_data(x, x->pos, strip_before(x, x->pos, at, sign, kind == '{')))
        return false;
    size_t raw = kind == '%' ? raw_begin(x, at) : 0;
    if (raw) {
        advance(x, raw);
        return lex_raw(x);
    }
    advance(x, at + 2 + (sign != ' '));
    if (kind == '#')
        return lex_comment(x);
    if (!push(x, kind == '{' ? MTR_JT_VARIABLE_BEGIN : MTR_JT_BLOCK_BEGIN))
        return false;
    return lex_tag(x, kind == '{');
}

/* ---- numbers ---- */

static bool in_set(char c, const char *set)
{
    return c && strchr(set, c);
}

/* Digits with single underscores between them, as \d(_?\d)*; the end, or `at` when there is none.
 */
static size_t digits_end(const struct lexer *x, size_t at, const char *set)
{
    size_t end = at;
    for (;;) {
        size_t digit = end > at && looking_at(x, end, "_") ? end + 1 : end;
        if (digit >= x->src.len || !in_set(x->src.ptr[digit], set))
            return end;
        end = digit + 1;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Copies [from, to) without underscores, NUL-terminated; NULL when longer than out. */
static char *without_underscores(const struct lexer *x, size_t from, size_t to, char *out,
                                 size_t size)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (x->src.ptr[i] == '_')
            continue;
        if (n + 1 >= size)
            return NULL;
        out[n++] = x->src.ptr[i];
    }
    out[n] = '\0';
    return out;
}

/* The end of a float at pos, or 0. */
static size_t float_end(const struct lexer *x)
{
    const char *digits = "0123456789";
    if (x->pos > 0 && x->src.ptr[x->pos - 1] == '.')
        return 0;
    size_t whole = digits_end(x, x->pos, digits);
    size_t end = whole;
    bool fraction = false;
    if (looking_at(x, whole, ".") && whole + 1 < x->src.len && is_digit(x->src.ptr[whole + 1])) {
        end = digits_end(x, whole + 1, digits);
        fraction = true;
    }
    if (looking_at(x, end, "e") || looking_at(x, end, "E")) {
        size_t e = end + 1;
        if (looking_at(x, e, "+") || looking_at(x, e, "-"))
            e++;
        if (e < x->src.len && is_digit(x->src.ptr[e]))
            return digits_end(x, e, digits);
    }
    return fraction ? end : 0;
}

#define MAX_NUMBER_BYTES 1024

static bool lex_integer(struct lexer *x, size_t from, size_t to, int base, size_t prefix)
{
    char text[MAX_NUMBER_BYTES];
    if (!without_underscores(x, from + prefix, to, text, sizeof text))
        return fail_at(x, x->line, "a number is too long");
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, base);
    struct mtr_jtok *t = push(x, errno ? MTR_JT_BIG_INTEGER : MTR_JT_INTEGER);
    if (!t)
        return false;
    if (errno && base != 10)
        return fail_at(x, x->line, "a number does not fit 64 bits");
    t->integer = value;
    if (errno)
        t->text = mtr_arena_str(x->arena, mtr_str(text));
    advance(x, to);
    return true;
}

static bool lex_number(struct lexer *x)
{
    size_t end = float_end(x);
    if (end) {
        char text[MAX_NUMBER_BYTES];
        if (!without_underscores(x, x->pos, end, text, sizeof text))
            return fail_at(x, x->line, "a number is too long");
        struct mtr_jtok *t = push(x, MTR_JT_FLOAT);
        if (!t)
            return false;
        t->real = strtod(text, NULL);
        advance(x, end);
        return true;
    }
    static const struct {
        char letter;
        int base;
        const char *digits;
    } bases[] = {{'b', 2, "01"}, {'o', 8, "01234567"}, {'x', 16, "0123456789abcdefABCDEF"}};
    char letter = (char)(peek(x, 1) | 0x20);
    for (size_t i = 0; peek(x, 0) == '0' && i < sizeof bases / sizeof *bases; i++) {
        if (letter != bases[i].letter)
            continue;
        size_t from = x->pos + 2;
        if (looking_at(x, from, "_"))
            from++;
        end = digits_end(x, from, bases[i].digits);
        if (end > from)
            return lex_integer(x, x->pos, end, bases[i].base, from - x->pos);
    }
    end = digits_end(x, x->pos, peek(x, 0) == '0' ? "0" : "0123456789");
    return lex_integer(x, x->pos, end, 10, 0);
}

/* ---- strings ---- */

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads exactly n hexadecimal digits. */
static bool read_hex(struct mtr_str s, size_t at, unsigned n, uint32_t *cp)
{
    *cp = 0;
    if (at > s.len || s.len - at < n)
        return false;
    for (unsigned i = 0; i < n; i++) {
        int h = hex_value(s.ptr[at + i]);
        if (h < 0)
            return false;
        *cp = *cp << 4 | (uint32_t)h;
    }
    return *cp <= 0x10ffff && (*cp < 0xd800 || *cp > 0xdfff);
}

static char simple_escape(char c)
{
    static const char from[] = "\\'\"abfnrtv";
    static const char to[] = "\\'\"\a\b\f\n\r\t\v";
    return in_set(c, from) ? to[strchr(from, c) - from] : '\0';
}

/*
 * Python reads the escapes of "\é" after é was itself written as an escape: what remains is the
 * text \xe9. At most 10 bytes for one character of at least 2.
 */
static void put_escaped_char(struct mtr_str s, size_t *at, char *out, size_t *len)
{
    uint32_t cp;
    *at += mtr_jdecode(s.ptr + *at, &cp);
    const char *format = cp > 0xffff ? "U%08x" : cp > 0xff ? "u%04x" : "x%02x";
    *len += (size_t)snprintf(out + *len, 12, format, cp);
}

/* One escape at s[*at] == '\\'; writes to out and moves *at behind it. NULL or what is wrong. */
static const char *unescape(struct mtr_str s, size_t *at, char *out, size_t *len)
{
    size_t i = *at + 1;
    char c = s.ptr[i];
    uint32_t cp = 0;
    unsigned hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == '\n') {
        *at = i + 1;
    } else if (simple_escape(c)) {
        out[(*len)++] = simple_escape(c);
        *at = i + 1;
    } else if (c >= '0' && c <= '7') {
        size_t end = i;
        while (end < s.len && end < i + 3 && s.ptr[end] >= '0' && s.ptr[end] <= '7')
            cp = cp * 8 + (uint32_t)(s.ptr[end++] - '0');
        *len += (size_t)mtr_utf8_encode(cp, out + *len);
        *at = end;
    } else if (hex) {
        if (!read_hex(s, i + 1, hex, &cp))
            return "a \\x, \\u or \\U escape that is no character";
        *len += (size_t)mtr_utf8_encode(cp, out + *len);
        *at = i + 1 + hex;
    } else if (c == 'N') {
        return "\\N{...} escapes are not supported";
    } else {
        out[(*len)++] = '\\';
        *at = i;
        if (c & 0x80)
            put_escaped_char(s, at, out, len);
    }
    return NULL;
}

static bool unescape_all(struct lexer *x, struct mtr_jtok *t, struct mtr_str s)
{
    char *out = mtr_arena_alloc(x->arena, 5 * s.len + 16);
    if (!out)
        return mtr_fail(x->err, MTR_NO_MEMORY, "no memory for a string of a template");
    size_t len = 0;
    for (size_t at = 0; at < s.len;) {
        if (s.ptr[at] != '\\') {
            out[len++] = s.ptr[at++];
            continue;
        }
        const char *wrong = unescape(s, &at, out, &len);
        if (wrong)
            return fail_at(x, x->line, wrong);
    }
    t->text = (struct mtr_str){out, len};
    return true;
}

static bool lex_string(struct lexer *x)
{
    char quote = x->src.ptr[x->pos];
    size_t end = x->pos + 1;
    while (end < x->src.len && x->src.ptr[end] != quote)
        end += x->src.ptr[end] == '\\' ? 2 : 1;
    if (end >= x->src.len)
        return fail_at(x, x->line, "a string is not closed");
    struct mtr_str s = mtr_str_sub(x->src, x->pos + 1, end - x->pos - 1);
    struct mtr_jtok *t = push(x, MTR_JT_STRING);
    if (!t)
        return false;
    t->text = s;
    if (s.len && memchr(s.ptr, '\\', s.len) && !unescape_all(x, t, s))
        return false;
    advance(x, end + 1);
    return true;
}

/* ---- names and operators ---- */

static bool lex_name(struct lexer *x)
{
    size_t end = x->pos;
    while (end < x->src.len) {
        uint32_t cp;
        uint32_t n = mtr_jdecode(x->src.ptr + end, &cp);
        if (!mtr_jident_part(cp))
            break;
        end += n;
    }
    struct mtr_jtok *t = push(x, MTR_JT_NAME);
    if (!t)
        return false;
    t->text = mtr_str_sub(x->src, x->pos, end - x->pos);
    advance(x, end);
    return true;
}

static bool balance(struct lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->bracket_count == MAX_BRACKETS)
            return fail_at(x, x->line, "brackets are nested too deeply");
        x->brackets[x->bracket_count++] = c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
        if (!x->bracket_count || x->brackets[--x->bracket_count] != c)
            return mtr_fail(x->err, MTR_INVALID, "line %u: unexpected '%c'", x->line, c);
    }
    return true;
}

static bool lex_operator(struct lexer *x)
{
    static const struct {
        char text[3];
        char op;
    } pairs[] = {{"//", MTR_JOP_FLOORDIV}, {"**", MTR_JOP_POW}, {"==", MTR_JOP_EQ},
                 {"!=", MTR_JOP_NE},       {"<=", MTR_JOP_LE},  {">=", MTR_JOP_GE}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!looking_at(x, x->pos, pairs[i].text))
            continue;
        struct mtr_jtok *t = push(x, MTR_JT_OPERATOR);
        if (!t)
            return false;
        t->op = pairs[i].op;
        advance(x, x->pos + 2);
        return true;
    }
    char c = peek(x, 0);
    if (!c || !strchr("+-/*%~[](){}<>=.:|,;", c))
        return mtr_fail(x->err, MTR_INVALID, "line %u: unexpected character at byte %zu", x->line,
                        x->pos);
    if (!balance(x, c))
        return false;
    struct mtr_jtok *t = push(x, MTR_JT_OPERATOR);
    if (!t)
        return false;
    t->op = c;
    advance(x, x->pos + 1);
    return true;
}

static bool lex_one(struct lexer *x)
{
    char c = peek(x, 0);
    uint32_t cp;
    mtr_jdecode(x->src.ptr + x->pos, &cp);
    if (is_digit(c))
        return lex_number(x);
    if (mtr_jident_start(cp))
        return lex_name(x);
    if (c == '\'' || c == '"')
        return lex_string(x);
    return lex_operator(x);
}

static bool lex_tag(struct lexer *x, bool variable)
{
    const char *close = variable ? "}}" : "%}";
    for (;;) {
        size_t end = x->bracket_count ? 0 : close_end(x, x->pos, close, !variable, !variable);
        if (end) {
            if (!push(x, variable ? MTR_JT_VARIABLE_END : MTR_JT_BLOCK_END))
                return false;
            advance(x, end);
            return true;
        }
        size_t next = skip_space(x, x->pos);
        if (next > x->pos) {
            advance(x, next);
            continue;
        }
        if (x->pos >= x->src.len)
            return true; /* the parser finds the tag unfinished */
        if (!lex_one(x))
            return false;
    }
}

/* ---- the source as jinja2 sees it ---- */

static bool normalize(struct lexer *x, struct mtr_str source)
{
    if (source.len > MTR_JINJA_MAX_SOURCE_BYTES)
        return mtr_fail(x->err, MTR_TOO_LARGE, "a template of %zu bytes, at most %u are allowed",
                        source.len, MTR_JINJA_MAX_SOURCE_BYTES);
    if (!mtr_utf8_valid(source))
        return mtr_fail(x->err, MTR_INVALID, "line 1: the template is not valid UTF-8");
    char *out = mtr_arena_alloc(x->arena, source.len + 1);
    if (!out)
        return mtr_fail(x->err, MTR_NO_MEMORY, "no memory for a template");
    size_t len = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r' && i + 1 < source.len && source.ptr[i + 1] == '\n')
            continue;
        out[len++] = c == '\r' ? '\n' : c;
    }
    if (len && out[len - 1] == '\n')
        len--;
    out[len] = '\0';
    x->src = (struct mtr_str){out, len};
    return true;
}

bool mtr_jlex(struct mtr_arena *arena, struct mtr_str source, struct mtr_jtok **tokens,
              struct mtr_error *err)
{
    struct lexer x = {.arena = arena, .err = err, .line = 1, .line_starting = true};
    if (!normalize(&x, source))
        return false;
    while (x.pos < x.src.len) {
        if (!lex_text(&x))
            return false;
    }
    if (!push(&x, MTR_JT_EOF))
        return false;
    *tokens = x.tokens;
    return true;
}
