/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Flags: both spellings, every kind, every refusal. */
#include "common/base/flags.c"

#include "tests/unit/check_main.h"

static bool yes, no;
static uint32_t number;
static uint64_t large;
static double real;
static const char *text, *choice, *positional[2];
static size_t positionals;
static struct mtr_error err;

static const struct mtr_flag flags[] = {
    {.kind = MTR_FLAG_SECTION, .help = "Things"},
    {"yes", MTR_FLAG_BOOL, &yes, NULL, "says yes", 0, 0, NULL},
    {"no-thing", MTR_FLAG_NOT, &no, NULL, "says no", 0, 0, NULL},
    {"number", MTR_FLAG_U32, &number, "N", "a number", 1, 100, NULL},
    {"large", MTR_FLAG_U64, &large, "N", "a large number", 0, 1e15, NULL},
    {"real", MTR_FLAG_REAL, &real, "X", "a real number", 0, 1, NULL},
    {"text", MTR_FLAG_STRING, &text, "TEXT", "a text", 0, 0, NULL},
    {"choice", MTR_FLAG_CHOICE, &choice, NULL, "a choice", 0, 0, "one|two|three"},
};
#define COUNT (sizeof flags / sizeof flags[0])

static bool parse(int argc, const char *const *argv)
{
    yes = false;
    no = true;
    number = 7;
    memset(&err, 0, sizeof err);
    return mtr_flags_parse(flags, COUNT, argc, (char **)argv, positional, 2, &positionals, &err);
}
#define PARSE(...)                                                                                 \
    parse((int)(sizeof((const char *[]){"p", __VA_ARGS__}) / sizeof(char *)),                      \
          (const char *[]){"p", __VA_ARGS__})

START_TEST(values)
{
    ck_assert(PARSE("--yes", "--no-thing", "--number", "5", "--large=123456789012", "model",
                    "--real", "0.25", "--text=a=b", "--choice", "two", "--", "--yes"));
    ck_assert(yes && !no && number == 5 && large == 123456789012u && real == 0.25);
    ck_assert_str_eq(text, "a=b");
    ck_assert_str_eq(choice, "two");
    ck_assert_uint_eq(positionals, 2);
    ck_assert_str_eq(positional[1], "--yes");
}
END_TEST

START_TEST(refusals)
{
    ck_assert(!PARSE("--yes=1"));
    ck_assert(!PARSE("--number"));
    ck_assert(!PARSE("--number", "0"));
    ck_assert(!PARSE("--number", "101"));
    ck_assert(!PARSE("--number", "-1"));
    ck_assert(!PARSE("--number", "5x"));
    ck_assert(!PARSE("--real", "nan"));
    ck_assert(!PARSE("--real", "1.1"));
    ck_assert(!PARSE("--text", ""));
    ck_assert(!PARSE("--choice", "on"));
    ck_assert(!PARSE("--choice", "one|two"));
    ck_assert(!PARSE("-y"));
    ck_assert(!PARSE("a", "b", "c"));
    ck_assert(!PARSE("--numbre", "5"));
    ck_assert_ptr_nonnull(strstr(err.message, "did you mean --number?"));
    ck_assert(!PARSE("--nothing-like-it"));
    ck_assert_ptr_null(strstr(err.message, "did you mean"));
}
END_TEST

START_TEST(help)
{
    struct mtr_buf out = {0};
    number = 7;
    ck_assert(mtr_flags_help(flags, COUNT, &out));
    ck_assert_ptr_nonnull(strstr(out.data, "\nThings:\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "  --number N "));
    ck_assert_ptr_nonnull(strstr(out.data, "a number [7]\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "--choice one|two|three"));
    mtr_buf_free(&out);
}
END_TEST

MTR_CHECK_MAIN("base/flags")
{
    tcase_add_test(tc, values);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, help);
}
