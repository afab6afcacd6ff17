/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The embedded kernels hang together: every target's modules have an image of its architecture
 * with bytes and functions.
 */
#include "kernels/images/images.h"

#include <string.h>

#include "tests/unit/check_main.h"

START_TEST(modules_have_images_of_their_architecture)
{
    uint32_t image_count, target_count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&image_count);
    const struct mtr_kernel_target *targets = mtr_kernel_targets(&target_count);
    for (uint32_t t = 0; t < target_count; t++)
        for (uint32_t m = 0; m < targets[t].module_count; m++) {
            const struct mtr_kernel_module *module = &targets[t].modules[m];
            ck_assert_uint_lt(module->cubin, image_count);
            ck_assert_str_eq(images[module->cubin].arch, targets[t].arch);
            ck_assert_ptr_nonnull(strstr(images[module->cubin].source, module->name));
            if (m > 0)
                ck_assert_str_lt(targets[t].modules[m - 1].name, module->name);
            if (module->ptx == MTR_KERNEL_NONE)
                continue;
            ck_assert_uint_lt(module->ptx, image_count);
            ck_assert_uint_eq(images[module->ptx].function_count,
                              images[module->cubin].function_count);
        }
}
END_TEST

START_TEST(images_have_bytes)
{
    uint32_t count;
    const struct mtr_kernel_image *images = mtr_kernel_images(&count);
    for (uint32_t i = 0; i < count; i++) {
        const char *bytes = mtr_kernel_image_data(i);
        ck_assert_uint_gt(images[i].function_count, 0);
        ck_assert_uint_eq(strlen(images[i].closure), 64);
        if (strncmp(images[i].arch, "compute_", 8) == 0)
            ck_assert_uint_eq(strlen(bytes), images[i].bytes);
        else
            ck_assert_int_eq(memcmp(bytes, "\177ELF", 4), 0);
    }
    ck_assert_ptr_null(mtr_kernel_image_data(count));
    ck_assert_ptr_null(mtr_kernel_image_data(MTR_KERNEL_NONE));
}
END_TEST

MTR_CHECK_MAIN("kernels/images")
{
    tcase_add_test(tc, modules_have_images_of_their_architecture);
    tcase_add_test(tc, images_have_bytes);
}
