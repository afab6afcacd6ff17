/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What metralectl hears, asked over the real socket; the engine around it is a struct that the test
 * fills.
 */
#include "broker/engine/admin.c"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/check_main.h"

#define WAIT_MS 5000

static struct mtr_engine engine;
static struct mtr_log silent;
static struct mtr_metrics metrics;
static struct mtr_plan plan;
static struct mtr_served_model model;
static struct mtr_wire *wire;
static struct mtr_socket *client;
static struct mtr_arena arena;
static struct mtr_error err;
static char dir[] = "/tmp/mtr_admin_XXXXXX", address[80];
static const struct mtr_cache_group groups[] = {{.name = "full"}};

static uint64_t now(void *context)
{
    return 5 * MTR_NS_PER_S;
}

static void setup(void)
{
    struct mtr_sched_capacity capacity = {{64}, 0};
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(address, sizeof address, "ipc://%s/admin", dir);
    mtr_log_init(&silent, "test");
    silent.fd = -1;
    plan = (struct mtr_plan){.vocab = 512, .group_count = 1, .groups = groups};
    model = (struct mtr_served_model){.name = MTR_STR("tiny"), .plan = &plan};
    engine = (struct mtr_engine){.options = {.world_size = 1, .http_address = "127.0.0.1:8"},
                                 .model = &model,
                                 .metrics = &metrics,
                                 .log = &silent,
                                 .clock = {now, NULL},
                                 .started_ns = 2 * MTR_NS_PER_S,
                                 .was_ready = true,
                                 .sched_config = {.geometry = {512, 16, 1},
                                                  .max_batch_size = 8,
                                                  .max_num_seqs = 4,
                                                  .max_prefill_tokens = 64,
                                                  .max_sequence_tokens = 100,
                                                  .max_score_rows = 8}};
    pthread_mutex_init(&engine.status_lock, NULL);
    mtr_arena_init(&engine.round, 0);
    mtr_arena_init(&arena, 0);
    engine.sched = mtr_sched_create(&engine.sched_config, &err);
    ck_assert(engine.sched && mtr_sched_worker_ready(engine.sched, &capacity, 0, &err));
    engine.shutdown_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    wire = mtr_wire_create(&err);
    engine.admin_socket = mtr_socket_bind(wire, MTR_SOCKET_REP, address, NULL, &err);
    client = mtr_socket_connect(wire, MTR_SOCKET_REQ, address, NULL, &err);
    ck_assert_msg(engine.admin_socket && client, "%s", err.message);
}

static void teardown(void)
{
    mtr_socket_close(client);
    mtr_socket_close(engine.admin_socket);
    mtr_wire_destroy(wire);
    mtr_sched_destroy(engine.sched);
    mtr_buf_free(&engine.packed);
    mtr_arena_free(&engine.round);
    mtr_arena_free(&arena);
    close(engine.shutdown_fd);
    pthread_mutex_destroy(&engine.status_lock);
    rmdir(dir);
}

static const Mtr__AdminReply *ask_bytes(struct mtr_str bytes)
{
    struct mtr_str peer, message = {0};
    ck_assert(mtr_socket_send(client, (struct mtr_str){0}, bytes, &err));
    for (int i = 0; i < WAIT_MS / 5 && !message.ptr; i++) {
        mtr_socket_wait(engine.admin_socket, -1, 5);
        mtr_admin_receive(&engine);
        ck_assert(mtr_socket_receive(client, &arena, &peer, &message, &err));
    }
    ck_assert_msg(message.ptr != NULL, "no answer");
    const Mtr__AdminReply *reply =
        mtr_message_unpack(&arena, &mtr__admin_reply__descriptor, message, &err);
    ck_assert_msg(reply != NULL, "%s", err.message);
    return reply;
}

static const Mtr__AdminReply *ask(const Mtr__AdminRequest *request)
{
    struct mtr_buf bytes = {0};
    ck_assert(mtr_message_pack(&bytes, &request->base));
    const Mtr__AdminReply *reply = ask_bytes(mtr_buf_view(&bytes));
    mtr_buf_free(&bytes);
    return reply;
}

static const Mtr__StatusReply *ask_status(void)
{
    Mtr__AdminStatus body = MTR__ADMIN_STATUS__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_STATUS;
    request.status = &body;
    const Mtr__AdminReply *reply = ask(&request);
    ck_assert(!reply->error[0] && reply->status);
    return reply->status;
}

static const char *set_level(const char *level)
{
    Mtr__AdminLogLevel body = MTR__ADMIN_LOG_LEVEL__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    body.level = (char *)level;
    request.body_case = MTR__ADMIN_REQUEST__BODY_LOG_LEVEL;
    request.log_level = &body;
    return ask(&request)->error;
}

