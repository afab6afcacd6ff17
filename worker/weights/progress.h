/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How far a load is, for people: a bar that redraws itself where standard error is a terminal,
 * otherwise a log line now and then.
 *
 *   weights  ##########................  38%   37.1 / 96.6 MB   1.9 GB/s
 */
#ifndef MTR_WEIGHTS_PROGRESS_H
#define MTR_WEIGHTS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/log.h"

#define MTR_PROGRESS_REDRAW_NS 100000000ull  /* a bar at most ten times a second */
#define MTR_PROGRESS_LINE_NS   2000000000ull /* a line at most every two seconds */

struct mtr_progress {
    struct mtr_log *log;
    const char *phase; /* "weights" */
    bool terminal;     /* log->fd is one */
    bool shown;        /* anything at all */
    bool drawn;        /* a bar that still stands there */
    uint64_t start_ns;
    uint64_t shown_ns;
};

/* The log and the name of the phase stay the caller's. */
void mtr_progress_begin(struct mtr_progress *p, struct mtr_log *log, const char *phase,
                        uint64_t now_ns);
void mtr_progress_update(struct mtr_progress *p, uint64_t done_bytes, uint64_t total_bytes,
                         uint64_t now_ns);

/* Removes the bar; if there was one, or a line, logs what was done: "weights: 96.6 MB in 2.05 s
 * (...)". Fine on a zeroed struct. */
void mtr_progress_end(struct mtr_progress *p, uint64_t total_bytes, uint64_t now_ns);

#endif
