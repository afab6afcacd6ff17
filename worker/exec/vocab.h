/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loops over a row of logits, as long as a vocabulary, written so that compilers vectorize them.
 *
 * Each has one meaning on every machine: sums run in 16 fixed lanes, nothing is contracted into
 * fused multiply-adds, so wider registers do the same additions in the same order.
 */
#ifndef MTR_EXEC_VOCAB_H
#define MTR_EXEC_VOCAB_H

#include <stdint.h>

/* The index of the largest, the lowest of equals; 0 when all are NaN or -infinity. */
uint32_t mtr_argmax(const float *x, uint32_t count);

/* Sum of exp(x[i] - max); max is the largest and finite. */
double mtr_sum_exp(const float *x, uint32_t count, float max);

/* Mean and standard deviation of the finite ones (0 and 0 when there are none). */
void mtr_spread(const float *x, uint32_t count, double *mean, double *deviation);

/* How many stand before element `index` in descending order, equals by index. */
uint32_t mtr_rank_of(const float *x, uint32_t count, uint32_t index);

/* scaled[i] = (x[i] - max) * inverse; weights[i] = round(exp(scaled[i]) * 2^30), or 0 where
 * x[i] < floor or NaN. Returns the sum of the weights. */
uint64_t mtr_exp_weights(const float *x, uint32_t count, float max, float inverse, float floor,
                         float *scaled, uint32_t *weights);

/* The indices of all with low <= x[i] * factor < high, ascending, into out [count]; how many.
 * Cheap where they are few. */
uint32_t mtr_select(const float *x, uint32_t count, float factor, float low, float high,
                    uint32_t *out);

#endif
