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

/* A gate of its own for each column, one for each head, one for the row. */
START_TEST(gates)
{
    static const uint32_t parts[] = {36, 4, 1};
    struct noise n = {11};
    struct mtr_step_view step = {.tokens = ROWS};
    float *a = noise_floats(&n, ROWS * 36), *b = noise_floats(&n, ROWS * 36);
    float y[ROWS * 36], first[ROWS * 36];
    for (int k = 0; k < 3; k++) {
        struct mtr_elementwise_args args = {.step = &step,
                                            .a = a,
                                            .b = b,
                                            .y = first,
                                            .cols = 36,
                                            .a_cols = 36,
                                            .b_cols = parts[k],
                                            .activation = MTR_ACT_SIGMOID};
        run_kernel("gate", MTR_ISA_PORTABLE, &args, ROWS, 1);
        for (uint32_t i = 0; i < ROWS * 36; i++) {
            uint32_t r = i / 36, c = i % 36 / (36 / parts[k]);
            double want = a[i] / (1 + exp(-(double)b[r * parts[k] + c]));
            ck_assert(fabs(first[i] - want) <= 1e-6);
        }
        args.y = y;
        FOR_EACH_ISA(isa)
        {
            poison(y, sizeof y);
            run_kernel("gate", isa, &args, 2, 1);
            same_bits(first, y, ROWS * 36, "gate", isa);
        }
    }
    free(a);
    free(b);
}
END_TEST

/* Four heads of 3 + 5 columns come apart and are put together again by kind. */
START_TEST(taken_apart_and_put_together)
{
    struct noise n = {12};
    struct mtr_step_view step = {.tokens = ROWS};
    float *a = noise_floats(&n, ROWS * 32), q[ROWS * 12], g[ROWS * 20], y[ROWS * 44];
    struct mtr_elementwise_args low = {
        .step = &step, .a = a, .y = q, .cols = 12, .a_cols = 32, .runs = 4};
    struct mtr_elementwise_args high = {
        .step = &step, .a = a, .y = g, .cols = 20, .a_cols = 32, .runs = 4, .first = 3};
    struct mtr_elementwise_args all = {
        .step = &step, .a = g, .b = q, .c = q, .y = y, .cols = 44, .a_cols = 20, .b_cols = 12};
    FOR_EACH_ISA(isa)
    {
        poison(y, sizeof y);
        run_kernel("slice", isa, &low, ROWS, 1);
        run_kernel("slice", isa, &high, 2, 1);
        run_kernel("concat", isa, &all, 3, 1);
        for (int r = 0; r < ROWS; r++)
            for (int h = 0; h < 4; h++)
                for (int i = 0; i < 8; i++) {
                    float want = a[r * 32 + h * 8 + i];
                    ck_assert(i < 3 ? y[r * 44 + 20 + h * 3 + i] == want &&
                                          y[r * 44 + 32 + h * 3 + i] == want
                                    : y[r * 44 + h * 5 + i - 3] == want);
                }
    }
    all.cols = 32;
    all.c = NULL;
    poison(y, sizeof y);
    run_kernel("concat", mtr_host_best_isa(), &all, ROWS, 1);
    ck_assert(memcmp(y + 4 * 32, g + 4 * 20, sizeof(float) * 20) == 0);
    ck_assert(memcmp(y + 4 * 32 + 20, q + 4 * 12, sizeof(float) * 12) == 0);
    free(a);
}
END_TEST

MTR_CHECK_MAIN("kernels/elementwise")
{
    tcase_add_test(tc, gates);
    tcase_add_test(tc, taken_apart_and_put_together);
    tcase_add_loop_test(tc, values, 0, MTR_ACT_SIGMOID + 1);
    tcase_add_test(tc, in_place_and_gathered);
}
