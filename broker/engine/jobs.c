/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests into sequences, events of sequences into deliveries.
 *
 * A job becomes one sequence a choice. Everything a job's client hears is collected, for all jobs
 * of one client, in one delivery a round of the loop: a step of 256 lanes wakes an HTTP thread
 * once.
 *
 * Other threads may speak of a job that is over already, so their messages name it by serial
 * number; only the message that brings the job itself carries its address.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "broker/engine/internal.h"
#include "broker/engine/prompt.h"
#include "common/base/hash.h"

/* ---- Deliveries -------------------------------------------------------------------------------
 */

void mtr_delivery_free(struct mtr_delivery *d)
{
    mtr_arena_free(&d->arena);
    free(d->events);
    free(d);
}

/* An empty one with room for so many events; NULL when memory is out. */
static struct mtr_delivery *new_delivery(size_t room)
{
    struct mtr_delivery *d = calloc(1, sizeof *d);
    if (d && room && !mtr_grow((void **)&d->events, &d->cap, room, sizeof *d->events)) {
        free(d);
        return NULL;
    }
    if (d)
        d->message.kind = MTR_MESSAGE_DELIVERY;
    return d;
}

static void set_pending(struct mtr_engine *e, struct mtr_client *client, struct mtr_delivery *d)
{
    client->pending = d;
    client->next_touched = e->touched;
    e->touched = client;
}

/* The next event of the client's pending delivery; NULL when memory is out. */
static struct mtr_job_event *new_event(struct mtr_engine *e, struct mtr_job *job,
                                       enum mtr_job_event_kind kind, uint32_t choice)
{
    struct mtr_client *client = job->client;
    if (!client->pending) {
        struct mtr_delivery *d = new_delivery(0);
        if (!d)
            return NULL;
        set_pending(e, client, d);
    }
    struct mtr_delivery *d = client->pending;
    if (!mtr_grow((void **)&d->events, &d->cap, d->count + 1u, sizeof *d->events))
        return NULL;
    struct mtr_job_event *ev = &d->events[d->count++];
    *ev = (struct mtr_job_event){.job = job, .kind = kind, .choice = choice};
    return ev;
}

void mtr_jobs_flush(struct mtr_engine *e)
{
    while (e->touched) {
        struct mtr_client *client = e->touched;
        struct mtr_delivery *d = client->pending;
        e->touched = client->next_touched;
        client->pending = NULL;
        if (atomic_fetch_add(&client->waiting, 1) + 1 == MTR_MAX_WAITING_DELIVERIES)
            atomic_fetch_add(&e->behind, 1);
        mtr_inbox_post(client->inbox, &d->message);
    }
}

/* Runs on the client's thread. It may come down before jobs_flush has counted that it went up,
 * hence the sign of `behind`. */
void mtr_client_took(struct mtr_engine *e, struct mtr_client *client, uint32_t deliveries)
{
    uint32_t before = atomic_fetch_sub(&client->waiting, deliveries);
    if (before >= MTR_MAX_WAITING_DELIVERIES && before - deliveries < MTR_MAX_WAITING_DELIVERIES) {
        atomic_fetch_sub(&e->behind, 1);
        mtr_inbox_wake(&e->inbox);
    }
}

static const struct mtr_token_logprobs *copy_logprobs(struct mtr_client *client,
                                                      const struct mtr_token_logprobs *from)
{
    struct mtr_arena *arena = &client->pending->arena;
    struct mtr_token_logprobs *to = mtr_arena_alloc(arena, sizeof *to);
    uint32_t *ids = mtr_arena_calloc(arena, from->top_count + 1u, sizeof *ids);
    float *values = mtr_arena_calloc(arena, from->top_count + 1u, sizeof *values);
    if (!to || !ids || !values)
        return NULL;
    *to = *from;
    if (from->top_count) {
        memcpy(ids, from->top_ids, from->top_count * sizeof *ids);
        memcpy(values, from->top_logprobs, from->top_count * sizeof *values);
    }
    to->top_ids = ids;
    to->top_logprobs = values;
    return to;
}

/* What the prefix cache gave for a prompt: said once, with the first event of its first choice. */
static uint32_t cached_once(struct mtr_choice *c, const struct mtr_sched_event *ev)
{
    if (c->cached_said || c->index % c->state->job->request->choices)
        return 0;
    c->cached_said = true;
    return ev->cached_tokens;
}

