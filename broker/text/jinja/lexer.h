/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Template source to tokens. Internal to jinja/.
 *
 * Line ends become \n first and one at the very end is dropped, as jinja2 does; tokens point into
 * that normalized copy, which lives in the arena, or to unescaped strings there.
 */
#ifndef MTR_TEXT_JINJA_LEXER_H
#define MTR_TEXT_JINJA_LEXER_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/str.h"

enum mtr_jtok_kind {
    MTR_JT_EOF,
    MTR_JT_DATA, /* text between tags, white space control applied */
    MTR_JT_VARIABLE_BEGIN,
    MTR_JT_VARIABLE_END,
    MTR_JT_BLOCK_BEGIN,
    MTR_JT_BLOCK_END,
    MTR_JT_NAME,
    MTR_JT_STRING,
    MTR_JT_INTEGER,
    MTR_JT_BIG_INTEGER,
    MTR_JT_FLOAT,
    MTR_JT_OPERATOR, /* `op`: the character, or one of the letters below */
};

/* Operators of two characters. */
enum {
    MTR_JOP_FLOORDIV = 'f',
    MTR_JOP_POW = 'p',
    MTR_JOP_EQ = 'e',
    MTR_JOP_NE = 'n',
    MTR_JOP_LE = 'l',
    MTR_JOP_GE = 'g',
};

struct mtr_jtok {
    uint8_t kind;
    char op;
    uint32_t line;
    struct mtr_str text; /* DATA, NAME, STRING (unescaped), BIG_INTEGER (decimal digits) */
    union {
        int64_t integer;
        double real;
    };
};

/* All tokens, ended by MTR_JT_EOF. */
bool mtr_jlex(struct mtr_arena *arena, struct mtr_str source, struct mtr_jtok **tokens,
              struct mtr_error *err);

#endif
