/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How long the points of a class take on a model's shapes: many launches in one graph where the
 * device has graphs, so that starting them is not what is measured. Weights and caches that fit the
 * last-level cache are there several times and taken in turn.
 */
#ifndef MTR_CHECK_KERNEL_TIMES_H
#define MTR_CHECK_KERNEL_TIMES_H

#include "tests/check/kernel_rig.h"

/* Prints a JSON object a line; returns an exit status. `only`: a prefix of functions, or NULL. */
int kernel_times(struct rig *r, const char *only);

#endif
