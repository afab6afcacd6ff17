/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opening the CUDA driver, and what its results mean. */
#include "worker/backend/cuda/driver.h"

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

START_TEST(finds_all_functions)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_cuda_driver d;
    ck_assert(mtr_cuda_open(&d, r.path, NULL));
    ck_assert_int_eq(d.version, 13000);
    ck_assert_ptr_nonnull(d.parameter_info);
    mtr_cuda_close(&d);
    ck_assert_ptr_null(d.handle);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(a_library_that_is_no_driver_is_refused)
{
    struct mtr_cuda_driver d;
    struct mtr_error err = {0};
    ck_assert(!mtr_cuda_open(&d, "libm.so.6", &err));
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "the CUDA driver has no cuGetErrorName"));
}
END_TEST

START_TEST(a_driver_without_a_device_says_so)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_cuda_driver d;
    struct mtr_error err = {0};
    r.script("cuInit", 0, 100);
    ck_assert(!mtr_cuda_open(&d, r.path, &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_str_eq(err.message,
                     "the CUDA driver does not start: CUDA_ERROR_NO_DEVICE (as scripted)");
    cuda_rig_close(&r);
}
END_TEST

START_TEST(a_driver_that_does_not_tell_its_version_says_so)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_cuda_driver d;
    struct mtr_error err = {0};
    r.script("cuDriverGetVersion", 0, 999);
    ck_assert(!mtr_cuda_open(&d, r.path, &err));
    ck_assert_int_eq(err.code, MTR_IO); /* not taken for a machine without a device */
    ck_assert_ptr_nonnull(strstr(err.message, "does not tell its version"));
    cuda_rig_close(&r);
}
END_TEST

START_TEST(some_errors_kill_the_context)
{
    static const int sticky[] = {4, 214, 220, 700, 702, 710, 715, 716, 719, 999};
    static const int other[] = {0, 1, 2, 100, 200, 218, 400, 500, 600, 701, 801, 900, 901};
    for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
        ck_assert_msg(mtr_cuda_is_sticky(sticky[i]), "%d", sticky[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_msg(!mtr_cuda_is_sticky(other[i]), "%d", other[i]);
}
END_TEST

MTR_CHECK_MAIN("backend/driver")
{
    tcase_add_test(tc, finds_all_functions);
    tcase_add_test(tc, a_library_that_is_no_driver_is_refused);
    tcase_add_test(tc, a_driver_without_a_device_says_so);
    tcase_add_test(tc, a_driver_that_does_not_tell_its_version_says_so);
    tcase_add_test(tc, some_errors_kill_the_context);
}
