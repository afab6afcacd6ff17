/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The supervisor's decisions, with processes that do nothing in the places of broker and worker.
 */
#include "ctl/serve.c"

#include "tests/unit/ctl/captured.h"

static struct supervisor s;
static char dir[] = "/tmp/mtr_serve_XXXXXX", run_dir[64];
static uint64_t clock_ns;
static struct mtr_error err;

static uint64_t now(void *context)
{
    return clock_ns;
}

static void setup(void)
{
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(run_dir, sizeof run_dir, "%s/run", dir);
    s = (struct supervisor){.signal_fd = -1, .run_dir_fd = -1, .started_fd = -1};
    mtr_log_init(&s.log, "test");
    s.log.fd = -1;
    mtr_arena_init(&s.arena, 0);
    s.clock = (struct mtr_clock){now, NULL};
    s.run_dir = run_dir;
    s.worker_program = "/bin/true";
    s.plan_address = "ipc:///nowhere";
    s.log_level = "info";
    s.hardware = "auto";
    s.device = "0";
    clock_ns = 100 * MTR_NS_PER_S;
    err = (struct mtr_error){0};
}

static void teardown(void)
{
    if (s.run_dir_fd >= 0)
        close(s.run_dir_fd);
    if (s.started_fd >= 0)
        close(s.started_fd);
    mtr_arena_free(&s.arena);
    rmdir(run_dir);
    rmdir(dir);
}

/* A child that waits until it is told to end; stubborn ones don't listen to SIGTERM. */
static pid_t sleeper(bool stubborn)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, stubborn ? SIG_IGN : SIG_DFL);
        signal(SIGHUP, SIG_DFL); /* nohup has it ignored */
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

#define WORDS(...)                                                                                 \
    (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[])                            \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

START_TEST(flags_are_found_in_both_spellings)
{
    ck_assert_str_eq(flag_value(WORDS("serve", "m", "--port", "1"), "--port"), "1");
    ck_assert_str_eq(flag_value(WORDS("serve", "--port=2", "m"), "--port"), "2");
    ck_assert_str_eq(flag_value(WORDS("serve", "--port", "1", "--port=2"), "--port"), "2");
    ck_assert_str_eq(flag_value(WORDS("serve", "--port=", "m"), "--port"), "");
    ck_assert_ptr_null(flag_value(WORDS("serve", "--ports", "1"), "--port"));
    ck_assert_ptr_null(flag_value(WORDS("serve", "--port"), "--port"));
    ck_assert_ptr_null(flag_value(WORDS("serve", "--", "--port", "1"), "--port"));
    ck_assert_ptr_null(flag_value(WORDS("serve"), "--port"));
}
END_TEST

START_TEST(words_only)
{
    ck_assert(wants_words_only(WORDS("serve")));
    ck_assert(wants_words_only(WORDS("serve", "m", "--help")));
    ck_assert(wants_words_only(WORDS("serve", "--version")));
    ck_assert(!wants_words_only(WORDS("serve", "m")));
}
END_TEST

START_TEST(the_broker_gets_everything_and_the_run_directory)
{
    s.broker_program = "/bin/broker";
    ck_assert(make_arguments(&s, WORDS("serve", "m", "--x=1"), 7, &err));
    static const char *const with[] = {
        "/bin/broker", "--die-with-parent", "--started-fd", "7", "--run-dir", run_dir, "m",
        "--x=1"};
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        ck_assert_str_eq(s.broker_arguments[i], with[i]);
    ck_assert_ptr_null(s.broker_arguments[8]);
    ck_assert(make_arguments(&s, WORDS("serve", "m", "--run-dir", "/own"), 7, &err));
    ck_assert_str_eq(s.broker_arguments[4], "m");
    ck_assert_ptr_null(s.broker_arguments[7]);
    ck_assert(!make_arguments(&s, MAX_ARGUMENTS + 1, NULL, 7, &err));
    ck_assert_int_eq(err.code, MTR_TOO_LARGE);
}
END_TEST

START_TEST(a_run_directory_has_one_server)
{
    struct supervisor other = s;
    ck_assert(choose_run_dir(&s, WORDS("serve", "m", "--run-dir", run_dir), &err));
    ck_assert(s.made_run_dir);
    ck_assert_str_eq(s.log_level, "info");
    ck_assert_ptr_nonnull(strstr(s.plan_address, run_dir));
    ck_assert(!choose_run_dir(&other, WORDS("serve", "m", "--run-dir", run_dir), &err));
    ck_assert(err.code == MTR_BUSY && !other.made_run_dir && strstr(err.message, "another server"));
    close(other.run_dir_fd);
    close(s.run_dir_fd);
    s.run_dir_fd = -1;
    ck_assert(claim_run_dir(&s, &err)); /* the lock went with its holder */
    struct supervisor wrong = {.run_dir_fd = -1};
    ck_assert(!choose_run_dir(&wrong, WORDS("serve", "m", "--run-dir", "/nonexistent/x/y"), &err));
    ck_assert_ptr_nonnull(strstr(err.message, "/nonexistent/x/y"));
}
END_TEST

START_TEST(sockets_of_a_killed_broker_are_removed)
{
    char path[96];
    ck_assert_int_eq(mkdir(run_dir, 0700), 0);
    snprintf(path, sizeof path, "%s/plan.sock", run_dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    remove_run_dir(&s);
    ck_assert_int_ne(access(run_dir, F_OK), 0);
}
END_TEST

START_TEST(ends_are_described)
{
    char text[64];
    describe(3 << 8, text, sizeof text);
    ck_assert_str_eq(text, "ended with status 3");
    describe(SIGKILL, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "was killed by signal 9"));
}
END_TEST

