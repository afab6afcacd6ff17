/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who is admitted next, and how many prompt tokens a step may compute.
 *
 * FIFO: in order of arrival; a step takes max_prefill_tokens.
 *
 * SLAI, deadline-aware, for sequences that stream while others arrive:
 *   - while a sequence that decodes has waited 80% of tbt_deadline_ms since its last token,
 *     steps take no prompt tokens, at most MTR_SLAI_MAX_SKIPS steps in a row;
 *   - otherwise, if any sequence decodes, as many as fit into 80% of the deadline by the time
 *     that a row took lately;
 *   - the front of the queue is admitted first (so that nobody waits for ever), then the
 *     shortest prompts.
 *
 * Sequences are passed over whose samples are in flight (preempted just now), that wait for another
 * to compute their prompt, or whose mask for the first token is missing.
 */
#ifndef MTR_SCHED_POLICY_H
#define MTR_SCHED_POLICY_H

#include <stdint.h>

#include "common/wire/step.h"

#define MTR_POLICY_SCAN     1024 /* waiting sequences that are looked at for one admission */
#define MTR_SLAI_PERCENT    80
#define MTR_SLAI_MAX_SKIPS  32
#define MTR_SLAI_MIN_TOKENS 16 /* of prefill that a step takes, however slow the device is */

struct mtr_sched;
struct mtr_seq;

struct mtr_policy_state {
    uint32_t skips; /* steps in a row without prefill, for the deadline's sake */
    double row_ns;  /* device time of one prefill row, smoothed; 0: not known yet */
};

/* Prompt tokens for the step that is made now. */
uint32_t mtr_policy_budget(struct mtr_sched *s, uint64_t now_ns);

/* The waiting sequence to admit next, or NULL. first: it is the step's first admission. */
struct mtr_seq *mtr_policy_next(const struct mtr_sched *s, bool first);

/* Learns from a step's device time. rows: of all lanes, prefill_rows among them. */
void mtr_policy_observe(struct mtr_sched *s, uint32_t rows, uint32_t prefill_rows,
                        uint64_t device_ns);

#endif
