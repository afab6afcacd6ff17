/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ctl/kernels.c"

#include "tests/unit/ctl/captured.h"

static struct captured c;

static bool has_kernels(void)
{
    uint32_t count;
    mtr_kernel_targets(&count);
    return count > 0;
}

START_TEST(lists_every_target)
{
    uint32_t count;
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&count);
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "list");
    ck_assert_int_eq(c.status, has_kernels() ? 0 : 1);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_msg(strstr(c.out, targets[i].hardware) && strstr(c.out, targets[i].arch), "%s",
                      c.out);
    if (!has_kernels())
        ck_assert_ptr_nonnull(strstr(c.err, "it was made without nvcc"));
}
END_TEST

START_TEST(shows_functions_and_closures)
{
    if (!has_kernels())
        return;
    uint32_t count;
    const struct mtr_kernel_target *t = mtr_kernel_targets(&count);
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "show", t->hardware, "elementwise");
    ck_assert_int_eq(c.status, 0);
    ck_assert_ptr_nonnull(strstr(c.out, "kernels/gb10/common/elementwise.cu"));
    ck_assert_ptr_nonnull(strstr(c.out, "\n  add "));
    ck_assert_ptr_null(strstr(c.out, "rms_norm"));
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "closure", t->hardware);
    ck_assert_int_eq(c.status, 0);
    ck_assert_ptr_nonnull(strstr(c.out, t->closure));
    ck_assert_ptr_nonnull(strstr(c.out, "kernels/gb10/common/rms_norm.cu"));
}
END_TEST

START_TEST(what_is_not_there_is_named)
{
    if (!has_kernels())
        return;
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "show", "abacus");
    ck_assert_int_eq(c.status, 1);
    ck_assert_ptr_nonnull(strstr(c.err, "this build has no target abacus; it has: "));
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "show", "gb10", "abacus");
    ck_assert_int_eq(c.status, 1);
    ck_assert_ptr_nonnull(strstr(c.err, "gb10 has no module abacus"));
}
END_TEST

START_TEST(a_wrong_call_is_refused)
{
    CAPTURE(&c, mtr_ctl_kernels, "kernels", "sort");
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
    CAPTURE(&c, mtr_ctl_kernels, "kernels");
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
}
END_TEST

START_TEST(a_leaf_has_a_longer_name)
{
    const struct mtr_kernel_target leaf = {.hardware = "gb10", .model = "m", .quant = "q"};
    const struct mtr_kernel_target common = {.hardware = "gb10", .model = "*", .quant = "*"};
    char name[128];
    ck_assert_str_eq(name_of(&leaf, name, sizeof name), "gb10/m/q");
    ck_assert_str_eq(name_of(&common, name, sizeof name), "gb10");
}
END_TEST

MTR_CHECK_MAIN("ctl/kernels")
{
    tcase_add_test(tc, lists_every_target);
    tcase_add_test(tc, shows_functions_and_closures);
    tcase_add_test(tc, what_is_not_there_is_named);
    tcase_add_test(tc, a_wrong_call_is_refused);
    tcase_add_test(tc, a_leaf_has_a_longer_name);
}
