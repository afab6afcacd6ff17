/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One bound for the memory of all requests: those whose bodies are still being received, and those
 * that were taken and are not answered yet.
 *
 * Two kinds of memory are held against it. A connection's own: what was read of it and belongs to
 * no request yet, or stands in its input buffer; counted after each round of the loop, since
 * nothing else tells how much h2o has read. And a request's: a multiple of its body when it is
 * taken, or what its values really took once they were parsed, if that is more.
 *
 * When there is no room, half-received bodies give way, the largest first, whoever sends them: a
 * client that sends slowly, or never ends, must not keep out those that are done. Only then is a
 * whole request refused. Each thread makes room among its own connections.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "broker/api/openai.h"
#include "broker/http/internal.h"

#define COUNT_INTERVAL_MS 5
#define LEAST_CUT_BYTES   (64u << 10) /* of a body that gives way */
#define REQUEST_BYTES     (64u << 10) /* what a request takes beside its body */
#define BODY_COST         9           /* its bytes twice, and seven for the values in it */
#define HEAD_BYTES        1024        /* HTTP/2: what a request's head may have on the wire */
#define RETRY_S           1

struct mtr_connection {
    struct mtr_connection *previous, *next;
    struct mtr_http_thread *thread;
    h2o_socket_t *sock;
    size_t taken;   /* of the bytes that were read: those of requests that were taken */
    size_t counted; /* in held_bytes */
    bool cut;       /* it ends as soon as the loop sees that; nothing more is counted */
};

/* ---- Connections ------------------------------------------------------------------------------
 */

static void set_counted(struct mtr_connection *c, size_t bytes)
{
    if (bytes == c->counted)
        return;
    atomic_fetch_add(&c->thread->http->held_bytes, (int64_t)bytes - (int64_t)c->counted);
    c->counted = bytes;
}

static void on_close(void *data)
{
    struct mtr_connection *c = data;
    set_counted(c, 0);
    if (c->previous)
        c->previous->next = c->next;
    else
        c->thread->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
    free(c);
}

void mtr_budget_accept(struct mtr_http_thread *t, h2o_socket_t *sock)
{
    struct mtr_connection *c = calloc(1, sizeof *c);
    if (!c)
        return; /* its own memory is not counted; its requests' is */
    c->thread = t;
    c->sock = sock;
    c->next = t->connections;
    if (c->next)
        c->next->previous = c;
    t->connections = c;
    sock->on_close.cb = on_close;
    sock->on_close.data = c;
}

static size_t reading_bytes(const struct mtr_connection *c)
{
    return c->cut || c->sock->bytes_read < c->taken ? 0 : c->sock->bytes_read - c->taken;
}

static void count(struct mtr_connection *c)
{
    size_t bytes = reading_bytes(c);
    const h2o_buffer_t *input = c->sock->input;
    size_t buffered = !c->cut && input && input->size ? input->capacity : 0;
    set_counted(c, bytes > buffered ? bytes : buffered);
}

/* HTTP/1 has one request at a time. Of HTTP/2 other bodies may be half here. */
void mtr_budget_dispatch(h2o_req_t *req)
{
    h2o_socket_t *sock =
        req->conn->callbacks->get_socket ? req->conn->callbacks->get_socket(req->conn) : NULL;
    struct mtr_connection *c = sock && sock->on_close.cb == on_close ? sock->on_close.data : NULL;
    if (!c)
        return;
    size_t more = req->version < 0x200 ? sock->bytes_read : req->entity.len + HEAD_BYTES;
    c->taken = sock->bytes_read - c->taken < more ? sock->bytes_read : c->taken + more;
    count(c);
}

/* ---- Making room ------------------------------------------------------------------------------
 */

static bool is_over(const struct mtr_http *http, size_t more)
{
    return atomic_load(&http->held_bytes) + (int64_t)more >
           (int64_t)http->options.request_memory_bytes;
}

static bool no_room(const struct mtr_http *http, struct mtr_error *err)
{
    return mtr_fail(err, MTR_BUSY,
                    "the requests at hand take the %zu MB that they may take together; try again "
                    "in %d s",
                    http->options.request_memory_bytes >> 20, RETRY_S);
}

/* h2o offers no way to answer before the body is whole. What is sent may be lost where the client
 * goes on sending; the end of the connection is not. */
static void cut(struct mtr_connection *c)
{
    struct mtr_http *http = c->thread->http;
    struct mtr_error error = {0};
    struct mtr_buf body = {0}, answer = {0};
    int fd = h2o_socket_get_fd(c->sock);
    no_room(http, &error);
    mtr_openai_error(&error, &body);
    mtr_buf_printf(&answer,
                   "HTTP/1.1 429 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
                   "retry-after: %d\r\nconnection: close\r\n\r\n%.*s",
                   mtr_status_reason(429), body.len, RETRY_S, (int)body.len,
                   body.len ? body.data : "");
    if (!answer.failed && send(fd, answer.data, answer.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        mtr_debug(http->log, "a client whose body is cut does not read");
    shutdown(fd, SHUT_RDWR);
    mtr_buf_free(&body);
    mtr_buf_free(&answer);
    c->cut = true;
    set_counted(c, 0);
    mtr_count(mtr_engine_metrics(http->engine), MTR_C_REQUESTS_REFUSED, 1);
    mtr_warn(http->log, "a request was cut while its body came: %s", error.message);
}

static struct mtr_connection *largest_reader(struct mtr_http_thread *t)
{
    struct mtr_connection *largest = NULL;
    for (struct mtr_connection *c = t->connections; c; c = c->next)
        if (reading_bytes(c) >= LEAST_CUT_BYTES &&
            (!largest || reading_bytes(c) > reading_bytes(largest)))
            largest = c;
    return largest;
}

/* Each round cuts a connection, so their number bounds the rounds. */
static bool make_room(struct mtr_http_thread *t, size_t more)
{
    while (is_over(t->http, more)) {
        struct mtr_connection *c = largest_reader(t);
        if (!c)
            return false;
        cut(c);
    }
    return true;
}

void mtr_budget_round(struct mtr_http_thread *t)
{
    uint64_t now_ms = h2o_now(t->ctx.loop);
    if (now_ms - t->counted_ms < COUNT_INTERVAL_MS)
        return;
    t->counted_ms = now_ms;
    for (struct mtr_connection *c = t->connections; c; c = c->next)
        count(c);
    make_room(t, 0);
}

/* ---- Requests ---------------------------------------------------------------------------------
 */

size_t mtr_budget_of_body(size_t body_bytes)
{
    return REQUEST_BYTES + BODY_COST * body_bytes;
}

bool mtr_budget_take(struct mtr_http_thread *t, size_t body_bytes, size_t *charged,
                     uint32_t *retry_s, struct mtr_error *err)
{
    size_t bytes = mtr_budget_of_body(body_bytes);
    if (!make_room(t, bytes)) {
        *retry_s = RETRY_S;
        return no_room(t->http, err);
    }
    atomic_fetch_add(&t->http->held_bytes, (int64_t)bytes);
    *charged = bytes;
    return true;
}

bool mtr_budget_grow(struct mtr_http *http, size_t bytes, size_t *charged, struct mtr_error *err)
{
    if (bytes <= *charged)
        return true;
    size_t more = bytes - *charged;
    atomic_fetch_add(&http->held_bytes, (int64_t)more);
    *charged = bytes;
    return !is_over(http, 0) || no_room(http, err);
}

void mtr_budget_give(struct mtr_http *http, size_t charged)
{
    atomic_fetch_sub(&http->held_bytes, (int64_t)charged);
}
