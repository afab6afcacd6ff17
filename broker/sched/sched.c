/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler's life and its sequences' lives: in by submit, out by finish, and back to waiting
 * when the worker is lost or blocks run out.
 *
 * An event's memory may run out, the end of a sequence may not be lost with it: there is always
 * room in the array for one more event a live sequence.
 */
#include "broker/sched/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sched/internal.h"
#include "common/base/buf.h"
#include "common/base/ns.h"

#define FINISH_SMOOTHING 8 /* the weight of one interval is 1/8 */

static const char *const finish_names[] = {
    [MTR_FINISH_NONE] = "none",         [MTR_FINISH_STOP] = "stop",
    [MTR_FINISH_LENGTH] = "length",     [MTR_FINISH_CANCELLED] = "cancelled",
    [MTR_FINISH_DEADLINE] = "deadline", [MTR_FINISH_ERROR] = "error",
};

const char *mtr_finish_name(enum mtr_finish f)
{
    return finish_names[f];
}

/* ---- configuration ----------------------------------------------------------------------------
 */

struct mtr_sched_geometry mtr_sched_geometry(const struct mtr_plan *plan, uint32_t chunk_tokens)
{
    struct mtr_sched_geometry g = {.vocab = plan->vocab,
                                   .block_tokens = 16,
                                   .group_count = plan->group_count,
                                   .recurrent = plan->state_count > 0,
                                   .chunk_tokens = plan->state_count > 0 ? chunk_tokens : 0};
    for (uint32_t i = 0; i < plan->group_count; i++) {
        g.block_tokens = plan->groups[i].block_tokens;
        g.groups[i].kind = plan->groups[i].kind;
        g.groups[i].window = plan->groups[i].window;
    }
    return g;
}

static bool in_range(const char *name, uint64_t value, uint64_t min, uint64_t max,
                     struct mtr_error *err)
{
    if (value >= min && value <= max)
        return true;
    return mtr_fail_field(err, MTR_INVALID, name, "%s is %llu, expected %llu to %llu", name,
                          (unsigned long long)value, (unsigned long long)min,
                          (unsigned long long)max);
}

static bool check_geometry(const struct mtr_sched_geometry *g, struct mtr_error *err)
{
    if (!in_range("vocab", g->vocab, 1, UINT32_MAX - 1, err) ||
        !in_range("block_tokens", g->block_tokens, 1, 4096, err) ||
        !in_range("group_count", g->group_count, g->recurrent ? 0 : 1, MTR_MAX_GROUPS, err))
        return false;
    for (uint32_t i = 0; i < g->group_count; i++)
        if (g->groups[i].kind == MTR_CACHE_SLIDING &&
            !in_range("window", g->groups[i].window, 1, 1u << 30, err))
            return false;
    if (!g->recurrent)
        return true;
    if (g->chunk_tokens == 0 || g->chunk_tokens % g->block_tokens != 0)
        return mtr_fail_field(err, MTR_INVALID, "chunk_tokens",
                              "chunk_tokens is %u, expected a multiple of %u", g->chunk_tokens,
                              g->block_tokens);
    return true;
}

static bool check_config(const struct mtr_sched_config *c, struct mtr_error *err)
{
    const struct mtr_sched_geometry *g = &c->geometry;
    uint32_t chunk = g->recurrent ? g->chunk_tokens : 1;
    if (!check_geometry(g, err) ||
        !in_range("max_batch_size", c->max_batch_size, 1, MTR_SCHED_MAX_BATCH, err) ||
        !in_range("max_num_seqs", c->max_num_seqs, 1, MTR_SCHED_MAX_QUEUE, err) ||
        !in_range("max_prefill_tokens", c->max_prefill_tokens, chunk < 2 ? 2 : chunk, 1u << 20,
                  err) ||
        !in_range("max_sequence_tokens", c->max_sequence_tokens, 2, 1u << 24, err) ||
        !in_range("max_drafts", c->max_drafts, 0, MTR_SCHED_MAX_DRAFTS, err) ||
        !in_range("max_score_rows", c->max_score_rows, 2, 1u << 20, err) ||
        !in_range("policy", c->policy, MTR_SCHED_FIFO, MTR_SCHED_SLAI, err))
        return false;
    if (g->recurrent && c->snapshot_interval_tokens % g->chunk_tokens != 0)
        return mtr_fail_field(err, MTR_INVALID, "snapshot_interval_tokens",
                              "snapshot_interval_tokens is %u, expected a multiple of %u",
                              c->snapshot_interval_tokens, g->chunk_tokens);
    return true;
}

