/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The host backend: memory, copies, kernels by name, launches over a grid, events. */
#include <math.h>
#include <string.h>

#include "common/circuit/plan.h"
#include "kernels/args/elementwise.h"
#include "kernels/host/host_kernel.h"
#include "tests/unit/check_main.h"
#include "worker/backend/host/host.h"

static struct mtr_backend *backend(uint32_t threads, const char *set)
{
    struct mtr_error err;
    struct mtr_host_options options = {threads, set};
    struct mtr_backend *b = mtr_host_backend_create(&options, &err);
    ck_assert_msg(b != NULL, "%s", err.message);
    return b;
}

START_TEST(tells_what_it_is)
{
    struct mtr_backend *b = backend(3, "portable");
    struct mtr_device_info info;
    ck_assert(b->ops->info(b, &info, NULL));
    ck_assert_str_eq(info.hardware, "host");
    ck_assert_uint_eq(info.processors, 3);
    ck_assert(info.unified && !info.graphs && !b->lost);
    ck_assert_ptr_nonnull(strstr(info.name, "(portable)"));
    ck_assert_uint_gt(info.memory_free_bytes, 0);
    ck_assert_uint_ge(info.memory_total_bytes, info.memory_free_bytes);
    b->ops->destroy(b);
}
END_TEST

START_TEST(memory_and_copies)
{
    struct mtr_backend *b = backend(1, NULL);
    const size_t sizes[] = {0, 1, 1000, 5u << 20};
    for (int i = 0; i < 4; i++) {
        char *p = (_i ? b->ops->alloc_sparse : b->ops->alloc)(b, sizes[i], NULL);
        ck_assert_ptr_nonnull(p);
        ck_assert_uint_eq((uintptr_t)p % 256, 0);
        ck_assert(b->ops->fill(b, NULL, p, 0x5a, sizes[i], NULL));
        if (sizes[i] >= 1000) {
            ck_assert(b->ops->upload(b, NULL, p + 10, "hello", 5, NULL));
            ck_assert(b->ops->copy(b, NULL, p + 500, p + 9, 7, NULL));
            char out[7];
            ck_assert(b->ops->download(b, NULL, out, p + 500, 7, NULL));
            ck_assert(memcmp(out, "ZhelloZ", 7) == 0);
        }
        b->ops->free(b, p);
    }
    struct mtr_error err;
    ck_assert_ptr_null(b->ops->alloc(b, SIZE_MAX - 100, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    b->ops->destroy(b);
}
END_TEST

#define ROWS 300
#define COLS 37

START_TEST(launches_cover_the_grid)
{
    struct mtr_backend *b = backend((uint32_t)_i + 1, NULL);
    struct mtr_kernel *k = b->ops->kernel(b, "elementwise", "scale", NULL);
    ck_assert_ptr_nonnull(k);
    static float x[ROWS * COLS], y[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)i;
    struct mtr_step_view step = {.tokens = ROWS};
    struct mtr_elementwise_args args = {.step = &step,
                                        .a = x,
                                        .y = y,
                                        .cols = COLS,
                                        .rows_kind = MTR_ROWS_TOKENS,
                                        .multiplier = 2.0f};
    for (int round = 0; round < 200; round++) {
        memset(y, 0xff, sizeof y);
        const uint32_t grid[3] = {ROWS, 1, 1}, block[3] = {1, 1, 1};
        ck_assert(b->ops->launch(b, NULL, k, grid, block, 0, &args, sizeof args, NULL));
        for (int i = 0; i < ROWS * COLS; i++)
            ck_assert(y[i] == 2 * x[i]);
    }
    struct mtr_error err;
    const uint32_t huge[3] = {1u << 20, 1u << 20, 1}, one[3] = {1, 1, 1}, none[3] = {0, 1, 1};
    ck_assert(!b->ops->launch(b, NULL, k, huge, one, 0, &args, sizeof args, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
    ck_assert(b->ops->launch(b, NULL, k, none, one, 0, &args, sizeof args, &err));
    b->ops->destroy(b);
}
END_TEST

static void square(void *context, uint32_t index)
{
    ((uint32_t *)context)[index] = index * index;
}

START_TEST(host_work_runs_in_parallel)
{
    struct mtr_backend *b = backend(4, NULL);
    uint32_t out[1000];
    b->ops->parallel(b, 1000, square, out);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(out[i], i * i);
    b->ops->destroy(b);
}
END_TEST

START_TEST(every_set_of_this_cpu_can_be_named)
{
    for (int i = 0; i < MTR_ISA_COUNT; i++) {
        enum mtr_isa isa = (enum mtr_isa)i;
        struct mtr_error err;
        struct mtr_host_options options = {1, mtr_isa_name(isa)};
        struct mtr_backend *b = mtr_host_backend_create(&options, &err);
        ck_assert_int_eq(b != NULL, mtr_host_isa_available(isa));
        if (b)
            b->ops->destroy(b);
        else
            ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    }
}
END_TEST

START_TEST(wrong_names_are_refused)
{
    struct mtr_error err;
    struct mtr_host_options sse = {1, "sse"}, crowd = {100000, NULL};
    ck_assert_ptr_null(mtr_host_backend_create(&sse, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "sse"));
    ck_assert_ptr_null(mtr_host_backend_create(&crowd, &err));
    struct mtr_backend *b = backend(1, NULL);
    ck_assert_ptr_null(b->ops->kernel(b, "linear", "linear_q9_9", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "linear_q9_9"));
    ck_assert_ptr_null(b->ops->kernel(b, "embed", "linear_q4_1", &err));
    ck_assert(!b->ops->graph_begin(b, NULL, &err));
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    b->ops->destroy(b);
}
END_TEST

START_TEST(events_take_time)
{
    struct mtr_backend *b = backend(1, NULL);
    struct mtr_stream *s = b->ops->stream_create(b, NULL);
    struct mtr_event *from = b->ops->event_create(b, NULL), *to = b->ops->event_create(b, NULL);
    ck_assert(s && from && to);
    ck_assert(b->ops->event_record(b, from, s, NULL));
    uint64_t ns = 1, back = 1;
    do
        ck_assert(b->ops->event_record(b, to, s, NULL) &&
                  b->ops->event_elapsed_ns(b, from, to, &ns, NULL));
    while (ns == 0);
    ck_assert(b->ops->event_elapsed_ns(b, to, from, &back, NULL) && back == 0);
    ck_assert(b->ops->event_wait(b, to, NULL) && b->ops->stream_wait_event(b, s, to, NULL));
    ck_assert(b->ops->stream_wait(b, s, NULL));
    b->ops->event_destroy(b, from);
    b->ops->event_destroy(b, to);
    b->ops->stream_destroy(b, s);
    b->ops->destroy(b);
}
END_TEST

MTR_CHECK_MAIN("backend/host")
{
    tcase_add_test(tc, tells_what_it_is);
    tcase_add_loop_test(tc, memory_and_copies, 0, 2);
    tcase_add_loop_test(tc, launches_cover_the_grid, 0, 4);
    tcase_add_test(tc, host_work_runs_in_parallel);
    tcase_add_test(tc, every_set_of_this_cpu_can_be_named);
    tcase_add_test(tc, wrong_names_are_refused);
    tcase_add_test(tc, events_take_time);
}
