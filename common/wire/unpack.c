/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages to plans and results, each number checked before anything relies on it.
 *
 * Arrays of numbers are not copied: the structs point into the message, which lives in the same
 * arena. Only arrays of structs are made anew.
 */
#include "common/wire/codec.h"

#include <math.h>

#include "common/wire/plan.pb-c.h"

static bool bounded(size_t count, size_t limit, const char *what, struct mtr_error *err)
{
    if (count <= limit)
        return true;
    return mtr_fail(err, MTR_TOO_LARGE, "%zu %s, more than the %zu that are allowed", count, what,
                    limit);
}

/* A cleared array; count 0 gives NULL and is fine. */
static bool array(struct mtr_arena *a, size_t count, size_t size, void **out, struct mtr_error *err)
{
    *out = count ? mtr_arena_calloc(a, count, size) : NULL;
    if (count && !*out)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory to unpack %zu elements", count);
    return true;
}

static bool unpack_effects(struct mtr_arena *a, const Mtr__StepPlan *from,
                           struct mtr_step_plan *plan, struct mtr_error *err)
{
    void *items;
    if (!bounded(from->n_effects, MTR_WIRE_MAX_EFFECTS, "effects", err) ||
        !array(a, from->n_effects, sizeof(struct mtr_effect), &items, err))
        return false;
    struct mtr_effect *effects = items;
    for (size_t i = 0; i < from->n_effects; i++) {
        const Mtr__Effect *e = from->effects[i];
        int kind = (int)e->kind;
        if (kind <= MTR_EFFECT_NONE || kind >= MTR_EFFECT_COUNT)
            return mtr_fail(err, MTR_INVALID, "effect %zu: unknown kind %d", i, kind);
        if (e->group >= MTR_MAX_GROUPS)
            return mtr_fail(err, MTR_INVALID, "effect %zu: cache group %u, expected less than %d",
                            i, e->group, MTR_MAX_GROUPS);
        effects[i] = (struct mtr_effect){.kind = (enum mtr_effect_kind)kind,
                                         .group = e->group,
                                         .src = e->src,
                                         .dst = e->dst,
                                         .name = mtr_str(e->name)};
    }
    plan->effect_count = (uint32_t)from->n_effects;
    plan->effects = effects;
    return true;
}

/* Sampling numbers that a sampler may compute with: finite and not negative but for penalties. */
static bool check_sampling(const struct mtr_sampling *s, struct mtr_error *err)
{
    const struct {
        const char *name;
        float value, min, max;
    } checks[] = {
        {"temperature", s->temperature, 0, 100},
        {"top_p", s->top_p, 0, 1},
        {"min_p", s->min_p, 0, 1},
        {"top_n_sigma", s->top_n_sigma, 0, 1e6f},
        {"repetition_penalty", s->repetition_penalty, 1e-6f, 1e6f},
        {"presence_penalty", s->presence_penalty, -1e6f, 1e6f},
        {"frequency_penalty", s->frequency_penalty, -1e6f, 1e6f},
    };
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (!(checks[i].value >= checks[i].min && checks[i].value <= checks[i].max))
            return mtr_fail(err, MTR_INVALID, "sampling: %s is %g, expected %g to %g",
                            checks[i].name, (double)checks[i].value, (double)checks[i].min,
                            (double)checks[i].max);
    for (uint32_t i = 0; i < s->bias_count; i++)
        if (!isfinite(s->bias_values[i]))
            return mtr_fail(err, MTR_INVALID, "sampling: bias %u is not finite", i);
    return true;
}

static bool unpack_sampling(struct mtr_arena *a, const Mtr__Sampling *from,
                            const struct mtr_sampling **out, struct mtr_error *err)
{
    void *item;
    if (!bounded(from->n_bias_ids, MTR_MAX_BIASES, "biases", err) ||
        !array(a, 1, sizeof(struct mtr_sampling), &item, err))
        return false;
    if (from->n_bias_ids != from->n_bias_values)
        return mtr_fail(err, MTR_INVALID, "sampling: %zu bias ids, but %zu values",
                        from->n_bias_ids, from->n_bias_values);
    struct mtr_sampling *s = item;
    *s = (struct mtr_sampling){
        .temperature = from->temperature,
        .top_p = from->top_p == 0 ? 1 : from->top_p,
        .top_k = from->top_k,
        .min_p = from->min_p,
        .top_n_sigma = from->top_n_sigma,
        .repetition_penalty = from->repetition_penalty == 0 ? 1 : from->repetition_penalty,
        .presence_penalty = from->presence_penalty,
        .frequency_penalty = from->frequency_penalty,
        .seed = from->seed,
        .output_start = from->output_start,
        .logprobs = from->logprobs,
        .bias_count = (uint32_t)from->n_bias_ids,
        .bias_ids = from->bias_ids,
        .bias_values = from->bias_values,
    };
    *out = s;
    return check_sampling(s, err);
}

