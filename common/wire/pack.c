/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Plans and results to bytes.
 *
 * The structs of step.h become protobuf-c structs in the scratch arena, sharing their arrays, and
 * those are packed. protobuf-c declares arrays that it only reads as writable, hence the casts.
 */
#include "common/wire/codec.h"

#include "common/wire/plan.pb-c.h"

/* Kinds of effects are the same numbers on both sides. */
_Static_assert((int)MTR__EFFECT__KIND__COPY_BLOCK == MTR_COPY_BLOCK &&
                   (int)MTR__EFFECT__KIND__LOAD_ADAPTER == MTR_LOAD_ADAPTER &&
                   (int)MTR__EFFECT__KIND__LOAD_ADAPTER + 1 == MTR_EFFECT_COUNT,
               "step.h and plan.proto list different effects");

/* A cleared array of `count` messages and an array of pointers to them. */
struct rows {
    void *items;
    void **pointers;
};

static bool make_rows(struct mtr_arena *a, size_t count, size_t size, struct rows *rows)
{
    *rows = (struct rows){0};
    if (count == 0)
        return true;
    rows->items = mtr_arena_calloc(a, count, size);
    rows->pointers = mtr_arena_calloc(a, count, sizeof(void *));
    if (!rows->items || !rows->pointers)
        return false;
    for (size_t i = 0; i < count; i++)
        rows->pointers[i] = (char *)rows->items + i * size;
    return true;
}

static char *text(struct mtr_arena *a, struct mtr_str s)
{
    return s.len ? mtr_arena_strdup(a, s) : (char *)protobuf_c_empty_string;
}

static bool pack_effects(struct mtr_arena *a, const struct mtr_step_plan *plan, Mtr__StepPlan *out)
{
    struct rows rows;
    if (!make_rows(a, plan->effect_count, sizeof(Mtr__Effect), &rows))
        return false;
    Mtr__Effect *to = rows.items;
    for (uint32_t i = 0; i < plan->effect_count; i++) {
        const struct mtr_effect *e = &plan->effects[i];
        mtr__effect__init(&to[i]);
        to[i].kind = (Mtr__Effect__Kind)e->kind;
        to[i].group = e->group;
        to[i].src = e->src;
        to[i].dst = e->dst;
        to[i].name = text(a, e->name);
        if (!to[i].name)
            return false;
    }
    out->n_effects = plan->effect_count;
    out->effects = (Mtr__Effect **)rows.pointers;
    return true;
}

static Mtr__Sampling *pack_sampling(struct mtr_arena *a, const struct mtr_sampling *s)
{
    Mtr__Sampling *to = mtr_arena_alloc(a, sizeof(*to));
    if (!to)
        return NULL;
    mtr__sampling__init(to);
    to->temperature = s->temperature;
    to->top_p = s->top_p == 1 ? 0 : s->top_p;
    to->top_k = s->top_k;
    to->min_p = s->min_p;
    to->top_n_sigma = s->top_n_sigma;
    to->repetition_penalty = s->repetition_penalty == 1 ? 0 : s->repetition_penalty;
    to->presence_penalty = s->presence_penalty;
    to->frequency_penalty = s->frequency_penalty;
    to->seed = s->seed;
    to->output_start = s->output_start;
    to->logprobs = s->logprobs;
    to->n_bias_ids = s->bias_count;
    to->bias_ids = (uint32_t *)s->bias_ids;
    to->n_bias_values = s->bias_count;
    to->bias_values = (float *)s->bias_values;
    return to;
}

static bool pack_tables(struct mtr_arena *a, const struct mtr_lane *lane, Mtr__Lane *out)
{
    struct rows rows;
    if (!make_rows(a, lane->table_count, sizeof(Mtr__TableChange), &rows))
        return false;
    Mtr__TableChange *to = rows.items;
    for (uint32_t i = 0; i < lane->table_count; i++) {
        const struct mtr_table_change *t = &lane->tables[i];
        mtr__table_change__init(&to[i]);
        to[i].group = t->group;
        to[i].first = t->first;
        to[i].n_blocks = t->count;
        to[i].blocks = (uint32_t *)t->blocks;
    }
    out->n_tables = lane->table_count;
    out->tables = (Mtr__TableChange **)rows.pointers;
    return true;
}

