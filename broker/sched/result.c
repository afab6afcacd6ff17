/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A step's result, to the sequences of its lanes.
 *
 * The whole result is compared with what was asked before any of it is used: a worker that answers
 * something else is broken, and its tokens must not reach a client. That holds for every number
 * that is used as an index or a size, here or behind: ids, ranks, counts. Lanes of sequences that
 * ended meanwhile are skipped; those of preempted sequences count like any other.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "broker/sched/internal.h"

#define MOST_LOGPROB 1e-3f /* zero, but for rounding */

static bool answers(const struct mtr_flight_lane *asked)
{
    return asked->outputs > 0 || asked->score;
}

static bool check_ids(const struct mtr_sched *s, const uint32_t *ids, uint32_t count,
                      const char *what, struct mtr_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= s->config.geometry.vocab)
            return mtr_fail(err, MTR_INVALID, "%s %u of a vocabulary of %u", what, ids[i],
                            s->config.geometry.vocab);
    return true;
}

/* asked: as in struct mtr_sampling. */
static bool check_logprobs(const struct mtr_sched *s, const struct mtr_token_logprobs *p,
                           uint32_t count, uint32_t asked, struct mtr_error *err)
{
    uint32_t most = asked ? asked - 1 : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(p[i].logprob) || p[i].logprob > MOST_LOGPROB)
            return mtr_fail(err, MTR_INVALID, "a log-probability of %g", (double)p[i].logprob);
        if (!check_ids(s, &p[i].rank, 1, "rank", err))
            return false;
        if (p[i].top_count > most)
            return mtr_fail(err, MTR_INVALID, "%u best tokens, asked for %u", p[i].top_count, most);
        if (!check_ids(s, p[i].top_ids, p[i].top_count, "best token", err))
            return false;
        for (uint32_t k = 0; k < p[i].top_count; k++)
            if (isnan(p[i].top_logprobs[k]) || p[i].top_logprobs[k] > MOST_LOGPROB)
                return mtr_fail(err, MTR_INVALID, "a log-probability of %g",
                                (double)p[i].top_logprobs[k]);
    }
    return true;
}

/* What is accepted stands in the cache already, as it was sent. */
static bool check_accepted(const struct mtr_sched *s, const struct mtr_lane_result *l,
                           struct mtr_error *err)
{
    const struct mtr_seq *q = l->accepted ? mtr_sched_find(s, l->sequence) : NULL;
    for (uint32_t i = 0; q && i < l->accepted; i++)
        if (l->tokens[i] != q->draft_row[1 + i])
            return mtr_fail(err, MTR_INVALID, "draft %u accepted as %u, sent as %u", i,
                            l->tokens[i], q->draft_row[1 + i]);
    return true;
}

static bool check_lane(const struct mtr_sched *s, const struct mtr_flight_lane *asked,
                       const struct mtr_lane_result *l, struct mtr_error *err)
{
    uint32_t most = asked->outputs, scores = asked->score ? asked->count - 1 : 0;
    uint32_t logprobs = asked->logprobs ? l->token_count : 0;
    uint32_t drafts = most ? s->config.max_drafts : 0;
    if (l->sequence != asked->id)
        return mtr_fail(err, MTR_INVALID, "sequence %llu, expected %llu",
                        (unsigned long long)l->sequence, (unsigned long long)asked->id);
    if (l->token_count > most || (most > 0 && l->token_count != 1 + l->accepted) ||
        l->accepted > asked->drafts)
        return mtr_fail(err, MTR_INVALID, "%u tokens and %u accepted drafts of %u outputs",
                        l->token_count, l->accepted, most);
    if (l->score_count != scores)
        return mtr_fail(err, MTR_INVALID, "%u scores, expected %u", l->score_count, scores);
    if (l->logprob_count != logprobs)
        return mtr_fail(err, MTR_INVALID, "%u log-probabilities, expected %u", l->logprob_count,
                        logprobs);
    if (l->draft_count > drafts)
        return mtr_fail(err, MTR_INVALID, "%u drafts, expected %u at most", l->draft_count, drafts);
    return check_ids(s, l->tokens, l->token_count, "token", err) &&
           check_ids(s, l->drafts, l->draft_count, "draft", err) &&
           check_logprobs(s, l->logprobs, l->logprob_count, asked->logprobs, err) &&
           check_logprobs(s, l->scores, l->score_count, asked->logprobs, err) &&
           check_accepted(s, l, err);
}

static bool check_result(const struct mtr_sched *s, const struct mtr_flight *f,
                         const struct mtr_step_result *result, struct mtr_error *err)
{
    uint32_t at = 0;
    if (result->step != f->step)
        return mtr_fail(err, MTR_INVALID, "a result of step %llu, expected step %llu",
                        (unsigned long long)result->step, (unsigned long long)f->step);
    for (uint32_t i = 0; i < f->lane_count; i++) {
        if (!answers(&f->lanes[i]))
            continue;
        if (at == result->lane_count)
            return mtr_fail(err, MTR_INVALID, "result of step %llu: only %u lanes",
                            (unsigned long long)f->step, at);
        if (!check_lane(s, &f->lanes[i], &result->lanes[at], err))
            return mtr_error_prefix(err, "result of step %llu: lane %u",
                                    (unsigned long long)f->step, at);
        at++;
    }
    return at == result->lane_count ||
           mtr_fail(err, MTR_INVALID, "result of step %llu: %u lanes, expected %u",
                    (unsigned long long)f->step, result->lane_count, at);
}

