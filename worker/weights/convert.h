/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a format in the file to the format that a kernel reads.
 */
#ifndef MTR_WEIGHTS_CONVERT_H
#define MTR_WEIGHTS_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/numeric/format.h"

/* Equal formats, and whatever has a value of its own to f32, bf16 or f16. */
bool mtr_convertible(enum mtr_format from, enum mtr_format to);

/* elements: a whole number of blocks of both formats. Neither pointer needs alignment. Values round
 * to nearest, ties to even. Needs mtr_convertible(from, to). */
void mtr_convert(enum mtr_format from, const void *src, enum mtr_format to, void *dst,
                 uint64_t elements);

/* x [n] f32 of any alignment: divisors into what multiplies instead, 1 / x rounded. */
void mtr_invert(void *x, uint64_t n);

#endif
