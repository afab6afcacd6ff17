/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/vocab.c"

#include <stdlib.h>

#include "tests/unit/check_main.h"

#define MAX 5000

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f * 20 - 10;
}

START_TEST(exp_is_close_to_the_library)
{
    for (float x = -30; x <= 0; x += 0.0037f)
        ck_assert_float_le(fabsf(exp_negative(x) / expf(x) - 1), 2e-7f);
    ck_assert_float_eq(exp_negative(0), 1);
    ck_assert_float_lt(exp_negative(-INFINITY), 1e-34f);
    ck_assert_float_lt(exp_negative(NAN), 1e-34f);
}
END_TEST

START_TEST(argmax_takes_the_lowest_of_equals)
{
    float x[MAX];
    uint32_t seed = 1;
    for (uint32_t n = 1; n < MAX; n += 37) {
        for (uint32_t i = 0; i < n; i++)
            x[i] = noise(&seed);
        uint32_t at = n * 2 / 3, later = at + (n - at) / 2;
        x[at] = x[later] = 50;
        ck_assert_uint_eq(mtr_argmax(x, n), at);
        x[0] = NAN;
        ck_assert_uint_eq(mtr_argmax(x, n), at ? at : later);
    }
}
END_TEST

START_TEST(argmax_of_nothing_is_0)
{
    float x[2048];
    for (uint32_t i = 0; i < 2048; i++)
        x[i] = i % 2 ? NAN : -INFINITY;
    ck_assert_uint_eq(mtr_argmax(x, 2048), 0);
}
END_TEST

START_TEST(sum_exp_matches_doubles)
{
    float x[MAX];
    uint32_t seed = 2;
    double want = 0;
    for (uint32_t i = 0; i < MAX; i++)
        x[i] = noise(&seed);
    for (uint32_t i = 0; i < MAX; i++)
        want += exp((double)x[i] - 10);
    ck_assert_double_eq_tol(mtr_sum_exp(x, MAX, 10) / want, 1, 1e-6);
}
END_TEST

START_TEST(spread_skips_what_is_not_finite)
{
    const float x[] = {1, -INFINITY, 3, NAN};
    double mean, deviation;
    mtr_spread(x, 4, &mean, &deviation);
    ck_assert_double_eq(mean, 2);
    ck_assert_double_eq(deviation, 1);
    mtr_spread(x + 1, 1, &mean, &deviation);
    ck_assert_double_eq(deviation, 0);
}
END_TEST

START_TEST(rank_counts_equals_by_id)
{
    const float x[] = {1, 3, 2, 3, 2};
    const uint32_t want[] = {4, 0, 2, 1, 3};
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(mtr_rank_of(x, 5, i), want[i]);
}
END_TEST

START_TEST(weights_are_rounded_and_floored)
{
    const float x[] = {2, 2 - 0.6931472f, -100, 1, NAN};
    float scaled[5];
    uint32_t w[5];
    uint64_t total = mtr_exp_weights(x, 5, 2, 1, 1.2f, scaled, w);
    ck_assert_uint_eq(total, (uint64_t)w[0] + w[1]);
    ck_assert_uint_eq(w[0], 1u << 30);
    ck_assert_uint_le(w[1] - ((1u << 29) - 128), 256);
    ck_assert_uint_eq(w[2], 0);
    ck_assert_uint_eq(w[3], 0);
    ck_assert_uint_eq(w[4], 0);
    ck_assert_float_eq(scaled[3], -1);
}
END_TEST

START_TEST(select_finds_all_in_order)
{
    float x[MAX];
    uint32_t out[MAX], seed = 3;
    for (uint32_t i = 0; i < MAX; i++)
        x[i] = noise(&seed);
    x[MAX - 1] = 3;
    x[7] = NAN;
    uint32_t n = mtr_select(x, MAX, -2, -6, -5, out), at = 0;
    for (uint32_t i = 0; i < MAX; i++)
        if (x[i] * -2 >= -6 && x[i] * -2 < -5)
            ck_assert_uint_eq(out[at++], i);
    ck_assert_uint_eq(at, n);
    ck_assert_uint_eq(out[n - 1], MAX - 1);
}
END_TEST

MTR_CHECK_MAIN("exec/vocab")
{
    tcase_add_test(tc, exp_is_close_to_the_library);
    tcase_add_test(tc, argmax_takes_the_lowest_of_equals);
    tcase_add_test(tc, argmax_of_nothing_is_0);
    tcase_add_test(tc, sum_exp_matches_doubles);
    tcase_add_test(tc, spread_skips_what_is_not_finite);
    tcase_add_test(tc, rank_counts_equals_by_id);
    tcase_add_test(tc, weights_are_rounded_and_floored);
    tcase_add_test(tc, select_finds_all_in_order);
}
