/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From logits to a token. A pure function: the same input gives the same token on every machine.
 *
 * Order, as users of Hugging Face transformers and vLLM expect it:
 *   1. logit_bias adds; banned ids and ids outside the mask become impossible
 *   2. repetition penalty over prompt and output (positive logits are divided, others multiplied),
 *      then frequency and presence penalties over the output
 *   3. temperature 0 (or below 1e-5): the largest logit, the lowest id of equals. Otherwise
 *      logits / temperature, and
 *   4. top_n_sigma: keeps logits >= max - n * sigma (of the possible ones)
 *   5. top_k: keeps the k largest
 *   6. top_p: keeps the shortest run of the largest whose share of what top_k left is >= top_p
 *   7. min_p: keeps probabilities >= min_p * the largest
 *   8. one number u = mtr_uniform(seed, position of the new token, 0) picks by inverse CDF, walking
 *      in descending order, equals by id
 * Every filter keeps at least the largest.
 *
 * If bans leave nothing possible they are dropped (the mask is the stronger promise); a mask that
 * allows nothing is refused before it comes here. NaN logits count as impossible.
 */
#ifndef MTR_EXEC_SAMPLER_H
#define MTR_EXEC_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/wire/step.h"

#define MTR_SAMPLER_GREEDY_BELOW 1e-5f /* temperatures that no float division survives */

/* Memory of one sampling thread, sized for a vocabulary. */
struct mtr_sampler_scratch {
    uint32_t vocab;
    float *adjusted;   /* [vocab] */
    float *scaled;     /* [vocab] (logit - max) / temperature */
    uint32_t *weights; /* [vocab] */
    uint64_t *keys;    /* [vocab] */
    uint32_t *indices; /* [vocab] */
    uint32_t *counts;  /* [vocab], all 0 between calls */
};

bool mtr_sampler_scratch_init(struct mtr_sampler_scratch *s, uint32_t vocab, struct mtr_error *err);
void mtr_sampler_scratch_free(struct mtr_sampler_scratch *s);

struct mtr_sampler_input {
    const float *logits; /* [vocab] */
    uint32_t vocab;
    const struct mtr_sampling *sampling;
    uint32_t position;       /* absolute, of the token to choose */
    const uint32_t *history; /* [position] tokens; read only if there are penalties */
    const uint8_t *mask;     /* id i is allowed when bit i % 8 (1 << 0 first) of byte i / 8 is set;
                                or NULL */
    const uint32_t *banned;  /* [banned_count] */
    uint32_t banned_count;
};

uint32_t mtr_sample(const struct mtr_sampler_input *in, struct mtr_sampler_scratch *scratch);

/* Whether penalties read the history, and from which position on. */
bool mtr_sampling_reads_history(const struct mtr_sampling *s, uint32_t *from);

#endif
