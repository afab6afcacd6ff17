/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A softmax distribution over a vocabulary that can be cut and drawn from without sorting it.
 *
 * Token i has x[i] = (logit - max) / temperature <= 0 and the integer weight
 * round(exp(x[i]) * 2^30). Sums of integers are exact in any order, so neither vector width nor
 * thread count can change a bit. Tokens below 2^-31 of the largest weigh nothing.
 *
 * The order of tokens is: x descending, equal x by id. Every question ("how much do the first k
 * weigh", "who stands at this weight") is about a prefix of that order, and is answered in two
 * steps: a histogram over x gives the bucket, and only that bucket's tokens are sorted.
 */
#ifndef MTR_EXEC_DISTRIBUTION_H
#define MTR_EXEC_DISTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define MTR_DISTRIBUTION_BUCKETS 272 /* of 1/12: exp(-22.6) * 2^30 rounds to 0 */

struct mtr_distribution {
    uint32_t count; /* tokens */
    const float *x;
    const uint32_t *weights;
    uint64_t *keys;    /* [count] room for a sorted bucket */
    uint32_t *indices; /* [count] room */
    uint64_t total;    /* sum of weights */
    uint32_t bucket_count[MTR_DISTRIBUTION_BUCKETS];
    uint64_t bucket_weight[MTR_DISTRIBUTION_BUCKETS];
    bool tail_counted;
    uint32_t open_bucket; /* whose keys are sorted, or MTR_DISTRIBUTION_BUCKETS */
};

/* logits [count] with largest value max (finite); those below `floor` are left out. x, weights,
 * keys and indices [count] are the caller's memory, filled here. */
void mtr_distribution_init(struct mtr_distribution *d, const float *logits, uint32_t count,
                           float max, float temperature, float floor, float *x, uint32_t *weights,
                           uint64_t *keys, uint32_t *indices);

/* Weight of the first k tokens. */
uint64_t mtr_distribution_first(struct mtr_distribution *d, uint32_t k);

/* Weight of the shortest prefix that weighs at least `weight` (all, if none does). */
uint64_t mtr_distribution_reach(struct mtr_distribution *d, uint64_t weight);

/* Weight of the tokens with x >= limit; at least that of the first token. */
uint64_t mtr_distribution_above(struct mtr_distribution *d, float limit);

/* The token that covers `at` when the tokens' weights lie one after the other; at < total. */
uint32_t mtr_distribution_token(struct mtr_distribution *d, uint64_t at);

#endif
