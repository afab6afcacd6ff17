/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The broker's half of the plan socket, over a real socket and under a virtual clock. Workers are
 * sockets of this process, or processes where one shall die or be killed. What else the engine has
 * is played here: events are only counted.
 */
#include "broker/engine/workers.c"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/check_main.h"

#define WAIT_MS 5000
#define VOCAB   512

static char dir[] = "/tmp/mtr_workers_XXXXXX";
static char address[80], log_path[80];
static struct mtr_engine engine;
static struct mtr_served_model model;
static struct mtr_plan plan;
static struct mtr_metrics metrics;
static struct mtr_log log_file;
static struct mtr_wire *wire; /* the workers' */
static struct mtr_arena arena;
static struct mtr_buf bytes;
static struct mtr_error err;
static uint64_t clock_ns;
static uint32_t token_events, finished;
static char finish_error[200];

struct peer {
    struct mtr_socket *socket;
    uint32_t rank;
    uint64_t epoch;
};

/* ---- The rest of the engine -------------------------------------------------------------------
 */

void mtr_jobs_events(struct mtr_engine *e)
{
    const struct mtr_sched_event *events;
    size_t n = mtr_sched_events(e->sched, &events);
    for (size_t i = 0; i < n; i++) {
        token_events += events[i].kind == MTR_SCHED_TOKENS;
        finished += events[i].kind == MTR_SCHED_FINISHED;
        if (events[i].error)
            snprintf(finish_error, sizeof finish_error, "%.199s", events[i].error->message);
    }
}

bool mtr_engine_watch(struct mtr_engine *e, int fd)
{
    return true;
}

static uint64_t now(void *context)
{
    return clock_ns;
}

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(address, sizeof address, "ipc://%s/plan", dir);
    snprintf(log_path, sizeof log_path, "%s/log", dir);
    mtr_log_init(&log_file, "broker");
    log_file.fd = open(log_path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    clock_ns = MTR_NS_PER_S;
    token_events = finished = 0;
    err = (struct mtr_error){0};
    plan = (struct mtr_plan){.hardware = "host",
                             .precision = "declared",
                             .vocab = VOCAB,
                             .group_count = 1,
                             .limits = {.max_step_tokens = 72, .max_step_outputs = 16},
                             .digest = {1, 2, 3}};
    model = (struct mtr_served_model){
        .path = "/models/tiny", .plan = &plan, .max_sequence_tokens = 100};
    engine =
        (struct mtr_engine){.model = &model,
                            .metrics = &metrics,
                            .log = &log_file,
                            .clock = {now, NULL},
                            .options = {.world_size = 1, .cache_format = "bf16", .grace_ms = 60000},
                            .sched_config = {.geometry = {VOCAB, 16, 1},
                                             .max_batch_size = 8,
                                             .max_num_seqs = 4,
                                             .max_prefill_tokens = 64,
                                             .max_sequence_tokens = 100,
                                             .max_score_rows = 8}};
    for (int r = 0; r < MTR_MAX_RANKS; r++)
        engine.workers[r].pidfd = -1;
    mtr_arena_init(&engine.round, 0);
    mtr_arena_init(&arena, 0);
    engine.sched = mtr_sched_create(&engine.sched_config, &err);
    engine.wire = mtr_wire_create(&err);
    wire = mtr_wire_create(&err);
    engine.plan_socket = mtr_socket_bind(engine.wire, MTR_SOCKET_ROUTER, address, NULL, &err);
    ck_assert_msg(engine.sched && wire && engine.plan_socket, "%s", err.message);
}

static void teardown(void)
{
    mtr_socket_close(engine.plan_socket);
    mtr_wire_destroy(engine.wire);
    mtr_wire_destroy(wire);
    mtr_sched_destroy(engine.sched);
    mtr_buf_free(&engine.packed);
    mtr_buf_free(&bytes);
    mtr_arena_free(&engine.round);
    mtr_arena_free(&arena);
    close(log_file.fd);
    unlink(log_path);
    rmdir(dir);
}

