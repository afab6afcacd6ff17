/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/address.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

START_TEST(a_server_is_found_by_its_port)
{
    struct mtr_arena arena;
    char expected[64];
    mtr_arena_init(&arena, 0);
    setenv("XDG_RUNTIME_DIR", "/run/user/1000", 1);
    const char *dir = mtr_default_run_dir(&arena, 8888);
    ck_assert_str_eq(dir, "/run/user/1000/metrale-8888");
    ck_assert_str_eq(mtr_plan_address(&arena, dir), "ipc:///run/user/1000/metrale-8888/plan.sock");
    ck_assert_str_eq(mtr_admin_address(&arena, dir),
                     "ipc:///run/user/1000/metrale-8888/admin.sock");
    unsetenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(expected, sizeof(expected), "/run/metrale-1");
    else
        snprintf(expected, sizeof(expected), "/tmp/metrale-%u-1", (unsigned)geteuid());
    ck_assert_str_eq(mtr_default_run_dir(&arena, 1), expected);
    mtr_arena_free(&arena);
}
END_TEST

START_TEST(a_full_arena_gives_none)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 8);
    ck_assert_ptr_null(mtr_default_run_dir(&arena, 8888));
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("wire/address")
{
    tcase_add_test(tc, a_server_is_found_by_its_port);
    tcase_add_test(tc, a_full_arena_gives_none);
}
