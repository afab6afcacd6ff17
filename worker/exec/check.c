/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Is this plan right? Everything that only the model and the executor's memory can say.
 *
 * The broker is trusted to be sane, not to be free of mistakes: an index out of range would corrupt
 * another sequence or crash a kernel, so each is checked here, before the step changes anything.
 * The checks cost a few comparisons a lane and one a token.
 */
#include <math.h>
#include <string.h>

#include "worker/exec/executor.h"
#include "worker/exec/logprobs.h"

static bool check_effect(const struct mtr_exec *e, const struct mtr_effect *f,
                         struct mtr_error *err)
{
    const struct mtr_exec_memory *m = &e->memory;
    bool src = true, dst = true;
    switch (f->kind) {
    case MTR_COPY_BLOCK:
    case MTR_FREE_BLOCK:
        if (f->group >= e->plan->group_count)
            return mtr_fail(err, MTR_INVALID, "cache group %u of %u", f->group,
                            e->plan->group_count);
        src = f->src < m->group_blocks[f->group];
        dst = f->kind == MTR_FREE_BLOCK || f->dst < m->group_blocks[f->group];
        break;
    case MTR_ZERO_STATE:
        dst = f->dst < m->slots;
        break;
    case MTR_SNAPSHOT_STATE:
        src = f->src < m->slots;
        dst = f->dst < m->snapshots;
        break;
    case MTR_RESTORE_STATE:
        src = f->src < m->snapshots;
        dst = f->dst < m->slots;
        break;
    default:
        return mtr_fail(err, MTR_UNSUPPORTED, "effect kind %d is not implemented by this worker",
                        (int)f->kind);
    }
    if (!src || !dst)
        return mtr_fail(err, MTR_INVALID, "effect kind %d: %s %u is out of range", (int)f->kind,
                        src ? "destination" : "source", src ? f->dst : f->src);
    return true;
}

static bool check_tokens(const struct mtr_exec *e, const char *what, const uint32_t *tokens,
                         uint32_t count, struct mtr_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] >= e->plan->vocab)
            return mtr_fail(err, MTR_INVALID, "%s %u is %u, the vocabulary has %u", what, i,
                            tokens[i], e->plan->vocab);
    return true;
}

/* A slot is opened on a state that the step gives it, and goes on where that state stands: unlike
 * cache blocks, a state can't be taken back. */
static bool check_state(const struct mtr_exec *e, const struct mtr_step_plan *plan,
                        const struct mtr_lane *l, const struct mtr_slot *slot,
                        struct mtr_error *err)
{
    enum mtr_effect_kind wanted = l->start ? MTR_RESTORE_STATE : MTR_ZERO_STATE;
    if (!e->plan->state_count)
        return true;
    if (l->drafts)
        return mtr_fail(err, MTR_UNSUPPORTED, "drafts: recurrent states can't be rolled back here");
    if (!l->open && l->start != slot->computed)
        return mtr_fail(err, MTR_INVALID, "starts at %u, its state stands at %u", l->start,
                        slot->computed);
    for (uint32_t i = 0; l->open && i < plan->effect_count; i++)
        if (plan->effects[i].kind == wanted && plan->effects[i].dst == l->slot)
            return true;
    return !l->open || mtr_fail(err, MTR_INVALID, "slot %u is opened at %u without a state for it",
                                l->slot, l->start);
}

/* Where the slot stands before this step, and whose it is. */
static bool check_place(const struct mtr_exec *e, const struct mtr_lane *l,
                        const struct mtr_slot *slot, struct mtr_error *err)
{
    uint32_t room = e->plan->limits.max_sequence_tokens;
    if (l->count == 0)
        return mtr_fail(err, MTR_INVALID, "no rows");
    if (l->start > room || l->count > room - l->start)
        return mtr_fail(err, MTR_INVALID, "positions %u to %u, a sequence has at most %u tokens",
                        l->start, l->start + l->count - 1, room);
    if (l->open && l->history_count && l->history_count != l->start)
        return mtr_fail(err, MTR_INVALID, "history has %u tokens, the lane starts at %u",
                        l->history_count, l->start);
    if (l->open)
        return true;
    if (l->history_count)
        return mtr_fail(err, MTR_INVALID, "history comes with open only");
    if (!slot->used || slot->sequence != l->sequence)
        return mtr_fail(err, MTR_INVALID, "slot %u was not opened for it", l->slot);
    if (l->start > slot->computed)
        return mtr_fail(err, MTR_INVALID, "starts at %u, only %u positions are computed", l->start,
                        slot->computed);
    return true;
}