static bool logged(const char *words)
{
    char text[16384];
    ssize_t n = pread(log_file.fd, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = '\0';
    return strstr(text, words) != NULL;
}

/* ---- Workers ----------------------------------------------------------------------------------
 */

static void say(struct peer *p, Mtr__FromWorker *m)
{
    m->epoch = p->epoch;
    mtr_buf_clear(&bytes);
    ck_assert(mtr_message_pack(&bytes, &m->base));
    ck_assert(mtr_socket_send(p->socket, (struct mtr_str){0}, mtr_buf_view(&bytes), &err));
}

static Mtr__Hello good_hello(const struct peer *p)
{
    Mtr__Hello hello = MTR__HELLO__INIT;
    hello.rank = p->rank;
    hello.protocol = MTR_PROTOCOL_VERSION;
    hello.pid = 1;
    hello.hardware = "host";
    hello.device = "a test";
    hello.host = "here";
    return hello;
}

static void say_hello(struct peer *p, Mtr__Hello *hello)
{
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    if (!p->socket)
        p->socket = mtr_socket_connect(wire, MTR_SOCKET_DEALER, address, NULL, &err);
    ck_assert_ptr_nonnull(p->socket);
    m.body_case = MTR__FROM_WORKER__BODY_HELLO;
    m.hello = hello;
    p->epoch = 0;
    say(p, &m);
}

/* The broker takes what has come until the worker has its next message, which is not a heartbeat.
 */
static const Mtr__FromBroker *hear(struct peer *p)
{
    struct mtr_str from, message;
    for (int i = 0; i < WAIT_MS / 5; i++) {
        mtr_workers_receive(&engine);
        ck_assert(mtr_socket_receive(p->socket, &arena, &from, &message, &err));
        const Mtr__FromBroker *m = NULL;
        if (message.ptr)
            m = mtr_message_unpack(&arena, &mtr__from_broker__descriptor, message, &err);
        if (m && m->body_case != MTR__FROM_BROKER__BODY_HEARTBEAT)
            return m;
        if (!m)
            mtr_socket_wait(engine.plan_socket, -1, 5);
    }
    ck_abort_msg("the worker hears nothing");
    return NULL;
}

static const char *hear_exit(struct peer *p)
{
    const Mtr__FromBroker *m = hear(p);
    ck_assert_int_eq(m->body_case, MTR__FROM_BROKER__BODY_EXIT);
    return m->exit->reason;
}

static void hear_load(struct peer *p)
{
    const Mtr__FromBroker *m = hear(p);
    ck_assert_int_eq(m->body_case, MTR__FROM_BROKER__BODY_LOAD);
    p->epoch = m->epoch;
}

/* Until the broker has taken something that shows. */
static void settle(bool (*done)(void))
{
    for (int i = 0; i < WAIT_MS / 5 && !done(); i++) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    ck_assert(done());
}

static bool is_ready(void)
{
    return engine.sched_has_worker;
}

static bool is_lost(void)
{
    return engine.workers[0].state == MTR_WORKER_ABSENT;
}

/* change: an entry instead of the one of the same name, or one more; NULL: none. */
static void say_ready(struct peer *p, const char *change, uint32_t groups)
{
    Mtr__Ready ready = MTR__READY__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    uint32_t blocks[MTR_MAX_GROUPS] = {32, 32};
    char *entries[MTR_AGREEMENT_ENTRIES];
    struct mtr_agreement a;
    ordered(&engine, &a);
    size_t name = change ? strcspn(change, "=") + 1 : 0;
    bool found = false;
    for (uint32_t i = 0; i < a.count; i++) {
        bool same = change && strncmp(a.entries[i], change, name) == 0;
        entries[i] = same ? (char *)change : a.entries[i];
        found |= same;
    }
    if (change && !found)
        entries[a.count++] = (char *)change;
    ready.n_agreement = a.count;
    ready.agreement = entries;
    ready.n_group_blocks = groups;
    ready.group_blocks = blocks;
    m.body_case = MTR__FROM_WORKER__BODY_READY;
    m.ready = &ready;
    say(p, &m);
}

static void begin(struct peer *p)
{
    Mtr__Hello hello = good_hello(p);
    say_hello(p, &hello);
    hear_load(p);
}

static void make_ready(struct peer *p)
{
    begin(p);
    say_ready(p, NULL, 1);
    settle(is_ready);
}

static void close_peer(struct peer *p)
{
    mtr_socket_close(p->socket);
    *p = (struct peer){.rank = p->rank};
}

static uint64_t submit(void)
{
    static const uint32_t prompt[] = {1, 2, 3, 4};
    struct mtr_sched_params params = {
        .tokens = prompt, .token_count = 4, .max_tokens = 8, .sampling = mtr_sampling_greedy()};
    uint64_t id = 0;
    ck_assert(mtr_sched_submit(engine.sched, &params, clock_ns, &id, &err));
    return id;
}

static void say_result(struct peer *p, uint64_t step, uint64_t sequence, uint32_t token)
{
    struct mtr_lane_result lane = {.sequence = sequence, .token_count = 1, .tokens = &token};
    struct mtr_step_result result = {.step = step, .lane_count = sequence ? 1 : 0, .lanes = &lane};
    mtr_buf_clear(&bytes);
    ck_assert(mtr_pack_result(&arena, &bytes, p->epoch, &result));
    ck_assert(mtr_socket_send(p->socket, (struct mtr_str){0}, mtr_buf_view(&bytes), &err));
}

static struct mtr_sched_stats stats(void)
{
    struct mtr_sched_stats s;
    mtr_sched_stats(engine.sched, &s);
    return s;
}

/* A process that says Hello with this pid and then nothing more. */
static pid_t silent_process(uint32_t claimed_pid)
{
    pid_t child = fork();
    if (child == 0) {
        struct mtr_wire *own = mtr_wire_create(NULL);
        struct peer p = {.socket = mtr_socket_connect(own, MTR_SOCKET_DEALER, address, NULL, NULL)};
        Mtr__Hello hello = good_hello(&p);
        hello.pid = claimed_pid;
        say_hello(&p, &hello);
        for (;;)
            pause();
    }
    return child;
}

static bool is_loading(void)
{
    return engine.workers[0].state == MTR_WORKER_LOADING;
}

/* ---- Hello and Ready --------------------------------------------------------------------------
 */

START_TEST(from_hello_to_ready)
{
    struct peer p = {0};
    Mtr__Hello hello = good_hello(&p);
    say_hello(&p, &hello);
    const Mtr__FromBroker *m = hear(&p);
    ck_assert_int_eq(m->body_case, MTR__FROM_BROKER__BODY_LOAD);
    ck_assert_str_eq(m->load->checkpoint, "/models/tiny");
    ck_assert_str_eq(m->load->cache_format, "bf16");
    ck_assert_uint_eq(m->load->max_slots, 8);
    ck_assert_uint_eq(m->load->plan_digest.len, 32);
    ck_assert(is_loading() && !engine.was_ready);
    p.epoch = m->epoch;
    say_ready(&p, NULL, 1);
    settle(is_ready);
    ck_assert(engine.was_ready);
    ck_assert_uint_eq(stats().groups[0].blocks, 32);
    close_peer(&p);
}
END_TEST

START_TEST(a_stranger_is_told_why_not)
{
    struct peer p = {0};
    Mtr__Hello wrong[3] = {good_hello(&p), good_hello(&p), good_hello(&p)};
    const char *says[] = {"protocol 999", "rank 7", "class 'toaster'"};
    wrong[0].protocol = 999;
    wrong[1].rank = 7;
    wrong[2].hardware = "toaster";
    for (int i = 0; i < 3; i++) {
        say_hello(&p, &wrong[i]);
        const char *reason = hear_exit(&p);
        ck_assert_msg(strstr(reason, says[i]) != NULL, "%s", reason);
        ck_assert(is_lost());
        close_peer(&p);
    }
}
END_TEST

START_TEST(what_ready_disagrees_on_is_named)
{
    static const char *const changes[] = {"build=0.0", "cache_format=f32", "max_slots=9", "plan=00",
                                          "kernels=other"};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct peer p = {0};
        char name[32];
        snprintf(name, sizeof name, "%.*s is ", (int)strcspn(changes[i], "="), changes[i]);
        begin(&p);
        say_ready(&p, changes[i], 1);
        const char *reason = hear_exit(&p);
        ck_assert_msg(strstr(reason, name) != NULL, "%s: %s", changes[i], reason);
        ck_assert(is_lost() && logged(reason) && !engine.was_ready);
        ck_assert_str_eq(engine.workers[0].failure, reason);
        close_peer(&p);
    }
}
END_TEST

