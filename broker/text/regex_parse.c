/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Patterns into trees: recursive descent over
 *
 *   choice   = sequence ('|' sequence)*
 *   sequence = (atom quantifier*)*
 *   atom     = literal | class | escape | '(' ... ')' | '.' | '^' | '$'
 *
 * Letters under (?i) become sets of their cases here, so that the matcher knows nothing of case.
 */
#include "broker/text/regex_program.h"

#include <string.h>

#include "broker/text/regex.h"
#include "common/base/utf8.h"

struct parser {
    struct mtr_arena *arena;
    struct mtr_regex_tree *tree;
    struct mtr_str text; /* valid UTF-8 */
    size_t at;
    int depth;
    bool fold;     /* (?i) */
    bool dotall;   /* (?m), as Ruby names it */
    bool extended; /* (?x) */
    struct mtr_error *err;
};

static struct mtr_regex_node *parse_choice(struct parser *p);
static bool parse_class(struct parser *p, struct mtr_ranges *out);

static void *bad(struct parser *p, enum mtr_code code, const char *what)
{
    mtr_fail(p->err, code, "regular expression: %s at byte %zu of \"%.*s\"", what, p->at,
             p->text.len > 120 ? 120 : (int)p->text.len, p->text.ptr);
    return NULL;
}

static bool more(const struct parser *p)
{
    return p->at < p->text.len;
}

static bool next_is(const struct parser *p, const char *c)
{
    return mtr_str_starts(mtr_str_sub(p->text, p->at, SIZE_MAX), mtr_str(c));
}

static bool take(struct parser *p, const char *c)
{
    if (!next_is(p, c))
        return false;
    p->at += strlen(c);
    return true;
}

static uint32_t take_char(struct parser *p)
{
    uint32_t cp;
    p->at += (size_t)mtr_utf8_next(p->text.ptr + p->at, &cp);
    return cp;
}

static struct mtr_regex_node *new_node(struct parser *p, enum mtr_regex_kind kind)
{
    struct mtr_regex_node *n = mtr_arena_calloc(p->arena, 1, sizeof *n);
    if (n == NULL)
        return bad(p, MTR_NO_MEMORY, "out of memory");
    n->kind = kind;
    return n;
}

/* ------------------------------------------------------------------------------------ the sets */

static bool same_set(const struct mtr_ranges *a, const struct mtr_ranges *b)
{
    return a->count == b->count && memcmp(a->items, b->items, a->count * sizeof *a->items) == 0;
}

/* A node for the set, which is taken over; equal sets are kept once. */
static struct mtr_regex_node *set_node(struct parser *p, struct mtr_ranges *set)
{
    struct mtr_regex_tree *t = p->tree;
    mtr_ranges_normalize(set);
    struct mtr_regex_node *n = set->failed ? NULL : new_node(p, MTR_RE_SET);
    if (n == NULL)
        return mtr_ranges_free(set), bad(p, MTR_NO_MEMORY, "out of memory");
    while (n->set < t->set_count && !same_set(&t->sets[n->set], set))
        n->set++;
    if (n->set < t->set_count)
        return mtr_ranges_free(set), n;
    if (t->set_count == MTR_REGEX_MAX_SETS)
        return mtr_ranges_free(set), bad(p, MTR_TOO_LARGE, "more than 256 different sets");
    t->sets[t->set_count++] = *set;
    return n;
}

static struct mtr_regex_node *literal_node(struct parser *p, uint32_t cp)
{
    struct mtr_ranges set = {0};
    mtr_ranges_add(&set, cp, cp);
    if (p->fold)
        mtr_ranges_fold(&set);
    return set_node(p, &set);
}

