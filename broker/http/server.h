/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The HTTP server: listeners, threads, routes. The only code that knows h2o.
 *
 * Each thread has one h2o loop; a connection stays on its thread. A request is either answered at
 * once (pages.c), after a text task (tokenize), or becomes an exchange (exchange.c) that lives
 * until the engine has answered.
 */
#ifndef MTR_HTTP_SERVER_H
#define MTR_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/engine/engine.h"
#include "broker/http/access.h"
#include "broker/store/store.h"
#include "common/base/log.h"

struct mtr_http;

struct mtr_http_options {
    const char *bind; /* address to listen on; loopback unless the operator says otherwise */
    uint16_t port;    /* 0: any free one, see mtr_http_port */
    int listen_fd;    /* a socket that systemd opened, or -1 */
    const char *tls_cert, *tls_key; /* PEM files; NULL: clear text */
    const char *cors_origin;        /* whose web pages may call; "*": all; NULL: none */
    uint32_t threads;
    size_t max_body_bytes;
    size_t request_memory_bytes; /* of all requests together, bodies that still come included */
    uint64_t client_timeout_ms;  /* for a client to send a request, or to read what was sent */
    struct mtr_store *store;     /* what clients ask to keep; outlives the server; or NULL */
    uint64_t keepalive_ms;       /* a silent stream shows that it lives; 0: it does not */
    bool strict_model;           /* requests that name another model get 404 */
    bool protect_helpers;        /* tokenize and detokenize need a key too */
};

/* What a request with a body of so many bytes is counted as, against request_memory_bytes. */
size_t mtr_budget_of_body(size_t body_bytes);

struct mtr_http *mtr_http_start(const struct mtr_http_options *options, struct mtr_engine *engine,
                                struct mtr_access *access, struct mtr_log *log,
                                struct mtr_error *err);

uint16_t mtr_http_port(const struct mtr_http *h);

/* Accepts no new connection from now on and closes idle ones; running exchanges go on. */
void mtr_http_drain(struct mtr_http *h);

bool mtr_http_idle(const struct mtr_http *h); /* every request is answered to its last byte */

/* Ends the threads: the engine hears no more of them. Exchanges that still run are cut. */
void mtr_http_stop(struct mtr_http *h);

/* After the engine is gone too: until then it may still post to the threads' inboxes. */
void mtr_http_free(struct mtr_http *h);

#endif
