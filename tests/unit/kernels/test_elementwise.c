/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* add, glu, activate, scale, gather. */
#include "kernels/args/elementwise.h"

#include "tests/unit/kernels/kernel_test.h"

#define ROWS 5

static double activation(enum mtr_activation kind, double x)
{
    switch (kind) {
    case MTR_ACT_NONE:
        return x;
    case MTR_ACT_SILU:
        return x / (1 + exp(-x));
    case MTR_ACT_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case MTR_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case MTR_ACT_RELU:
        return x > 0 ? x : 0;
    case MTR_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case MTR_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    }
    return NAN;
}

static double expected(const char *function, const struct mtr_elementwise_args *a, size_t i)
{
    double x = ((const float *)a->a)[i], y = a->b ? ((const float *)a->b)[i] : 0;
    enum mtr_activation kind = (enum mtr_activation)a->activation;
    if (strcmp(function, "add") == 0)
        return x + y;
    if (strcmp(function, "glu") == 0)
        return activation(kind, x) * y;
    if (strcmp(function, "activate") == 0)
        return activation(kind, x);
    return x * (double)a->multiplier;
}

static void check(struct noise *n, const char *function, enum mtr_activation kind, float spread)
{
    uint32_t cols = 1 + noise_below(n, 100);
    struct mtr_step_view step = {.tokens = ROWS};
    float *a = noise_floats(n, ROWS * cols), *b = noise_floats(n, ROWS * cols);
    for (uint32_t i = 0; i < ROWS * cols; i++)
        a[i] *= spread;
    float *y = must_alloc(ROWS * cols * sizeof *y), *first = must_alloc(ROWS * cols * sizeof *y);
    struct mtr_elementwise_args args = {.step = &step,
                                        .a = a,
                                        .b = b,
                                        .y = y,
                                        .cols = cols,
                                        .rows_kind = MTR_ROWS_TOKENS,
                                        .activation = kind,
                                        .multiplier = 1.7f};
    run_kernel(function, MTR_ISA_PORTABLE,
               &(struct mtr_elementwise_args){.step = &step,
                                              .a = a,
                                              .b = b,
                                              .y = first,
                                              .cols = cols,
                                              .activation = kind,
                                              .multiplier = 1.7f},
               ROWS, 1);
    FOR_EACH_ISA(isa)
    {
        poison(y, ROWS * cols * sizeof *y);
        run_kernel(function, isa, &args, 3, 1); /* a grid smaller than the rows */
        same_bits(first, y, ROWS * cols, function, isa);
        for (uint32_t i = 0; i < ROWS * cols; i++) {
            double want = expected(function, &args, i);
            ck_assert_msg(fabs(y[i] - want) <= 5e-7 * fabs(want) + 1e-9 * spread, "%s: %g, not %g",
                          function, (double)y[i], want);
        }
    }
    free(a);
    free(b);
    free(y);
    free(first);
}

START_TEST(values)
{
    static const char *const functions[] = {"add", "scale", "activate", "glu"};
    struct noise n = {(uint64_t)_i + 1};
    for (int f = 0; f < 4; f++)
        for (int spread = 1; spread < 200; spread *= 5)
            check(&n, functions[f], (enum mtr_activation)_i, (float)spread);
}
END_TEST

START_TEST(in_place_and_gathered)
{
    struct noise n = {9};
    const int32_t map[ROWS] = {4, 0, 4, 2, 1};
    struct mtr_step_view step = {.tokens = ROWS, .outputs = 3};
    float *a = noise_floats(&n, ROWS * 21), y[3 * 21], copy[ROWS * 21];
    struct mtr_elementwise_args gather = {
        .step = &step, .a = a, .y = y, .gather = map, .cols = 21, .rows_kind = MTR_ROWS_OUTPUTS};
    struct mtr_elementwise_args twice = {
        .step = &step, .a = copy, .b = copy, .y = copy, .cols = 21, .rows_kind = MTR_ROWS_TOKENS};
    FOR_EACH_ISA(isa)
    {
        poison(y, sizeof y);
        run_kernel("gather", isa, &gather, 3, 1);
        for (int r = 0; r < 3; r++)
            ck_assert(memcmp(y + r * 21, a + map[r] * 21, 21 * sizeof *y) == 0);
        memcpy(copy, a, sizeof copy);
        run_kernel("add", isa, &twice, ROWS, 1);
        for (int i = 0; i < ROWS * 21; i++)
            ck_assert(copy[i] == a[i] + a[i]);
    }
    free(a);
}
END_TEST

MTR_CHECK_MAIN("kernels/elementwise")
{
    tcase_add_loop_test(tc, values, 0, MTR_ACT_SIGMOID + 1);
    tcase_add_test(tc, in_place_and_gathered);
}
