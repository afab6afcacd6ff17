/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Strings to ids and back, holes, doubles, and growth. */
#include "broker/text/vocab.c"

#include <stdio.h>

#include "tests/unit/check_main.h"

START_TEST(there_and_back)
{
    struct mtr_vocab v = {0};
    char name[32];
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "token%u", i * 7);
        ck_assert(mtr_vocab_put(&v, i * 2, mtr_str(name), false, NULL)); /* odd ids are holes */
    }
    for (uint32_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "token%u", i * 7);
        ck_assert_uint_eq(mtr_vocab_find(&v, mtr_str(name)), i * 2);
        ck_assert(mtr_str_is(mtr_vocab_get(&v, i * 2), name));
        ck_assert(!mtr_vocab_has(&v, i * 2 + 1));
    }
    ck_assert_uint_eq(mtr_vocab_find(&v, MTR_STR("token1")), MTR_TOKEN_NONE);
    ck_assert_uint_eq(v.size, 39999);
    ck_assert(!v.doubles);
    mtr_vocab_free(&v);
}
END_TEST

START_TEST(doubles)
{
    struct mtr_vocab v = {0};
    ck_assert(mtr_vocab_put(&v, 5, MTR_STR("x"), false, NULL));
    ck_assert(mtr_vocab_put(&v, 6, MTR_STR("x"), false, NULL));
    ck_assert_uint_eq(mtr_vocab_find(&v, MTR_STR("x")), 5);
    ck_assert(mtr_vocab_put(&v, 7, MTR_STR("x"), true, NULL));
    ck_assert_uint_eq(mtr_vocab_find(&v, MTR_STR("x")), 7);
    ck_assert(mtr_str_is(mtr_vocab_get(&v, 5), "x"));
    ck_assert(v.doubles);
    ck_assert(mtr_vocab_set(&v, 9, MTR_STR("hidden"), NULL));
    ck_assert_uint_eq(mtr_vocab_find(&v, MTR_STR("hidden")), MTR_TOKEN_NONE);
    mtr_vocab_free(&v);
}
END_TEST

START_TEST(pairs)
{
    struct mtr_vocab v = {0};
    char big[600];
    memset(big, 'b', sizeof big);
    ck_assert(mtr_vocab_put(&v, 1, MTR_STR("abc"), false, NULL));
    ck_assert(mtr_vocab_put(&v, 2, (struct mtr_str){big, sizeof big}, false, NULL));
    ck_assert(mtr_vocab_put(&v, 3, MTR_STR(""), false, NULL));
    for (uint32_t hint = 0; hint < 5; hint++) {
        ck_assert_uint_eq(mtr_vocab_find_pair(&v, MTR_STR("a"), MTR_STR("bc"), hint), 1);
        ck_assert_uint_eq(mtr_vocab_find_pair(&v, MTR_STR("ab"), MTR_STR("cd"), hint),
                          MTR_TOKEN_NONE);
        ck_assert_uint_eq(
            mtr_vocab_find_pair(&v, (struct mtr_str){big, 100}, (struct mtr_str){big, 500}, hint),
            2);
        ck_assert_uint_eq(mtr_vocab_find_pair(&v, MTR_STR(""), MTR_STR(""), hint), 3);
    }
    mtr_vocab_free(&v);
}
END_TEST

START_TEST(limits)
{
    struct mtr_vocab v = {0};
    struct mtr_error err = {0};
    ck_assert(!mtr_vocab_put(&v, MTR_TOKENIZER_MAX_TOKENS, MTR_STR("x"), false, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    ck_assert_uint_eq(mtr_vocab_find(&v, MTR_STR("x")), MTR_TOKEN_NONE);
    ck_assert(mtr_vocab_get(&v, 0).ptr == NULL);
    mtr_vocab_free(&v);
}
END_TEST

MTR_CHECK_MAIN("text/vocab")
{
    tcase_add_test(tc, there_and_back);
    tcase_add_test(tc, doubles);
    tcase_add_test(tc, pairs);
    tcase_add_test(tc, limits);
}
