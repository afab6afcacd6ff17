/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/socket.h"
#include "tests/unit/check_main.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define WAIT_MS 5000

static char dir[] = "/tmp/mtr_socket_XXXXXX";
static char path[64], address[80];
static struct mtr_wire *wire;
static struct mtr_arena arena;
static struct mtr_error err;

static void setup(void)
{
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(address, sizeof(address), "ipc://%s", path);
    wire = mtr_wire_create(NULL);
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    mtr_wire_destroy(wire);
    mtr_arena_free(&arena);
    unlink(path);
    rmdir(dir);
}

/* Waits for one message; {NULL, 0} after WAIT_MS. */
static struct mtr_str take(struct mtr_socket *s, struct mtr_str *peer)
{
    struct mtr_str message = {0};
    for (int i = 0; i < WAIT_MS / 10 && !message.ptr; i++) {
        mtr_socket_wait(s, -1, 10);
        ck_assert_msg(mtr_socket_receive(s, &arena, peer, &message, &err), "%s", err.message);
    }
    return message;
}

START_TEST(router_and_dealers)
{
    struct mtr_str peer[2], none;
    struct mtr_socket *r = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_msg(r != NULL, "%s", err.message);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0660);
    struct mtr_socket *d[2];
    for (int i = 0; i < 2; i++) {
        d[i] = mtr_socket_connect(wire, MTR_SOCKET_DEALER, address, NULL, &err);
        ck_assert_ptr_nonnull(d[i]);
        ck_assert(mtr_socket_send(d[i], (struct mtr_str){0}, MTR_STR("hel\0lo"), &err));
        ck_assert(mtr_str_equal(take(r, &peer[i]), MTR_STR("hel\0lo")));
        ck_assert_uint_gt(peer[i].len, 0);
    }
    ck_assert(!mtr_str_equal(peer[0], peer[1]));
    for (int i = 0; i < 2; i++)
        ck_assert(mtr_socket_send(r, peer[i], i ? MTR_STR("one") : MTR_STR(""), &err));
    ck_assert(mtr_str_is(take(d[1], &none), "one"));
    struct mtr_str empty = take(d[0], &none);
    ck_assert(empty.ptr && empty.len == 0);
    ck_assert(mtr_socket_receive(r, &arena, &none, &empty, &err));
    ck_assert_ptr_null(empty.ptr);
    ck_assert(!mtr_socket_send(r, MTR_STR("nobody"), MTR_STR("x"), &err));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
    for (int i = 0; i < 2; i++)
        mtr_socket_close(d[i]);
    mtr_socket_close(r);
}
END_TEST

START_TEST(request_and_reply)
{
    struct mtr_str peer;
    struct mtr_socket *rep = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    struct mtr_socket *req = mtr_socket_connect(wire, MTR_SOCKET_REQ, address, NULL, &err);
    for (int i = 0; i < 3; i++) {
        ck_assert(mtr_socket_send(req, (struct mtr_str){0}, MTR_STR("status"), &err));
        ck_assert(mtr_str_is(take(rep, &peer), "status"));
        ck_assert(mtr_socket_send(rep, (struct mtr_str){0}, MTR_STR("ready"), &err));
        ck_assert(mtr_str_is(take(req, &peer), "ready"));
    }
    mtr_socket_close(req);
    mtr_socket_close(rep);
}
END_TEST

START_TEST(several_frames_are_dropped_and_the_next_is_taken)
{
    struct mtr_str peer = {0}, message = {0};
    struct mtr_socket *rep = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    void *context = zmq_ctx_new();
    void *raw = zmq_socket(context, ZMQ_REQ);
    int linger = 0;
    zmq_setsockopt(raw, ZMQ_LINGER, &linger, sizeof(linger));
    ck_assert_int_eq(zmq_connect(raw, address), 0);
    zmq_send(raw, "a", 1, ZMQ_SNDMORE);
    zmq_send(raw, "b", 1, 0);
    ck_assert(mtr_socket_wait(rep, -1, WAIT_MS));
    ck_assert(!mtr_socket_receive(rep, &arena, &peer, &message, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_ptr_null(message.ptr);
    char reply[8];
    ck_assert_int_eq(zmq_recv(raw, reply, sizeof(reply), 0), 0);
    zmq_send(raw, "c", 1, 0);
    ck_assert(mtr_str_is(take(rep, &peer), "c"));
    zmq_close(raw);
    zmq_ctx_term(context);
    mtr_socket_close(rep);
}
END_TEST

START_TEST(a_served_path_is_not_stolen)
{
    struct mtr_socket *a = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err));
    ck_assert_int_eq(err.code, MTR_BUSY);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    mtr_socket_close(a);
    ck_assert_int_ne(access(path, F_OK), 0); /* it leaves nothing behind */
}
END_TEST

