/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/logprobs.c"

#include "tests/unit/check_main.h"

#define N 3000

static void check_against_doubles(const float *x, uint32_t n, uint32_t token, uint32_t top)
{
    uint32_t ids[MTR_LOGPROBS_MAX_TOP];
    float values[MTR_LOGPROBS_MAX_TOP];
    struct mtr_token_logprobs p = {.top_count = top};
    mtr_logprobs(x, n, token, ids, values, &p);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i]);
    ck_assert_double_eq_tol((double)p.logprob, (double)x[token] - log(sum), 1e-5);
    for (uint32_t i = 0; i < top; i++) {
        ck_assert_uint_eq(mtr_rank_of(x, n, p.top_ids[i]), i);
        ck_assert_double_eq_tol((double)p.top_logprobs[i], (double)x[p.top_ids[i]] - log(sum),
                                1e-5);
    }
    ck_assert_uint_eq(p.rank, mtr_rank_of(x, n, token));
}

START_TEST(matches_a_softmax_in_doubles)
{
    static float x[N];
    uint32_t seed = 3;
    for (uint32_t i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 24) / 16 - 8; /* many equals */
    }
    check_against_doubles(x, N, 17, 0);
    check_against_doubles(x, N, N - 1, 1);
    check_against_doubles(x, N, 0, 20);
    check_against_doubles(x, 40, 3, 40);
}
END_TEST

START_TEST(nan_logits_are_last)
{
    const float x[] = {NAN, 1, NAN, 2};
    uint32_t ids[4];
    float values[4];
    struct mtr_token_logprobs p = {.top_count = 4};
    mtr_logprobs(x, 4, 3, ids, values, &p);
    ck_assert_uint_eq(ids[0], 3);
    ck_assert_uint_eq(ids[1], 1);
    ck_assert_uint_eq(ids[2], 0);
    ck_assert_uint_eq(p.rank, 0);
}
END_TEST

MTR_CHECK_MAIN("exec/logprobs")
{
    tcase_add_test(tc, matches_a_softmax_in_doubles);
    tcase_add_test(tc, nan_logits_are_last);
}
