/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One step.
 *
 * Running sequences are served in order of arrival, each with at most one lane; then waiting ones
 * are admitted while slots, blocks and the step's budgets last. When blocks run out for a running
 * sequence, nodes of the prefix cache are evicted, then the sequence that arrived last is
 * preempted: it comes later in this order, so it has no lane in this step yet. A sequence that
 * finds nobody later than itself waits with what it has. So the oldest always goes on, and
 * admission preempts nobody.
 *
 * Order makes reuse safe. The worker runs plans in order, and a plan's effects before its lanes. A
 * block that is free when a plan is made was last read by an earlier plan. What a plan's lanes
 * write becomes part of the prefix tree when the next plan is made, so that only later plans read
 * or copy it. A snapshot's source is the state as the plan before left it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sched/internal.h"
#include "common/base/buf.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- effects ----------------------------------------------------------------------------------
 */

static bool add_effect(struct mtr_sched *s, enum mtr_effect_kind kind, uint32_t group, uint32_t src,
                       uint32_t dst)
{
    void *array = s->effects;
    if (!mtr_grow(&array, &s->effects_cap, s->plan.effect_count + 1ul, sizeof(*s->effects)))
        return false;
    s->effects = array;
    s->effects[s->plan.effect_count++] =
        (struct mtr_effect){.kind = kind, .group = group, .src = src, .dst = dst};
    return true;
}

/* The state as it was left at a chunk's end, for prompts to come. */
static void take_snapshot(struct mtr_sched *s, struct mtr_seq *q)
{
    uint32_t at = q->snapshot_at;
    q->snapshot_at = 0;
    if (at == 0 || at != q->planned || at / s->radix.block_tokens > q->table.shared)
        return;
    uint32_t node = q->table.nodes[at / s->radix.block_tokens - 1];
    if (s->radix.nodes[node].snapshot != MTR_NO_ID)
        return;
    uint32_t id = mtr_radix_snapshot(&s->radix, node);
    if (id != MTR_NO_ID && !add_effect(s, MTR_SNAPSHOT_STATE, 0, q->slot, id))
        mtr_radix_drop_snapshot(&s->radix, node);
}

/* ---- blocks -----------------------------------------------------------------------------------
 */

/* Takes the place of whoever arrived last, if that is later than q. */
static bool preempt_later(struct mtr_sched *s, const struct mtr_seq *q)
{
    if (s->running_count == 0 || s->running[s->running_count - 1]->id <= q->id)
        return false;
    mtr_sched_preempt(s, s->running[s->running_count - 1]);
    s->stats.preemptions++;
    return true;
}

static bool claim(struct mtr_sched *s, struct mtr_seq *q, uint32_t positions)
{
    for (uint32_t g = 0; g < s->radix.group_count; g++)
        if (!mtr_table_claim(&s->radix, &q->table, g, positions))
            return false;
    return true;
}

/* The most positions that q's tables can be extended to without taking anything from anyone. */
static uint32_t reach(const struct mtr_sched *s, const struct mtr_seq *q)
{
    uint64_t most = UINT32_MAX;
    for (uint32_t g = 0; g < s->radix.group_count; g++) {
        uint64_t blocks = (uint64_t)q->table.count[g] + mtr_radix_available(&s->radix, g);
        most = blocks * s->radix.block_tokens < most ? blocks * s->radix.block_tokens : most;
    }
    return (uint32_t)most;
}

/* ---- lanes ------------------------------------------------------------------------------------
 */

