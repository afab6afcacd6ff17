/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/clock.c"

#include "tests/unit/check_main.h"

START_TEST(monotonic_runs_forward_in_nanoseconds)
{
    struct mtr_clock c = mtr_clock_monotonic();
    uint64_t before = mtr_now_ns(&c);
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    uint64_t after = mtr_now_ns(&c);
    ck_assert_uint_ge(after - before, 2 * MTR_NS_PER_MS);
    ck_assert_uint_lt(after - before, 30 * MTR_NS_PER_S);
}
END_TEST

START_TEST(wall_time_is_of_this_age)
{
    ck_assert_int_gt(mtr_wall_seconds(), 1700000000);
}
END_TEST

MTR_CHECK_MAIN("base/clock")
{
    tcase_add_test(tc, monotonic_runs_forward_in_nanoseconds);
    tcase_add_test(tc, wall_time_is_of_this_age);
}
