/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A child writes into a pipe; whoever reads it watches the clock, and kills a child that takes too
 * long or says too much.
 */
#include "common/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"

#define PATH_BYTES 4096

const char *mtr_program_find(struct mtr_arena *arena, const char *name, struct mtr_error *err)
{
    char self[PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) {
        mtr_fail_errno(err, "can't find this program's own place");
        return NULL;
    }
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    const char *dash = strchr(name, '-'); /* metrale-broker: ../broker/ in the build tree */
    const char *places[] = {
        mtr_arena_printf(arena, "%s/%s", self, name),
        mtr_arena_printf(arena, "%s/../%s/%s", self, dash ? dash + 1 : name, name),
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (places[i] && access(places[i], X_OK) == 0)
            return places[i];
    mtr_fail(err, MTR_NOT_FOUND, "%s is not beside %s in %s", name, slash + 1, self);
    return NULL;
}

/* With no signal blocked, whatever this process has blocked. 0 on failure. */
static pid_t spawn(char *const arguments[], int to, struct mtr_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    int status = posix_spawn(&pid, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (status == 0)
        return pid;
    mtr_fail(err, MTR_IO, "can't run %s: %s", arguments[0], strerror(status));
    return 0;
}

static int left_ms(uint64_t end_ns)
{
    struct mtr_clock clock = mtr_clock_monotonic();
    uint64_t now = mtr_now_ns(&clock);
    return now >= end_ns ? 0 : (int)((end_ns - now) / MTR_NS_PER_MS) + 1;
}

/* Until the other end is closed. */
static bool listen_to(int fd, const char *name, uint64_t end_ns, struct mtr_buf *out,
                      struct mtr_error *err)
{
    char piece[1024];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = poll(&p, 1, left_ms(end_ns));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return mtr_fail(err, MTR_TIMEOUT, "%s takes too long", name);
        ssize_t n = read(fd, piece, sizeof piece);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return mtr_fail_errno(err, "reading from %s", name);
        if (n > 0 && (out->len + (size_t)n > MTR_PROGRAM_MAX_BYTES ||
                      !mtr_buf_append(out, piece, (size_t)n)))
            return mtr_fail(err, MTR_TOO_LARGE, "%s says more than %d bytes", name,
                            MTR_PROGRAM_MAX_BYTES);
    }
}

static bool reap(pid_t pid, bool heard, const char *name, struct mtr_error *err)
{
    int status = 0;
    if (!heard)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return heard && mtr_fail_errno(err, "waiting for %s", name);
    if (!heard)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    return WIFSIGNALED(status)
               ? mtr_fail(err, MTR_IO, "%s was killed by signal %d", name, WTERMSIG(status))
               : mtr_fail(err, MTR_IO, "%s ended with status %d", name, WEXITSTATUS(status));
}

bool mtr_program_ask(struct mtr_arena *arena, char *const arguments[], int limit_ms,
                     struct mtr_str *out, struct mtr_error *err)
{
    struct mtr_clock clock = mtr_clock_monotonic();
    uint64_t end = mtr_now_ns(&clock) + (uint64_t)limit_ms * MTR_NS_PER_MS;
    struct mtr_buf text = {0};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return mtr_fail_errno(err, "can't make a pipe");
    pid_t pid = spawn(arguments, ends[1], err);
    close(ends[1]);
    bool ok =
        pid && reap(pid, listen_to(ends[0], arguments[0], end, &text, err), arguments[0], err);
    close(ends[0]);
    if (ok) {
        *out = mtr_arena_str(arena, mtr_buf_view(&text));
        ok = out->ptr || !text.len || mtr_fail(err, MTR_NO_MEMORY, "no memory for what was said");
    }
    mtr_buf_free(&text);
    return ok;
}
