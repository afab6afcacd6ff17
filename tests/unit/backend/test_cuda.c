/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The CUDA backend on a scripted driver (tests/support/fake_cuda.h). */
#include "kernels/args/tensor_map.h"
#include "worker/backend/cuda/cuda.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

static const uint32_t grid[3] = {3, 2, 1}, block[3] = {128, 1, 1};

START_TEST(describes_its_device)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_device_info info;
    struct mtr_backend *b = cuda_rig_backend(&r);
    ck_assert(b->ops->info(b, &info, NULL));
    ck_assert_str_eq(info.name, "Scripted GPU 0");
    ck_assert_str_eq(info.hardware, "hopper");
    ck_assert_uint_eq(info.processors, 132);
    ck_assert(info.graphs && !info.unified);
    uint64_t before = info.memory_free_bytes;
    void *p = b->ops->alloc(b, 1 << 20, NULL);
    ck_assert(b->ops->info(b, &info, NULL));
    ck_assert_uint_eq(before - info.memory_free_bytes, 1 << 20);
    b->ops->free(b, p);
    b->ops->destroy(b);
    ck_assert_ptr_nonnull(strstr(r.log(), "cuDevicePrimaryCtxRelease_v2 0"));
    cuda_rig_close(&r);
}
END_TEST

START_TEST(copies_in_all_directions)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    char out[8] = "", *p = b->ops->alloc(b, 16, NULL), *host = b->ops->alloc_pinned(b, 8, NULL);
    struct mtr_stream *s = b->ops->stream_create(b, NULL);
    memcpy(host, "abcdefg", 8);
    ck_assert(b->ops->upload(b, s, p, host, 8, NULL));
    ck_assert(b->ops->copy(b, NULL, p + 8, p, 8, NULL));
    ck_assert(b->ops->fill(b, NULL, p + 9, 'x', 2, NULL));
    ck_assert(b->ops->download(b, s, out, p + 8, 8, NULL));
    ck_assert_str_eq(out, "axxdefg");
    b->ops->stream_destroy(b, s);
    b->ops->free_pinned(b, host);
    b->ops->free(b, p);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(launches_with_the_argument_struct)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_kernel *k = b->ops->kernel(b, "elementwise", "add", NULL);
    unsigned args = 4711;
    ck_assert(k && k == b->ops->kernel(b, "elementwise", "add", NULL));
    ck_assert(b->ops->launch(b, NULL, k, grid, block, 512, &args, sizeof args, NULL));
    ck_assert_ptr_nonnull(
        strstr(r.log(), "cuLaunchKernelEx add 3x2x1 128x1x1 512 arg 4711 early\n"));
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(describes_matrices_to_the_copy_engine)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_tensor_map map = {0};
    ck_assert(b->ops->tensor_map(b, &map, &map, 300, 72, 144, 64, NULL));
    ck_assert_ptr_nonnull(strstr(r.log(), "cuTensorMapEncodeTiled 144 [300 72] by 64\n"));
    ck_assert_uint_ne(map.opaque[15], 0);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(arguments_of_another_size_are_refused)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_error err = {0};
    char args[24] = "";
    r.parameter(32);
    struct mtr_kernel *k = b->ops->kernel(b, "elementwise", "add", NULL);
    ck_assert(!b->ops->launch(b, NULL, k, grid, block, 0, args, sizeof args, &err));
    ck_assert_int_eq(err.code, MTR_INTERNAL);
    ck_assert_str_eq(err.message, "kernel add takes arguments of 32 bytes, not 24");
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(events_measure_and_tell)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_event *from = b->ops->event_create(b, NULL), *to = b->ops->event_create(b, NULL);
    struct mtr_stream *s = b->ops->stream_create(b, NULL);
    uint64_t ns;
    bool done;
    ck_assert(b->ops->event_record(b, from, s, NULL) && b->ops->event_record(b, to, s, NULL));
    ck_assert(b->ops->stream_wait_event(b, NULL, to, NULL));
    ck_assert(b->ops->event_wait(b, to, NULL) && b->ops->stream_wait(b, s, NULL));
    ck_assert(b->ops->event_done(b, to, &done, NULL) && done);
    ck_assert(b->ops->event_elapsed_ns(b, from, to, &ns, NULL));
    ck_assert_uint_eq(ns, 1000000);
    r.script("cuEventQuery", 0, 600);
    ck_assert(b->ops->event_done(b, to, &done, NULL) && !done);
    b->ops->event_destroy(b, from);
    b->ops->event_destroy(b, to);
    b->ops->stream_destroy(b, s);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(an_error_says_what_was_done_and_its_name)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_error err = {0};
    ck_assert_ptr_null(b->ops->alloc(b, (size_t)1 << 40, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    ck_assert_str_eq(err.message, "allocating 1099511627776 bytes on Scripted GPU 0: "
                                  "CUDA_ERROR_OUT_OF_MEMORY (as scripted)");
    ck_assert(!b->lost);
    r.script("cuMemsetD8Async", 0, 12345);
    ck_assert(!b->ops->fill(b, NULL, NULL, 0, 3, &err));
    ck_assert_str_eq(err.message, "filling 3 bytes on the device: CUDA error 12345");
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert(!b->lost);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(after_a_sticky_error_everything_fails)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_error err = {0};
    struct mtr_stream *s = b->ops->stream_create(b, NULL);
    void *p = b->ops->alloc(b, 16, NULL);
    r.script("cuStreamSynchronize", 0, 700);
    ck_assert(!b->ops->stream_wait(b, s, &err));
    ck_assert(b->lost);
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert_str_eq(err.message, "waiting for the device: CUDA_ERROR_ILLEGAL_ADDRESS "
                                  "(as scripted): the device is lost");
    size_t calls = strlen(r.log());
    ck_assert(!b->ops->fill(b, s, p, 0, 16, &err));
    ck_assert_int_eq(err.code, MTR_IO);
    ck_assert_str_eq(err.message, "the device was lost: waiting for the device: "
                                  "CUDA_ERROR_ILLEGAL_ADDRESS (as scripted)");
    ck_assert_ptr_null(b->ops->alloc(b, 1, &err));
    ck_assert_ptr_null(b->ops->kernel(b, "elementwise", "add", &err));
    ck_assert_ptr_null(b->ops->event_create(b, &err));
    ck_assert(!b->ops->graph_begin(b, s, &err));
    b->ops->free(b, p);
    b->ops->stream_destroy(b, s);
    b->ops->destroy(b);
    ck_assert_uint_eq(strlen(r.log()), calls); /* the driver is not asked any more */
    cuda_rig_close(&r);
}
END_TEST

struct other {
    struct mtr_backend *b;
    bool ok;
};

static void *upload_there(void *context)
{
    struct other *o = context;
    void *p = o->b->ops->alloc(o->b, 8, NULL);
    o->ok = p && o->b->ops->fill(o->b, NULL, p, 1, 8, NULL);
    o->b->ops->free(o->b, p);
    return NULL;
}

START_TEST(other_threads_enter_the_context)
{
    struct cuda_rig r = cuda_rig_open();
    struct other o = {cuda_rig_backend(&r), false};
    pthread_t thread;
    const char *before = r.log() + strlen(r.log());
    ck_assert_int_eq(pthread_create(&thread, NULL, upload_there, &o), 0);
    pthread_join(thread, NULL);
    ck_assert(o.ok);
    ck_assert_int_eq(strncmp(before, "cuCtxSetCurrent\ncuMemAlloc_v2 8\n", 32), 0);
    o.b->ops->destroy(o.b);
    cuda_rig_close(&r);
}
END_TEST

static void count_index(void *context, uint32_t index)
{
    __atomic_fetch_add((uint32_t *)context, index, __ATOMIC_RELAXED);
}

START_TEST(work_beside_kernels_runs_on_threads)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    uint32_t sum = 0;
    b->ops->parallel(b, 100, count_index, &sum);
    ck_assert_uint_eq(sum, 4950);
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(creation_that_fails_leaves_nothing)
{
    static const char *const steps[] = {"cuInit",
                                        "cuDriverGetVersion",
                                        "cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceGetCount",
                                        "cuDeviceTotalMem_v2",
                                        "cuDeviceGetAttribute",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuStreamCreate"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct cuda_rig r = cuda_rig_open();
        struct mtr_error err = {0};
        r.script(steps[i], 0, 999);
        struct mtr_cuda_options o = {.driver = r.path, .threads = 1};
        ck_assert_msg(!mtr_cuda_backend_create(&o, &err), "%s", steps[i]);
        ck_assert_msg(err.message[0], "%s", steps[i]);
        cuda_rig_close(&r);
    }
}
END_TEST

START_TEST(probing_takes_nothing)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_device_info info;
    struct mtr_error err = {0};
    struct mtr_cuda_options o = {.driver = r.path};
    ck_assert(mtr_cuda_probe(&o, &info, NULL));
    ck_assert_str_eq(info.hardware, "hopper");
    ck_assert_ptr_null(strstr(r.log(), "cuDevicePrimaryCtxRetain"));
    o.device = 1;
    ck_assert(!mtr_cuda_probe(&o, &info, &err));
    ck_assert_str_eq(err.message, "there is no device 1; this machine has 1");
    o = (struct mtr_cuda_options){.driver = "/nowhere/libcuda.so.1"};
    ck_assert(!mtr_cuda_probe(&o, &info, &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "there is no CUDA driver: "));
    cuda_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("backend/cuda")
{
    tcase_add_test(tc, describes_its_device);
    tcase_add_test(tc, copies_in_all_directions);
    tcase_add_test(tc, launches_with_the_argument_struct);
    tcase_add_test(tc, describes_matrices_to_the_copy_engine);
    tcase_add_test(tc, arguments_of_another_size_are_refused);
    tcase_add_test(tc, events_measure_and_tell);
    tcase_add_test(tc, an_error_says_what_was_done_and_its_name);
    tcase_add_test(tc, after_a_sticky_error_everything_fails);
    tcase_add_test(tc, other_threads_enter_the_context);
    tcase_add_test(tc, work_beside_kernels_runs_on_threads);
    tcase_add_test(tc, creation_that_fails_leaves_nothing);
    tcase_add_test(tc, probing_takes_nothing);
}
