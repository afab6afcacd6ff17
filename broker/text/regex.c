/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Trees into programs, and a backtracking machine that runs them.
 *
 * The machine has one instruction that does nearly all of the work: RUN takes as many characters of
 * a set as it may and leaves one frame behind from which they can be given back one by one. Frames
 * are on an explicit stack, so that no text can exhaust the C stack; lookaround and atomic groups
 * call the machine again, as deep as the pattern nests them.
 *
 * The alternatives of the outermost choice are separate programs. A table tells for the first byte
 * of a candidate which of them can match there at all: one look instead of seven failures.
 */
#include "broker/text/regex.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/regex_program.h"
#include "common/base/buf.h"

#define MAX_ALTERNATIVES 64

enum op {
    OP_MATCH,
    OP_SET,    /* one character of sets[set] */
    OP_RUN,    /* min to max characters of sets[set], by mode */
    OP_SPLIT,  /* go to a; if that fails, to b */
    OP_JUMP,   /* to a */
    OP_ASSERT, /* mode: enum mtr_regex_assertion */
    OP_LOOK,   /* the program behind this one matches (or not, mode); go on at a; b chars back */
    OP_ATOMIC, /* the program behind this one matches; go on at a */
};

struct instruction {
    uint8_t op;
    uint8_t mode;
    uint16_t set;
    uint32_t a, b;
};

struct mtr_regex {
    struct instruction *code; /* [count] */
    size_t count, cap;
    struct mtr_charset *sets; /* [set_count] */
    size_t set_count;
    struct mtr_charset word;
    uint32_t starts[MAX_ALTERNATIVES]; /* where each alternative's program begins */
    size_t alternatives;
    uint64_t by_first[257]; /* alternatives that may match before that byte; 256: at the end */
};

struct mtr_regex_frame {
    uint32_t pc;
    uint32_t more; /* lazy: how many more characters the run may take */
    size_t at;     /* where to go on */
    size_t low;    /* greedy run: gives back down to here */
    bool lazy;
};

/* ------------------------------------------------------------------------------------ compiling */

struct compiler {
    struct mtr_regex *r;
    const struct mtr_regex_tree *tree;
    struct mtr_error *err;
};

static bool emit_node(struct compiler *c, const struct mtr_regex_node *n);

static bool emit(struct compiler *c, struct instruction i)
{
    struct mtr_regex *r = c->r;
    if (r->count == MTR_REGEX_MAX_PROGRAM)
        return mtr_fail(c->err, MTR_TOO_LARGE, "regular expression: more than %d instructions",
                        MTR_REGEX_MAX_PROGRAM);
    if (!mtr_grow((void **)&r->code, &r->cap, r->count + 1, sizeof i))
        return mtr_fail(c->err, MTR_NO_MEMORY, "regular expression: out of memory");
    r->code[r->count++] = i;
    return true;
}

static uint32_t here(const struct compiler *c)
{
    return (uint32_t)c->r->count;
}

/* Whether the node may match nothing. */
static bool nullable(const struct mtr_regex_node *n)
{
    switch (n->kind) {
    case MTR_RE_SET:
        return false;
    case MTR_RE_SEQUENCE:
        for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next)
            if (!nullable(i))
                return false;
        return true;
    case MTR_RE_CHOICE:
        for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next)
            if (nullable(i))
                return true;
        return false;
    case MTR_RE_REPEAT:
        return n->min == 0 || nullable(n->first);
    case MTR_RE_ATOMIC:
        return nullable(n->first);
    default:
        return true;
    }
}

/* Characters that the node always takes, or -1 when that varies. */
static int64_t fixed_length(const struct mtr_regex_node *n)
{
    int64_t sum = 0;
    switch (n->kind) {
    case MTR_RE_SET:
        return 1;
    case MTR_RE_SEQUENCE:
        for (const struct mtr_regex_node *i = n->first; i != NULL && sum >= 0; i = i->next) {
            int64_t one = fixed_length(i);
            sum = one < 0 ? -1 : sum + one;
        }
        return sum;
    case MTR_RE_CHOICE:
        sum = fixed_length(n->first);
        for (const struct mtr_regex_node *i = n->first->next; i != NULL; i = i->next)
            if (fixed_length(i) != sum)
                return -1;
        return sum;
    case MTR_RE_REPEAT:
        sum = fixed_length(n->first);
        return n->min == n->max && sum >= 0 && sum <= 1000 ? sum * n->min : -1;
    case MTR_RE_ATOMIC:
        return fixed_length(n->first);
    default:
        return 0;
    }
}

