/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From logits to a step's result.
 *
 * Every row of logits is sampled by itself, also those behind a draft: its history is the slot's,
 * drafts included, which is the true one exactly when the drafts before it are accepted. So the
 * rows of a pass can be sampled in any order and on any thread, and the acceptance of drafts is a
 * comparison afterwards. The token of row r (absolute position p) stands at position p + 1.
 *
 * What the device can choose by itself it has chosen already: the largest logit, and a draw where
 * that is no matter for this process (choice_of). The logits of other rows are fetched, as many at
 * a time as there is pinned memory for, and sampled here.
 */
#include <math.h>
#include <string.h>

#include "common/base/philox.h"
#include "worker/backend/host/pool.h"
#include "worker/exec/executor.h"
#include "worker/exec/logprobs.h"

static struct mtr_token_logprobs *room_for_logprobs(struct mtr_arena *a, uint32_t count,
                                                    uint32_t top)
{
    struct mtr_token_logprobs *p = mtr_arena_calloc(a, count + 1, sizeof *p);
    if (!p || top == 0)
        return p;
    uint32_t *ids = mtr_arena_calloc(a, (size_t)count * top, sizeof *ids);
    float *values = mtr_arena_calloc(a, (size_t)count * top, sizeof *values);
    if (!ids || !values)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        p[i] = (struct mtr_token_logprobs){.top_count = top,
                                           .top_ids = ids + (size_t)i * top,
                                           .top_logprobs = values + (size_t)i * top};
    return p;
}

/* Who can choose the token after each of the lane's sampled rows. */
static enum mtr_choice choice_of(const struct mtr_exec *e, const struct mtr_lane *lane,
                                 const struct mtr_sampling *s)
{
    uint32_t from;
    if (s->logprobs || s->bias_count || lane->mask || lane->banned_count ||
        mtr_sampling_reads_history(s, &from))
        return MTR_CHOICE_HOST;
    if (s->temperature < MTR_SAMPLER_GREEDY_BELOW)
        return MTR_CHOICE_GREEDY;
    return e->device.direct || s->top_n_sigma > 0 ? MTR_CHOICE_HOST : MTR_CHOICE_DRAW;
}

static bool begin_lane(struct mtr_exec *e, struct mtr_arena *a, const struct mtr_lane *lane,
                       struct mtr_lane_output *out)
{
    const struct mtr_sampling *s = &e->slots.slots[lane->slot].sampling;
    uint32_t top = s->logprobs ? s->logprobs - 1 : 0;
    top = top < e->plan->vocab ? top : e->plan->vocab;
    out->lane = lane;
    out->choice = choice_of(e, lane, s);
    out->sampled = mtr_arena_calloc(a, lane->outputs + 1, sizeof *out->sampled);
    if (s->logprobs && lane->outputs)
        out->logprobs = room_for_logprobs(a, lane->outputs, top);
    if (lane->score && lane->count > 1)
        out->scores = room_for_logprobs(a, lane->count - 1, top);
    return !mtr_arena_failed(a);
}

bool mtr_outputs_begin(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    const struct mtr_step_plan *plan = f->plan;
    mtr_arena_reset(&f->arena);
    f->outputs = mtr_arena_calloc(&f->arena, plan->lane_count + 1, sizeof *f->outputs);
    for (uint32_t i = 0; f->outputs && i < plan->lane_count; i++)
        if (!begin_lane(e, &f->arena, &plan->lanes[i], &f->outputs[i]))
            break;
    if (mtr_arena_failed(&f->arena))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the results of %u lanes",
                        plan->lane_count);
    return true;
}

/* ---- a pass's rows ---- */

static uint32_t silent_rows(const struct mtr_lane *lane)
{
    return lane->count - lane->outputs;
}

static bool is_scored(const struct mtr_output_row *r)
{
    return r->out->scores && r->row + 1 < r->out->lane->count;
}

/* What the kernel is told of a row. */
static struct mtr_sample_row sample_of(const struct mtr_exec *e, const struct mtr_output_row *r)
{
    const struct mtr_lane *lane = r->out->lane;
    const struct mtr_sampling *s = &e->slots.slots[lane->slot].sampling;
    uint32_t words[4];
    if (!r->chosen || r->out->choice != MTR_CHOICE_DRAW)
        return (struct mtr_sample_row){0};
    mtr_philox(s->seed, lane->start + r->row + 1, 0, words);
    return (struct mtr_sample_row){
        .inverse = 1 / s->temperature,
        .top_p = s->top_p,
        .least = s->min_p > 0 ? logf(s->min_p) : -INFINITY,
        .top_k = s->top_k,
        .fraction = words[0] >> 8, /* as mtr_uniform */
    };
}