static void deliver_error(struct mtr_engine *e, struct mtr_job *job, const struct mtr_error *why,
                          uint32_t retry_s)
{
    struct mtr_job_event *ev = new_event(e, job, MTR_JOB_ERROR, 0);
    if (!ev)
        return;
    job->state->error = *why; /* lives until the client has heard DONE */
    ev->error = &job->state->error;
    ev->retry_s = retry_s;
}

static void deliver_token(struct mtr_engine *e, struct mtr_choice *c, uint32_t token, bool prompt,
                          const struct mtr_token_logprobs *logprobs, uint32_t cached_tokens)
{
    struct mtr_job *job = c->state->job;
    struct mtr_job_event *ev = new_event(e, job, MTR_JOB_TOKEN, c->index);
    if (!ev)
        return;
    ev->token = token;
    ev->prompt = prompt;
    ev->cached_tokens = cached_tokens;
    ev->logprobs = logprobs ? copy_logprobs(job->client, logprobs) : NULL;
}

/* ---- Life of a job ----------------------------------------------------------------------------
 */

static bool read_request(struct mtr_job *job, struct mtr_encoder *encoder, struct mtr_error *err)
{
    struct mtr_job_state *s = job->state;
    struct mtr_chat_request *r = job->request;
    if (!job->read(job, err))
        return false;
    s->prompts = mtr_arena_calloc(r->arena, r->prompt_count, sizeof *s->prompts);
    s->choices =
        mtr_arena_calloc(r->arena, (size_t)r->prompt_count * r->choices, sizeof *s->choices);
    if (!s->prompts || !s->choices)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory accepting the request");
    s->choice_count = r->prompt_count * r->choices;
    for (uint32_t p = 0; p < r->prompt_count && !s->cancelled; p++)
        if (!mtr_prompt_encode(s->engine->model, r, &r->prompts[p], encoder, &s->prompts[p], err))
            return false;
    return true;
}

/* On a text thread: body and prompts, then over to the scheduler thread. */
static void run_text(struct mtr_task *task, struct mtr_encoder *encoder)
{
    struct mtr_job *job = (struct mtr_job *)((char *)task - offsetof(struct mtr_job, task));
    struct mtr_job_state *s = job->state;
    s->failed = !s->cancelled && !read_request(job, encoder, &s->error);
    mtr_inbox_post(&s->engine->inbox, &s->message);
}

bool mtr_engine_submit(struct mtr_engine *e, struct mtr_job *job, struct mtr_error *err)
{
    struct mtr_job_state *s = mtr_arena_calloc(job->request->arena, 1, sizeof *s);
    struct mtr_delivery *last = s ? new_delivery(1) : NULL;
    if (!last)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory accepting the request");
    s->last = last;
    job->state = s;
    s->message.kind = MTR_MESSAGE_JOB;
    s->engine = e;
    s->job = job;
    s->serial = atomic_fetch_add(&e->next_serial, 1) + 1;
    atomic_fetch_add(&e->job_count, 1);
    job->task.run = run_text;
    mtr_text_pool_submit(e->pool, &job->task);
    return true;
}

static void post_cancel(struct mtr_engine *e, struct mtr_job *job, uint32_t choice)
{
    struct mtr_cancel *m = calloc(1, sizeof *m);
    if (!m)
        return; /* the sequence then runs to its end, unheard */
    m->message.kind = MTR_MESSAGE_CANCEL;
    m->serial = job->state->serial;
    m->choice = choice;
    mtr_inbox_post(&e->inbox, &m->message);
}

void mtr_engine_cancel(struct mtr_engine *e, struct mtr_job *job)
{
    if (!job->state || atomic_exchange(&job->state->cancelled, true))
        return;
    mtr_count(e->metrics, MTR_C_REQUESTS_CANCELLED, 1);
    post_cancel(e, job, UINT32_MAX);
}

void mtr_engine_stop_choice(struct mtr_engine *e, struct mtr_job *job, uint32_t choice)
{
    post_cancel(e, job, choice);
}

static void free_prompts(struct mtr_job_state *s)
{
    for (uint32_t p = 0; s->prompts && p < s->job->request->prompt_count; p++)
        mtr_ids_free(&s->prompts[p]);
    for (uint32_t i = 0; s->choices && i < s->choice_count; i++)
        mtr_budget_end(&s->choices[i]);
}

