/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl serve: a broker and its workers in the foreground, with one log.
 *
 * All flags go to the broker unread but for those that this process needs itself. The worker is
 * told only where to connect and which device it has, and started once the broker has found the
 * flags right. A worker that dies is started again at once; one that dies young again and again is
 * started ever later, and after MAX_YOUNG_DEATHS before it was ever ready, not at all: the server
 * then ends with its last words in the log. Ctrl-C and SIGTERM drain; a second one ends at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/program.h"
#include "common/wire/address.h"
#include "ctl/ctl.h"

#define MAX_YOUNG_DEATHS 4
#define YOUNG_NS         (5 * MTR_NS_PER_S)
#define MAX_DELAY_NS     (5 * MTR_NS_PER_S)
#define WORKER_EXIT_MS   3000
#define MAX_ARGUMENTS    512
#define MORE_ARGUMENTS   8 /* that are put before those given */

struct supervisor {
    struct mtr_log log;
    struct mtr_arena arena;
    struct mtr_clock clock;
    const char *broker_program, *worker_program;
    const char *run_dir, *plan_address, *admin_socket; /* admin_socket: NULL for the usual */
    const char *log_level, *log_level_file;            /* log_level_file: or NULL */
    const char *hardware, *device;                     /* "auto", "0" unless given */
    bool made_run_dir;
    int run_dir_fd; /* holds the lock on run_dir */
    char **broker_arguments;
    pid_t broker, worker;                   /* 0: not running */
    uint64_t worker_started_ns, restart_ns; /* restart_ns 0: none is planned */
    uint32_t young_deaths;
    bool gave_up;
    bool stopping;
    int signal_fd;
    int started_fd; /* readable once the broker has read its flags or is gone; -1: that is over */
    sigset_t old_signals;
};

/* ---- Programs ---------------------------------------------------------------------------------
 */

/* The child gets the signals as they were before ours were blocked, and a process group of its own:
 * Ctrl-C reaches us alone, we say in which order to stop. Only SIGHUP waits until the child is
 * there to take it, since it would end a program that has just begun. Children end with us (their
 * flag
 * --die-with-parent). 0 on failure. */
static pid_t spawn(struct supervisor *s, const char *program, char **arguments)
{
    posix_spawnattr_t attributes;
    sigset_t mask = s->old_signals;
    pid_t pid = 0;
    sigaddset(&mask, SIGHUP);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &mask);
    int status = posix_spawn(&pid, program, NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (status != 0)
        mtr_error_log(&s->log, "can't run %s: %s", program, strerror(status));
    return status == 0 ? pid : 0;
}

static void start_worker(struct supervisor *s)
{
    char *arguments[] = {(char *)s->worker_program,
                         "--rank",
                         "0",
                         "--connect",
                         (char *)s->plan_address,
                         "--log-level",
                         (char *)s->log_level,
                         "--die-with-parent",
                         "--hardware",
                         (char *)s->hardware,
                         "--device",
                         (char *)s->device,
                         s->log_level_file ? "--log-level-file" : NULL,
                         (char *)s->log_level_file,
                         NULL};
    s->restart_ns = 0;
    s->worker_started_ns = mtr_now_ns(&s->clock);
    s->worker = spawn(s, s->worker_program, arguments);
    if (!s->worker)
        s->restart_ns = s->worker_started_ns + MTR_NS_PER_S;
}

/* ---- Deaths -----------------------------------------------------------------------------------
 */

static void describe(int status, char *out, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(out, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(out, size, "ended with status %d", WEXITSTATUS(status));
}

/* A server that has served goes on trying, whatever happens to its workers. */
static bool was_ever_ready(struct supervisor *s)
{
    struct mtr_admin_target target = {.run_dir = s->run_dir, .admin_socket = s->admin_socket};
    Mtr__AdminStatus body = MTR__ADMIN_STATUS__INIT;
    Mtr__AdminRequest request = MTR__ADMIN_REQUEST__INIT;
    struct mtr_arena arena;
    mtr_arena_init(&arena, 1u << 24);
    request.body_case = MTR__ADMIN_REQUEST__BODY_STATUS;
    request.status = &body;
    const Mtr__AdminReply *reply = mtr_admin_ask(&arena, &target, &request, NULL);
    bool ready = reply && reply->status && reply->status->was_ready;
    mtr_arena_free(&arena);
    return ready;
}

static void on_worker_death(struct supervisor *s, int status)
{
    char how[64];
    uint64_t now = mtr_now_ns(&s->clock);
    s->worker = 0;
    if (s->stopping)
        return;
    describe(status, how, sizeof how);
    bool young = now - s->worker_started_ns < YOUNG_NS;
    s->young_deaths = young ? s->young_deaths + 1 : 0;
    if (s->young_deaths >= MAX_YOUNG_DEATHS && !was_ever_ready(s)) {
        s->gave_up = true;
        mtr_error_log(&s->log, "the worker %s, %u times in a row soon after its start: giving up",
                      how, s->young_deaths);
        kill(s->broker, SIGTERM);
        return;
    }
    uint64_t delay = 0;
    if (s->young_deaths > 1)
        delay = (200 * MTR_NS_PER_MS) << (s->young_deaths < 8 ? s->young_deaths : 8);
    if (delay > MAX_DELAY_NS)
        delay = MAX_DELAY_NS;
    mtr_warn(&s->log, "the worker %s; starting another", how);
    s->restart_ns = now + delay;
}

/* Takes all that ended. Returns true when the broker is among them. */
static bool reap(struct supervisor *s, int *broker_status)
{
    int status;
    pid_t pid;
    bool over = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == s->broker) {
            s->broker = 0;
            *broker_status = status;
            over = true;
        } else if (pid == s->worker) {
            on_worker_death(s, status);
        }
    }
    return over;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

