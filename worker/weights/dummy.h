/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights without a checkpoint: random, finite, of a size that keeps activations near one, and the
 * same for the same seed, whatever class makes them (kernels/args/dummy.h).
 */
#ifndef MTR_WEIGHTS_DUMMY_H
#define MTR_WEIGHTS_DUMMY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/numeric/format.h"
#include "kernels/args/dummy.h"

enum mtr_dummy_kind {
    MTR_DUMMY_MATRIX, /* near 0 */
    MTR_DUMMY_VECTOR, /* near 1 */
    MTR_DUMMY_SCALES, /* in tensors of their own: such that matrices of e4m3 and e2m1 are near 0 */
};

struct mtr_dummy_launch {
    const char *function; /* of module "dummy" */
    uint32_t grid;        /* blocks */
    struct mtr_dummy_args args;
};

/* The launch that fills elements [first, first + elements) of weight number `index` at dst; both
 * are whole numbers of blocks. False when the format holds no weights. */
bool mtr_dummy_launch(enum mtr_format format, enum mtr_dummy_kind kind, uint64_t seed,
                      uint32_t index, uint64_t first, uint64_t elements, void *dst,
                      struct mtr_dummy_launch *out);

#endif