/* A node's program as a subroutine: op, the program, MATCH; op.a leads behind it. */
static bool emit_sub(struct compiler *c, enum op op, bool negative, uint32_t back,
                     const struct mtr_regex_node *n)
{
    uint32_t start = here(c);
    if (!emit(c, (struct instruction){.op = op, .mode = negative, .b = back}) || !emit_node(c, n) ||
        !emit(c, (struct instruction){.op = OP_MATCH}))
        return false;
    c->r->code[start].a = here(c);
    return true;
}

static bool emit_behind(struct compiler *c, const struct mtr_regex_node *look,
                        const struct mtr_regex_node *n)
{
    int64_t back = fixed_length(n);
    if (back < 0 || back > MTR_REGEX_MAX_REPEAT)
        return mtr_fail(c->err, MTR_UNSUPPORTED,
                        "regular expression: lookbehind of varying length");
    return emit_sub(c, OP_LOOK, look->negative, (uint32_t)back, n);
}

/* Lookbehind of alternatives of different lengths: not one of them, or one after the other. */
static bool emit_look(struct compiler *c, const struct mtr_regex_node *n)
{
    if (!n->behind)
        return emit_sub(c, OP_LOOK, n->negative, 0, n->first);
    if (n->first->kind != MTR_RE_CHOICE || fixed_length(n->first) >= 0)
        return emit_behind(c, n, n->first);
    if (!n->negative)
        return mtr_fail(c->err, MTR_UNSUPPORTED,
                        "regular expression: lookbehind of varying length");
    for (const struct mtr_regex_node *i = n->first->first; i != NULL; i = i->next)
        if (!emit_behind(c, n, i))
            return false;
    return true;
}

static bool emit_choice(struct compiler *c, const struct mtr_regex_node *n)
{
    uint32_t jumps = UINT32_MAX; /* chain of jumps to the end, through their a */
    for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next) {
        uint32_t split = here(c);
        if (i->next != NULL && !emit(c, (struct instruction){.op = OP_SPLIT, .a = split + 1}))
            return false;
        if (!emit_node(c, i))
            return false;
        if (i->next == NULL)
            break;
        if (!emit(c, (struct instruction){.op = OP_JUMP, .a = jumps}))
            return false;
        jumps = here(c) - 1;
        c->r->code[split].b = here(c);
    }
    while (jumps != UINT32_MAX) {
        uint32_t next = c->r->code[jumps].a;
        c->r->code[jumps].a = here(c);
        jumps = next;
    }
    return true;
}

/* SPLIT over the body: prefers to enter it, or not to, by mode. Sets the far end later. */
static bool emit_optional(struct compiler *c, const struct mtr_regex_node *n, bool loop)
{
    uint32_t split = here(c);
    if (!emit(c, (struct instruction){.op = OP_SPLIT}) || !emit_node(c, n->first))
        return false;
    if (loop && !emit(c, (struct instruction){.op = OP_JUMP, .a = split}))
        return false;
    struct instruction *s = &c->r->code[split];
    s->a = n->mode == MTR_RE_LAZY ? here(c) : split + 1;
    s->b = n->mode == MTR_RE_LAZY ? split + 1 : here(c);
    return true;
}

static bool emit_repeat(struct compiler *c, const struct mtr_regex_node *n)
{
    if (n->first->kind == MTR_RE_SET)
        return emit(
            c, (struct instruction){
                   .op = OP_RUN, .mode = n->mode, .set = n->first->set, .a = n->min, .b = n->max});
    if (n->mode == MTR_RE_POSSESSIVE) {
        struct mtr_regex_node greedy = *n;
        greedy.mode = MTR_RE_GREEDY;
        return emit_sub(c, OP_ATOMIC, false, 0, &greedy);
    }
    if (n->max == MTR_REGEX_INFINITE && nullable(n->first))
        return mtr_fail(c->err, MTR_UNSUPPORTED,
                        "regular expression: unbounded repeat of what may be empty");
    for (uint32_t i = 0; i < n->min; i++)
        if (!emit_node(c, n->first))
            return false;
    if (n->max == MTR_REGEX_INFINITE)
        return emit_optional(c, n, true);
    for (uint32_t i = n->min; i < n->max; i++)
        if (!emit_optional(c, n, false))
            return false;
    return true;
}