/* \p{..}, \P{..}, \p{^..}; the 'p' has been taken. */
static bool parse_property(struct parser *p, bool negative, struct mtr_ranges *out)
{
    size_t close = mtr_str_find(p->text, MTR_STR("}"), p->at);
    if (!take(p, "{") || close == SIZE_MAX)
        return bad(p, MTR_INVALID, "\\p without {name}"), false;
    if (take(p, "^"))
        negative = !negative;
    struct mtr_ranges set = {0};
    const char *name = p->text.ptr + p->at;
    size_t len = close - p->at;
    if (len > 2 && memcmp(name, "Is", 2) == 0 &&
        mtr_regex_named_set(&set, name + 2, len - 2, false))
        len = 0;
    if (len > 0 && !mtr_regex_named_set(&set, name, len, false))
        return bad(p, MTR_UNSUPPORTED, "unknown property"), false;
    p->at = close + 1;
    if (negative)
        mtr_ranges_complement(&set);
    mtr_ranges_add_all(out, &set);
    mtr_ranges_free(&set);
    return true;
}

/* Exactly or up to `digits` hexadecimal digits. */
static bool parse_hex(struct parser *p, int least, int digits, uint32_t *cp)
{
    int n = 0;
    for (*cp = 0; n < digits && more(p); n++) {
        char c = p->text.ptr[p->at];
        int v = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
        if (v < 0)
            break;
        *cp = *cp << 4 | (uint32_t)v;
        p->at++;
    }
    if (n < least || *cp >= MTR_UNICODE_SCALARS || (*cp >= 0xd800 && *cp < 0xe000))
        return bad(p, MTR_INVALID, "bad character number"), false;
    return true;
}

static const struct {
    char letter;
    uint8_t value;
} control_escapes[] = {{'t', 9},  {'n', 10}, {'v', 11}, {'f', 12},
                       {'r', 13}, {'a', 7},  {'e', 27}, {'0', 0}};

/* An escape that is one character; c is what follows the backslash and has been taken. */
static bool parse_char_escape(struct parser *p, uint32_t c, uint32_t *cp)
{
    if (c == 'x' && take(p, "{"))
        return parse_hex(p, 1, 8, cp) &&
               (take(p, "}") || (bad(p, MTR_INVALID, "} expected"), false));
    if (c == 'x')
        return parse_hex(p, 1, 2, cp);
    if (c == 'u')
        return parse_hex(p, 4, 4, cp);
    for (size_t i = 0; i < sizeof control_escapes / sizeof control_escapes[0]; i++) {
        if (c == (unsigned char)control_escapes[i].letter) {
            *cp = control_escapes[i].value;
            return true;
        }
    }
    bool letter = (c | 32) >= 'a' && (c | 32) <= 'z' && c < 128;
    if (letter || (c >= '1' && c <= '9'))
        return bad(p, MTR_UNSUPPORTED, "unknown escape"), false;
    *cp = c;
    return true;
}

/* \s \S \w \W \d \D \h \H \p \P: adds the set and returns 1; 0: another escape; -1: an error. */
static int parse_set_escape(struct parser *p, uint32_t c, struct mtr_ranges *out)
{
    struct mtr_ranges set = {0};
    bool negative = c < 'a';
    switch (c | 32) {
    case 's':
        mtr_ranges_add_space(&set);
        break;
    case 'w': /* and, in this dialect, the numbers of Latin-1 */
        mtr_ranges_add_word(&set);
        mtr_ranges_add(&set, 0xb2, 0xb3);
        mtr_ranges_add(&set, 0xb9, 0xb9);
        mtr_ranges_add(&set, 0xbc, 0xbe);
        break;
    case 'd':
        mtr_ranges_add_categories(&set, MTR_MASK(MTR_ND));
        break;
    case 'h':
        mtr_regex_named_set(&set, "xdigit", 6, false);
        break;
    case 'p':
        return c < 128 ? (parse_property(p, negative, out) ? 1 : -1) : 0;
    default:
        return 0;
    }
    if (c >= 128)
        return mtr_ranges_free(&set), 0;
    if (negative)
        mtr_ranges_complement(&set);
    mtr_ranges_add_all(out, &set);
    mtr_ranges_free(&set);
    return 1;
}