/* ---- create, destroy --------------------------------------------------------------------------
 */

static bool allocate(struct mtr_sched *s)
{
    size_t lanes = s->config.max_batch_size;
    size_t groups = s->config.geometry.group_count ? s->config.geometry.group_count : 1;
    s->running = calloc(lanes, sizeof(struct mtr_seq *));
    s->lanes = calloc(lanes, sizeof(*s->lanes));
    s->changes = calloc(lanes * groups, sizeof(*s->changes));
    s->fresh = calloc(lanes, sizeof(*s->fresh));
    bool ok = s->running && s->lanes && s->changes && s->fresh &&
              mtr_id_pool_init(&s->slots, s->config.max_batch_size);
    for (int i = 0; i < MTR_PLANS_IN_FLIGHT && ok; i++)
        ok = (s->flights[i].lanes = calloc(lanes, sizeof(struct mtr_flight_lane))) != NULL;
    return ok;
}

struct mtr_sched *mtr_sched_create(const struct mtr_sched_config *c, struct mtr_error *err)
{
    if (!check_config(c, err))
        return NULL;
    struct mtr_sched *s = calloc(1, sizeof(*s));
    if (s) {
        s->config = *c;
        s->next_id = 1;
        s->next_deadline_ns = UINT64_MAX;
        s->most_tokens = s->most_lane_tokens = c->max_sequence_tokens;
        mtr_arena_init(&s->event_memory[0], 0);
        mtr_arena_init(&s->event_memory[1], 0);
    }
    if (s && allocate(s))
        return s;
    mtr_sched_destroy(s);
    mtr_fail(err, MTR_NO_MEMORY, "no memory for a scheduler of %u sequences", c->max_batch_size);
    return NULL;
}

void mtr_sched_destroy(struct mtr_sched *s)
{
    if (!s)
        return;
    for (struct mtr_seq *q = s->waiting.first, *next; q; q = next) {
        next = q->next;
        mtr_seq_destroy(q);
    }
    for (uint32_t i = 0; i < s->running_count; i++)
        mtr_seq_destroy(s->running[i]);
    for (int i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        free(s->flights[i].lanes);
    mtr_radix_free(&s->radix);
    mtr_id_pool_free(&s->slots);
    mtr_map_free(&s->by_id);
    mtr_arena_free(&s->event_memory[0]);
    mtr_arena_free(&s->event_memory[1]);
    free(s->running);
    free(s->lanes);
    free(s->changes);
    free(s->fresh);
    free(s->effects);
    free(s->events);
    free(s);
}

/* ---- events -----------------------------------------------------------------------------------
 */

static uint32_t live(const struct mtr_sched *s)
{
    return s->running_count + s->waiting.count;
}

static bool reserve_events(struct mtr_sched *s, size_t more)
{
    void *array = s->events;
    bool ok = mtr_grow(&array, &s->events_cap, s->event_count + more, sizeof(*s->events));
    s->events = array;
    return ok;
}

/* Events that were taken make room for the first that is new. Their errors stay for one round more:
 * a driver that cancels siblings while it walks a copy of the events makes new ones meanwhile. */
static void forget_taken(struct mtr_sched *s)
{
    if (s->events_taken == 0)
        return;
    s->event_count = s->events_taken = 0;
    s->event_turn ^= 1;
    mtr_arena_reset(&s->event_memory[s->event_turn]);
}

struct mtr_sched_event *mtr_sched_event(struct mtr_sched *s, struct mtr_seq *q,
                                        enum mtr_sched_event_kind kind)
{
    forget_taken(s);
    bool last = kind == MTR_SCHED_FINISHED;
    if (!last && !reserve_events(s, 1ul + live(s)))
        return NULL;
    assert(s->event_count < s->events_cap);
    struct mtr_sched_event *e = &s->events[s->event_count++];
    *e = (struct mtr_sched_event){
        .kind = kind, .id = q->id, .user = q->user, .cached_tokens = q->cached_tokens};
    return e;
}

size_t mtr_sched_events(struct mtr_sched *s, const struct mtr_sched_event **events)
{
    forget_taken(s);
    *events = s->events;
    s->events_taken = s->event_count;
    return s->event_count;
}

/* ---- sequences --------------------------------------------------------------------------------
 */

struct mtr_seq *mtr_sched_find(const struct mtr_sched *s, uint64_t id)
{
    uint64_t at;
    return mtr_map_get(&s->by_id, id, &at) ? (struct mtr_seq *)(uintptr_t)at : NULL;
}

static bool fits_ever(const struct mtr_sched *s, uint32_t prompt, bool samples,
                      struct mtr_error *err)
{
    uint32_t most = s->config.max_sequence_tokens;
    if (prompt + (samples ? 1u : 0u) > most)
        return mtr_fail(err, MTR_INVALID,
                        "the prompt has %u tokens; with its answer, a sequence may have %u", prompt,
                        most);
    if (prompt > s->most_tokens)
        return mtr_fail(err, MTR_INVALID,
                        "the prompt has %u tokens; the cache has room for a sequence of %u", prompt,
                        s->most_tokens);
    return true;
}

static bool check_images(const struct mtr_sched_params *p, struct mtr_error *err)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < p->image_count; i++) {
        if (p->images[i].first < end)
            return mtr_fail(err, MTR_INVALID, "image %u begins before image %u ends", i, i - 1);
        end = (uint64_t)p->images[i].first + p->images[i].count;
    }
    return end <= p->token_count ||
           mtr_fail(err, MTR_INVALID, "image %u ends behind the prompt", p->image_count - 1);
}

