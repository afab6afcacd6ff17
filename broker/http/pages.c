/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Everything that is not a generation: models, health, metrics, tokenizer helpers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "broker/api/openai.h"
#include "broker/engine/prompt.h"
#include "broker/http/internal.h"

#define JSON "application/json"

static void send_json(h2o_req_t *req, int status, struct mtr_buf *body)
{
    mtr_respond(req, status, JSON, mtr_buf_view(body));
    mtr_buf_free(body);
}

/* ---- Models -----------------------------------------------------------------------------------
 */

static void put_model(struct mtr_json_writer *w, const struct mtr_served_model *m)
{
    mtr_json_begin_object(w);
    mtr_json_key(w, "id");
    mtr_json_put_str(w, m->name);
    mtr_json_key(w, "object");
    mtr_json_put_cstr(w, "model");
    mtr_json_key(w, "created");
    mtr_json_put_i64(w, m->created);
    mtr_json_key(w, "owned_by");
    mtr_json_put_cstr(w, "metrale");
    mtr_json_key(w, "max_model_len");
    mtr_json_put_u64(w, m->max_sequence_tokens);
    mtr_json_end_object(w);
}

void mtr_page_models(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    struct mtr_buf body = {0};
    struct mtr_json_writer w = mtr_json_writer(&body);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "object");
    mtr_json_put_cstr(&w, "list");
    mtr_json_key(&w, "data");
    mtr_json_begin_array(&w);
    put_model(&w, mtr_engine_model(t->http->engine));
    mtr_json_end_array(&w);
    mtr_json_end_object(&w);
    send_json(req, 200, &body);
}

void mtr_page_model(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    const struct mtr_served_model *m = mtr_engine_model(t->http->engine);
    struct mtr_error error = {0};
    if (!mtr_served_model_is(m, rest, &error)) {
        mtr_respond_error(req, &error, 0);
        return;
    }
    struct mtr_buf body = {0};
    struct mtr_json_writer w = mtr_json_writer(&body);
    put_model(&w, m);
    send_json(req, 200, &body);
}

/* ---- Health and metrics -----------------------------------------------------------------------
 */

void mtr_page_health(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    struct mtr_engine_status s;
    struct mtr_buf body = {0};
    mtr_engine_status(t->http->engine, &s);
    struct mtr_json_writer w = mtr_json_writer(&body);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "status");
    mtr_json_put_cstr(&w, s.state == MTR_ENGINE_READY ? "ok" : mtr_engine_state_name(s.state));
    mtr_json_key(&w, "model");
    mtr_json_put_str(&w, mtr_engine_model(t->http->engine)->name);
    if (s.reason[0]) {
        mtr_json_key(&w, "reason");
        mtr_json_put_cstr(&w, s.reason);
    }
    if (s.device[0]) {
        mtr_json_key(&w, "hardware");
        mtr_json_put_cstr(&w, mtr_engine_model(t->http->engine)->plan->hardware);
        mtr_json_key(&w, "device");
        mtr_json_put_cstr(&w, s.device);
    }
    mtr_json_key(&w, "running");
    mtr_json_put_u64(&w, s.running);
    mtr_json_key(&w, "waiting");
    mtr_json_put_u64(&w, s.waiting);
    mtr_json_end_object(&w);
    send_json(req, s.state == MTR_ENGINE_READY ? 200 : 503, &body);
}

void mtr_page_live(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    mtr_respond(req, 200, JSON, MTR_STR("{\"status\":\"ok\"}"));
}

void mtr_page_metrics(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    const struct mtr_served_model *model = mtr_engine_model(t->http->engine);
    struct mtr_engine_status s;
    struct mtr_buf body = {0};
    mtr_engine_status(t->http->engine, &s);
    mtr_metrics_render(mtr_engine_metrics(t->http->engine), model->name, &body);
    if (s.device[0])
        mtr_metrics_render_device(model->name, model->plan->hardware, s.device, &body);
    mtr_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", mtr_buf_view(&body));
    mtr_buf_free(&body);
}

