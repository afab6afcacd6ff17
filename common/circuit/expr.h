/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols and expressions over them: how tables say "heads * head_dim".
 *
 * A symbol is a named number of a model: a dimension, a switch (0 or 1), a real, a choice from an
 * enumeration. All circuits share one list of names, generated from their TOML files; a config map
 * gives the values. An expression is compiled by scripts/gen_tables.py to a few steps of a stack
 * machine. Values are doubles: integers are exact up to 2^53, and whoever needs an integer asks
 * mtr_expr_integer, which refuses anything else.
 */
#ifndef MTR_CIRCUIT_EXPR_H
#define MTR_CIRCUIT_EXPR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define MTR_MAX_SYMBOLS 160
#define MTR_EXPR_DEPTH  8

enum mtr_expr_op {
    MTR_EXPR_CONST,
    MTR_EXPR_SYMBOL,
    MTR_EXPR_ADD,
    MTR_EXPR_SUB,
    MTR_EXPR_MUL,
    MTR_EXPR_DIV,
    MTR_EXPR_FLOOR_DIV,
    MTR_EXPR_MOD,
    MTR_EXPR_NEG,
    MTR_EXPR_NOT,
    MTR_EXPR_AND,
    MTR_EXPR_OR,
    MTR_EXPR_EQ,
    MTR_EXPR_NE,
    MTR_EXPR_LT,
    MTR_EXPR_LE,
    MTR_EXPR_SQRT,
    MTR_EXPR_IF, /* condition, then, else */
};

struct mtr_expr_step {
    enum mtr_expr_op op;
    uint16_t symbol;
    double value;
};

struct mtr_expr {
    const char *text; /* as written, for messages; NULL: no expression */
    uint16_t count;
    const struct mtr_expr_step *steps;
};

/* Values of symbols. A symbol without a value makes every expression that reads it fail. */
struct mtr_symbols {
    double values[MTR_MAX_SYMBOLS];
    bool known[MTR_MAX_SYMBOLS];
};

const char *mtr_symbol_name(uint32_t index); /* "head_dim" */
uint32_t mtr_symbol_count(void);
/* Index of a name that the tables contain, or MTR_MAX_SYMBOLS. */
uint32_t mtr_symbol_find(const char *name);

bool mtr_symbol_set(struct mtr_symbols *s, const char *name, double value);
double mtr_symbol_get(const struct mtr_symbols *s, const char *name, double absent);

/* Errors: MTR_INVALID for an unknown value, a division by zero or an overflow. */
bool mtr_expr_eval(const struct mtr_expr *e, const struct mtr_symbols *s, double *out,
                   struct mtr_error *err);
/* An integer in [min, max], or an error naming the expression and both. */
bool mtr_expr_integer(const struct mtr_expr *e, const struct mtr_symbols *s, uint64_t min,
                      uint64_t max, uint64_t *out, struct mtr_error *err);
/* True when there is no expression, or it is not zero. */
bool mtr_expr_true(const struct mtr_expr *e, const struct mtr_symbols *s, bool *out,
                   struct mtr_error *err);

#endif