static void on_signal(struct supervisor *s, uint32_t signal)
{
    if (signal == SIGHUP) {
        kill(s->broker, SIGHUP);
        if (s->worker > 0)
            kill(s->worker, SIGHUP);
        return;
    }
    if (signal != SIGCHLD) {
        s->stopping = true;
        kill(s->broker, SIGTERM); /* a second one ends its draining */
    }
}

/* The broker's word that its flags are right; its end is heard of by a signal. */
static void on_started(struct supervisor *s)
{
    char byte;
    if (read(s->started_fd, &byte, 1) == 1 && !s->stopping)
        start_worker(s);
    close(s->started_fd);
    s->started_fd = -1;
}

static int supervise(struct supervisor *s)
{
    struct pollfd fds[] = {{.fd = s->signal_fd, .events = POLLIN},
                           {.fd = s->started_fd, .events = POLLIN}};
    int broker_status = 0;
    bool over = false;
    while (!over) {
        struct signalfd_siginfo info;
        uint64_t now = mtr_now_ns(&s->clock);
        int timeout = -1;
        if (s->restart_ns && now >= s->restart_ns)
            start_worker(s);
        else if (s->restart_ns)
            timeout = (int)((s->restart_ns - now) / MTR_NS_PER_MS) + 1;
        fds[1].fd = s->started_fd;
        if (poll(fds, 2, timeout) > 0 && fds[1].revents)
            on_started(s);
        while (read(s->signal_fd, &info, sizeof info) == sizeof info)
            on_signal(s, info.ssi_signo);
        over = reap(s, &broker_status);
    }
    if (WIFSIGNALED(broker_status)) {
        char how[64];
        describe(broker_status, how, sizeof how);
        mtr_error_log(&s->log, "the broker %s", how);
        return MTR_EXIT_FAILED;
    }
    if (s->gave_up)
        return MTR_EXIT_FAILED;
    return WEXITSTATUS(broker_status);
}

/* Without a broker a worker has nothing to finish. */
static void end_worker(struct supervisor *s)
{
    s->stopping = true;
    if (s->worker > 0)
        kill(s->worker, SIGTERM);
    for (int ms = 0; s->worker > 0 && ms < WORKER_EXIT_MS; ms += 10) {
        int status;
        if (waitpid(s->worker, &status, WNOHANG) == s->worker)
            s->worker = 0;
        else
            usleep(10000);
    }
    if (s->worker > 0) {
        kill(s->worker, SIGKILL);
        waitpid(s->worker, NULL, 0);
    }
}

/* ---- Start ------------------------------------------------------------------------------------
 */

/* The value of a flag among the broker's arguments, in either spelling, or NULL. Of several the
 * last, as the broker sees it. */
static const char *flag_value(int argc, char **argv, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], name, len) != 0)
            continue;
        if (argv[i][len] == '=')
            value = argv[i] + len + 1;
        else if (argv[i][len] == '\0' && i + 1 < argc)
            value = argv[++i];
    }
    return value;
}

/* A second server there would give its worker to the first one's broker. The children inherit the
 * lock, so it lasts until the last of them has ended. */
