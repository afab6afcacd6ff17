/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stack machine behind expressions. The generator has checked every program: operands are
 * there, the stack suffices. What can go wrong at run time is the values.
 */
#include "common/circuit/expr.h"

#include <math.h>
#include <string.h>

#define EXACT 9007199254740992.0 /* 2^53 */

uint32_t mtr_symbol_find(const char *name)
{
    for (uint32_t i = 0; i < mtr_symbol_count(); i++)
        if (strcmp(mtr_symbol_name(i), name) == 0)
            return i;
    return MTR_MAX_SYMBOLS;
}

bool mtr_symbol_set(struct mtr_symbols *s, const char *name, double value)
{
    uint32_t i = mtr_symbol_find(name);
    if (i == MTR_MAX_SYMBOLS)
        return false;
    s->values[i] = value;
    s->known[i] = true;
    return true;
}

double mtr_symbol_get(const struct mtr_symbols *s, const char *name, double absent)
{
    uint32_t i = mtr_symbol_find(name);
    return i < MTR_MAX_SYMBOLS && s->known[i] ? s->values[i] : absent;
}

static double binary(enum mtr_expr_op op, double a, double b)
{
    switch (op) {
    case MTR_EXPR_ADD:
        return a + b;
    case MTR_EXPR_SUB:
        return a - b;
    case MTR_EXPR_MUL:
        return a * b;
    case MTR_EXPR_DIV:
        return a / b;
    case MTR_EXPR_FLOOR_DIV:
        return floor(a / b);
    case MTR_EXPR_MOD:
        return a - b * floor(a / b);
    case MTR_EXPR_AND:
        return a != 0 && b != 0;
    case MTR_EXPR_OR:
        return a != 0 || b != 0;
    case MTR_EXPR_EQ:
        return a == b;
    case MTR_EXPR_NE:
        return a != b;
    case MTR_EXPR_LT:
        return a < b;
    case MTR_EXPR_LE:
        return a <= b;
    default:
        return NAN;
    }
}

static double unary(enum mtr_expr_op op, double a)
{
    return op == MTR_EXPR_NEG ? -a : op == MTR_EXPR_NOT ? a == 0 : sqrt(a);
}

/* Runs one step; false when a symbol has no value. */
static bool run_step(const struct mtr_expr_step *t, const struct mtr_symbols *s, double *stack,
                     uint32_t *top)
{
    switch (t->op) {
    case MTR_EXPR_CONST:
        stack[(*top)++] = t->value;
        return true;
    case MTR_EXPR_SYMBOL:
        stack[(*top)++] = s->values[t->symbol];
        return s->known[t->symbol];
    case MTR_EXPR_NEG:
    case MTR_EXPR_NOT:
    case MTR_EXPR_SQRT:
        stack[*top - 1] = unary(t->op, stack[*top - 1]);
        return true;
    case MTR_EXPR_IF:
        *top -= 2;
        stack[*top - 1] = stack[*top - 1] != 0 ? stack[*top] : stack[*top + 1];
        return true;
    default:
        (*top)--;
        stack[*top - 1] = binary(t->op, stack[*top - 1], stack[*top]);
        return true;
    }
}

bool mtr_expr_eval(const struct mtr_expr *e, const struct mtr_symbols *s, double *out,
                   struct mtr_error *err)
{
    double stack[MTR_EXPR_DEPTH + 1];
    uint32_t top = 0;
    for (uint32_t i = 0; i < e->count; i++)
        if (!run_step(&e->steps[i], s, stack, &top))
            return mtr_fail(err, MTR_INVALID, "%s is not known, which \"%s\" needs",
                            mtr_symbol_name(e->steps[i].symbol), e->text);
    if (!isfinite(stack[0]) || fabs(stack[0]) > EXACT)
        return mtr_fail(err, MTR_INVALID, "\"%s\" has no finite value", e->text);
    *out = stack[0];
    return true;
}

bool mtr_expr_integer(const struct mtr_expr *e, const struct mtr_symbols *s, uint64_t min,
                      uint64_t max, uint64_t *out, struct mtr_error *err)
{
    double value;
    if (!mtr_expr_eval(e, s, &value, err))
        return false;
    if (value != floor(value) || value < (double)min || value > (double)max)
        return mtr_fail(err, MTR_INVALID,
                        "\"%s\" is %.17g, but must be a whole number from %llu to %llu", e->text,
                        value, (unsigned long long)min, (unsigned long long)max);
    *out = (uint64_t)value;
    return true;
}

bool mtr_expr_true(const struct mtr_expr *e, const struct mtr_symbols *s, bool *out,
                   struct mtr_error *err)
{
    double value = 1;
    if (e->text && !mtr_expr_eval(e, s, &value, err))
        return false;
    *out = value != 0;
    return true;
}
