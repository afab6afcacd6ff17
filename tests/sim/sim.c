/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The driver does what the broker's engine does: plans until there is nothing to plan, packs each
 * plan once and sends it to every rank, takes a step's result when all ranks have answered, drops
 * messages of former epochs, and gives up a worker whose answer is wrong. Messages travel as
 * bytes and arrive when the clock says so.
 */
#include "tests/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/ns.h"
#include "common/wire/codec.h"
#include "common/wire/plan.pb-c.h"
#include "tests/sim/world.h"

#define MS           MTR_NS_PER_MS
#define MAX_RANKS    2
#define MAX_MESSAGES 8
#define MAX_ROUNDS   20000
#define MAX_LOSSES   4

struct message {
    struct mtr_buf bytes;
    uint64_t due_ns;
};

/* Messages in order of sending; none overtakes another. */
struct channel {
    struct message messages[MAX_MESSAGES];
    uint32_t count;
};

struct rank {
    struct mtr_scripted *model;
    struct channel inbox, outbox;
    uint64_t answered; /* the last step */
};

struct sim {
    struct mtr_sim_world world;
    struct mtr_sched *sched;
    struct rank ranks[MAX_RANKS];
    struct mtr_buf results[MTR_PLANS_IN_FLIGHT]; /* of rank 0, by step modulo */
    struct mtr_arena arena;
    uint64_t now_ns, epoch, back_ns;
    bool alive;
    uint32_t submitted, losses;
    uint32_t smallest_tokens; /* that any life of the worker could hold */
    bool trace;
    struct mtr_sim_totals *totals;
    struct mtr_error *err;
};

#define TRACE(s, ...)                                                                              \
    do {                                                                                           \
        if ((s)->trace)                                                                            \
            printf(__VA_ARGS__);                                                                   \
    } while (0)

static bool wrong(struct sim *s, const struct mtr_sim_request *q, const char *what)
{
    return mtr_fail(s->err, MTR_INTERNAL, "request %u (sequence %llu): %s",
                    (unsigned)(q - s->world.requests), (unsigned long long)q->id, what);
}

/* ---- channels ---------------------------------------------------------------------------------
 */

static void post(struct sim *s, struct channel *c, struct mtr_buf bytes, uint32_t delay_ms)
{
    uint64_t due = s->now_ns + mtr_sim_below(&s->world.random, delay_ms + 1) * MS;
    if (c->count > 0 && c->messages[c->count - 1].due_ns > due)
        due = c->messages[c->count - 1].due_ns;
    c->messages[c->count++] = (struct message){bytes, due};
}

/* The next message that is due; the caller frees it. */
static bool take(struct sim *s, struct channel *c, struct mtr_buf *bytes)
{
    if (c->count == 0 || c->messages[0].due_ns > s->now_ns)
        return false;
    *bytes = c->messages[0].bytes;
    memmove(c->messages, c->messages + 1, --c->count * sizeof(struct message));
    return true;
}

static void drain(struct channel *c)
{
    while (c->count > 0)
        mtr_buf_free(&c->messages[--c->count].bytes);
}

/* ---- workers ----------------------------------------------------------------------------------
 */

static void kill_workers(struct sim *s)
{
    for (uint32_t i = 0; i < s->world.ranks; i++) {
        mtr_scripted_destroy(s->ranks[i].model);
        s->ranks[i].model = NULL;
        drain(&s->ranks[i].inbox);
    }
    s->alive = false;
    s->back_ns = s->now_ns + mtr_sim_below(&s->world.random, 200) * MS;
}

