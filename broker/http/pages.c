/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Everything that is not a generation: models, health, metrics, tokenizer helpers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "broker/api/anthropic.h"
#include "broker/api/openai.h"
#include "broker/api/responses.h"
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

/* The same as Anthropic's clients read it. */
static void put_anthropic_model(struct mtr_json_writer *w, const struct mtr_served_model *m)
{
    char time[32];
    time_t created = (time_t)m->created;
    struct tm utc;
    gmtime_r(&created, &utc);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
    mtr_json_begin_object(w);
    mtr_json_key(w, "type");
    mtr_json_put_cstr(w, "model");
    mtr_json_key(w, "id");
    mtr_json_put_str(w, m->name);
    mtr_json_key(w, "display_name");
    mtr_json_put_str(w, m->name);
    mtr_json_key(w, "created_at");
    mtr_json_put_cstr(w, time);
    mtr_json_key(w, "max_input_tokens");
    mtr_json_put_u64(w, m->max_sequence_tokens);
    mtr_json_key(w, "max_tokens");
    mtr_json_put_u64(w, m->max_sequence_tokens);
    mtr_json_end_object(w);
}

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

static void put_any_model(struct mtr_json_writer *w, const h2o_req_t *req,
                          const struct mtr_served_model *m)
{
    if (mtr_speaks_anthropic(req))
        put_anthropic_model(w, m);
    else
        put_model(w, m);
}

void mtr_page_models(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    struct mtr_buf body = {0};
    struct mtr_json_writer w = mtr_json_writer(&body);
    const struct mtr_served_model *model = mtr_engine_model(t->http->engine);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "object");
    mtr_json_put_cstr(&w, "list");
    mtr_json_key(&w, "data");
    mtr_json_begin_array(&w);
    put_any_model(&w, req, model);
    mtr_json_end_array(&w);
    if (mtr_speaks_anthropic(req)) {
        mtr_json_key(&w, "has_more");
        mtr_json_put_bool(&w, false);
        mtr_json_key(&w, "first_id");
        mtr_json_put_str(&w, model->name);
        mtr_json_key(&w, "last_id");
        mtr_json_put_str(&w, model->name);
    }
    mtr_json_end_object(&w);
    send_json(req, 200, &body);
}

void mtr_page_model(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    const struct mtr_served_model *model = mtr_engine_model(t->http->engine);
    struct mtr_error error = {0};
    if (!mtr_served_model_is(model, m->parts[0], &error)) {
        mtr_respond_error(req, &error, 0);
        return;
    }
    struct mtr_buf body = {0};
    struct mtr_json_writer w = mtr_json_writer(&body);
    put_any_model(&w, req, model);
    send_json(req, 200, &body);
}

/* ---- Health and metrics -----------------------------------------------------------------------
 */

void mtr_page_health(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
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

void mtr_page_live(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    mtr_respond(req, 200, JSON, MTR_STR("{\"status\":\"ok\"}"));
}

void mtr_page_metrics(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
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

static void put_ids(struct mtr_json_writer *w, const struct mtr_ids *ids)
{
    mtr_json_begin_array(w);
    for (size_t i = 0; i < ids->count; i++)
        mtr_json_put_u64(w, ids->ids[i]);
    mtr_json_end_array(w);
}

/* {"prompt" or "content": text, "add_special_tokens": bool, "parse_special": bool}, or
 * {"messages": [...]} through the chat template. */
static bool tokenize(struct mtr_helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
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

void mtr_page_tokenize(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    mtr_helper_start(t, req, m, true, tokenize);
}

static bool read_ids(struct mtr_helper *h, const struct mtr_json *tokens, struct mtr_ids *ids,
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

static bool detokenize(struct mtr_helper *h, const struct mtr_json *body,
                       struct mtr_encoder *encoder, struct mtr_error *err)
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

void mtr_page_detokenize(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    mtr_helper_start(t, req, m, true, detokenize);
}

/* How many tokens a protocol's request has as its prompt. */
static bool
count_prompt(struct mtr_helper *h, const struct mtr_json *body, struct mtr_encoder *encoder,
             bool (*parse)(struct mtr_chat_request *, const struct mtr_json *, struct mtr_error *),
             size_t *count, struct mtr_error *err)
{
    struct mtr_chat_request request;
    struct mtr_ids ids = {0};
    mtr_chat_request_init(&request, &h->arena);
    request.store = h->thread->http->options.store;
    request.owner = h->key;
    bool ok = parse(&request, body, err) &&
              mtr_prompt_encode(h->model, &request, &request.prompts[0], encoder, &ids, err);
    *count = ids.count;
    mtr_ids_free(&ids);
    return ok;
}

static bool count_tokens(struct mtr_helper *h, const struct mtr_json *body,
                         struct mtr_encoder *encoder, struct mtr_error *err)
{
    size_t count;
    return count_prompt(h, body, encoder, mtr_anthropic_parse_count, &count, err) &&
           mtr_buf_printf(&h->answer, "{\"input_tokens\":%zu}", count);
}

void mtr_page_count_tokens(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    mtr_helper_start(t, req, m, true, count_tokens);
}

static bool input_tokens(struct mtr_helper *h, const struct mtr_json *body,
                         struct mtr_encoder *encoder, struct mtr_error *err)
{
    size_t count;
    return count_prompt(h, body, encoder, mtr_responses_parse_count, &count, err) &&
           mtr_buf_printf(&h->answer, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                          count);
}

void mtr_page_input_tokens(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m)
{
    mtr_helper_start(t, req, m, true, input_tokens);
}
