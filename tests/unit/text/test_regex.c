/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Matches in the order of the dialect, bounds, and what is refused. */
#include "broker/text/regex.c"

#include "tests/unit/check_main.h"

/* All matches as "[a][b]": gaps are left out. */
static void matches(const char *pattern, const char *text, const char *want)
{
    struct mtr_error err = {0};
    struct mtr_regex *r = mtr_regex_compile(mtr_str(pattern), &err);
    ck_assert_msg(r != NULL, "%s: %s", pattern, err.message);
    struct mtr_regex_scanner s = {0};
    struct mtr_buf got = {0};
    struct mtr_str t = mtr_str(text);
    size_t start, end;
    mtr_regex_begin(&s, t.len);
    mtr_buf_puts(&got, "");
    for (size_t from = 0; from <= t.len && mtr_regex_find(r, &s, t, from, &start, &end);) {
        mtr_buf_printf(&got, "[%.*s]", (int)(end - start), t.ptr + start);
        from = end > start   ? end
               : end < t.len ? end + (size_t)mtr_utf8_length(t.ptr[end])
                             : end + 1;
    }
    ck_assert_msg(strcmp(got.data, want) == 0, "%s on %s: got %s, want %s", pattern, text, got.data,
                  want);
    ck_assert(!s.failed);
    mtr_buf_free(&got);
    mtr_regex_scanner_free(&s);
    mtr_regex_free(r);
}

START_TEST(first_alternative_wins)
{
    matches("a|ab|abc", "abc", "[a]");
    matches("abc|ab|a", "abab", "[ab][ab]");
    matches("(?:a|ab)(?:c|bcd)", "abcd", "[abcd]");
    matches("x*", "", "[]");
    matches("", "ab", "[][][]");
}
END_TEST

START_TEST(repeats)
{
    matches("a+?b", "aab", "[aab]");
    matches("a+?", "aaa", "[a][a][a]");
    matches("a{2,3}", "aaaaaaa", "[aaa][aaa]");
    matches("a{2}", "aaaaa", "[aa][aa]");
    matches("a{,2}b", "aaab", "[aab]");
    matches("a{1,2}+", "aaaaa", "[aaaaa]"); /* a repeat of a repeat, not possessive */
    matches("a++a", "aaa", "");
    matches("a*+b", "aab", "[aab]");
    matches("(?>a|ab)c", "abc", "");
    matches("(ab)*c", "ababc", "[ababc]");
    matches("(?:ab){2}", "ababab", "[abab]");
    matches("a{x", "a{x", "[a{x]");
    matches("\\p{N}{1,3}", "1234567", "[123][456][7]");
}
END_TEST

START_TEST(classes)
{
    matches("[^\\s\\p{L}\\p{N}]+", "a !? 1.", "[!?][.]");
    matches("[a-c&&[^b]]+", "abcab", "[a][ca]");
    matches("[]a]+", "a]b", "[a]]");
    matches("[a\\-z]+", "a-zb", "[a-z]");
    matches("[\\[\\]]", "[x]", "[[][]]");
    matches("[^(\\s|[.,])]+", "ab, (c)|d.", "[ab][c][d]"); /* a class in a class */
    matches("[[:punct:]]+", "a<=b!", "[<=][!]");
    matches("\\p{Punct}+", "a<=b!", "[!]");
    matches("[[:^digit:]]+", "a1b", "[a][b]");
    matches("\\p{Han}+", "ab\xe4\xb8\xad\xe6\x96\x87 x", "[\xe4\xb8\xad\xe6\x96\x87]");
    matches("\\P{L}+|\\p{^Ll}", "aB1", "[B][1]");
    matches("[\\x{4e00}-\\x{9fff}]", "\xe4\xb8\xad", "[\xe4\xb8\xad]");
    matches(".", "a\n\xc3\xa9", "[a][\xc3\xa9]");
}
END_TEST

