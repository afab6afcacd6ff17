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

struct mtr_dummy_launch {
    const char *function; /* of module "dummy" */
    uint32_t grid;        /* blocks */
    struct mtr_dummy_args args;
};

/* The launch that fills elements [first, first + elements) of weight number `index` at dst; both
 * are whole numbers of blocks. Vectors are near 1, matrices near 0. False when the format has no
 * values of its own. */
bool mtr_dummy_launch(enum mtr_format format, bool vector, uint64_t seed, uint32_t index,
                      uint64_t first, uint64_t elements, void *dst, struct mtr_dummy_launch *out);

#endif