static bool check_ids(const struct mtr_sched *s, const uint32_t *ids, uint32_t count,
                      const char *field, struct mtr_error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] >= s->config.geometry.vocab)
            return mtr_fail_field(err, MTR_INVALID, field,
                                  "%s: token id %u does not exist, the vocabulary has %u", field,
                                  ids[i], s->config.geometry.vocab);
    return true;
}

/* A recurrent model can't compute a row twice, so all scores must come from one lane. */
static bool check_score(const struct mtr_sched *s, bool score, uint32_t prompt,
                        struct mtr_error *err)
{
    uint32_t most = s->most_lane_tokens;
    most = most < s->config.max_prefill_tokens ? most : s->config.max_prefill_tokens;
    most = most < s->config.max_score_rows ? most : s->config.max_score_rows;
    if (!score || !s->config.geometry.recurrent || prompt <= most)
        return true;
    return mtr_fail(err, MTR_INVALID,
                    "the prompt has %u tokens; of this model, prompts of %u can be scored", prompt,
                    most);
}

static bool check_params(const struct mtr_sched *s, const struct mtr_sched_params *p,
                         struct mtr_error *err)
{
    if (p->token_count == 0)
        return mtr_fail(err, MTR_INVALID, "the prompt has no tokens");
    return in_range("stop_token_ids", p->stop_count, 0, MTR_SCHED_MAX_STOPS, err) &&
           in_range("logit_bias", p->sampling.bias_count, 0, MTR_MAX_BIASES, err) &&
           in_range("images", p->image_count, 0, MTR_SCHED_MAX_IMAGES, err) &&
           fits_ever(s, p->token_count, p->max_tokens > 0, err) &&
           check_ids(s, p->tokens, p->token_count, "prompt", err) &&
           check_ids(s, p->stop_ids, p->stop_count, "stop_token_ids", err) &&
           check_ids(s, p->sampling.bias_ids, p->sampling.bias_count, "logit_bias", err) &&
           check_images(p, err) && check_score(s, p->score, p->token_count, err);
}

static uint32_t limit_of(const struct mtr_sched *s, const struct mtr_seq *q)
{
    uint64_t limit = (uint64_t)q->prompt + q->max_tokens;
    uint64_t cache = s->most_tokens + 1ull; /* the last token is sampled, never computed */
    limit = limit < s->config.max_sequence_tokens ? limit : s->config.max_sequence_tokens;
    return (uint32_t)(limit < cache ? limit : cache);
}

