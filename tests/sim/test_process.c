/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler and scripted-worker processes over a real socket: what the simulation plays with,
 * done once for real. Tokens must be those of an undisturbed run, however workers die.
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/sched/sched.h"
#include "common/base/clock.h"
#include "common/wire/codec.h"
#include "common/wire/plan.pb-c.h"
#include "common/wire/socket.h"
#include "tests/support/scripted_model.h"
#include "tests/unit/check_main.h"

#define VOCAB    211
#define REQUESTS 8
#define OUTPUT   120
#define WAIT_MS  20000
#define BLOCKS   "160"

struct request {
    uint32_t prompt[40];
    uint32_t expected[OUTPUT];
    uint64_t id;
    uint32_t got;
    bool done;
};

static char dir[] = "/tmp/mtr-sim-XXXXXX";
static char address[96], path[64];
static struct mtr_wire *wire;
static struct mtr_socket *server;
static struct mtr_sched *sched;
static struct mtr_arena arena;
static struct mtr_error err;
static struct request requests[REQUESTS];
static pid_t pid;
static char peer_bytes[256];
static struct mtr_str peer;
static uint64_t epoch;
static uint32_t tokens; /* received in all */
static char failure[512];
static bool lied;

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

static void setup(void)
{
    struct mtr_sched_config c = {.geometry = {.vocab = VOCAB, .block_tokens = 16, .group_count = 1},
                                 .prefix_cache = true,
                                 .max_batch_size = REQUESTS,
                                 .max_num_seqs = REQUESTS,
                                 .max_prefill_tokens = 64,
                                 .max_sequence_tokens = 200,
                                 .max_score_rows = 64};
    memset(requests, 0, sizeof(requests));
    tokens = 0;
    epoch = 0;
    failure[0] = 0;
    lied = false;
    memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/plan.sock", dir);
    snprintf(address, sizeof(address), "ipc://%s", path);
    wire = mtr_wire_create(&err);
    server = mtr_socket_bind(wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_msg(server != NULL, "%s", err.message);
    sched = mtr_sched_create(&c, &err);
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        pid = 0;
    }
    mtr_sched_destroy(sched);
    mtr_socket_close(server);
    mtr_wire_destroy(wire);
    mtr_arena_free(&arena);
    unlink(path);
    rmdir(dir);
}

static void start_worker(const char *option, const char *value)
{
    char program[512];
    char *argv[] = {program,   "--connect", address,        "--check",     "--blocks", BLOCKS,
                    "--vocab", "211",       (char *)option, (char *)value, NULL};
    ck_assert_ptr_nonnull(getenv("MTR_BUILD_ROOT"));
    snprintf(program, sizeof(program), "%s/tests/support/scripted-worker",
             getenv("MTR_BUILD_ROOT"));
    ck_assert_int_eq(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
}

static void submit_all(void)
{
    struct mtr_scripted_config model = {
        .vocab = VOCAB, .block_tokens = 16, .group_count = 1, .physical = true};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct request *q = &requests[i];
        struct mtr_sched_params p = {.tokens = q->prompt,
                                     .token_count = 40,
                                     .max_tokens = OUTPUT,
                                     .sampling = mtr_sampling_greedy(),
                                     .user = q};
        p.sampling.seed = i;
        for (uint32_t t = 0; t < 40; t++)
            q->prompt[t] = t < 20 ? t : (t * i + 3) % VOCAB;
        struct mtr_scripted_request r = {.prompt = q->prompt, .prompt_count = 40, .seed = i};
        ck_assert_uint_eq(mtr_scripted_expect(&model, &r, OUTPUT, q->expected), OUTPUT);
        ck_assert(mtr_sched_submit(sched, &p, now_ns(), &q->id, &err));
    }
}

static void send_load(void)
{
    Mtr__LoadModel load = MTR__LOAD_MODEL__INIT;
    Mtr__FromBroker m = MTR__FROM_BROKER__INIT;
    struct mtr_buf bytes = {0};
    load.block_tokens = 16;
    load.max_slots = REQUESTS;
    m.epoch = ++epoch;
    m.body_case = MTR__FROM_BROKER__BODY_LOAD;
    m.load = &load;
    ck_assert(mtr_message_pack(&bytes, &m.base));
    ck_assert(mtr_socket_send(server, peer, mtr_buf_view(&bytes), &err));
    mtr_buf_free(&bytes);
}

static void take_events(void)
{
    const struct mtr_sched_event *events;
    size_t count = mtr_sched_events(sched, &events);
    for (size_t i = 0; i < count; i++) {
        struct request *q = events[i].user;
        q->done |= events[i].kind == MTR_SCHED_FINISHED;
        for (uint32_t t = 0; t < events[i].count; t++, tokens++)
            ck_assert_uint_eq(events[i].tokens[t], q->expected[q->got++]);
    }
}

