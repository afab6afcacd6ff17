/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* route: against a plain reference in f64, and what must hold for any logits. */
#include "kernels/args/route.h"

#include "tests/unit/kernels/kernel_test.h"

#define ROWS 7

static double score(const struct mtr_route_args *a, const float *x, uint32_t e)
{
    double most = x[0], sum = 0;
    if (a->scoring == MTR_SCORE_SIGMOID)
        return 1 / (1 + exp(-(double)x[e]));
    if (a->scoring == MTR_SCORE_SQRT_SOFTPLUS)
        return sqrt(log1p(exp((double)x[e])));
    for (uint32_t i = 0; i < a->experts; i++)
        most = x[i] > most ? x[i] : most;
    for (uint32_t i = 0; i < a->experts; i++)
        sum += exp(x[i] - most);
    return exp(x[e] - most) / sum;
}

static double choice(const struct mtr_route_args *a, const float *x, uint32_t e)
{
    return score(a, x, e) + (a->bias ? a->bias[e] : 0);
}

/* Whether the expert's group is one of the best: fewer than top_groups are better. */
static bool is_open(const struct mtr_route_args *a, const float *x, uint32_t e)
{
    uint32_t each = a->experts / a->groups, better = 0;
    double values[64];
    for (uint32_t g = 0; g < a->groups; g++) {
        double first = -1e9, second = -1e9;
        for (uint32_t i = g * each; i < (g + 1) * each; i++) {
            double v = choice(a, x, i);
            second = v > first ? first : v > second ? v : second;
            first = v > first ? v : first;
        }
        values[g] = first + second;
    }
    for (uint32_t g = 0; g < a->groups; g++)
        better += values[g] > values[e / each];
    return better < a->top_groups;
}

static void check_row(const struct mtr_route_args *a, const float *x, const int32_t *chosen,
                      const float *shares)
{
    double sum = 0, last = 1e9;
    for (uint32_t k = 0; k < a->top_k; k++)
        sum += score(a, x, (uint32_t)chosen[k]);
    for (uint32_t k = 0; k < a->top_k; k++) {
        uint32_t e = (uint32_t)chosen[k], better = 0;
        ck_assert(is_open(a, x, e) && choice(a, x, e) <= last);
        last = choice(a, x, e);
        for (uint32_t i = 0; i < a->experts; i++)
            better += is_open(a, x, i) && choice(a, x, i) > last;
        ck_assert_uint_eq(better, k);
        double want = score(a, x, e) / (a->renormalize ? sum : 1) * (double)a->multiplier;
        ck_assert_msg(fabs(shares[k] - want) <= 1e-5 * want, "%g, not %g", (double)shares[k], want);
    }
}

static void check(struct noise *n, enum mtr_scoring scoring, uint32_t experts, uint32_t top_k,
                  uint32_t groups, bool biased)
{
    struct mtr_step_view step = {.tokens = ROWS};
    float *logits = noise_floats(n, ROWS * experts), *bias = noise_floats(n, experts);
    int32_t chosen[ROWS * 16], first_chosen[ROWS * 16];
    float shares[ROWS * 16], first[ROWS * 16];
    for (uint32_t i = 0; i < ROWS * experts; i++)
        logits[i] *= 5;
    struct mtr_route_args a = {&step,
                               logits,
                               biased ? bias : NULL,
                               first_chosen,
                               first,
                               experts,
                               top_k,
                               scoring,
                               noise_below(n, 2),
                               groups,
                               groups > 1 ? 2 : 1,
                               1.5f};
    run_kernel("route", MTR_ISA_PORTABLE, &a, 1, 1);
    a.chosen = chosen;
    a.shares = shares;
    FOR_EACH_ISA(isa)
    {
        poison(shares, sizeof shares);
        poison(chosen, sizeof chosen);
        run_kernel("route", isa, &a, 3, 1);
        same_bits(first, shares, ROWS * top_k, "route", isa);
        ck_assert_mem_eq(first_chosen, chosen, ROWS * top_k * sizeof *chosen);
        for (uint32_t r = 0; r < ROWS; r++)
            check_row(&a, logits + r * experts, chosen + r * top_k, shares + r * top_k);
    }
    free(logits);
    free(bias);
}

START_TEST(the_best_are_chosen)
{
    struct noise n = {7};
    for (int scoring = 0; scoring <= MTR_SCORE_SQRT_SOFTPLUS; scoring++)
        for (int biased = 0; biased < 2; biased++) {
            check(&n, (enum mtr_scoring)scoring, 8, 2, 1, biased);
            check(&n, (enum mtr_scoring)scoring, 1, 1, 1, biased);
            check(&n, (enum mtr_scoring)scoring, 131, 9, 1, biased);
            check(&n, (enum mtr_scoring)scoring, 32, 4, 4, biased);
        }
}
END_TEST

/* Equal logits, scores that are all 0, and what is no number: different experts, finite shares
 * where the logits are finite. */
START_TEST(odd_logits)
{
    static const float rows[][4] = {{1, 1, 1, 1},
                                    {-200, -200, -200, -200},
                                    {NAN, 1, NAN, 0},
                                    {NAN, NAN, NAN, NAN},
                                    {INFINITY, -INFINITY, 0, 0}};
    struct mtr_step_view step = {.tokens = 5};
    for (int scoring = 0; scoring <= MTR_SCORE_SQRT_SOFTPLUS; scoring++)
        FOR_EACH_ISA(isa)
        {
            int32_t chosen[5][3];
            float shares[5][3];
            struct mtr_route_args a = {&step, rows[0],           NULL, chosen[0], shares[0], 4,
                                       3,     (uint32_t)scoring, 1,    1,         1,         1};
            run_kernel("route", isa, &a, 1, 1);
            for (int r = 0; r < 5; r++)
                for (int k = 0; k < 3; k++) {
                    ck_assert(chosen[r][k] >= 0 && chosen[r][k] < 4);
                    ck_assert(r >= 2 || chosen[r][k] == k);
                    ck_assert(k == 0 || chosen[r][k] != chosen[r][0]);
                    ck_assert(k < 2 || chosen[r][k] != chosen[r][1]);
                    ck_assert(r >= 2 || isfinite(shares[r][k]));
                }
            ck_assert(scoring != MTR_SCORE_SIGMOID || shares[1][0] == 0.0f);
            ck_assert(scoring == MTR_SCORE_SOFTMAX || (chosen[2][0] == 1 && chosen[2][1] == 3));
        }
}
END_TEST

MTR_CHECK_MAIN("kernels/route")
{
    tcase_add_test(tc, the_best_are_chosen);
    tcase_add_test(tc, odd_logits);
}
