/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/session/link.c"

#include <string.h>

#include "tests/unit/check_main.h"

static char dir[32];
static char address[64];
static struct mtr_wire *wire;
static struct mtr_socket *broker;
static struct mtr_link *l;
static struct mtr_arena arena;
static struct mtr_str peer;
static char peer_bytes[256];

static void setup(void)
{
    struct mtr_error err;
    snprintf(dir, sizeof dir, "/tmp/mtr-link-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(address, sizeof address, "ipc://%s/s", dir);
    wire = mtr_wire_create(&err);
    broker = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_msg(broker != NULL, "%s", err.message);
    l = mtr_link_open(address, NULL, &err);
    ck_assert_msg(l != NULL, "%s", err.message);
    mtr_arena_init(&arena, 1u << 20);
}

static void teardown(void)
{
    mtr_link_close(l);
    mtr_socket_close(broker);
    mtr_wire_destroy(wire);
    mtr_arena_free(&arena);
    unlink(address + 6);
    rmdir(dir);
}

static const Mtr__FromWorker *next(int timeout_ms)
{
    struct mtr_str from, bytes = {0};
    struct mtr_error err;
    mtr_arena_reset(&arena);
    for (int i = 0; i < 50 && !bytes.ptr; i++) {
        mtr_socket_wait(broker, -1, timeout_ms / 50);
        ck_assert(mtr_socket_receive(broker, &arena, &from, &bytes, &err));
    }
    ck_assert_msg(bytes.ptr != NULL, "nothing came");
    ck_assert_uint_le(from.len, sizeof peer_bytes);
    memcpy(peer_bytes, from.ptr, from.len);
    peer = (struct mtr_str){peer_bytes, from.len};
    return mtr_message_unpack(&arena, &mtr__from_worker__descriptor, bytes, &err);
}

static void send_exit(void)
{
    struct mtr_buf out = {0};
    struct mtr_error err;
    Mtr__Exit leave = MTR__EXIT__INIT;
    Mtr__FromBroker m = MTR__FROM_BROKER__INIT;
    m.body_case = MTR__FROM_BROKER__BODY_EXIT;
    m.exit = &leave;
    ck_assert(mtr_message_pack(&out, &m.base));
    ck_assert_msg(mtr_socket_send(broker, peer, mtr_buf_view(&out), &err), "%s", err.message);
    mtr_buf_free(&out);
}

static bool send_failure(const char *text)
{
    Mtr__Failure failure = MTR__FAILURE__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    failure.message = (char *)text;
    m.body_case = MTR__FROM_WORKER__BODY_FAILURE;
    m.failure = &failure;
    return mtr_link_send(l, &m, 100, NULL);
}

START_TEST(messages_carry_the_epoch)
{
    ck_assert(send_failure("one"));
    ck_assert_uint_eq(next(5000)->epoch, 0);
    mtr_link_set_epoch(l, 42);
    ck_assert(send_failure("two"));
    const Mtr__FromWorker *m = next(5000);
    ck_assert_uint_eq(m->epoch, 42);
    ck_assert_str_eq(m->failure->message, "two");
}
END_TEST

START_TEST(heartbeats_come_by_themselves)
{
    mtr_link_set_step(l, 9);
    const Mtr__FromWorker *m = next(5000);
    ck_assert_int_eq(m->body_case, MTR__FROM_WORKER__BODY_HEARTBEAT);
    ck_assert_uint_eq(m->heartbeat->last_step, 9);
    ck_assert_uint_gt(m->heartbeat->memory_free_bytes, 0);
    ck_assert_uint_gt(m->heartbeat->sent_ns, 0);
}
END_TEST

/* The heartbeat thread's sends may swallow the sign that a message came; none may be missed. */
START_TEST(no_message_is_slept_through)
{
    const Mtr__FromBroker *m;
    struct mtr_arena mine;
    mtr_arena_init(&mine, 1u << 20);
    ck_assert(send_failure("hello"));
    next(5000);
    for (int i = 0; i < 3; i++) {
        uint64_t begin = now_ns();
        for (m = NULL; !m;) {
            ck_assert(mtr_link_receive(l, &mine, &m, NULL));
            if (m)
                break;
            if (next(5000)->body_case == MTR__FROM_WORKER__BODY_HEARTBEAT)
                send_exit(); /* right after a heartbeat */
            mtr_link_wait(l, -1, 10000000);
        }
        ck_assert_int_eq(m->body_case, MTR__FROM_BROKER__BODY_EXIT);
        ck_assert_uint_lt(now_ns() - begin, 5 * MTR_NS_PER_S);
        ck_assert_uint_ge(mtr_link_heard_ns(l), begin);
    }
    mtr_arena_free(&mine);
}
END_TEST

START_TEST(other_descriptors_wake_it)
{
    int fds[2];
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(write(fds[1], "x", 1), 1);
    uint64_t begin = now_ns();
    mtr_link_wait(l, fds[0], 3000000);
    ck_assert_uint_lt(now_ns() - begin, 2 * MTR_NS_PER_S);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

START_TEST(junk_is_an_error)
{
    const Mtr__FromBroker *m;
    struct mtr_error err = {0};
    ck_assert(send_failure("hello"));
    next(5000);
    ck_assert(mtr_socket_send(broker, peer, MTR_STR("\xff\xff"), NULL));
    bool ok = true;
    for (int i = 0; i < 50 && ok; i++) {
        mtr_link_wait(l, -1, 100000);
        ok = mtr_link_receive(l, &arena, &m, &err);
    }
    ck_assert(!ok);
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

START_TEST(tcp_without_keys_is_refused)
{
    struct mtr_error err = {0};
    ck_assert_ptr_null(mtr_link_open("tcp://127.0.0.1:1", NULL, &err));
    ck_assert_int_ne(err.code, MTR_OK);
}
END_TEST

MTR_CHECK_MAIN("session/link")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, messages_carry_the_epoch);
    tcase_add_test(tc, heartbeats_come_by_themselves);
    tcase_add_test(tc, no_message_is_slept_through);
    tcase_add_test(tc, other_descriptors_wake_it);
    tcase_add_test(tc, junk_is_an_error);
    tcase_add_test(tc, tcp_without_keys_is_refused);
}