/* ------------------------------------------------------------------------------------- classes */

/* [:name:] or [:^name:]; the "[:" is next. 1: taken, 0: not one, -1: an error. */
static int parse_posix(struct parser *p, struct mtr_ranges *out)
{
    size_t close = mtr_str_find(p->text, MTR_STR(":]"), p->at + 2);
    if (!next_is(p, "[:") || close == SIZE_MAX || close - p->at > 20)
        return 0;
    size_t name = p->at + 2;
    bool negative = p->text.ptr[name] == '^';
    struct mtr_ranges set = {0};
    if (!mtr_regex_named_set(&set, p->text.ptr + name + negative, close - name - negative, true))
        return 0;
    p->at = close + 2;
    if (negative)
        mtr_ranges_complement(&set);
    mtr_ranges_add_all(out, &set);
    mtr_ranges_free(&set);
    return 1;
}

/* One character of a class, for the ends of a range. 1: *cp; 0: a set was added to out; -1. */
static int parse_class_char(struct parser *p, struct mtr_ranges *out, uint32_t *cp)
{
    *cp = take_char(p);
    if (*cp != '\\')
        return 1;
    if (!more(p))
        return bad(p, MTR_INVALID, "pattern ends in a backslash"), -1;
    uint32_t c = take_char(p);
    int set = parse_set_escape(p, c, out);
    if (set != 0)
        return set < 0 ? -1 : 0;
    if (c == 'b') {
        *cp = 8;
        return 1;
    }
    return parse_char_escape(p, c, cp) ? 1 : -1;
}

/* One item: a nested class, a set, a character, or a range of characters. */
static bool parse_class_item(struct parser *p, struct mtr_ranges *out)
{
    int posix = parse_posix(p, out);
    if (posix != 0)
        return posix > 0;
    if (take(p, "["))
        return parse_class(p, out);
    uint32_t first, last;
    int one = parse_class_char(p, out, &first);
    if (one <= 0)
        return one == 0;
    last = first;
    if (next_is(p, "-") && !next_is(p, "-]") && !next_is(p, "-[") && p->at + 1 < p->text.len) {
        size_t dash = p->at++;
        struct mtr_ranges set = {0};
        one = parse_class_char(p, &set, &last);
        if (one == 0) { /* "a-\s": the dash is itself */
            mtr_ranges_add(out, '-', '-');
            mtr_ranges_add_all(out, &set);
            last = first;
        }
        mtr_ranges_free(&set);
        if (one < 0)
            return false;
        if (last < first)
            return p->at = dash, bad(p, MTR_INVALID, "empty range"), false;
    }
    mtr_ranges_add(out, first, last);
    return true;
}

/* The items up to "]", "&&" or the end of the pattern. */
static bool parse_class_items(struct parser *p, struct mtr_ranges *out, bool first)
{
    while (more(p) && !next_is(p, "&&") && (first || !next_is(p, "]"))) {
        if (!parse_class_item(p, out))
            return false;
        first = false;
    }
    return true;
}

/* A class whose "[" has been taken; adds its members to out. */
static bool parse_class(struct parser *p, struct mtr_ranges *out)
{
    struct mtr_ranges set = {0};
    if (++p->depth > MTR_REGEX_MAX_NESTING)
        return bad(p, MTR_TOO_LARGE, "nested too deeply"), false;
    bool negative = take(p, "^");
    bool ok = parse_class_items(p, &set, next_is(p, "]"));
    if (ok && p->fold)
        mtr_ranges_fold(&set);
    while (ok && take(p, "&&")) {
        struct mtr_ranges other = {0};
        ok = parse_class_items(p, &other, false);
        if (ok && p->fold)
            mtr_ranges_fold(&other);
        mtr_ranges_intersect(&set, &other);
        mtr_ranges_free(&other);
    }
    if (ok && !take(p, "]"))
        ok = (bad(p, MTR_INVALID, "class without ]"), false);
    if (ok && negative)
        mtr_ranges_complement(&set);
    mtr_ranges_add_all(out, &set);
    mtr_ranges_free(&set);
    p->depth--;
    return ok;
}

