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
