/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/circuit/suggest.c"

#include "tests/unit/check_main.h"

START_TEST(distances)
{
    ck_assert_uint_eq(mtr_edit_distance(MTR_STR("kitten"), MTR_STR("sitting"), 9), 3);
    ck_assert_uint_eq(mtr_edit_distance(MTR_STR(""), MTR_STR("abc"), 9), 3);
    ck_assert_uint_eq(mtr_edit_distance(MTR_STR("abc"), MTR_STR("abc"), 9), 0);
    ck_assert_uint_eq(mtr_edit_distance(MTR_STR("kitten"), MTR_STR("sitting"), 2), 2);
    char big[100];
    memset(big, 'a', sizeof big);
    ck_assert_uint_eq(mtr_edit_distance((struct mtr_str){big, 100}, MTR_STR("a"), 4), 4);
}
END_TEST

static const char *suggest(const char *wrong)
{
    static const char *const names[] = {"hidden_size", "head_dim", "vocab_size"};
    const char *best = NULL;
    uint32_t distance = MTR_SUGGEST_LIMIT;
    for (size_t i = 0; i < 3; i++)
        mtr_suggest(mtr_str(wrong), names[i], &best, &distance);
    return best;
}

START_TEST(suggestions)
{
    ck_assert_str_eq(suggest("hiden_size"), "hidden_size");
    ck_assert_str_eq(suggest("head_dims"), "head_dim");
    ck_assert_ptr_null(suggest("quantity"));
    ck_assert_ptr_null(suggest("x"));
    ck_assert_ptr_null(suggest(""));
}
END_TEST

MTR_CHECK_MAIN("circuit/suggest")
{
    tcase_add_test(tc, distances);
    tcase_add_test(tc, suggestions);
}
