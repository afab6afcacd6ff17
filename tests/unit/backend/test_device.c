/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which embedded target a CUDA device gets. */
#include "worker/backend/cuda/internal.h"

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

static void expect(int major, int minor, const char *hardware, const char *want, bool cubin)
{
    struct mtr_cuda_device d = {.major = major, .minor = minor, .name = "X"};
    struct mtr_error err = {0};
    const struct mtr_kernel_target *t = mtr_cuda_find_target(&d, hardware, &err);
    if (!want) {
        ck_assert_ptr_null(t);
        ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
        return;
    }
    ck_assert_msg(t != NULL, "%s", err.message);
    ck_assert_str_eq(t->hardware, want);
    ck_assert_int_eq(mtr_cuda_fits(t->modules[0].cubin, &d), cubin);
    ck_assert(cubin || mtr_cuda_fits(t->modules[0].ptx, &d));
}

START_TEST(a_device_has_the_class_that_was_compiled_for_it)
{
    expect(9, 0, NULL, "hopper", true);
    expect(10, 0, NULL, "b200", true);
    expect(12, 1, NULL, "gb10", true);
    expect(9, 0, "hopper", "hopper", true);
}
END_TEST

START_TEST(other_devices_run_the_baseline_as_ptx)
{
    expect(10, 3, NULL, "gb10", false);
    expect(12, 0, NULL, "gb10", false);
    expect(9, 0, "gb10", "gb10", false);
}
END_TEST

START_TEST(what_fits_nothing_is_refused)
{
    struct mtr_cuda_device d = {.major = 7, .minor = 5, .name = "T4"};
    struct mtr_error err = {0};
    expect(8, 9, NULL, NULL, false);
    expect(8, 0, "hopper", NULL, false);
    expect(9, 0, "abacus", NULL, false);
    mtr_cuda_find_target(&d, "hopper", &err);
    ck_assert_str_eq(err.message,
                     "this build has no kernels of class hopper for T4 with compute capability "
                     "7.5; it has: b200 (sm_100a), gb10 (sm_121f), hopper (sm_90a)");
}
END_TEST

START_TEST(images_past_the_end_fit_nothing)
{
    struct mtr_cuda_device d = {.major = 9};
    ck_assert(!mtr_cuda_fits(MTR_KERNEL_NONE, &d));
}
END_TEST

START_TEST(a_model_without_kernels_of_its_own_changes_nothing)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    const struct mtr_kernel_target *before = mtr_cuda_of(b)->target;
    b->ops->use_target(b, "abacus", "bf16");
    ck_assert_ptr_eq(mtr_cuda_of(b)->target, before);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("backend/device")
{
    tcase_add_test(tc, a_model_without_kernels_of_its_own_changes_nothing);
    tcase_add_test(tc, a_device_has_the_class_that_was_compiled_for_it);
    tcase_add_test(tc, other_devices_run_the_baseline_as_ptx);
    tcase_add_test(tc, what_fits_nothing_is_refused);
    tcase_add_test(tc, images_past_the_end_fit_nothing);
}
