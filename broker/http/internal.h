/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of this room share: the thread, answering a request, routes.
 */
#ifndef MTR_HTTP_INTERNAL_H
#define MTR_HTTP_INTERNAL_H

#include <h2o.h>
#include <pthread.h>

#include "broker/api/protocol.h"
#include "broker/api/stored.h"
#include "broker/http/server.h"
#include "common/base/clock.h"

struct mtr_connection;
struct mtr_exchange;

struct mtr_http_thread {
    h2o_context_t ctx; /* first: a request's context is its thread */
    struct mtr_http *http;
    h2o_accept_ctx_t accept;
    h2o_socket_t *listener; /* NULL once draining */
    h2o_socket_t *inbox_socket;
    struct mtr_inbox inbox;
    struct mtr_client client;
    h2o_timeout_t watch; /* looks for clients that are gone */
    h2o_timeout_entry_t watch_entry;
    struct mtr_exchange *exchanges;     /* all of this thread, doubly linked */
    struct mtr_exchange *dirty;         /* those that have something to send */
    struct mtr_connection *connections; /* all that are open, doubly linked */
    uint64_t counted_ms;                /* when their memory was counted */
    uint64_t request_count;
    uint64_t now_ns; /* when the delivery at hand was taken */
    bool stopping;
    pthread_t thread;
};

struct mtr_http {
    struct mtr_http_options options;
    struct mtr_engine *engine;
    struct mtr_access *access;
    struct mtr_log *log;
    struct mtr_clock clock;
    h2o_globalconf_t config;
    SSL_CTX *tls;     /* NULL: clear text */
    uint64_t id_seed; /* request ids: unique a process and thread */
    uint16_t port;
    _Atomic uint32_t exchange_count;
    _Atomic int64_t held_bytes; /* budget.c */
    pthread_mutex_t background_lock;
    struct mtr_exchange *background; /* those that go on without a client */
    uint32_t thread_count;
    struct mtr_http_thread *threads; /* [thread_count] */
};

static inline struct mtr_http_thread *mtr_thread_of(h2o_req_t *req)
{
    return (struct mtr_http_thread *)req->conn->ctx;
}

/* "f00d...": unique, 24 characters and a NUL. */
#define MTR_REQUEST_ID_BYTES 25
void mtr_request_id(struct mtr_http_thread *t, char out[MTR_REQUEST_ID_BYTES]);

/* ---- Memory of requests (budget.c) ------------------------------------------------------------
 */

void mtr_budget_accept(struct mtr_http_thread *t, h2o_socket_t *sock); /* a new connection */
void mtr_budget_dispatch(h2o_req_t *req);                              /* a request is whole */
void mtr_budget_round(struct mtr_http_thread *t); /* after each round of the loop */

/* Takes memory for a request with such a body, which *charged then says; to be given back. False
 * (MTR_BUSY): there is no room, and *retry_s says when to try again. */
bool mtr_budget_take(struct mtr_http_thread *t, size_t body_bytes, size_t *charged,
                     uint32_t *retry_s, struct mtr_error *err);

/* From any thread: the request takes `bytes` in all. False (MTR_BUSY): that is too much; they are
 * charged all the same, until they are given back. */
bool mtr_budget_grow(struct mtr_http *http, size_t bytes, size_t *charged, struct mtr_error *err);
void mtr_budget_give(struct mtr_http *http, size_t charged);

/* ---- Answering at once ------------------------------------------------------------------------
 */

const char *mtr_status_reason(int status);

/* The request's header of that name (in lower case), or {NULL, 0}. */
struct mtr_str mtr_header(const h2o_req_t *req, const char *name);

/* Whether errors and lists are to have Anthropic's shape. */
bool mtr_speaks_anthropic(const h2o_req_t *req);

void mtr_add_header(h2o_req_t *req, const char *name, struct mtr_str value);
void mtr_add_request_id(h2o_req_t *req, struct mtr_str id);

