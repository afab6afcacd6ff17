/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sampler: adjust, then cut, then draw.
 *
 * Greedy requests without adjustments (the common case of agents) never copy the logits: one
 * vectorized argmax. All others copy them, and everything that keeps a prefix of the descending
 * order (top_k, top_p, min_p) becomes a weight: the draw is below the least of them.
 */
#include "worker/exec/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/philox.h"
#include "worker/exec/distribution.h"
#include "worker/exec/vocab.h"

#define SEEN          0x80000000u /* in counts: the token occurs in the history */
#define UNIFORM_STEPS 16777216.0f /* mtr_uniform is a multiple of 2^-24 */

bool mtr_sampler_scratch_init(struct mtr_sampler_scratch *s, uint32_t vocab, struct mtr_error *err)
{
    *s = (struct mtr_sampler_scratch){
        .vocab = vocab,
        .adjusted = malloc(vocab * sizeof *s->adjusted),
        .scaled = malloc(vocab * sizeof *s->scaled),
        .weights = malloc(vocab * sizeof *s->weights),
        .keys = malloc(vocab * sizeof *s->keys),
        .indices = malloc(vocab * sizeof *s->indices),
        .counts = calloc(vocab, sizeof *s->counts),
    };
    if (s->adjusted && s->scaled && s->weights && s->keys && s->indices && s->counts)
        return true;
    mtr_sampler_scratch_free(s);
    return mtr_fail(err, MTR_NO_MEMORY, "no memory to sample from %u tokens", vocab);
}

void mtr_sampler_scratch_free(struct mtr_sampler_scratch *s)
{
    free(s->adjusted);
    free(s->scaled);
    free(s->weights);
    free(s->keys);
    free(s->indices);
    free(s->counts);
    *s = (struct mtr_sampler_scratch){0};
}

bool mtr_sampling_reads_history(const struct mtr_sampling *s, uint32_t *from)
{
    bool prompt = s->repetition_penalty != 1;
    *from = prompt ? 0 : s->output_start;
    return prompt || s->presence_penalty != 0 || s->frequency_penalty != 0;
}

static float penalized(const struct mtr_sampling *s, float logit, uint32_t count)
{
    if (s->repetition_penalty != 1)
        logit = logit > 0 ? logit / s->repetition_penalty : logit * s->repetition_penalty;
    uint32_t outputs = count & ~SEEN;
    if (outputs)
        logit -= s->frequency_penalty * (float)outputs + s->presence_penalty;
    return logit;
}

/* Counts each token of the history, then visits each once: the visit clears its count. */
static void apply_penalties(const struct mtr_sampler_input *in, struct mtr_sampler_scratch *t)
{
    const struct mtr_sampling *s = in->sampling;
    uint32_t from;
    if (!mtr_sampling_reads_history(s, &from))
        return;
    for (uint32_t i = from; i < in->position; i++) {
        uint32_t *count = &t->counts[in->history[i]];
        *count = (*count | SEEN) + (i >= s->output_start);
    }
    for (uint32_t i = from; i < in->position; i++) {
        uint32_t token = in->history[i];
        if (t->counts[token] == 0)
            continue;
        t->adjusted[token] = penalized(s, t->adjusted[token], t->counts[token]);
        t->counts[token] = 0;
    }
}

static void apply_mask(const struct mtr_sampler_input *in, float *x)
{
    for (uint32_t i = 0; in->mask && i < in->vocab; i++)
        if (!(in->mask[i / 8] >> (i % 8) & 1))
            x[i] = -INFINITY;
}

static void apply_bans(const struct mtr_sampler_input *in, float *x)
{
    for (uint32_t i = 0; i < in->banned_count; i++)
        x[in->banned[i]] = -INFINITY;
}

static void apply_bias(const struct mtr_sampler_input *in, float *x)
{
    const struct mtr_sampling *s = in->sampling;
    for (uint32_t i = 0; i < s->bias_count; i++)
        x[s->bias_ids[i]] += s->bias_values[i];
}

static uint32_t first_allowed(const struct mtr_sampler_input *in)
{
    for (uint32_t i = 0; in->mask && i < in->vocab; i++)
        if (in->mask[i / 8] >> (i % 8) & 1)
            return i;
    return 0;
}

static void adjust(const struct mtr_sampler_input *in, struct mtr_sampler_scratch *t, bool bans)
{
    memcpy(t->adjusted, in->logits, in->vocab * sizeof *t->adjusted);
    apply_bias(in, t->adjusted);
    apply_penalties(in, t);
    if (bans)
        apply_bans(in, t->adjusted);
    apply_mask(in, t->adjusted);
}

static bool needs_adjusting(const struct mtr_sampler_input *in)
{
    uint32_t from;
    return in->mask || in->banned_count || in->sampling->bias_count ||
           mtr_sampling_reads_history(in->sampling, &from);
}

static bool possible(float logit)
{
    return logit > -INFINITY; /* false for NaN */
}

/* The least logit that top_n_sigma keeps. */
static float sigma_floor(const struct mtr_sampling *s, const float *x, uint32_t count, float max)
{
    if (s->top_n_sigma <= 0)
        return -INFINITY;
    double mean, deviation;
    mtr_spread(x, count, &mean, &deviation);
    return (float)((double)max - (double)s->top_n_sigma * deviation);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The weight below which the draw falls. */
static uint64_t kept_weight(struct mtr_distribution *d, const struct mtr_sampling *s)
{
    uint64_t kept = d->total;
    if (s->top_k > 0)
        kept = mtr_distribution_first(d, s->top_k);
    if (s->top_p < 1)
        kept = mtr_distribution_reach(d, (uint64_t)ceil((double)s->top_p * (double)kept));
    if (s->min_p > 0)
        kept = least(kept, mtr_distribution_above(d, logf(s->min_p)));
    return kept;
}

static uint32_t draw(const struct mtr_sampler_input *in, struct mtr_sampler_scratch *t,
                     const float *x, float max)
{
    const struct mtr_sampling *s = in->sampling;
    struct mtr_distribution d;
    mtr_distribution_init(&d, x, in->vocab, max, s->temperature, sigma_floor(s, x, in->vocab, max),
                          t->scaled, t->weights, t->keys, t->indices);
    uint64_t u = (uint64_t)(mtr_uniform(s->seed, in->position, 0) * UNIFORM_STEPS);
    unsigned __int128 at = (unsigned __int128)kept_weight(&d, s) * u >> 24;
    return mtr_distribution_token(&d, (uint64_t)at);
}

uint32_t mtr_sample(const struct mtr_sampler_input *in, struct mtr_sampler_scratch *t)
{
    const float *x = in->logits;
    if (needs_adjusting(in)) {
        adjust(in, t, true);
        x = t->adjusted;
    }
    uint32_t best = mtr_argmax(x, in->vocab);
    if (!possible(x[best]) && in->banned_count) {
        adjust(in, t, false);
        best = mtr_argmax(x, in->vocab);
    }
    if (!possible(x[best]))
        return first_allowed(in);
    if (in->sampling->temperature < MTR_SAMPLER_GREEDY_BELOW || isinf(x[best]))
        return best;
    return draw(in, t, x, x[best]);
}