START_TEST(status_says_all_of_one_moment)
{
    struct mtr_worker *w = &engine.workers[0];
    *w = (struct mtr_worker){.state = MTR_WORKER_READY,
                             .pid = 77,
                             .steps = 9,
                             .restarts = 2,
                             .step_ns = 4 * MTR_NS_PER_S,
                             .memory_total_bytes = 100,
                             .memory_free_bytes = 40,
                             .device = "a machine"};
    const Mtr__StatusReply *s = ask_status();
    ck_assert_str_eq(s->model, "tiny");
    ck_assert_str_eq(s->state, "ready");
    ck_assert_str_eq(s->reason, "");
    ck_assert_str_eq(s->address, "127.0.0.1:8");
    ck_assert(s->uptime_ms == 3000 && s->was_ready && s->n_workers == 1 && s->n_groups == 1);
    const Mtr__WorkerStatus *k = s->workers[0];
    ck_assert(k->pid == 77 && k->steps == 9 && k->restarts == 2 && k->last_step_age_ms == 1000);
    ck_assert_str_eq(k->state, "ready");
    ck_assert_str_eq(k->device, "a machine");
    ck_assert_str_eq(s->groups[0]->name, "full");
    ck_assert(s->groups[0]->blocks == 64 && s->groups[0]->free == 64);
    w->silent = true;
    s = ask_status();
    ck_assert_str_eq(s->state, "degraded");
    ck_assert_str_eq(s->workers[0]->state, "silent");
    *w = (struct mtr_worker){.state = MTR_WORKER_ABSENT, .pid = 77, .restarts = 1};
    s = ask_status();
    ck_assert_str_eq(s->workers[0]->state, "absent");
    ck_assert_uint_eq(s->workers[0]->pid, 0); /* whose it may be by now */
}
END_TEST

START_TEST(sequences_are_listed)
{
    static const uint32_t prompt[] = {1, 2, 3};
    struct mtr_job job = {.name = "request-1"};
    struct mtr_job_state state = {.job = &job};
    struct mtr_choice choice = {.state = &state};
    struct mtr_sched_params p = {.tokens = prompt,
                                 .token_count = 3,
                                 .max_tokens = 5,
                                 .sampling = mtr_sampling_greedy(),
                                 .user = &choice};
    Mtr__AdminSequences body = MTR__ADMIN_SEQUENCES__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    request.body_case = MTR__ADMIN_REQUEST__BODY_SEQUENCES;
    request.sequences = &body;
    ck_assert_uint_eq(ask(&request)->sequences->n_sequences, 0);
    uint64_t id;
    ck_assert(mtr_sched_submit(engine.sched, &p, 2 * MTR_NS_PER_S, &id, &err));
    const Mtr__SequencesReply *s = ask(&request)->sequences;
    ck_assert_uint_eq(s->n_sequences, 1);
    ck_assert(s->sequences[0]->id == id && s->sequences[0]->prompt_tokens == 3);
    ck_assert_uint_eq(s->sequences[0]->age_ms, 3000);
    ck_assert_str_eq(s->sequences[0]->state, "waiting");
    ck_assert_str_eq(s->sequences[0]->request, "request-1");
}
END_TEST

START_TEST(orders_are_true_when_they_are_answered)
{
    Mtr__AdminDrain drain = MTR__ADMIN_DRAIN__INIT;
    Mtr__AdminResume resume = MTR__ADMIN_RESUME__INIT;
    Mtr__AdminShutdown shutdown = MTR__ADMIN_SHUTDOWN__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    struct pollfd p = {.fd = engine.shutdown_fd, .events = POLLIN};
    engine.workers[0].state = MTR_WORKER_READY;
    request.body_case = MTR__ADMIN_REQUEST__BODY_DRAIN;
    request.drain = &drain;
    ck_assert_str_eq(ask(&request)->error, "");
    ck_assert(engine.draining && engine.status.state == MTR_ENGINE_DRAINING);
    request.body_case = MTR__ADMIN_REQUEST__BODY_RESUME;
    request.resume = &resume;
    ck_assert_str_eq(ask(&request)->error, "");
    ck_assert(!engine.draining && engine.status.state == MTR_ENGINE_READY);
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    request.body_case = MTR__ADMIN_REQUEST__BODY_SHUTDOWN;
    request.shutdown = &shutdown;
    ck_assert_str_eq(ask(&request)->error, "");
    ck_assert_int_eq(poll(&p, 1, 0), 1);
}
END_TEST

START_TEST(levels_are_checked)
{
    ck_assert_str_eq(set_level("debug"), "");
    ck_assert_int_eq(silent.level, MTR_DEBUG);
    ck_assert_ptr_nonnull(strstr(set_level("loud"), "error, warn, info or debug"));
    ck_assert_ptr_nonnull(strstr(set_level(""), "error, warn, info or debug"));
    ck_assert_int_eq(silent.level, MTR_DEBUG);
}
END_TEST

START_TEST(nonsense_is_answered_and_the_next_is_heard)
{
    Mtr__AdminRequest nothing = MTR__ADMIN_REQUEST__INIT;
    ck_assert_ptr_nonnull(strstr(ask(&nothing)->error, "does not know"));
    ck_assert(ask_bytes(MTR_STR("\xff\xff\xff\xff"))->error[0]);
    ck_assert_str_eq(set_level("warn"), "");
}
END_TEST

MTR_CHECK_MAIN("engine/admin")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, status_says_all_of_one_moment);
    tcase_add_test(tc, sequences_are_listed);
    tcase_add_test(tc, orders_are_true_when_they_are_answered);
    tcase_add_test(tc, levels_are_checked);
    tcase_add_test(tc, nonsense_is_answered_and_the_next_is_heard);
}