void mtr_outputs_list(struct mtr_exec *e, struct mtr_flight *f, const struct mtr_pass *pass)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pass->segment_count; i++) {
        const struct mtr_segment *s = &pass->segments[i];
        for (uint32_t j = s->count - s->outputs; j < s->count; j++, n++) {
            struct mtr_output_row *r = &f->rows[n];
            *r = (struct mtr_output_row){&f->outputs[s->lane], s->first + j, n, false, NULL};
            r->chosen = r->out->choice != MTR_CHOICE_HOST && !is_scored(r) && !e->observer.row &&
                        r->row >= silent_rows(r->out->lane);
            f->samples[n] = sample_of(e, r);
        }
    }
    f->row_count = n;
    f->fetched = 0;
}

static bool fetch_chosen(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    for (uint32_t i = 0; i < f->row_count; i++)
        if (f->rows[i].chosen)
            return e->backend->ops->download(e->backend, e->stream, f->chosen, e->memory.chosen,
                                             f->row_count * sizeof *f->chosen, err);
    return true;
}

bool mtr_outputs_fetch(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    const struct mtr_plan_buffer *b = &e->plan->buffers[e->plan->logits];
    const float *device = e->memory.buffers[e->plan->logits];
    size_t stride = b->row_bytes / sizeof(float);
    if (f->fetched == 0 && !fetch_chosen(e, f, err))
        return false;
    for (uint32_t used = 0; f->fetched < f->row_count; f->fetched++) {
        struct mtr_output_row *r = &f->rows[f->fetched];
        const float *from = device + r->logit * stride;
        if (r->chosen)
            continue;
        r->logits = from;
        if (e->device.direct)
            continue;
        if (used == e->logit_rows)
            break;
        float *to = e->logits + used++ * stride;
        if (!e->backend->ops->download(e->backend, e->stream, to, from, b->row_bytes, err))
            return false;
        r->logits = to;
    }
    return true;
}

/* ---- their use ---- */

/* What the threads that sample share. */
struct work {
    struct mtr_exec *e;
    const struct mtr_output_row *rows; /* [count] */
    uint32_t count;
    uint32_t shards;
};

/* Keeps the arrays that begin_lane made. */
static void fill_logprobs(const struct mtr_exec *e, const float *logits, uint32_t token,
                          struct mtr_token_logprobs *p)
{
    mtr_logprobs(logits, e->plan->vocab, token, (uint32_t *)p->top_ids, (float *)p->top_logprobs,
                 p);
}

static void sample_row(struct mtr_exec *e, const struct mtr_output_row *r, uint32_t output,
                       struct mtr_sampler_scratch *scratch)
{
    const struct mtr_lane *lane = r->out->lane;
    const struct mtr_slot *slot = &e->slots.slots[lane->slot];
    const struct mtr_sampler_input in = {
        .logits = r->logits,
        .vocab = e->plan->vocab,
        .sampling = &slot->sampling,
        .position = lane->start + r->row + 1,
        .history = slot->tokens,
        .mask = lane->mask ? lane->mask + (size_t)output * ((e->plan->vocab + 7) / 8) : NULL,
        .banned = lane->banned,
        .banned_count = lane->banned_count,
    };
    uint32_t token = mtr_sample(&in, scratch);
    r->out->sampled[output] = token;
    if (r->out->logprobs)
        fill_logprobs(e, r->logits, token, &r->out->logprobs[output]);
}

static void use_row(struct mtr_exec *e, const struct mtr_output_row *r,
                    struct mtr_sampler_scratch *scratch)
{
    const struct mtr_lane *lane = r->out->lane;
    uint32_t silent = silent_rows(lane);
    if (is_scored(r)) {
        uint32_t next = e->slots.slots[lane->slot].tokens[lane->start + r->row + 1];
        fill_logprobs(e, r->logits, next, &r->out->scores[r->row]);
    }
    if (r->row >= silent)
        sample_row(e, r, r->row - silent, scratch);
}

static void use_shard(void *context, uint32_t shard)
{
    struct work *w = context;
    for (uint32_t i = shard; i < w->count; i += w->shards)
        if (!w->rows[i].chosen)
            use_row(w->e, &w->rows[i], &w->e->samplers[shard]);
}

