/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The command around the measuring; tests/api/test_bench.py runs it against servers. */
#include "ctl/bench.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;
static struct mtr_arena arena;
static struct mtr_error err;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    err = (struct mtr_error){0};
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

START_TEST(urls_are_cleaned)
{
    static const char *const cases[][2] = {
        {"http://h:1", "http://h:1"},
        {"http://h:1/", "http://h:1"},
        {"https://h/v1", "https://h"},
        {"http://h/api/v1///", "http://h/api"},
        {"h:1", NULL},
        {"file:///etc/passwd", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench_options o = {.url = cases[i][0]};
        ck_assert_int_eq(clean_url(&arena, &o, &err), cases[i][1] != NULL);
        if (cases[i][1])
            ck_assert_str_eq(o.url, cases[i][1]);
        else
            ck_assert_ptr_nonnull(strstr(err.message, cases[i][0]));
    }
}
END_TEST

START_TEST(seeds_are_drawn_or_kept)
{
    struct bench_options a = {0}, b = {.params.seed = 9};
    ck_assert(draw_seed(&a, &err) && a.params.seed != 0);
    ck_assert(draw_seed(&b, &err) && b.params.seed == 9);
}
END_TEST

START_TEST(keys_come_from_flag_or_environment)
{
    struct bench_options o = {0};
    setenv("METRALE_API_KEY", "from-there", 1);
    ck_assert(check_key(&o, &err));
    ck_assert_str_eq(o.api_key, "from-there");
    o.api_key = "given";
    ck_assert(check_key(&o, &err));
    ck_assert_str_eq(o.api_key, "given");
    o.api_key = "a\r\nb: c";
    ck_assert(!check_key(&o, &err));
    unsetenv("METRALE_API_KEY");
}
END_TEST

START_TEST(statuses_and_exits)
{
    struct mtr_bench_run r = {.status = "passed"};
    ck_assert_int_eq(exit_status(&r, false), 0);
    r.status = "refused";
    ck_assert_int_eq(exit_status(&r, false), 2);
    ck_assert_int_eq(exit_status(&r, true), 0);
    r.status = "failed";
    ck_assert_int_eq(exit_status(&r, true), 1);
    ck_assert_int_eq(exit_status(&r, false), 1);
    r.status = "cancelled";
    ck_assert_int_eq(exit_status(&r, false), 1);
}
END_TEST

START_TEST(the_last_wanted_runs)
{
    static const char *const texts[] = {
        "{\"id\":\"1\",\"benchmark\":\"decode\"}", "{\"id\":\"2\",\"benchmark\":\"ttft\"}",
        "{\"id\":\"3\",\"benchmark\":\"decode\"}", "{\"id\":\"4\",\"benchmark\":\"decode\"}"};
    const struct mtr_json *runs[4];
    struct mtr_bench_history h = {.runs = runs, .count = 4};
    for (int i = 0; i < 4; i++)
        runs[i] = mtr_json_parse(&arena, mtr_str(texts[i]), MTR_JSON_STRICT, NULL);
    struct history_options o = {.limit = 2};
    ck_assert_uint_eq(first_wanted(&o, &h), 2);
    o.limit = 9;
    ck_assert_uint_eq(first_wanted(&o, &h), 0);
    o = (struct history_options){.id = "decode", .limit = 3};
    ck_assert_uint_eq(first_wanted(&o, &h), 0);
    o.limit = 2;
    ck_assert_uint_eq(first_wanted(&o, &h), 2);
    o = (struct history_options){.run = "2", .limit = 1};
    ck_assert_uint_eq(first_wanted(&o, &h), 1);
}
END_TEST

START_TEST(words_of_the_command)
{
    CAPTURE(&c, mtr_ctl_bench, "bench");
    ck_assert(c.status == MTR_EXIT_FAILED && strstr(c.err, "run, list or history"));
    CAPTURE(&c, mtr_ctl_bench, "bench", "run", "decod");
    ck_assert(c.status == MTR_EXIT_FAILED && strstr(c.err, "'decod'"));
    CAPTURE(&c, mtr_ctl_bench, "bench", "list");
    ck_assert(c.status == 0 && strstr(c.out, "concurrency-sweep"));
    CAPTURE(&c, mtr_ctl_bench, "bench", "list", "ttft");
    ck_assert(c.status == 0 && strstr(c.out, "128,512,2048") && strstr(c.out, "--repeats"));
    CAPTURE(&c, mtr_ctl_bench, "bench", "run", "ttft", "--help");
    ck_assert(c.status == 0 && strstr(c.out, "--max-ttft-ms") && strstr(c.out, "128,512,2048"));
}
END_TEST

MTR_CHECK_MAIN("ctl/bench")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, urls_are_cleaned);
    tcase_add_test(tc, seeds_are_drawn_or_kept);
    tcase_add_test(tc, keys_come_from_flag_or_environment);
    tcase_add_test(tc, statuses_and_exits);
    tcase_add_test(tc, the_last_wanted_runs);
    tcase_add_test(tc, words_of_the_command);
}
