/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <string.h>

#include "tests/unit/check_main.h"
#include "worker/backend/host/machine.c"

START_TEST(name_and_memory)
{
    char name[64] = "";
    mtr_machine_name(name, sizeof name);
    ck_assert_uint_gt(strlen(name), 0);
    ck_assert_ptr_null(strchr(name, '\n'));
    uint64_t total = 0, available = 0;
    mtr_machine_memory(&total, &available);
    ck_assert_uint_gt(available, 0);
    ck_assert_uint_le(available, total);
}
END_TEST

START_TEST(missing_files_and_keys)
{
    char out[8];
    ck_assert(!find_line("/nonexistent", "key", out, sizeof out));
    ck_assert(!find_line("/proc/meminfo", "NoSuchKey", out, sizeof out));
    ck_assert(find_line("/proc/meminfo", "MemTotal", out, sizeof out));
    ck_assert(number_in("/nonexistent") == UINT64_MAX);
    ck_assert(number_in("/proc/meminfo") == UINT64_MAX);
}
END_TEST

MTR_CHECK_MAIN("backend/machine")
{
    tcase_add_test(tc, name_and_memory);
    tcase_add_test(tc, missing_files_and_keys);
}
