/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/comm/single.c"

#include <string.h>

#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

static struct mtr_backend *b;
static struct mtr_comm *c;

static void setup(void)
{
    b = mtr_mock_backend_create();
    c = mtr_comm_single(b, NULL);
}

static void teardown(void)
{
    c->ops->destroy(c);
    b->ops->destroy(b);
}

START_TEST(collectives_are_identities)
{
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    ck_assert_uint_eq(c->rank, 0);
    ck_assert_uint_eq(c->size, 1);
    ck_assert(c->ops->all_reduce(c, NULL, x, 4, MTR_F32, NULL));
    ck_assert(c->ops->broadcast(c, NULL, x, sizeof x, 0, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 0);
    ck_assert(c->ops->all_gather(c, NULL, y, x, sizeof x, NULL));
    ck_assert_mem_eq(y, x, sizeof x);
    ck_assert(c->ops->all_gather(c, NULL, y, y, sizeof y, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 1);
}
END_TEST

START_TEST(refusals)
{
    struct mtr_error err;
    float x = 0;
    ck_assert(!c->ops->all_reduce(c, NULL, &x, 1, MTR_Q4_0, &err));
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    ck_assert(!c->ops->broadcast(c, NULL, &x, 4, 1, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "rank 1"));
}
END_TEST

MTR_CHECK_MAIN("comm/single")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, collectives_are_identities);
    tcase_add_test(tc, refusals);
}