static bool unpack_tables(struct mtr_arena *a, const Mtr__Lane *from, struct mtr_lane *lane,
                          struct mtr_error *err)
{
    void *items;
    if (!bounded(from->n_tables, MTR_MAX_GROUPS, "table changes", err) ||
        !array(a, from->n_tables, sizeof(struct mtr_table_change), &items, err))
        return false;
    struct mtr_table_change *tables = items;
    for (size_t i = 0; i < from->n_tables; i++) {
        const Mtr__TableChange *t = from->tables[i];
        if (t->group >= MTR_MAX_GROUPS)
            return mtr_fail(err, MTR_INVALID, "table change of group %u, expected less than %d",
                            t->group, MTR_MAX_GROUPS);
        if (!bounded((size_t)t->first + t->n_blocks, MTR_WIRE_MAX_LANE_BLOCKS, "table blocks", err))
            return false;
        tables[i] = (struct mtr_table_change){t->group, t->first, (uint32_t)t->n_blocks, t->blocks};
    }
    lane->table_count = (uint32_t)from->n_tables;
    lane->tables = tables;
    return true;
}

/* Rows, tokens, outputs, drafts and what depends on their numbers. */
static bool check_rows(const Mtr__Lane *l, struct mtr_error *err)
{
    if (l->count == 0)
        return mtr_fail(err, MTR_INVALID, "count is 0");
    if (!bounded((size_t)l->start + l->count, MTR_WIRE_MAX_SEQUENCE_TOKENS, "positions", err))
        return false;
    if (l->n_tokens != 0 && l->n_tokens != l->count)
        return mtr_fail(err, MTR_INVALID, "%zu tokens, expected none or %u", l->n_tokens, l->count);
    if (l->outputs > l->count)
        return mtr_fail(err, MTR_INVALID, "%u outputs of %u rows", l->outputs, l->count);
    if (l->drafts >= l->outputs && l->drafts != 0)
        return mtr_fail(err, MTR_INVALID, "%u drafts need %u outputs, found %u", l->drafts,
                        l->drafts + 1, l->outputs);
    if (l->drafts != 0 && l->n_tokens == 0)
        return mtr_fail(err, MTR_INVALID, "%u drafts without tokens", l->drafts);
    if (l->n_history != 0 && (!l->open || l->n_history != l->start))
        return mtr_fail(err, MTR_INVALID, "%zu tokens of history, expected start (%u), and open",
                        l->n_history, l->start);
    if (l->mask.len != 0 && (l->outputs == 0 || l->mask.len % l->outputs != 0))
        return mtr_fail(err, MTR_INVALID, "a mask of %zu bytes for %u outputs", l->mask.len,
                        l->outputs);
    return bounded(l->n_banned, MTR_WIRE_MAX_BANNED, "banned tokens", err);
}

static bool unpack_lane(struct mtr_arena *a, const Mtr__Lane *from, struct mtr_lane *lane,
                        struct mtr_error *err)
{
    if (!check_rows(from, err) || !unpack_tables(a, from, lane, err))
        return false;
    lane->sequence = from->sequence;
    lane->slot = from->slot;
    lane->open = from->open;
    lane->start = from->start;
    lane->count = from->count;
    lane->tokens = from->n_tokens ? from->tokens : NULL;
    lane->history_count = (uint32_t)from->n_history;
    lane->history = from->n_history ? from->history : NULL;
    lane->outputs = from->outputs;
    lane->drafts = from->drafts;
    lane->mask = from->mask.len ? from->mask.data : NULL;
    lane->mask_bytes = (uint32_t)from->mask.len;
    lane->banned_count = (uint32_t)from->n_banned;
    lane->banned = from->n_banned ? from->banned : NULL;
    lane->score = from->score;
    lane->adapter = from->adapter;
    return !from->sampling || unpack_sampling(a, from->sampling, &lane->sampling, err);
}

