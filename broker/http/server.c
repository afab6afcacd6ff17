/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads and listeners.
 *
 * All threads accept from the same listening socket, each through a descriptor of its own; the
 * kernel wakes whoever is free. Engine threads reach an HTTP thread through its inbox, whose
 * descriptor stands in the loop like a socket.
 */
#include "broker/http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/http/internal.h"
#include "common/base/hash.h"

#define LISTEN_BACKLOG    1024
#define WATCH_INTERVAL_MS 50

/* ---- Listening --------------------------------------------------------------------------------
 */

static int open_listener(const char *address, uint16_t port, struct mtr_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_PASSIVE};
    struct addrinfo *info;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(address, service, &hints, &info) != 0) {
        mtr_fail(err, MTR_INVALID, "'%s' is not an IP address to listen on", address);
        return -1;
    }
    int one = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
              bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0;
    freeaddrinfo(info);
    if (ok)
        return fd;
    mtr_fail_errno(err, "can't listen on %s port %u", address, port);
    if (fd >= 0)
        close(fd);
    return -1;
}

static uint16_t local_port(int fd)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return 0;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port) : 0;
}

/* ---- TLS --------------------------------------------------------------------------------------
 */

static bool tls_failed(const char *file, struct mtr_error *err)
{
    char reason[256];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    return mtr_fail(err, MTR_INVALID, "%s: %s", file, reason);
}

/* TLS 1.2 at least, and HTTP/2 for those who ask for it. */
static bool make_tls(const struct mtr_http_options *o, SSL_CTX **ctx, struct mtr_error *err)
{
    if (!o->tls_cert)
        return true;
    *ctx = SSL_CTX_new(TLS_server_method());
    if (!*ctx)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory setting up TLS");
    SSL_CTX_set_min_proto_version(*ctx, TLS1_2_VERSION);
    h2o_ssl_register_alpn_protocols(*ctx, h2o_http2_alpn_protocols);
    if (SSL_CTX_use_certificate_chain_file(*ctx, o->tls_cert) != 1)
        return tls_failed(o->tls_cert, err);
    if (SSL_CTX_use_PrivateKey_file(*ctx, o->tls_key, SSL_FILETYPE_PEM) != 1)
        return tls_failed(o->tls_key, err);
    return true;
}

static void on_accept(h2o_socket_t *listener, const char *error)
{
    struct mtr_http_thread *t = listener->data;
    for (int i = 0; !error && i < 16; i++) {
        h2o_socket_t *sock = h2o_evloop_socket_accept(listener);
        if (!sock)
            return;
        int one = 1;
        setsockopt(h2o_socket_get_fd(sock), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        mtr_budget_accept(t, sock);
        h2o_accept(&t->accept, sock);
    }
}

/* ---- Thread -----------------------------------------------------------------------------------
 */

static int on_request(h2o_handler_t *self, h2o_req_t *req)
{
    mtr_budget_dispatch(req);
    mtr_route(mtr_thread_of(req), req);
    return 0;
}

/* Stops accepting and lets idle connections go. Runs on the thread. */
static void thread_drain(struct mtr_http_thread *t)
{
    if (!t->listener)
        return;
    h2o_socket_read_stop(t->listener);
    h2o_socket_close(t->listener);
    t->listener = NULL;
    h2o_context_request_shutdown(&t->ctx);
}

static void on_inbox(h2o_socket_t *sock, const char *error)
{
    struct mtr_http_thread *t = sock->data;
    struct mtr_message *next;
    uint32_t deliveries = 0;
    for (struct mtr_message *m = mtr_inbox_take(&t->inbox); m; m = next) {
        next = m->next;
        switch (m->kind) {
        case MTR_MESSAGE_DELIVERY:
            mtr_exchange_deliver(t, (struct mtr_delivery *)m);
            deliveries++;
            break;
        case MTR_MESSAGE_TASK:
            mtr_helper_done(m);
            break;
        case MTR_MESSAGE_DRAIN:
            thread_drain(t);
            free(m);
            break;
        case MTR_MESSAGE_STOP:
            t->stopping = true;
            free(m);
            break;
        default:
            break;
        }
    }
    mtr_exchange_flush_all(t);
    if (deliveries)
        mtr_client_took(t->http->engine, &t->client, deliveries);
}

static void on_watch(h2o_timeout_entry_t *entry)
{
    struct mtr_http_thread *t = H2O_STRUCT_FROM_MEMBER(struct mtr_http_thread, watch_entry, entry);
    mtr_exchange_watch(t);
    if (t->exchanges) /* an idle server sleeps */
        h2o_timeout_link(t->ctx.loop, &t->watch, &t->watch_entry);
}

static void *thread_main(void *argument)
{
    struct mtr_http_thread *t = argument;
    while (!t->stopping) {
        h2o_evloop_run(t->ctx.loop, INT32_MAX);
        mtr_budget_round(t);
    }
    return NULL;
}

static bool thread_init(struct mtr_http_thread *t, struct mtr_http *http, int fd,
                        struct mtr_error *err)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return mtr_fail_errno(err, "can't duplicate the listening socket");
    if (!mtr_inbox_init(&t->inbox, err)) {
        close(own);
        return false;
    }
    t->http = http;
    t->client.inbox = &t->inbox;
    h2o_context_init(&t->ctx, h2o_evloop_create(), &http->config);
    t->accept.ctx = &t->ctx;
    t->accept.hosts = http->config.hosts;
    t->accept.ssl_ctx = http->tls;
    t->listener = h2o_evloop_socket_create(t->ctx.loop, own, H2O_SOCKET_FLAG_DONT_READ);
    t->listener->data = t;
    h2o_socket_read_start(t->listener, on_accept);
    t->inbox_socket = h2o_evloop_socket_create(t->ctx.loop, t->inbox.fd, H2O_SOCKET_FLAG_DONT_READ);
    t->inbox_socket->data = t;
    h2o_socket_read_start(t->inbox_socket, on_inbox);
    h2o_timeout_init(t->ctx.loop, &t->watch, WATCH_INTERVAL_MS);
    t->watch_entry.cb = on_watch;
    return true;
}

