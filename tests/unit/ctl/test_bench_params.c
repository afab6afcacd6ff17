/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_params.c"

#include "tests/unit/check_main.h"

static struct mtr_error err;
static struct mtr_arena arena;
static struct mtr_bench_params p;
static struct mtr_flag flags[MTR_BENCH_PARAMS];

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    p = benches[0].defaults;
    mtr_bench_flags(&p, flags);
    err = (struct mtr_error){0};
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

/* The words after --set rewriting and parsing, into p. */
static bool set(int argc, char **argv)
{
    size_t n;
    char **out = mtr_bench_expand_sets(&arena, flags, &argc, argv, &err);
    return out && mtr_flags_parse(flags, MTR_BENCH_PARAMS, argc, out, NULL, 0, &n, &err);
}

#define SET(...)                                                                                   \
    set((int)(sizeof((char *[]){"bench", __VA_ARGS__}) / sizeof(char *)),                          \
        (char *[]){"bench", __VA_ARGS__, NULL})

START_TEST(every_default_is_allowed)
{
    size_t count;
    struct mtr_bench_list prompts, widths;
    const struct mtr_bench *b = mtr_benches(&count);
    ck_assert_uint_eq(count, 3);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_eq(mtr_bench_find(b[i].name, &err), &b[i]);
        ck_assert_msg(mtr_bench_params_check(&b[i].defaults, &prompts, &widths, &err), "%s",
                      err.message);
        ck_assert(prompts.count && widths.count);
    }
    ck_assert_ptr_null(mtr_bench_find("decod", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "'decod'"));
}
END_TEST

START_TEST(set_is_the_flag)
{
    ck_assert_msg(SET("--set", "repeats=7", "--set=temperature=0.5", "--seed", "9", "--set",
                      "warm=true", "--set", "ignore-eos=false", "--set", "widths=1,2"),
                  "%s", err.message);
    ck_assert(p.repeats == 7 && p.temperature == 0.5 && p.seed == 9 && p.warm && !p.ignore_eos);
    ck_assert_str_eq(p.widths, "1,2");
}
END_TEST

START_TEST(wrong_ones_are_named)
{
    ck_assert(!SET("--set", "width=3") && strstr(err.message, "'width'") &&
              strstr(err.message, "ignore-eos"));
    ck_assert(!SET("--set", "=3") && strstr(err.message, "''"));
    ck_assert(!SET("--set", "repeats") && strstr(err.message, "NAME=VALUE"));
    ck_assert(!SET("--set") && strstr(err.message, "needs a value"));
    ck_assert(!SET("--set", "repeats=0") && strstr(err.message, "from 1 to 100000"));
    ck_assert(!SET("--set", "warm=1") && strstr(err.message, "true or false"));
    ck_assert(!SET("--set", "temperature=2.1") && strstr(err.message, "from 0 to 2"));
    ck_assert(!SET("--set", "api=embeddings") && strstr(err.message, "chat|completions"));
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

START_TEST(lists)
{
    struct mtr_bench_list l;
    ck_assert(mtr_bench_list_read("widths", "4,1,16", 1, 16, &l, &err));
    ck_assert(l.count == 3 && l.values[0] == 4 && l.values[1] == 1 && l.values[2] == 16);
    static const char *const wrong[] = {"",   ",",    "1,", ",1", "1,,2", "0",
                                        "17", "1 ,2", "-1", "x",  "1;2",  "18446744073709551617",
                                        "3,3"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        err.message[0] = '\0';
        ck_assert_msg(!mtr_bench_list_read("widths", wrong[i], 1, 16, &l, &err), "%s", wrong[i]);
        ck_assert_ptr_nonnull(strstr(err.message, "--widths"));
    }
}
END_TEST

START_TEST(lists_have_an_end)
{
    struct mtr_bench_list l;
    char text[512];
    int len = 0;
    for (int i = 1; i <= MTR_BENCH_MAX_LIST; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s%d", i > 1 ? "," : "", i);
    ck_assert(mtr_bench_list_read("widths", text, 1, 100, &l, &err));
    snprintf(text + len, sizeof text - (size_t)len, ",99");
    ck_assert(!mtr_bench_list_read("widths", text, 1, 100, &l, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "at most 32"));
}
END_TEST

START_TEST(a_run_has_an_end)
{
    struct mtr_bench_list prompts, widths;
    p.widths = "4096";
    p.repeats = 100000;
    ck_assert(!mtr_bench_params_check(&p, &prompts, &widths, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "409600000 requests"));
    p.widths = "4097";
    ck_assert(!mtr_bench_params_check(&p, &prompts, &widths, &err));
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_params")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_default_is_allowed);
    tcase_add_test(tc, set_is_the_flag);
    tcase_add_test(tc, wrong_ones_are_named);
    tcase_add_test(tc, lists);
    tcase_add_test(tc, lists_have_an_end);
    tcase_add_test(tc, a_run_has_an_end);
}
