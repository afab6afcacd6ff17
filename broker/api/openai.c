/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Errors and usage as OpenAI's clients read them.
 */
#include "broker/api/openai.h"

static const struct {
    enum mtr_code code;
    int status;
    const char *type;
    const char *name; /* "code" of the body, or NULL */
} errors[] = {
    /* a code's first row has its usual status */
    {MTR_INVALID, 400, "invalid_request_error", NULL},
    {MTR_UNSUPPORTED, 400, "invalid_request_error", "unsupported_value"},
    {MTR_TOO_LARGE, 400, "invalid_request_error", "limit_exceeded"},
    {MTR_TOO_LARGE, 413, "invalid_request_error", "request_too_large"},
    {MTR_UNSUPPORTED, 405, "invalid_request_error", "method_not_allowed"},
    {MTR_NOT_FOUND, 404, "invalid_request_error", "not_found"},
    {MTR_DENIED, 401, "invalid_request_error", "invalid_api_key"},
    {MTR_BUSY, 429, "rate_limit_error", "rate_limit_exceeded"},
    {MTR_TIMEOUT, 504, "timeout_error", "timeout"},
    {MTR_NO_MEMORY, 503, "server_error", "out_of_memory"},
    {MTR_IO, 503, "server_error", "model_not_loaded"},
    {MTR_INTERNAL, 500, "server_error", "internal_error"},
};

static size_t error_row(enum mtr_code code)
{
    size_t last = sizeof errors / sizeof errors[0] - 1;
    for (size_t i = 0; i < last; i++)
        if (errors[i].code == code)
            return i;
    return last;
}

/* The row for another status, or else the code's own. */
static size_t status_row(enum mtr_code code, int status)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code && errors[i].status == status)
            return i;
    return error_row(code);
}

int mtr_http_status(const struct mtr_error *err)
{
    return errors[error_row(err->code)].status;
}

void mtr_openai_error(const struct mtr_error *err, struct mtr_buf *out)
{
    mtr_openai_error_as(mtr_http_status(err), err, out);
}

void mtr_openai_error_as(int status, const struct mtr_error *err, struct mtr_buf *out)
{
    size_t row = status_row(err->code, status);
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "error");
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "message");
    mtr_json_put_cstr(&w, err->message);
    mtr_json_key(&w, "type");
    mtr_json_put_cstr(&w, errors[row].type);
    mtr_json_key(&w, "param");
    if (err->field[0])
        mtr_json_put_cstr(&w, err->field);
    else
        mtr_json_put_null(&w);
    mtr_json_key(&w, "code");
    if (errors[row].name)
        mtr_json_put_cstr(&w, errors[row].name);
    else
        mtr_json_put_null(&w);
    mtr_json_end_object(&w);
    mtr_json_end_object(&w);
}

void mtr_openai_frame_begin(struct mtr_buf *out)
{
    mtr_buf_puts(out, "data: ");
}

void mtr_openai_frame_end(struct mtr_buf *out)
{
    mtr_buf_puts(out, "\n\n");
}

void mtr_openai_stream_error(const struct mtr_error *err, struct mtr_buf *out)
{
    mtr_openai_frame_begin(out);
    mtr_openai_error(err, out);
    mtr_openai_frame_end(out);
    mtr_buf_puts(out, "data: [DONE]\n\n");
}

const char *mtr_openai_end(enum mtr_end finish)
{
    static const char *const names[] = {
        [MTR_END_NONE] = NULL,
        [MTR_END_STOP] = "stop",
        [MTR_END_LENGTH] = "length",
        [MTR_END_TOOLS] = "tool_calls",
    };
    return names[finish];
}

void mtr_openai_usage(struct mtr_json_writer *w, const struct mtr_usage *u)
{
    mtr_json_begin_object(w);
    mtr_json_key(w, "prompt_tokens");
    mtr_json_put_u64(w, u->prompt_tokens);
    mtr_json_key(w, "completion_tokens");
    mtr_json_put_u64(w, u->completion_tokens);
    mtr_json_key(w, "total_tokens");
    mtr_json_put_u64(w, (uint64_t)u->prompt_tokens + u->completion_tokens);
    mtr_json_key(w, "prompt_tokens_details");
    mtr_json_begin_object(w);
    mtr_json_key(w, "cached_tokens");
    mtr_json_put_u64(w, u->cached_tokens);
    mtr_json_end_object(w);
    mtr_json_key(w, "completion_tokens_details");
    mtr_json_begin_object(w);
    mtr_json_key(w, "reasoning_tokens");
    mtr_json_put_u64(w, u->reasoning_tokens);
    mtr_json_end_object(w);
    mtr_json_end_object(w);
}
