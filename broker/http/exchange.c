/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One generation over HTTP, from the body to the last byte.
 *
 * An exchange has two lives: the client's (the h2o request) and the engine's (the job). It is freed
 * when both are over. When the client goes away first, the job is cancelled; when the job ends
 * first, the answer is sent and the request disposes of itself.
 *
 * What the answer writer appends to `out` is sent when the socket took the bytes before it; so a
 * slow reader makes its own buffer grow, up to a limit, and nothing else, and a busy thread sends
 * several tokens' frames in one write.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/http/internal.h"
#include "broker/parse/output.h"
#include "common/base/clock.h"

#define MAX_PENDING_BYTES                                                                          \
    (16u << 20) /* unsent bytes of a stream before its reader counts as gone */

struct mtr_exchange {
    struct mtr_job job;
    struct mtr_http_thread *thread;
    struct mtr_exchange *previous, *next, *next_dirty;
    bool is_dirty;

    h2o_generator_t generator;
    h2o_req_t *req; /* NULL once the client's life is over */
    uint64_t access_key;
    char id[MTR_REQUEST_ID_BYTES];
    uint64_t arrived_ns, first_ns, last_ns;
    uint64_t sent_ns; /* when h2o got what it has in flight */

    struct mtr_arena arena;
    size_t charged; /* of the memory of all requests; the text thread's until the job has started */
    struct mtr_str body;
    struct mtr_chat_request request;
    const struct mtr_protocol *protocol;
    struct mtr_answer *answer; /* NULL until the job started */
    struct mtr_answer *kept;   /* the same unstreamed, for the store; or NULL */
    struct mtr_answer_head head;
    struct mtr_output *outputs; /* [choice_count] */
    uint32_t choice_count, open_choices;
    struct mtr_usage usage;

    struct mtr_buf out, sending;
    int status;
    uint32_t retry_s;
    bool head_sent;  /* status and headers are out */
    bool in_flight;  /* h2o has `sending` */
    bool ended;      /* everything is in out */
    bool final_sent; /* h2o has the last bytes */
    bool done;       /* the job's life is over */
    bool client_gone;
    bool detached; /* a background response: its client has its answer, or went away */
    struct mtr_exchange *next_background;
    bool is_background; /* in http->background */
};

static struct mtr_exchange *exchange_of(struct mtr_job *job)
{
    return H2O_STRUCT_FROM_MEMBER(struct mtr_exchange, job, job);
}

/* ---- Life -------------------------------------------------------------------------------------
 */

/* Lets h2o tell when a request's memory goes. */
struct request_link {
    struct mtr_exchange *x;
};

static void add_background(struct mtr_exchange *x)
{
    struct mtr_http *http = x->thread->http;
    pthread_mutex_lock(&http->background_lock);
    x->is_background = true;
    x->next_background = http->background;
    http->background = x;
    pthread_mutex_unlock(&http->background_lock);
}

static void remove_background(struct mtr_exchange *x)
{
    struct mtr_http *http = x->thread->http;
    if (!x->is_background)
        return;
    pthread_mutex_lock(&http->background_lock);
    struct mtr_exchange **p = &http->background;
    while (*p != x)
        p = &(*p)->next_background;
    *p = x->next_background;
    pthread_mutex_unlock(&http->background_lock);
}

void mtr_exchange_cancel(void *context, struct mtr_str id)
{
    struct mtr_http *http = context;
    struct mtr_str own = mtr_str_sub(id, strlen("resp_"), id.len);
    pthread_mutex_lock(&http->background_lock);
    for (struct mtr_exchange *x = http->background; x; x = x->next_background)
        if (mtr_str_is(own, x->id))
            mtr_engine_cancel(http->engine, &x->job);
    pthread_mutex_unlock(&http->background_lock);
}

static void exchange_free(struct mtr_exchange *x)
{
    struct mtr_http_thread *t = x->thread;
    remove_background(x);
    if (x->previous)
        x->previous->next = x->next;
    else
        t->exchanges = x->next;
    if (x->next)
        x->next->previous = x->previous;
    if (x->is_dirty) {
        struct mtr_exchange **p = &t->dirty;
        while (*p != x)
            p = &(*p)->next_dirty;
        *p = x->next_dirty;
    }
    mtr_gauge_add(mtr_engine_metrics(t->http->engine), MTR_G_REQUESTS_ACTIVE, -1);
    atomic_fetch_sub(&t->http->exchange_count, 1);
    mtr_budget_give(t->http, x->charged);
    if (x->answer)
        x->answer->ops->release(x->answer);
    if (x->kept)
        x->kept->ops->release(x->kept);
    for (uint32_t i = 0; x->outputs && i < x->choice_count; i++)
        mtr_output_free(&x->outputs[i]);
    mtr_buf_free(&x->out);
    mtr_buf_free(&x->sending);
    mtr_arena_free(&x->arena);
    free(x);
}