static bool emit_node(struct compiler *c, const struct mtr_regex_node *n)
{
    switch (n->kind) {
    case MTR_RE_EMPTY:
        return true;
    case MTR_RE_SET:
        return emit(c, (struct instruction){.op = OP_SET, .set = n->set});
    case MTR_RE_SEQUENCE:
        for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next)
            if (!emit_node(c, i))
                return false;
        return true;
    case MTR_RE_CHOICE:
        return emit_choice(c, n);
    case MTR_RE_REPEAT:
        return emit_repeat(c, n);
    case MTR_RE_LOOK:
        return emit_look(c, n);
    case MTR_RE_ATOMIC:
        return emit_sub(c, OP_ATOMIC, false, 0, n->first);
    case MTR_RE_ASSERT:
        return emit(c, (struct instruction){.op = OP_ASSERT, .mode = n->assertion});
    }
    return mtr_fail(c->err, MTR_INTERNAL, "regular expression: unknown node");
}

/* ---------------------------------------------------------------- which byte can begin a match */

/* The smallest and largest character that the bytes beginning with this one encode. */
static struct mtr_range lead_range(int byte)
{
    if (byte < 0x80)
        return (struct mtr_range){(uint32_t)byte, (uint32_t)byte};
    if (byte < 0xe0)
        return (struct mtr_range){(byte & 0x1fu) << 6, (byte & 0x1fu) << 6 | 0x3f};
    if (byte < 0xf0)
        return (struct mtr_range){(byte & 0x0fu) << 12, (byte & 0x0fu) << 12 | 0xfff};
    return (struct mtr_range){(byte & 7u) << 18, (byte & 7u) << 18 | 0x3ffff};
}

static void first_of_set(const struct mtr_ranges *set, bool bytes[257])
{
    for (int b = 0; b < 256; b++) {
        struct mtr_range lead = lead_range(b);
        for (size_t i = 0; i < set->count && !bytes[b] && (b < 0x80 || b >= 0xc2); i++)
            bytes[b] = set->items[i].first <= lead.last && set->items[i].last >= lead.first;
    }
}

/* Adds the bytes that the node may begin with; true when what follows it may begin, too. */
static bool first_bytes(const struct mtr_regex_tree *t, const struct mtr_regex_node *n,
                        bool bytes[257])
{
    bool through = false;
    switch (n->kind) {
    case MTR_RE_SET:
        first_of_set(&t->sets[n->set], bytes);
        return false;
    case MTR_RE_SEQUENCE:
        for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next)
            if (!first_bytes(t, i, bytes))
                return false;
        return true;
    case MTR_RE_CHOICE:
        for (const struct mtr_regex_node *i = n->first; i != NULL; i = i->next)
            through |= first_bytes(t, i, bytes);
        return through;
    case MTR_RE_REPEAT:
        return (n->max > 0 && first_bytes(t, n->first, bytes)) || n->min == 0;
    case MTR_RE_ATOMIC:
        return first_bytes(t, n->first, bytes);
    default:
        return true;
    }
}

static bool add_alternative(struct compiler *c, const struct mtr_regex_node *n)
{
    struct mtr_regex *r = c->r;
    bool bytes[257] = {false};
    if (first_bytes(c->tree, n, bytes))
        memset(bytes, true, sizeof bytes);
    for (int b = 0; b < 257; b++)
        r->by_first[b] |= (uint64_t)bytes[b] << r->alternatives;
    r->starts[r->alternatives++] = here(c);
    return emit_node(c, n) && emit(c, (struct instruction){.op = OP_MATCH});
}

/* A greedy run right before the end of everything is never asked to give back. */
static void drop_needless_frames(struct mtr_regex *r)
{
    for (size_t i = 0; i + 1 < r->count; i++)
        if (r->code[i].op == OP_RUN && r->code[i].mode == MTR_RE_GREEDY &&
            r->code[i + 1].op == OP_MATCH)
            r->code[i].mode = MTR_RE_POSSESSIVE;
}

static bool compile_program(struct compiler *c)
{
    const struct mtr_regex_node *root = c->tree->root;
    size_t count = 0;
    if (root->kind == MTR_RE_CHOICE)
        for (const struct mtr_regex_node *i = root->first; i != NULL; i = i->next)
            count++;
    if (count < 2 || count > MAX_ALTERNATIVES)
        return add_alternative(c, root);
    for (const struct mtr_regex_node *i = root->first; i != NULL; i = i->next)
        if (!add_alternative(c, i))
            return false;
    return true;
}

static bool compile_sets(struct mtr_regex *r, struct mtr_regex_tree *t)
{
    struct mtr_ranges word = {0};
    mtr_ranges_add_word(&word);
    bool ok = mtr_charset_init(&r->word, &word);
    mtr_ranges_free(&word);
    r->sets = calloc(t->set_count + 1, sizeof *r->sets);
    if (r->sets == NULL)
        return false;
    for (; ok && r->set_count < t->set_count; r->set_count++)
        ok = mtr_charset_init(&r->sets[r->set_count], &t->sets[r->set_count]);
    return ok;
}

