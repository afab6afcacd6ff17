/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * With two plans in flight a sequence gets its next token when the step that runs now ends, and
 * the one after that when the step planned here ends: what bounds the time between its tokens is
 * how long this step takes. So SLAI sizes the step's prefill rather than only leaving it out.
 */
#include "broker/sched/policy.h"

#include "broker/sched/internal.h"
#include "common/base/ns.h"

#define SMOOTHING 0.25

static uint64_t patience_ns(const struct mtr_sched *s)
{
    return s->config.tbt_deadline_ms * MTR_NS_PER_MS * MTR_SLAI_PERCENT / 100;
}

/* How long the sequence that decodes and has waited longest has waited; false: none decodes. */
static bool longest_wait(const struct mtr_sched *s, uint64_t now_ns, uint64_t *wait_ns)
{
    bool any = false;
    *wait_ns = 0;
    for (uint32_t i = 0; i < s->running_count; i++) {
        const struct mtr_seq *q = s->running[i];
        if (q->known + q->pending <= q->prompt || q->last_token_ns > now_ns)
            continue;
        any = true;
        if (now_ns - q->last_token_ns > *wait_ns)
            *wait_ns = now_ns - q->last_token_ns;
    }
    return any;
}

static uint32_t tokens_in(const struct mtr_sched *s, uint64_t ns)
{
    uint32_t most = s->config.max_prefill_tokens, least = MTR_SLAI_MIN_TOKENS;
    if (s->config.geometry.recurrent && least < s->config.geometry.chunk_tokens)
        least = s->config.geometry.chunk_tokens;
    if (s->policy.row_ns <= 0 || (double)ns / s->policy.row_ns > most)
        return most;
    uint32_t fit = (uint32_t)((double)ns / s->policy.row_ns);
    return fit > least ? fit : least < most ? least : most;
}

uint32_t mtr_policy_budget(struct mtr_sched *s, uint64_t now_ns)
{
    uint64_t wait_ns;
    if (s->config.policy != MTR_SCHED_SLAI || !longest_wait(s, now_ns, &wait_ns))
        return s->config.max_prefill_tokens;
    if (wait_ns >= patience_ns(s) && s->policy.skips < MTR_SLAI_MAX_SKIPS) {
        s->policy.skips++;
        return 0;
    }
    s->policy.skips = 0;
    return tokens_in(s, patience_ns(s));
}

static bool eligible(const struct mtr_sched *s, const struct mtr_seq *q)
{
    if (q->pending > 0 || q->closing || (q->constrained && !q->mask))
        return false;
    const struct mtr_seq *first = q->after ? mtr_sched_find(s, q->after) : NULL;
    return !first || mtr_seq_outputs(first) > 0;
}

struct mtr_seq *mtr_policy_next(const struct mtr_sched *s, bool first)
{
    struct mtr_seq *best = NULL;
    bool in_order = first || s->config.policy == MTR_SCHED_FIFO;
    uint32_t seen = 0;
    for (struct mtr_seq *q = s->waiting.first; q && seen < MTR_POLICY_SCAN; q = q->next, seen++) {
        if (!eligible(s, q))
            continue;
        if (in_order)
            return q;
        if (!best || q->known < best->known)
            best = q;
    }
    return best;
}

void mtr_policy_observe(struct mtr_sched *s, uint32_t rows, uint32_t prefill_rows,
                        uint64_t device_ns)
{
    if (prefill_rows < MTR_SLAI_MIN_TOKENS || device_ns == 0)
        return;
    double row_ns = (double)device_ns / rows;
    double *mean = &s->policy.row_ns;
    *mean = *mean > 0 ? *mean + SMOOTHING * (row_ns - *mean) : row_ns;
}