/* A job whose end is never heard would never be freed: without memory for another event its end
 * goes out in the delivery that was set aside when it came. */
static void deliver_done(struct mtr_engine *e, struct mtr_job_state *s)
{
    struct mtr_delivery *last = s->last;
    if (new_event(e, s->job, MTR_JOB_DONE, 0)) {
        mtr_delivery_free(last);
        return;
    }
    mtr_jobs_flush(e);
    last->events[0] = (struct mtr_job_event){.job = s->job, .kind = MTR_JOB_DONE};
    last->count = 1;
    set_pending(e, s->job->client, last);
}

/* The job's last event. Its memory is the client's from here on. */
static void job_done(struct mtr_engine *e, struct mtr_job_state *s)
{
    free_prompts(s);
    if (s->previous)
        s->previous->next = s->next;
    else if (e->jobs == s)
        e->jobs = s->next;
    if (s->next)
        s->next->previous = s->previous;
    mtr_map_remove(&e->serials, s->serial, NULL);
    deliver_done(e, s);
    atomic_fetch_sub(&e->job_count, 1);
}

static void close_choice(struct mtr_engine *e, struct mtr_choice *c)
{
    struct mtr_job_state *s = c->state;
    c->open = false;
    c->id = 0;
    if (--s->open_count == 0)
        job_done(e, s);
}

static void cancel_choices(struct mtr_engine *e, struct mtr_job_state *s)
{
    uint64_t now = mtr_now_ns(&e->clock);
    for (uint32_t i = 0; i < s->choice_count; i++)
        if (s->choices[i].open && s->choices[i].id)
            mtr_sched_cancel(e->sched, s->choices[i].id, MTR_FINISH_CANCELLED, now);
}

/* Ends a job that has no sequence yet. */
static void refuse(struct mtr_engine *e, struct mtr_job_state *s, const struct mtr_error *why,
                   uint32_t retry_s)
{
    mtr_count(e->metrics,
              why->code == MTR_INTERNAL || why->code == MTR_IO ? MTR_C_REQUESTS_FAILED
                                                               : MTR_C_REQUESTS_REFUSED,
              1);
    deliver_error(e, s->job, why, retry_s);
    job_done(e, s);
}

/* ---- Requests into sequences ------------------------------------------------------------------
 */

static void apply_defaults(const struct mtr_served_model *m, const struct mtr_chat_request *r,
                           struct mtr_sampling *s)
{
    *s = r->sampling;
    if (!r->has_temperature)
        s->temperature = m->defaults.temperature;
    if (!r->has_top_p)
        s->top_p = m->defaults.top_p;
    if (!r->has_top_k)
        s->top_k = m->defaults.top_k;
    if (!r->has_min_p)
        s->min_p = m->defaults.min_p;
    if (!r->has_repetition_penalty)
        s->repetition_penalty = m->defaults.repetition_penalty;
    s->logprobs = r->logprobs ? 1 + r->top_logprobs : 0;
}

/* End-of-generation ids, unless ignored, and the request's own. */
static bool collect_stops(const struct mtr_served_model *m, const struct mtr_chat_request *r,
                          uint32_t stops[MTR_SCHED_MAX_STOPS], uint32_t *count,
                          struct mtr_error *err)
{
    uint32_t own = r->ignore_eos ? 0 : m->stop_count;
    if (own > MTR_SCHED_MAX_STOPS || r->stop_id_count > MTR_SCHED_MAX_STOPS - own)
        return mtr_fail_field(err, MTR_TOO_LARGE, "stop_token_ids",
                              "'stop_token_ids' has %u ids beside the model's own %u, at most %d "
                              "are allowed together",
                              r->stop_id_count, own, MTR_SCHED_MAX_STOPS);
    for (uint32_t i = 0; i < own; i++)
        stops[i] = m->stop_ids[i];
    for (uint32_t i = 0; i < r->stop_id_count; i++)
        stops[own + i] = r->stop_ids[i];
    *count = own + r->stop_id_count;
    return true;
}

static uint64_t deadline(const struct mtr_engine *e, const struct mtr_job *job)
{
    uint64_t ms =
        job->request->timeout_ms ? job->request->timeout_ms : e->options.request_timeout_ms;
    return ms ? job->arrived_ns + ms * MTR_NS_PER_MS : 0;
}

