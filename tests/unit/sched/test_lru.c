/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/sched/lru.h"

#include "broker/sched/id_pool.h"
#include "common/base/philox.h"
#include "tests/unit/check_main.h"

START_TEST(the_oldest_leaves_first)
{
    static const uint64_t ticks[] = {5, 3, 9, 3, 7};
    static const uint32_t order[] = {1, 3, 0, 4, 2}; /* equal ticks by item */
    struct mtr_lru l;
    ck_assert(mtr_lru_init(&l, 5));
    ck_assert_uint_eq(mtr_lru_oldest(&l), MTR_NO_ID);
    for (uint32_t i = 0; i < 5; i++)
        mtr_lru_put(&l, i, ticks[i]);
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t oldest = mtr_lru_oldest(&l);
        ck_assert_uint_eq(oldest, order[i]);
        ck_assert(mtr_lru_has(&l, oldest));
        mtr_lru_remove(&l, oldest);
        ck_assert(!mtr_lru_has(&l, oldest));
    }
    mtr_lru_remove(&l, 3); /* not there: fine */
    ck_assert_uint_eq(l.count, 0);
    mtr_lru_free(&l);
}
END_TEST

#define ITEMS 97

/* Against a plain array, under random puts and removals. */
START_TEST(agrees_with_a_search)
{
    struct mtr_lru l;
    uint64_t ticks[ITEMS] = {0}; /* 0: not there */
    ck_assert(mtr_lru_init(&l, ITEMS));
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t r[4], best = MTR_NO_ID;
        mtr_philox(3, i, 0, r);
        uint32_t item = r[0] % ITEMS;
        if (ticks[item]) {
            mtr_lru_remove(&l, item);
            ticks[item] = 0;
        } else {
            ticks[item] = 1 + r[1] % 50;
            mtr_lru_put(&l, item, ticks[item]);
        }
        for (uint32_t k = 0; k < ITEMS; k++)
            if (ticks[k] && (best == MTR_NO_ID || ticks[k] < ticks[best]))
                best = k;
        ck_assert_uint_eq(mtr_lru_oldest(&l), best);
    }
    mtr_lru_free(&l);
}
END_TEST

MTR_CHECK_MAIN("sched/lru")
{
    tcase_add_test(tc, the_oldest_leaves_first);
    tcase_add_test(tc, agrees_with_a_search);
}