static bool start_workers(struct sim *s)
{
    struct mtr_sim_world *w = &s->world;
    if (s->losses > 0 && w->shrinks && mtr_sim_chance(&w->random, 50))
        for (uint32_t g = 0; g < w->model.group_count; g++)
            w->model.group_blocks[g] = w->capacity.group_blocks[g] -=
                w->capacity.group_blocks[g] > 24 ? 2 : 0;
    uint32_t tokens = mtr_sim_capacity_tokens(w);
    s->smallest_tokens = tokens < s->smallest_tokens ? tokens : s->smallest_tokens;
    for (uint32_t i = 0; i < w->ranks; i++) {
        s->ranks[i].model = mtr_scripted_create(&w->model, s->err);
        s->ranks[i].answered = 0;
        if (!s->ranks[i].model)
            return false;
    }
    s->alive = true;
    s->epoch++;
    TRACE(s, "%8.1f ms  worker ready, epoch %llu\n", s->now_ns / 1e6, (unsigned long long)s->epoch);
    return mtr_sched_worker_ready(s->sched, &w->capacity, s->now_ns, s->err);
}

static void count_effects(struct sim *s, const struct mtr_step_plan *plan)
{
    for (uint32_t i = 0; i < plan->effect_count; i++) {
        s->totals->copies += plan->effects[i].kind == MTR_COPY_BLOCK;
        s->totals->snapshots += plan->effects[i].kind == MTR_SNAPSHOT_STATE;
        s->totals->restores += plan->effects[i].kind == MTR_RESTORE_STATE;
    }
}

/* One rank runs the plan that is due, if any, and posts its answer. */
static bool run_rank(struct sim *s, uint32_t rank)
{
    struct mtr_buf bytes, out = {0};
    struct mtr_step_plan plan;
    struct mtr_step_result result;
    struct rank *r = &s->ranks[rank];
    if (!r->model || !take(s, &r->inbox, &bytes))
        return true;
    const Mtr__FromBroker *m =
        mtr_message_unpack(&s->arena, &mtr__from_broker__descriptor, mtr_buf_view(&bytes), s->err);
    bool ok = m && mtr_unpack_plan(&s->arena, m, &plan, s->err) &&
              mtr_scripted_step(r->model, &s->arena, &plan, &result, s->err);
    mtr_buf_free(&bytes);
    if (!ok)
        return false;
    if (rank == 0)
        count_effects(s, &plan);
    else
        result.lane_count = 0;
    result.device_ns = mtr_sim_below(&s->world.random, 30) * MS;
    mtr_pack_result(&s->arena, &out, m->epoch, &result);
    post(s, &r->outbox, out, 30);
    return true;
}

/* ---- results ----------------------------------------------------------------------------------
 */

/* Gives the scheduler the results that all ranks have answered. */
static bool apply_results(struct sim *s, uint64_t before)
{
    uint64_t all = UINT64_MAX;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        all = s->ranks[i].answered < all ? s->ranks[i].answered : all;
    for (uint64_t step = before + 1; step <= all; step++) {
        struct mtr_buf *bytes = &s->results[step % MTR_PLANS_IN_FLIGHT];
        struct mtr_step_result result;
        const Mtr__FromWorker *m = mtr_message_unpack(&s->arena, &mtr__from_worker__descriptor,
                                                      mtr_buf_view(bytes), s->err);
        if (!m || !mtr_unpack_result(&s->arena, m, &result, s->err) ||
            !mtr_sched_result(s->sched, &result, s->now_ns, s->err))
            return false;
        s->totals->steps++;
    }
    return true;
}

static bool take_answer(struct sim *s, uint32_t rank, struct mtr_buf bytes)
{
    struct rank *r = &s->ranks[rank];
    uint64_t before = UINT64_MAX;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        before = s->ranks[i].answered < before ? s->ranks[i].answered : before;
    const Mtr__FromWorker *m =
        mtr_message_unpack(&s->arena, &mtr__from_worker__descriptor, mtr_buf_view(&bytes), s->err);
    if (!m || m->epoch != s->epoch || !s->alive) { /* of a former life */
        mtr_buf_free(&bytes);
        return m != NULL;
    }
    r->answered = m->result->step;
    if (rank == 0) {
        struct mtr_buf *kept = &s->results[r->answered % MTR_PLANS_IN_FLIGHT];
        mtr_buf_free(kept);
        *kept = bytes;
    } else {
        mtr_buf_free(&bytes);
    }
    return apply_results(s, before);
}

