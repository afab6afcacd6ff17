/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The bar is redrawn in place with a carriage return and erased before the final line, so that a
 * log never has pieces of it.
 */
#include "worker/weights/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 26
#define MB        1e6
#define GB        1e9

static void write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n <= 0)
            return; /* a progress bar that nobody can see is no reason to fail */
        text += n;
        len -= (size_t)n;
    }
}

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 1e-9;
}

void mtr_progress_begin(struct mtr_progress *p, struct mtr_log *log, const char *phase,
                        uint64_t now_ns)
{
    *p = (struct mtr_progress){.log = log, .phase = phase, .start_ns = now_ns, .shown_ns = now_ns};
    p->terminal = isatty(log->fd) == 1;
}

static void draw(const struct mtr_progress *p, uint64_t done, uint64_t total, uint64_t now_ns)
{
    char line[160], bar[BAR_CELLS + 1];
    double share = (double)done / (double)total;
    int full = (int)(share * BAR_CELLS);
    memset(bar, '#', sizeof bar);
    memset(bar + full, '.', (size_t)(BAR_CELLS - full));
    bar[BAR_CELLS] = 0;
    int n = snprintf(line, sizeof line, "\r%s  %s  %3d%%  %.1f / %.1f MB  %.1f GB/s\x1b[K",
                     p->phase, bar, (int)(share * 100), (double)done / MB, (double)total / MB,
                     (double)done / GB / seconds(p->start_ns, now_ns));
    if (n > 0)
        write_all(p->log->fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void mtr_progress_update(struct mtr_progress *p, uint64_t done_bytes, uint64_t total_bytes,
                         uint64_t now_ns)
{
    uint64_t pause = p->terminal ? MTR_PROGRESS_REDRAW_NS : MTR_PROGRESS_LINE_NS;
    if (total_bytes == 0 || now_ns - p->shown_ns < pause)
        return;
    if (done_bytes > total_bytes)
        done_bytes = total_bytes;
    p->shown_ns = now_ns;
    p->shown = true;
    if (p->terminal) {
        draw(p, done_bytes, total_bytes, now_ns);
        p->drawn = true;
        return;
    }
    mtr_info(p->log, "%s: %.1f of %.1f MB (%d%%)", p->phase, (double)done_bytes / MB,
             (double)total_bytes / MB, (int)(100 * (double)done_bytes / (double)total_bytes));
}

void mtr_progress_end(struct mtr_progress *p, uint64_t total_bytes, uint64_t now_ns)
{
    static const char erase[] = "\r\x1b[K";
    double time = seconds(p->start_ns, now_ns);
    if (p->drawn)
        write_all(p->log->fd, erase, sizeof erase - 1);
    p->drawn = false;
    if (!p->shown)
        return;
    mtr_info(p->log, "%s: %.1f MB in %.2f s (%.1f GB/s)", p->phase, (double)total_bytes / MB, time,
             (double)total_bytes / GB / time);
}
