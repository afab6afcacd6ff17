/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From logits to a step's result.
 *
 * Every row of logits is sampled by itself, also those behind a draft: its history is the slot's,
 * drafts included, which is the true one exactly when the drafts before it are accepted. So the
 * rows of a pass can be sampled in any order and on any thread, and the acceptance of drafts is a
 * comparison afterwards. The token of row r (absolute position p) stands at position p + 1.
 */
#include <string.h>

#include "worker/exec/executor.h"
#include "worker/exec/logprobs.h"

static struct mtr_token_logprobs *room_for_logprobs(struct mtr_exec *e, uint32_t count,
                                                    uint32_t top)
{
    struct mtr_token_logprobs *p = mtr_arena_calloc(&e->arena, count + 1, sizeof *p);
    if (!p || top == 0)
        return p;
    uint32_t *ids = mtr_arena_calloc(&e->arena, (size_t)count * top, sizeof *ids);
    float *values = mtr_arena_calloc(&e->arena, (size_t)count * top, sizeof *values);
    if (!ids || !values)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        p[i] = (struct mtr_token_logprobs){.top_count = top,
                                           .top_ids = ids + (size_t)i * top,
                                           .top_logprobs = values + (size_t)i * top};
    return p;
}

static bool begin_lane(struct mtr_exec *e, const struct mtr_lane *lane, struct mtr_lane_output *out)
{
    uint32_t logprobs = e->slots.slots[lane->slot].sampling.logprobs;
    uint32_t top = logprobs ? logprobs - 1 : 0;
    top = top < e->plan->vocab ? top : e->plan->vocab;
    out->lane = lane;
    out->sampled = mtr_arena_calloc(&e->arena, lane->outputs + 1, sizeof *out->sampled);
    if (logprobs && lane->outputs)
        out->logprobs = room_for_logprobs(e, lane->outputs, top);
    if (lane->score && lane->count > 1)
        out->scores = room_for_logprobs(e, lane->count - 1, top);
    return !mtr_arena_failed(&e->arena);
}

bool mtr_outputs_begin(struct mtr_exec *e, const struct mtr_step_plan *plan,
                       struct mtr_lane_output **outputs, struct mtr_error *err)
{
    mtr_arena_reset(&e->arena);
    *outputs = mtr_arena_calloc(&e->arena, plan->lane_count + 1, sizeof **outputs);
    for (uint32_t i = 0; *outputs && i < plan->lane_count; i++)
        if (!begin_lane(e, &plan->lanes[i], &(*outputs)[i]))
            break;
    if (mtr_arena_failed(&e->arena))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the results of %u lanes",
                        plan->lane_count);
    return true;
}

/* What the threads that sample share. */
struct work {
    struct mtr_exec *e;
    const float *logits;
    size_t stride;
    uint32_t rows;
    uint32_t shards;
};

/* Keeps the arrays that begin_lane made. */
static void fill_logprobs(const struct mtr_exec *e, const float *logits, uint32_t token,
                          struct mtr_token_logprobs *p)
{
    mtr_logprobs(logits, e->plan->vocab, token, (uint32_t *)p->top_ids, (float *)p->top_logprobs,
                 p);
}