/* --------------------------------------------------------------------------------------- atoms */

static struct mtr_regex_node *assert_node(struct parser *p, enum mtr_regex_assertion a)
{
    struct mtr_regex_node *n = new_node(p, MTR_RE_ASSERT);
    if (n != NULL)
        n->assertion = (uint8_t)a;
    return n;
}

static const struct {
    char letter;
    uint8_t assertion;
} assert_escapes[] = {
    {'A', MTR_RE_TEXT_START}, {'z', MTR_RE_TEXT_END},     {'Z', MTR_RE_TEXT_END_LINE},
    {'b', MTR_RE_WORD_EDGE},  {'B', MTR_RE_NO_WORD_EDGE},
};

/* \R as the group it stands for. */
static struct mtr_regex_node *parse_newline(struct parser *p)
{
    struct parser inner = *p;
    inner.text = MTR_STR("(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])");
    inner.at = 0;
    return parse_choice(&inner);
}

static struct mtr_regex_node *parse_escape(struct parser *p)
{
    if (!more(p))
        return bad(p, MTR_INVALID, "pattern ends in a backslash");
    uint32_t c = take_char(p), cp;
    for (size_t i = 0; i < sizeof assert_escapes / sizeof assert_escapes[0]; i++)
        if (c == (unsigned char)assert_escapes[i].letter)
            return assert_node(p, assert_escapes[i].assertion);
    if (c == 'R')
        return parse_newline(p);
    struct mtr_ranges set = {0};
    int known = parse_set_escape(p, c, &set);
    if (known > 0)
        return set_node(p, &set);
    mtr_ranges_free(&set);
    return known == 0 && parse_char_escape(p, c, &cp) ? literal_node(p, cp) : NULL;
}

/* Flags of "(?imx-imx"; false at a letter that is not one. */
static bool parse_flags(struct parser *p)
{
    bool on = true;
    while (more(p) && !next_is(p, ")") && !next_is(p, ":")) {
        switch (take_char(p)) {
        case '-':
            on = false;
            break;
        case 'i':
            p->fold = on;
            break;
        case 'm':
        case 's': /* not Ruby's, but what writers of "(?s)" mean */
            p->dotall = on;
            break;
        case 'x':
            p->extended = on;
            break;
        case 'u':
            break;
        default:
            return false;
        }
    }
    return true;
}

static struct mtr_regex_node *close_group(struct parser *p, struct mtr_regex_node *n)
{
    if (n != NULL && !take(p, ")"))
        return bad(p, MTR_INVALID, ") expected");
    return n;
}

/* Wraps what stands up to ")" in a node of kind. */
static struct mtr_regex_node *parse_wrapped(struct parser *p, enum mtr_regex_kind kind, bool behind,
                                            bool negative)
{
    struct mtr_regex_node *n = new_node(p, kind);
    if (n == NULL)
        return NULL;
    n->behind = behind;
    n->negative = negative;
    n->first = parse_choice(p);
    return n->first != NULL ? close_group(p, n) : NULL;
}

/* "(?flags)": they hold to the end of the enclosing group; "(?flags:...)". */
static struct mtr_regex_node *parse_flag_group(struct parser *p)
{
    struct parser saved = *p;
    if (!parse_flags(p))
        return bad(p, MTR_UNSUPPORTED, "unknown kind of group");
    bool rest = take(p, ")");
    if (!rest && !take(p, ":"))
        return bad(p, MTR_INVALID, ") expected");
    struct mtr_regex_node *n = parse_choice(p);
    if (rest)
        return n; /* the caller finds the end of its own group */
    p->fold = saved.fold;
    p->dotall = saved.dotall;
    p->extended = saved.extended;
    return close_group(p, n);
}

