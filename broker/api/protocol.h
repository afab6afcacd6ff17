/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A protocol: how a body becomes a request, and events become an answer.
 *
 * Each protocol file defines one constant of this type. Pure: no sockets, clocks or threads; what
 * depends on them (ids, time) stands in struct mtr_answer_head.
 *
 * An answer writer is made for one request, in the request's arena, and appends to a buffer. A
 * streamed answer appends complete frames at each call; an unstreamed one appends everything in
 * end(). The caller sends what was appended and clears the buffer. A stream that has begun says an
 * error by an ERROR event; an answer that has not, by the protocol's error body.
 */
#ifndef MTR_API_PROTOCOL_H
#define MTR_API_PROTOCOL_H

#include "broker/api/chat_request.h"
#include "broker/api/out_event.h"
#include "common/base/buf.h"

struct mtr_answer_head {
    struct mtr_str id;    /* unique part: "a1b2..." ; the protocol adds its prefix */
    struct mtr_str model; /* the served name */
    int64_t created;      /* seconds since 1970 */
};

struct mtr_answer;

struct mtr_answer_ops {
    void (*begin)(struct mtr_answer *e, struct mtr_buf *out);
    void (*event)(struct mtr_answer *e, const struct mtr_out_event *event, struct mtr_buf *out);
    void (*end)(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out);
    void (*release)(struct mtr_answer *e); /* frees what is not in the arena; always called once */
    /* A sign of life while a streamed answer has nothing to say. NULL: an SSE comment. */
    void (*ping)(struct mtr_answer *e, struct mtr_buf *out);
};

/* Concrete answers begin with this. */
struct mtr_answer {
    const struct mtr_answer_ops *ops;
    const struct mtr_chat_request *request;
    struct mtr_answer_head head;
    struct mtr_arena *arena;
    const struct mtr_usage *usage; /* so far; the caller's, or NULL */
    bool failed;                   /* memory ran out: the answer can't be completed */
};

struct mtr_protocol {
    const char *name; /* "chat", for logs and metrics */
    bool (*parse)(struct mtr_chat_request *r, const struct mtr_json *body, struct mtr_error *err);
    struct mtr_answer *(*answer)(const struct mtr_chat_request *r,
                                 const struct mtr_answer_head *head);
    /* The protocol's error body, and what an error looks like when a stream has begun. */
    void (*error)(const struct mtr_error *err, struct mtr_buf *out);
    void (*stream_error)(const struct mtr_error *err, struct mtr_buf *out);
    /* Where the status is not mtr_http_status, or an error's body names the request; else NULL. */
    int (*status)(const struct mtr_error *err);
    void (*error_as)(int status, const struct mtr_error *err, struct mtr_str request_id,
                     struct mtr_buf *out);
    /* Puts a kept request's whole answer, as it is where it is not streamed, into the store. NULL
     * for a protocol whose answer does so itself. */
    bool (*keep)(const struct mtr_chat_request *r, const struct mtr_answer_head *head,
                 struct mtr_str whole, struct mtr_error *err);
};

const struct mtr_protocol *mtr_openai_chat(void);
const struct mtr_protocol *mtr_openai_completions(void);
const struct mtr_protocol *mtr_anthropic_messages(void);
const struct mtr_protocol *mtr_openai_responses(void);

/* The HTTP status that an error has in every protocol: 4xx and 5xx. */
int mtr_http_status(const struct mtr_error *err);

#endif
