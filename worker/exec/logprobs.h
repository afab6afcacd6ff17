/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Log-probabilities as the model gives them: log-softmax of the raw logits, before bias, mask,
 * penalties, temperature and filters (as vLLM's raw_logprobs).
 */
#ifndef MTR_EXEC_LOGPROBS_H
#define MTR_EXEC_LOGPROBS_H

#include <stdint.h>

#include "common/wire/step.h"

#define MTR_LOGPROBS_MAX_TOP 128

/* Fills out for `token`; out->top_ids and top_logprobs must have room for out->top_count entries,
 * at most MTR_LOGPROBS_MAX_TOP and at most vocab. Equal logits rank by id. */
void mtr_logprobs(const float *logits, uint32_t vocab, uint32_t token, uint32_t *top_ids,
                  float *top_logprobs, struct mtr_token_logprobs *out);

#endif
