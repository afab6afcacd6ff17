/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The worker program, its broker played by this test. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/hash.h"
#include "common/checkpoint/checkpoint.h"
#include "common/wire/codec.h"
#include "tests/support/worker_process.h"
#include "tests/unit/check_main.h"

#define PROMPT 70
#define GREEDY 24

static const char *const plain[] = {NULL};
static struct worker_process w;
static uint32_t golden[PROMPT + GREEDY];
static char model[512];

static void read_golden(void)
{
    struct mtr_arena arena;
    char path[600];
    const char *root = getenv("MTR_SOURCE_ROOT");
    ck_assert_ptr_nonnull(root);
    snprintf(model, sizeof model, "%s/tests/golden/llama", root);
    snprintf(path, sizeof path, "%s/golden.safetensors", model);
    mtr_arena_init(&arena, 0);
    struct mtr_checkpoint *c = mtr_checkpoint_open(&arena, path, NULL, NULL);
    ck_assert_ptr_nonnull(c);
    memcpy(golden, mtr_checkpoint_data(c, mtr_checkpoint_find(c, MTR_STR("prompt"))), PROMPT * 4);
    memcpy(golden + PROMPT, mtr_checkpoint_data(c, mtr_checkpoint_find(c, MTR_STR("greedy"))),
           GREEDY * 4);
    mtr_checkpoint_close(c);
    mtr_arena_free(&arena);
}

static const Mtr__FromWorker *receive(int body)
{
    const Mtr__FromWorker *m = worker_receive(&w);
    if (m->body_case == MTR__FROM_WORKER__BODY_FAILURE && body != MTR__FROM_WORKER__BODY_FAILURE)
        ck_abort_msg("the worker failed: %s", m->failure->message);
    ck_assert_int_eq(m->body_case, body);
    return m;
}

static void start_ready(const char *const *arguments)
{
    read_golden();
    worker_start(&w, arguments);
    receive(MTR__FROM_WORKER__BODY_HELLO);
    worker_send_load(&w, model, NULL);
    receive(MTR__FROM_WORKER__BODY_READY);
}

static void ck_failure(const char *code, const char *word)
{
    const Mtr__FromWorker *m = receive(MTR__FROM_WORKER__BODY_FAILURE);
    ck_assert_str_eq(m->failure->code, code);
    ck_assert_msg(strstr(m->failure->message, word) != NULL, "\"%s\" is not in \"%s\"", word,
                  m->failure->message);
    ck_assert_int_eq(worker_status(&w), 1);
    worker_clean(&w);
}

static const uint32_t blocks[6] = {5, 0, 3, 1, 4, 2};
static const struct mtr_table_change table = {.count = 6, .blocks = blocks};

static struct mtr_lane prompt_lane(void)
{
    return (struct mtr_lane){.sequence = 11,
                             .open = true,
                             .count = PROMPT,
                             .tokens = golden,
                             .table_count = 1,
                             .tables = &table,
                             .outputs = 1};
}

static void send_step(uint64_t step, const struct mtr_lane *lane)
{
    worker_send_plan(&w, &(struct mtr_step_plan){.step = step, .lane_count = 1, .lanes = lane});
}

static void ck_token(uint64_t step, uint32_t token)
{
    const Mtr__FromWorker *m = receive(MTR__FROM_WORKER__BODY_RESULT);
    ck_assert_uint_eq(m->epoch, 7);
    ck_assert_uint_eq(m->result->step, step);
    ck_assert_uint_eq(m->result->n_lanes, 1);
    ck_assert_uint_eq(m->result->lanes[0]->sequence, 11);
    ck_assert_uint_eq(m->result->lanes[0]->n_tokens, 1);
    ck_assert_uint_eq(m->result->lanes[0]->tokens[0], token);
}