bool mtr_sched_submit(struct mtr_sched *s, const struct mtr_sched_params *p, uint64_t now_ns,
                      uint64_t *id, struct mtr_error *err)
{
    if (s->waiting.count >= s->config.max_num_seqs)
        return mtr_fail(err, MTR_BUSY, "%u requests are waiting; try again in %u s",
                        s->waiting.count, mtr_sched_retry_after_s(s));
    if (!check_params(s, p, err))
        return false;
    struct mtr_seq *q = mtr_seq_create(p, now_ns);
    if (!q || !reserve_events(s, live(s) + 2ul) ||
        !mtr_map_put(&s->by_id, s->next_id, (uint64_t)(uintptr_t)q)) {
        mtr_seq_destroy(q);
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for a request of %u tokens", p->token_count);
    }
    *id = q->id = s->next_id++;
    q->limit = limit_of(s, q);
    mtr_seq_list_insert(&s->waiting, q);
    if (q->deadline_ns && q->deadline_ns < s->next_deadline_ns)
        s->next_deadline_ns = q->deadline_ns;
    return true;
}

uint32_t mtr_sched_retry_after_s(const struct mtr_sched *s)
{
    uint64_t seconds = (s->finish_interval_ns + MTR_NS_PER_S - 1) / MTR_NS_PER_S;
    return seconds < 1                       ? 1
           : seconds > MTR_SCHED_MAX_RETRY_S ? MTR_SCHED_MAX_RETRY_S
                                             : (uint32_t)seconds;
}

/* Leaves the running ones, its content to the prefix cache. Recurrent models don't share output. */
static void stop_running(struct mtr_sched *s, struct mtr_seq *q)
{
    uint32_t shared = q->planned < q->known ? q->planned : q->known;
    if (s->config.geometry.recurrent && shared > q->prompt)
        shared = q->prompt;
    if (s->config.prefix_cache)
        mtr_table_publish(&s->radix, &s->config.geometry, q, shared);
    mtr_table_release(&s->radix, &q->table);
    mtr_id_pool_give(&s->slots, q->slot);
    uint32_t at = 0;
    while (s->running[at] != q)
        at++;
    memmove(&s->running[at], &s->running[at + 1],
            (s->running_count - at - 1) * sizeof(struct mtr_seq *));
    s->running_count--;
}

static void start_over(struct mtr_seq *q)
{
    q->running = false;
    q->planned = 0;
    q->score_planned = q->scored;
    q->draft_count = 0;
    q->snapshot_at = 0;
}

void mtr_sched_preempt(struct mtr_sched *s, struct mtr_seq *q)
{
    stop_running(s, q);
    start_over(q);
    mtr_seq_list_insert(&s->waiting, q);
}

static const struct mtr_error *keep_error(struct mtr_sched *s, const struct mtr_error *why)
{
    static const struct mtr_error no_memory = {.code = MTR_NO_MEMORY, .message = "out of memory"};
    struct mtr_error *copy = mtr_arena_alloc(&s->event_memory[s->event_turn], sizeof(*copy));
    if (!copy)
        return &no_memory;
    *copy = *why;
    return copy;
}

static void learn_interval(struct mtr_sched *s, uint64_t now_ns)
{
    uint64_t interval = now_ns - s->last_finish_ns;
    if (s->last_finish_ns != 0 && now_ns >= s->last_finish_ns)
        s->finish_interval_ns = s->finish_interval_ns == 0
                                    ? interval
                                    : s->finish_interval_ns -
                                          s->finish_interval_ns / FINISH_SMOOTHING +
                                          interval / FINISH_SMOOTHING;
    s->last_finish_ns = now_ns;
}

void mtr_sched_finish(struct mtr_sched *s, struct mtr_seq *q, enum mtr_finish finish,
                      uint32_t stop_id, const struct mtr_error *why, uint64_t now_ns)
{
    struct mtr_sched_event *e = mtr_sched_event(s, q, MTR_SCHED_FINISHED);
    e->finish = finish;
    e->stop_id = stop_id;
    e->prompt_tokens = q->prompt;
    e->cached_tokens = q->cached_tokens;
    e->output_tokens = mtr_seq_outputs(q);
    if (finish == MTR_FINISH_ERROR)
        e->error = keep_error(s, why);
    if (q->running)
        stop_running(s, q);
    else
        mtr_seq_list_remove(&s->waiting, q);
    learn_interval(s, now_ns);
    mtr_map_remove(&s->by_id, q->id, NULL);
    mtr_seq_destroy(q);
}

