/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_stats.c"

#include "tests/unit/check_main.h"

START_TEST(percentiles_are_nearest_ranks)
{
    double one[] = {7}, few[] = {30, 10, 20, 40}, many[200];
    for (int i = 0; i < 200; i++)
        many[i] = 200 - i;
    ck_assert(mtr_bench_percentile(NULL, 0, 50) == 0);
    ck_assert(mtr_bench_percentile(one, 1, 50) == 7 && mtr_bench_percentile(one, 1, 99) == 7);
    ck_assert(mtr_bench_percentile(few, 4, 50) == 20 && mtr_bench_percentile(few, 4, 51) == 30);
    ck_assert(mtr_bench_percentile(few, 4, 99) == 40 && mtr_bench_percentile(few, 4, 0) == 10);
    ck_assert(mtr_bench_percentile(many, 200, 99) == 198);
    ck_assert(mtr_bench_percentile(many, 200, 100) == 200);
}
END_TEST

START_TEST(a_point_of_three_requests)
{
    struct mtr_bench_sample samples[3] = {
        {.start_ns = 0,
         .first_ns = 10 * MTR_NS_PER_MS,
         .last_ns = 1010 * MTR_NS_PER_MS,
         .pieces = 6,
         .prompt_tokens = 8,
         .cached_tokens = 2,
         .output_tokens = 11,
         .has_usage = true},
        {.start_ns = 5,
         .first_ns = 20 * MTR_NS_PER_MS + 5,
         .last_ns = 520 * MTR_NS_PER_MS + 5,
         .pieces = 11,
         .prompt_tokens = 8,
         .output_tokens = 11,
         .has_usage = true},
        {.pieces = 50, .output_tokens = 50, .error = "cut"},
    };
    uint64_t ns[2] = {3 * MTR_NS_PER_MS, MTR_NS_PER_MS};
    struct mtr_bench_load load = {.width = 2,
                                  .begun = 3,
                                  .samples = samples,
                                  .gaps = {.ns = ns, .count = 2},
                                  .wall_ns = 2 * MTR_NS_PER_S};
    struct mtr_bench_point p;
    ck_assert(mtr_bench_point_make(&p, &load, 8, NULL));
    ck_assert(p.requests == 3 && p.failed == 1 && p.width == 2 && p.prompt_tokens_asked == 8);
    ck_assert(p.prompt_tokens == 16 && p.cached_tokens == 2 && p.output_tokens == 22);
    ck_assert(p.tokens_per_s == 11 && p.wall_s == 2 && p.counted_by_server);
    ck_assert(p.stream_tokens_per_s == 10); /* of 10 and 20, the lower one is p50 */
    ck_assert(p.ttft_ms.p50 == 10 && p.ttft_ms.p99 == 20);
    ck_assert(p.gap_ms.p50 == 1 && p.gap_ms.p99 == 3);
    ck_assert(p.failure_count == 1 && p.failures[0].count == 1);
    ck_assert_str_eq(p.failures[0].text, "cut");
}
END_TEST

START_TEST(without_usage_pieces_are_tokens)
{
    struct mtr_bench_sample samples[2] = {
        {.first_ns = 1, .last_ns = 2, .pieces = 3},
        {.first_ns = 1, .last_ns = 2, .pieces = 9, .output_tokens = 4, .has_usage = true}};
    struct mtr_bench_load load = {.begun = 2, .samples = samples, .wall_ns = MTR_NS_PER_S};
    struct mtr_bench_point p;
    ck_assert(mtr_bench_point_make(&p, &load, 1, NULL));
    ck_assert(p.output_tokens == 7 && !p.counted_by_server);
}
END_TEST

START_TEST(nothing_was_answered)
{
    struct mtr_bench_sample sample = {.error = "no"};
    struct mtr_bench_load load = {.begun = 1, .samples = &sample};
    struct mtr_bench_point p;
    ck_assert(mtr_bench_point_make(&p, &load, 1, NULL));
    ck_assert(p.failed == 1 && p.tokens_per_s == 0 && p.ttft_ms.p99 == 0 && p.gap_ms.p50 == 0);
}
END_TEST

START_TEST(errors_are_gathered)
{
    struct mtr_bench_point p = {0};
    char text[8];
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof text, "e%d", i % 20);
        count_failure(&p, text);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < p.failure_count; i++)
        sum += p.failures[i].count;
    ck_assert(p.failure_count == MTR_BENCH_MAX_ERRORS && p.failed == 40 && sum == 40);
    ck_assert(p.failures[0].count == 2);
    ck_assert_str_eq(p.failures[MTR_BENCH_MAX_ERRORS - 1].text, "other errors");
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_stats")
{
    tcase_add_test(tc, percentiles_are_nearest_ranks);
    tcase_add_test(tc, a_point_of_three_requests);
    tcase_add_test(tc, without_usage_pieces_are_tokens);
    tcase_add_test(tc, nothing_was_answered);
    tcase_add_test(tc, errors_are_gathered);
}