/* The seed of choice c: the request's own for the first, well apart for the others. */
static uint64_t choice_seed(uint64_t seed, uint32_t c)
{
    return c ? mtr_mix64(seed ^ mtr_mix64(c)) : seed;
}

/* Tokens that the choice may have; `room` is the model's for prompt and answer. */
static uint32_t max_tokens(const struct mtr_chat_request *r, size_t prompt, uint32_t room)
{
    return r->max_tokens || r->no_tokens ? r->max_tokens : room - (uint32_t)prompt;
}

/* Prompt and, behind it, what of the answer is there already. */
static bool join_tokens(const struct mtr_ids *prompt, const struct mtr_ids *output,
                        struct mtr_sched_params *p, uint32_t **joined)
{
    *joined = NULL;
    p->tokens = prompt->ids;
    p->token_count = (uint32_t)prompt->count;
    if (!output || !output->count)
        return true;
    *joined = calloc(prompt->count + output->count, sizeof **joined);
    if (!*joined)
        return false;
    memcpy(*joined, prompt->ids, prompt->count * sizeof **joined);
    memcpy(*joined + prompt->count, output->ids, output->count * sizeof **joined);
    p->tokens = *joined;
    p->token_count += (uint32_t)output->count;
    return true;
}

static bool submit_choice(struct mtr_engine *e, struct mtr_choice *c, struct mtr_error *err)
{
    struct mtr_job_state *s = c->state;
    const struct mtr_chat_request *r = s->job->request;
    const struct mtr_ids *prompt = &s->prompts[c->index / r->choices];
    const struct mtr_ids *output = mtr_budget_output(c);
    uint32_t stops[MTR_SCHED_MAX_STOPS], *joined;
    uint32_t room = e->model->max_sequence_tokens;
    uint32_t done = output ? (uint32_t)output->count : 0;
    struct mtr_sched_params p = {
        .min_tokens = r->min_tokens > done ? r->min_tokens - done : 0,
        .stop_ids = stops,
        .score = r->echo && r->logprobs,
        .deadline_ns = deadline(e, s->job),
        .after =
            c->index % r->choices && !done ? s->choices[c->index - c->index % r->choices].id : 0,
        .user = c,
    };
    if (prompt->count >= room)
        return mtr_fail(
            err, MTR_INVALID,
            "the prompt has %zu tokens; this server takes at most %u, prompt and answer "
            "together",
            prompt->count, room);
    if (!collect_stops(e->model, r, stops, &p.stop_count, err))
        return false;
    if (!join_tokens(prompt, output, &p, &joined))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory accepting the request");
    p.max_tokens = max_tokens(r, prompt->count, room) - done;
    apply_defaults(e->model, r, &p.sampling);
    p.sampling.seed = c->seed;
    bool ok = mtr_sched_submit(e->sched, &p, mtr_now_ns(&e->clock), &c->id, err);
    free(joined);
    return ok;
}

/* What ends reasoning is part of the answer: the client gets it like any other token. */
static bool force_end(struct mtr_engine *e, struct mtr_choice *c, size_t *first)
{
    const struct mtr_chat_request *r = c->state->job->request;
    const struct mtr_ids *output = mtr_budget_output(c);
    size_t prompt = c->state->prompts[c->index / r->choices].count;
    uint32_t whole = e->model->max_sequence_tokens - (uint32_t)prompt;
    uint32_t most = max_tokens(r, prompt, e->model->max_sequence_tokens);
    most = most < whole ? most : whole;
    uint32_t room = most > output->count ? most - (uint32_t)output->count : 0;
    return mtr_budget_force(c, room, first) && output->count < most;
}

static void deliver_output(struct mtr_engine *e, struct mtr_choice *c, size_t first)
{
    const struct mtr_ids *output = mtr_budget_output(c);
    for (size_t i = first; output && i < output->count; i++)
        deliver_token(e, c, output->ids[i], false, NULL, 0);
}

static void deliver_echo(struct mtr_engine *e, struct mtr_job_state *s)
{
    const struct mtr_chat_request *r = s->job->request;
    for (uint32_t i = 0; i < s->choice_count; i++) {
        const struct mtr_ids *prompt = &s->prompts[i / r->choices];
        size_t n = r->logprobs ? 1 : prompt->count; /* scored tokens come with their scores */
        for (size_t k = 0; k < n; k++)
            deliver_token(e, &s->choices[i], prompt->ids[k], true, NULL, 0);
    }
}

