/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Choosing tokens, which is no point of a family: argmax of logits with ties, zeros of both signs,
 * infinities and NaN, against the host and with the lanes' last tokens.
 */
#ifndef MTR_CHECK_KERNEL_SAMPLE_H
#define MTR_CHECK_KERNEL_SAMPLE_H

#include "tests/check/kernel_rig.h"

/* Prints a JSON object a line; returns an exit status. */
int kernel_sample(struct rig *r, uint32_t seeds);

#endif
