/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/program.c"

#include <stdlib.h>

#include "tests/unit/check_main.h"

static bool ask(const char *script, int limit_ms, struct mtr_str *out, struct mtr_error *err)
{
    static struct mtr_arena arena; /* of the last answer */
    char *const arguments[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
    *err = (struct mtr_error){0};
    mtr_arena_free(&arena);
    mtr_arena_init(&arena, 1 << 20);
    return mtr_program_ask(&arena, arguments, limit_ms, out, err);
}

START_TEST(hears_what_a_program_says)
{
    struct mtr_str out;
    struct mtr_error err;
    ck_assert_msg(ask("printf hello; printf ' again'", 10000, &out, &err), "%s", err.message);
    ck_assert(mtr_str_equal(out, MTR_STR("hello again")));
    ck_assert(ask("true", 10000, &out, &err));
    ck_assert_uint_eq(out.len, 0);
    ck_assert(ask("cat", 10000, &out, &err)); /* its input is empty */
}
END_TEST

START_TEST(a_bad_end_is_an_error)
{
    struct mtr_str out;
    struct mtr_error err;
    ck_assert(!ask("echo x; exit 3", 10000, &out, &err));
    ck_assert_str_eq(err.message, "/bin/sh ended with status 3");
    ck_assert(!ask("kill -9 $$", 10000, &out, &err));
    ck_assert_str_eq(err.message, "/bin/sh was killed by signal 9");
    ck_assert_int_eq(err.code, MTR_IO);
}
END_TEST

START_TEST(time_and_size_are_bounded)
{
    struct mtr_str out;
    struct mtr_error err;
    ck_assert(!ask("exec sleep 100", 50, &out, &err));
    ck_assert_int_eq(err.code, MTR_TIMEOUT);
    ck_assert(!ask("exec cat /dev/zero", 10000, &out, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
}
END_TEST

START_TEST(what_can_t_be_run_is_named)
{
    struct mtr_arena arena;
    struct mtr_str out;
    struct mtr_error err = {0};
    char *const arguments[] = {(char *)"/nowhere/at-all", NULL};
    mtr_arena_init(&arena, 0);
    ck_assert(!mtr_program_ask(&arena, arguments, 1000, &out, &err));
    ck_assert_str_eq(err.message, "can't run /nowhere/at-all: No such file or directory");
    ck_assert_ptr_null(mtr_program_find(&arena, "metrale-gardener", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "metrale-gardener is not beside test_base_program"));
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("base/program")
{
    tcase_add_test(tc, hears_what_a_program_says);
    tcase_add_test(tc, a_bad_end_is_an_error);
    tcase_add_test(tc, time_and_size_are_bounded);
    if (!getenv("MESON_EXE_WRAPPER")) /* an emulator's child starts, and ends with status 127 */
        tcase_add_test(tc, what_can_t_be_run_is_named);
}
