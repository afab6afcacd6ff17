/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Orders to a broker that the test plays, on a thread of its own. */
#include "ctl/admin.c"

#include <pthread.h>

#include "tests/unit/ctl/captured.h"

static struct captured c;
static char dir[] = "/tmp/mtr_ctl_XXXXXX", address[96], heard[64];
static struct mtr_wire *wire;
static struct mtr_socket *broker;
static struct mtr_error err;
static const char *says; /* the error of its next answer; NULL: bytes that are no message */
static int heard_case;
static pthread_t thread;

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(address, sizeof address, "ipc://%s/admin.sock", dir);
    wire = mtr_wire_create(&err);
    broker = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    ck_assert_msg(broker != NULL, "%s", err.message);
    heard[0] = '\0';
}

static void teardown(void)
{
    mtr_socket_close(broker);
    mtr_wire_destroy(wire);
    rmdir(dir);
}

static void *answer_once(void *context)
{
    struct mtr_arena arena;
    struct mtr_buf bytes = {0};
    struct mtr_str peer, message = {0};
    Mtr__AdminReply reply = MTR__ADMIN_REPLY__INIT;
    mtr_arena_init(&arena, 0);
    for (int i = 0; i < 500 && !message.ptr; i++) {
        mtr_socket_wait(broker, -1, 10);
        mtr_socket_receive(broker, &arena, &peer, &message, NULL);
    }
    const Mtr__AdminRequest *r =
        mtr_message_unpack(&arena, &mtr__admin_request__descriptor, message, NULL);
    heard_case = r ? (int)r->body_case : -1;
    if (r && r->body_case == MTR__ADMIN_REQUEST__BODY_LOG_LEVEL)
        snprintf(heard, sizeof heard, "%s", r->log_level->level);
    reply.error = (char *)says;
    if (says)
        mtr_message_pack(&bytes, &reply.base);
    else
        mtr_buf_puts(&bytes, "\xff\xff");
    mtr_socket_send(broker, (struct mtr_str){0}, mtr_buf_view(&bytes), NULL);
    mtr_buf_free(&bytes);
    mtr_arena_free(&arena);
    return NULL;
}

/* The command, with the flag that says where the broker is, while it answers so. */
static void order_with(int (*run)(int, char **), const char *name, const char *argument,
                       const char *answer)
{
    says = answer;
    ck_assert_int_eq(pthread_create(&thread, NULL, answer_once, NULL), 0);
    if (argument)
        CAPTURE(&c, run, name, argument, "--run-dir", dir);
    else
        CAPTURE(&c, run, name, "--admin-socket", address);
    pthread_join(thread, NULL);
}

START_TEST(orders_are_given)
{
    order_with(mtr_ctl_drain, "drain", NULL, "");
    ck_assert_msg(c.status == 0 && heard_case == MTR__ADMIN_REQUEST__BODY_DRAIN, "%s", c.err);
    ck_assert_ptr_nonnull(strstr(c.out, "draining"));
    order_with(mtr_ctl_resume, "resume", NULL, "");
    ck_assert(c.status == 0 && heard_case == MTR__ADMIN_REQUEST__BODY_RESUME);
    order_with(mtr_ctl_shutdown, "shutdown", NULL, "");
    ck_assert(c.status == 0 && heard_case == MTR__ADMIN_REQUEST__BODY_SHUTDOWN);
    order_with(mtr_ctl_log_level, "log-level", "debug", "");
    ck_assert(c.status == 0 && heard_case == MTR__ADMIN_REQUEST__BODY_LOG_LEVEL);
    ck_assert_str_eq(heard, "debug");
}
END_TEST

START_TEST(a_refusal_is_told)
{
    order_with(mtr_ctl_log_level, "log-level", "loud", "the level must be quiet");
    ck_assert(c.status == MTR_EXIT_FAILED && !c.out[0]);
    ck_assert_str_eq(c.err, "metralectl log-level: the level must be quiet\n");
}
END_TEST

START_TEST(nonsense_is_no_success)
{
    order_with(mtr_ctl_drain, "drain", NULL, NULL);
    ck_assert(c.status != 0 && !c.out[0] && c.err[0]);
}
END_TEST

START_TEST(a_broker_that_says_nothing)
{
    CAPTURE(&c, mtr_ctl_drain, "drain", "--admin-socket", address);
    ck_assert(c.status == MTR_EXIT_FAILED && strstr(c.err, "did not answer within 5 s"));
}
END_TEST

START_TEST(which_server_is_meant)
{
    struct mtr_arena arena;
    struct mtr_admin_target t = {.run_dir = dir, .port = 1};
    mtr_arena_init(&arena, 0);
    ck_assert_str_eq(find_socket(&arena, &t, &err), address);
    t.admin_socket = "ipc:///elsewhere"; /* goes before all */
    ck_assert_str_eq(find_socket(&arena, &t, &err), "ipc:///elsewhere");
    t = (struct mtr_admin_target){.run_dir = "/nonexistent", .port = 1};
    ck_assert_ptr_null(find_socket(&arena, &t, &err));
    ck_assert(err.code == MTR_NOT_FOUND && strstr(err.message, "/nonexistent/admin.sock"));
    mtr_arena_free(&arena);
}
END_TEST

START_TEST(a_level_is_needed)
{
    CAPTURE(&c, mtr_ctl_log_level, "log-level");
    ck_assert(c.status == MTR_EXIT_USAGE && strstr(c.err, "which level"));
    CAPTURE(&c, mtr_ctl_log_level, "log-level", "--run-dir", dir);
    ck_assert_int_eq(c.status, MTR_EXIT_USAGE);
}
END_TEST

MTR_CHECK_MAIN("ctl/admin")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, orders_are_given);
    tcase_add_test(tc, a_refusal_is_told);
    tcase_add_test(tc, nonsense_is_no_success);
    tcase_add_test(tc, a_broker_that_says_nothing);
    tcase_add_test(tc, which_server_is_meant);
    tcase_add_test(tc, a_level_is_needed);
}