/* A named group is a group; its name has no use here. */
static struct mtr_regex_node *parse_named(struct parser *p)
{
    size_t close = mtr_str_find(p->text, MTR_STR(">"), p->at);
    if (close == SIZE_MAX)
        return bad(p, MTR_INVALID, "group name without >");
    p->at = close + 1;
    return close_group(p, parse_choice(p));
}

static struct mtr_regex_node *parse_group(struct parser *p)
{
    if (take(p, "?#")) {
        size_t close = mtr_str_find(p->text, MTR_STR(")"), p->at);
        if (close == SIZE_MAX)
            return bad(p, MTR_INVALID, "comment without )");
        p->at = close + 1;
        return new_node(p, MTR_RE_EMPTY);
    }
    if (take(p, "?:"))
        return close_group(p, parse_choice(p));
    if (take(p, "?="))
        return parse_wrapped(p, MTR_RE_LOOK, false, false);
    if (take(p, "?!"))
        return parse_wrapped(p, MTR_RE_LOOK, false, true);
    if (take(p, "?<="))
        return parse_wrapped(p, MTR_RE_LOOK, true, false);
    if (take(p, "?<!"))
        return parse_wrapped(p, MTR_RE_LOOK, true, true);
    if (take(p, "?>"))
        return parse_wrapped(p, MTR_RE_ATOMIC, false, false);
    if (take(p, "?<"))
        return parse_named(p);
    if (take(p, "?"))
        return parse_flag_group(p);
    return close_group(p, parse_choice(p));
}

static struct mtr_regex_node *parse_dot(struct parser *p)
{
    struct mtr_ranges set = {0};
    if (!p->dotall)
        mtr_ranges_add(&set, '\n', '\n');
    mtr_ranges_complement(&set);
    return set_node(p, &set);
}

static struct mtr_regex_node *parse_atom(struct parser *p)
{
    if (take(p, "("))
        return parse_group(p);
    if (take(p, "[")) {
        struct mtr_ranges set = {0};
        if (!parse_class(p, &set))
            return mtr_ranges_free(&set), NULL;
        return set_node(p, &set);
    }
    if (take(p, "\\"))
        return parse_escape(p);
    if (take(p, "."))
        return parse_dot(p);
    if (take(p, "^"))
        return assert_node(p, MTR_RE_LINE_START);
    if (take(p, "$"))
        return assert_node(p, MTR_RE_LINE_END);
    if (next_is(p, "*") || next_is(p, "+") || next_is(p, "?"))
        return bad(p, MTR_INVALID, "nothing to repeat");
    return literal_node(p, take_char(p));
}

/* --------------------------------------------------------------------------------- quantifiers */

static bool parse_number(struct parser *p, uint32_t *out)
{
    size_t start = p->at;
    for (*out = 0; more(p) && p->text.ptr[p->at] >= '0' && p->text.ptr[p->at] <= '9'; p->at++)
        if (*out <= MTR_REGEX_MAX_REPEAT)
            *out = *out * 10 + (uint32_t)(p->text.ptr[p->at] - '0');
    return p->at > start;
}

/* {n}, {n,}, {n,m}, {,m}: 1 and the bounds; 0 when the brace is a literal. */
static int parse_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
    size_t start = p->at;
    *min = 0;
    *max = MTR_REGEX_INFINITE;
    if (take(p, "{")) {
        bool low = parse_number(p, min);
        bool comma = take(p, ",");
        bool high = comma && parse_number(p, max);
        if (!high)
            *max = comma ? MTR_REGEX_INFINITE : *min;
        if ((low || high) && take(p, "}"))
            return 1;
    }
    p->at = start;
    return 0;
}

