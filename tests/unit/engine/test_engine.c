/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's judgement of its workers, and its life with real threads and sockets. No worker
 * comes: what they do is tested in test_workers.c.
 */
#include "broker/engine/engine.c"

#include <poll.h>
#include <sys/stat.h>

#include "broker/api/protocol.h"
#include "tests/unit/engine/tiny_text.h"

#define WAIT_MS 5000

static struct mtr_arena arena;
static struct mtr_log silent;
static struct mtr_metrics metrics;
static struct mtr_plan plan;
static struct mtr_served_model model;
static struct mtr_engine_options options;
static struct mtr_error err;
static char dir[] = "/tmp/mtr_engine_XXXXXX", plan_address[80], admin_address[80];
static uint64_t clock_ns;

static uint64_t now(void *context)
{
    return clock_ns;
}

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(plan_address, sizeof plan_address, "ipc://%s/plan", dir);
    snprintf(admin_address, sizeof admin_address, "ipc://%s/admin", dir);
    mtr_arena_init(&arena, 0);
    mtr_log_init(&silent, "test");
    silent.fd = -1;
    metrics = (struct mtr_metrics){0};
    err = (struct mtr_error){0};
    plan = (struct mtr_plan){.hardware = "host",
                             .precision = "declared",
                             .vocab = 512,
                             .group_count = 1,
                             .limits = {.max_step_tokens = 72, .max_step_outputs = 16}};
    static const struct mtr_cache_group group = {.name = "full", .block_tokens = 16};
    plan.groups = &group;
    model = (struct mtr_served_model){.name = MTR_STR("tiny"),
                                      .path = "/models/tiny",
                                      .tokenizer = tiny_tokenizer(&arena),
                                      .plan = &plan,
                                      .max_sequence_tokens = 100};
    options = (struct mtr_engine_options){.plan_address = plan_address,
                                          .admin_address = admin_address,
                                          .http_address = "127.0.0.1:1",
                                          .world_size = 1,
                                          .text_threads = 1,
                                          .cache_format = "bf16",
                                          .max_batch_size = 8,
                                          .max_num_seqs = 4,
                                          .max_prefill_tokens = 64,
                                          .grace_ms = 60000};
}

static void teardown(void)
{
    mtr_tokenizer_free(model.tokenizer);
    mtr_arena_free(&arena);
    ck_assert_msg(rmdir(dir) == 0, "something was left in %s", dir);
}

/* ---- Judgement --------------------------------------------------------------------------------
 */

static void check_judge(const struct mtr_engine *e, enum mtr_engine_state state, const char *says)
{
    char reason[160] = "";
    ck_assert_int_eq(judge(e, reason, sizeof reason), state);
    ck_assert_msg(says ? strstr(reason, says) != NULL : !reason[0], "%s", reason);
}

START_TEST(health_is_what_the_workers_are)
{
    struct mtr_engine e = {.options = {.world_size = 2}, .clock = {now, NULL}};
    struct mtr_worker *w = e.workers;
    struct mtr_sched_config c = {.geometry = {512, 16, 1},
                                 .max_batch_size = 8,
                                 .max_num_seqs = 4,
                                 .max_prefill_tokens = 64,
                                 .max_sequence_tokens = 100,
                                 .max_score_rows = 8};
    e.sched = mtr_sched_create(&c, &err);
    clock_ns = MTR_NS_PER_S;
    check_judge(&e, MTR_ENGINE_LOADING, "worker[0]: has not come");
    w[0].state = w[1].state = MTR_WORKER_LOADING;
    snprintf(w[0].phase, sizeof w[0].phase, "weights");
    check_judge(&e, MTR_ENGINE_LOADING, "worker[0]: weights");
    w[0].total_bytes = 200;
    w[0].done_bytes = 50;
    check_judge(&e, MTR_ENGINE_LOADING, "worker[0]: weights, 25%");
    w[0].state = MTR_WORKER_READY;
    check_judge(&e, MTR_ENGINE_LOADING, "worker[1]");
    w[1].state = MTR_WORKER_READY;
    check_judge(&e, MTR_ENGINE_READY, NULL);
    w[1].silent = true;
    check_judge(&e, MTR_ENGINE_DEGRADED, "worker[1]: is silent");
    w[1].silent = false;
    w[1].restarts = 1;
    check_judge(&e, MTR_ENGINE_READY, NULL);
    w[1].state = MTR_WORKER_ABSENT;
    snprintf(w[1].failure, sizeof w[1].failure, "its process ended");
    check_judge(&e, MTR_ENGINE_DEGRADED, "worker[1]: its process ended");
    mtr_sched_destroy(e.sched);
}
END_TEST

