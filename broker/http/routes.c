/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One table of routes, one of what OpenAI has and this server has not.
 */
#include <stdio.h>

#include "broker/http/internal.h"
#include "common/base/clock.h"

enum access { OPEN, HELPER, KEY }; /* KEY: an API key is needed where the server has keys */

struct route {
    const char *method;
    const char *path; /* a final * matches one or more characters, given to the page as rest */
    enum access access;
    void (*page)(struct mtr_http_thread *t, h2o_req_t *req, struct mtr_str rest);
    const struct mtr_protocol *(*protocol)(void); /* or a generation */
};

static const struct route routes[] = {
    {"POST", "/v1/chat/completions", KEY, NULL, mtr_openai_chat},
    {"POST", "/v1/completions", KEY, NULL, mtr_openai_completions},
    {"GET", "/v1/models", OPEN, mtr_page_models, NULL},
    {"GET", "/v1/models/*", OPEN, mtr_page_model, NULL},
    {"POST", "/tokenize", HELPER, mtr_page_tokenize, NULL},
    {"POST", "/detokenize", HELPER, mtr_page_detokenize, NULL},
    {"GET", "/health", OPEN, mtr_page_health, NULL},
    {"GET", "/health/live", OPEN, mtr_page_live, NULL},
    {"GET", "/metrics", OPEN, mtr_page_metrics, NULL},
};

static const struct {
    const char *prefix, *what;
} unsupported[] = {
    {"/v1/embeddings", "embeddings"},
    {"/v1/responses", "the Responses API"},
    {"/v1/conversations", "conversations"},
    {"/v1/messages", "the Anthropic Messages API"},
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
    {"/v1/chat/completions/", "stored completions"},
};

static bool path_matches(const char *pattern, struct mtr_str path, struct mtr_str *rest)
{
    size_t n = strlen(pattern);
    *rest = (struct mtr_str){0};
    if (n && pattern[n - 1] == '*') {
        struct mtr_str prefix = {pattern, n - 1};
        *rest = mtr_str_sub(path, n - 1, path.len);
        return mtr_str_starts(path, prefix) && rest->len;
    }
    return mtr_str_is(path, pattern);
}

/* A final slash is nobody's intention. */
static struct mtr_str request_path(h2o_req_t *req)
{
    struct mtr_str path = {req->path_normalized.base, req->path_normalized.len};
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    return path;
}

static bool allowed(struct mtr_http_thread *t, h2o_req_t *req, const struct route *r, uint64_t *key)
{
    struct mtr_http *http = t->http;
    *key = 0;
    if (r->access == OPEN || (r->access == HELPER && !http->options.protect_helpers))
        return true;
    ssize_t i = h2o_find_header(&req->headers, H2O_TOKEN_AUTHORIZATION, -1);
    struct mtr_str value = {0};
    if (i != -1)
        value =
            (struct mtr_str){req->headers.entries[i].value.base, req->headers.entries[i].value.len};
    struct mtr_error error = {0};
    uint32_t retry_s;
    if (mtr_access_check(http->access, value, mtr_now_ns(&http->clock), key, &retry_s, &error))
        return true;
    mtr_respond_error(req, &error, retry_s);
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

static void respond_wrong_method(h2o_req_t *req, const char *method)
{
    struct mtr_error error = {0};
    mtr_fail(&error, MTR_UNSUPPORTED, "this path takes %s only", method);
    mtr_add_header(req, "allow", mtr_str(method));
    mtr_respond_error_as(req, 405, &error, 0);
}

void mtr_route(struct mtr_http_thread *t, h2o_req_t *req)
{
    struct mtr_str path = request_path(req), rest;
    struct mtr_str method = {req->method.base, req->method.len};
    const struct route *other = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *r = &routes[i];
        uint64_t key;
        if (!path_matches(r->path, path, &rest))
            continue;
        other = r;
        bool head = mtr_str_is(method, "HEAD") && strcmp(r->method, "GET") == 0;
        if (!head && !mtr_str_is(method, r->method))
            continue;
        if (!allowed(t, req, r, &key))
            return;
        if (r->protocol)
            mtr_exchange_start(t, req, r->protocol(), key);
        else
            r->page(t, req, rest);
        return;
    }
    if (other)
        respond_wrong_method(req, other->method);
    else
        respond_unknown(req, path);
}
