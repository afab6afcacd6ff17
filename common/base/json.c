/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The parser does not recurse. It keeps two stacks: open containers (at most MTR_JSON_MAX_DEPTH)
 * and slots, one per value whose container is still open. When a container closes, its children are
 * the slots above its own; they move to the arena as one array and the slot becomes the finished
 * value.
 */
#include "common/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/json_scan.h"
#include "common/base/utf8.h"

/* ---- reading ---- */

struct parser {
    const char *begin, *p, *end;
    struct mtr_arena *arena;
    struct mtr_error *err;
    unsigned flags;
    struct mtr_json_member *slots; /* [slots_cap] on the heap */
    size_t slots_len, slots_cap;
    size_t depth;
    struct container {
        size_t slot; /* where its value goes; its children stand above */
        bool object;
    } open[MTR_JSON_MAX_DEPTH];
};

/* Names the place as people and editors count it: lines and byte columns from 1. */
static bool fail_at(struct parser *ps, const char *at, enum mtr_code code, const char *what)
{
    size_t line = 1;
    const char *line_start = ps->begin;
    for (const char *c = ps->begin; (c = memchr(c, '\n', (size_t)(at - c))) != NULL;) {
        line++;
        line_start = ++c;
    }
    return mtr_fail(ps->err, code, "JSON line %zu column %zu (byte %zu): %s", line,
                    (size_t)(at - line_start) + 1, (size_t)(at - ps->begin), what);
}

static bool fail_expected(struct parser *ps, const char *expected)
{
    char what[128], found[32];
    unsigned char c = ps->p < ps->end ? (unsigned char)*ps->p : 0;
    if (ps->p == ps->end)
        snprintf(found, sizeof found, "the end of the text");
    else if (c > 0x20 && c < 0x7f)
        snprintf(found, sizeof found, "'%c'", c);
    else
        snprintf(found, sizeof found, "byte 0x%02x", c);
    snprintf(what, sizeof what, "found %s, expected %s", found, expected);
    return fail_at(ps, ps->p, MTR_INVALID, what);
}

