/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_report.c"

#include <string.h>

#include "tests/unit/check_main.h"

static struct mtr_bench_point points[2];
static struct mtr_bench_run run;
static struct mtr_arena arena;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    points[0] = (struct mtr_bench_point){.prompt_tokens_asked = 32,
                                         .width = 1,
                                         .requests = 4,
                                         .tokens_per_s = 50,
                                         .ttft_ms = {10, 20},
                                         .counted_by_server = true};
    points[1] = points[0];
    points[1].width = 8;
    points[1].tokens_per_s = 123.25;
    points[1].ttft_ms.p99 = 90;
    run = (struct mtr_bench_run){
        .id = "run-1",
        .date = "2026-01-02T03:04:05Z",
        .bench = "decode",
        .url = "http://h:1",
        .model = "a \"b\"",
        .version = "1.2",
        .params = {.prompt_tokens = "32", .widths = "1,8", .api = "chat", .seed = 77, .warm = true},
        .point_count = 2,
        .points = points};
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

static void add_failure(uint32_t count)
{
    points[1].failed = points[1].failures[0].count = count;
    points[1].failure_count = 1;
    snprintf(points[1].failures[0].text, MTR_BENCH_ERROR_BYTES, "status 503");
}

START_TEST(gates_judge)
{
    mtr_bench_judge(&run);
    ck_assert(strcmp(run.status, "passed") == 0 && !run.reason[0]);
    run.gates = (struct mtr_bench_gates){.min_tokens_per_s = 123, .max_ttft_ms = 90};
    mtr_bench_judge(&run);
    ck_assert_str_eq(run.status, "passed");
    run.gates.min_tokens_per_s = 124;
    mtr_bench_judge(&run);
    ck_assert(strcmp(run.status, "refused") == 0 && strstr(run.reason, "123.2 tokens/s"));
    run.gates = (struct mtr_bench_gates){.max_ttft_ms = 89};
    mtr_bench_judge(&run);
    ck_assert(strcmp(run.status, "refused") == 0 && strstr(run.reason, "90.0 ms"));
}
END_TEST

START_TEST(failures_judge)
{
    add_failure(1);
    mtr_bench_judge(&run);
    ck_assert(strcmp(run.status, "refused") == 0 && strstr(run.reason, "1 of 8 requests"));
    run.gates.max_failed = 1;
    mtr_bench_judge(&run);
    ck_assert_str_eq(run.status, "passed");
    run.gates.max_failed = 100;
    points[0].failed = points[1].failed = 4;
    snprintf(points[0].failures[0].text, MTR_BENCH_ERROR_BYTES, "gone");
    mtr_bench_judge(&run);
    ck_assert(strcmp(run.status, "failed") == 0 && strstr(run.reason, "gone"));
}
END_TEST

START_TEST(json_and_table_say_the_same)
{
    struct mtr_buf line = {0}, table = {0};
    add_failure(3);
    mtr_bench_judge(&run);
    mtr_bench_run_json(&line, &run);
    ck_assert_ptr_null(strchr(line.data, '\n'));
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_buf_view(&line), MTR_JSON_STRICT, NULL);
    ck_assert_ptr_nonnull(v);
    ck_assert(mtr_str_is(text_of(v, "model"), "a \"b\"") && number_of(v, "parameters.seed") == 77);
    ck_assert(mtr_json_path(v, "parameters.warm")->boolean);
    ck_assert(mtr_str_is(text_of(v, "parameters.widths"), "1,8"));
    ck_assert_uint_eq(mtr_json_get(v, "parameters")->count, MTR_BENCH_PARAMS);
    ck_assert_uint_eq(mtr_json_get(v, "results")->count, 2);
    mtr_bench_run_table(&table, v);
    ck_assert(strstr(table.data, "run-1") && strstr(table.data, " 123.2 "));
    ck_assert(strstr(table.data, "prompt 32, width 8: 3 x status 503") &&
              strstr(table.data, "refused: 3 of"));
    ck_assert_ptr_null(strstr(table.data, "pieces"));
    mtr_buf_clear(&table);
    mtr_bench_history_row(&table, v);
    ck_assert(strstr(table.data, "decode") && strstr(table.data, "123.2  a \"b\" at http://h:1\n"));
    mtr_buf_free(&line);
    mtr_buf_free(&table);
}
END_TEST

/* Lines of other versions, or of nobody, do no harm. */
START_TEST(any_json_has_a_table)
{
    static const char *const texts[] = {"{}", "{\"results\":[{}]}", "{\"results\":5,\"id\":[]}",
                                        "[]", "{\"results\":[1,{\"errors\":[2]}]}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mtr_buf table = {0};
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(texts[i]), MTR_JSON_STRICT, NULL);
        mtr_bench_run_table(&table, v);
        mtr_bench_history_row(&table, v);
        ck_assert(table.len > 0 && !table.failed);
        mtr_buf_free(&table);
    }
}
END_TEST

START_TEST(names_do_not_command_the_terminal)
{
    const struct mtr_json *v = mtr_json_parse(
        &arena, MTR_STR("{\"model\":\"m\\u001b[2J\\u0000\\u007f\\u009b\u00e9\",\"results\":[]}"),
        MTR_JSON_STRICT, NULL);
    struct mtr_buf table = {0};
    mtr_bench_run_table(&table, v);
    mtr_bench_history_row(&table, v);
    ck_assert_ptr_nonnull(strstr(table.data, " of m?[2J"));
    ck_assert_ptr_null(memchr(table.data, 0x1b, table.len));
    ck_assert_ptr_null(strstr(table.data, "\xc2\x9b"));
    mtr_buf_free(&table);
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_report")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, gates_judge);
    tcase_add_test(tc, failures_judge);
    tcase_add_test(tc, json_and_table_say_the_same);
    tcase_add_test(tc, any_json_has_a_table);
    tcase_add_test(tc, names_do_not_command_the_terminal);
}
