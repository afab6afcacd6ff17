/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The mock backend: what it records, denies and fails. */
#include <string.h>

#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

START_TEST(records_in_order)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    struct mtr_kernel *k = b->ops->kernel(b, "linear", "linear_q4_1", NULL);
    ck_assert(k && k == b->ops->kernel(b, "linear", "linear_q4_1", NULL));
    char *p = b->ops->alloc(b, 100, NULL);
    int args = 42;
    const uint32_t grid[3] = {3, 2, 1}, block[3] = {1, 1, 1};
    ck_assert(b->ops->upload(b, NULL, p, "abc", 4, NULL));
    ck_assert(b->ops->launch(b, NULL, k, grid, block, 0, &args, sizeof args, NULL));
    args = 7; /* the record is a copy */
    ck_assert(b->ops->fill(b, NULL, p + 1, 'x', 1, NULL));
    ck_assert_str_eq(p, "axc");
    ck_assert_uint_eq(mtr_mock_call_count(b), 3);
    const struct mtr_mock_call *c = mtr_mock_call(b, 1);
    ck_assert_int_eq(c->kind, MTR_MOCK_LAUNCH);
    ck_assert_str_eq(c->module, "linear");
    ck_assert_str_eq(c->function, "linear_q4_1");
    ck_assert_uint_eq(c->grid[0] * 10 + c->grid[1], 32);
    ck_assert_int_eq(*(const int *)c->args, 42);
    ck_assert_int_eq(mtr_mock_call(b, 0)->kind, MTR_MOCK_UPLOAD);
    ck_assert_uint_eq(mtr_mock_call(b, 0)->bytes, 4);
    ck_assert_ptr_eq(mtr_mock_call(b, 2)->dst, p + 1);
    ck_assert_ptr_null(mtr_mock_call(b, 3));
    mtr_mock_forget(b);
    ck_assert_uint_eq(mtr_mock_call_count(b), 0);
    b->ops->free(b, p);
    b->ops->destroy(b);
}
END_TEST

START_TEST(denies_kernels)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    struct mtr_error err;
    mtr_mock_deny(b, "rope", "rotary");
    ck_assert_ptr_null(b->ops->kernel(b, "rope", "rotary", &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    ck_assert_ptr_nonnull(b->ops->kernel(b, "rope", "rope_append_f32", &err));
    b->ops->destroy(b);
}
END_TEST

START_TEST(is_lost_after_the_calls_it_was_given)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    struct mtr_error err;
    char byte;
    mtr_mock_fail_after(b, 2);
    ck_assert(b->ops->fill(b, NULL, &byte, 1, 1, &err));
    ck_assert(b->ops->fill(b, NULL, &byte, 2, 1, &err));
    ck_assert(!b->lost);
    ck_assert(!b->ops->fill(b, NULL, &byte, 3, 1, &err));
    ck_assert(b->lost && byte == 2 && err.code == MTR_IO);
    ck_assert(!b->ops->stream_wait(b, NULL, &err));
    ck_assert_ptr_null(b->ops->alloc(b, 1, &err));
    b->ops->destroy(b);
}
END_TEST

START_TEST(copies_can_wait)
{
    struct mtr_backend *b = mtr_mock_backend_create();
    struct mtr_event *first = b->ops->event_create(b, NULL),
                     *second = b->ops->event_create(b, NULL);
    char from[] = "ab", to[3] = "..";
    bool done;
    mtr_mock_defer(b, true);
    ck_assert(b->ops->upload(b, NULL, to, from, 1, NULL));
    ck_assert(b->ops->event_record(b, first, NULL, NULL));
    ck_assert(b->ops->fill(b, NULL, to + 1, 'x', 1, NULL));
    ck_assert(b->ops->event_record(b, second, NULL, NULL));
    from[0] = 'A'; /* read too late */
    ck_assert_str_eq(to, "..");
    ck_assert(b->ops->event_done(b, first, &done, NULL) && !done);
    ck_assert(b->ops->event_wait(b, first, NULL));
    ck_assert_str_eq(to, "A.");
    ck_assert(b->ops->event_done(b, first, &done, NULL) && done);
    ck_assert(b->ops->event_done(b, second, &done, NULL) && !done);
    ck_assert(b->ops->stream_wait(b, NULL, NULL));
    ck_assert_str_eq(to, "Ax");
    ck_assert(b->ops->event_done(b, second, &done, NULL) && done);
    b->ops->event_destroy(b, first);
    b->ops->event_destroy(b, second);
    b->ops->destroy(b);
}
END_TEST

MTR_CHECK_MAIN("backend/mock")
{
    tcase_add_test(tc, copies_can_wait);
    tcase_add_test(tc, records_in_order);
    tcase_add_test(tc, denies_kernels);
    tcase_add_test(tc, is_lost_after_the_calls_it_was_given);
}
