/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random weights, which are no point of a family: every format, whole and from some place in the
 * middle, byte for byte as the host makes them, and no byte beside them.
 */
#ifndef MTR_CHECK_KERNEL_DUMMY_H
#define MTR_CHECK_KERNEL_DUMMY_H

#include "tests/check/kernel_rig.h"

/* Prints a JSON object a line; returns an exit status. */
int kernel_dummy(struct rig *r);

#endif
