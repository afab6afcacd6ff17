/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * A counter-based generator: the number is a pure function of (seed, position, draw). The token at
 * absolute position p of a sequence is drawn with mtr_uniform(seed, p, draw), wherever and whenever
 * it is computed: this is what makes a request's tokens independent of batch, cache, drafts and
 * restarts.
 */
#ifndef MTR_BASE_PHILOX_H
#define MTR_BASE_PHILOX_H

#include <stdint.h>

/* key = {seed low, seed high}, counter = {position low, position high, draw, 0}. */
void mtr_philox(uint64_t seed, uint64_t position, uint32_t draw, uint32_t out[4]);

/* Uniform in [0, 1): the top 24 bits of out[0], exact in float. */
float mtr_uniform(uint64_t seed, uint64_t position, uint32_t draw);

#endif