START_TEST(other_cache_groups_are_refused)
{
    for (uint32_t groups = 0; groups <= 2; groups += 2) {
        struct peer p = {0};
        begin(&p);
        say_ready(&p, NULL, groups);
        ck_assert_ptr_nonnull(strstr(hear_exit(&p), "the model has 1"));
        ck_assert(is_lost());
        close_peer(&p);
    }
}
END_TEST

START_TEST(ranks_that_disagree_are_not_served)
{
    struct peer p[2] = {{.rank = 0}, {.rank = 1}};
    engine.options.world_size = 2;
    for (int r = 0; r < 2; r++)
        begin(&p[r]);
    /* Both say what the broker ordered; what only ranks know is compared between them. */
    say_ready(&p[0], NULL, 1);
    struct mtr_agreement *a = &engine.workers[0].agreement;
    while (engine.workers[0].state != MTR_WORKER_READY)
        mtr_workers_receive(&engine);
    snprintf(a->entries[a->count++], MTR_AGREEMENT_ENTRY_BYTES, "kernels=other");
    say_ready(&p[1], NULL, 1);
    ck_assert_str_eq(hear_exit(&p[1]), "kernels is other for rank 0, missing for rank 1");
    ck_assert_str_eq(hear_exit(&p[0]), "another rank was lost");
    ck_assert(!engine.sched_has_worker && is_lost());
    for (int r = 0; r < 2; r++)
        close_peer(&p[r]);
}
END_TEST

