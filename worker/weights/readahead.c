/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * madvise(MADV_POPULATE_READ) reads pages and enters them into the page table in one call; kernels
 * before 5.14 lack it, and there a byte of each page is read. Before each chunk the kernel is told
 * of the next ones, so that the disk has something in its queue while pages are entered.
 *
 * Huge pages come afterwards, in the order of addresses: stretches that touch (tensors are padded
 * apart) are one range, of which few huge pages are lost at the ends.
 */
#include "worker/weights/readahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "worker/weights/huge.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define CHUNK_BYTES ((uintptr_t)4 << 20)
#define AHEAD_BYTES ((uintptr_t)32 << 20)
#define HUGE_STEP   ((uintptr_t)8 << 20)  /* copied at a time */
#define TOUCHING    ((uintptr_t)64 << 10) /* stretches of one file no farther apart are one */

struct mtr_readahead {
    pthread_t thread;
    _Atomic bool stop;
    _Atomic bool over;
    bool huge;
    _Atomic uint64_t done;
    uintptr_t page;
    uint32_t count;
    struct mtr_stretch stretches[];
};

static void touch(uintptr_t from, uintptr_t to, uintptr_t page)
{
    for (uintptr_t p = from; p < to; p += page)
        (void)*(const volatile uint8_t *)p;
}

/* [from, to) starts and ends at pages of the mapping. */
static void populate(const struct mtr_readahead *r, uintptr_t from, uintptr_t to, uintptr_t end)
{
    uintptr_t ahead = end - to < AHEAD_BYTES ? end : to + AHEAD_BYTES;
    if (ahead > to)
        madvise((void *)to, ahead - to, MADV_WILLNEED);
    if (madvise((void *)from, to - from, MADV_POPULATE_READ) != 0)
        touch(from, to, r->page);
}

static void run_stretch(struct mtr_readahead *r, const struct mtr_stretch *s)
{
    uintptr_t from = (uintptr_t)s->ptr & ~(r->page - 1);
    uintptr_t end = ((uintptr_t)s->ptr + s->bytes + r->page - 1) & ~(r->page - 1);
    uint64_t left = s->bytes;
    while (from < end && !atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        uintptr_t to = end - from < CHUNK_BYTES ? end : from + CHUNK_BYTES;
        populate(r, from, to, end);
        uint64_t got = to == end || to - from > left ? left : to - from;
        atomic_fetch_add_explicit(&r->done, got, memory_order_relaxed);
        left -= got;
        from = to;
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct mtr_stretch *)a)->ptr;
    uintptr_t y = (uintptr_t)((const struct mtr_stretch *)b)->ptr;
    return x < y ? -1 : x > y;
}

static void replace_range(struct mtr_readahead *r, uintptr_t from, uintptr_t to)
{
    while (from < to && !atomic_load_explicit(&r->stop, memory_order_relaxed))
        from = mtr_huge_replace(from, to, HUGE_STEP);
}

static void replace_all(struct mtr_readahead *r)
{
    struct mtr_stretch *s = r->stretches;
    qsort(s, r->count, sizeof *s, by_address);
    for (uint32_t i = 0; i < r->count;) {
        uintptr_t from = (uintptr_t)s[i].ptr, to = from;
        uint32_t file = s[i].file;
        for (; i < r->count && s[i].file == file && (uintptr_t)s[i].ptr <= to + TOUCHING; i++)
            if ((uintptr_t)s[i].ptr + s[i].bytes > to)
                to = (uintptr_t)s[i].ptr + s[i].bytes;
        replace_range(r, from, to);
    }
}

static void *run(void *context)
{
    struct mtr_readahead *r = context;
    for (uint32_t i = 0; i < r->count; i++)
        run_stretch(r, &r->stretches[i]);
    if (r->huge && mtr_huge_available())
        replace_all(r);
    atomic_store_explicit(&r->over, true, memory_order_release);
    return NULL;
}

struct mtr_readahead *mtr_readahead_start(const struct mtr_stretch *stretches, uint32_t count,
                                          bool huge)
{
    sigset_t all, before;
    struct mtr_readahead *r = calloc(1, sizeof *r + count * sizeof *stretches);
    if (!r)
        return NULL;
    r->page = (uintptr_t)sysconf(_SC_PAGESIZE);
    r->count = count;
    r->huge = huge;
    if (count)
        memcpy(r->stretches, stretches, count * sizeof *stretches);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
    int failed = pthread_create(&r->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(r);
        return NULL;
    }
    return r;
}

uint64_t mtr_readahead_done(const struct mtr_readahead *r)
{
    return atomic_load_explicit(&r->done, memory_order_relaxed);
}

bool mtr_readahead_over(const struct mtr_readahead *r)
{
    return atomic_load_explicit(&r->over, memory_order_acquire);
}

void mtr_readahead_stop(struct mtr_readahead *r)
{
    if (!r)
        return;
    atomic_store_explicit(&r->stop, true, memory_order_relaxed);
    pthread_join(r->thread, NULL);
    free(r);
}