/* A quantifier, if one is next: 1, 0, or -1. Braces take no possessive "+" in this dialect. */
static int parse_quantifier(struct parser *p, struct mtr_regex_node *n)
{
    bool braces = false;
    if (take(p, "*"))
        n->min = 0, n->max = MTR_REGEX_INFINITE;
    else if (take(p, "+"))
        n->min = 1, n->max = MTR_REGEX_INFINITE;
    else if (take(p, "?"))
        n->min = 0, n->max = 1;
    else if (parse_braces(p, &n->min, &n->max))
        braces = true;
    else
        return 0;
    if (n->max < n->min)
        return bad(p, MTR_INVALID, "repeat of at least more than at most"), -1;
    if (n->min > MTR_REGEX_MAX_REPEAT ||
        (n->max > MTR_REGEX_MAX_REPEAT && n->max != MTR_REGEX_INFINITE))
        return bad(p, MTR_TOO_LARGE, "repeat of more than 10000"), -1;
    if (take(p, "?"))
        n->mode = MTR_RE_LAZY;
    else if (!braces && take(p, "+"))
        n->mode = MTR_RE_POSSESSIVE;
    return 1;
}

static void skip_blanks(struct parser *p)
{
    while (p->extended && more(p)) {
        if (strchr(" \t\r\n\f\v", p->text.ptr[p->at]) != NULL && p->text.ptr[p->at] != '\0')
            p->at++;
        else if (next_is(p, "#"))
            while (more(p) && p->text.ptr[p->at] != '\n')
                p->at++;
        else
            break;
    }
}

static struct mtr_regex_node *parse_quantified(struct parser *p)
{
    struct mtr_regex_node *atom = parse_atom(p);
    while (atom != NULL) {
        skip_blanks(p);
        struct mtr_regex_node *n = new_node(p, MTR_RE_REPEAT);
        int found = n == NULL ? -1 : parse_quantifier(p, n);
        if (found == 0)
            break;
        if (found < 0)
            return NULL;
        n->first = atom;
        atom = n;
    }
    return atom;
}

static struct mtr_regex_node *parse_sequence(struct parser *p)
{
    struct mtr_regex_node *n = new_node(p, MTR_RE_SEQUENCE);
    if (n == NULL)
        return NULL;
    struct mtr_regex_node **tail = &n->first;
    for (skip_blanks(p); more(p) && !next_is(p, "|") && !next_is(p, ")"); skip_blanks(p)) {
        *tail = parse_quantified(p);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
    }
    return n->first != NULL && n->first->next == NULL ? n->first : n;
}

static struct mtr_regex_node *parse_choice(struct parser *p)
{
    if (++p->depth > MTR_REGEX_MAX_NESTING)
        return bad(p, MTR_TOO_LARGE, "nested too deeply");
    struct mtr_regex_node *n = new_node(p, MTR_RE_CHOICE);
    if (n == NULL)
        return NULL;
    bool fold = p->fold, dotall = p->dotall, extended = p->extended;
    struct mtr_regex_node **tail = &n->first;
    do {
        *tail = parse_sequence(p);
        if (*tail == NULL)
            return NULL;
        tail = &(*tail)->next;
    } while (take(p, "|"));
    p->fold = fold;
    p->dotall = dotall;
    p->extended = extended;
    p->depth--;
    return n->first->next == NULL ? n->first : n;
}

bool mtr_regex_parse(struct mtr_arena *arena, struct mtr_str pattern, struct mtr_regex_tree *tree,
                     struct mtr_error *err)
{
    struct parser p = {.arena = arena, .tree = tree, .text = pattern, .err = err};
    if (pattern.len > MTR_REGEX_MAX_PATTERN_BYTES)
        return mtr_fail(err, MTR_TOO_LARGE, "regular expression: %zu bytes, more than %d",
                        pattern.len, MTR_REGEX_MAX_PATTERN_BYTES);
    if (!mtr_utf8_valid(pattern))
        return mtr_fail(err, MTR_INVALID, "regular expression: not valid UTF-8");
    tree->root = parse_choice(&p);
    if (tree->root == NULL)
        return false;
    if (more(&p))
        return bad(&p, MTR_INVALID, "unmatched )"), false;
    return true;
}
