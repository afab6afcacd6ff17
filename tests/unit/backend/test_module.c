/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Looking up kernels in embedded modules. */
#include "worker/backend/cuda/internal.h"

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

static uint32_t occurrences(const char *text, const char *word)
{
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

START_TEST(a_module_is_loaded_once_and_for_the_device)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    ck_assert_ptr_nonnull(b->ops->kernel(b, "elementwise", "add", NULL));
    ck_assert_ptr_nonnull(b->ops->kernel(b, "elementwise", "glu", NULL));
    ck_assert_uint_eq(occurrences(r.log(), "cuModuleLoadDataEx"), 1);
    ck_assert_uint_eq(occurrences(r.log(), "cuModuleLoadDataEx cubin"), 1);
    b->ops->destroy(b);
    ck_assert_uint_eq(occurrences(r.log(), "cuModuleUnload"), 1);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(a_device_of_no_class_gets_ptx)
{
    struct cuda_rig r = cuda_rig_open();
    r.capability(12, 0);
    struct mtr_backend *b = cuda_rig_backend(&r);
    ck_assert_ptr_nonnull(b->ops->kernel(b, "elementwise", "add", NULL));
    ck_assert_uint_eq(occurrences(r.log(), "cuModuleLoadDataEx ptx"), 1);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

static void launch_one(const struct cuda_rig *r, bool no_overlap)
{
    struct mtr_cuda_options o = {.driver = r->path, .threads = 1, .no_overlap = no_overlap};
    const uint32_t one[3] = {1, 1, 1};
    unsigned args = 0;
    struct mtr_error err = {0};
    struct mtr_backend *b = mtr_cuda_backend_create(&o, &err);
    ck_assert_msg(b != NULL, "%s", err.message);
    struct mtr_kernel *k = b->ops->kernel(b, "elementwise", "add", NULL);
    ck_assert(b->ops->launch(b, NULL, k, one, one, 0, &args, sizeof args, NULL));
    b->ops->destroy(b);
}

START_TEST(kernels_overlap_unless_told_otherwise)
{
    struct cuda_rig r = cuda_rig_open();
    launch_one(&r, false);
    ck_assert_uint_eq(occurrences(r.log(), " early"), 1);
    launch_one(&r, true);
    ck_assert_uint_eq(occurrences(r.log(), "cuLaunchKernelEx add"), 2);
    ck_assert_uint_eq(occurrences(r.log(), " early"), 1);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(shared_memory_is_what_the_function_leaves)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    ck_assert_ptr_nonnull(b->ops->kernel(b, "elementwise", "add", NULL));
    ck_assert_ptr_nonnull(strstr(r.log(), "cuFuncSetAttribute add 8 231424\n"));
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(what_is_not_there_is_named)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_error err = {0};
    ck_assert_ptr_null(b->ops->kernel(b, "abacus", "add", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_str_eq(err.message, "class hopper has no module abacus in this build");
    r.script("cuModuleGetFunction", 0, 500);
    ck_assert_ptr_null(b->ops->kernel(b, "elementwise", "subtract", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_str_eq(err.message, "class hopper: looking for kernel subtract of module "
                                  "elementwise: CUDA_ERROR_NOT_FOUND (as scripted)");
    ck_assert(!b->lost);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(what_the_driver_s_compiler_says_is_told)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_error err = {0};
    r.capability(12, 0);
    struct mtr_backend *b = cuda_rig_backend(&r);
    r.script("cuModuleLoadDataEx", 0, 218);
    ck_assert_ptr_null(b->ops->kernel(b, "elementwise", "add", &err));
    ck_assert_str_eq(err.message,
                     "loading kernels/gb10/common/elementwise.cu for compute_90 (ptxas said no): "
                     "CUDA_ERROR_INVALID_PTX (as scripted)");
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("backend/module")
{
    tcase_add_test(tc, a_module_is_loaded_once_and_for_the_device);
    tcase_add_test(tc, a_device_of_no_class_gets_ptx);
    tcase_add_test(tc, kernels_overlap_unless_told_otherwise);
    tcase_add_test(tc, shared_memory_is_what_the_function_leaves);
    tcase_add_test(tc, what_is_not_there_is_named);
    tcase_add_test(tc, what_the_driver_s_compiler_says_is_told);
}
