/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Order, waking, and many posters at once. */
#include "broker/engine/inbox.c"

#include <poll.h>

#include "tests/unit/check_main.h"

#define POSTERS  4
#define MESSAGES 2000

struct numbered {
    struct mtr_message message;
    uint32_t poster, number;
};

static struct mtr_inbox box;

static void setup(void)
{
    ck_assert(mtr_inbox_init(&box, NULL));
}

static void teardown(void)
{
    mtr_inbox_free(&box);
}

static bool readable(int timeout_ms)
{
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

START_TEST(in_order_and_all_at_once)
{
    struct numbered m[3] = {0};
    ck_assert(mtr_inbox_take(&box) == NULL && !readable(0));
    for (int i = 0; i < 3; i++)
        mtr_inbox_post(&box, &m[i].message);
    ck_assert(readable(0));
    struct mtr_message *first = mtr_inbox_take(&box);
    ck_assert(first == &m[0].message && first->next == &m[1].message);
    ck_assert(m[2].message.next == NULL);
    ck_assert(!readable(0) && mtr_inbox_take(&box) == NULL);
}
END_TEST

START_TEST(waking_without_a_message)
{
    mtr_inbox_wake(&box);
    mtr_inbox_wake(&box);
    ck_assert(readable(0));
    ck_assert(mtr_inbox_take(&box) == NULL && !readable(0));
}
END_TEST

static void *post_many(void *argument)
{
    struct numbered *m = argument;
    for (int i = 0; i < MESSAGES; i++)
        mtr_inbox_post(&box, &m[i].message);
    return NULL;
}

START_TEST(nothing_is_lost)
{
    static struct numbered all[POSTERS][MESSAGES];
    uint32_t next[POSTERS] = {0}, taken = 0;
    pthread_t threads[POSTERS];
    for (uint32_t p = 0; p < POSTERS; p++) {
        for (uint32_t i = 0; i < MESSAGES; i++)
            all[p][i] = (struct numbered){.poster = p, .number = i};
        ck_assert_int_eq(pthread_create(&threads[p], NULL, post_many, all[p]), 0);
    }
    while (taken < POSTERS * MESSAGES) {
        ck_assert_msg(readable(10000), "asleep with %u of %d messages taken", taken,
                      POSTERS * MESSAGES);
        for (struct mtr_message *m = mtr_inbox_take(&box); m; m = m->next) {
            struct numbered *n = (struct numbered *)m;
            ck_assert_uint_eq(n->number, next[n->poster]);
            next[n->poster]++;
            taken++;
        }
    }
    for (int p = 0; p < POSTERS; p++)
        pthread_join(threads[p], NULL);
}
END_TEST

MTR_CHECK_MAIN("engine/inbox")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, in_order_and_all_at_once);
    tcase_add_test(tc, waking_without_a_message);
    tcase_add_test(tc, nothing_is_lost);
}