START_TEST(progress_never_exceeds_the_whole)
{
    struct peer p = {0};
    Mtr__LoadProgress progress = MTR__LOAD_PROGRESS__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    begin(&p);
    progress.phase = "a phase whose name is longer than there is room for in the status";
    progress.done_bytes = UINT64_MAX;
    progress.total_bytes = 10;
    m.body_case = MTR__FROM_WORKER__BODY_PROGRESS;
    m.progress = &progress;
    say(&p, &m);
    for (int i = 0; i < WAIT_MS / 5 && !engine.workers[0].total_bytes; i++) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    ck_assert_uint_eq(engine.workers[0].done_bytes, 10);
    ck_assert_uint_eq(strlen(engine.workers[0].phase), sizeof engine.workers[0].phase - 1);
    close_peer(&p);
}
END_TEST

START_TEST(a_successor_takes_the_rank)
{
    struct peer first = {0}, second = {0};
    make_ready(&first);
    begin(&second);
    ck_assert_str_eq(hear_exit(&first), "another worker took this rank");
    ck_assert_uint_gt(second.epoch, first.epoch);
    say_ready(&first, NULL, 1); /* it has not read that yet */
    ck_assert_ptr_nonnull(strstr(hear_exit(&first), "given up"));
    ck_assert(is_loading());
    close_peer(&first);
    close_peer(&second);
}
END_TEST

/* ---- Steps ------------------------------------------------------------------------------------
 */