static void take_message(const Mtr__FromWorker *m)
{
    struct mtr_sched_capacity capacity = {0};
    struct mtr_step_result result;
    if (m->body_case == MTR__FROM_WORKER__BODY_HELLO) {
        send_load();
    } else if (m->body_case == MTR__FROM_WORKER__BODY_READY) {
        ck_assert_uint_eq(m->ready->n_group_blocks, 1);
        capacity.group_blocks[0] = m->ready->group_blocks[0];
        ck_assert(mtr_sched_worker_ready(sched, &capacity, now_ns(), &err));
    } else if (m->body_case == MTR__FROM_WORKER__BODY_RESULT && m->epoch == epoch) {
        ck_assert(mtr_unpack_result(&arena, m, &result, &err));
        lied |= !mtr_sched_result(sched, &result, now_ns(), &err);
    } else if (m->body_case == MTR__FROM_WORKER__BODY_FAILURE) {
        snprintf(failure, sizeof(failure), "%s", m->failure->message);
    }
}

static void send_plans(void)
{
    const struct mtr_step_plan *plan;
    struct mtr_buf bytes = {0};
    while ((plan = mtr_sched_plan(sched, now_ns())) != NULL) {
        mtr_buf_clear(&bytes);
        ck_assert(mtr_pack_plan(&arena, &bytes, epoch, plan));
        if (!mtr_socket_send(server, peer, mtr_buf_view(&bytes), &err))
            break; /* it has died, as the test will see */
    }
    mtr_buf_free(&bytes);
}

/* Does what a broker does, for a moment. */
static void pump(void)
{
    struct mtr_str from, bytes;
    mtr_socket_wait(server, -1, 10);
    for (;;) {
        mtr_arena_reset(&arena);
        ck_assert(mtr_socket_receive(server, &arena, &from, &bytes, &err));
        if (!bytes.ptr)
            break;
        memcpy(peer_bytes, from.ptr, from.len);
        peer = (struct mtr_str){peer_bytes, from.len};
        const Mtr__FromWorker *m =
            mtr_message_unpack(&arena, &mtr__from_worker__descriptor, bytes, &err);
        ck_assert_ptr_nonnull(m);
        take_message(m);
        take_events();
        if (!lied)
            send_plans();
    }
}

static bool all_done(void)
{
    for (int i = 0; i < REQUESTS; i++)
        if (!requests[i].done)
            return false;
    return true;
}

/* Is the process gone? */
static bool has_died(void)
{
    if (waitpid(pid, NULL, WNOHANG) != pid)
        return false;
    pid = 0;
    return true;
}

static void lose_worker(void)
{
    mtr_sched_worker_lost(sched, now_ns());
    ck_assert(mtr_sched_check(sched, &err));
}

START_TEST(killed_in_the_middle)
{
    uint64_t end = now_ns() + WAIT_MS * MTR_NS_PER_MS;
    uint32_t kill_at = 150, kills = 0;
    submit_all();
    start_worker("--delay-us", "500");
    while (!all_done() && now_ns() < end) {
        pump();
        if (tokens >= kill_at && kills < 3) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            lose_worker();
            start_worker("--delay-us", "500");
            kill_at += 150;
            kills++;
        }
    }
    ck_assert_uint_eq(kills, 3);
    ck_assert(all_done());
    ck_assert_uint_eq(tokens, REQUESTS * OUTPUT);
}
END_TEST

START_TEST(crashes_by_itself)
{
    uint64_t end = now_ns() + WAIT_MS * MTR_NS_PER_MS;
    submit_all();
    start_worker("--crash-after", "40");
    while (!has_died() && now_ns() < end)
        pump();
    ck_assert_int_eq(pid, 0);
    ck_assert_uint_gt(tokens, 0);
    lose_worker();
    start_worker(NULL, NULL);
    while (!all_done() && now_ns() < end)
        pump();
    ck_assert_uint_eq(tokens, REQUESTS * OUTPUT);
}
END_TEST

START_TEST(says_why_it_fails)
{
    uint64_t end = now_ns() + WAIT_MS * MTR_NS_PER_MS;
    submit_all();
    start_worker("--fail-after", "5");
    while (!failure[0] && now_ns() < end)
        pump();
    ck_assert_ptr_nonnull(strstr(failure, "ordered to fail at step 5"));
}
END_TEST

START_TEST(lies_and_is_found_out)
{
    uint64_t end = now_ns() + WAIT_MS * MTR_NS_PER_MS;
    submit_all();
    start_worker("--lie-after", "9");
    while (!lied && now_ns() < end)
        pump();
    ck_assert(lied);
    ck_assert_ptr_nonnull(strstr(err.message, "step 9"));
}
END_TEST

MTR_CHECK_MAIN("sim/process")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, killed_in_the_middle);
    tcase_add_test(tc, crashes_by_itself);
    tcase_add_test(tc, says_why_it_fails);
    tcase_add_test(tc, lies_and_is_found_out);
}
