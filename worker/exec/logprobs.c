/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The best n are found by one walk with a sorted list of at most n: a logit that does not beat the
 * last of a full list costs one comparison.
 */
#include "worker/exec/logprobs.h"

#include <math.h>

#include "worker/exec/vocab.h"

/* Inserts behind all that are not smaller, so that equals stay in order of id. */
static void insert(uint32_t *ids, float *values, uint32_t *count, uint32_t room, uint32_t id,
                   float value)
{
    uint32_t i = *count < room ? (*count)++ : room - 1;
    for (; i > 0 && values[i - 1] < value; i--) {
        values[i] = values[i - 1];
        ids[i] = ids[i - 1];
    }
    values[i] = value;
    ids[i] = id;
}

static void find_best(const float *logits, uint32_t vocab, uint32_t n, uint32_t *ids, float *values)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < vocab && n > 0; i++) {
        float v = isnan(logits[i]) ? -INFINITY : logits[i];
        if (count < n || v > values[count - 1])
            insert(ids, values, &count, n, i, v);
    }
}

void mtr_logprobs(const float *logits, uint32_t vocab, uint32_t token, uint32_t *top_ids,
                  float *top_logprobs, struct mtr_token_logprobs *out)
{
    float max = logits[mtr_argmax(logits, vocab)];
    double norm = (double)max + log(mtr_sum_exp(logits, vocab, max));
    out->logprob = (float)((double)logits[token] - norm);
    out->rank = mtr_rank_of(logits, vocab, token);
    find_best(logits, vocab, out->top_count, top_ids, top_logprobs);
    for (uint32_t i = 0; i < out->top_count; i++)
        top_logprobs[i] = (float)((double)top_logprobs[i] - norm);
    out->top_ids = top_ids;
    out->top_logprobs = top_logprobs;
}