START_TEST(a_lie_loses_the_worker_and_nothing_else)
{
    struct peer p = {0};
    uint64_t id = submit();
    make_ready(&p);
    mtr_workers_send_plans(&engine);
    ck_assert_int_eq(hear(&p)->body_case, MTR__FROM_BROKER__BODY_PLAN);
    say_result(&p, 1, id, VOCAB); /* no such token */
    while (!is_lost()) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    ck_assert(logged("token 512 of a vocabulary of 512") && finished == 0 && token_events == 0);
    ck_assert(stats().running == 0 && stats().waiting == 1);
    close_peer(&p);

    make_ready(&p);
    mtr_workers_send_plans(&engine);
    ck_assert_int_eq(hear(&p)->body_case, MTR__FROM_BROKER__BODY_PLAN);
    say_result(&p, 1, id, 7);
    for (int i = 0; i < WAIT_MS / 5 && !token_events; i++) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    ck_assert_uint_eq(token_events, 1);
    ck_assert_uint_eq(engine.workers[0].restarts, 1);
    close_peer(&p);
}
END_TEST

START_TEST(answers_come_in_order)
{
    static const struct {
        uint64_t step;
        const char *says;
    } wrong[] = {{2, "step 2 after step 0"}, {9, "step 9"}, {0, "step 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct peer p = {0};
        uint64_t id = submit();
        make_ready(&p);
        mtr_workers_send_plans(&engine);
        hear(&p);
        say_result(&p, wrong[i].step, id, 7);
        settle(is_lost);
        ck_assert_msg(logged(wrong[i].says), "%s", wrong[i].says);
        close_peer(&p);
    }
}
END_TEST

START_TEST(only_rank_0_gives_tokens)
{
    struct peer p[2] = {{.rank = 0}, {.rank = 1}};
    engine.options.world_size = 2;
    uint64_t id = submit();
    for (int r = 0; r < 2; r++)
        begin(&p[r]);
    for (int r = 0; r < 2; r++)
        say_ready(&p[r], NULL, 1);
    settle(is_ready);
    mtr_workers_send_plans(&engine);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(hear(&p[r])->body_case, MTR__FROM_BROKER__BODY_PLAN);
    say_result(&p[1], 1, 0, 0);
    say_result(&p[1], 2, id, 7);
    while (engine.sched_has_worker) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    ck_assert(logged("for rank 0 to do"));
    ck_assert_uint_eq(engine.workers[1].answered, 1);
    for (int r = 0; r < 2; r++)
        close_peer(&p[r]);
}
END_TEST

/* ---- Silence and death ------------------------------------------------------------------------
 */

/* The process that a descriptor stands for, as the kernel says. */
static int pid_of(int pidfd)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    int fd = open(path, O_RDONLY), pid = -1;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n < 0 ? 0 : n] = '\0';
    if (fd >= 0)
        close(fd);
    const char *at = strstr(text, "Pid:");
    return at && sscanf(at, "Pid: %d", &pid) == 1 ? pid : -1;
}

START_TEST(a_liar_has_nobody_else_killed)
{
    pid_t victim = fork();
    if (victim == 0)
        for (;;)
            pause();
    pid_t liar = silent_process((uint32_t)victim);
    settle(is_loading);
    ck_assert_int_eq(engine.workers[0].pid, liar);
    ck_assert_int_eq(pid_of(engine.workers[0].pidfd), liar);
    clock_ns += LOST_NS + 1;
    mtr_workers_tick(&engine, clock_ns);
    int status;
    ck_assert(is_lost() && logged("silent for too long"));
    ck_assert_int_eq(waitpid(liar, &status, 0), liar);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(waitpid(victim, &status, WNOHANG), 0);
    kill(victim, SIGKILL);
    waitpid(victim, &status, 0);
}
END_TEST

START_TEST(a_death_is_seen_at_once)
{
    pid_t child = silent_process(1);
    settle(is_loading);
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(is_loading());
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(is_lost() && logged("its process ended"));
}
END_TEST

