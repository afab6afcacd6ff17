/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/str.c"

#include <math.h>
#include <stdio.h>

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

START_TEST(comparisons)
{
    struct mtr_str s = MTR_STR("hello");
    ck_assert(mtr_str_is(s, "hello"));
    ck_assert(!mtr_str_is(s, "hell"));
    ck_assert(!mtr_str_equal(s, MTR_STR("hellO")));
    ck_assert(mtr_str_equal((struct mtr_str){NULL, 0}, MTR_STR("")));
    ck_assert(mtr_str_starts(s, MTR_STR("he")) && !mtr_str_starts(s, MTR_STR("hello!")));
    ck_assert(mtr_str_ends(s, MTR_STR("lo")) && !mtr_str_ends(s, MTR_STR("xhello")));
    ck_assert(!mtr_str_equal((struct mtr_str){"a\0b", 3}, (struct mtr_str){"a\0c", 3}));
    ck_assert_uint_eq(mtr_str(NULL).len, 0);
}
END_TEST

START_TEST(sub_clips)
{
    struct mtr_str s = MTR_STR("hello");
    ck_assert(mtr_str_is(mtr_str_sub(s, 1, 3), "ell"));
    ck_assert(mtr_str_is(mtr_str_sub(s, 3, 99), "lo"));
    ck_assert(mtr_str_is(mtr_str_sub(s, 9, 1), ""));
    ck_assert(mtr_str_is(mtr_str_sub(s, 2, SIZE_MAX), "llo"));
}
END_TEST

START_TEST(find)
{
    struct mtr_str s = MTR_STR("abcabc");
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR("bc"), 0), 1);
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR("bc"), 2), 4);
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR("bc"), 5), SIZE_MAX);
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR(""), 6), 6);
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR(""), 7), SIZE_MAX);
    ck_assert_uint_eq(mtr_str_find(s, MTR_STR("abcabcd"), 0), SIZE_MAX);
    ck_assert_uint_eq(mtr_str_find((struct mtr_str){"a\0b", 3}, (struct mtr_str){"\0b", 2}, 0), 1);
}
END_TEST

START_TEST(integers)
{
    int64_t i;
    uint64_t u;
    ck_assert(mtr_str_to_i64(MTR_STR("-9223372036854775808"), &i) && i == INT64_MIN);
    ck_assert(mtr_str_to_i64(MTR_STR("9223372036854775807"), &i) && i == INT64_MAX);
    ck_assert(mtr_str_to_i64(MTR_STR("-0"), &i) && i == 0);
    ck_assert(mtr_str_to_u64(MTR_STR("18446744073709551615"), &u) && u == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "1 ",
                                      " 1",
                                      "0x",
                                      "1.0",
                                      "--1",
                                      "1a",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)
        ck_assert_msg(!mtr_str_to_i64(mtr_str(bad[n]), &i), "'%s'", bad[n]);
    ck_assert(!mtr_str_to_u64(MTR_STR("18446744073709551616"), &u));
    ck_assert(!mtr_str_to_u64(MTR_STR("-1"), &u));
    ck_assert(!mtr_str_to_u64((struct mtr_str){"1\0", 2}, &u));
}
END_TEST

START_TEST(reals)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1.5",
                                       ".5",
                                       "5.",
                                       "+1e3",
                                       "1e22",
                                       "1e23",
                                       "1e-22",
                                       "1e-23",
                                       "1E+05",
                                       "123456789012345678901234567890",
                                       "0.1",
                                       "1e400",
                                       "-1e400",
                                       "1e-400",
                                       "4.9e-324",
                                       "2.2250738585072011e-308",
                                       "9007199254740993",
                                       "9007199254740992e22",
                                       "8.5e99999999999999999999",
                                       "0e99999999999",
                                       "1.7976931348623157e308",
                                       "0.00000000000000000000000000000000000001"};
    for (size_t n = 0; n < sizeof good / sizeof *good; n++) {
        double d;
        ck_assert_msg(mtr_str_to_f64(mtr_str(good[n]), &d), "'%s'", good[n]);
        double want = strtod(good[n], NULL);
        ck_assert_msg(memcmp(&d, &want, sizeof d) == 0, "'%s': %a, expected %a", good[n], d, want);
    }
    static const char *const bad[] = {"",    "-",   ".",    "e5",       "1e",   "1e+",   "inf",
                                      "nan", "0x1", "1.5 ", " 1",       "1.5.", "1e5.5", "--1",
                                      "+-1", "1,5", "NaN",  "Infinity", "-.e1"};
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        double d = 77;
        ck_assert_msg(!mtr_str_to_f64(mtr_str(bad[n]), &d), "'%s'", bad[n]);
        ck_assert(d == 77);
    }
}
END_TEST

START_TEST(reals_equal_strtod)
{
    for (uint32_t n = 0; n < 100000; n++) {
        uint32_t r[4];
        char text[64];
        double got, want, from;
        mtr_philox(1, n, 0, r);
        if (n & 1) {
            uint64_t bits = (uint64_t)r[0] << 32 | r[1];
            memcpy(&from, &bits, sizeof from);
            if (!isfinite(from))
                continue;
            snprintf(text, sizeof text, "%.*e", (int)(r[2] % 20), from);
        } else {
            snprintf(text, sizeof text, "%u.%ue%d", r[0], r[1] >> (r[3] & 31),
                     (int)(r[2] % 60) - 30);
        }
        want = strtod(text, NULL);
        ck_assert(mtr_str_to_f64(mtr_str(text), &got));
        ck_assert_msg(memcmp(&got, &want, sizeof got) == 0, "%s: %a, expected %a", text, got, want);
    }
}
END_TEST

START_TEST(very_long_numbers_are_refused)
{
    char text[MAX_NUMBER_BYTES + 2];
    double d;
    memset(text, '7', sizeof text);
    ck_assert(!mtr_str_to_f64((struct mtr_str){text, MAX_NUMBER_BYTES + 1}, &d));
    ck_assert(mtr_str_to_f64((struct mtr_str){text, MAX_NUMBER_BYTES}, &d));
    ck_assert(isinf(d));
    ck_assert(mtr_str_to_f64((struct mtr_str){text, 300}, &d));
    ck_assert_double_eq(d, strtod("7.7777777777777777777777e299", NULL));
}
END_TEST

MTR_CHECK_MAIN("base/str")
{
    tcase_add_test(tc, comparisons);
    tcase_add_test(tc, sub_clips);
    tcase_add_test(tc, find);
    tcase_add_test(tc, integers);
    tcase_add_test(tc, reals);
    tcase_add_test(tc, reals_equal_strtod);
    tcase_add_test(tc, very_long_numbers_are_refused);
}
