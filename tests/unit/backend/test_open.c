/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which backend a class's name opens. */
#include "worker/backend/open.h"

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

#define NO_DRIVER "/nowhere/libcuda.so.1"

/* The class that is opened, or NULL with err filled. */
static const char *opened(const char *hardware, uint32_t device, const char *driver,
                          struct mtr_error *note, struct mtr_error *err)
{
    static struct mtr_device_info info;
    struct mtr_device_info probed;
    struct mtr_backend_options o = {
        .hardware = hardware, .device = device, .threads = 1, .driver = driver};
    *note = *err = (struct mtr_error){0};
    struct mtr_backend *b = mtr_backend_open(&o, note, err);
    ck_assert_int_eq(b != NULL, mtr_backend_probe(&o, &probed, NULL, NULL));
    if (!b)
        return NULL;
    ck_assert(b->ops->info(b, &info, NULL));
    ck_assert_str_eq(probed.hardware, info.hardware);
    ck_assert_str_eq(probed.name, info.name);
    b->ops->destroy(b);
    return info.hardware;
}

START_TEST(without_a_driver_auto_is_the_host)
{
    struct mtr_error note, err;
    ck_assert_str_eq(opened("auto", 0, NO_DRIVER, &note, &err), "host");
    ck_assert_ptr_nonnull(strstr(note.message, "there is no CUDA driver"));
    ck_assert_str_eq(opened(NULL, 0, NO_DRIVER, &note, &err), "host");
    ck_assert_str_eq(opened("host", 0, NO_DRIVER, &note, &err), "host");
    ck_assert_int_eq(note.code, MTR_OK);
}
END_TEST

START_TEST(a_class_that_is_named_is_not_replaced)
{
    struct mtr_error note, err;
    ck_assert_ptr_null(opened("hopper", 0, NO_DRIVER, &note, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "there is no CUDA driver"));
    ck_assert_ptr_null(opened("auto", 3, NO_DRIVER, &note, &err)); /* a device was asked for */
}
END_TEST

#ifdef MTR_HAVE_KERNELS
START_TEST(with_a_device_auto_is_its_class)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_error note, err;
    ck_assert_str_eq(opened("auto", 0, r.path, &note, &err), "hopper");
    ck_assert_int_eq(note.code, MTR_OK);
    ck_assert_str_eq(opened("host", 0, r.path, &note, &err), "host");
    ck_assert_str_eq(opened("gb10", 0, r.path, &note, &err), "gb10");
    ck_assert_ptr_null(opened("auto", 1, r.path, &note, &err));
    ck_assert_str_eq(err.message, "there is no device 1; this machine has 1");
    cuda_rig_close(&r);
}
END_TEST

START_TEST(a_device_that_nothing_here_can_use_leaves_the_host)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_error note, err;
    r.capability(6, 1);
    ck_assert_str_eq(opened("auto", 0, r.path, &note, &err), "host");
    ck_assert_ptr_nonnull(strstr(note.message, "this build has no kernels for Scripted GPU 0"));
    cuda_rig_close(&r);
}
END_TEST

START_TEST(a_device_that_does_not_work_is_told)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_error note, err;
    r.script("cuInit", 0, 999);
    ck_assert_ptr_null(opened("auto", 0, r.path, &note, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "the CUDA driver does not start"));
    cuda_rig_close(&r);
}
END_TEST
#endif

MTR_CHECK_MAIN("backend/open")
{
    tcase_add_test(tc, without_a_driver_auto_is_the_host);
    tcase_add_test(tc, a_class_that_is_named_is_not_replaced);
#ifdef MTR_HAVE_KERNELS
    tcase_add_test(tc, with_a_device_auto_is_its_class);
    tcase_add_test(tc, a_device_that_nothing_here_can_use_leaves_the_host);
    tcase_add_test(tc, a_device_that_does_not_work_is_told);
#endif
}
