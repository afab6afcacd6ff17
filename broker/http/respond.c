/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Short answers, and what all bodies go through.
 */
#include <stdio.h>

#include "broker/api/openai.h"
#include "broker/http/internal.h"

const char *mtr_status_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
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
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Error";
}

void mtr_add_header(h2o_req_t *req, const char *name, struct mtr_str value)
{
    h2o_iovec_t copy = h2o_strdup(&req->pool, value.ptr, value.len);
    h2o_add_header_by_str(&req->pool, &req->res.headers, name, strlen(name), 0, NULL, copy.base,
                          copy.len);
}

void mtr_respond(h2o_req_t *req, int status, const char *content_type, struct mtr_str body)
{
    req->res.status = status;
    req->res.reason = mtr_status_reason(status);
    mtr_add_header(req, "content-type", mtr_str(content_type));
    req->res.content_length = body.len;
    h2o_send_inline(req, body.ptr, body.len);
}

void mtr_respond_error(h2o_req_t *req, const struct mtr_error *error, uint32_t retry_s)
{
    struct mtr_buf body = {0};
    mtr_openai_error(error, &body);
    if (retry_s) {
        char text[16];
        snprintf(text, sizeof text, "%u", retry_s);
        mtr_add_header(req, "retry-after", mtr_str(text));
    }
    if (error->code == MTR_DENIED)
        mtr_add_header(req, "www-authenticate", MTR_STR("Bearer"));
    mtr_count(mtr_engine_metrics(mtr_thread_of(req)->http->engine), MTR_C_REQUESTS_REFUSED, 1);
    mtr_respond(req, mtr_http_status(error), "application/json", mtr_buf_view(&body));
    mtr_buf_free(&body);
}

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
