/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections are real sockets in a loop; what h2o would have read of them is said by the test. */
#include "broker/http/budget.c"

#include <poll.h>
#include <unistd.h>

#include "tests/unit/check_main.h"

#define LIMIT (1u << 20)

static struct mtr_http http;
static struct mtr_http_thread thread;
static struct mtr_log silent;
static struct mtr_metrics metrics;
static int clients[8];
static struct mtr_error err;

/* The one thing that is asked of the engine. */
struct mtr_metrics *mtr_engine_metrics(struct mtr_engine *e)
{
    return &metrics;
}

static void setup(void)
{
    mtr_log_init(&silent, "test");
    mtr_log_set_level(&silent, MTR_ERROR);
    http = (struct mtr_http){.options = {.request_memory_bytes = LIMIT}, .log = &silent};
    thread = (struct mtr_http_thread){.http = &http, .ctx = {.loop = h2o_evloop_create()}};
    err = (struct mtr_error){0};
}

static h2o_socket_t *connect_client(int i)
{
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    clients[i] = ends[0];
    h2o_socket_t *sock =
        h2o_evloop_socket_create(thread.ctx.loop, ends[1], H2O_SOCKET_FLAG_DONT_READ);
    mtr_budget_accept(&thread, sock);
    return sock;
}

static void read_so_far(h2o_socket_t *sock, size_t bytes)
{
    sock->bytes_read = bytes;
    count(sock->on_close.data);
}

static bool is_cut(int i)
{
    char text[1024];
    struct pollfd p = {.fd = clients[i], .events = POLLIN};
    if (poll(&p, 1, 0) <= 0)
        return false;
    ssize_t n = read(clients[i], text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    return strstr(text, "HTTP/1.1 429 Too Many Requests\r\n") == text &&
           strstr(text, "retry-after: 1\r\n") && strstr(text, "{\"error\":{");
}

START_TEST(what_is_taken_is_given_back)
{
    size_t first = 0, second = 0;
    uint32_t retry_s = 0;
    ck_assert(mtr_budget_take(&thread, 60000, &first, &retry_s, &err));
    ck_assert_uint_eq(first, mtr_budget_of_body(60000));
    ck_assert(!mtr_budget_take(&thread, 60000, &second, &retry_s, &err));
    ck_assert(err.code == MTR_BUSY && retry_s > 0 && second == 0);
    mtr_budget_give(&http, first);
    ck_assert(mtr_budget_take(&thread, 60000, &second, &retry_s, &err));
    mtr_budget_give(&http, second);
    ck_assert_int_eq(http.held_bytes, 0);
}
END_TEST

START_TEST(values_that_take_more_are_charged)
{
    size_t charged = 0;
    uint32_t retry_s;
    ck_assert(mtr_budget_take(&thread, 10, &charged, &retry_s, &err));
    size_t before = charged;
    ck_assert(mtr_budget_grow(&http, before - 1, &charged, &err));
    ck_assert_uint_eq(charged, before);
    ck_assert(mtr_budget_grow(&http, LIMIT, &charged, &err));
    ck_assert(!mtr_budget_grow(&http, LIMIT + 1, &charged, &err));
    ck_assert_int_eq(err.code, MTR_BUSY);
    mtr_budget_give(&http, charged);
    ck_assert_int_eq(http.held_bytes, 0);
}
END_TEST

START_TEST(the_largest_half_body_gives_way)
{
    h2o_socket_t *a = connect_client(0), *b = connect_client(1), *c = connect_client(2);
    read_so_far(a, 300000);
    read_so_far(b, 500000);
    read_so_far(c, 40000);
    ck_assert_int_eq(http.held_bytes, 840000);
    size_t charged = 0;
    uint32_t retry_s;
    ck_assert(mtr_budget_take(&thread, 30000, &charged, &retry_s, &err));
    ck_assert(!is_cut(0) && is_cut(1) && !is_cut(2));
    ck_assert_int_eq(http.held_bytes, 340000 + (int64_t)charged);
    /* Small ones never give way: a whole request is refused instead. */
    size_t more = 0;
    read_so_far(a, 50000);
    ck_assert(!mtr_budget_take(&thread, 90000, &more, &retry_s, &err));
    ck_assert(!is_cut(0) && !is_cut(2));
    h2o_socket_close(a);
    h2o_socket_close(b);
    h2o_socket_close(c);
    ck_assert_int_eq(http.held_bytes, (int64_t)charged);
    ck_assert_ptr_null(thread.connections);
}
END_TEST

static h2o_socket_t *only;

static h2o_socket_t *socket_of(h2o_conn_t *conn)
{
    return only;
}

/* version: as in h2o_req_t. */
static void dispatch(int version, size_t body)
{
    static const h2o_conn_callbacks_t callbacks = {.get_socket = socket_of};
    h2o_conn_t conn = {.callbacks = &callbacks};
    h2o_req_t req = {.conn = &conn, .version = version, .entity = {NULL, body}};
    mtr_budget_dispatch(&req);
}

START_TEST(whole_requests_are_no_half_bodies)
{
    only = connect_client(0);
    read_so_far(only, 200000);
    dispatch(0x101, 199000);
    ck_assert_int_eq(http.held_bytes, 0);
    read_so_far(only, 300000); /* the next one begins */
    ck_assert_int_eq(http.held_bytes, 100000);
    h2o_socket_close(only);
    ck_assert_int_eq(http.held_bytes, 0);
}
END_TEST

START_TEST(streams_of_http2_are_counted_one_by_one)
{
    only = connect_client(0);
    read_so_far(only, 300000);
    dispatch(0x200, 100000); /* other bodies are still half here */
    ck_assert_int_eq(http.held_bytes, 200000 - HEAD_BYTES);
    dispatch(0x200, 199500);
    ck_assert_int_eq(http.held_bytes, 0);
    h2o_socket_close(only);
}
END_TEST

START_TEST(rounds_keep_the_bound)
{
    h2o_socket_t *socks[8];
    for (int i = 0; i < 8; i++) {
        socks[i] = connect_client(i);
        socks[i]->bytes_read = 200000 + (size_t)i;
    }
    thread.counted_ms = 0;
    mtr_budget_round(&thread);
    ck_assert_int_le(http.held_bytes, LIMIT);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(is_cut(i), i >= 5); /* five have room */
        h2o_socket_close(socks[i]);
    }
    ck_assert_int_eq(http.held_bytes, 0);
}
END_TEST

MTR_CHECK_MAIN("http/budget")
{
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, what_is_taken_is_given_back);
    tcase_add_test(tc, values_that_take_more_are_charged);
    tcase_add_test(tc, the_largest_half_body_gives_way);
    tcase_add_test(tc, whole_requests_are_no_half_bodies);
    tcase_add_test(tc, streams_of_http2_are_counted_one_by_one);
    tcase_add_test(tc, rounds_keep_the_bound);
}
