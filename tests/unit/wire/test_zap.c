/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* tcp with CURVE: who is on the list gets through, nobody else does. */
#include "common/wire/socket.h"
#include "tests/unit/check_main.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS    5000
#define REFUSED_MS 400

static struct mtr_wire *wire;
static struct mtr_arena arena;
static struct mtr_error err;
static char address[64];
static struct mtr_wire_keys broker, worker, stranger;

static void keygen(struct mtr_wire_keys *k)
{
    *k = (struct mtr_wire_keys){0};
    ck_assert(mtr_wire_keygen(k->public_key, k->secret_key, &err));
}

/* A port that was free a moment ago. */
static void pick_address(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    close(fd);
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", ntohs(in.sin_port));
}

static void setup(void)
{
    wire = mtr_wire_create(NULL);
    mtr_arena_init(&arena, 0);
    keygen(&broker);
    keygen(&worker);
    keygen(&stranger);
    memcpy(worker.server_key, broker.public_key, 41);
    memcpy(stranger.server_key, broker.public_key, 41);
    broker.allowed = (const char(*)[41])worker.public_key;
    broker.allowed_count = 1;
    pick_address();
}

static void teardown(void)
{
    mtr_wire_destroy(wire);
    mtr_arena_free(&arena);
}

/* Does a message from a socket with these keys reach the listener? */
static bool reaches(struct mtr_socket *to, const struct mtr_wire_keys *keys, int wait_ms)
{
    struct mtr_str peer = {0}, message = {0};
    struct mtr_socket *d = mtr_socket_connect(wire, MTR_SOCKET_DEALER, address, keys, &err);
    ck_assert_msg(d != NULL, "%s", err.message);
    ck_assert(mtr_socket_send(d, (struct mtr_str){0}, MTR_STR("hello"), &err));
    for (int i = 0; i < wait_ms / 10 && !message.ptr; i++) {
        mtr_socket_wait(to, -1, 10);
        ck_assert(mtr_socket_receive(to, &arena, &peer, &message, &err));
    }
    mtr_socket_close(d);
    return message.ptr && mtr_str_is(message, "hello");
}

START_TEST(only_who_is_on_the_list)
{
    struct mtr_socket *r = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err);
    ck_assert_msg(r != NULL, "%s", err.message);
    ck_assert(reaches(r, &worker, WAIT_MS));
    ck_assert(!reaches(r, &stranger, REFUSED_MS));
    struct mtr_wire_keys wrong = worker; /* expects another broker */
    memcpy(wrong.server_key, stranger.public_key, 41);
    ck_assert(!reaches(r, &wrong, REFUSED_MS));
    ck_assert(reaches(r, &worker, WAIT_MS));
    mtr_socket_close(r);
}
END_TEST

START_TEST(an_empty_list_lets_nobody_in)
{
    broker.allowed_count = 0;
    struct mtr_socket *r = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err);
    ck_assert_ptr_nonnull(r);
    ck_assert(!reaches(r, &worker, REFUSED_MS));
    mtr_socket_close(r);
}
END_TEST

START_TEST(lists_belong_to_their_socket)
{
    struct mtr_socket *first = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err);
    broker.allowed = (const char(*)[41])stranger.public_key;
    pick_address();
    struct mtr_socket *second = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err);
    ck_assert(first && second);
    ck_assert(!reaches(second, &worker, REFUSED_MS));
    ck_assert(reaches(second, &stranger, WAIT_MS));
    mtr_socket_close(first);
    mtr_socket_close(second);
}
END_TEST

START_TEST(bad_keys_are_named)
{
    char bad[1][41] = {"not a key"};
    broker.allowed = (const char(*)[41])bad;
    ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    worker.server_key[0] = 0;
    ck_assert_ptr_null(mtr_socket_connect(wire, MTR_SOCKET_DEALER, address, &worker, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

START_TEST(a_taken_port_is_busy)
{
    struct mtr_socket *a = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, &broker, &err));
    ck_assert_int_eq(err.code, MTR_BUSY);
    mtr_socket_close(a);
}
END_TEST

MTR_CHECK_MAIN("wire/zap")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, only_who_is_on_the_list);
    tcase_add_test(tc, an_empty_list_lets_nobody_in);
    tcase_add_test(tc, lists_belong_to_their_socket);
    tcase_add_test(tc, bad_keys_are_named);
    tcase_add_test(tc, a_taken_port_is_busy);
}
