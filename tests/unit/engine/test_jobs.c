/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Jobs from submission to their last delivery. The test is the scheduler thread, the worker and
 * the client at once: it takes the engine's inbox, answers plans with counted tokens, and reads
 * what is delivered.
 */
#include "broker/engine/jobs.c"

#include <poll.h>

#include "broker/api/protocol.h"
#include "tests/unit/engine/tiny_text.h"

#define MAX_HEARD 256

static struct mtr_arena arena;
static struct mtr_plan plan = {.vocab = 512};
static struct mtr_served_model model;
static struct mtr_metrics metrics;
static struct mtr_engine engine;
static struct mtr_inbox inbox;
static struct mtr_client client;
static struct mtr_chat_request request;
static struct mtr_job job;
static const char *body;

/* What the client heard, deliveries put together. */
static struct mtr_job_event heard[MAX_HEARD];
static uint32_t heard_count;
static char error_text[sizeof((struct mtr_error *)0)->message];

static void setup(void)
{
    struct mtr_error err = {0};
    struct mtr_sched_capacity capacity = {{256}, 0};
    mtr_arena_init(&arena, 0);
    model = (struct mtr_served_model){
        .tokenizer = tiny_tokenizer(&arena), .plan = &plan, .max_sequence_tokens = 100};
    engine = (struct mtr_engine){.model = &model,
                                 .metrics = &metrics,
                                 .clock = mtr_clock_monotonic(),
                                 .sched_config = {.geometry = {512, 16, 1},
                                                  .max_batch_size = 8,
                                                  .max_num_seqs = 4,
                                                  .max_prefill_tokens = 64,
                                                  .max_sequence_tokens = 100,
                                                  .max_score_rows = 8}};
    mtr_arena_init(&engine.round, 0);
    engine.pool = mtr_text_pool_create(model.tokenizer, 1, &err);
    ck_assert(engine.pool && mtr_inbox_init(&engine.inbox, &err) && mtr_inbox_init(&inbox, &err));
    engine.sched = mtr_sched_create(&engine.sched_config, &err);
    ck_assert_msg(engine.sched && mtr_sched_worker_ready(engine.sched, &capacity, 0, &err), "%s",
                  err.message);
    client = (struct mtr_client){.inbox = &inbox};
    heard_count = 0;
}

static void teardown(void)
{
    mtr_text_pool_destroy(engine.pool);
    mtr_sched_destroy(engine.sched);
    mtr_inbox_free(&engine.inbox);
    mtr_inbox_free(&inbox);
    mtr_map_free(&engine.serials);
    mtr_arena_free(&engine.round);
    mtr_tokenizer_free(model.tokenizer);
    mtr_arena_free(&arena);
}

/* ---- The three roles --------------------------------------------------------------------------
 */

static bool read_body(struct mtr_job *j, struct mtr_error *err)
{
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(body), MTR_JSON_STRICT, err);
    return v && mtr_openai_completions()->parse(j->request, v, err);
}

static void submit(const char *text)
{
    struct mtr_error err = {0};
    body = text;
    mtr_chat_request_init(&request, &arena);
    job = (struct mtr_job){.client = &client,
                           .request = &request,
                           .read = read_body,
                           .arrived_ns = mtr_now_ns(&engine.clock)};
    ck_assert_msg(mtr_engine_submit(&engine, &job, &err), "%s", err.message);
}

/* Everything that was posted to the scheduler thread; waits for the text thread. */
static void take_messages(void)
{
    struct pollfd p = {.fd = engine.inbox.fd, .events = POLLIN};
    struct mtr_message *next;
    ck_assert_msg(poll(&p, 1, 10000) == 1, "the text thread said nothing");
    for (struct mtr_message *m = mtr_inbox_take(&engine.inbox); m; m = next) {
        next = m->next;
        mtr_jobs_message(&engine, m);
    }
}

/* A step, whose lanes all get this token. False: there was nothing to plan. */
static bool step(uint32_t token)
{
    struct mtr_error err = {0};
    struct mtr_lane_result lanes[8];
    const struct mtr_step_plan *p = mtr_sched_plan(engine.sched, mtr_now_ns(&engine.clock));
    if (!p)
        return false;
    struct mtr_step_result result = {.step = p->step, .lanes = lanes};
    for (uint32_t i = 0; i < p->lane_count; i++)
        if (p->lanes[i].outputs)
            lanes[result.lane_count++] = (struct mtr_lane_result){
                .sequence = p->lanes[i].sequence, .token_count = 1, .tokens = &token};
    ck_assert_msg(mtr_sched_result(engine.sched, &result, mtr_now_ns(&engine.clock), &err), "%s",
                  err.message);
    mtr_jobs_events(&engine);
    return true;
}

