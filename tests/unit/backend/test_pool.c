/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The pool: every index once, sleep and wake, more threads than cores under a competing load. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/check_main.h"
#include "worker/backend/host/pool.h"

#define MAX_COUNT 5000

struct marks {
    _Atomic uint32_t hits[MAX_COUNT];
    _Atomic uint32_t threads_seen[MTR_POOL_MAX_THREADS];
};

static void mark(void *context, uint32_t index, uint32_t thread)
{
    struct marks *m = context;
    atomic_fetch_add(&m->threads_seen[thread], 1);
    atomic_fetch_add(&m->hits[index], 1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct mtr_pool *pool_of(uint32_t threads)
{
    struct mtr_error err;
    struct mtr_pool *pool = mtr_pool_create(threads, &err);
    ck_assert_msg(pool != NULL, "%s", err.message);
    ck_assert_uint_eq(mtr_pool_threads(pool), threads);
    return pool;
}

static void run_marked(struct mtr_pool *pool, uint32_t count)
{
    static struct marks m;
    memset(&m, 0, sizeof m);
    mtr_pool_run(pool, count, mark, &m);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < MAX_COUNT; i++)
        wrong += m.hits[i] != (i < count);
    ck_assert_msg(wrong == 0, "%u of %u indices not exactly once", wrong, count);
}

START_TEST(every_index_once)
{
    static const uint32_t threads[] = {1, 2, 3, 8};
    struct mtr_pool *pool = pool_of(threads[_i]);
    for (uint32_t round = 0; round < 1000; round++)
        run_marked(pool, round * 7919 % (round % 10 ? 40 : MAX_COUNT));
    mtr_pool_destroy(pool);
}
END_TEST

START_TEST(wakes_after_sleep)
{
    struct mtr_pool *pool = pool_of(3);
    for (int i = 0; i < 30; i++) {
        usleep(2000); /* far beyond a thread's patience */
        run_marked(pool, 100);
    }
    mtr_pool_destroy(pool);
}
END_TEST

static void wait_a_little(void *context, uint32_t index, uint32_t thread)
{
    struct marks *m = context;
    atomic_fetch_add(&m->threads_seen[thread], 1);
    usleep(20000);
}

START_TEST(all_threads_take_part)
{
    static struct marks m;
    struct mtr_pool *pool = pool_of(4);
    mtr_pool_run(pool, 16, wait_a_little, &m);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_gt(m.threads_seen[i], 0);
    mtr_pool_destroy(pool);
}
END_TEST

START_TEST(an_idle_pool_costs_nothing)
{
    struct mtr_pool *pool = pool_of(8);
    run_marked(pool, 100);
    usleep(20000);
    double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    usleep(300000);
    ck_assert(seconds(CLOCK_PROCESS_CPUTIME_ID) - before < 0.003);
    mtr_pool_destroy(pool);
}
END_TEST

/* ---- eight threads on the cores there are, with as many hogs beside them ---- */

static void compute(void *context, uint32_t index, uint32_t thread)
{
    for (volatile int spin = 0; spin < 2000; spin++)
        ;
}

static double time_runs(struct mtr_pool *pool, int runs)
{
    double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < runs; i++)
        mtr_pool_run(pool, 32, compute, NULL);
    return seconds(CLOCK_MONOTONIC) - start;
}

static void *hog(void *stop)
{
    while (!atomic_load((atomic_int *)stop))
        ;
    return NULL;
}

/* In proportion: with h hogs and t threads on c cores the pool still gets its share, so a crowd
 * must not cost more than a small multiple of what its share of the cores explains. */
START_TEST(a_crowd_slows_in_proportion)
{
    uint32_t cores = mtr_pool_cores();
    struct mtr_pool *alone = pool_of(1), *crowd = pool_of(4 * cores);
    pthread_t hogs[64];
    atomic_int stop = 0;
    uint32_t hog_count = cores < 64 ? cores : 64;
    double serial = time_runs(alone, 200);
    for (uint32_t i = 0; i < hog_count; i++)
        ck_assert_int_eq(pthread_create(&hogs[i], NULL, hog, &stop), 0);
    double loaded = time_runs(crowd, 200);
    atomic_store(&stop, 1);
    for (uint32_t i = 0; i < hog_count; i++)
        pthread_join(hogs[i], NULL);
    ck_assert_msg(loaded < 20 * serial + 2, "%.3f s under load, %.3f s on one thread", loaded,
                  serial);
    mtr_pool_destroy(alone);
    mtr_pool_destroy(crowd);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
    struct mtr_error err;
    ck_assert_ptr_null(mtr_pool_create(0, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_null(mtr_pool_create(MTR_POOL_MAX_THREADS + 1, &err));
}
END_TEST

MTR_CHECK_MAIN("backend/pool")
{
    tcase_add_loop_test(tc, every_index_once, 0, 4);
    tcase_add_test(tc, wakes_after_sleep);
    tcase_add_test(tc, all_threads_take_part);
    tcase_add_test(tc, an_idle_pool_costs_nothing);
    tcase_add_test(tc, a_crowd_slows_in_proportion);
    tcase_add_test(tc, impossible_sizes_are_refused);
}