/* Scores that were not delivered yet: after a preemption some may come twice. False: q is gone. */
static bool take_scores(struct mtr_sched *s, struct mtr_seq *q, const struct mtr_flight_lane *asked,
                        const struct mtr_lane_result *l, uint64_t now_ns)
{
    uint32_t first = asked->start + 1, end = asked->start + asked->count;
    uint32_t skip = q->scored > first ? q->scored - first : 0;
    if (q->scored < first || skip >= l->score_count)
        return true;
    struct mtr_sched_event *e = mtr_sched_event(s, q, MTR_SCHED_SCORES);
    if (!e) {
        struct mtr_error why;
        mtr_fail(&why, MTR_NO_MEMORY, "no memory to deliver scores");
        mtr_sched_finish(s, q, MTR_FINISH_ERROR, 0, &why, now_ns);
        return false;
    }
    e->count = l->score_count - skip;
    e->logprobs = l->scores + skip;
    e->first = first + skip;
    q->scored = end;
    q->losses = 0;
    if (q->score_planned < end)
        q->score_planned = end;
    return true;
}

/* Appends tokens until one ends the sequence. Returns how many clients shall see. */
static uint32_t append(struct mtr_seq *q, const struct mtr_lane_result *l, enum mtr_finish *finish,
                       uint32_t *stop_id)
{
    *finish = MTR_FINISH_NONE;
    for (uint32_t i = 0; i < l->token_count; i++) {
        if (!mtr_seq_append(q, l->tokens[i])) {
            *finish = MTR_FINISH_ERROR;
            return i;
        }
        if (mtr_seq_is_stop(q, l->tokens[i])) {
            *finish = MTR_FINISH_STOP;
            *stop_id = l->tokens[i];
            return i;
        }
        if (q->known >= q->limit) {
            *finish = MTR_FINISH_LENGTH;
            return i + 1;
        }
    }
    return l->token_count;
}

static void take_drafts(struct mtr_seq *q, const struct mtr_lane_result *l)
{
    q->draft_count = 0;
    if (!q->running || q->pending > 0 || q->constrained)
        return;
    q->draft_count = l->draft_count;
    for (uint32_t i = 0; i < l->draft_count; i++)
        q->draft_row[1 + i] = l->drafts[i];
}

static void take_tokens(struct mtr_sched *s, struct mtr_seq *q, const struct mtr_flight_lane *asked,
                        const struct mtr_lane_result *l, uint64_t now_ns)
{
    enum mtr_finish finish;
    uint32_t stop_id = 0;
    struct mtr_error why;
    q->pending--;
    q->mask = NULL;
    q->last_token_ns = now_ns;
    s->stats.accepted_tokens += l->accepted;
    uint32_t shown = append(q, l, &finish, &stop_id);
    if (q->running)
        q->planned += l->accepted;
    take_drafts(q, l);
    struct mtr_sched_event *e = shown ? mtr_sched_event(s, q, MTR_SCHED_TOKENS) : NULL;
    if (e) {
        e->count = shown;
        e->tokens = l->tokens;
        e->logprobs = l->logprob_count ? l->logprobs : NULL;
    }
    if (finish == MTR_FINISH_ERROR || (shown && !e)) {
        mtr_fail(&why, MTR_NO_MEMORY, "no memory for another token");
        finish = MTR_FINISH_ERROR;
    }
    if (finish != MTR_FINISH_NONE)
        mtr_sched_finish(s, q, finish, stop_id, &why, now_ns);
}

static void take_lane(struct mtr_sched *s, const struct mtr_flight_lane *asked,
                      const struct mtr_lane_result *l, uint64_t now_ns)
{
    struct mtr_seq *q = mtr_sched_find(s, asked->id);
    if (!q)
        return;
    if (asked->score && !take_scores(s, q, asked, l, now_ns))
        return;
    if (asked->outputs > 0)
        take_tokens(s, q, asked, l, now_ns);
    else if (asked->closing)
        mtr_sched_finish(s, q, MTR_FINISH_LENGTH, 0, NULL, now_ns);
}

static void pop_flight(struct mtr_sched *s)
{
    struct mtr_flight done = s->flights[0];
    s->flying--;
    for (uint32_t i = 0; i < s->flying; i++)
        s->flights[i] = s->flights[i + 1];
    s->flights[s->flying] = done; /* its array is used again */
}

bool mtr_sched_result(struct mtr_sched *s, const struct mtr_step_result *result, uint64_t now_ns,
                      struct mtr_error *err)
{
    if (s->flying == 0)
        return mtr_fail(err, MTR_INVALID, "a result of step %llu, but no step is unanswered",
                        (unsigned long long)result->step);
    const struct mtr_flight *f = &s->flights[0];
    if (!check_result(s, f, result, err))
        return false;
    uint32_t rows = 0, prefill_rows = 0;
    const struct mtr_lane_result *next = result->lanes;
    for (uint32_t i = 0; i < f->lane_count; i++) {
        const struct mtr_flight_lane *asked = &f->lanes[i];
        rows += asked->count;
        prefill_rows += asked->prefill ? asked->count : 0;
        take_lane(s, asked, answers(asked) ? next++ : NULL, now_ns);
    }
    mtr_policy_observe(s, rows, prefill_rows, result->device_ns);
    pop_flight(s);
    return true;
}
