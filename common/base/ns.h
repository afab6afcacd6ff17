/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Nanoseconds in other units; for pure code too, which gets its times as arguments.
 */
#ifndef MTR_BASE_NS_H
#define MTR_BASE_NS_H

#define MTR_NS_PER_S  1000000000ull
#define MTR_NS_PER_MS 1000000ull
#define MTR_NS_PER_US 1000ull

#endif