START_TEST(silence_shows_and_passes)
{
    struct peer p = {0};
    Mtr__Heartbeat beat = MTR__HEARTBEAT__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    make_ready(&p);
    clock_ns += SILENT_NS + 1;
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(engine.workers[0].silent && is_ready());
    m.body_case = MTR__FROM_WORKER__BODY_HEARTBEAT;
    m.heartbeat = &beat;
    beat.memory_free_bytes = 77;
    say(&p, &m);
    while (engine.workers[0].memory_free_bytes != 77) {
        mtr_socket_wait(engine.plan_socket, -1, 5);
        mtr_workers_receive(&engine);
    }
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(!engine.workers[0].silent && logged("answers again"));
    close_peer(&p);
}
END_TEST

START_TEST(a_step_that_never_ends_is_given_up)
{
    struct peer p = {0};
    submit();
    make_ready(&p);
    mtr_workers_send_plans(&engine);
    int pidfd = engine.workers[0].pidfd; /* this process: not to be killed */
    engine.workers[0].pidfd = -1;
    close(pidfd);
    clock_ns += STUCK_NS;
    engine.workers[0].seen_ns = clock_ns;
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(is_ready());
    clock_ns++;
    engine.workers[0].seen_ns = clock_ns;
    mtr_workers_tick(&engine, clock_ns);
    ck_assert(is_lost() && logged("its step never ends"));
    close_peer(&p);
}
END_TEST

START_TEST(streams_hear_an_error_after_the_grace_time)
{
    struct peer p = {0};
    submit();
    make_ready(&p);
    mtr_workers_send_plans(&engine);
    lose_worker(&engine, 0, "it fell over", clock_ns);
    clock_ns += 59 * MTR_NS_PER_S;
    mtr_workers_tick(&engine, clock_ns);
    ck_assert_uint_eq(finished, 0);
    clock_ns += MTR_NS_PER_S;
    mtr_workers_tick(&engine, clock_ns);
    ck_assert_uint_eq(finished, 1);
    ck_assert_str_eq(finish_error, "no worker has been ready for 60 s: it fell over");
    close_peer(&p);
}
END_TEST

START_TEST(a_failure_is_the_reason)
{
    struct peer p = {0};
    Mtr__Failure failure = MTR__FAILURE__INIT;
    Mtr__FromWorker m = MTR__FROM_WORKER__INIT;
    make_ready(&p);
    failure.code = "io";
    failure.message = "the device is on fire";
    m.body_case = MTR__FROM_WORKER__BODY_FAILURE;
    m.failure = &failure;
    say(&p, &m);
    settle(is_lost);
    ck_assert_str_eq(engine.workers[0].failure, "the device is on fire");
    close_peer(&p);
}
END_TEST

MTR_CHECK_MAIN("engine/workers")
{
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, from_hello_to_ready);
    tcase_add_test(tc, a_stranger_is_told_why_not);
    tcase_add_test(tc, what_ready_disagrees_on_is_named);
    tcase_add_test(tc, other_cache_groups_are_refused);
    tcase_add_test(tc, ranks_that_disagree_are_not_served);
    tcase_add_test(tc, progress_never_exceeds_the_whole);
    tcase_add_test(tc, a_successor_takes_the_rank);
    tcase_add_test(tc, a_lie_loses_the_worker_and_nothing_else);
    tcase_add_test(tc, answers_come_in_order);
    tcase_add_test(tc, only_rank_0_gives_tokens);
    tcase_add_test(tc, a_liar_has_nobody_else_killed);
    tcase_add_test(tc, a_death_is_seen_at_once);
    tcase_add_test(tc, silence_shows_and_passes);
    tcase_add_test(tc, a_step_that_never_ends_is_given_up);
    tcase_add_test(tc, streams_hear_an_error_after_the_grace_time);
    tcase_add_test(tc, a_failure_is_the_reason);
}