struct mtr_regex *mtr_regex_compile(struct mtr_str pattern, struct mtr_error *err)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    struct mtr_regex_tree *tree = mtr_arena_calloc(&arena, 1, sizeof *tree);
    struct mtr_regex *r = calloc(1, sizeof *r);
    bool ok = tree != NULL && r != NULL;
    if (!ok)
        mtr_fail(err, MTR_NO_MEMORY, "regular expression: out of memory");
    if (ok)
        ok = mtr_regex_parse(&arena, pattern, tree, err);
    struct compiler c = {r, tree, err};
    if (ok)
        ok = compile_program(&c);
    if (ok && !compile_sets(r, tree))
        ok = mtr_fail(err, MTR_NO_MEMORY, "regular expression: out of memory");
    if (ok)
        drop_needless_frames(r);
    for (size_t i = 0; tree != NULL && i < tree->set_count; i++)
        mtr_ranges_free(&tree->sets[i]);
    mtr_arena_free(&arena);
    if (!ok) {
        mtr_regex_free(r);
        return NULL;
    }
    return r;
}

void mtr_regex_free(struct mtr_regex *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->set_count; i++)
        mtr_charset_free(&r->sets[i]);
    mtr_charset_free(&r->word);
    free(r->sets);
    free(r->code);
    free(r);
}

/* ------------------------------------------------------------------------------------- matching */

void mtr_regex_scanner_free(struct mtr_regex_scanner *s)
{
    free(s->frames);
    memset(s, 0, sizeof *s);
}

void mtr_regex_begin(struct mtr_regex_scanner *s, size_t len)
{
    s->count = 0;
    s->failed = false;
    s->steps = (uint64_t)len * MTR_REGEX_STEPS_PER_BYTE + MTR_REGEX_STEPS_AT_LEAST;
}

/* Room for one more frame, its fields to be set by the caller; NULL: the limit, or no memory. */
static inline struct mtr_regex_frame *push(struct mtr_regex_scanner *s)
{
    if (s->count == s->cap &&
        (s->count >= MTR_REGEX_MAX_FRAMES ||
         !mtr_grow((void **)&s->frames, &s->cap, s->count + 1, sizeof *s->frames))) {
        s->failed = true;
        return NULL;
    }
    return &s->frames[s->count++];
}

/* Where to go on if what follows fails: at pc, from at, or from any character before it down to
 * low. */
static inline bool push_back(struct mtr_regex_scanner *s, uint32_t pc, size_t at, size_t low)
{
    struct mtr_regex_frame *f = push(s);
    if (f == NULL)
        return false;
    f->pc = pc;
    f->at = at;
    f->low = low;
    f->lazy = false;
    return true;
}

/* A lazy run at pc that may take so many more characters. */
static bool push_lazy(struct mtr_regex_scanner *s, uint32_t pc, size_t at, size_t more)
{
    struct mtr_regex_frame *f = push(s);
    if (f == NULL)
        return false;
    f->pc = pc;
    f->at = at;
    f->more = more < UINT32_MAX ? (uint32_t)more : UINT32_MAX;
    f->lazy = true;
    return true;
}

/* The length of the character of the set at `at`, or 0. */
static size_t one_of(const struct mtr_charset *set, struct mtr_str text, size_t at)
{
    return mtr_charset_one(set, text.ptr + at, text.len - at);
}

static bool word_at(const struct mtr_regex *r, struct mtr_str text, size_t at)
{
    return at < text.len && one_of(&r->word, text, at) > 0;
}

static bool holds(const struct mtr_regex *r, struct mtr_str text, size_t at, uint8_t assertion)
{
    bool start = at == 0, end = at == text.len;
    switch ((enum mtr_regex_assertion)assertion) {
    case MTR_RE_LINE_START:
        return start || (text.ptr[at - 1] == '\n' && !end);
    case MTR_RE_LINE_END:
        return end || text.ptr[at] == '\n';
    case MTR_RE_TEXT_START:
        return start;
    case MTR_RE_TEXT_END:
        return end;
    case MTR_RE_TEXT_END_LINE:
        return end || (at + 1 == text.len && text.ptr[at] == '\n');
    case MTR_RE_WORD_EDGE:
    case MTR_RE_NO_WORD_EDGE:
        break;
    }
    bool before = !start && word_at(r, text, mtr_utf8_back(text.ptr, at));
    return (before != word_at(r, text, at)) == (assertion == MTR_RE_WORD_EDGE);
}