START_TEST(case_folds)
{
    matches("(?i:'s|'LL)", "'S'll's'lL's", "['S]['ll]['s]['lL]['s]");
    matches("(?i)k", "Kk\xe2\x84\xaa", "[K][k][\xe2\x84\xaa]");
    matches("(?i:s)", "\xc5\xbf", "[\xc5\xbf]");
    matches("(?i)[^a]", "aAb", "[b]");
    matches("a(?i)b|c", "aBaC",
            "[aB][aC]"); /* the flag and the choice belong to the group's rest */
}
END_TEST

START_TEST(looking_around)
{
    matches("\\s+(?!\\S)", "a   b", "[  ]");
    matches("a(?=b)", "aab", "[a]");
    matches("(?<=a)b", "abcb", "[b]");
    matches("(?<!a)b", "abcb", "[b]");
    matches("(?<!a|cc)b", "abccbb", "[b]");
    matches("(?=(\\d{3})+(?!\\d))", "1234567", "[][]");
    matches("^a|b$", "a\na\nb", "[a][a][b]");
    matches("\\Aa|b\\z|c\\Z", "aab\nc\n", "[a][c]");
    matches("\\bfoo\\b", "foo food foo", "[foo][foo]");
    matches("o\\B", "food", "[o][o]");
    matches("\\R", "a\r\nb\n", "[\r\n][\n]");
}
END_TEST

START_TEST(layout)
{
    matches("(?x) a b # comment\n c", "abc", "[abc]");
    matches("a(?#note)b", "ab", "[ab]");
    matches("(?<name>a)(?:b)(c)", "abc", "[abc]");
    matches("(?m:a.b)", "a\nb", "[a\nb]");
}
END_TEST

static void refused(const char *pattern, enum mtr_code code)
{
    struct mtr_error err = {0};
    struct mtr_regex *r = mtr_regex_compile(mtr_str(pattern), &err);
    ck_assert_msg(r == NULL, "%s", pattern);
    ck_assert_msg(err.code == code, "%s: %s", pattern, err.message);
    ck_assert(strstr(err.message, "regular expression") != NULL);
}

START_TEST(refusals)
{
    const char *invalid[] = {"(",   ")",      "a)",    "[a",          "a\\",       "*",
                             "+a",  "[z-a]",  "\\p{L", "\\x{110000}", "\\x{d800}", "(?<n",
                             "(?i", "a{3,2}", "(?#",   "\xff"};
    const char *unsupported[] = {"(a)\\1", "\\X",           "\\G",   "(?<=a+)b",
                                 "(a*)*",  "\\p{Nonsense}", "(?~a)", "[[:alpha:]]"};
    for (size_t i = 0; i < sizeof invalid / sizeof invalid[0]; i++)
        refused(invalid[i], MTR_INVALID);
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        if (i != 7)
            refused(unsupported[i], MTR_UNSUPPORTED);
    refused("a{20000}", MTR_TOO_LARGE);
    refused("((((a{100}){100}){100}){100}){100}", MTR_TOO_LARGE);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    struct mtr_buf b = {0};
    for (int i = 0; i < 5000; i++)
        mtr_buf_puts(&b, i % 2 ? "(" : "[");
    struct mtr_error err = {0};
    ck_assert(mtr_regex_compile(mtr_buf_view(&b), &err) == NULL);
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    mtr_buf_free(&b);
}
END_TEST

START_TEST(work_is_bounded)
{
    struct mtr_regex *r = mtr_regex_compile(MTR_STR("(?:a|a)*b"), NULL);
    struct mtr_regex_scanner s = {0};
    char text[4000];
    size_t start, end;
    ck_assert(r != NULL);
    memset(text, 'a', sizeof text);
    mtr_regex_begin(&s, sizeof text);
    ck_assert(!mtr_regex_find(r, &s, (struct mtr_str){text, sizeof text}, 0, &start, &end));
    ck_assert(s.failed);
    mtr_regex_scanner_free(&s);
    mtr_regex_free(r);
}
END_TEST

MTR_CHECK_MAIN("text/regex")
{
    tcase_add_test(tc, first_alternative_wins);
    tcase_add_test(tc, repeats);
    tcase_add_test(tc, classes);
    tcase_add_test(tc, case_folds);
    tcase_add_test(tc, looking_around);
    tcase_add_test(tc, layout);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, deep_nesting_is_refused);
    tcase_add_test(tc, work_is_bounded);
}
