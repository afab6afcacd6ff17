/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Asking a running broker over its admin socket.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/wire/address.h"
#include "common/wire/codec.h"
#include "common/wire/socket.h"
#include "ctl/ctl.h"

#define ANSWER_TIMEOUT_MS 5000
#define DEFAULT_PORT      8888
#define SYSTEM_RUN_DIR    "/run/metrale"

size_t mtr_admin_flags(struct mtr_admin_target *t, struct mtr_flag *flags)
{
    t->port = t->port ? t->port : DEFAULT_PORT;
    flags[0] = (struct mtr_flag){
        "port", MTR_FLAG_U32, &t->port, "N", "the server with this HTTP port", 0, 65535, NULL};
    flags[1] = (struct mtr_flag){
        "run-dir", MTR_FLAG_STRING, &t->run_dir, "PATH", "the server with this run directory", 0, 0,
        NULL};
    flags[2] = (struct mtr_flag){"admin-socket",
                                 MTR_FLAG_STRING,
                                 &t->admin_socket,
                                 "ADDRESS",
                                 "the server with this admin socket",
                                 0,
                                 0,
                                 NULL};
    return MTR_ADMIN_FLAGS;
}

static bool socket_exists(const char *address)
{
    struct stat st;
    return strncmp(address, "ipc://", 6) == 0 && stat(address + 6, &st) == 0 &&
           S_ISSOCK(st.st_mode);
}

/* By flag, by port, or the system's service. */
static const char *find_socket(struct mtr_arena *arena, const struct mtr_admin_target *t,
                               struct mtr_error *err)
{
    if (t->admin_socket)
        return t->admin_socket;
    const char *dir = t->run_dir ? t->run_dir : mtr_default_run_dir(arena, t->port);
    const char *address = mtr_admin_address(arena, dir);
    if (address && socket_exists(address))
        return address;
    const char *system = mtr_admin_address(arena, SYSTEM_RUN_DIR);
    if (!t->run_dir && system && socket_exists(system))
        return system;
    mtr_fail(err, MTR_NOT_FOUND, "no server runs there: %s/admin.sock does not exist", dir);
    return NULL;
}

static const Mtr__AdminReply *exchange(struct mtr_arena *arena, struct mtr_socket *s,
                                       const Mtr__AdminRequest *request, struct mtr_error *err)
{
    struct mtr_clock clock = mtr_clock_monotonic();
    struct mtr_buf bytes = {0};
    struct mtr_str peer, message = {0};
    bool ok = mtr_message_pack(&bytes, &request->base) &&
              mtr_socket_send(s, (struct mtr_str){0}, mtr_buf_view(&bytes), err);
    mtr_buf_free(&bytes);
    uint64_t end = mtr_now_ns(&clock) + ANSWER_TIMEOUT_MS * MTR_NS_PER_MS;
    while (ok && !message.ptr && mtr_now_ns(&clock) < end) {
        mtr_socket_wait(s, -1, 100);
        ok = mtr_socket_receive(s, arena, &peer, &message, err);
    }
    if (!ok)
        return NULL;
    if (!message.ptr) {
        mtr_fail(err, MTR_TIMEOUT, "the server did not answer within %d s",
                 ANSWER_TIMEOUT_MS / 1000);
        return NULL;
    }
    return mtr_message_unpack(arena, &mtr__admin_reply__descriptor, message, err);
}

const Mtr__AdminReply *mtr_admin_ask(struct mtr_arena *arena, const struct mtr_admin_target *t,
                                     const Mtr__AdminRequest *request, struct mtr_error *err)
{
    const char *address = find_socket(arena, t, err);
    struct mtr_wire *wire = address ? mtr_wire_create(err) : NULL;
    struct mtr_socket *s =
        wire ? mtr_socket_connect(wire, MTR_SOCKET_REQ, address, NULL, err) : NULL;
    const Mtr__AdminReply *reply = s ? exchange(arena, s, request, err) : NULL;
    mtr_socket_close(s);
    mtr_wire_destroy(wire);
    if (reply && reply->error[0]) {
        mtr_fail(err, MTR_IO, "%s", reply->error);
        return NULL;
    }
    return reply;
}

/* ---- Commands without an answer to show -------------------------------------------------------
 */

/* Asks for something that is done or not. */
static int order(int argc, char **argv, const Mtr__AdminRequest *request, const char *done)
{
    struct mtr_admin_target target = {0};
    struct mtr_flag flags[MTR_ADMIN_FLAGS + 1];
    struct mtr_error error = {0};
    struct mtr_arena arena;
    bool help = false;
    size_t n = mtr_admin_flags(&target, flags), positionals;
    flags[n++] = (struct mtr_flag){"help", MTR_FLAG_BOOL, &help, NULL, "print this", 0, 0, NULL};
    if (!mtr_flags_parse(flags, n, argc, argv, NULL, 0, &positionals, &error))
        return mtr_ctl_error(argv[0], &error);
    if (help)
        return mtr_ctl_help(argv[0], flags, n);
    mtr_arena_init(&arena, 1u << 24);
    const Mtr__AdminReply *reply = mtr_admin_ask(&arena, &target, request, &error);
    if (reply)
        printf("%s\n", done);
    mtr_arena_free(&arena);
    return reply ? 0 : mtr_ctl_error(argv[0], &error);
}

int mtr_ctl_drain(int argc, char **argv)
{
    Mtr__AdminDrain body = MTR__ADMIN_DRAIN__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_DRAIN;
    request.drain = &body;
    return order(argc, argv, &request, "draining: new requests are refused");
}

int mtr_ctl_resume(int argc, char **argv)
{
    Mtr__AdminResume body = MTR__ADMIN_RESUME__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_RESUME;
    request.resume = &body;
    return order(argc, argv, &request, "new requests are taken again");
}

int mtr_ctl_shutdown(int argc, char **argv)
{
    Mtr__AdminShutdown body = MTR__ADMIN_SHUTDOWN__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_SHUTDOWN;
    request.shutdown = &body;
    return order(argc, argv, &request, "shutting down");
}

int mtr_ctl_log_level(int argc, char **argv)
{
    Mtr__AdminLogLevel body = MTR__ADMIN_LOG_LEVEL__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    struct mtr_error error = {0};
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc < 2 || (argv[1][0] == '-' && !help)) {
        mtr_fail(&error, MTR_INVALID, "which level? error, warn, info or debug");
        return mtr_ctl_error(argv[0], &error);
    }
    if (!help) {
        body.level = argv[1];
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    request.body_case = MTR__ADMIN_REQUEST__BODY_LOG_LEVEL;
    request.log_level = &body;
    return order(argc, argv, &request, "the log level was set");
}