/* The body is copied. retry_s adds Retry-After when not 0. */
void mtr_respond(h2o_req_t *req, int status, const char *content_type, struct mtr_str body);
void mtr_respond_error(h2o_req_t *req, const struct mtr_error *error, uint32_t retry_s);

/* The same with another status than the error's code has. */
void mtr_respond_error_as(h2o_req_t *req, int status, const struct mtr_error *error,
                          uint32_t retry_s);

/* Errors that h2o finds itself (a body too large, a length that is none) get a body like all
 * others. Requests without a path yet are those of the host's fallback. */
void mtr_respond_register(struct mtr_http *http, h2o_pathconf_t *path);

/* ---- Bodies -----------------------------------------------------------------------------------
 */

/* The most memory that a request with a body of so many bytes may take. "[[],[],...]" is forty
 * bytes of values for three of text; nothing that makes sense is like that at this size. */
size_t mtr_http_arena_bytes(size_t body_len);

/* On a text thread. NULL with an error that is the client's. */
const struct mtr_json *mtr_http_parse(struct mtr_arena *arena, struct mtr_str body,
                                      struct mtr_error *err);

/* ---- Routes -----------------------------------------------------------------------------------
 */

/* What a request's path and key say. Slices of the request, but for the key. */
struct mtr_match {
    struct mtr_str parts[2]; /* what stands where the route has {} or its final * */
    struct mtr_str query;    /* behind the question mark */
    uint64_t key;            /* whose it is; see mtr_access_check */
};

/* Finds and calls the handler of a request, or answers 404 or 405. */
void mtr_route(struct mtr_http_thread *t, h2o_req_t *req);

/* Starts a generation (exchange.c). */
void mtr_exchange_start(struct mtr_http_thread *t, h2o_req_t *req,
                        const struct mtr_protocol *protocol, uint64_t access_key);
void mtr_exchange_deliver(struct mtr_http_thread *t, struct mtr_delivery *d);
void mtr_exchange_flush_all(struct mtr_http_thread *t);
void mtr_exchange_watch(struct mtr_http_thread *t); /* finds clients that are gone */

/* From any thread: ends the background response of that id ("resp_..."), if it runs. context: the
 * struct mtr_http. */
void mtr_exchange_cancel(void *context, struct mtr_str id);

/* ---- Answers by one text task (helper.c) ------------------------------------------------------
 */

struct mtr_helper;
/* On a text thread: fills h->answer. body is NULL where the request has none. */
typedef bool (*mtr_helper_work)(struct mtr_helper *h, const struct mtr_json *body,
                                struct mtr_encoder *encoder, struct mtr_error *err);

struct mtr_helper {
    struct mtr_task task; /* first */
    struct mtr_message message;
    struct mtr_http_thread *thread;
    const struct mtr_served_model *model;
    h2o_req_t *req; /* NULL: the client is gone */
    bool done;
    struct mtr_arena arena;
    size_t charged; /* of the memory of all requests */
    struct mtr_str body, query, parts[2];
    uint64_t key;
    struct mtr_buf answer;
    const char *content_type; /* NULL: JSON */
    struct mtr_error error;
    bool failed;
    mtr_helper_work work;
    mtr_call_handler call; /* for calls */
    char id[MTR_REQUEST_ID_BYTES];
};

void mtr_helper_start(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m,
                      bool need_body, mtr_helper_work task);
void mtr_helper_done(struct mtr_message *m);

/* A request about what is kept. */
void mtr_call_start(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m,
                    bool need_body, mtr_call_handler call);

/* Pages (pages.c): each answers the request at once or through a text task. */
typedef void (*mtr_page)(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_models(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_model(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_health(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_live(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_metrics(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_tokenize(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_detokenize(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_input_tokens(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);
void mtr_page_count_tokens(struct mtr_http_thread *t, h2o_req_t *req, const struct mtr_match *m);

#endif