/* A background response needs no client once it has begun. */
static bool goes_on(struct mtr_exchange *x)
{
    x->detached |= x->request.background && x->answer;
    return x->detached;
}

static void on_request_dispose(void *p)
{
    struct mtr_exchange *x = ((struct request_link *)p)->x;
    x->req = NULL;
    if (x->done) {
        exchange_free(x);
        return;
    }
    if (goes_on(x))
        return;
    x->client_gone = !x->final_sent;
    mtr_engine_cancel(x->thread->http->engine, &x->job);
}

static void mark_dirty(struct mtr_exchange *x)
{
    if (x->is_dirty)
        return;
    x->is_dirty = true;
    x->next_dirty = x->thread->dirty;
    x->thread->dirty = x;
}

/* ---- Sending ----------------------------------------------------------------------------------
 */

static void start_response(struct mtr_exchange *x)
{
    h2o_req_t *req = x->req;
    bool stream = x->status == 200 && x->request.stream;
    req->res.status = x->status;
    req->res.reason = mtr_status_reason(x->status);
    mtr_add_header(req, "content-type",
                   stream ? MTR_STR("text/event-stream; charset=utf-8")
                          : MTR_STR("application/json"));
    mtr_add_request_id(req, mtr_str(x->id));
    if (stream)
        mtr_add_header(req, "cache-control", MTR_STR("no-cache"));
    else
        req->res.content_length = x->out.len;
    if (x->retry_s) {
        char text[16];
        snprintf(text, sizeof text, "%u", x->retry_s);
        mtr_add_header(req, "retry-after", mtr_str(text));
    }
    h2o_start_response(req, &x->generator);
    x->head_sent = true;
}

