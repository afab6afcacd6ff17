/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_prompt.c"

#include <string.h>

#include "tests/unit/check_main.h"

static uint32_t count_words(const struct mtr_buf *b)
{
    uint32_t n = b->len > 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == ' ';
    return n;
}

START_TEST(a_prompt_is_its_seed_and_number)
{
    struct mtr_buf a = {0}, b = {0};
    mtr_bench_prompt(&a, 7, 3, 40);
    mtr_bench_prompt(&b, 7, 3, 40);
    ck_assert_str_eq(a.data, b.data);
    ck_assert_uint_eq(count_words(&a), 40);
    mtr_buf_clear(&b);
    mtr_bench_prompt(&b, 8, 3, 40);
    ck_assert_str_ne(a.data, b.data);
    mtr_buf_free(&a);
    mtr_buf_free(&b);
}
END_TEST

/* Each of many numbers has first words of its own. */
START_TEST(numbers_part_in_their_first_words)
{
    enum { COUNT = 5000 };
    struct mtr_buf prompts[COUNT] = {0};
    for (uint32_t i = 0; i < COUNT; i++)
        mtr_bench_prompt(&prompts[i], 1, i * 17, NUMBER_WORDS);
    for (uint32_t i = 1; i < COUNT; i++)
        for (uint32_t j = i > 64 ? i - 64 : 0; j < i; j++)
            ck_assert_str_ne(prompts[i].data, prompts[j].data);
    for (uint32_t i = 0; i < COUNT; i++)
        mtr_buf_free(&prompts[i]);
}
END_TEST

START_TEST(words_for_tokens)
{
    struct mtr_bench_fit fit = mtr_bench_fit(16, 40, 48, 104); /* 8 and 2 a word */
    ck_assert(fit.base == 8 && fit.per_word == 2);
    ck_assert_uint_eq(mtr_bench_words_for(fit, 128), 60);
    ck_assert_uint_eq(mtr_bench_words_for(fit, 3), 1);
    fit = mtr_bench_fit(16, 0, 48, 0); /* a server that does not count */
    ck_assert_uint_eq(mtr_bench_words_for(fit, 128), 128);
    fit = mtr_bench_fit(16, 10, 48, 11);
    ck_assert_uint_eq(mtr_bench_words_for(fit, 1u << 20), MAX_WORDS);
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_prompt")
{
    tcase_add_test(tc, a_prompt_is_its_seed_and_number);
    tcase_add_test(tc, numbers_part_in_their_first_words);
    tcase_add_test(tc, words_for_tokens);
}
