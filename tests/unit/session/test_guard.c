/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/session/guard.c"

#include <stdlib.h>

#include "tests/unit/check_main.h"

/* Sanitizers map memory of their own, which no limit of data survives; an emulator in user mode
 * leaves limits of memory out, since they would be its own. */
#if !defined(__SANITIZE_ADDRESS__)
START_TEST(memory_beyond_the_slack_is_refused)
{
    struct mtr_log log;
    mtr_log_init(&log, "test");
    mtr_guard_memory(&log, 300u << 20);
    void *fits = malloc(MTR_GUARD_SLACK_BYTES + (200u << 20)), *too_much = malloc(300u << 20);
    ck_assert_ptr_nonnull(fits);
    ck_assert_ptr_null(too_much);
    free(fits);
    free(too_much);
}
END_TEST
#endif

START_TEST(a_living_parent_is_no_failure)
{
    struct mtr_error err;
    ck_assert_msg(mtr_guard_parent(&err), "%s", err.message);
    prctl(PR_SET_PDEATHSIG, 0);
}
END_TEST

MTR_CHECK_MAIN("session/guard")
{
#if !defined(__SANITIZE_ADDRESS__)
    if (!getenv("MESON_EXE_WRAPPER"))
        tcase_add_test(tc, memory_beyond_the_slack_is_refused);
#endif
    tcase_add_test(tc, a_living_parent_is_no_failure);
}
