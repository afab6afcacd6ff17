/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Three kinds of pattern, one question. */
#include "broker/text/pattern.c"

#include "tests/unit/check_main.h"

static void finds(const struct mtr_pattern *p, const char *text, bool empties, const char *want)
{
    struct mtr_regex_scanner s = {0};
    struct mtr_buf got = {0};
    struct mtr_str t = mtr_str(text);
    size_t start, end, from = 0;
    mtr_regex_begin(&s, t.len);
    mtr_buf_puts(&got, "");
    while (from <= t.len && mtr_pattern_next(p, &s, t, from, empties, &start, &end)) {
        mtr_buf_printf(&got, "%zu-%zu ", start, end);
        from = end > start ? end : end + 1;
    }
    ck_assert_str_eq(got.data, want);
    mtr_buf_free(&got);
    mtr_regex_scanner_free(&s);
}

START_TEST(kinds)
{
    struct mtr_pattern p;
    struct mtr_ranges set = {0};
    ck_assert(mtr_pattern_from_string(&p, MTR_STR("ab"), NULL));
    finds(&p, "abxabab", false, "0-2 3-5 5-7 ");
    mtr_pattern_free(&p);
    ck_assert(mtr_pattern_from_string(&p, MTR_STR(""), NULL));
    finds(&p, "ab", true, "");
    mtr_pattern_free(&p);
    ck_assert(mtr_pattern_from_regex(&p, MTR_STR("b*"), NULL));
    finds(&p, "abb", false, "1-3 ");
    finds(&p, "abb", true, "0-0 1-3 3-3 ");
    mtr_pattern_free(&p);
    mtr_ranges_add(&set, 'a', 'b');
    ck_assert(mtr_pattern_from_ranges(&p, &set, NULL));
    finds(&p,
          "xab\xc3\xa9"
          "b",
          false, "1-2 2-3 5-6 ");
    mtr_pattern_free(&p);
}
END_TEST

MTR_CHECK_MAIN("text/pattern")
{
    tcase_add_test(tc, kinds);
}