static bool start_choices(struct mtr_engine *e, struct mtr_job_state *s, struct mtr_error *err)
{
    const struct mtr_chat_request *r = s->job->request;
    uint64_t seed = r->seed;
    if (!r->has_seed && getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = mtr_mix64(mtr_now_ns(&e->clock) ^ s->serial);
    for (uint32_t i = 0; i < s->choice_count; i++)
        s->choices[i] = (struct mtr_choice){.state = s, .index = i, .seed = choice_seed(seed, i)};
    for (uint32_t i = 0; i < s->choice_count; i++) {
        struct mtr_choice *c = &s->choices[i];
        size_t first;
        if (!mtr_budget_begin(c, err))
            return false;
        if (mtr_budget_is_nothing(c))
            force_end(e, c, &first);
        if (!submit_choice(e, c, err))
            return false;
        c->open = true;
        s->open_count++;
    }
    return true;
}

static void begin_job(struct mtr_engine *e, struct mtr_job_state *s)
{
    struct mtr_error error = {0};
    uint64_t tokens = 0;
    mtr_map_put(&e->serials, s->serial, (uint64_t)(uintptr_t)s);
    s->next = e->jobs;
    if (s->next)
        s->next->previous = s;
    e->jobs = s;
    if (s->cancelled) {
        job_done(e, s);
    } else if (s->failed) {
        refuse(e, s, &s->error, s->error.code == MTR_BUSY);
    } else if (e->draining || e->stopping) {
        mtr_fail(&error, MTR_IO,
                 "the server takes no new requests: it is draining or shutting down");
        refuse(e, s, &error, 5);
    } else if (!start_choices(e, s, &error)) {
        uint32_t retry_s = error.code == MTR_BUSY ? mtr_sched_retry_after_s(e->sched) : 0;
        if (s->open_count == 0) {
            refuse(e, s, &error, retry_s);
            return;
        }
        deliver_error(e, s->job, &error, retry_s);
        s->failed = true;
        cancel_choices(e, s);
    } else {
        for (uint32_t p = 0; p < s->job->request->prompt_count; p++)
            tokens += s->prompts[p].count;
        s->job->prompt_tokens = (uint32_t)tokens;
        mtr_count(e->metrics, MTR_C_REQUESTS, 1);
        mtr_count(e->metrics, MTR_C_PROMPT_TOKENS, tokens);
        new_event(e, s->job, MTR_JOB_STARTED, 0);
        for (uint32_t i = 0; i < s->choice_count; i++)
            deliver_output(e, &s->choices[i], 0);
        if (s->job->request->echo)
            deliver_echo(e, s);
    }
}

static void cancel_job(struct mtr_engine *e, const struct mtr_cancel *m)
{
    uint64_t address;
    if (!mtr_map_get(&e->serials, m->serial, &address))
        return; /* over already */
    struct mtr_job_state *s = (struct mtr_job_state *)(uintptr_t)address;
    if (m->choice == UINT32_MAX) {
        cancel_choices(e, s);
    } else if (s->choices[m->choice].open) {
        s->choices[m->choice].quiet = true;
        mtr_sched_cancel(e->sched, s->choices[m->choice].id, MTR_FINISH_CANCELLED,
                         mtr_now_ns(&e->clock));
    }
}

void mtr_jobs_message(struct mtr_engine *e, struct mtr_message *m)
{
    if (m->kind == MTR_MESSAGE_JOB) {
        begin_job(e, (struct mtr_job_state *)m);
    } else {
        cancel_job(e, (struct mtr_cancel *)m);
        free(m);
    }
    mtr_jobs_events(e);
}

void mtr_jobs_cancel_all(struct mtr_engine *e)
{
    for (struct mtr_job_state *s = e->jobs; s; s = s->next)
        cancel_choices(e, s);
    mtr_jobs_events(e);
}

/* ---- Events of sequences ----------------------------------------------------------------------
 */

static void on_scores(struct mtr_engine *e, struct mtr_choice *c, const struct mtr_sched_event *ev)
{
    const struct mtr_job_state *s = c->state;
    const struct mtr_ids *prompt = &s->prompts[c->index / s->job->request->choices];
    for (uint32_t i = 0; i < ev->count && ev->first + i < prompt->count; i++)
        deliver_token(e, c, prompt->ids[ev->first + i], true, &ev->logprobs[i], 0);
}

static void deliver_finish(struct mtr_engine *e, struct mtr_choice *c,
                           const struct mtr_sched_event *ev, enum mtr_end end)
{
    struct mtr_job_event *out = new_event(e, c->state->job, MTR_JOB_FINISH, c->index);
    if (!out)
        return;
    out->end = end;
    out->cached_tokens = cached_once(c, ev);
}

/* The choice's reasoning was cut at its budget: on behind what ends it. False: there is no room for
 * more, or it can't be. */
static bool go_on(struct mtr_engine *e, struct mtr_choice *c, struct mtr_error *err)
{
    size_t first;
    bool room = force_end(e, c, &first);
    deliver_output(e, c, first);
    return room && submit_choice(e, c, err);
}

/* A sequence that ended because its budget was spent, whatever else it ran into meanwhile. */
static bool is_cut(const struct mtr_choice *c, enum mtr_finish finish)
{
    const struct mtr_job_state *s = c->state;
    return mtr_budget_forces(c) && !c->quiet && !s->failed && !s->cancelled &&
           (finish == MTR_FINISH_CANCELLED || finish == MTR_FINISH_STOP ||
            finish == MTR_FINISH_LENGTH);
}

static void on_finished(struct mtr_engine *e, struct mtr_choice *c,
                        const struct mtr_sched_event *ev)
{
    struct mtr_job_state *s = c->state;
    struct mtr_error error = {0};
    bool cut = is_cut(c, ev->finish);
    enum mtr_finish finish = cut ? MTR_FINISH_LENGTH : ev->finish;
    if (cut && go_on(e, c, &error))
        return;
    if (error.code != MTR_OK)
        finish = MTR_FINISH_NONE;
    mtr_count(e->metrics, ev->cached_tokens ? MTR_C_PREFIX_HITS : MTR_C_PREFIX_MISSES, 1);
    switch (finish) {
    case MTR_FINISH_STOP:
        deliver_finish(e, c, ev, MTR_END_STOP);
        break;
    case MTR_FINISH_LENGTH:
        deliver_finish(e, c, ev, MTR_END_LENGTH);
        break;
    case MTR_FINISH_DEADLINE:
        mtr_fail(&error, MTR_TIMEOUT, "the request took longer than its time limit");
        break;
    case MTR_FINISH_ERROR:
        error = *ev->error;
        break;
    case MTR_FINISH_NONE:
    case MTR_FINISH_CANCELLED:
        break;
    }
    if (error.code != MTR_OK && !s->failed) {
        s->failed = true;
        mtr_count(e->metrics, MTR_C_REQUESTS_FAILED, 1);
        deliver_error(e, s->job, &error, 0);
        c->open = false;
        cancel_choices(e, s);
        c->open = true;
    }
    close_choice(e, c);
}

/* Up to the one that spends the choice's budget of reasoning, if it has one. */
static void on_tokens(struct mtr_engine *e, struct mtr_choice *c, const struct mtr_sched_event *ev)
{
    for (uint32_t k = 0; k < ev->count && !c->quiet && !mtr_budget_forces(c); k++) {
        deliver_token(e, c, ev->tokens[k], false, ev->logprobs ? &ev->logprobs[k] : NULL,
                      cached_once(c, ev));
        if (mtr_budget_spent(c, ev->tokens[k]))
            mtr_sched_cancel(e->sched, c->id, MTR_FINISH_CANCELLED, mtr_now_ns(&e->clock));
    }
}

/* Cancelling inside makes more events: rounds until there are none. Each round ends sequences, so
 * their number bounds the rounds. */
void mtr_jobs_events(struct mtr_engine *e)
{
    const struct mtr_sched_event *first;
    size_t count;
    while ((count = mtr_sched_events(e->sched, &first)) != 0) {
        struct mtr_sched_event *events = mtr_arena_calloc(&e->round, count, sizeof *events);
        if (!events)
            return;
        memcpy(events, first, count * sizeof *events);
        for (size_t i = 0; i < count; i++) {
            const struct mtr_sched_event *ev = &events[i];
            struct mtr_choice *c = ev->user;
            if (ev->kind == MTR_SCHED_TOKENS) {
                on_tokens(e, c, ev);
            } else if (ev->kind == MTR_SCHED_SCORES) {
                on_scores(e, c, ev);
            } else {
                on_finished(e, c, ev);
            }
        }
    }
}
