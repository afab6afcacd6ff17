/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Short answers, the one place where error bodies are made, and what all bodies go through.
 */
#include <stdio.h>

#include "broker/api/anthropic.h"
#include "broker/api/openai.h"
#include "broker/http/internal.h"
#include "common/base/hash.h"

#define JSON "application/json"

const char *mtr_status_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Payload Too Large"},
        {415, "Unsupported Media Type"},
        {429, "Too Many Requests"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {529, "Overloaded"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

struct mtr_str mtr_header(const h2o_req_t *req, const char *name)
{
    ssize_t i = h2o_find_header_by_str(&req->headers, name, strlen(name), -1);
    if (i == -1)
        return (struct mtr_str){0};
    return (struct mtr_str){req->headers.entries[i].value.base, req->headers.entries[i].value.len};
}

bool mtr_speaks_anthropic(const h2o_req_t *req)
{
    struct mtr_str path = {req->path_normalized.base, req->path_normalized.len};
    return mtr_str_starts(path, MTR_STR("/v1/messages")) ||
           mtr_header(req, "anthropic-version").ptr;
}

void mtr_request_id(struct mtr_http_thread *t, char out[MTR_REQUEST_ID_BYTES])
{
    uint64_t index = (uint64_t)(t - t->http->threads);
    uint64_t n = ++t->request_count;
    uint64_t high = mtr_mix64(t->http->id_seed ^ mtr_mix64(n << 8 | index));
    snprintf(out, MTR_REQUEST_ID_BYTES, "%016llx%08llx", (unsigned long long)high,
             (unsigned long long)((n << 4 | (index & 15)) & 0xffffffffu));
}

void mtr_add_header(h2o_req_t *req, const char *name, struct mtr_str value)
{
    h2o_iovec_t copy = h2o_strdup(&req->pool, value.ptr, value.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, name, strlen(name), 1, NULL, copy.base,
                          copy.len);
}

/* The same id under both protocols' names. */
void mtr_add_request_id(h2o_req_t *req, struct mtr_str id)
{
    mtr_add_header(req, mtr_speaks_anthropic(req) ? "request-id" : "x-request-id", id);
}

void mtr_respond(h2o_req_t *req, int status, const char *content_type, struct mtr_str body)
{
    char id[MTR_REQUEST_ID_BYTES];
    if (status < 400) { /* an error has one already, which its body may name */
        mtr_request_id(mtr_thread_of(req), id);
        mtr_add_request_id(req, mtr_str(id));
    }
    req->res.status = status;
    req->res.reason = mtr_status_reason(status);
    mtr_add_header(req, "content-type", mtr_str(content_type));
    req->res.content_length = body.len;
    h2o_send_inline(req, body.ptr, body.len);
}

/* Every error's body is made here; what has begun as a generation has its protocol's own. */
static void put_error(h2o_req_t *req, int status, const struct mtr_error *error,
                      struct mtr_buf *body)
{
    struct mtr_http_thread *t = mtr_thread_of(req);
    char id[MTR_REQUEST_ID_BYTES];
    mtr_request_id(t, id);
    mtr_add_request_id(req, mtr_str(id));
    if (mtr_speaks_anthropic(req))
        mtr_anthropic_error_as(status, error, mtr_str(id), body);
    else
        mtr_openai_error_as(status, error, body);
    mtr_count(mtr_engine_metrics(t->http->engine), MTR_C_REQUESTS_REFUSED, 1);
}

void mtr_respond_error_as(h2o_req_t *req, int status, const struct mtr_error *error,
                          uint32_t retry_s)
{
    struct mtr_buf body = {0};
    put_error(req, status, error, &body);
    if (retry_s) {
        char text[16];
        snprintf(text, sizeof text, "%u", retry_s);
        mtr_add_header(req, "retry-after", mtr_str(text));
    }
    if (error->code == MTR_DENIED)
        mtr_add_header(req, "www-authenticate", MTR_STR("Bearer"));
    mtr_respond(req, status, JSON, mtr_buf_view(&body));
    mtr_buf_free(&body);
}

void mtr_respond_error(h2o_req_t *req, const struct mtr_error *error, uint32_t retry_s)
{
    int status = mtr_speaks_anthropic(req) ? mtr_anthropic_status(error) : mtr_http_status(error);
    mtr_respond_error_as(req, status, error, retry_s);
}

/* ---- Errors of h2o ----------------------------------------------------------------------------
 */

/* Puts a body of ours in the place of h2o's. */
struct replacement {
    h2o_ostream_t super;
    h2o_iovec_t body;
};

static void send_replacement(h2o_ostream_t *self, h2o_req_t *req, h2o_iovec_t *bufs, size_t count,
                             h2o_send_state_t state)
{
    struct replacement *r = (struct replacement *)self;
    size_t n = state == H2O_SEND_STATE_FINAL && r->body.len ? 1 : 0;
    h2o_ostream_send_next(self, req, &r->body, n, state);
}

static void explain(const struct mtr_http *http, int status, struct mtr_error *error)
{
    if (status == 413)
        mtr_fail(error, MTR_TOO_LARGE, "the body is larger than the %zu bytes that are allowed",
                 http->options.max_body_bytes);
    else if (status < 500)
        mtr_fail(error, MTR_INVALID,
                 "this is no valid HTTP request: its head, or the length or the encoding of its "
                 "body, is broken");
    else
        mtr_fail(error, MTR_INTERNAL, "the request could not be answered");
}

/* Called before the head is sent. What we answer ourselves is JSON already. */
static void on_setup(h2o_filter_t *self, h2o_req_t *req, h2o_ostream_t **slot)
{
    ssize_t type = h2o_find_header(&req->res.headers, H2O_TOKEN_CONTENT_TYPE, -1);
    bool ours = type != -1 && h2o_memis(req->res.headers.entries[type].value.base,
                                        req->res.headers.entries[type].value.len, H2O_STRLIT(JSON));
    if (req->res.status >= 400 && !ours) {
        struct mtr_error error = {0};
        struct mtr_buf body = {0};
        explain(mtr_thread_of(req)->http, req->res.status, &error);
        put_error(req, req->res.status, &error, &body);
        struct replacement *r = (struct replacement *)h2o_add_ostream(req, sizeof *r, slot);
        r->super.do_send = send_replacement;
        r->body = h2o_strdup(&req->pool, body.len ? body.data : "", body.len);
        slot = &r->super.next;
        if (type != -1)
            req->res.headers.entries[type].value = h2o_iovec_init(H2O_STRLIT(JSON));
        req->res.reason = mtr_status_reason(req->res.status);
        req->res.content_length = r->body.len;
        mtr_buf_free(&body);
    }
    h2o_setup_next_ostream(req, slot);
}

void mtr_respond_register(struct mtr_http *http, h2o_pathconf_t *path)
{
    h2o_filter_t *filter = h2o_create_filter(path, sizeof *filter);
    filter->on_setup_ostream = on_setup;
}

/* ---- Bodies -----------------------------------------------------------------------------------
 */

size_t mtr_http_arena_bytes(size_t body_len)
{
    return ((size_t)64 << 20) + 4 * body_len;
}

const struct mtr_json *mtr_http_parse(struct mtr_arena *arena, struct mtr_str body,
                                      struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_parse(arena, body, MTR_JSON_STRICT, err);
    if (v)
        return v;
    if (err->code == MTR_NO_MEMORY)
        mtr_fail(err, MTR_TOO_LARGE, "the body has more values than a request may have");
    else
        mtr_error_prefix(err, "the body is not valid JSON");
    return NULL;
}
