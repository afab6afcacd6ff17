/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A run writes the job, then a share for each thread: begin << 32 | end in a word on a cache line
 * of its own, then a new epoch. A claim is a compare-and-swap on a share: its owner takes from the
 * front, others from the back. While a claimed piece is unfinished the run can't return, so whoever
 * has claimed may read the job; whoever has not, may not. A late thread that still looks for pieces
 * of an older job may find one of the next, and that is as good.
 *
 * Two places sleep. Threads sleep on `wake`, and the one who publishes wakes them if `sleepers`
 * says that there are any; the caller sleeps on `done` if `caller_waits`. Both are the same
 * handshake: one side writes its flag and then reads the other's data, the other writes the data
 * and then reads the flag, all sequentially consistent, so that one of them notices.
 */
#include "worker/backend/host/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS         50000 /* patience of a thread between launches, which are a few us apart */
#define CROWDED_SPIN_NS 2000  /* the same with more threads than cores */
#define SPIN_PAUSES     32    /* between looks at the clock */

struct worker {
    _Alignas(64) _Atomic uint64_t share; /* begin << 32 | end of what is not yet claimed */
    struct mtr_pool *pool;
    pthread_t thread;
    uint32_t index; /* 0 is the caller */
};

struct mtr_pool {
    _Alignas(64) _Atomic uint32_t epoch; /* counts the jobs */
    _Alignas(64) _Atomic uint32_t done;  /* indices finished; the caller's futex */
    _Atomic uint32_t caller_waits;
    _Alignas(64) _Atomic uint32_t wake; /* the threads' futex */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    /* The job; see above for who may read it. */
    _Alignas(64) mtr_pool_work work;
    void *context;
    uint32_t count;