static void flush(struct mtr_exchange *x)
{
    if (!x->req || x->final_sent)
        mtr_buf_clear(&x->out); /* of what goes on without its client */
    if (!x->req || x->in_flight || x->final_sent)
        return;
    bool whole = x->status != 200 || !x->request.stream;
    bool last = x->ended || (x->detached && whole);
    if (!last && (whole || x->out.len == 0))
        return;
    if (!x->head_sent)
        start_response(x);
    struct mtr_buf empty = x->sending;
    x->sending = x->out;
    x->out = empty;
    mtr_buf_clear(&x->out);
    h2o_iovec_t bytes = h2o_iovec_init(x->sending.data, x->sending.len);
    x->in_flight = true;
    x->sent_ns = mtr_now_ns(&x->thread->http->clock);
    x->final_sent = last;
    h2o_send(x->req, &bytes, bytes.len ? 1 : 0,
             last ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
}

static void on_proceed(h2o_generator_t *generator, h2o_req_t *req)
{
    struct mtr_exchange *x = H2O_STRUCT_FROM_MEMBER(struct mtr_exchange, generator, generator);
    x->in_flight = false;
    flush(x);
}

static void on_stop(h2o_generator_t *generator, h2o_req_t *req)
{
    struct mtr_exchange *x = H2O_STRUCT_FROM_MEMBER(struct mtr_exchange, generator, generator);
    if (goes_on(x))
        return;
    x->client_gone = true;
    mtr_engine_cancel(x->thread->http->engine, &x->job);
}

/* The whole answer is an error, or, once a stream has begun, ends with one. */
static void end_with_error(struct mtr_exchange *x, const struct mtr_error *error)
{
    if (x->ended)
        return;
    if (x->answer && (x->request.stream || x->request.background)) {
        struct mtr_out_event event = {.kind = MTR_EVENT_ERROR, .error = error};
        x->answer->ops->event(x->answer, &event, &x->out);
    } else {
        mtr_buf_clear(&x->out);
        x->status = x->protocol->status ? x->protocol->status(error) : mtr_http_status(error);
        if (x->protocol->error_as)
            x->protocol->error_as(x->status, error, mtr_str(x->id), &x->out);
        else
            x->protocol->error(error, &x->out);
    }
    x->ended = true;
    mark_dirty(x);
}

static void out_of_memory(struct mtr_exchange *x)
{
    struct mtr_error error = {0};
    mtr_fail(&error, MTR_NO_MEMORY, "out of memory while answering");
    end_with_error(x, &error);
    mtr_engine_cancel(x->thread->http->engine, &x->job);
}

/* Ends a request whose client does not read or is gone, so that h2o lets go of it. */
static void abandon(struct mtr_exchange *x)
{
    if (!goes_on(x)) {
        mtr_engine_cancel(x->thread->http->engine, &x->job);
        x->client_gone = true;
    }
    if (!x->req || x->final_sent)
        return;
    mtr_buf_clear(&x->out);
    x->ended |= !x->detached;
    if (!x->head_sent) {
        x->status = 499;
        flush(x);
    } else if (!x->in_flight) {
        x->final_sent = true;
        h2o_send(x->req, NULL, 0, H2O_SEND_STATE_ERROR);
    }
}

/* ---- Events -----------------------------------------------------------------------------------
 */

static void on_output(void *context, const struct mtr_out_event *event)
{
    struct mtr_exchange *x = context;
    if (event->kind == MTR_EVENT_FINISH)
        x->usage.reasoning_tokens += event->reasoning_tokens;
    x->answer->ops->event(x->answer, event, &x->out);
    if (x->kept)
        x->kept->ops->event(x->kept, event, NULL);
}

/* What was asked to be kept is the store's before the client hears of the end. */
static void keep(struct mtr_exchange *x)
{
    struct mtr_error error = {0};
    struct mtr_buf whole = {0};
    if (!x->kept)
        return;
    x->kept->ops->end(x->kept, &x->usage, &whole);
    bool ok = !whole.failed && !x->kept->failed &&
              x->protocol->keep(&x->request, &x->head, mtr_buf_view(&whole), &error);
    if (!ok)
        mtr_error_log(x->thread->http->log, "%s %s is not kept: %s", x->protocol->name, x->id,
                      error.code ? error.message : "out of memory");
    mtr_buf_free(&whole);
}

static void answer_end(struct mtr_exchange *x)
{
    struct mtr_http *http = x->thread->http;
    keep(x);
    x->answer->ops->end(x->answer, &x->usage, &x->out);
    x->ended = true;
    uint64_t now = mtr_now_ns(&http->clock);
    mtr_observe(mtr_engine_metrics(http->engine), MTR_H_REQUEST, now - x->arrived_ns);
    mtr_access_charge(http->access, x->access_key,
                      (uint64_t)x->usage.prompt_tokens + x->usage.completion_tokens, now);
    mtr_info(http->log,
             "%s %s: %u prompt tokens (%u cached), %u generated, first after %.1f ms, "
             "%.1f ms in all",
             x->protocol->name, x->id, x->usage.prompt_tokens, x->usage.cached_tokens,
             x->usage.completion_tokens,
             x->first_ns ? (double)(x->first_ns - x->arrived_ns) / 1e6 : 0.0,
             (double)(now - x->arrived_ns) / 1e6);
}

static void close_choice(struct mtr_exchange *x)
{
    if (--x->open_choices == 0 && !x->ended)
        answer_end(x);
}

static bool make_kept(struct mtr_exchange *x)
{
    if (!x->request.keep || !x->protocol->keep)
        return true;
    struct mtr_chat_request *whole = mtr_arena_alloc(&x->arena, sizeof *whole);
    if (!whole)
        return false;
    *whole = x->request;
    whole->stream = false;
    x->kept = x->protocol->answer(whole, &x->head);
    return x->kept != NULL;
}

static void on_started(struct mtr_exchange *x)
{
    struct mtr_http *http = x->thread->http;
    const struct mtr_served_model *model = mtr_engine_model(http->engine);
    x->head = (struct mtr_answer_head){mtr_str(x->id), model->name, mtr_wall_seconds()};
    x->choice_count = x->request.prompt_count * x->request.choices;
    x->open_choices = x->choice_count;
    x->outputs = mtr_arena_calloc(&x->arena, x->choice_count, sizeof *x->outputs);
    x->answer = x->protocol->answer(&x->request, &x->head);
    if (!x->outputs || !x->answer || !make_kept(x)) {
        x->choice_count = 0;
        out_of_memory(x);
        return;
    }
    const struct mtr_output_formats formats = {model->formats.tools, model->formats.reasoning,
                                               model->disable_thinking};
    for (uint32_t c = 0; c < x->choice_count; c++)
        if (!mtr_output_init(&x->outputs[c], &x->request, model->tokenizer, &formats, c)) {
            x->choice_count = c + 1;
            out_of_memory(x);
            return;
        }
    x->usage.prompt_tokens = x->job.prompt_tokens;
    x->answer->usage = &x->usage;
    x->answer->ops->begin(x->answer, &x->out);
    if (!x->request.background)
        return;
    add_background(x);
    x->detached = !x->request.stream;
}

static void count_token(struct mtr_exchange *x)
{
    struct mtr_metrics *m = mtr_engine_metrics(x->thread->http->engine);
    uint64_t now = x->thread->now_ns;
    if (!x->first_ns) {
        x->first_ns = now;
        mtr_observe(m, MTR_H_FIRST_TOKEN, now - x->arrived_ns);
    } else {
        mtr_observe(m, MTR_H_TOKEN_GAP, now - x->last_ns);
    }
    x->last_ns = now;
    x->usage.completion_tokens++;
    mtr_count(m, MTR_C_GENERATION_TOKENS, 1);
}

static void on_token(struct mtr_exchange *x, const struct mtr_job_event *ev)
{
    struct mtr_output *o = &x->outputs[ev->choice];
    struct mtr_output_token token = {ev->token, ev->logprobs != NULL, ev->prompt, ev->logprobs};
    x->usage.cached_tokens += ev->cached_tokens;
    if (o->stopped)
        return;
    if (!ev->prompt)
        count_token(x);
    if (!mtr_output_push(o, &token, on_output, x, NULL)) {
        out_of_memory(x);
    } else if (o->stopped) {
        mtr_engine_stop_choice(x->thread->http->engine, &x->job, ev->choice);
        close_choice(x);
    }
}

static void on_finish(struct mtr_exchange *x, const struct mtr_job_event *ev)
{
    struct mtr_output *o = &x->outputs[ev->choice];
    x->usage.cached_tokens += ev->cached_tokens;
    if (o->stopped)
        return;
    if (!mtr_output_finish(o, ev->end, on_output, x, NULL))
        out_of_memory(x);
    else
        close_choice(x);
}

static void on_job_event(struct mtr_exchange *x, const struct mtr_job_event *ev)
{
    if (ev->kind == MTR_JOB_DONE) {
        x->done = true;
        if (!x->req)
            exchange_free(x);
        return;
    }
    if (x->ended || x->client_gone)
        return;
    switch (ev->kind) {
    case MTR_JOB_STARTED:
        on_started(x);
        break;
    case MTR_JOB_TOKEN:
        on_token(x, ev);
        break;
    case MTR_JOB_FINISH:
        on_finish(x, ev);
        break;
    case MTR_JOB_ERROR:
        x->retry_s = ev->retry_s;
        end_with_error(x, ev->error);
        break;
    case MTR_JOB_DONE:
        break;
    }
    if (x->out.failed || (x->answer && x->answer->failed))
        out_of_memory(x);
    mark_dirty(x);
}

void mtr_exchange_deliver(struct mtr_http_thread *t, struct mtr_delivery *d)
{
    t->now_ns = mtr_now_ns(&t->http->clock);
    for (uint32_t i = 0; i < d->count; i++)
        on_job_event(exchange_of(d->events[i].job), &d->events[i]);
    mtr_delivery_free(d);
}

void mtr_exchange_flush_all(struct mtr_http_thread *t)
{
    while (t->dirty) {
        struct mtr_exchange *x = t->dirty;
        t->dirty = x->next_dirty;
        x->is_dirty = false;
        if (x->in_flight && x->out.len > MAX_PENDING_BYTES)
            abandon(x);
        else
            flush(x);
    }
}

/* ---- Clients that go away ---------------------------------------------------------------------
 */

/* The descriptor of an HTTP/1 connection, which is the request's alone; -1 for HTTP/2, where h2o
 * itself sees closed and stalled connections. */
static int own_descriptor(h2o_req_t *req)
{
    if (req->version >= 0x200 || !req->conn->callbacks->get_socket)
        return -1;
    h2o_socket_t *sock = req->conn->callbacks->get_socket(req->conn);
    return sock ? h2o_socket_get_fd(sock) : -1;
}

/* HTTP/1 does not read while it answers, so a closed connection is seen by looking; under TLS its
 * last words stand before its end. */
static bool is_closed(h2o_req_t *req)
{
    struct pollfd fd = {.fd = own_descriptor(req), .events = POLLRDHUP};
    return fd.fd >= 0 && poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* h2o waits for ever for a reader; shutting the socket makes its write fail. Nothing that is unsent
 * shall linger in the kernel. */
static void cut_stalled(struct mtr_exchange *x, uint64_t now)
{
    uint64_t limit = x->thread->http->options.client_timeout_ms * MTR_NS_PER_MS;
    if (now - x->sent_ns < limit)
        return;
    int fd = own_descriptor(x->req);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        shutdown(fd, SHUT_RDWR);
    }
    if (!goes_on(x))
        mtr_engine_cancel(x->thread->http->engine, &x->job);
}

/* A stream that has had nothing to say for so long shows that it lives: the prompt is long, or the
 * queue is. */
static void keep_alive(struct mtr_exchange *x, uint64_t now)
{
    uint64_t every = x->thread->http->options.keepalive_ms * MTR_NS_PER_MS;
    uint64_t since = x->sent_ns ? x->sent_ns : x->arrived_ns;
    if (!every || now - since < every || !x->answer || !x->request.stream || x->ended || x->out.len)
        return;
    if (x->answer->ops->ping)
        x->answer->ops->ping(x->answer, &x->out);
    else
        mtr_buf_puts(&x->out, ": keep-alive\n\n");
    flush(x);
}

void mtr_exchange_watch(struct mtr_http_thread *t)
{
    struct mtr_exchange *next;
    uint64_t now = mtr_now_ns(&t->http->clock);
    for (struct mtr_exchange *x = t->exchanges; x; x = next) {
        next = x->next;
        if (x->req && x->in_flight)
            cut_stalled(x, now);
        else if (x->req && !x->final_sent && is_closed(x->req))
            abandon(x);
        else if (x->req && !x->final_sent)
            keep_alive(x, now);
    }
}

/* ---- Start ------------------------------------------------------------------------------------
 */

static bool check_model(struct mtr_exchange *x, struct mtr_error *err)
{
    struct mtr_http *http = x->thread->http;
    return !http->options.strict_model ||
           mtr_served_model_is(mtr_engine_model(http->engine), x->request.model, err);
}

/* The request may go away while a text thread reads it. */
static bool copy_body(struct mtr_exchange *x, struct mtr_error *err)
{
    struct mtr_str body = {x->req->entity.base, x->req->entity.len};
    if (body.len == 0)
        return mtr_fail(err, MTR_INVALID, "the body is empty; it must be a JSON object");
    x->body = mtr_arena_str(&x->arena, body);
    return x->body.ptr || mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the body");
}

/* On a text thread. */
static bool read_request(struct mtr_job *job, struct mtr_error *err)
{
    struct mtr_exchange *x = exchange_of(job);
    const struct mtr_json *body = mtr_http_parse(&x->arena, x->body, err);
    bool ok = body && x->protocol->parse(&x->request, body, err) && check_model(x, err);
    return mtr_budget_grow(x->thread->http, x->arena.used_bytes, &x->charged, ok ? err : NULL) &&
           ok;
}

void mtr_exchange_start(struct mtr_http_thread *t, h2o_req_t *req,
                        const struct mtr_protocol *protocol, uint64_t access_key)
{
    struct mtr_error error = {0};
    struct mtr_exchange *x = calloc(1, sizeof *x);
    if (!x) {
        mtr_fail(&error, MTR_NO_MEMORY, "out of memory");
        mtr_respond_error(req, &error, 0);
        return;
    }
    x->thread = t;
    x->req = req;
    x->protocol = protocol;
    x->access_key = access_key;
    x->status = 200;
    x->arrived_ns = mtr_now_ns(&t->http->clock);
    x->generator = (h2o_generator_t){on_proceed, on_stop};
    mtr_request_id(t, x->id);
    mtr_arena_init(&x->arena, mtr_http_arena_bytes(req->entity.len));
    mtr_chat_request_init(&x->request, &x->arena);
    x->request.store = t->http->options.store;
    x->request.owner = access_key;
    x->request.fresh = mtr_str(x->id);
    x->next = t->exchanges;
    if (x->next)
        x->next->previous = x;
    t->exchanges = x;
    if (!h2o_timeout_is_linked(&t->watch_entry))
        h2o_timeout_link(t->ctx.loop, &t->watch, &t->watch_entry);
    mtr_gauge_add(mtr_engine_metrics(t->http->engine), MTR_G_REQUESTS_ACTIVE, 1);
    atomic_fetch_add(&t->http->exchange_count, 1);
    struct request_link *link = h2o_mem_alloc_shared(&req->pool, sizeof *link, on_request_dispose);
    link->x = x;

    x->job.client = &t->client;
    x->job.request = &x->request;
    x->job.read = read_request;
    x->job.name = x->id;
    x->job.arrived_ns = x->arrived_ns;
    if (!mtr_budget_take(t, req->entity.len, &x->charged, &x->retry_s, &error) ||
        !copy_body(x, &error) || !mtr_engine_submit(t->http->engine, &x->job, &error)) {
        x->done = true; /* the engine never hears of it */
        mtr_count(mtr_engine_metrics(t->http->engine), MTR_C_REQUESTS_REFUSED, 1);
        end_with_error(x, &error);
        mtr_exchange_flush_all(t);
    }
}