static void sample_row(struct mtr_exec *e, const struct mtr_output_row *r, const float *logits,
                       uint32_t output, struct mtr_sampler_scratch *scratch)
{
    const struct mtr_lane *lane = r->out->lane;
    const struct mtr_slot *slot = &e->slots.slots[lane->slot];
    const struct mtr_sampler_input in = {
        .logits = logits,
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
        fill_logprobs(e, logits, token, &r->out->logprobs[output]);
}

static void use_row(struct mtr_exec *e, const struct mtr_output_row *r, const float *logits,
                    struct mtr_sampler_scratch *scratch)
{
    const struct mtr_lane *lane = r->out->lane;
    uint32_t silent = lane->count - lane->outputs;
    if (r->out->scores && r->row + 1 < lane->count) {
        uint32_t next = e->slots.slots[lane->slot].tokens[lane->start + r->row + 1];
        fill_logprobs(e, logits, next, &r->out->scores[r->row]);
    }
    if (r->row >= silent)
        sample_row(e, r, logits, r->row - silent, scratch);
}

static void use_shard(void *context, uint32_t shard)
{
    struct work *w = context;
    for (uint32_t i = shard; i < w->rows; i += w->shards) {
        const struct mtr_output_row *r = &w->e->rows[i];
        use_row(w->e, r, w->logits + r->logit * w->stride, &w->e->samplers[shard]);
    }
}

static void use_rows(struct mtr_exec *e, struct work *w)
{
    w->shards = w->rows < e->sampler_count ? w->rows : e->sampler_count;
    if (w->shards > 1 && e->backend->ops->parallel) {
        e->backend->ops->parallel(e->backend, w->shards, use_shard, w);
        return;
    }
    w->shards = 1;
    use_shard(w, 0);
}

static uint32_t list_rows(struct mtr_exec *e, const struct mtr_pass *pass,
                          struct mtr_lane_output *outputs)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < pass->segment_count; i++) {
        const struct mtr_segment *s = &pass->segments[i];
        for (uint32_t j = s->count - s->outputs; j < s->count; j++, n++)
            e->rows[n] = (struct mtr_output_row){&outputs[s->lane], s->first + j, n};
    }
    return n;
}

static void observe(const struct mtr_exec *e, const struct work *w)
{
    for (uint32_t i = 0; e->observer.row && i < w->rows; i++) {
        const struct mtr_output_row *r = &e->rows[i];
        e->observer.row(e->observer.context, r->out->lane->sequence, r->out->lane->start + r->row,
                        w->logits + r->logit * w->stride);
    }
}

/* The logits where this process can read them. */
static const float *fetch_logits(struct mtr_exec *e, uint32_t rows, struct mtr_error *err)
{
    const struct mtr_plan_buffer *b = &e->plan->buffers[e->plan->logits];
    const float *device = e->memory.buffers[e->plan->logits];
    const struct mtr_backend_ops *ops = e->backend->ops;
    if (!e->device.unified &&
        !ops->download(e->backend, e->stream, e->logits, device, rows * b->row_bytes, err))
        return NULL;
    if (!ops->stream_wait(e->backend, e->stream, err))
        return NULL;
    return e->device.unified ? device : e->logits;
}

bool mtr_outputs_pass(struct mtr_exec *e, const struct mtr_step_plan *plan,
                      const struct mtr_pass *pass, struct mtr_lane_output *outputs,
                      struct mtr_error *err)
{
    struct work w = {.e = e, .rows = list_rows(e, pass, outputs)};
    if (w.rows == 0)
        return e->backend->ops->stream_wait(e->backend, e->stream, err);
    w.logits = fetch_logits(e, w.rows, err);
    if (!w.logits)
        return false;
    w.stride = e->plan->buffers[e->plan->logits].row_bytes / sizeof(float);
    observe(e, &w);
    use_rows(e, &w);
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

static void end_lane(struct mtr_exec *e, const struct mtr_lane_output *out,
                     struct mtr_lane_result *r)
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
    mtr_slots_finish(&e->slots, l, accepted, out->sampled, tokens);
}

bool mtr_outputs_end(struct mtr_exec *e, const struct mtr_step_plan *plan,
                     struct mtr_lane_output *outputs, struct mtr_step_result *result,
                     struct mtr_error *err)
{
    struct mtr_lane_result *lanes =
        mtr_arena_calloc(&e->arena, plan->lane_count + 1, sizeof *lanes);
    if (!lanes)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for the results of %u lanes",
                        plan->lane_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        end_lane(e, &outputs[i], &lanes[n]);
        n += plan->lanes[i].outputs || plan->lanes[i].score;
    }
    result->lane_count = n;
    result->lanes = lanes;
    return true;
}