/* A listener of another process that takes no connection just now is not dead. */
START_TEST(a_busy_path_is_not_stolen)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int clients[8], fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(un.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    for (int i = 0; i < 8; i++) {
        clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(clients[i], (struct sockaddr *)&un, sizeof un);
    }
    ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err));
    ck_assert_int_eq(err.code, MTR_BUSY);
    for (int i = 0; i < 8; i++)
        close(clients[i]);
    close(fd);
}
END_TEST

START_TEST(a_stale_file_is_replaced)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    memcpy(un.sun_path, path, strlen(path));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    close(fd); /* as a killed process leaves it */
    struct mtr_socket *a = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    ck_assert_msg(a != NULL, "%s", err.message);
    mtr_socket_close(a);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(the_file_of_a_successor_is_left_alone)
{
    struct mtr_socket *a = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    ck_assert_int_eq(unlink(path), 0);
    struct mtr_socket *b = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    ck_assert(a && b);
    mtr_socket_close(a);
    ck_assert_int_eq(access(path, F_OK), 0);
    mtr_socket_close(b);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* The kernel's word, not the sender's. */
START_TEST(the_sender_is_known)
{
    struct mtr_str peer;
    struct mtr_socket *r = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_ptr_nonnull(r);
    pid_t child = fork();
    if (child == 0) {
        struct mtr_wire *w = mtr_wire_create(NULL);
        struct mtr_socket *d = mtr_socket_connect(w, MTR_SOCKET_DEALER, address, NULL, NULL);
        mtr_socket_send(d, (struct mtr_str){0}, MTR_STR("I am 1"), NULL);
        mtr_socket_close(d);
        mtr_wire_destroy(w);
        _exit(0);
    }
    ck_assert(mtr_str_is(take(r, &peer), "I am 1"));
    ck_assert_int_eq(mtr_socket_peer_pid(r), child);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    mtr_socket_close(r);
}
END_TEST

START_TEST(a_file_in_the_way_is_kept)
{
    close(open(path, O_CREAT | O_WRONLY, 0600));
    ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

START_TEST(bad_addresses)
{
    static const struct {
        const char *address;
        enum mtr_code code;
    } cases[] = {
        {"tcp://127.0.0.1:1", MTR_DENIED}, {"ipc://relative", MTR_INVALID},
        {"inproc://x", MTR_INVALID},       {"", MTR_INVALID},
        {"ipc://", MTR_INVALID},           {"ipc:///nonexistent/folder/s", MTR_IO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(mtr_socket_bind(wire, MTR_SOCKET_ROUTER, cases[i].address, NULL, &err));
        ck_assert_msg(err.code == cases[i].code, "%s: %s", cases[i].address, err.message);
    }
    ck_assert_ptr_null(
        mtr_socket_connect(wire, MTR_SOCKET_DEALER, "tcp://127.0.0.1:1", NULL, &err));
    ck_assert_int_eq(err.code, MTR_DENIED);
}
END_TEST

START_TEST(a_full_queue_is_busy)
{
    struct mtr_socket *d = mtr_socket_connect(wire, MTR_SOCKET_DEALER, address, NULL, &err);
    bool ok = true;
    for (int i = 0; i < 2 * MTR_WIRE_QUEUE_MESSAGES && ok; i++)
        ok = mtr_socket_send(d, (struct mtr_str){0}, MTR_STR("x"), &err);
    ck_assert(!ok);
    ck_assert_int_eq(err.code, MTR_BUSY);
    mtr_socket_close(d);
}
END_TEST

START_TEST(an_extra_descriptor_wakes)
{
    int fds[2];
    struct mtr_socket *r = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert(!mtr_socket_wait(r, fds[0], 1));
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    ck_assert(mtr_socket_wait(r, fds[0], WAIT_MS));
    ck_assert_int_ge(mtr_socket_fd(r), 0);
    close(fds[0]);
    close(fds[1]);
    mtr_socket_close(r);
}
END_TEST

MTR_CHECK_MAIN("wire/socket")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, router_and_dealers);
    tcase_add_test(tc, request_and_reply);
    tcase_add_test(tc, several_frames_are_dropped_and_the_next_is_taken);
    tcase_add_test(tc, a_served_path_is_not_stolen);
    tcase_add_test(tc, a_busy_path_is_not_stolen);
    tcase_add_test(tc, a_stale_file_is_replaced);
    tcase_add_test(tc, the_file_of_a_successor_is_left_alone);
    tcase_add_test(tc, the_sender_is_known);
    tcase_add_test(tc, a_file_in_the_way_is_kept);
    tcase_add_test(tc, bad_addresses);
    tcase_add_test(tc, a_full_queue_is_busy);
    tcase_add_test(tc, an_extra_descriptor_wakes);
}
