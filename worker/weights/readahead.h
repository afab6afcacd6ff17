/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread that brings stretches of mapped files into memory, in the order given, and ends. It
 * makes nothing wrong and nothing necessary: who reads a page before it gets there waits for that
 * page alone.
 */
#ifndef MTR_WEIGHTS_READAHEAD_H
#define MTR_WEIGHTS_READAHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

struct mtr_stretch {
    const void *ptr;
    uint64_t bytes;
    uint32_t file; /* between two stretches of one file all is mapped */
};

struct mtr_readahead;

/* Copies the list. `huge`: memory may be spent on huge pages. NULL when no thread can be had, which
 * is no reason to fail a load. */
struct mtr_readahead *mtr_readahead_start(const struct mtr_stretch *stretches, uint32_t count,
                                          bool huge);

/* Bytes read so far. */
uint64_t mtr_readahead_done(const struct mtr_readahead *r);

/* Has the thread ended by itself? */
bool mtr_readahead_over(const struct mtr_readahead *r);

/* Stops after the chunk at hand and frees. NULL is fine. */
void mtr_readahead_stop(struct mtr_readahead *r);

#endif
