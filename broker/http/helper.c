/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests that are answered by one text task: they parse, tokenize or look something up, which may
 * take longer than an HTTP thread has.
 *
 * A helper has two lives, the task's and the request's, and is freed when both are over.
 */
#include <stdlib.h>

#include "broker/http/internal.h"

#define JSON "application/json"

static void helper_free(struct mtr_helper *h)
{
    mtr_budget_give(h->thread->http, h->charged);
    mtr_buf_free(&h->answer);
    mtr_arena_free(&h->arena);
    free(h);
}

static void on_dispose(void *p)
{
    struct mtr_helper *h = *(struct mtr_helper **)p;
    h->req = NULL;
    if (h->done)
        helper_free(h);
}

static bool work(struct mtr_helper *h, struct mtr_encoder *encoder)
{
    const struct mtr_json *body = NULL;
    if (h->body.len) {
        body = mtr_http_parse(&h->arena, h->body, &h->error);
        if (!body)
            return false;
        if (body->kind != MTR_JSON_OBJECT)
            return mtr_fail(&h->error, MTR_INVALID, "the body must be a JSON object, not %s",
                            mtr_json_kind_name(body));
    }
    return h->work(h, body, encoder, &h->error);
}

/* On a text thread. */
static void run(struct mtr_task *task, struct mtr_encoder *encoder)
{
    struct mtr_helper *h = (struct mtr_helper *)task;
    h->failed = !work(h, encoder);
    if (!mtr_budget_grow(h->thread->http, h->arena.used_bytes + h->answer.len, &h->charged,
                         h->failed ? NULL : &h->error))
        h->failed = true;
    if (!h->failed && h->answer.failed)
        h->failed = !mtr_fail(&h->error, MTR_NO_MEMORY, "out of memory while answering");
    mtr_inbox_post(&h->thread->inbox, &h->message);
}

/* Back on the HTTP thread. */
void mtr_helper_done(struct mtr_message *m)
{
    struct mtr_helper *h = H2O_STRUCT_FROM_MEMBER(struct mtr_helper, message, m);
    h->done = true;
    if (!h->req)
        helper_free(h);
    else if (h->failed)
        mtr_respond_error(h->req, &h->error, h->error.code == MTR_BUSY);
    else
        mtr_respond(h->req, 200, h->content_type ? h->content_type : JSON,
                    mtr_buf_view(&h->answer));
}

static bool copy_request(struct mtr_helper *h, const h2o_req_t *req, const struct mtr_match *m,
                         struct mtr_error *err)
{
    const struct {
        struct mtr_str from, *to;
    } copies[] = {{m->parts[0], &h->parts[0]}, {m->parts[1], &h->parts[1]}, {m->query, &h->query}};
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        *copies[i].to = mtr_arena_str(&h->arena, copies[i].from);
        if (!copies[i].to->ptr)
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    }
    return true;
}

static struct mtr_helper *new_helper(struct mtr_http_thread *t, h2o_req_t *req,
                                     const struct mtr_match *m, bool need_body, uint32_t *retry_s,
                                     struct mtr_error *err)
{
    struct mtr_str body = {req->entity.base, req->entity.len};
    struct mtr_helper *h = calloc(1, sizeof *h);
    if (!h) {
        mtr_fail(err, MTR_NO_MEMORY, "out of memory");
        return NULL;
    }
    h->thread = t;
    h->task.run = run;
    h->message.kind = MTR_MESSAGE_TASK;
    mtr_arena_init(&h->arena, mtr_http_arena_bytes(body.len));
    bool ok = body.len || !need_body ||
              mtr_fail(err, MTR_INVALID, "the body is empty; it must be a JSON object");
    ok = ok && mtr_budget_take(t, body.len, &h->charged, retry_s, err) &&
         copy_request(h, req, m, err);
    if (ok && body.len) {
        h->body = mtr_arena_str(&h->arena, body);
        ok = h->body.ptr || mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    }
    if (ok)
        return h;
    helper_free(h);
    return NULL;
}

static struct mtr_helper *prepare(struct mtr_http_thread *t, h2o_req_t *req,
                                  const struct mtr_match *m, bool need_body, mtr_helper_work task)
{
    struct mtr_error error = {0};
    uint32_t retry_s = 0;
    struct mtr_helper *h = new_helper(t, req, m, need_body, &retry_s, &error);
    if (!h) {
        mtr_respond_error(req, &error, retry_s);
        return NULL;
    }
    h->model = mtr_engine_model(t->http->engine);
    h->req = req;
    h->key = m->key;
    h->work = task;
    struct mtr_helper **link = h2o_mem_alloc_shared(&req->pool, sizeof *link, on_dispose);
    *link = h;
    return h;
}

void mtr_helper_start(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m,
                      bool need_body, mtr_helper_work task)
{
    struct mtr_helper *h = prepare(t, req, m, need_body, task);
    if (h)
        mtr_text_pool_submit(mtr_engine_text_pool(t->http->engine), &h->task);
}

/* ---- Calls ------------------------------------------------------------------------------------
 */

static bool run_call(struct mtr_helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
                     struct mtr_error *err)
{
    struct mtr_http *http = h->thread->http;
    struct mtr_call call = {
        .store = http->options.store,
        .owner = h->key,
        .parts = {h->parts[0], h->parts[1]},
        .query = h->query,
        .body = body,
        .arena = &h->arena,
        .fresh = mtr_str(h->id),
        .now = mtr_wall_seconds(),
        .out = &h->answer,
        .cancel = mtr_exchange_cancel,
        .context = http,
    };
    return h->call(&call, err);
}

void mtr_call_start(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m,
                    bool need_body, mtr_call_handler call)
{
    struct mtr_error error = {0};
    if (!t->http->options.store) {
        mtr_fail(&error, MTR_NOT_FOUND, "this server was told to keep nothing");
        mtr_respond_error(req, &error, 0);
        return;
    }
    struct mtr_helper *h = prepare(t, req, m, need_body, run_call);
    if (!h)
        return;
    h->call = call;
    mtr_request_id(t, h->id);
    mtr_text_pool_submit(mtr_engine_text_pool(t->http->engine), &h->task);
}