static bool claim_run_dir(struct supervisor *s, struct mtr_error *err)
{
    s->run_dir_fd = open(s->run_dir, O_RDONLY | O_DIRECTORY);
    if (s->run_dir_fd < 0)
        return mtr_fail_errno(err, "can't open the run directory %s", s->run_dir);
    if (flock(s->run_dir_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK)
        return mtr_fail_errno(err, "can't lock the run directory %s", s->run_dir);
    return mtr_fail(err, MTR_BUSY,
                    "another server runs in %s; give this one a --port or --run-dir of its own",
                    s->run_dir);
}

static bool choose_run_dir(struct supervisor *s, int argc, char **argv, struct mtr_error *err)
{
    const char *port = flag_value(argc, argv, "--port");
    s->run_dir = flag_value(argc, argv, "--run-dir");
    if (!s->run_dir) {
        uint64_t n = 8888;
        if (port && !mtr_str_to_u64(mtr_str(port), &n))
            n = 0; /* the broker will say what is wrong with it */
        s->run_dir = mtr_default_run_dir(&s->arena, n ? (uint32_t)n : (uint32_t)getpid());
    }
    s->made_run_dir = mkdir(s->run_dir, 0750) == 0;
    if (!s->made_run_dir && errno != EEXIST)
        return mtr_fail_errno(err, "can't make the run directory %s", s->run_dir);
    if (!claim_run_dir(s, err))
        return false;
    s->plan_address = flag_value(argc, argv, "--plan-address");
    if (!s->plan_address)
        s->plan_address = mtr_plan_address(&s->arena, s->run_dir);
    s->admin_socket = flag_value(argc, argv, "--admin-socket");
    s->log_level = flag_value(argc, argv, "--log-level");
    if (!s->log_level)
        s->log_level = "info";
    s->log_level_file = flag_value(argc, argv, "--log-level-file");
    s->hardware = flag_value(argc, argv, "--hardware");
    s->device = flag_value(argc, argv, "--device");
    if (!s->hardware)
        s->hardware = "auto";
    if (!s->device)
        s->device = "0";
    return true;
}

static bool make_arguments(struct supervisor *s, int argc, char **argv, int started_fd,
                           struct mtr_error *err)
{
    if (argc > MAX_ARGUMENTS)
        return mtr_fail(err, MTR_TOO_LARGE, "more than %d arguments", MAX_ARGUMENTS);
    s->broker_arguments =
        mtr_arena_calloc(&s->arena, (size_t)argc + MORE_ARGUMENTS, sizeof(char *));
    if (!s->broker_arguments)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    int n = 0;
    s->broker_arguments[n++] = (char *)s->broker_program;
    s->broker_arguments[n++] = "--die-with-parent";
    s->broker_arguments[n++] = "--started-fd";
    s->broker_arguments[n++] = mtr_arena_printf(&s->arena, "%d", started_fd);
    if (!flag_value(argc, argv, "--run-dir")) {
        s->broker_arguments[n++] = "--run-dir";
        s->broker_arguments[n++] = (char *)s->run_dir;
    }
    for (int i = 1; i < argc; i++)
        s->broker_arguments[n++] = argv[i];
    return true;
}

static bool prepare(struct supervisor *s, int argc, char **argv, struct mtr_error *err)
{
    sigset_t set;
    s->broker_program = mtr_program_find(&s->arena, "metrale-broker", err);
    s->worker_program =
        s->broker_program ? mtr_program_find(&s->arena, "metrale-worker", err) : NULL;
    if (!s->worker_program || !choose_run_dir(s, argc, argv, err))
        return false;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, &s->old_signals) != 0 ||
        (s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return mtr_fail_errno(err, "can't watch signals");
    return true;
}

/* --help and --version are the broker's to answer; no worker is needed for that. */
static bool wants_words_only(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0)
            return true;
    return argc < 2;
}

/* The broker inherits the end of a pipe that it writes to; workers inherit neither. */
static bool start_broker(struct supervisor *s, int argc, char **argv, struct mtr_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mtr_fail_errno(err, "can't make a pipe");
    s->started_fd = ends[0];
    if (fcntl(ends[1], F_SETFD, 0) == 0 && make_arguments(s, argc, argv, ends[1], err))
        s->broker = spawn(s, s->broker_program, s->broker_arguments);
    close(ends[1]);
    return s->broker || mtr_fail(err, MTR_IO, "the broker was not started");
}

/* What a broker that was killed could not do itself. */
static void remove_run_dir(struct supervisor *s)
{
    const char *plan = mtr_arena_printf(&s->arena, "%s/plan.sock", s->run_dir);
    const char *admin = mtr_arena_printf(&s->arena, "%s/admin.sock", s->run_dir);
    if (plan)
        unlink(plan);
    if (admin)
        unlink(admin);
    rmdir(s->run_dir);
}

int mtr_ctl_serve(int argc, char **argv)
{
    struct supervisor s = {.signal_fd = -1, .run_dir_fd = -1, .started_fd = -1};
    struct mtr_error error = {0};
    mtr_log_init(&s.log, "serve");
    mtr_arena_init(&s.arena, 1u << 22);
    s.clock = mtr_clock_monotonic();
    if (wants_words_only(argc, argv)) {
        const char *program = mtr_program_find(&s.arena, "metrale-broker", &error);
        if (!program)
            return mtr_ctl_error(argv[0], &error);
        argv[0] = (char *)program;
        execv(program, argv);
        mtr_fail_errno(&error, "can't run %s", program);
        return mtr_ctl_error("serve", &error);
    }
    bool ok = prepare(&s, argc, argv, &error) && start_broker(&s, argc, argv, &error);
    int status = ok ? supervise(&s) : mtr_ctl_error(argv[0], &error);
    end_worker(&s);
    if (s.made_run_dir)
        remove_run_dir(&s);
    mtr_arena_free(&s.arena);
    return status;
}
