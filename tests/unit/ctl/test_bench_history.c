/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/bench_history.c"

#include "tests/unit/check_main.h"

#define RUN(id) "{\"id\":\"" id "\",\"benchmark\":\"decode\",\"results\":[]}"

static char folder[] = "/tmp/mtr_history_XXXXXX";
static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_bench_history h;
static const char *path;

static void setup(void)
{
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    mtr_arena_init(&arena, 0);
    setenv("XDG_STATE_HOME", mtr_arena_printf(&arena, "%s/a/b", folder), 1);
    path = mtr_bench_history_path(&arena, &err);
}

static void teardown(void)
{
    char *parts[] = {"a/b/metrale/bench.jsonl", "a/b/metrale", "a/b", "a", ""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        remove(mtr_arena_printf(&arena, "%s/%s", folder, parts[i]));
    mtr_arena_free(&arena);
}

static void add_raw(const char *text)
{
    FILE *f = fopen(path, "a");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool is(uint32_t i, const char *id)
{
    return i < h.count && mtr_str_is(mtr_json_get(h.runs[i], "id")->text, id);
}

START_TEST(where_it_is)
{
    ck_assert(strstr(path, "/a/b/metrale/bench.jsonl"));
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", "/home/x", 1);
    ck_assert_str_eq(mtr_bench_history_path(&arena, &err),
                     "/home/x/.local/state/metrale/bench.jsonl");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    ck_assert(!mtr_bench_history_path(&arena, &err) && strstr(err.message, "XDG_STATE_HOME"));
}
END_TEST

START_TEST(runs_come_back_in_order)
{
    ck_assert(mtr_bench_history_read(&arena, path, &h, &err) && h.count == 0);
    ck_assert_msg(mtr_bench_history_add(path, MTR_STR(RUN("run-1")), &err), "%s", err.message);
    ck_assert(mtr_bench_history_add(path, MTR_STR(RUN("run-2")), &err));
    ck_assert(mtr_bench_history_read(&arena, path, &h, &err));
    ck_assert(h.count == 2 && is(0, "run-1") && is(1, "run-2") && h.damaged == 0);
    struct stat st;
    ck_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
}
END_TEST

START_TEST(damage_is_stepped_over)
{
    mtr_bench_history_add(path, MTR_STR(RUN("run-1")), &err);
    add_raw("\n\n{}\nnonsense\n[1]\n{\"id\":5,\"benchmark\":\"x\",\"results\":[]}\n{\"id\":\"cut");
    mtr_bench_history_add(path, MTR_STR(RUN("run-2")), &err);
    ck_assert(mtr_bench_history_read(&arena, path, &h, &err));
    ck_assert(h.count == 2 && is(0, "run-1") && is(1, "run-2"));
    ck_assert_uint_eq(h.damaged, 5);
}
END_TEST

START_TEST(a_place_that_can_not_be_written)
{
    ck_assert(!mtr_bench_history_add("/proc/none/bench.jsonl", MTR_STR("{}"), &err));
    ck_assert_ptr_nonnull(strstr(err.message, "/proc/none/bench.jsonl"));
}
END_TEST

START_TEST(what_is_no_file_is_no_empty_history)
{
    ck_assert(!mtr_bench_history_read(&arena, folder, &h, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "no readable file"));
}
END_TEST

MTR_CHECK_MAIN("ctl/bench_history")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, where_it_is);
    tcase_add_test(tc, runs_come_back_in_order);
    tcase_add_test(tc, damage_is_stepped_over);
    tcase_add_test(tc, a_place_that_can_not_be_written);
    tcase_add_test(tc, what_is_no_file_is_no_empty_history);
}