bool mtr_sched_cancel(struct mtr_sched *s, uint64_t id, enum mtr_finish why, uint64_t now_ns)
{
    struct mtr_seq *q = mtr_sched_find(s, id);
    assert(why != MTR_FINISH_NONE && why != MTR_FINISH_ERROR);
    if (q)
        mtr_sched_finish(s, q, why, 0, NULL, now_ns);
    return q != NULL;
}

bool mtr_sched_mask(struct mtr_sched *s, uint64_t id, const uint8_t *mask, uint32_t bytes)
{
    struct mtr_seq *q = mtr_sched_find(s, id);
    if (!q)
        return false;
    assert(bytes == (s->config.geometry.vocab + 7) / 8);
    q->mask = mask;
    q->mask_bytes = bytes;
    return true;
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

/* Ends q when it is past its deadline, else notes when that will be. */
static void expire_one(struct mtr_sched *s, struct mtr_seq *q, uint64_t now_ns)
{
    if (q->deadline_ns == 0)
        return;
    if (q->deadline_ns <= now_ns)
        mtr_sched_finish(s, q, MTR_FINISH_DEADLINE, 0, NULL, now_ns);
    else if (q->deadline_ns < s->next_deadline_ns)
        s->next_deadline_ns = q->deadline_ns;
}

void mtr_sched_expire(struct mtr_sched *s, uint64_t now_ns)
{
    if (now_ns < s->next_deadline_ns)
        return;
    s->next_deadline_ns = UINT64_MAX;
    for (struct mtr_seq *q = s->waiting.first, *next; q; q = next) {
        next = q->next;
        expire_one(s, q, now_ns);
    }
    for (uint32_t i = s->running_count; i-- > 0;)
        expire_one(s, s->running[i], now_ns);
}

uint64_t mtr_sched_next_ns(const struct mtr_sched *s)
{
    return s->next_deadline_ns;
}

/* ---- the worker -------------------------------------------------------------------------------
 */

/* Tokens that the whole of a group can hold of one sequence; UINT32_MAX: any number, for a window
 * that moves along. */
static uint32_t group_tokens(const struct mtr_sched_geometry *g, uint32_t group, uint32_t blocks)
{
    uint32_t bt = g->block_tokens;
    uint64_t chunk = g->recurrent ? g->chunk_tokens : 1;
    uint64_t moving = (g->groups[group].window + chunk + bt - 1) / bt + 1;
    if (g->groups[group].kind == MTR_CACHE_SLIDING && blocks >= moving)
        return UINT32_MAX;
    return blocks < UINT32_MAX / bt ? blocks * bt : UINT32_MAX;
}

static bool check_capacity(struct mtr_sched *s, const struct mtr_sched_capacity *c,
                           struct mtr_error *err)
{
    const struct mtr_sched_geometry *g = &s->config.geometry;
    uint32_t most = s->config.max_sequence_tokens, lane = most;
    for (uint32_t i = 0; i < g->group_count; i++) {
        uint32_t tokens = group_tokens(g, i, c->group_blocks[i]);
        uint64_t all = (uint64_t)c->group_blocks[i] * g->block_tokens;
        most = tokens < most ? tokens : most;
        lane = all < lane ? (uint32_t)all : lane;
    }
    s->most_lane_tokens = lane;
    if (most < 2)
        return mtr_fail(err, MTR_INVALID, "the cache has room for a sequence of %u tokens", most);
    s->most_tokens = most;
    return true;
}

/* The cache may be smaller than the one before; and what has killed one worker after another must
 * not kill this one too. */
static void fit_again(struct mtr_sched *s, struct mtr_seq *q, uint64_t now_ns)
{
    struct mtr_error why;
    q->limit = limit_of(s, q);
    if (q->losses >= MTR_SCHED_MAX_LOSSES) {
        mtr_fail(&why, MTR_IO, "the worker was lost %u times while it computed this", q->losses);
        mtr_sched_finish(s, q, MTR_FINISH_ERROR, 0, &why, now_ns);
    } else if (!fits_ever(s, q->prompt, !q->prompt_only, &why) ||
               !check_score(s, mtr_seq_scoring(q), q->prompt, &why)) {
        mtr_sched_finish(s, q, MTR_FINISH_ERROR, 0, &why, now_ns);
    } else if (!q->prompt_only && q->known >= q->limit) {
        mtr_sched_finish(s, q, MTR_FINISH_LENGTH, 0, NULL, now_ns);
    }
}

bool mtr_sched_worker_ready(struct mtr_sched *s, const struct mtr_sched_capacity *capacity,
                            uint64_t now_ns, struct mtr_error *err)
{
    mtr_sched_worker_lost(s, now_ns);
    if (!check_capacity(s, capacity, err) ||
        !mtr_radix_init(&s->radix, &s->config.geometry, capacity, err))
        return false;
    s->ready = true;
    for (struct mtr_seq *q = s->waiting.first, *next; q; q = next) {
        next = q->next;
        fit_again(s, q, now_ns);
    }
    return true;
}

/* Samples of unanswered steps are lost; they will be drawn again, and be the same. */
static void lose(struct mtr_seq *q)
{
    start_over(q);
    q->pending = 0;
    q->closing = false;
    mtr_table_forget(&q->table);
}

void mtr_sched_worker_lost(struct mtr_sched *s, uint64_t now_ns)
{
    for (struct mtr_seq *q = s->waiting.first; q; q = q->next)
        lose(q);
    while (s->running_count > 0) {
        struct mtr_seq *q = s->running[--s->running_count];
        mtr_id_pool_give(&s->slots, q->slot);
        q->losses++;
        lose(q);
        mtr_seq_list_insert(&s->waiting, q);
    }
    s->stats.evicted_blocks += s->radix.evicted_blocks;
    mtr_radix_free(&s->radix);
    s->ready = false;
    s->flying = 0;
    s->fresh_count = 0;
    s->step = 0;
}

void mtr_sched_fail_all(struct mtr_sched *s, const struct mtr_error *why, uint64_t now_ns)
{
    while (s->running_count > 0)
        mtr_sched_finish(s, s->running[s->running_count - 1], MTR_FINISH_ERROR, 0, why, now_ns);
    while (s->waiting.first)
        mtr_sched_finish(s, s->waiting.first, MTR_FINISH_ERROR, 0, why, now_ns);
}

/* ---- reports ----------------------------------------------------------------------------------
 */

uint32_t mtr_sched_in_flight(const struct mtr_sched *s)
{
    return s->flying;
}

void mtr_sched_stats(const struct mtr_sched *s, struct mtr_sched_stats *out)
{
    *out = s->stats;
    out->running = s->running_count;
    out->waiting = s->waiting.count;
    out->group_count = s->config.geometry.group_count;
    out->evicted_blocks += s->radix.evicted_blocks;
    if (!s->ready)
        return;
    for (uint32_t g = 0; g < out->group_count; g++) {
        uint32_t cached = mtr_radix_available(&s->radix, g) - s->radix.pools[g].free_count;
        out->groups[g].blocks = s->radix.pools[g].capacity;
        out->groups[g].free = s->radix.pools[g].free_count;
        out->groups[g].cached = cached;
        out->groups[g].used = out->groups[g].blocks - out->groups[g].free - cached;
    }
    out->snapshots = s->radix.snapshots.capacity;
    out->snapshots_used = out->snapshots - s->radix.snapshots.free_count;
}

static struct mtr_sched_info describe(const struct mtr_seq *q)
{
    bool prefill = mtr_seq_outputs(q) + q->pending == 0 || q->planned + 1 < q->known;
    return (struct mtr_sched_info){.id = q->id,
                                   .user = q->user,
                                   .state = !q->running ? MTR_SCHED_WAITING
                                            : prefill   ? MTR_SCHED_PREFILL
                                                        : MTR_SCHED_DECODE,
                                   .prompt_tokens = q->prompt,
                                   .cached_tokens = q->cached_tokens,
                                   .output_tokens = mtr_seq_outputs(q),
                                   .submitted_ns = q->submitted_ns};
}

size_t mtr_sched_list(const struct mtr_sched *s, struct mtr_sched_info *out, size_t max)
{
    size_t count = 0;
    const struct mtr_seq *waiting = s->waiting.first;
    for (uint32_t i = 0; i < s->running_count || waiting; count++) {
        bool runs = i < s->running_count && (!waiting || s->running[i]->id < waiting->id);
        const struct mtr_seq *q = runs ? s->running[i] : waiting;
        if (count < max)
            out[count] = describe(q);
        if (runs)
            i++;
        else
            waiting = waiting->next;
    }
    return count;
}
