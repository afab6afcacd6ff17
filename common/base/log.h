/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One log per process, on standard error, one line an event:
 *
 *   2026-01-31T10:20:30.123Z INFO  worker[0] loaded 98.1 MB in 0.21 s
 *
 * A struct mtr_log is created in main and passed down; there is no global. Lines are written whole
 * with one write(2), so that processes that share a terminal do not mix theirs. Thread-safe.
 * Under systemd (JOURNAL_STREAM set) the time is left out and the priority is given as "<N>".
 * Secrets never enter a log: callers pass names of keys, not keys.
 */
#ifndef MTR_BASE_LOG_H
#define MTR_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/base/error.h"

enum mtr_level { MTR_ERROR, MTR_WARN, MTR_INFO, MTR_DEBUG };

struct mtr_log {
    _Atomic int level;  /* enum mtr_level; lines above it are dropped */
    const char *source; /* "broker", "worker[0]": static or owned by main */
    int fd;
    bool journal;
};

void mtr_log_init(struct mtr_log *log, const char *source);
void mtr_log_set_level(struct mtr_log *log, enum mtr_level level);
bool mtr_level_parse(const char *name, enum mtr_level *out); /* error warn info debug */

/* Sets the level that stands in a file, alone but for white space. On failure it stays. */
bool mtr_log_read_level(struct mtr_log *log, const char *path, struct mtr_error *err);

void mtr_log(struct mtr_log *log, enum mtr_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define mtr_error_log(log, ...) mtr_log((log), MTR_ERROR, __VA_ARGS__)
#define mtr_warn(log, ...)      mtr_log((log), MTR_WARN, __VA_ARGS__)
#define mtr_info(log, ...)      mtr_log((log), MTR_INFO, __VA_ARGS__)
#define mtr_debug(log, ...)     mtr_log((log), MTR_DEBUG, __VA_ARGS__)

#endif
