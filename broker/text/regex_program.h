/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What regex_parse.c hands to regex.c: the tree of an expression, and the sets it uses.
 */
#ifndef MTR_TEXT_REGEX_PROGRAM_H
#define MTR_TEXT_REGEX_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/text/charset.h"
#include "common/base/arena.h"
#include "common/base/error.h"

#define MTR_REGEX_MAX_SETS 256
#define MTR_REGEX_INFINITE UINT32_MAX

enum mtr_regex_kind {
    MTR_RE_EMPTY,
    MTR_RE_SET,      /* one character of sets[set] */
    MTR_RE_SEQUENCE, /* children in order */
    MTR_RE_CHOICE,   /* the first child that leads to a match */
    MTR_RE_REPEAT,   /* the only child, min to max times */
    MTR_RE_LOOK,     /* the only child matches here (behind: up to here), or not (negative) */
    MTR_RE_ATOMIC,   /* the only child, without going back into it */
    MTR_RE_ASSERT,
};

enum mtr_regex_mode { MTR_RE_GREEDY, MTR_RE_LAZY, MTR_RE_POSSESSIVE };

enum mtr_regex_assertion {
    MTR_RE_LINE_START,
    MTR_RE_LINE_END,
    MTR_RE_TEXT_START,
    MTR_RE_TEXT_END,
    MTR_RE_TEXT_END_LINE, /* the end, or before a newline at the end */
    MTR_RE_WORD_EDGE,
    MTR_RE_NO_WORD_EDGE,
};

struct mtr_regex_node {
    enum mtr_regex_kind kind;
    uint8_t mode;      /* REPEAT: enum mtr_regex_mode */
    uint8_t assertion; /* ASSERT: enum mtr_regex_assertion */
    bool behind, negative;
    uint16_t set;
    uint32_t min, max;
    struct mtr_regex_node *first; /* first child */
    struct mtr_regex_node *next;  /* next sibling */
};

struct mtr_regex_tree {
    struct mtr_regex_node *root;
    struct mtr_ranges sets[MTR_REGEX_MAX_SETS]; /* [set_count], normalized; the caller frees them */
    size_t set_count;
};

/* Adds the set of that name: of a category, a script, or a class of characters. bracket: it stands
 * in brackets, [:name:]. False: no such name. */
bool mtr_regex_named_set(struct mtr_ranges *out, const char *name, size_t len, bool bracket);

/* Nodes live in the arena. On failure the sets still have to be freed. */
bool mtr_regex_parse(struct mtr_arena *arena, struct mtr_str pattern, struct mtr_regex_tree *tree,
                     struct mtr_error *err);

#endif
