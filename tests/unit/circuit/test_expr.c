/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The stack machine, on programs as the generator writes them. */
#include "common/circuit/expr.c"

#include "tests/unit/check_main.h"

#define STEP(op, value)                                                                            \
    {                                                                                              \
        MTR_EXPR_##op, 0, value                                                                    \
    }

static struct mtr_error err;

static double run(const struct mtr_expr_step *steps, uint16_t count)
{
    static struct mtr_symbols none;
    struct mtr_expr e = {"test", count, steps};
    double out = 0;
    ck_assert_msg(mtr_expr_eval(&e, &none, &out, &err), "%s", err.message);
    return out;
}

#define RUN(...)                                                                                   \
    run((struct mtr_expr_step[]){__VA_ARGS__},                                                     \
        sizeof((struct mtr_expr_step[]){__VA_ARGS__}) / sizeof(struct mtr_expr_step))

START_TEST(operators)
{
    static const struct {
        enum mtr_expr_op op;
        double a, b, want;
    } list[] = {
        {MTR_EXPR_ADD, 7, 2, 9},       {MTR_EXPR_SUB, 7, 2, 5}, {MTR_EXPR_MUL, 7, 2, 14},
        {MTR_EXPR_DIV, 7, 2, 3.5},     {MTR_EXPR_MOD, 7, 2, 1}, {MTR_EXPR_MOD, -7, 2, 1},
        {MTR_EXPR_FLOOR_DIV, 7, 2, 3}, {MTR_EXPR_AND, 7, 0, 0}, {MTR_EXPR_AND, 7, 2, 1},
        {MTR_EXPR_OR, 0, 2, 1},        {MTR_EXPR_OR, 0, 0, 0},  {MTR_EXPR_EQ, 2, 2, 1},
        {MTR_EXPR_NE, 2, 2, 0},        {MTR_EXPR_LT, 2, 2, 0},  {MTR_EXPR_LE, 2, 2, 1},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        ck_assert_double_eq(RUN(STEP(CONST, list[i].a), STEP(CONST, list[i].b), {list[i].op, 0, 0}),
                            list[i].want);
    ck_assert_double_eq(RUN(STEP(CONST, 9), STEP(SQRT, 0)), 3);
    ck_assert_double_eq(RUN(STEP(CONST, 9), STEP(NEG, 0)), -9);
    ck_assert_double_eq(RUN(STEP(CONST, 9), STEP(NOT, 0)), 0);
    ck_assert_double_eq(RUN(STEP(CONST, 1), STEP(CONST, 5), STEP(CONST, 6), STEP(IF, 0)), 5);
    ck_assert_double_eq(RUN(STEP(CONST, 0), STEP(CONST, 5), STEP(CONST, 6), STEP(IF, 0)), 6);
}
END_TEST

START_TEST(symbols)
{
    struct mtr_symbols s = {0};
    ck_assert(mtr_symbol_set(&s, "heads", 9) && !mtr_symbol_set(&s, "no_such_symbol", 1));
    ck_assert_double_eq(mtr_symbol_get(&s, "heads", -1), 9);
    ck_assert_double_eq(mtr_symbol_get(&s, "hidden", -1), -1);
    ck_assert_uint_eq(mtr_symbol_find("no_such_symbol"), MTR_MAX_SYMBOLS);
    struct mtr_expr_step steps[] = {{MTR_EXPR_SYMBOL, (uint16_t)mtr_symbol_find("hidden"), 0}};
    struct mtr_expr e = {"hidden", 1, steps};
    double out;
    ck_assert(!mtr_expr_eval(&e, &s, &out, &err));
    ck_assert_str_eq(err.message, "hidden is not known, which \"hidden\" needs");
    mtr_symbol_set(&s, "hidden", 64);
    ck_assert(mtr_expr_eval(&e, &s, &out, &err) && out == 64);
}
END_TEST

static bool integer(double value, uint64_t max, uint64_t *out)
{
    static struct mtr_symbols none;
    struct mtr_expr_step steps[] = {STEP(CONST, value)};
    struct mtr_expr e = {"x", 1, steps};
    return mtr_expr_integer(&e, &none, 1, max, out, &err);
}

START_TEST(integers_are_whole_and_bounded)
{
    uint64_t out = 0;
    ck_assert(integer(42, 100, &out) && out == 42);
    ck_assert(!integer(42.5, 100, &out) && strstr(err.message, "a whole number from 1 to 100"));
    ck_assert(!integer(101, 100, &out) && !integer(0, 100, &out) && !integer(-1, 100, &out));
    ck_assert(!integer(INFINITY, 100, &out) && strstr(err.message, "no finite value"));
    ck_assert(!integer(NAN, 100, &out) && !integer(1e300, UINT64_MAX, &out));
}
END_TEST

START_TEST(conditions)
{
    static struct mtr_symbols none;
    bool out = false;
    struct mtr_expr absent = {0};
    ck_assert(mtr_expr_true(&absent, &none, &out, &err) && out);
    struct mtr_expr_step zero[] = {STEP(CONST, 0)};
    struct mtr_expr e = {"0", 1, zero};
    ck_assert(mtr_expr_true(&e, &none, &out, &err) && !out);
}
END_TEST

MTR_CHECK_MAIN("circuit/expr")
{
    tcase_add_test(tc, operators);
    tcase_add_test(tc, symbols);
    tcase_add_test(tc, integers_are_whole_and_bounded);
    tcase_add_test(tc, conditions);
}