/* ---- events -----------------------------------------------------------------------------------
 */

static bool take_tokens(struct sim *s, struct mtr_sim_request *q, const struct mtr_sched_event *e)
{
    for (uint32_t i = 0; i < e->count; i++)
        if (q->got == q->expected_count || e->tokens[i] != q->expected[q->got++])
            return wrong(s, q, "another token than undisturbed");
    if ((e->logprobs != NULL) != (q->params.sampling.logprobs > 0))
        return wrong(s, q, "log-probabilities that were not asked for, or none");
    if (q->params.constrained)
        mtr_sched_mask(s->sched, q->id, q->mask, sizeof(q->mask));
    return true;
}

static bool take_scores(struct sim *s, struct mtr_sim_request *q, const struct mtr_sched_event *e)
{
    struct mtr_scripted_request request = {
        .prompt = q->tokens, .prompt_count = q->params.token_count, .adapter = q->params.adapter};
    if (e->first != q->scored)
        return wrong(s, q, "scores are not in order");
    for (uint32_t i = 0; i < e->count; i++)
        if (e->logprobs[i].logprob != mtr_scripted_score(&s->world.model, &request, q->scored++))
            return wrong(s, q, "another score");
    s->totals->scored += e->count;
    return true;
}

/* Had it a reason to end now? */
static bool check_finish(struct sim *s, const struct mtr_sim_request *q,
                         const struct mtr_sched_event *e)
{
    uint32_t total = q->params.token_count + q->got;
    bool complete = q->got == q->expected_count;
    bool scored = !q->params.score || q->scored == q->params.token_count;
    switch (e->finish) {
    case MTR_FINISH_STOP:
        s->totals->stopped++;
        return complete && q->expects_stop && scored && e->output_tokens == q->expected_count + 1;
    case MTR_FINISH_LENGTH:
        return scored && e->output_tokens == q->got &&
               ((complete && !q->expects_stop) || total == s->world.config.max_sequence_tokens ||
                total >= s->smallest_tokens + 1);
    case MTR_FINISH_CANCELLED:
        s->totals->cancelled++;
        return q->cancelled;
    case MTR_FINISH_DEADLINE:
        s->totals->expired++;
        return q->params.deadline_ns && q->params.deadline_ns <= s->now_ns;
    case MTR_FINISH_ERROR:
        s->totals->failed++;
        return e->error && (q->params.token_count > s->smallest_tokens ||
                            (q->params.score && s->world.config.geometry.recurrent));
    default:
        return false;
    }
}

static bool take_event(struct sim *s, const struct mtr_sched_event *e)
{
    struct mtr_sim_request *q = e->user;
    if (q->id != e->id || q->done)
        return wrong(s, q, "an event after its end");
    TRACE(s, "%8.1f ms  sequence %llu: %s %u %s\n", s->now_ns / 1e6, (unsigned long long)e->id,
          e->kind == MTR_SCHED_TOKENS   ? "tokens"
          : e->kind == MTR_SCHED_SCORES ? "scores"
                                        : "end",
          e->count, mtr_finish_name(e->finish));
    if (e->kind == MTR_SCHED_TOKENS)
        return take_tokens(s, q, e);
    if (e->kind == MTR_SCHED_SCORES)
        return take_scores(s, q, e);
    q->done = true;
    s->totals->finished++;
    return check_finish(s, q, e) || wrong(s, q, mtr_finish_name(e->finish));
}

static bool take_events(struct sim *s)
{
    const struct mtr_sched_event *events;
    size_t count = mtr_sched_events(s->sched, &events);
    for (size_t i = 0; i < count; i++)
        if (!take_event(s, &events[i]))
            return false;
    return mtr_sched_check(s->sched, s->err);
}

