/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/worker_process.h"

#include <check.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/wire/codec.h"

#define MAX_ARGUMENTS 32
#define ARENA_BYTES   (256u << 20)

static uint64_t now_ms(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c) / MTR_NS_PER_MS;
}

static void spawn(struct worker_process *w, const char *const *arguments)
{
    char program[512];
    char *argv[MAX_ARGUMENTS] = {program, "--connect", w->address};
    const char *root = getenv("MTR_BUILD_ROOT");
    ck_assert_msg(root != NULL, "MTR_BUILD_ROOT is not set");
    snprintf(program, sizeof program, "%s/worker/metrale-worker", root);
    for (int i = 0; arguments[i]; i++)
        argv[3 + i] = (char *)arguments[i];
    ck_assert_int_eq(posix_spawn(&w->pid, program, NULL, NULL, argv, environ), 0);
}

void worker_start(struct worker_process *w, const char *const *arguments)
{
    struct mtr_error err;
    *w = (struct worker_process){.dir = "/tmp/mtr-worker-XXXXXX"};
    mtr_arena_init(&w->arena, ARENA_BYTES);
    mtr_arena_init(&w->scratch, ARENA_BYTES);
    ck_assert_ptr_nonnull(mkdtemp(w->dir));
    snprintf(w->address, sizeof w->address, "ipc://%s/plan.sock", w->dir);
    w->wire = mtr_wire_create(&err);
    ck_assert_ptr_nonnull(w->wire);
    w->socket = mtr_socket_bind(w->wire, MTR_SOCKET_ROUTER, w->address, NULL, &err);
    ck_assert_msg(w->socket != NULL, "%s", err.message);
    spawn(w, arguments);
}

void worker_clean(struct worker_process *w)
{
    char path[128];
    if (w->pid > 0) {
        kill(w->pid, SIGKILL);
        waitpid(w->pid, NULL, 0);
    }
    mtr_socket_close(w->socket);
    mtr_wire_destroy(w->wire);
    mtr_buf_free(&w->out);
    mtr_arena_free(&w->scratch);
    mtr_arena_free(&w->arena);
    snprintf(path, sizeof path, "%s/plan.sock", w->dir);
    unlink(path);
    rmdir(w->dir);
}

static void send_bytes(struct worker_process *w)
{
    struct mtr_error err;
    ck_assert_msg(mtr_socket_send(w->socket, w->peer, mtr_buf_view(&w->out), &err), "%s",
                  err.message);
}

void worker_send(struct worker_process *w, Mtr__FromBroker *message)
{
    message->epoch = w->epoch;
    mtr_buf_clear(&w->out);
    ck_assert(mtr_message_pack(&w->out, &message->base));
    send_bytes(w);
}

void worker_send_load(struct worker_process *w, const char *checkpoint, const char *digest_hex)
{
    Mtr__LoadModel load = MTR__LOAD_MODEL__INIT;
    Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
    uint8_t digest[32] = {0};
    load.checkpoint = (char *)checkpoint;
    load.cache_format = "f32";
    load.block_tokens = 16;
    load.cache_bytes = 8u << 20;
    load.max_slots = 4;
    load.max_step_tokens = 128;
    load.max_step_outputs = 16;
    load.max_sequence_tokens = 256;
    load.threads = 2;
    for (size_t i = 0; digest_hex && i < 32; i++) {
        unsigned byte;
        ck_assert_int_eq(sscanf(digest_hex + 2 * i, "%2x", &byte), 1);
        digest[i] = (uint8_t)byte;
    }
    if (digest_hex)
        load.plan_digest = (ProtobufCBinaryData){32, digest};
    message.body_case = MTR__FROM_BROKER__BODY_LOAD;
    message.load = &load;
    w->epoch = 7;
    worker_send(w, &message);
}

void worker_send_plan(struct worker_process *w, const struct mtr_step_plan *plan)
{
    mtr_buf_clear(&w->out);
    mtr_arena_reset(&w->scratch);
    ck_assert(mtr_pack_plan(&w->scratch, &w->out, w->epoch, plan));
    send_bytes(w);
}

void worker_send_exit(struct worker_process *w)
{
    Mtr__Exit leave = MTR__EXIT__INIT;
    Mtr__FromBroker message = MTR__FROM_BROKER__INIT;
    leave.reason = "the test is over";
    message.body_case = MTR__FROM_BROKER__BODY_EXIT;
    message.exit = &leave;
    worker_send(w, &message);
}

/* One message, or NULL after the deadline. */
static const Mtr__FromWorker *take(struct worker_process *w, uint64_t deadline_ms)
{
    struct mtr_error err;
    for (;;) {
        struct mtr_str peer, bytes;
        mtr_arena_reset(&w->arena);
        ck_assert_msg(mtr_socket_receive(w->socket, &w->arena, &peer, &bytes, &err), "%s",
                      err.message);
        if (bytes.ptr) {
            ck_assert_uint_le(peer.len, sizeof w->peer_bytes);
            memcpy(w->peer_bytes, peer.ptr, peer.len);
            w->peer = (struct mtr_str){w->peer_bytes, peer.len};
            const Mtr__FromWorker *m =
                mtr_message_unpack(&w->arena, &mtr__from_worker__descriptor, bytes, &err);
            ck_assert_msg(m != NULL, "%s", err.message);
            return m;
        }
        uint64_t now = now_ms();
        if (now >= deadline_ms)
            return NULL;
        mtr_socket_wait(w->socket, -1, (int)(deadline_ms - now));
    }
}

static bool count_small(struct worker_process *w, const Mtr__FromWorker *m)
{
    bool beat = m->body_case == MTR__FROM_WORKER__BODY_HEARTBEAT;
    bool progress = m->body_case == MTR__FROM_WORKER__BODY_PROGRESS;
    w->heartbeats += beat;
    w->progress += progress;
    return beat || progress;
}

const Mtr__FromWorker *worker_receive(struct worker_process *w)
{
    uint64_t deadline = now_ms() + WORKER_WAIT_MS;
    const Mtr__FromWorker *m;
    do {
        m = take(w, deadline);
        ck_assert_msg(m != NULL, "no message in %d ms", WORKER_WAIT_MS);
    } while (count_small(w, m));
    return m;
}

uint32_t worker_heartbeats_in(struct worker_process *w, int ms)
{
    uint64_t deadline = now_ms() + (uint64_t)ms;
    uint32_t before = w->heartbeats;
    for (const Mtr__FromWorker *m; (m = take(w, deadline)) != NULL;)
        ck_assert(count_small(w, m));
    return w->heartbeats - before;
}

int worker_status(struct worker_process *w)
{
    int status;
    uint64_t deadline = now_ms() + WORKER_WAIT_MS;
    while (waitpid(w->pid, &status, WNOHANG) == 0) {
        ck_assert_msg(now_ms() < deadline, "the worker did not end in %d ms", WORKER_WAIT_MS);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    w->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
