/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A line is composed on the stack and leaves in one write. What callers print may come from a
 * client, so control characters are replaced: a message can't forge a second line or drive a
 * terminal.
 */
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES  4096
#define LEVEL_BYTES 64 /* of a file that holds a level */

static const struct {
    const char *name, *label;
    int priority; /* of syslog(3), for the journal */
} levels[] = {
    [MTR_ERROR] = {"error", "ERROR", 3},
    [MTR_WARN] = {"warn", "WARN ", 4},
    [MTR_INFO] = {"info", "INFO ", 6},
    [MTR_DEBUG] = {"debug", "DEBUG", 7},
};

void mtr_log_init(struct mtr_log *log, const char *source)
{
    atomic_init(&log->level, MTR_INFO);
    log->source = source;
    log->fd = STDERR_FILENO;
    log->journal = getenv("JOURNAL_STREAM") != NULL;
}

void mtr_log_set_level(struct mtr_log *log, enum mtr_level level)
{
    atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

bool mtr_level_parse(const char *name, enum mtr_level *out)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(levels[i].name, name) == 0) {
            *out = (enum mtr_level)i;
            return true;
        }
    return false;
}

bool mtr_log_read_level(struct mtr_log *log, const char *path, struct mtr_error *err)
{
    char text[LEVEL_BYTES];
    enum mtr_level level;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0)
        mtr_fail_errno(err, "can't read the log level from %s", path);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    text[n] = '\0';
    char *name = text + strspn(text, " \t\r\n");
    name[strcspn(name, " \t\r\n")] = '\0';
    if (!mtr_level_parse(name, &level))
        return mtr_fail(err, MTR_INVALID,
                        "%s: '%.20s' is no log level; expected error, warn, info or debug", path,
                        name);
    mtr_log_set_level(log, level);
    return true;
}

static int put_head(const struct mtr_log *log, enum mtr_level level, char *line, size_t size)
{
    if (log->journal)
        return snprintf(line, size, "<%d>%s ", levels[level].priority, log->source);
    struct timeval now;
    struct tm tm;
    char day[32];
    gettimeofday(&now, NULL);
    gmtime_r(&now.tv_sec, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    return snprintf(line, size, "%s.%03dZ %s %s ", day, (int)(now.tv_usec / 1000),
                    levels[level].label, log->source);
}

void mtr_log(struct mtr_log *log, enum mtr_level level, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    int saved = errno;
    char line[LINE_BYTES];
    size_t room = sizeof line - 1; /* the last byte is for the newline */
    int n = put_head(log, level, line, room);
    size_t len = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    va_list args;
    va_start(args, format);
    n = vsnprintf(line + len, room - len, format, args);
    va_end(args);
    len += n < 0 ? 0 : (size_t)n < room - len ? (size_t)n : room - len - 1;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = line[i] == '\t' ? ' ' : '?';
    line[len++] = '\n';
    while (write(log->fd, line, len) < 0 && errno == EINTR)
        ;
    errno = saved;
}