static bool pack_lane(struct mtr_arena *a, const struct mtr_lane *lane, Mtr__Lane *to)
{
    mtr__lane__init(to);
    to->sequence = lane->sequence;
    to->slot = lane->slot;
    to->open = lane->open;
    to->start = lane->start;
    to->count = lane->count;
    to->n_tokens = lane->tokens ? lane->count : 0;
    to->tokens = (uint32_t *)lane->tokens;
    to->n_history = lane->history_count;
    to->history = (uint32_t *)lane->history;
    to->outputs = lane->outputs;
    to->drafts = lane->drafts;
    to->mask.len = lane->mask ? lane->mask_bytes : 0;
    to->mask.data = (uint8_t *)lane->mask;
    to->n_banned = lane->banned_count;
    to->banned = (uint32_t *)lane->banned;
    to->score = lane->score;
    to->adapter = lane->adapter;
    if (lane->sampling && !(to->sampling = pack_sampling(a, lane->sampling)))
        return false;
    return pack_tables(a, lane, to);
}

bool mtr_pack_plan(struct mtr_arena *scratch, struct mtr_buf *out, uint64_t epoch,
                   const struct mtr_step_plan *plan)
{
    Mtr__StepPlan body = MTR__STEP_PLAN__INIT;
    struct rows rows;
    if (!pack_effects(scratch, plan, &body) ||
        !make_rows(scratch, plan->lane_count, sizeof(Mtr__Lane), &rows))
        return false;
    for (uint32_t i = 0; i < plan->lane_count; i++)
        if (!pack_lane(scratch, &plan->lanes[i], rows.pointers[i]))
            return false;
    body.step = plan->step;
    body.n_lanes = plan->lane_count;
    body.lanes = (Mtr__Lane **)rows.pointers;
    Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
    message.epoch = epoch;
    message.body_case = MTR__FROM_BROKER__BODY_PLAN;
    message.plan = &body;
    return mtr_message_pack(out, &message.base);
}

static bool pack_logprobs(struct mtr_arena *a, const struct mtr_token_logprobs *from, size_t count,
                          Mtr__TokenLogprobs ***pointers)
{
    struct rows rows;
    if (!make_rows(a, count, sizeof(Mtr__TokenLogprobs), &rows))
        return false;
    Mtr__TokenLogprobs *to = rows.items;
    for (size_t i = 0; i < count; i++) {
        mtr__token_logprobs__init(&to[i]);
        to[i].logprob = from[i].logprob;
        to[i].rank = from[i].rank;
        to[i].n_top_ids = from[i].top_count;
        to[i].top_ids = (uint32_t *)from[i].top_ids;
        to[i].n_top_logprobs = from[i].top_count;
        to[i].top_logprobs = (float *)from[i].top_logprobs;
    }
    *pointers = (Mtr__TokenLogprobs **)rows.pointers;
    return true;
}

static bool pack_lane_result(struct mtr_arena *a, const struct mtr_lane_result *lane,
                             Mtr__LaneResult *to)
{
    mtr__lane_result__init(to);
    to->sequence = lane->sequence;
    to->n_tokens = lane->token_count;
    to->tokens = (uint32_t *)lane->tokens;
    to->accepted = lane->accepted;
    to->n_drafts = lane->draft_count;
    to->drafts = (uint32_t *)lane->drafts;
    to->n_logprobs = lane->logprob_count;
    to->n_scores = lane->score_count;
    return pack_logprobs(a, lane->logprobs, lane->logprob_count, &to->logprobs) &&
           pack_logprobs(a, lane->scores, lane->score_count, &to->scores);
}

bool mtr_pack_result(struct mtr_arena *scratch, struct mtr_buf *out, uint64_t epoch,
                     const struct mtr_step_result *result)
{
    Mtr__StepResult body = MTR__STEP_RESULT__INIT;
    struct rows rows;
    if (!make_rows(scratch, result->lane_count, sizeof(Mtr__LaneResult), &rows))
        return false;
    for (uint32_t i = 0; i < result->lane_count; i++)
        if (!pack_lane_result(scratch, &result->lanes[i], rows.pointers[i]))
            return false;
    body.step = result->step;
    body.n_lanes = result->lane_count;
    body.lanes = (Mtr__LaneResult **)rows.pointers;
    body.device_ns = result->device_ns;
    body.wait_ns = result->wait_ns;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    message.epoch = epoch;
    message.body_case = MTR__FROM_WORKER__BODY_RESULT;
    message.result = &body;
    return mtr_message_pack(out, &message.base);
}
