/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Time as an argument. Pure code takes `now_ns`; loops that wait take a clock, so that a test can
 * run the same loop under virtual time.
 */
#ifndef MTR_BASE_CLOCK_H
#define MTR_BASE_CLOCK_H

#include <stdint.h>

#include "common/base/ns.h"

struct mtr_clock {
    uint64_t (*now_ns)(void *context); /* monotonic, from an arbitrary origin */
    void *context;
};

static inline uint64_t mtr_now_ns(const struct mtr_clock *c)
{
    return c->now_ns(c->context);
}

/* CLOCK_MONOTONIC. */
struct mtr_clock mtr_clock_monotonic(void);

/* Seconds since 1970, for `created` fields and log lines only. */
int64_t mtr_wall_seconds(void);

/* The same in the local time zone, month and day from 1. */
void mtr_wall_local(int64_t seconds, int *year, int *month, int *day, int *hour, int *minute,
                    int *second);

#endif