static bool needs_history(const struct mtr_sampling *p)
{
    return p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* What of the tables the worker does not know yet. */
static void add_changes(struct mtr_sched *s, struct mtr_seq *q, struct mtr_lane *lane)
{
    struct mtr_table *t = &q->table;
    struct mtr_table_change *changes =
        s->changes + (size_t)s->plan.lane_count * s->config.geometry.group_count;
    lane->tables = changes;
    for (uint32_t g = 0; g < s->radix.group_count; g++) {
        if (t->sent[g] >= t->count[g])
            continue;
        changes[lane->table_count++] = (struct mtr_table_change){
            g, t->sent[g], t->count[g] - t->sent[g], t->blocks[g] + t->sent[g]};
        t->sent[g] = t->count[g];
    }
}

/* What the first sample of a lane needs; plan_decode cuts drafts so that it holds for all. The mask
 * stays until a token comes back: it is needed again when the worker is lost. */
static void add_sampling(const struct mtr_seq *q, uint32_t output, struct mtr_lane *lane)
{
    if (output < q->min_tokens) {
        lane->banned_count = q->stop_count;
        lane->banned = q->stop_ids;
    }
    lane->mask = q->mask;
    lane->mask_bytes = q->mask ? q->mask_bytes : 0;
}

/* Appends a lane over [start, start + count), whose blocks are claimed, the last `outputs` rows of
 * which are sampled. */
static struct mtr_lane *add_lane(struct mtr_sched *s, struct mtr_seq *q, uint32_t start,
                                 uint32_t count, uint32_t outputs)
{
    struct mtr_lane *lane = &s->lanes[s->plan.lane_count];
    *lane = (struct mtr_lane){.sequence = q->id,
                              .slot = q->slot,
                              .open = q->open,
                              .start = start,
                              .count = count,
                              .tokens = start < q->known ? q->tokens + start : NULL,
                              .outputs = outputs,
                              .adapter = q->adapter};
    if (q->open) {
        lane->sampling = &q->sampling;
        lane->history_count = needs_history(&q->sampling) ? start : 0;
        lane->history = lane->history_count ? q->tokens : NULL;
    }
    q->open = false;
    add_changes(s, q, lane);
    if (outputs > 0)
        add_sampling(q, start + count - outputs + 1 - q->prompt, lane);
    s->plan.lane_count++;
    return lane;
}

/* Remembers the lane until its result. */
static void note_lane(struct mtr_sched *s, const struct mtr_seq *q, const struct mtr_lane *lane,
                      bool prefill, bool closing)
{
    struct mtr_flight *f = &s->flights[s->flying];
    f->lanes[f->lane_count++] = (struct mtr_flight_lane){.id = lane->sequence,
                                                         .start = lane->start,
                                                         .count = lane->count,
                                                         .outputs = lane->outputs,
                                                         .drafts = lane->drafts,
                                                         .logprobs = q->sampling.logprobs,
                                                         .score = lane->score,
                                                         .prefill = prefill,
                                                         .closing = closing};
    if (prefill)
        s->fresh[s->fresh_count++] = lane->sequence;
    *(prefill ? &s->stats.prefill_tokens : &s->stats.decode_tokens) += lane->count;
    s->stats.draft_tokens += lane->drafts;
}

static void advance(struct mtr_sched *s, struct mtr_seq *q, uint32_t planned)
{
    if (q->planned < q->high)
        s->stats.replayed_tokens += min_u32(planned, q->high) - q->planned;
    q->planned = planned;
    if (planned > q->high)
        q->high = planned;
}

/* ---- decode -----------------------------------------------------------------------------------
 */

/* How many of the proposed drafts the next lane takes: none past the limit, none across the end of
 * min_tokens, where the rules for a sample change. */
static uint32_t usable_drafts(const struct mtr_seq *q)
{
    uint32_t output = mtr_seq_outputs(q);
    uint32_t most = q->pending > 0 || q->constrained ? 0 : q->limit - q->known - 1;
    if (output < q->min_tokens)
        most = min_u32(most, q->min_tokens - output - 1);
    return min_u32(q->draft_count, most);
}

/* One row: the newest token, maybe with drafts behind it, or an old one that is replayed. */
static void plan_decode(struct mtr_sched *s, struct mtr_seq *q)
{
    bool samples = q->planned + 1 >= q->known;
    uint32_t drafts = samples ? usable_drafts(q) : 0;
    if (samples && q->constrained && !q->mask)
        return;
    mtr_table_slide(&s->radix, &s->config.geometry, &q->table, q->planned);
    if (drafts > 0 && !claim(s, q, q->planned + 1 + drafts))
        drafts = 0;
    while (!claim(s, q, q->planned + 1))
        if (!preempt_later(s, q))
            return;
    struct mtr_lane *lane = add_lane(s, q, q->planned, 1 + drafts, samples ? 1 + drafts : 0);
    if (drafts > 0) {
        q->draft_row[0] = q->tokens[q->planned];
        lane->tokens = q->draft_row;
        lane->drafts = drafts;
    }
    q->draft_count = 0;
    q->pending += samples;
    note_lane(s, q, lane, false, false);
    advance(s, q, q->planned + 1);
}

/* ---- prefill ----------------------------------------------------------------------------------
 */

/* The next row is the first whose score was not asked for yet. */
static bool scores_now(const struct mtr_seq *q)
{
    return mtr_seq_scoring(q) && q->planned == q->score_planned - 1;
}

/* Recurrent models: the next turn can pick up where the prompt's last chunk begins; where that
 * chunk is so short that what a template puts before the answer may be all of it, one chunk
 * earlier. */
static bool near_end(const struct mtr_sched *s, const struct mtr_seq *q, uint32_t position)
{
    uint32_t chunk = s->config.geometry.chunk_tokens, last = (q->prompt - 1) / chunk * chunk;
    return position == last ||
           (position > 0 && position + chunk == last && q->prompt - last <= MTR_SCHED_PROMPT_TAIL);
}

/* Is a snapshot of the state behind this position worth keeping? */
static bool snapshot_due(const struct mtr_sched *s, const struct mtr_seq *q, uint32_t position)
{
    uint32_t interval = s->config.snapshot_interval_tokens;
    return s->config.prefix_cache &&
           (near_end(s, q, position) || (interval > 0 && position % interval == 0));
}

/* Recurrent models: the nearest end at or before `end` that keeps chunks whole and stops where a
 * snapshot is due. */
static uint32_t align_chunk(const struct mtr_sched *s, const struct mtr_seq *q, uint32_t end)
{
    uint32_t chunk = s->config.geometry.chunk_tokens;
    uint32_t interval = s->config.snapshot_interval_tokens;
    uint32_t last = (q->prompt - 1) / chunk * chunk;
    if (scores_now(q))
        return end == q->prompt ? end : q->planned; /* see mtr_sched_submit */
    if (last > q->planned + chunk && near_end(s, q, last - chunk))
        last -= chunk;
    if (last > q->planned && end > last)
        end = last;
    if (interval > 0 && end / interval > q->planned / interval)
        end = (q->planned / interval + 1) * interval;
    return end == q->prompt ? end : end / chunk * chunk;
}

/* Up to where rows are prefilled. Recurrent models replay their output instead. */
static uint32_t prefill_target(const struct mtr_sched *s, const struct mtr_seq *q)
{
    return s->config.geometry.recurrent ? q->prompt : q->known;
}

/* The least that a chunk must reach: whole chunks of recurrent models, a scored token's row and
 * itself. */
static uint32_t least_end(const struct mtr_sched *s, const struct mtr_seq *q)
{
    uint32_t rows = s->config.geometry.recurrent ? s->config.geometry.chunk_tokens : 1;
    if (scores_now(q))
        rows = s->config.geometry.recurrent ? q->prompt : 2;
    return min_u32(prefill_target(s, q), q->planned + rows);
}

/* Where the next chunk ends, or q->planned when there can be none now. */
static uint32_t chunk_end(const struct mtr_sched *s, const struct mtr_seq *q)
{
    uint32_t end = min_u32(prefill_target(s, q), q->planned + s->prefill_left);
    end = min_u32(end, reach(s, q));
    if (scores_now(q))
        end = min_u32(min_u32(end, q->prompt), q->planned + s->score_left);
    else if (mtr_seq_scoring(q))
        end = min_u32(end, q->score_planned - 1);
    if (s->config.geometry.recurrent && end > q->planned)
        end = align_chunk(s, q, end);
    return end > q->planned && (!scores_now(q) || end >= q->planned + 2) ? end : q->planned;
}

/* A lane for [planned, end). Scored rows give log-probabilities of the tokens behind them, which
 * must be in the same lane: the next lane computes this one's last row again. */
static void plan_chunk(struct mtr_sched *s, struct mtr_seq *q, uint32_t end)
{
    uint32_t start = q->planned;
    bool score = scores_now(q);
    bool samples = end == q->known && !q->prompt_only;
    take_snapshot(s, q);
    struct mtr_lane *lane = add_lane(s, q, start, end - start, samples);
    lane->score = score;
    q->closing = q->prompt_only && end == q->prompt;
    q->pending += samples;
    note_lane(s, q, lane, true, q->closing);
    s->prefill_left -= end - start;
    if (score) {
        s->score_left -= end - start;
        q->score_planned = end;
    }
    advance(s, q, score && end < q->prompt ? end - 1 : end);
    if (s->config.geometry.recurrent && end < q->prompt && snapshot_due(s, q, end))
        q->snapshot_at = end;
}

static void plan_prefill(struct mtr_sched *s, struct mtr_seq *q)
{
    uint32_t end;
    if (s->prefill_left == 0)
        return;
    mtr_table_slide(&s->radix, &s->config.geometry, &q->table, q->planned);
    while (reach(s, q) < least_end(s, q))
        if (!preempt_later(s, q))
            return;
    end = chunk_end(s, q);
    if (end > q->planned && claim(s, q, end))
        plan_chunk(s, q, end);
}

/* ---- running ----------------------------------------------------------------------------------
 */

/* With drafts a sequence waits for its result, which brings them: verifying several tokens at once
 * is worth more than being planned ahead. */
static bool wants_rows(const struct mtr_sched *s, const struct mtr_seq *q)
{
    if (q->prompt_only)
        return !q->closing;
    if (q->pending > 0 && (s->config.max_drafts > 0 || q->constrained))
        return false;
    return q->known + q->pending < q->limit;
}

static bool decodes(const struct mtr_sched *s, const struct mtr_seq *q)
{
    if (q->planned < q->prompt || q->prompt_only)
        return false;
    return s->config.geometry.recurrent || q->planned + 1 >= q->known;
}

/* running_count shrinks while later sequences are preempted. */
static void plan_running(struct mtr_sched *s)
{
    for (uint32_t i = 0; i < s->running_count; i++) {
        struct mtr_seq *q = s->running[i];
        if (!wants_rows(s, q))
            continue;
        if (decodes(s, q))
            plan_decode(s, q);
        else
            plan_prefill(s, q);
    }
}

/* ---- admission --------------------------------------------------------------------------------
 */

/* Would the blocks for all known tokens leave one for each sequence that runs already? */
static bool fits(const struct mtr_sched *s, const struct mtr_seq *q)
{
    uint32_t bt = s->radix.block_tokens;
    for (uint32_t g = 0; g < s->radix.group_count; g++) {
        uint32_t need = (q->known + bt - 1) / bt;
        if (s->radix.sliding[g])
            need = min_u32(need, q->table.count[g] + 1);
        need -= min_u32(need, q->table.count[g]);
        if (need + s->running_count > mtr_radix_available(&s->radix, g))
            return false;
    }
    return true;
}

/* Blocks for all known tokens in groups that keep them, so that no prefill is begun that others
 * would soon interrupt. */
static bool claim_known(struct mtr_sched *s, struct mtr_seq *q)
{
    for (uint32_t g = 0; g < s->radix.group_count; g++) {
        uint32_t positions = s->radix.sliding[g] ? q->planned + 1 : q->known;
        if (!mtr_table_claim(&s->radix, &q->table, g, positions))
            return false;
    }
    return true;
}

/* How much of q's tokens may come from the prefix cache: at least one row has to be computed, and
 * rows with scores too. */
static uint32_t attach_limit(const struct mtr_sched *s, const struct mtr_seq *q)
{
    if (!s->config.prefix_cache)
        return 0;
    uint32_t limit = (s->config.geometry.recurrent ? q->prompt : q->known) - 1;
    return mtr_seq_scoring(q) ? min_u32(limit, q->score_planned - 1) : limit;
}

/* Effects that give the slot the state, and the tables the block, that its first row continues. */
static bool start_effects(struct mtr_sched *s, const struct mtr_seq *q, uint32_t snapshot,
                          const struct mtr_table_copy *copy)
{
    uint32_t index = q->planned / s->radix.block_tokens;
    for (uint32_t g = 0; g < s->radix.group_count && copy->tokens > 0; g++)
        if (!add_effect(s, MTR_COPY_BLOCK, g, copy->src[g], q->table.blocks[g][index]))
            return false;
    if (!s->config.geometry.recurrent)
        return true;
    return snapshot == MTR_NO_ID ? add_effect(s, MTR_ZERO_STATE, 0, 0, q->slot)
                                 : add_effect(s, MTR_RESTORE_STATE, 0, snapshot, q->slot);
}

static void count_admission(struct mtr_sched *s, struct mtr_seq *q)
{
    if (q->ran)
        return;
    q->ran = true;
    q->cached_tokens = min_u32(q->planned, q->prompt);
    s->stats.prefix_hit_tokens += q->cached_tokens;
    s->stats.prefix_miss_tokens += q->prompt - q->cached_tokens;
}

static void start_running(struct mtr_sched *s, struct mtr_seq *q, uint64_t now_ns)
{
    mtr_seq_list_remove(&s->waiting, q);
    uint32_t at = s->running_count++;
    for (; at > 0 && s->running[at - 1]->id > q->id; at--)
        s->running[at] = s->running[at - 1];
    s->running[at] = q;
    q->running = true;
    q->open = true;
    q->snapshot_at = 0;
    q->last_token_ns = now_ns;
}

/* Admits q with its first lane. False: not now; nothing has changed. */
static bool admit(struct mtr_sched *s, struct mtr_seq *q, uint64_t now_ns)
{
    struct mtr_table_copy copy = {0};
    uint32_t snapshot, end, effects = s->plan.effect_count;
    q->slot = mtr_id_pool_take(&s->slots);
    q->planned =
        mtr_table_attach(&s->radix, &s->config.geometry, q, attach_limit(s, q), &snapshot, &copy);
    if (!fits(s, q) || !claim_known(s, q) || (end = chunk_end(s, q)) <= q->planned ||
        !claim(s, q, end) || !start_effects(s, q, snapshot, &copy)) {
        mtr_table_release(&s->radix, &q->table);
        mtr_id_pool_give(&s->slots, q->slot);
        q->planned = 0;
        s->plan.effect_count = effects;
        return false;
    }
    count_admission(s, q);
    start_running(s, q, now_ns);
    plan_chunk(s, q, end);
    return true;
}

static void admit_waiting(struct mtr_sched *s, uint64_t now_ns)
{
    bool first = true;
    while (s->running_count < s->config.max_batch_size && s->prefill_left > 0) {
        struct mtr_seq *q = mtr_policy_next(s, first);
        if (!q || !admit(s, q, now_ns))
            return;
        first = false;
    }
}

/* ---- the step ---------------------------------------------------------------------------------
 */

/* What the last step's lanes compute of prompts becomes part of the prefix tree now: not earlier,
 * since publishing may change tables, to which the last plan pointed until it was packed. */
static void publish_fresh(struct mtr_sched *s)
{
    for (uint32_t i = 0; i < s->fresh_count && s->config.prefix_cache; i++) {
        struct mtr_seq *q = mtr_sched_find(s, s->fresh[i]);
        if (q && q->running)
            mtr_table_publish(&s->radix, &s->config.geometry, q, min_u32(q->planned, q->known));
    }
    s->fresh_count = 0;
}

const struct mtr_step_plan *mtr_sched_plan(struct mtr_sched *s, uint64_t now_ns)
{
    mtr_sched_expire(s, now_ns);
    if (!s->ready || s->flying == MTR_PLANS_IN_FLIGHT || s->running_count + s->waiting.count == 0)
        return NULL;
    struct mtr_flight *f = &s->flights[s->flying];
    publish_fresh(s);
    f->lane_count = 0;
    s->plan = (struct mtr_step_plan){0};
    s->prefill_left = mtr_policy_budget(s, now_ns);
    s->score_left = s->config.max_score_rows;
    plan_running(s);
    if (s->plan.lane_count == 0 && s->prefill_left == 0 && s->flying == 0) {
        s->prefill_left = s->config.max_prefill_tokens; /* those it was spared for can't go on */
        plan_running(s);
    }
    admit_waiting(s, now_ns);
    if (s->plan.lane_count == 0)
        return NULL;
    f->step = s->plan.step = ++s->step;
    s->plan.effects = s->effects;
    s->plan.lanes = s->lanes;
    s->flying++;
    s->stats.steps++;
    s->stats.lanes += f->lane_count;
    return &s->plan;
}