static void hear(void)
{
    struct mtr_message *next;
    mtr_jobs_flush(&engine);
    for (struct mtr_message *m = mtr_inbox_take(&inbox); m; m = next) {
        struct mtr_delivery *d = (struct mtr_delivery *)m;
        next = m->next;
        for (uint32_t i = 0; i < d->count; i++) {
            ck_assert_uint_lt(heard_count, MAX_HEARD);
            heard[heard_count++] = d->events[i];
            if (d->events[i].error)
                snprintf(error_text, sizeof error_text, "%s", d->events[i].error->message);
        }
        mtr_delivery_free(d);
        mtr_client_took(&engine, &client, 1);
    }
}

static uint32_t count_of(enum mtr_job_event_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < heard_count; i++)
        n += heard[i].kind == kind;
    return n;
}

/* DONE comes once, last, and the engine has nothing left of the job. */
static void check_done(void)
{
    hear();
    ck_assert_uint_gt(heard_count, 0);
    ck_assert_int_eq(heard[heard_count - 1].kind, MTR_JOB_DONE);
    ck_assert_uint_eq(count_of(MTR_JOB_DONE), 1);
    ck_assert(mtr_engine_idle(&engine) && !engine.jobs && !step(40));
}

/* ---- Cases ------------------------------------------------------------------------------------
 */

START_TEST(to_the_end)
{
    submit("{\"prompt\":\"hello\",\"max_tokens\":3}");
    take_messages();
    for (uint32_t t = 40; step(t); t++)
        ;
    check_done();
    ck_assert_int_eq(heard[0].kind, MTR_JOB_STARTED);
    ck_assert_uint_gt(job.prompt_tokens, 0);
    ck_assert_uint_eq(heard_count, 6); /* started, three tokens, finish, done */
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(heard[1 + i].kind == MTR_JOB_TOKEN && heard[1 + i].token == 40 + i);
    ck_assert(heard[4].kind == MTR_JOB_FINISH && heard[4].end == MTR_END_LENGTH);
}
END_TEST

START_TEST(choices_end_one_by_one)
{
    submit("{\"prompt\":[\"a\",\"b\"],\"n\":2,\"max_tokens\":4,\"stop_token_ids\":[50]}");
    take_messages();
    mtr_engine_stop_choice(&engine, &job, 1); /* its text matched a stop string */
    take_messages();
    while (step(40))
        ;
    check_done();
    ck_assert_uint_eq(count_of(MTR_JOB_FINISH), 3);
    for (uint32_t i = 0; i < heard_count; i++)
        ck_assert(heard[i].kind != MTR_JOB_TOKEN || heard[i].choice != 1);
}
END_TEST

START_TEST(a_stop_id_is_not_delivered)
{
    submit("{\"prompt\":\"a\",\"max_tokens\":9,\"stop_token_ids\":[50]}");
    take_messages();
    ck_assert(step(40) && step(50));
    check_done();
    ck_assert_uint_eq(count_of(MTR_JOB_TOKEN), 1);
    ck_assert(heard[heard_count - 2].end == MTR_END_STOP);
}
END_TEST

START_TEST(cancelled_before_it_began)
{
    submit("{\"prompt\":\"a\",\"max_tokens\":9}");
    mtr_engine_cancel(&engine, &job);
    mtr_engine_cancel(&engine, &job); /* any number of times */
    while (!mtr_engine_idle(&engine))
        take_messages();
    check_done();
    ck_assert_uint_eq(count_of(MTR_JOB_TOKEN), 0);
}
END_TEST

START_TEST(cancelled_while_it_runs)
{
    submit("{\"prompt\":\"a\",\"n\":3,\"max_tokens\":9}");
    take_messages();
    ck_assert(step(40) && step(41));
    mtr_engine_cancel(&engine, &job);
    take_messages();
    check_done();
    ck_assert_uint_eq(count_of(MTR_JOB_FINISH), 0);
}
END_TEST