bool mtr_unpack_plan(struct mtr_arena *arena, const struct Mtr__FromBroker *message,
                     struct mtr_step_plan *plan, struct mtr_error *err)
{
    if (message->body_case != MTR__FROM_BROKER__BODY_PLAN)
        return mtr_fail(err, MTR_INVALID, "the message has no step plan");
    const Mtr__StepPlan *from = message->plan;
    void *items;
    *plan = (struct mtr_step_plan){.step = from->step};
    if (!unpack_effects(arena, from, plan, err) ||
        !bounded(from->n_lanes, MTR_WIRE_MAX_LANES, "lanes", err) ||
        !array(arena, from->n_lanes, sizeof(struct mtr_lane), &items, err))
        return mtr_error_prefix(err, "step %llu", (unsigned long long)from->step);
    struct mtr_lane *lanes = items;
    size_t rows = 0;
    for (size_t i = 0; i < from->n_lanes; i++) {
        if (!unpack_lane(arena, from->lanes[i], &lanes[i], err))
            return mtr_error_prefix(err, "step %llu: lane %zu", (unsigned long long)from->step, i);
        rows += lanes[i].count;
        if (!bounded(rows, MTR_WIRE_MAX_STEP_TOKENS, "rows", err))
            return mtr_error_prefix(err, "step %llu", (unsigned long long)from->step);
    }
    plan->lane_count = (uint32_t)from->n_lanes;
    plan->lanes = lanes;
    return true;
}

static bool unpack_logprobs(struct mtr_arena *a, Mtr__TokenLogprobs *const *from, size_t count,
                            const struct mtr_token_logprobs **out, struct mtr_error *err)
{
    void *items;
    if (!array(a, count, sizeof(struct mtr_token_logprobs), &items, err))
        return false;
    struct mtr_token_logprobs *to = items;
    for (size_t i = 0; i < count; i++) {
        if (from[i]->n_top_ids != from[i]->n_top_logprobs)
            return mtr_fail(err, MTR_INVALID, "%zu top ids, but %zu log-probabilities",
                            from[i]->n_top_ids, from[i]->n_top_logprobs);
        to[i] = (struct mtr_token_logprobs){
            .logprob = from[i]->logprob,
            .rank = from[i]->rank,
            .top_count = (uint32_t)from[i]->n_top_ids,
            .top_ids = from[i]->top_ids,
            .top_logprobs = from[i]->top_logprobs,
        };
    }
    *out = to;
    return true;
}

static bool unpack_lane_result(struct mtr_arena *a, const Mtr__LaneResult *from,
                               struct mtr_lane_result *lane, struct mtr_error *err)
{
    if (from->accepted > 0 && from->accepted >= from->n_tokens)
        return mtr_fail(err, MTR_INVALID, "%u drafts accepted with %zu tokens", from->accepted,
                        from->n_tokens);
    if (from->n_logprobs != 0 && from->n_logprobs != from->n_tokens)
        return mtr_fail(err, MTR_INVALID, "%zu log-probabilities for %zu tokens", from->n_logprobs,
                        from->n_tokens);
    if (!bounded(from->n_scores, MTR_WIRE_MAX_STEP_TOKENS, "scores", err))
        return false;
    lane->sequence = from->sequence;
    lane->token_count = (uint32_t)from->n_tokens;
    lane->tokens = from->tokens;
    lane->accepted = from->accepted;
    lane->draft_count = (uint32_t)from->n_drafts;
    lane->drafts = from->drafts;
    lane->logprob_count = (uint32_t)from->n_logprobs;
    lane->score_count = (uint32_t)from->n_scores;
    return unpack_logprobs(a, from->logprobs, from->n_logprobs, &lane->logprobs, err) &&
           unpack_logprobs(a, from->scores, from->n_scores, &lane->scores, err);
}

bool mtr_unpack_result(struct mtr_arena *arena, const struct Mtr__FromWorker *message,
                       struct mtr_step_result *result, struct mtr_error *err)
{
    if (message->body_case != MTR__FROM_WORKER__BODY_RESULT)
        return mtr_fail(err, MTR_INVALID, "the message has no step result");
    const Mtr__StepResult *from = message->result;
    void *items;
    if (!bounded(from->n_lanes, MTR_WIRE_MAX_LANES, "lanes", err) ||
        !array(arena, from->n_lanes, sizeof(struct mtr_lane_result), &items, err))
        return mtr_error_prefix(err, "result %llu", (unsigned long long)from->step);
    struct mtr_lane_result *lanes = items;
    for (size_t i = 0; i < from->n_lanes; i++)
        if (!unpack_lane_result(arena, from->lanes[i], &lanes[i], err))
            return mtr_error_prefix(err, "result %llu: lane %zu", (unsigned long long)from->step,
                                    i);
    *result = (struct mtr_step_result){.step = from->step,
                                       .lane_count = (uint32_t)from->n_lanes,
                                       .lanes = lanes,
                                       .device_ns = from->device_ns,
                                       .wait_ns = from->wait_ns};
    return true;
}