static bool check_rows(const struct mtr_exec *e, const struct mtr_lane *l,
                       const struct mtr_slot *slot, struct mtr_error *err)
{
    if (l->outputs > l->count || (l->outputs ? l->outputs != 1 + l->drafts : l->drafts != 0))
        return mtr_fail(err, MTR_INVALID, "%u outputs and %u drafts in %u rows", l->outputs,
                        l->drafts, l->count);
    if (l->adapter)
        return mtr_fail(err, MTR_UNSUPPORTED, "adapter %u: this worker has no adapters",
                        l->adapter);
    if (l->tokens)
        return check_tokens(e, "token", l->tokens, l->count, err);
    if (l->open || l->drafts)
        return mtr_fail(err, MTR_INVALID, "its tokens are missing");
    if (l->start < slot->known || l->start + l->count > slot->length)
        return mtr_fail(err, MTR_INVALID,
                        "tokens %u to %u do not stand in the history, %u to %u do", l->start,
                        l->start + l->count, slot->known, slot->length);
    return true;
}

static bool check_change(const struct mtr_exec *e, const struct mtr_table_change *c,
                         struct mtr_error *err)
{
    if (c->group >= e->plan->group_count)
        return mtr_fail(err, MTR_INVALID, "cache group %u of %u", c->group, e->plan->group_count);
    uint32_t room = e->slots.stride[c->group];
    if (c->first > room || c->count > room - c->first)
        return mtr_fail(err, MTR_INVALID, "table entries %u to %u, a table has %u", c->first,
                        c->first + c->count, room);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->blocks[i] >= e->memory.group_blocks[c->group])
            return mtr_fail(err, MTR_INVALID, "block %u, group %s has %u", c->blocks[i],
                            e->plan->groups[c->group].name, e->memory.group_blocks[c->group]);
    return true;
}

/* The first position that the lane's first row looks at in a group. */
static uint32_t first_seen(const struct mtr_cache_group *g, const struct mtr_lane *l)
{
    if (g->kind != MTR_CACHE_SLIDING || l->start + 1 <= g->window)
        return 0;
    return l->start + 1 - g->window;
}

static bool check_tables(const struct mtr_exec *e, const struct mtr_lane *l,
                         const struct mtr_slot *slot, struct mtr_error *err)
{
    struct mtr_span spans[MTR_MAX_GROUPS] = {{0}};
    if (!l->open)
        memcpy(spans, slot->tables, sizeof spans);
    for (uint32_t i = 0; i < l->table_count; i++) {
        if (!check_change(e, &l->tables[i], err))
            return false;
        struct mtr_span *span = &spans[l->tables[i].group];
        *span = mtr_span_after(*span, &l->tables[i]);
    }
    for (uint32_t i = 0; i < e->plan->group_count; i++) {
        const struct mtr_cache_group *g = &e->plan->groups[i];
        uint32_t first = first_seen(g, l), last = l->start + l->count - 1;
        if (spans[i].from > first / g->block_tokens || spans[i].to <= last / g->block_tokens)
            return mtr_fail(err, MTR_INVALID,
                            "positions %u to %u need blocks that the table of group %s lacks "
                            "(it has entries %u to %u)",
                            first, last, g->name, spans[i].from, spans[i].to);
    }
    return true;
}

static bool check_sampling(const struct mtr_exec *e, const struct mtr_sampling *s,
                           struct mtr_error *err)
{
    const struct {
        const char *name;
        float value;
        bool right;
    } numbers[] = {
        {"temperature", s->temperature, s->temperature >= 0},
        {"top_p", s->top_p, s->top_p >= 0},
        {"min_p", s->min_p, s->min_p >= 0},
        {"top_n_sigma", s->top_n_sigma, true},
        {"repetition_penalty", s->repetition_penalty, s->repetition_penalty > 0},
        {"presence_penalty", s->presence_penalty, true},
        {"frequency_penalty", s->frequency_penalty, true},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i].value) || !numbers[i].right)
            return mtr_fail(err, MTR_INVALID, "%s is %g", numbers[i].name,
                            (double)numbers[i].value);
    if (s->logprobs > 1 + MTR_LOGPROBS_MAX_TOP)
        return mtr_fail(err, MTR_INVALID, "%u log-probabilities asked for, at most %u are given",
                        s->logprobs - 1, MTR_LOGPROBS_MAX_TOP);
    if (s->bias_count > MTR_MAX_BIASES)
        return mtr_fail(err, MTR_INVALID, "%u biases, at most %u", s->bias_count, MTR_MAX_BIASES);
    for (uint32_t i = 0; i < s->bias_count; i++)
        if (isnan(s->bias_values[i]))
            return mtr_fail(err, MTR_INVALID, "bias %u is not a number", i);
    return check_tokens(e, "biased id", s->bias_ids, s->bias_count, err);
}