/* ---- what happens -----------------------------------------------------------------------------
 */

static bool check_refusal(struct sim *s, const struct mtr_sim_request *q, const struct mtr_error *e)
{
    const struct mtr_sched_config *c = &s->world.config;
    struct mtr_sched_stats stats;
    mtr_sched_stats(s->sched, &stats);
    s->totals->refused++;
    if (e->code == MTR_BUSY)
        return stats.waiting >= c->max_num_seqs || wrong(s, q, "busy without a queue");
    bool too_long = q->params.token_count + (q->params.max_tokens > 0) > c->max_sequence_tokens ||
                    q->params.token_count > s->smallest_tokens;
    bool unscorable = q->params.score && c->geometry.recurrent;
    return (e->code == MTR_INVALID && (too_long || unscorable)) || wrong(s, q, e->message);
}

static bool submit(struct sim *s)
{
    struct mtr_error err = {0};
    uint32_t index = s->submitted++;
    struct mtr_sim_request *q = &s->world.requests[index];
    mtr_sim_make_request(&s->world, index, s->now_ns);
    if (!mtr_sched_submit(s->sched, &q->params, s->now_ns, &q->id, &err)) {
        q->done = true;
        return check_refusal(s, q, &err);
    }
    TRACE(s, "%8.1f ms  sequence %llu: %u prompt tokens, at most %u\n", s->now_ns / 1e6,
          (unsigned long long)q->id, q->params.token_count, q->params.max_tokens);
    return !q->params.constrained || mtr_sched_mask(s->sched, q->id, q->mask, sizeof(q->mask));
}

static void cancel(struct sim *s)
{
    struct mtr_sim_request *q = &s->world.requests[mtr_sim_below(&s->world.random, s->submitted)];
    if (q->done)
        return;
    q->cancelled = true;
    mtr_sched_cancel(s->sched, q->id, MTR_FINISH_CANCELLED, s->now_ns);
}

static void lose_worker(struct sim *s)
{
    TRACE(s, "%8.1f ms  worker lost\n", s->now_ns / 1e6);
    kill_workers(s);
    mtr_sched_worker_lost(s->sched, s->now_ns);
    s->losses++;
    s->totals->losses++;
}

static void print_plan(const struct sim *s, const struct mtr_step_plan *plan)
{
    printf("%8.1f ms  step %llu\n", s->now_ns / 1e6, (unsigned long long)plan->step);
    for (uint32_t i = 0; i < plan->effect_count; i++)
        printf("    effect %d group %u: %u -> %u\n", (int)plan->effects[i].kind,
               plan->effects[i].group, plan->effects[i].src, plan->effects[i].dst);
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        const struct mtr_lane *l = &plan->lanes[i];
        printf("    lane of %llu in slot %u%s: [%u, %u), %u outputs, %u drafts",
               (unsigned long long)l->sequence, l->slot, l->open ? " (opened)" : "", l->start,
               l->start + l->count, l->outputs, l->drafts);
        for (uint32_t t = 0; t < l->table_count; t++) {
            printf("; group %u from %u:", l->tables[t].group, l->tables[t].first);
            for (uint32_t b = 0; b < l->tables[t].count; b++)
                printf(" %u", l->tables[t].blocks[b]);
        }
        printf("\n");
    }
}

static bool send_plans(struct sim *s)
{
    const struct mtr_step_plan *plan;
    while ((plan = mtr_sched_plan(s->sched, s->now_ns)) != NULL) {
        struct mtr_buf packed = {0};
        if (!mtr_pack_plan(&s->arena, &packed, s->epoch, plan))
            return mtr_fail(s->err, MTR_NO_MEMORY, "no memory for a plan");
        for (uint32_t i = 0; i < s->world.ranks; i++) {
            struct mtr_buf copy = {0};
            mtr_buf_str(&copy, mtr_buf_view(&packed));
            post(s, &s->ranks[i].inbox, copy, 10);
        }
        if (s->trace)
            print_plan(s, plan);
        mtr_buf_free(&packed);
        if (!take_events(s))
            return false;
    }
    return take_events(s);
}