    uint32_t threads;
    uint64_t spin_ns;
    struct worker workers[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- claiming ---- */

/* Claims one index of a share, from its front or its back. */
static bool claim(struct worker *w, bool front, uint32_t *index)
{
    uint64_t share = atomic_load_explicit(&w->share, memory_order_acquire);
    for (;;) {
        uint32_t begin = (uint32_t)(share >> 32), end = (uint32_t)share;
        if (begin >= end)
            return false;
        *index = front ? begin : end - 1;
        uint64_t left = front ? share + (1ull << 32) : share - 1;
        if (atomic_compare_exchange_weak(&w->share, &share, left))
            return true;
    }
}

static bool claim_any(struct mtr_pool *pool, uint32_t thread, uint32_t *index)
{
    if (claim(&pool->workers[thread], true, index))
        return true;
    for (uint32_t i = 1; i < pool->threads; i++)
        if (claim(&pool->workers[(thread + i) % pool->threads], false, index))
            return true;
    return false;
}

/* Works until nothing is left to claim, then reports what it finished: until that the job stands.
 */
static void work(struct mtr_pool *pool, uint32_t thread)
{
    uint32_t index, finished = 0;
    for (; claim_any(pool, thread, &index); finished++)
        pool->work(pool->context, index, thread);
    if (finished == 0)
        return;
    uint32_t count = pool->count, done = atomic_fetch_add(&pool->done, finished) + finished;
    if (done == count && atomic_load(&pool->caller_waits))
        futex_wake(&pool->done, 1);
}

/* ---- threads ---- */

/* Spins until *word is (or is no longer) `value`, or the pool's patience is over. */
static bool spin(struct mtr_pool *pool, _Atomic uint32_t *word, uint32_t value, bool equal)
{
    uint64_t end = now_ns() + pool->spin_ns;
    do {
        for (int i = 0; i < SPIN_PAUSES; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal)
                return true;
            pause_cpu();
        }
    } while (now_ns() < end);
    return false;
}

/* Until there is another job than `epoch`, or the end. */
static void sleep_for_work(struct mtr_pool *pool, uint32_t epoch)
{
    uint32_t seen = atomic_load(&pool->wake);
    atomic_fetch_add(&pool->sleepers, 1);
    if (atomic_load(&pool->epoch) == epoch && !atomic_load(&pool->stop))
        futex_wait(&pool->wake, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *worker_main(void *context)
{
    struct worker *w = context;
    struct mtr_pool *pool = w->pool;
    while (!atomic_load(&pool->stop)) {
        uint32_t epoch = atomic_load(&pool->epoch);
        work(pool, w->index);
        if (!spin(pool, &pool->epoch, epoch, false))
            sleep_for_work(pool, epoch);
    }
    return NULL;
}

static void wake_threads(struct mtr_pool *pool, uint32_t wanted)
{
    if (atomic_load(&pool->sleepers) == 0)
        return;
    atomic_fetch_add(&pool->wake, 1);
    futex_wake(&pool->wake, wanted);
}

/* ---- the caller ---- */

static void wait_for_threads(struct mtr_pool *pool)
{
    if (spin(pool, &pool->done, pool->count, true))
        return;
    atomic_store(&pool->caller_waits, 1);
    for (;;) {
        uint32_t done = atomic_load(&pool->done);
        if (done == pool->count)
            break;
        futex_wait(&pool->done, done);
    }
    atomic_store(&pool->caller_waits, 0);
}

void mtr_pool_run(struct mtr_pool *pool, uint32_t count, mtr_pool_work function, void *context)
{
    if (count <= 1 || pool->threads == 1) {
        for (uint32_t i = 0; i < count; i++)
            function(context, i, 0);
        return;
    }
    pool->work = function;
    pool->context = context;
    pool->count = count;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    for (uint32_t t = 0; t < pool->threads; t++) {
        uint64_t begin = (uint64_t)count * t / pool->threads;
        uint64_t end = (uint64_t)count * (t + 1) / pool->threads;
        atomic_store_explicit(&pool->workers[t].share, begin << 32 | end, memory_order_release);
    }
    atomic_fetch_add(&pool->epoch, 1);
    wake_threads(pool, count - 1);
    work(pool, 0);
    wait_for_threads(pool);
}

/* ---- life ---- */

uint32_t mtr_pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = CPU_COUNT(&set);
    return cores > 0 ? (uint32_t)cores : 1;
}

uint32_t mtr_pool_threads(const struct mtr_pool *pool)
{
    return pool->threads;
}

/* Threads 1 .. count - 1. */
static void stop_threads(struct mtr_pool *pool, uint32_t count)
{
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->wake, 1);
    futex_wake(&pool->wake, MTR_POOL_MAX_THREADS);
    for (uint32_t i = 1; i < count; i++)
        pthread_join(pool->workers[i].thread, NULL);
}

struct mtr_pool *mtr_pool_create(uint32_t threads, struct mtr_error *err)
{
    if (threads == 0 || threads > MTR_POOL_MAX_THREADS) {
        mtr_fail(err, MTR_INVALID, "a pool of %u threads; 1 to %d are possible", threads,
                 MTR_POOL_MAX_THREADS);
        return NULL;
    }
    size_t bytes = sizeof(struct mtr_pool) + threads * sizeof(struct worker);
    struct mtr_pool *pool = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!pool) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a pool of %u threads", threads);
        return NULL;
    }
    *pool = (struct mtr_pool){.threads = threads};
    pool->spin_ns = threads > mtr_pool_cores() ? CROWDED_SPIN_NS : SPIN_NS;
    for (uint32_t i = 0; i < threads; i++)
        pool->workers[i] = (struct worker){.pool = pool, .index = i};
    for (uint32_t i = 1; i < threads; i++) {
        struct worker *w = &pool->workers[i];
        int code = pthread_create(&w->thread, NULL, worker_main, w);
        if (code != 0) {
            mtr_fail(err, MTR_IO, "cannot start thread %u of %u (error %d)", i + 1, threads, code);
            stop_threads(pool, i);
            free(pool);
            return NULL;
        }
        char name[16];
        snprintf(name, sizeof name, "mtr-pool-%u", i);
        pthread_setname_np(w->thread, name);
    }
    return pool;
}

void mtr_pool_destroy(struct mtr_pool *pool)
{
    if (pool)
        stop_threads(pool, pool->threads);
    free(pool);
}
