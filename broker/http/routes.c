/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One table of routes, one of what OpenAI has and this server has not.
 */
#include <stdio.h>

#include "broker/api/responses.h"
#include "broker/http/internal.h"
#include "common/base/clock.h"

enum access { OPEN, HELPER, KEY }; /* KEY: an API key is needed where the server has keys */

struct route {
    const char *method;
    const char *path; /* {}: one segment; a final *: one or more characters */
    enum access access;
    mtr_page page;
    const struct mtr_protocol *(*protocol)(void); /* or a generation */
    mtr_call_handler call;                        /* or what is kept */
};

static const struct route routes[] = {
    {"POST", "/v1/chat/completions", KEY, .protocol = mtr_openai_chat},
    {"GET", "/v1/chat/completions", KEY, .call = mtr_stored_chat_list},
    {"GET", "/v1/chat/completions/{}", KEY, .call = mtr_stored_chat_get},
    {"POST", "/v1/chat/completions/{}", KEY, .call = mtr_stored_chat_update},
    {"DELETE", "/v1/chat/completions/{}", KEY, .call = mtr_stored_chat_delete},
    {"GET", "/v1/chat/completions/{}/messages", KEY, .call = mtr_stored_chat_messages},
    {"POST", "/v1/completions", KEY, .protocol = mtr_openai_completions},
    {"POST", "/v1/responses", KEY, .protocol = mtr_openai_responses},
    {"POST", "/v1/responses/input_tokens", KEY, .page = mtr_page_input_tokens},
    {"GET", "/v1/responses/{}", KEY, .call = mtr_response_get},
    {"DELETE", "/v1/responses/{}", KEY, .call = mtr_response_delete},
    {"POST", "/v1/responses/{}/cancel", KEY, .call = mtr_response_cancel},
    {"GET", "/v1/responses/{}/input_items", KEY, .call = mtr_response_input_items},
    {"POST", "/v1/conversations", KEY, .call = mtr_conversation_create},
    {"GET", "/v1/conversations/{}", KEY, .call = mtr_conversation_get},
    {"POST", "/v1/conversations/{}", KEY, .call = mtr_conversation_update},
    {"DELETE", "/v1/conversations/{}", KEY, .call = mtr_conversation_delete},
    {"GET", "/v1/conversations/{}/items", KEY, .call = mtr_conversation_items},
    {"POST", "/v1/conversations/{}/items", KEY, .call = mtr_conversation_add_items},
    {"GET", "/v1/conversations/{}/items/{}", KEY, .call = mtr_conversation_item},
    {"DELETE", "/v1/conversations/{}/items/{}", KEY, .call = mtr_conversation_delete_item},
    {"POST", "/v1/messages", KEY, .protocol = mtr_anthropic_messages},
    {"POST", "/v1/messages/count_tokens", KEY, .page = mtr_page_count_tokens},
    {"GET", "/v1/models", OPEN, .page = mtr_page_models},
    {"GET", "/v1/models/*", OPEN, .page = mtr_page_model},
    {"POST", "/tokenize", HELPER, .page = mtr_page_tokenize},
    {"POST", "/detokenize", HELPER, .page = mtr_page_detokenize},
    {"GET", "/health", OPEN, .page = mtr_page_health},
    {"GET", "/health/live", OPEN, .page = mtr_page_live},
    {"GET", "/metrics", OPEN, .page = mtr_page_metrics},
};

static const struct {
    const char *prefix, *what;
} unsupported[] = {
    {"/v1/embeddings", "embeddings"},
    {"/v1/responses/compact", "compaction"},
    {"/v1/messages/batches", "batches of messages"},
    {"/v1/audio", "audio"},
    {"/v1/images", "images"},
    {"/v1/videos", "video"},
    {"/v1/files", "files"},
    {"/v1/uploads", "uploads"},
    {"/v1/batches", "batches"},
    {"/v1/fine_tuning", "fine-tuning"},
    {"/v1/moderations", "moderations"},
    {"/v1/assistants", "assistants"},
    {"/v1/threads", "threads"},
    {"/v1/vector_stores", "vector stores"},
    {"/v1/realtime", "the realtime API"},
    {"/v1/evals", "evals"},
    {"/v1/containers", "containers"},
    {"/v1/lora", "adapters"},
};

/* Walks both; a {} takes up to the next slash. */
static bool path_matches(const char *pattern, struct mtr_str path, struct mtr_match *m)
{
    size_t at = 0, part = 0;
    *m = (struct mtr_match){0};
    for (const char *p = pattern; *p; p++) {
        if (*p == '*') {
            m->parts[part] = mtr_str_sub(path, at, path.len);
            return m->parts[part].len > 0;
        }
        if (*p == '{') {
            size_t end = mtr_str_find(path, MTR_STR("/"), at);
            m->parts[part] = mtr_str_sub(path, at, (end == SIZE_MAX ? path.len : end) - at);
            if (m->parts[part].len == 0)
                return false;
            at += m->parts[part++].len;
            p++; /* the closing brace */
        } else if (at == path.len || path.ptr[at++] != *p) {
            return false;
        }
    }
    return at == path.len;
}