static void use_shard_on_pool(void *context, uint32_t shard, uint32_t thread)
{
    use_shard(context, shard);
}

/* Runs the shards on the backend's threads, or on the executor's own. */
static void sample_rows(struct mtr_exec *e, struct work *w, uint32_t needed)
{
    w->shards = needed < e->sampler_count ? needed : e->sampler_count;
    if (w->shards > 1 && e->backend->ops->parallel)
        e->backend->ops->parallel(e->backend, w->shards, use_shard, w);
    else if (w->shards > 1 && e->pool)
        mtr_pool_run(e->pool, w->shards, use_shard_on_pool, w);
    else {
        w->shards = 1;
        use_shard(w, 0);
    }
}

static void observe(const struct mtr_exec *e, const struct work *w)
{
    for (uint32_t i = 0; e->observer.row && i < w->count; i++) {
        const struct mtr_output_row *r = &w->rows[i];
        e->observer.row(e->observer.context, r->out->lane->sequence, r->out->lane->start + r->row,
                        r->logits);
    }
}

/* Rows [from, f->fetched): takes the device's choice, or samples. */
static bool use_rows(struct mtr_exec *e, struct mtr_flight *f, uint32_t from, struct mtr_error *err)
{
    struct work w = {.e = e, .rows = f->rows + from, .count = f->fetched - from};
    uint32_t needed = 0;
    for (uint32_t i = 0; i < w.count; i++) {
        const struct mtr_output_row *r = &w.rows[i];
        needed += !r->chosen;
        if (!r->chosen)
            continue;
        uint32_t token = (uint32_t)f->chosen[r->logit];
        if (token >= e->plan->vocab)
            return mtr_fail(err, MTR_IO, "the device chose token %u of %u", token, e->plan->vocab);
        r->out->sampled[r->row - silent_rows(r->out->lane)] = token;
    }
    observe(e, &w);
    if (needed)
        sample_rows(e, &w, needed);
    return true;
}

bool mtr_outputs_use(struct mtr_exec *e, struct mtr_flight *f, struct mtr_error *err)
{
    for (uint32_t from = 0; from < f->row_count;) {
        uint32_t to = f->fetched;
        if (!use_rows(e, f, from, err))
            return false;
        from = to;
        if (to < f->row_count && (!mtr_outputs_fetch(e, f, err) ||
                                  !e->backend->ops->stream_wait(e->backend, e->stream, err)))
            return false;
    }
    return true;
}

static uint32_t accepted_drafts(const struct mtr_lane_output *out)
{
    const struct mtr_lane *l = out->lane;
    uint32_t n = 0;
    while (n < l->drafts && out->sampled[n] == l->tokens[l->count - l->drafts + n])
        n++;
    return n;
}

static void end_lane(struct mtr_exec *e, const struct mtr_flight *f,
                     const struct mtr_lane_output *out, struct mtr_lane_result *r)
{
    const struct mtr_lane *l = out->lane;
    uint32_t accepted = accepted_drafts(out), tokens = l->outputs ? accepted + 1 : 0;
    *r = (struct mtr_lane_result){
        .sequence = l->sequence,
        .token_count = tokens,
        .tokens = out->sampled,
        .accepted = accepted,
        .logprob_count = out->logprobs ? tokens : 0,
        .logprobs = out->logprobs,
        .score_count = out->scores ? l->count - 1 : 0,
        .scores = out->scores,
    };
    if (!f->settles_later)
        mtr_slots_finish(&e->slots, l, accepted, out->sampled, tokens);
    else if (l->outputs)
        mtr_slots_settle(&e->slots, l, out->sampled[0]);
}

bool mtr_outputs_end(struct mtr_exec *e, struct mtr_flight *f, struct mtr_step_result *result,
                     struct mtr_error *err)
{
    const struct mtr_step_plan *plan = f->plan;
    struct mtr_lane_result *lanes =
        mtr_arena_calloc(&f->arena, plan->lane_count + 1, sizeof *lanes);
    if (!lanes)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the results of %u lanes",
                        plan->lane_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        end_lane(e, f, &f->outputs[i], &lanes[n]);
        n += plan->lanes[i].outputs || plan->lanes[i].score;
    }
    result->lane_count = n;
    result->lanes = lanes;
    return true;
}