static bool one_round(struct sim *s)
{
    struct mtr_sim_random *r = &s->world.random;
    struct mtr_buf bytes;
    mtr_arena_reset(&s->arena);
    s->now_ns += mtr_sim_below(r, 20) * MS;
    if (s->submitted < s->world.request_count && mtr_sim_chance(r, 30) && !submit(s))
        return false;
    /* Not to the end: who starves must be seen. */
    if (s->submitted > 0 && s->submitted < s->world.request_count && mtr_sim_chance(r, 2))
        cancel(s);
    if (s->alive && s->losses < MAX_LOSSES && mtr_sim_below(r, 400) == 0)
        lose_worker(s);
    if (!s->alive && s->now_ns >= s->back_ns && !start_workers(s))
        return false;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        if (!run_rank(s, i))
            return false;
    for (uint32_t i = 0; i < s->world.ranks; i++)
        if (take(s, &s->ranks[i].outbox, &bytes) && !take_answer(s, i, bytes))
            return false;
    return take_events(s) && send_plans(s);
}

static bool all_done(const struct sim *s)
{
    if (s->submitted < s->world.request_count || mtr_sched_in_flight(s->sched) > 0)
        return false;
    for (uint32_t i = 0; i < s->submitted; i++)
        if (!s->world.requests[i].done)
            return false;
    return true;
}

/* When all is over nothing is in use but what the prefix cache keeps. */
static bool check_end(struct sim *s)
{
    struct mtr_sched_stats stats;
    mtr_sched_stats(s->sched, &stats);
    for (uint32_t g = 0; g < stats.group_count; g++)
        if (stats.groups[g].used != 0)
            return mtr_fail(s->err, MTR_INTERNAL, "%u blocks of group %u leaked",
                            stats.groups[g].used, g);
    s->totals->preemptions += stats.preemptions;
    s->totals->hit_tokens += stats.prefix_hit_tokens;
    s->totals->accepted += stats.accepted_tokens;
    s->totals->replayed += stats.replayed_tokens;
    return stats.running + stats.waiting == 0 ||
           mtr_fail(s->err, MTR_INTERNAL, "%u sequences run and %u wait without a request",
                    stats.running, stats.waiting);
}

static bool run(struct sim *s)
{
    uint32_t round = 0;
    while (!all_done(s)) {
        if (!one_round(s))
            return false;
        if (++round == MAX_ROUNDS)
            return mtr_fail(s->err, MTR_INTERNAL, "not done after %d rounds", MAX_ROUNDS);
    }
    return check_end(s);
}

bool mtr_sim_run(uint64_t seed, bool trace, struct mtr_sim_totals *totals, struct mtr_error *err)
{
    struct sim *s = calloc(1, sizeof(*s));
    if (!s)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for a simulation");
    s->trace = trace;
    s->totals = totals;
    s->err = err;
    s->smallest_tokens = UINT32_MAX;
    mtr_arena_init(&s->arena, 0);
    mtr_sim_world_init(&s->world, seed);
    s->sched = mtr_sched_create(&s->world.config, err);
    bool ok = s->sched && run(s);
    kill_workers(s);
    for (uint32_t i = 0; i < MAX_RANKS; i++)
        drain(&s->ranks[i].outbox);
    for (uint32_t i = 0; i < MTR_PLANS_IN_FLIGHT; i++)
        mtr_buf_free(&s->results[i]);
    mtr_sched_destroy(s->sched);
    mtr_sim_world_free(&s->world);
    mtr_arena_free(&s->arena);
    free(s);
    return ok;
}