/* A final slash is nobody's intention. */
static struct mtr_str request_path(h2o_req_t *req)
{
    struct mtr_str path = {req->path_normalized.base, req->path_normalized.len};
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

/* Anthropic's clients say their key in a header of its own. */
static struct mtr_str authorization(h2o_req_t *req)
{
    struct mtr_str value = mtr_header(req, "authorization"), key = mtr_header(req, "x-api-key");
    if (value.ptr || !key.ptr)
        return value;
    h2o_iovec_t all = h2o_concat(&req->pool, h2o_iovec_init(H2O_STRLIT("Bearer ")),
                                 h2o_iovec_init(key.ptr, key.len));
    return (struct mtr_str){all.base, all.len};
}

static bool allowed(struct mtr_http_thread *t, h2o_req_t *req, const struct route *r, uint64_t *key)
{
    struct mtr_http *http = t->http;
    *key = 0;
    if (r->access == OPEN || (r->access == HELPER && !http->options.protect_helpers))
        return true;
    struct mtr_error error = {0};
    uint32_t retry_s;
    if (mtr_access_check(http->access, authorization(req), mtr_now_ns(&http->clock), key, &retry_s,
                         &error))
        return true;
    mtr_respond_error(req, &error, retry_s);
    return false;
}

/* A version that this server does not speak is no hint. */
static bool known_version(h2o_req_t *req)
{
    static const char *const versions[] = {"2026-10-21", "2023-06-01", "2023-01-01"};
    struct mtr_str version = mtr_header(req, "anthropic-version");
    struct mtr_error error = {0};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        if (!version.ptr || mtr_str_is(version, versions[i]))
            return true;
    mtr_fail_field(&error, MTR_UNSUPPORTED, "anthropic-version",
                   "anthropic-version: '%.*s' is not a version that is served here; %s is",
                   (int)(version.len < 40 ? version.len : 40), version.ptr, versions[0]);
    mtr_respond_error(req, &error, 0);
    return false;
}

static void respond_unknown(h2o_req_t *req, struct mtr_str path)
{
    struct mtr_error error = {0};
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; i++)
        if (mtr_str_starts(path, mtr_str(unsupported[i].prefix))) {
            mtr_fail(&error, MTR_NOT_FOUND, "%.*s is not supported: this server does not offer %s",
                     (int)(path.len < 80 ? path.len : 80), path.ptr, unsupported[i].what);
            mtr_respond_error(req, &error, 0);
            return;
        }
    mtr_fail(&error, MTR_NOT_FOUND, "there is no %.*s here", (int)(path.len < 80 ? path.len : 80),
             path.ptr);
    mtr_respond_error(req, &error, 0);
}

/* The methods of all routes that the path matches. */
static void respond_wrong_method(h2o_req_t *req, struct mtr_str path)
{
    struct mtr_error error = {0};
    struct mtr_match m;
    struct mtr_buf allow = {0};
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (path_matches(routes[i].path, path, &m))
            mtr_buf_printf(&allow, "%s%s", allow.len ? ", " : "", routes[i].method);
    mtr_fail(&error, MTR_UNSUPPORTED, "this path takes %s only", allow.len ? allow.data : "");
    mtr_add_header(req, "allow", mtr_buf_view(&allow));
    mtr_buf_free(&allow);
    mtr_respond_error_as(req, 405, &error, 0);
}

/* ---- Web pages of other origins ---------------------------------------------------------------
 */

/* Says that a page may see the answer. False: its origin is not the one that may. */
static bool allow_origin(const struct mtr_http *http, h2o_req_t *req)
{
    const char *allowed_origin = http->options.cors_origin;
    struct mtr_str origin = mtr_header(req, "origin");
    if (!allowed_origin || !origin.ptr)
        return false;
    bool any = strcmp(allowed_origin, "*") == 0;
    if (!any && !mtr_str_is(origin, allowed_origin))
        return false;
    mtr_add_header(req, "access-control-allow-origin", any ? MTR_STR("*") : origin);
    mtr_add_header(req, "access-control-expose-headers",
                   MTR_STR("x-request-id, request-id, retry-after"));
    if (!any)
        mtr_add_header(req, "vary", MTR_STR("origin"));
    return true;
}

/* What a browser asks before it sends a request for such a page. */
static void respond_preflight(h2o_req_t *req)
{
    struct mtr_str headers = mtr_header(req, "access-control-request-headers");
    mtr_add_header(req, "access-control-allow-methods", MTR_STR("GET, POST, DELETE"));
    if (headers.ptr)
        mtr_add_header(req, "access-control-allow-headers", headers);
    mtr_add_header(req, "access-control-max-age", MTR_STR("86400"));
    req->res.status = 204;
    req->res.reason = mtr_status_reason(204);
    h2o_send_inline(req, H2O_STRLIT(""));
}

void mtr_route(struct mtr_http_thread *t, h2o_req_t *req)
{
    bool from_page = allow_origin(t->http, req);
    if (from_page && h2o_memis(req->method.base, req->method.len, H2O_STRLIT("OPTIONS"))) {
        respond_preflight(req);
        return;
    }
    struct mtr_str path = request_path(req);
    struct mtr_str method = {req->method.base, req->method.len};
    bool known = false;
    struct mtr_match m;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *r = &routes[i];
        if (!path_matches(r->path, path, &m))
            continue;
        known = true;
        bool head = mtr_str_is(method, "HEAD") && strcmp(r->method, "GET") == 0;
        if (!head && !mtr_str_is(method, r->method))
            continue;
        if (!allowed(t, req, r, &m.key) || !known_version(req))
            return;
        if (req->query_at != SIZE_MAX)
            m.query = (struct mtr_str){req->path.base + req->query_at + 1,
                                       req->path.len - req->query_at - 1};
        if (r->protocol)
            mtr_exchange_start(t, req, r->protocol(), m.key);
        else if (r->call)
            mtr_call_start(t, req, &m, false, r->call);
        else
            r->page(t, req, &m);
        return;
    }
    if (known)
        respond_wrong_method(req, path);
    else
        respond_unknown(req, path);
}