START_TEST(cancelled_when_it_is_over)
{
    submit("{\"prompt\":\"a\",\"max_tokens\":1}");
    take_messages();
    ck_assert(step(40));
    mtr_engine_cancel(&engine, &job); /* DONE is made, but the client has not seen it yet */
    mtr_engine_stop_choice(&engine, &job, 0);
    take_messages();
    check_done();
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *body, *says;
    } cases[] = {
        {"{\"prompt\":\"a\",\"max_tokens\":-1}", "max_tokens"},
        {"{", "JSON"},
        {"{\"prompt\":[1,9999]}", "9999"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"9999\":1}}", "bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        heard_count = 0;
        error_text[0] = '\0';
        submit(cases[i].body);
        take_messages();
        check_done();
        ck_assert_int_eq(heard[0].kind, MTR_JOB_ERROR);
        ck_assert_msg(strstr(error_text, cases[i].says) || i == 1, "%s: %s", cases[i].body,
                      error_text);
    }
}
END_TEST

START_TEST(a_prompt_that_fills_the_context)
{
    char text[800] = "{\"prompt\":[";
    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s40", i ? "," : "");
    snprintf(text + strlen(text), sizeof text - strlen(text), "]}");
    submit(text);
    take_messages();
    check_done();
    ck_assert_msg(strstr(error_text, "100 tokens") != NULL, "%s", error_text);
}
END_TEST

START_TEST(a_full_queue_says_when)
{
    submit("{\"prompt\":\"a\",\"n\":9,\"max_tokens\":1}"); /* five more than may wait */
    take_messages();
    check_done();
    ck_assert_uint_eq(count_of(MTR_JOB_ERROR), 1);
    ck_assert_uint_gt(heard[0].retry_s, 0);
}
END_TEST

START_TEST(draining_refuses)
{
    engine.draining = true;
    submit("{\"prompt\":\"a\"}");
    take_messages();
    check_done();
    ck_assert_msg(strstr(error_text, "shutting down") != NULL, "%s", error_text);
}
END_TEST

START_TEST(an_echo_comes_first)
{
    submit("{\"prompt\":[40,41],\"max_tokens\":1,\"echo\":true}");
    take_messages();
    while (step(50))
        ;
    check_done();
    ck_assert(heard[1].prompt && heard[1].token == 40);
    ck_assert(heard[2].prompt && heard[2].token == 41);
    ck_assert(!heard[3].prompt && heard[3].token == 50);
}
END_TEST

START_TEST(a_client_that_is_behind_holds_back_steps)
{
    submit("{\"prompt\":\"a\",\"max_tokens\":20}");
    take_messages();
    for (uint32_t i = 0; i < MTR_MAX_WAITING_DELIVERIES; i++) {
        ck_assert_int_le(engine.behind, 0);
        ck_assert(step(40));
        mtr_jobs_flush(&engine);
    }
    ck_assert_int_eq(engine.behind, 1);
    hear();
    ck_assert_int_eq(engine.behind, 0);
    struct pollfd p = {.fd = engine.inbox.fd, .events = POLLIN};
    ck_assert_msg(poll(&p, 1, 0) == 1, "the scheduler thread was not woken");
    while (step(40))
        hear();
    check_done();
}
END_TEST

/* More than are kept are refused, not cut: a stop that is forgotten would not stop. */
START_TEST(too_many_stop_ids_name_the_field)
{
    static uint32_t own[MTR_SCHED_MAX_STOPS];
    model.stop_ids = own;
    model.stop_count = MTR_SCHED_MAX_STOPS - 1;
    submit("{\"prompt\":\"a\",\"stop_token_ids\":[1,2]}");
    take_messages();
    check_done();
    ck_assert_str_eq(job.state->error.field, "stop_token_ids");
    ck_assert_int_eq(job.state->error.code, MTR_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(error_text, "256"));
}
END_TEST

MTR_CHECK_MAIN("engine/jobs")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, to_the_end);
    tcase_add_test(tc, choices_end_one_by_one);
    tcase_add_test(tc, a_stop_id_is_not_delivered);
    tcase_add_test(tc, cancelled_before_it_began);
    tcase_add_test(tc, cancelled_while_it_runs);
    tcase_add_test(tc, cancelled_when_it_is_over);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, a_prompt_that_fills_the_context);
    tcase_add_test(tc, a_full_queue_says_when);
    tcase_add_test(tc, draining_refuses);
    tcase_add_test(tc, too_many_stop_ids_name_the_field);
    tcase_add_test(tc, an_echo_comes_first);
    tcase_add_test(tc, a_client_that_is_behind_holds_back_steps);
}