/* ---- Server -----------------------------------------------------------------------------------
 */

static void configure(struct mtr_http *http)
{
    h2o_config_init(&http->config);
    http->config.server_name = h2o_iovec_init(H2O_STRLIT("metrale"));
    http->config.max_request_entity_size = http->options.max_body_bytes;
    http->config.http1.req_timeout = http->options.client_timeout_ms;
    h2o_hostconf_t *host =
        h2o_config_register_host(&http->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_pathconf_t *path = h2o_config_register_path(host, "/", 0);
    h2o_handler_t *handler = h2o_create_handler(path, sizeof *handler);
    handler->on_req = on_request;
    mtr_respond_register(http, path);
    mtr_respond_register(http, &host->fallback_path);
}

struct mtr_http *mtr_http_start(const struct mtr_http_options *options, struct mtr_engine *engine,
                                struct mtr_access *access, struct mtr_log *log,
                                struct mtr_error *err)
{
    int fd = options->listen_fd;
    if (fd < 0 && (fd = open_listener(options->bind, options->port, err)) < 0)
        return NULL;
    struct mtr_http *http = calloc(1, sizeof *http);
    if (!http || !(http->threads = calloc(options->threads, sizeof *http->threads))) {
        free(http);
        close(fd);
        mtr_fail(err, MTR_NO_MEMORY, "out of memory starting the HTTP threads");
        return NULL;
    }
    http->options = *options;
    http->engine = engine;
    http->access = access;
    http->log = log;
    http->clock = mtr_clock_monotonic();
    http->port = local_port(fd);
    pthread_mutex_init(&http->background_lock, NULL);
    if (!make_tls(options, &http->tls, err)) {
        close(fd);
        mtr_http_free(http);
        return NULL;
    }
    if (getrandom(&http->id_seed, sizeof http->id_seed, 0) != sizeof http->id_seed)
        http->id_seed = mtr_now_ns(&http->clock);
    configure(http);
    for (uint32_t i = 0; i < options->threads; i++) {
        struct mtr_http_thread *t = &http->threads[i];
        if (!thread_init(t, http, fd, err)) {
            close(fd);
            mtr_http_stop(http);
            mtr_http_free(http);
            return NULL;
        }
        if (pthread_create(&t->thread, NULL, thread_main, t) != 0) {
            mtr_fail(err, MTR_NO_MEMORY, "can't start an HTTP thread");
            close(fd);
            mtr_http_stop(http);
            mtr_http_free(http);
            return NULL;
        }
        http->thread_count++;
    }
    close(fd);
    return http;
}

uint16_t mtr_http_port(const struct mtr_http *h)
{
    return h->port;
}

static void tell_threads(struct mtr_http *h, enum mtr_message_kind kind)
{
    for (uint32_t i = 0; i < h->thread_count; i++) {
        struct mtr_message *m = calloc(1, sizeof *m);
        if (!m)
            continue;
        m->kind = kind;
        mtr_inbox_post(&h->threads[i].inbox, m);
    }
}

void mtr_http_drain(struct mtr_http *h)
{
    tell_threads(h, MTR_MESSAGE_DRAIN);
}

bool mtr_http_idle(const struct mtr_http *h)
{
    return atomic_load(&h->exchange_count) == 0;
}

void mtr_http_stop(struct mtr_http *h)
{
    if (!h)
        return;
    tell_threads(h, MTR_MESSAGE_STOP);
    for (uint32_t i = 0; i < h->thread_count; i++)
        pthread_join(h->threads[i].thread, NULL);
    h->thread_count = 0;
}

static void free_messages(struct mtr_inbox *box)
{
    struct mtr_message *next;
    for (struct mtr_message *m = mtr_inbox_take(box); m; m = next) {
        next = m->next;
        if (m->kind == MTR_MESSAGE_DELIVERY)
            mtr_delivery_free((struct mtr_delivery *)m);
    }
}

void mtr_http_free(struct mtr_http *h)
{
    if (!h)
        return;
    for (uint32_t i = 0; i < h->options.threads; i++)
        if (h->threads[i].http)
            free_messages(&h->threads[i].inbox);
    /* Contexts, loops and connections go with the process: h2o has no way to take them down whole.
     */
    SSL_CTX_free(h->tls);
    pthread_mutex_destroy(&h->background_lock);
    free(h->threads);
    free(h);
}