START_TEST(a_step_that_takes_long_shows)
{
    static const uint32_t prompt[] = {1, 2};
    struct mtr_engine e = {.options = {.world_size = 1}, .clock = {now, NULL}};
    struct mtr_sched_config c = {.geometry = {512, 16, 1},
                                 .max_batch_size = 8,
                                 .max_num_seqs = 4,
                                 .max_prefill_tokens = 64,
                                 .max_sequence_tokens = 100,
                                 .max_score_rows = 8};
    struct mtr_sched_params p = {
        .tokens = prompt, .token_count = 2, .max_tokens = 3, .sampling = mtr_sampling_greedy()};
    struct mtr_sched_capacity capacity = {{64}, 0};
    uint64_t id;
    e.sched = mtr_sched_create(&c, &err);
    ck_assert(mtr_sched_worker_ready(e.sched, &capacity, 0, &err));
    ck_assert(mtr_sched_submit(e.sched, &p, 0, &id, &err));
    e.workers[0].state = MTR_WORKER_READY;
    clock_ns = SLOW_STEP_NS + 2;
    check_judge(&e, MTR_ENGINE_READY, NULL); /* idle for long, which is no fault */
    ck_assert_ptr_nonnull(mtr_sched_plan(e.sched, 0));
    e.sent_ns = 1;
    check_judge(&e, MTR_ENGINE_DEGRADED, "a step has been running for more than 10 s");
    e.sent_ns = clock_ns;
    check_judge(&e, MTR_ENGINE_READY, NULL); /* after a long idle time it has just begun */
    mtr_sched_destroy(e.sched);
}
END_TEST

START_TEST(sleep_ends_with_what_is_due)
{
    struct mtr_engine e = {.options = {.world_size = 1}};
    struct mtr_sched_config c = {.geometry = {512, 16, 1},
                                 .max_batch_size = 8,
                                 .max_num_seqs = 4,
                                 .max_prefill_tokens = 64,
                                 .max_sequence_tokens = 100,
                                 .max_score_rows = 8};
    static const uint32_t prompt[] = {1, 2};
    struct mtr_sched_params p = {.tokens = prompt,
                                 .token_count = 2,
                                 .max_tokens = 3,
                                 .sampling = mtr_sampling_greedy(),
                                 .deadline_ns = 100 * MTR_NS_PER_MS};
    uint64_t id;
    e.sched = mtr_sched_create(&c, &err);
    ck_assert_int_eq(sleep_ms(&e, 0, 250), 250);
    ck_assert_int_eq(sleep_ms(&e, 0, 20), 20);
    ck_assert(mtr_sched_submit(e.sched, &p, 0, &id, &err));
    ck_assert_int_eq(sleep_ms(&e, 40 * MTR_NS_PER_MS, 250), 61);
    ck_assert_int_eq(sleep_ms(&e, 40 * MTR_NS_PER_MS, 20), 20);
    ck_assert_int_eq(sleep_ms(&e, 200 * MTR_NS_PER_MS, 250), 1);
    mtr_sched_destroy(e.sched);
}
END_TEST

/* ---- Life -------------------------------------------------------------------------------------
 */

static struct mtr_engine *create(void)
{
    struct mtr_engine *e = mtr_engine_create(&options, &model, &metrics, &silent, &err);
    ck_assert_msg(e != NULL, "%s", err.message);
    return e;
}

static struct mtr_engine_status wait_state(struct mtr_engine *e, enum mtr_engine_state state)
{
    struct mtr_engine_status s;
    for (int i = 0; i < WAIT_MS / 5; i++) {
        mtr_engine_status(e, &s);
        if (s.state == state)
            return s;
        usleep(5000);
    }
    ck_abort_msg("the engine is %s, not %s", mtr_engine_state_name(s.state),
                 mtr_engine_state_name(state));
    return s;
}