START_TEST(says_who_it_is)
{
    const char *const arguments[] = {"--rank", "3", "--threads", "1", NULL};
    worker_start(&w, arguments);
    const Mtr__FromWorker *m = receive(MTR__FROM_WORKER__BODY_HELLO);
    ck_assert_uint_eq(m->epoch, 0);
    ck_assert_uint_eq(m->hello->rank, 3);
    ck_assert_uint_eq(m->hello->protocol, MTR_PROTOCOL_VERSION);
    ck_assert_uint_eq(m->hello->pid, (uint32_t)w.pid);
    ck_assert_str_eq(m->hello->hardware, "host");
    ck_assert_uint_gt(m->hello->memory_free_bytes, 0);
    worker_send_exit(&w);
    ck_assert_int_eq(worker_status(&w), 0);
    worker_clean(&w);
}
END_TEST

START_TEST(runs_plans_two_in_flight)
{
    start_ready(plain);
    ck_assert_uint_gt(w.progress, 0);
    struct mtr_lane lane = prompt_lane();
    send_step(1, &lane);
    for (uint32_t i = 0; i < GREEDY; i++) {
        lane = (struct mtr_lane){.sequence = 11, .start = PROMPT + i, .count = 1, .outputs = 1};
        if (i + 1 < GREEDY)
            send_step(2 + i, &lane); /* its token is still being computed */
        ck_token(1 + i, golden[PROMPT + i]);
    }
    worker_send_exit(&w);
    ck_assert_int_eq(worker_status(&w), 0);
    worker_clean(&w);
}
END_TEST

/* Of what it says that all must agree on. */
static void read_digest(const Mtr__Ready *ready, char digest[65])
{
    digest[0] = '\0';
    for (size_t i = 0; i < ready->n_agreement; i++)
        if (strncmp(ready->agreement[i], "plan=", 5) == 0)
            snprintf(digest, 65, "%s", ready->agreement[i] + 5);
    ck_assert_uint_eq(strlen(digest), 64);
}

START_TEST(agrees_on_the_plan_or_refuses)
{
    char digest[65];
    read_golden();
    worker_start(&w, plain);
    receive(MTR__FROM_WORKER__BODY_HELLO);
    worker_send_load(&w, model, NULL);
    const Mtr__FromWorker *m = receive(MTR__FROM_WORKER__BODY_READY);
    ck_assert_uint_eq(m->ready->n_group_blocks, 1);
    ck_assert_uint_gt(m->ready->group_blocks[0], 16);
    ck_assert_uint_le(m->ready->cache_bytes, 8u << 20);
    read_digest(m->ready, digest);
    worker_send_exit(&w);
    worker_status(&w);
    worker_clean(&w);

    worker_start(&w, plain);
    receive(MTR__FROM_WORKER__BODY_HELLO);
    worker_send_load(&w, model, digest);
    receive(MTR__FROM_WORKER__BODY_READY);
    worker_clean(&w);

    worker_start(&w, plain);
    receive(MTR__FROM_WORKER__BODY_HELLO);
    digest[0] = digest[0] == '0' ? '1' : '0';
    worker_send_load(&w, model, digest);
    ck_failure("invalid", digest);
}
END_TEST

START_TEST(a_missing_checkpoint_is_named)
{
    worker_start(&w, plain);
    receive(MTR__FROM_WORKER__BODY_HELLO);
    worker_send_load(&w, "/nonexistent/model.gguf", NULL);
    ck_failure("not_found", "/nonexistent/model.gguf");
}
END_TEST

START_TEST(a_bad_plan_ends_it_with_the_reason)
{
    start_ready(plain);
    struct mtr_lane lane = prompt_lane();
    lane.slot = 9;
    send_step(1, &lane);
    ck_failure("invalid", "slot 9 of 4");
}
END_TEST

START_TEST(a_gap_in_the_steps_ends_it)
{
    start_ready(plain);
    struct mtr_lane lane = prompt_lane();
    send_step(2, &lane);
    ck_failure("invalid", "step 2 after step 0");
}
END_TEST