/* The delay before the next worker, in milliseconds; UINT64_MAX: there will be none. */
static uint64_t delay_after(uint64_t lived_ns)
{
    s.restart_ns = 0;
    s.worker = 1;
    s.worker_started_ns = clock_ns - lived_ns;
    on_worker_death(&s, SIGKILL);
    ck_assert_int_eq(s.worker, 0);
    return s.restart_ns ? (s.restart_ns - clock_ns) / MTR_NS_PER_MS : UINT64_MAX;
}

START_TEST(young_deaths_slow_down_and_end)
{
    s.broker = sleeper(false);
    ck_assert_uint_eq(delay_after(0), 0);
    ck_assert_uint_eq(delay_after(0), 800);
    ck_assert_uint_eq(delay_after(0), 1600);
    ck_assert_uint_eq(delay_after(YOUNG_NS), 0); /* one that lived begins anew */
    ck_assert_uint_eq(delay_after(0), 0);
    ck_assert_uint_eq(delay_after(0), 800);
    ck_assert_uint_eq(delay_after(0), 1600);
    ck_assert(!s.gave_up);
    ck_assert_uint_eq(delay_after(0), UINT64_MAX); /* no broker says that one was ever ready */
    ck_assert(s.gave_up);
    int status;
    ck_assert_int_eq(waitpid(s.broker, &status, 0), s.broker);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
END_TEST

START_TEST(nothing_is_started_while_stopping)
{
    s.stopping = true;
    ck_assert_uint_eq(delay_after(YOUNG_NS), UINT64_MAX);
    ck_assert(!s.gave_up);
}
END_TEST

/* What the broker's pipe says, and whether a worker was started for it. */
static bool starts_worker(const char *bytes, size_t count, bool stopping)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], bytes, count), (ssize_t)count);
    close(ends[1]);
    s.started_fd = ends[0];
    s.stopping = stopping;
    s.worker = 0;
    on_started(&s);
    ck_assert_int_eq(s.started_fd, -1);
    if (s.worker > 0)
        waitpid(s.worker, NULL, 0);
    return s.worker > 0;
}

START_TEST(a_worker_is_started_when_flags_are_right)
{
    ck_assert(starts_worker("", 1, false));
    ck_assert(!starts_worker("", 0, false)); /* the broker ended before */
    ck_assert(!starts_worker("", 1, true));
}
END_TEST

START_TEST(a_program_that_is_missing_is_tried_later)
{
    s.worker_program = "/nonexistent/worker";
    start_worker(&s);
    if (s.worker > 0) { /* under an emulator it is the child that fails */
        int status;
        ck_assert_int_eq(waitpid(s.worker, &status, 0), s.worker);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 127);
        return;
    }
    ck_assert_uint_eq(s.restart_ns, clock_ns + MTR_NS_PER_S);
}
END_TEST

START_TEST(the_broker_is_told_apart)
{
    int status = 0;
    s.broker = sleeper(false);
    s.worker = sleeper(false);
    ck_assert(!reap(&s, &status));
    kill(s.worker, SIGKILL);
    while (s.worker > 0)
        ck_assert(!reap(&s, &status));
    kill(s.broker, SIGTERM);
    while (!reap(&s, &status))
        ;
    ck_assert(s.broker == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
END_TEST

START_TEST(signals_go_on)
{
    s.broker = sleeper(false);
    on_signal(&s, SIGCHLD);
    ck_assert(!s.stopping);
    on_signal(&s, SIGTERM);
    ck_assert(s.stopping);
    int status;
    ck_assert_int_eq(waitpid(s.broker, &status, 0), s.broker);
    ck_assert_int_eq(WTERMSIG(status), SIGTERM);
    s.stopping = false;
    s.broker = sleeper(false);
    s.worker = sleeper(false);
    on_signal(&s, SIGHUP);
    ck_assert(!s.stopping);
    ck_assert_int_eq(waitpid(s.broker, &status, 0), s.broker);
    ck_assert_int_eq(WTERMSIG(status), SIGHUP);
    ck_assert_int_eq(waitpid(s.worker, &status, 0), s.worker);
    ck_assert_int_eq(WTERMSIG(status), SIGHUP);
}
END_TEST

START_TEST(a_stubborn_worker_is_killed)
{
    s.worker = sleeper(false);
    end_worker(&s);
    ck_assert(s.worker == 0 && s.stopping);
    pid_t stubborn = s.worker = sleeper(true);
    end_worker(&s);
    ck_assert_int_eq(kill(stubborn, 0), -1);
    s.worker = 0;
    end_worker(&s); /* there may be none */
}
END_TEST

MTR_CHECK_MAIN("ctl/serve")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, flags_are_found_in_both_spellings);
    tcase_add_test(tc, words_only);
    tcase_add_test(tc, the_broker_gets_everything_and_the_run_directory);
    tcase_add_test(tc, a_run_directory_has_one_server);
    tcase_add_test(tc, sockets_of_a_killed_broker_are_removed);
    tcase_add_test(tc, ends_are_described);
    tcase_add_test(tc, young_deaths_slow_down_and_end);
    tcase_add_test(tc, nothing_is_started_while_stopping);
    tcase_add_test(tc, a_worker_is_started_when_flags_are_right);
    tcase_add_test(tc, a_program_that_is_missing_is_tried_later);
    tcase_add_test(tc, the_broker_is_told_apart);
    tcase_add_test(tc, signals_go_on);
    tcase_add_test(tc, a_stubborn_worker_is_killed);
}