static inline void skip_space(struct parser *ps)
{
    const char *p = ps->p;
    if (p < ps->end && (unsigned char)*p > ' ')
        return;
    while (p < ps->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    ps->p = p;
}

/* ---- strings ---- */

/* Four hexadecimal digits at p, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    int32_t value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i], letter = (unsigned char)((c | 0x20) - 'a');
        if ((unsigned char)(c - '0') <= 9)
            value = value * 16 + (c - '0');
        else if (letter < 6)
            value = value * 16 + letter + 10;
        else
            return -1;
    }
    return value;
}

/* \uXXXX, or a surrogate pair of them, with p behind the first backslash. */
static bool unescape_unicode(struct parser *ps, char **out)
{
    int32_t cp = hex4(ps->p + 1, ps->end);
    if (cp < 0)
        return fail_at(ps, ps->p - 1, MTR_INVALID, "\\u needs four hexadecimal digits");
    const char *next = ps->p + 5;
    if (cp >= 0xd800 && cp < 0xe000) {
        int32_t low = -1;
        if (cp < 0xdc00 && ps->end - next >= 6 && next[0] == '\\' && next[1] == 'u')
            low = hex4(next + 2, ps->end);
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(ps, ps->p - 1, MTR_INVALID, "a surrogate escape without its other half");
        cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        next += 6;
    }
    *out += mtr_utf8_encode((uint32_t)cp, *out);
    ps->p = next;
    return true;
}

/* p is behind the backslash. An escape never takes less room than what it stands for. */
static bool unescape(struct parser *ps, char **out)
{
    static const char plain[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    if (ps->p < ps->end && *ps->p == 'u')
        return unescape_unicode(ps, out);
    char c = ps->p < ps->end ? plain[(unsigned char)*ps->p] : 0;
    if (!c)
        return fail_at(ps, ps->p - 1, MTR_INVALID, "unknown escape in a string");
    *(*out)++ = c;
    ps->p++;
    return true;
}

static bool fail_in_string(struct parser *ps)
{
    if (ps->p == ps->end)
        return fail_at(ps, ps->p, MTR_INVALID, "the text ends inside a string");
    if ((unsigned char)*ps->p < 0x20)
        return fail_at(ps, ps->p, MTR_INVALID, "a control character in a string must be escaped");
    return fail_at(ps, ps->p, MTR_INVALID, "not valid UTF-8 in a string");
}

/* The end of the string whose text begins at p: its quote, or `end`. */
static const char *closing_quote(const char *p, const char *end)
{
    while ((p = mtr_json_skip_text(p, end)) < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p;
}

/* The rest of a string with escapes: the first `done` bytes at `start` need no change. */
static bool parse_escaped(struct parser *ps, const char *start, struct mtr_str *out)
{
    size_t done = (size_t)(ps->p - start);
    size_t most = (size_t)(closing_quote(ps->p, ps->end) - start);
    char *text = mtr_arena_alloc(ps->arena, most);
    if (!text)
        return fail_at(ps, start, MTR_NO_MEMORY, "no memory for a string");
    memcpy(text, start, done);
    char *to = text + done;
    while (ps->p < ps->end && *ps->p != '"') {
        if (*ps->p != '\\')
            return fail_in_string(ps);
        ps->p++;
        if (!unescape(ps, &to))
            return false;
        const char *next = mtr_json_skip_text(ps->p, ps->end);
        memcpy(to, ps->p, (size_t)(next - ps->p));
        to += next - ps->p;
        ps->p = next;
    }
    if (ps->p == ps->end)
        return fail_in_string(ps);
    ps->p++;
    *out = (struct mtr_str){text, (size_t)(to - text)};
    return true;
}

/* p is behind the opening quote. */
static bool parse_string(struct parser *ps, struct mtr_str *out)
{
    const char *start = ps->p;
    ps->p = mtr_json_skip_text(start, ps->end);
    if (ps->p < ps->end && *ps->p == '"') {
        *out = (struct mtr_str){start, (size_t)(ps->p - start)};
        ps->p++;
        return true;
    }
    if (ps->p < ps->end && *ps->p == '\\')
        return parse_escaped(ps, start, out);
    return fail_in_string(ps);
}

/* ---- numbers and words ---- */

#define MAX_PLAIN_DIGITS 18 /* any integer of so many digits fits int64 */

static int64_t plain_integer(const char *p, const char *end)
{
    int64_t n = 0;
    while (p < end)
        n = n * 10 + (*p++ - '0');
    return n;
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && (unsigned char)(*p - '0') <= 9)
        p++;
    return p;
}

/* Advances over fraction and exponent, if any; false when one begins and does not end. */
static bool skip_fraction(struct parser *ps, bool *real)
{
    if (ps->p < ps->end && *ps->p == '.') {
        *real = true;
        const char *digits = ++ps->p;
        ps->p = skip_digits(ps->p, ps->end);
        if (ps->p == digits)
            return fail_expected(ps, "a digit after the decimal point");
    }
    if (ps->p < ps->end && (*ps->p | 0x20) == 'e') {
        *real = true;
        ps->p++;
        ps->p += ps->p < ps->end && (*ps->p == '+' || *ps->p == '-');
        const char *digits = ps->p;
        ps->p = skip_digits(ps->p, ps->end);
        if (ps->p == digits)
            return fail_expected(ps, "a digit in the exponent");
    }
    return true;
}

static bool parse_word(struct parser *ps, struct mtr_json *v);

static bool parse_number(struct parser *ps, struct mtr_json *v)
{
    const char *start = ps->p;
    bool real = false;
    ps->p += *ps->p == '-';
    const char *digits = ps->p;
    ps->p = skip_digits(digits, ps->end);
    if (ps->p == digits && *start == '-' && (ps->flags & MTR_JSON_NONFINITE)) {
        ps->p = start;
        return parse_word(ps, v);
    }
    if (ps->p == digits)
        return fail_expected(ps, "a digit");
    if (*digits == '0' && ps->p - digits > 1)
        return fail_at(ps, start, MTR_INVALID, "a number can't begin with 0 and go on with digits");
    if (!skip_fraction(ps, &real))
        return false;
    struct mtr_str text = {start, (size_t)(ps->p - start)};
    if (text.len > MTR_JSON_MAX_NUMBER_BYTES)
        return fail_at(ps, start, MTR_TOO_LARGE, "a number of more than 1024 characters");
    v->kind = real ? MTR_JSON_REAL : MTR_JSON_INT;
    v->text = text;
    if (!real && ps->p - digits <= MAX_PLAIN_DIGITS) {
        v->integer = plain_integer(digits, ps->p);
        v->integer = *start == '-' ? -v->integer : v->integer;
        return true;
    }
    if (!real && mtr_str_to_i64(text, &v->integer))
        return true;
    v->big = !real;
    mtr_str_to_f64(text, &v->real);
    return true;
}

_Static_assert(MTR_JSON_MAX_NUMBER_BYTES == 1024, "parse_number says the limit; str.c has it too");

/* null, true, false; with MTR_JSON_NONFINITE also Infinity, -Infinity, NaN. */
static bool parse_word(struct parser *ps, struct mtr_json *v)
{
    static const struct {
        struct mtr_str text;
        struct mtr_json value;
    } words[] = {
        {{"null", 4}, {.kind = MTR_JSON_NULL}},
        {{"true", 4}, {.kind = MTR_JSON_BOOL, .boolean = true}},
        {{"false", 5}, {.kind = MTR_JSON_BOOL}},
        {{"Infinity", 8}, {.kind = MTR_JSON_REAL, .real = INFINITY}},
        {{"-Infinity", 9}, {.kind = MTR_JSON_REAL, .real = -INFINITY}},
        {{"NaN", 3}, {.kind = MTR_JSON_REAL, .real = NAN}},
    };
    struct mtr_str rest = {ps->p, (size_t)(ps->end - ps->p)};
    size_t count = ps->flags & MTR_JSON_NONFINITE ? 6 : 3;
    for (size_t i = 0; i < count; i++)
        if (mtr_str_starts(rest, words[i].text)) {
            *v = words[i].value;
            if (v->kind == MTR_JSON_REAL)
                v->text = mtr_str_sub(rest, 0, words[i].text.len);
            ps->p += words[i].text.len;
            return true;
        }
    return fail_expected(ps, "a value");
}

static bool parse_scalar(struct parser *ps, struct mtr_json *v)
{
    char c = ps->p < ps->end ? *ps->p : 0;
    if (c == '"') {
        ps->p++;
        v->kind = MTR_JSON_STRING;
        return parse_string(ps, &v->text);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return parse_number(ps, v);
    return parse_word(ps, v);
}

/* ---- containers ---- */

static struct mtr_json_member *push_slot(struct parser *ps)
{
    if (ps->slots_len == ps->slots_cap) {
        size_t limit = ps->arena->limit_bytes, need = ps->slots_len + 1;
        if ((limit && need > limit / sizeof *ps->slots) ||
            !mtr_grow((void **)&ps->slots, &ps->slots_cap, need, sizeof *ps->slots)) {
            fail_at(ps, ps->p, MTR_NO_MEMORY, "no memory for so many values");
            return NULL;
        }
    }
    struct mtr_json_member *slot = &ps->slots[ps->slots_len++];
    *slot = (struct mtr_json_member){0};
    return slot;
}

/* A slot for the next value of the innermost container, its key read if that is an object. */
static struct mtr_json_member *begin_value(struct parser *ps)
{
    struct mtr_json_member *slot = push_slot(ps);
    if (!slot || ps->depth == 0 || !ps->open[ps->depth - 1].object)
        return slot;
    skip_space(ps);
    if (ps->p == ps->end || *ps->p != '"') {
        fail_expected(ps, "'\"' and a key");
        return NULL;
    }
    ps->p++;
    if (!parse_string(ps, &slot->key))
        return NULL;
    skip_space(ps);
    if (ps->p == ps->end || *ps->p != ':') {
        fail_expected(ps, "':' after a key");
        return NULL;
    }
    ps->p++;
    return slot;
}

/* p is on the opening bracket; the container's slot is the topmost. */
static bool open_container(struct parser *ps)
{
    if (ps->depth == MTR_JSON_MAX_DEPTH)
        return fail_at(ps, ps->p, MTR_TOO_LARGE, "nested deeper than the limit of 128");
    ps->open[ps->depth++] = (struct container){ps->slots_len - 1, *ps->p == '{'};
    ps->p++;
    return true;
}

_Static_assert(MTR_JSON_MAX_DEPTH == 128, "open_container says the limit");

/* Moves the children of the innermost container to the arena. */
static bool close_container(struct parser *ps)
{
    struct container c = ps->open[--ps->depth];
    const struct mtr_json_member *from = ps->slots + c.slot + 1;
    struct mtr_json *v = &ps->slots[c.slot].value;
    size_t count = ps->slots_len - c.slot - 1;
    size_t size = c.object ? sizeof(struct mtr_json_member) : sizeof(struct mtr_json);
    void *to = count && count <= UINT32_MAX ? mtr_arena_alloc(ps->arena, count * size) : NULL;
    if (count && !to)
        return fail_at(ps, ps->p, MTR_NO_MEMORY, "no memory for an array or object");
    if (c.object && count)
        memcpy(to, from, count * size);
    for (size_t i = 0; !c.object && i < count; i++)
        ((struct mtr_json *)to)[i] = from[i].value;
    v->kind = c.object ? MTR_JSON_OBJECT : MTR_JSON_ARRAY;
    v->count = (uint32_t)count;
    v->items = to;
    ps->slots_len = c.slot + 1;
    ps->p++;
    return true;
}

/* Closes what closes here. True with *more when another value must follow (after a comma), true
 * without when the outermost value is complete. */
static bool after_value(struct parser *ps, bool *more)
{
    *more = false;
    while (ps->depth > 0) {
        bool object = ps->open[ps->depth - 1].object;
        skip_space(ps);
        char c = ps->p < ps->end ? *ps->p : 0;
        if (c == ',') {
            ps->p++;
            *more = true;
            return true;
        }
        if (c != (object ? '}' : ']'))
            return fail_expected(ps, object ? "',' or '}'" : "',' or ']'");
        if (!close_container(ps))
            return false;
    }
    return true;
}

/* Reads one value, or the opening of a container. */
static bool parse_value(struct parser *ps, bool *more)
{
    struct mtr_json_member *slot = begin_value(ps);
    if (!slot)
        return false;
    skip_space(ps);
    if (ps->p == ps->end || (*ps->p != '{' && *ps->p != '['))
        return parse_scalar(ps, &slot->value) && after_value(ps, more);
    if (!open_container(ps))
        return false;
    skip_space(ps);
    *more = ps->p == ps->end || *ps->p != (ps->open[ps->depth - 1].object ? '}' : ']');
    return *more || after_value(ps, more);
}

static bool parse_all(struct parser *ps)
{
    bool more = true;
    skip_space(ps);
    if (ps->end - ps->p >= 3 && memcmp(ps->p, "\xef\xbb\xbf", 3) == 0)
        return fail_at(ps, ps->p, MTR_INVALID, "begins with a byte order mark, expected a value");
    while (more)
        if (!parse_value(ps, &more))
            return false;
    skip_space(ps);
    return ps->p == ps->end || fail_expected(ps, "the end of the text");
}

const struct mtr_json *mtr_json_parse(struct mtr_arena *arena, struct mtr_str text, unsigned flags,
                                      struct mtr_error *err)
{
    const char *begin = text.len ? text.ptr : "";
    struct parser ps = {.begin = begin,
                        .p = begin,
                        .end = begin + text.len,
                        .arena = arena,
                        .err = err,
                        .flags = flags};
    struct mtr_json *root = NULL;
    if (parse_all(&ps)) {
        root = mtr_arena_alloc(arena, sizeof *root);
        if (root)
            *root = ps.slots[0].value;
        else
            fail_at(&ps, ps.p, MTR_NO_MEMORY, "no memory for the value");
    }
    free(ps.slots);
    return root;
}
