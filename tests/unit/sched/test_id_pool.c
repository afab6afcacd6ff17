/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/sched/id_pool.h"

#include "tests/unit/check_main.h"

START_TEST(ids_ascend_and_the_last_given_is_taken_first)
{
    struct mtr_id_pool p;
    ck_assert(mtr_id_pool_init(&p, 3));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(mtr_id_pool_take(&p), i);
    ck_assert_uint_eq(mtr_id_pool_take(&p), MTR_NO_ID);
    mtr_id_pool_give(&p, 0);
    mtr_id_pool_give(&p, 2);
    ck_assert_uint_eq(mtr_id_pool_take(&p), 2);
    ck_assert_uint_eq(mtr_id_pool_take(&p), 0);
    ck_assert_uint_eq(p.high, 3);
    mtr_id_pool_free(&p);
}
END_TEST

START_TEST(an_empty_pool_has_none)
{
    struct mtr_id_pool p;
    ck_assert(mtr_id_pool_init(&p, 0));
    ck_assert_uint_eq(mtr_id_pool_take(&p), MTR_NO_ID);
    mtr_id_pool_free(&p);
}
END_TEST

START_TEST(giving_twice_is_our_mistake)
{
    struct mtr_id_pool p;
    ck_assert(mtr_id_pool_init(&p, 2));
    uint32_t id = mtr_id_pool_take(&p);
    mtr_id_pool_give(&p, id);
    mtr_id_pool_give(&p, id);
}
END_TEST

MTR_CHECK_MAIN("sched/id_pool")
{
    tcase_add_test(tc, ids_ascend_and_the_last_given_is_taken_first);
    tcase_add_test(tc, an_empty_pool_has_none);
    if (!getenv("CK_FORK"))
        tcase_add_test_raise_signal(tc, giving_twice_is_our_mistake, 6 /* SIGABRT */);
}