START_TEST(begins_loading_and_leaves_nothing)
{
    char path[80];
    struct stat st;
    struct mtr_engine *e = create();
    struct mtr_engine_status s = wait_state(e, MTR_ENGINE_LOADING);
    ck_assert_str_eq(s.reason, "worker[0]: has not come");
    ck_assert(mtr_engine_idle(e) && s.running == 0 && s.waiting == 0);
    ck_assert_ptr_eq(mtr_engine_model(e), &model);
    snprintf(path, sizeof path, "%s/plan", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    mtr_engine_drain(e);
    wait_state(e, MTR_ENGINE_DRAINING);
    mtr_engine_resume(e);
    wait_state(e, MTR_ENGINE_LOADING);
    mtr_engine_destroy(e);
    ck_assert_int_ne(stat(path, &st), 0);
}
END_TEST

START_TEST(what_can_not_be_is_refused_whole)
{
    options.admin_address = "ipc://relative";
    ck_assert_ptr_null(mtr_engine_create(&options, &model, &metrics, &silent, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "ipc://relative"));
    options.admin_address = admin_address;
    options.max_batch_size = 0;
    ck_assert_ptr_null(mtr_engine_create(&options, &model, &metrics, &silent, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "max_batch_size"));
}
END_TEST

/* ---- Jobs through its threads -----------------------------------------------------------------
 */

static struct mtr_inbox inbox;
static struct mtr_client client;
static struct mtr_chat_request request;
static struct mtr_job job;

static bool read_body(struct mtr_job *j, struct mtr_error *why)
{
    const struct mtr_json *v = mtr_json_parse(
        &arena, MTR_STR("{\"prompt\":\"a\",\"max_tokens\":4}"), MTR_JSON_STRICT, why);
    return v && mtr_openai_completions()->parse(j->request, v, why);
}

static void submit(struct mtr_engine *e)
{
    ck_assert(mtr_inbox_init(&inbox, &err));
    client = (struct mtr_client){.inbox = &inbox};
    mtr_chat_request_init(&request, &arena);
    job = (struct mtr_job){.client = &client, .request = &request, .read = read_body, .name = "r1"};
    ck_assert_msg(mtr_engine_submit(e, &job, &err), "%s", err.message);
}

/* What the job's end says; "" for one without an error. */
static const char *hear_end(void)
{
    static char said[MTR_ERROR_MESSAGE_BYTES];
    bool done = false;
    said[0] = '\0';
    while (!done) {
        struct pollfd p = {.fd = inbox.fd, .events = POLLIN};
        struct mtr_message *next;
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "the engine says nothing");
        for (struct mtr_message *m = mtr_inbox_take(&inbox); m; m = next) {
            struct mtr_delivery *d = (struct mtr_delivery *)m;
            next = m->next;
            for (uint32_t i = 0; i < d->count; i++) {
                if (d->events[i].kind == MTR_JOB_ERROR)
                    snprintf(said, sizeof said, "%s", d->events[i].error->message);
                done |= d->events[i].kind == MTR_JOB_DONE;
            }
            mtr_delivery_free(d);
        }
    }
    mtr_inbox_free(&inbox);
    return said;
}

START_TEST(draining_refuses_and_abort_ends)
{
    struct mtr_engine *e = create();
    mtr_engine_drain(e);
    submit(e);
    ck_assert_ptr_nonnull(strstr(hear_end(), "draining"));
    mtr_engine_resume(e);
    submit(e);
    for (int i = 0; i < WAIT_MS / 5 && !wait_state(e, MTR_ENGINE_LOADING).waiting; i++)
        usleep(5000);
    ck_assert(!mtr_engine_idle(e));
    mtr_engine_abort(e);
    ck_assert_ptr_nonnull(strstr(hear_end(), "the server stops before"));
    mtr_engine_destroy(e);
}
END_TEST

START_TEST(cancelling_frees)
{
    struct mtr_engine *e = create();
    submit(e);
    mtr_engine_cancel(e, &job);
    mtr_engine_cancel(e, &job);
    ck_assert_str_eq(hear_end(), "");
    for (int i = 0; i < WAIT_MS / 5 && !mtr_engine_idle(e); i++)
        usleep(5000);
    ck_assert(mtr_engine_idle(e));
    mtr_engine_destroy(e);
}
END_TEST

START_TEST(jobs_that_are_left_hear_the_end)
{
    struct mtr_engine *e = create();
    submit(e);
    for (int i = 0; i < WAIT_MS / 5 && !wait_state(e, MTR_ENGINE_LOADING).waiting; i++)
        usleep(5000);
    mtr_engine_destroy(e);
    hear_end();
}
END_TEST

MTR_CHECK_MAIN("engine/engine")
{
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, health_is_what_the_workers_are);
    tcase_add_test(tc, a_step_that_takes_long_shows);
    tcase_add_test(tc, sleep_ends_with_what_is_due);
    tcase_add_test(tc, begins_loading_and_leaves_nothing);
    tcase_add_test(tc, what_can_not_be_is_refused_whole);
    tcase_add_test(tc, draining_refuses_and_abort_ends);
    tcase_add_test(tc, cancelling_frees);
    tcase_add_test(tc, jobs_that_are_left_hear_the_end);
}
