/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The system's clocks: the only place in common/ that reads them. */
#include "common/base/clock.h"

#include <stddef.h>
#include <time.h>

static uint64_t monotonic_ns(void *context)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * MTR_NS_PER_S + (uint64_t)t.tv_nsec;
}

struct mtr_clock mtr_clock_monotonic(void)
{
    return (struct mtr_clock){monotonic_ns, NULL};
}

int64_t mtr_wall_seconds(void)
{
    return (int64_t)time(NULL);
}

void mtr_wall_local(int64_t seconds, int *year, int *month, int *day, int *hour, int *minute,
                    int *second)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    localtime_r(&t, &tm);
    *year = tm.tm_year + 1900;
    *month = tm.tm_mon + 1;
    *day = tm.tm_mday;
    *hour = tm.tm_hour;
    *minute = tm.tm_min;
    *second = tm.tm_sec;
}