static bool run(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                uint32_t pc, size_t at, size_t *end);

/* LOOK and ATOMIC: whether the sub-program matches; *at moves only for ATOMIC. */
static bool call(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                 uint32_t pc, size_t *at)
{
    const struct instruction *i = &r->code[pc];
    size_t from = *at, end;
    for (uint32_t n = 0; n < i->b; n++) {
        if (from == 0)
            return i->mode; /* not enough before: nothing matches there */
        from = mtr_utf8_back(text.ptr, from);
    }
    bool found = run(r, s, text, pc + 1, from, &end);
    if (found && i->op == OP_ATOMIC)
        *at = end;
    return found != (i->mode != 0);
}

/* RUN: takes characters and leaves a frame; false when there are fewer than the least. */
static bool take_run(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                     uint32_t pc, size_t *at)
{
    const struct instruction *i = &r->code[pc];
    const struct mtr_charset *set = &r->sets[i->set];
    size_t low = *at;
    for (uint32_t n = 0; n < i->a; n++) {
        size_t one = one_of(set, text, low);
        if (one == 0)
            return false;
        low += one;
    }
    size_t most = i->b == MTR_REGEX_INFINITE ? SIZE_MAX : i->b - i->a;
    *at = low;
    if (i->mode == MTR_RE_LAZY)
        return most == 0 || push_lazy(s, pc, low, most);
    size_t high = low + mtr_charset_run(set, text.ptr + low, text.len - low, most);
    *at = high;
    s->steps -= s->steps > (high - low) / 16 ? (high - low) / 16 : s->steps;
    if (i->mode == MTR_RE_POSSESSIVE || high == low)
        return true;
    return push_back(s, pc + 1, high, low);
}

/* Goes back to the newest frame above base; false when there is none. */
static bool back(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                 size_t base, uint32_t *pc, size_t *at)
{
    while (s->count > base) {
        struct mtr_regex_frame *f = &s->frames[s->count - 1];
        if (f->lazy) {
            size_t one = one_of(&r->sets[r->code[f->pc].set], text, f->at);
            *at = f->at += one;
            *pc = f->pc + 1;
            if (one == 0 || --f->more == 0)
                s->count--;
            if (one == 0)
                continue;
            return true;
        }
        *pc = f->pc;
        if (f->at > f->low)
            f->at = mtr_utf8_back(text.ptr, f->at);
        *at = f->at;
        if (f->at == f->low)
            s->count--;
        return true;
    }
    return false;
}

static bool run(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                uint32_t pc, size_t at, size_t *end)
{
    size_t base = s->count, one;
    for (;;) {
        const struct instruction *i = &r->code[pc];
        bool ok = true;
        if (s->failed || s->steps == 0) {
            s->failed = true;
            break;
        }
        s->steps--;
        switch ((enum op)i->op) {
        case OP_MATCH:
            s->count = base;
            *end = at;
            return true;
        case OP_SET:
            one = one_of(&r->sets[i->set], text, at);
            ok = one > 0;
            at += one;
            pc++;
            break;
        case OP_RUN:
            ok = take_run(r, s, text, pc, &at);
            pc++;
            break;
        case OP_SPLIT:
            ok = push_back(s, i->b, at, at);
            pc = i->a;
            break;
        case OP_JUMP:
            pc = i->a;
            break;
        case OP_ASSERT:
            ok = holds(r, text, at, i->mode);
            pc++;
            break;
        case OP_LOOK:
        case OP_ATOMIC:
            ok = call(r, s, text, pc, &at);
            pc = i->a;
            break;
        }
        if (!ok && !back(r, s, text, base, &pc, &at))
            break;
    }
    s->count = base;
    return false;
}

bool mtr_regex_find(const struct mtr_regex *r, struct mtr_regex_scanner *s, struct mtr_str text,
                    size_t from, size_t *start, size_t *end)
{
    for (size_t at = from; at <= text.len && !s->failed;) {
        int byte = at < text.len ? (unsigned char)text.ptr[at] : 256;
        for (uint64_t set = r->by_first[byte]; set != 0; set &= set - 1) {
            if (run(r, s, text, r->starts[__builtin_ctzll(set)], at, end)) {
                *start = at;
                return true;
            }
        }
        if (at == text.len)
            break;
        at += (size_t)mtr_utf8_length(text.ptr[at]);
    }
    return false;
}