START_TEST(bytes_that_are_no_message_end_it)
{
    start_ready(plain);
    struct mtr_error err;
    ck_assert(mtr_socket_send(w.socket, w.peer, MTR_STR("\xff\xff\xff\xff"), &err));
    ck_failure("invalid", "no FromBroker message");
}
END_TEST

START_TEST(heartbeats_stop_when_it_is_stopped)
{
    start_ready(plain);
    ck_assert_uint_ge(worker_heartbeats_in(&w, 2500), 1);
    kill(w.pid, SIGSTOP);
    worker_heartbeats_in(&w, 300); /* what was on its way */
    ck_assert_uint_eq(worker_heartbeats_in(&w, 2200), 0);
    kill(w.pid, SIGCONT);
    ck_assert_uint_ge(worker_heartbeats_in(&w, 2500), 1);
    struct mtr_lane lane = prompt_lane();
    send_step(1, &lane);
    ck_token(1, golden[PROMPT]);
    worker_clean(&w);
}
END_TEST

START_TEST(a_silent_broker_is_left)
{
    const char *const arguments[] = {"--broker-silence-ms", "700", NULL};
    start_ready(arguments);
    ck_failure("timeout", "silent");
}
END_TEST

START_TEST(a_broker_that_never_answers_is_left)
{
    const char *const arguments[] = {"--broker-wait-ms", "300", NULL};
    worker_start(&w, arguments);
    ck_assert_int_eq(worker_status(&w), 1);
    worker_clean(&w);
}
END_TEST

START_TEST(sigterm_is_a_good_end)
{
    start_ready(plain);
    struct mtr_lane lane = prompt_lane();
    send_step(1, &lane);
    ck_token(1, golden[PROMPT]);
    kill(w.pid, SIGTERM);
    ck_assert_int_eq(worker_status(&w), 0);
    worker_clean(&w);
}
END_TEST

START_TEST(wrong_options_are_named)
{
    static const char *const cases[][3] = {
        {"--rank", "x", NULL}, {"--frobnicate", NULL, NULL}, {"--key", "only", NULL}};
    worker_start(&w, cases[_i]);
    ck_assert_int_eq(worker_status(&w), 2);
    worker_clean(&w);
}
END_TEST

START_TEST(it_does_not_outlive_its_parent)
{
    int fds[2];
    char byte;
    ck_assert_int_eq(pipe(fds), 0);
    pid_t parent = fork();
    if (parent == 0) { /* starts a worker that inherits the pipe's end, and dies */
        const char *const arguments[] = {"--die-with-parent", NULL};
        worker_start(&w, arguments);
        worker_receive(&w);
        unlink(w.address + strlen("ipc://"));
        rmdir(w.dir);
        _exit(0);
    }
    close(fds[1]);
    alarm(20);
    ck_assert_int_eq(read(fds[0], &byte, 1), 0); /* closed when the last holder is gone */
    close(fds[0]);
}
END_TEST

MTR_CHECK_MAIN("fault/worker")
{
    tcase_add_test(tc, says_who_it_is);
    tcase_add_test(tc, runs_plans_two_in_flight);
    tcase_add_test(tc, agrees_on_the_plan_or_refuses);
    tcase_add_test(tc, a_missing_checkpoint_is_named);
    tcase_add_test(tc, a_bad_plan_ends_it_with_the_reason);
    tcase_add_test(tc, a_gap_in_the_steps_ends_it);
    tcase_add_test(tc, bytes_that_are_no_message_end_it);
    tcase_add_test(tc, heartbeats_stop_when_it_is_stopped);
    tcase_add_test(tc, a_silent_broker_is_left);
    tcase_add_test(tc, a_broker_that_never_answers_is_left);
    tcase_add_test(tc, sigterm_is_a_good_end);
    tcase_add_loop_test(tc, wrong_options_are_named, 0, 3);
    tcase_add_test(tc, it_does_not_outlive_its_parent);
}