/* ---- Tokenizer helpers ------------------------------------------------------------------------
 */

#define MAX_HELPER_IDS (1u << 20)

/* A text task of a request; freed when both the task is done and the request is gone. */
struct helper {
    struct mtr_task task; /* first */
    struct mtr_message message;
    struct mtr_http_thread *thread;
    const struct mtr_served_model *model;
    h2o_req_t *req; /* NULL: the client is gone */
    bool done;
    struct mtr_arena arena;
    size_t charged; /* of the memory of all requests */
    struct mtr_str body;
    struct mtr_buf answer;
    struct mtr_error error;
    bool failed;
    bool (*work)(struct helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
                 struct mtr_error *err);
};

static void helper_free(struct helper *h)
{
    mtr_budget_give(h->thread->http, h->charged);
    mtr_buf_free(&h->answer);
    mtr_arena_free(&h->arena);
    free(h);
}

static void on_helper_dispose(void *p)
{
    struct helper *h = *(struct helper **)p;
    h->req = NULL;
    if (h->done)
        helper_free(h);
}

/* On a text thread. */
static void run_helper(struct mtr_task *task, struct mtr_encoder *encoder)
{
    struct helper *h = (struct helper *)task;
    const struct mtr_json *body = mtr_http_parse(&h->arena, h->body, &h->error);
    if (!body) {
        h->failed = true;
    } else if (body->kind != MTR_JSON_OBJECT) {
        h->failed = !mtr_fail(&h->error, MTR_INVALID, "the body must be a JSON object, not %s",
                              mtr_json_kind_name(body));
    } else {
        h->failed = !h->work(h, body, encoder, &h->error);
    }
    if (!mtr_budget_grow(h->thread->http, h->arena.used_bytes + h->answer.len, &h->charged,
                         h->failed ? NULL : &h->error))
        h->failed = true;
    mtr_inbox_post(&h->thread->inbox, &h->message);
}

/* Back on the HTTP thread. */
void mtr_page_task_done(struct mtr_message *m)
{
    struct helper *h = H2O_STRUCT_FROM_MEMBER(struct helper, message, m);
    h->done = true;
    if (!h->req)
        helper_free(h);
    else if (h->failed)
        mtr_respond_error(h->req, &h->error, h->error.code == MTR_BUSY);
    else
        mtr_respond(h->req, 200, JSON, mtr_buf_view(&h->answer));
}

static struct helper *new_helper(struct mtr_http_thread *t, h2o_req_t *req, uint32_t *retry_s,
                                 struct mtr_error *err)
{
    struct mtr_str body = {req->entity.base, req->entity.len};
    struct helper *h = calloc(1, sizeof *h);
    if (!h) {
        mtr_fail(err, MTR_NO_MEMORY, "out of memory");
        return NULL;
    }
    h->thread = t;
    h->task.run = run_helper;
    h->message.kind = MTR_MESSAGE_TASK;
    mtr_arena_init(&h->arena, mtr_http_arena_bytes(body.len));
    bool ok = body.len || mtr_fail(err, MTR_INVALID, "the body is empty; it must be a JSON object");
    ok = ok && mtr_budget_take(t, body.len, &h->charged, retry_s, err);
    h->body = ok ? mtr_arena_str(&h->arena, body) : (struct mtr_str){0};
    if (ok && !h->body.ptr)
        ok = mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    if (ok)
        return h;
    helper_free(h);
    return NULL;
}

static void start_helper(struct mtr_http_thread *t, h2o_req_t *req,
                         bool (*work)(struct helper *, const struct mtr_json *,
                                      struct mtr_encoder *, struct mtr_error *))
{
    struct mtr_error error = {0};
    uint32_t retry_s = 0;
    struct helper *h = new_helper(t, req, &retry_s, &error);
    if (!h) {
        mtr_respond_error(req, &error, retry_s);
        return;
    }
    h->model = mtr_engine_model(t->http->engine);
    h->req = req;
    h->work = work;
    struct helper **link = h2o_mem_alloc_shared(&req->pool, sizeof *link, on_helper_dispose);
    *link = h;
    mtr_text_pool_submit(mtr_engine_text_pool(t->http->engine), &h->task);
}

