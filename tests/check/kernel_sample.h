/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Choosing tokens, which is no point of a family: argmax and draws from logits with ties, zeros of
 * both signs, infinities and NaN, against the host and with the lanes' last tokens.
 */
#ifndef MTR_CHECK_KERNEL_SAMPLE_H
#define MTR_CHECK_KERNEL_SAMPLE_H

#include "tests/check/kernel_rig.h"

/* `only`: a prefix of functions, or NULL. Prints a JSON object a line; returns an exit status. */
int kernel_sample(struct rig *r, const char *only, uint32_t seeds);

#endif
