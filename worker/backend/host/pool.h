/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread pool for work that is shorter than a system call: a launch of a few microseconds, some
 * hundred times a step.
 *
 * mtr_pool_run splits [0, count) among the caller and the pool's threads and returns when all is
 * done. Each begins with a contiguous share, the same for equal counts, so that memory which is
 * walked launch after launch stays with one core; who has finished takes from the end of others'
 * shares, so that a thread that the system took off its core delays only the piece it has in hand.
 * Threads without work spin for some tens of microseconds, then sleep on a futex; when the pool has
 * more threads than the process has cores they hardly spin at all. An idle pool costs nothing.
 *
 * One caller at a time. The work function must not call the pool.
 */
#ifndef MTR_BACKEND_HOST_POOL_H
#define MTR_BACKEND_HOST_POOL_H

#include <stdint.h>

#include "common/base/error.h"

#define MTR_POOL_MAX_THREADS 256

struct mtr_pool;

/* thread: 0 for the caller, 1 .. threads - 1 for the others; for thread-local memory. */
typedef void (*mtr_pool_work)(void *context, uint32_t index, uint32_t thread);

/* threads counts the caller: 1 starts none. */
struct mtr_pool *mtr_pool_create(uint32_t threads, struct mtr_error *err);
void mtr_pool_destroy(struct mtr_pool *pool);
uint32_t mtr_pool_threads(const struct mtr_pool *pool);
void mtr_pool_run(struct mtr_pool *pool, uint32_t count, mtr_pool_work work, void *context);

/* Cores that this process may run on, at least 1. */
uint32_t mtr_pool_cores(void);

#endif