/* A penalty can only look at tokens that the slot knows. */
static bool check_history(const struct mtr_lane *l, const struct mtr_slot *slot,
                          struct mtr_error *err)
{
    const struct mtr_sampling *s = l->sampling ? l->sampling : &slot->sampling;
    uint32_t from, known = l->open ? (l->history_count ? 0 : l->start) : slot->known;
    if (l->open && !l->sampling)
        return true;
    if (l->outputs == 0 || !mtr_sampling_reads_history(s, &from))
        return true;
    if (l->tokens && l->start < known)
        known = l->start;
    if (known > from)
        return mtr_fail(err, MTR_INVALID, "penalties need tokens from position %u, %u are unknown",
                        from, known);
    return true;
}

static bool allows_something(const uint8_t *mask, uint32_t vocab)
{
    for (uint32_t i = 0; i < vocab / 8; i++)
        if (mask[i])
            return true;
    return vocab % 8 && mask[vocab / 8] & ((1u << vocab % 8) - 1);
}

static bool check_mask(const struct mtr_exec *e, const struct mtr_lane *l, struct mtr_error *err)
{
    uint32_t row = (e->plan->vocab + 7) / 8;
    if (!l->mask)
        return true;
    if (l->mask_bytes != (uint64_t)row * l->outputs)
        return mtr_fail(err, MTR_INVALID, "mask of %u bytes, %u rows of %u bits need %llu",
                        l->mask_bytes, l->outputs, e->plan->vocab,
                        (unsigned long long)row * l->outputs);
    for (uint32_t i = 0; i < l->outputs; i++)
        if (!allows_something(l->mask + (size_t)i * row, e->plan->vocab))
            return mtr_fail(err, MTR_INVALID, "mask row %u allows no token", i);
    return true;
}

static bool check_lane(struct mtr_exec *e, const struct mtr_step_plan *plan,
                       const struct mtr_lane *l, struct mtr_error *err)
{
    if (l->slot >= e->slots.count)
        return mtr_fail(err, MTR_INVALID, "slot %u of %u", l->slot, e->slots.count);
    if (e->slot_marks[l->slot] == e->mark)
        return mtr_fail(err, MTR_INVALID, "slot %u has two lanes in one step", l->slot);
    e->slot_marks[l->slot] = e->mark;
    const struct mtr_slot *slot = &e->slots.slots[l->slot];
    return check_place(e, l, slot, err) && check_state(e, plan, l, slot, err) &&
           check_rows(e, l, slot, err) &&
           check_tokens(e, "history token", l->history, l->history_count, err) &&
           check_tables(e, l, slot, err) && (!l->sampling || check_sampling(e, l->sampling, err)) &&
           check_history(l, slot, err) && check_mask(e, l, err) &&
           check_tokens(e, "banned id", l->banned, l->banned_count, err);
}

bool mtr_exec_check(struct mtr_exec *e, const struct mtr_step_plan *plan, struct mtr_error *err)
{
    const struct mtr_plan_limits *limits = &e->plan->limits;
    unsigned long long step = plan->step;
    uint64_t tokens = 0;
    e->mark++;
    if (plan->lane_count > limits->max_lanes)
        return mtr_fail(err, MTR_INVALID, "step %llu: %u lanes, at most %u", step, plan->lane_count,
                        limits->max_lanes);
    for (uint32_t i = 0; i < plan->effect_count; i++)
        if (!check_effect(e, &plan->effects[i], err))
            return mtr_error_prefix(err, "step %llu, effect %u", step, i);
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        tokens += plan->lanes[i].count;
        if (!check_lane(e, plan, &plan->lanes[i], err))
            return mtr_error_prefix(err, "step %llu, lane %u (sequence %llu)", step, i,
                                    (unsigned long long)plan->lanes[i].sequence);
    }
    if (tokens > limits->max_step_tokens)
        return mtr_fail(err, MTR_INVALID, "step %llu: %llu tokens, at most %u", step,
                        (unsigned long long)tokens, limits->max_step_tokens);
    return true;
}