static void put_ids(struct mtr_json_writer *w, const struct mtr_ids *ids)
{
    mtr_json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++)
        mtr_json_put_u64(w, ids->ids[i]);
    mtr_json_end_array(w);
}

/* {"prompt" or "content": text, "add_special_tokens": bool, "parse_special": bool}, or
 * {"messages": [...]} through the chat template. */
static bool tokenize(struct helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
                     struct mtr_error *err)
{
    bool add_special = true, parse_special = false;
    struct mtr_str text = {0};
    struct mtr_ids ids = {0};
    bool ok = mtr_json_opt_bool(body, "add_special_tokens", &add_special, err) &&
              mtr_json_opt_bool(body, "parse_special", &parse_special, err) &&
              mtr_json_opt_str(body, "content", &text, err) &&
              mtr_json_opt_str(body, "prompt", &text, err);
    if (!ok)
        return false;
    if (mtr_json_get(body, "messages")) {
        struct mtr_chat_request request;
        mtr_chat_request_init(&request, &h->arena);
        ok = mtr_openai_chat()->parse(&request, body, err) &&
             mtr_prompt_encode(h->model, &request, &request.prompts[0], encoder, &ids, err);
    } else if (text.ptr) {
        ok = mtr_encode(encoder, text,
                        (add_special ? MTR_ENCODE_ADD_SPECIAL : 0) |
                            (parse_special ? MTR_ENCODE_PARSE_SPECIAL : 0),
                        &ids, err);
    } else {
        ok = mtr_fail_field(err, MTR_INVALID, "prompt",
                            "the body has neither 'prompt' nor 'content' nor 'messages'");
    }
    struct mtr_json_writer w = mtr_json_writer(&h->answer);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "count");
    mtr_json_put_u64(&w, ids.count);
    mtr_json_key(&w, "max_model_len");
    mtr_json_put_u64(&w, h->model->max_sequence_tokens);
    mtr_json_key(&w, "tokens");
    put_ids(&w, &ids);
    mtr_json_end_object(&w);
    mtr_ids_free(&ids);
    return ok;
}

void mtr_page_tokenize(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    start_helper(t, req, tokenize);
}

static bool read_ids(struct helper *h, const struct mtr_json *tokens, struct mtr_ids *ids,
                     struct mtr_error *err)
{
    if (!tokens || tokens->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "tokens", "'tokens' must be an array of token ids");
    if (tokens->count > MAX_HELPER_IDS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "tokens",
                              "'tokens' has %u ids, at most %u are allowed", tokens->count,
                              MAX_HELPER_IDS);
    for (uint32_t i = 0; i < tokens->count; i++) {
        const struct mtr_json *v = &tokens->items[i];
        if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 ||
            v->integer >= mtr_tokenizer_size(h->model->tokenizer))
            return mtr_fail_field(err, MTR_INVALID, "tokens",
                                  "tokens[%u] is not an id of this model (0 to %u)", i,
                                  mtr_tokenizer_size(h->model->tokenizer) - 1);
        if (!mtr_ids_push(ids, (uint32_t)v->integer))
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    }
    return true;
}

static bool detokenize(struct helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
                       struct mtr_error *err)
{
    bool skip_special = false;
    struct mtr_ids ids = {0};
    struct mtr_buf text = {0};
    bool ok = mtr_json_opt_bool(body, "skip_special_tokens", &skip_special, err) &&
              read_ids(h, mtr_json_get(body, "tokens"), &ids, err) &&
              mtr_decode(h->model->tokenizer, ids.ids, ids.count, skip_special, &text, err);
    struct mtr_json_writer w = mtr_json_writer(&h->answer);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "prompt");
    mtr_json_put_str(&w, mtr_buf_view(&text));
    mtr_json_end_object(&w);
    mtr_ids_free(&ids);
    mtr_buf_free(&text);
    return ok;
}

void mtr_page_detokenize(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest)
{
    start_helper(t, req, detokenize);
}
