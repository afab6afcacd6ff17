/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RLIMIT_DATA counts private writable mappings, touched or not: heap, caches, stacks, but not the
 * mapped checkpoint. So the limit is what is mapped now, plus a slack.
 */
#include "worker/session/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define OOM_SCORE    "500" /* of -1000 to 1000 */
#define STATUS_LINES 128

static bool mapped_data_bytes(unsigned long long *bytes)
{
    unsigned long long kib;
    char line[256];
    bool found = false;
    FILE *f = fopen("/proc/self/status", "re");
    for (int i = 0; f && !found && i < STATUS_LINES && fgets(line, sizeof line, f); i++)
        found = sscanf(line, "VmData: %llu kB", &kib) == 1;
    if (f)
        fclose(f);
    if (found)
        *bytes = kib * 1024;
    return found;
}

static void prefer_to_die(struct mtr_log *log)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, OOM_SCORE, strlen(OOM_SCORE)) < 0)
        mtr_debug(log, "oom_score_adj stays as it is");
    if (fd >= 0)
        close(fd);
}

void mtr_guard_memory(struct mtr_log *log, uint64_t later_bytes)
{
    unsigned long long bytes;
    struct rlimit limit;
    prefer_to_die(log);
    if (!mapped_data_bytes(&bytes) || getrlimit(RLIMIT_DATA, &limit) != 0)
        return;
    bytes += MTR_GUARD_SLACK_BYTES + later_bytes;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= bytes)
        return;
    limit.rlim_cur = bytes;
    if (setrlimit(RLIMIT_DATA, &limit) != 0)
        mtr_warn(log, "no memory guard: %s", strerror(errno));
    else
        mtr_debug(log, "memory guard at %.1f GB of private memory", (double)bytes / 1e9);
}

bool mtr_guard_parent(struct mtr_error *err)
{
    pid_t parent = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        return mtr_fail_errno(err, "prctl");
    if (getppid() != parent)
        return mtr_fail(err, MTR_NOT_FOUND, "the parent process is gone");
    return true;
}
