/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counters, gauges and histograms of a broker, as Prometheus text.
 *
 * One struct, made in main and passed down; any thread may add. The series' names stand in
 * metrics.c; dashboards depend on them. Reading takes no lock: a scrape may see one request half
 * counted, never a torn number.
 */
#ifndef MTR_TELEMETRY_METRICS_H
#define MTR_TELEMETRY_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/str.h"

enum mtr_counter {
    MTR_C_REQUESTS, /* by outcome, below */
    MTR_C_REQUESTS_FAILED,
    MTR_C_REQUESTS_REFUSED, /* 4xx and overload */
    MTR_C_REQUESTS_CANCELLED,
    MTR_C_PROMPT_TOKENS,
    MTR_C_GENERATION_TOKENS,
    MTR_C_PREFIX_HITS,
    MTR_C_PREFIX_MISSES,
    MTR_C_PREFIX_HIT_TOKENS,
    MTR_C_PREFIX_MISS_TOKENS,
    MTR_C_PREEMPTIONS,
    MTR_C_WORKER_LOSSES,
    MTR_C_STEPS,
    MTR_C_COUNT,
};

enum mtr_gauge {
    MTR_G_REQUESTS_ACTIVE,
    MTR_G_RUNNING,
    MTR_G_WAITING,
    MTR_G_BLOCKS,
    MTR_G_BLOCKS_USED,
    MTR_G_BLOCKS_CACHED,
    MTR_G_SNAPSHOTS,
    MTR_G_SNAPSHOTS_USED,
    MTR_G_READY,
    MTR_G_COUNT,
};

enum mtr_histogram {
    MTR_H_FIRST_TOKEN, /* time to first token, seconds */
    MTR_H_TOKEN_GAP,   /* between tokens of one stream */
    MTR_H_REQUEST,     /* whole request */
    MTR_H_STEP,        /* device time of a step */
    MTR_H_COUNT,
};

#define MTR_HISTOGRAM_BUCKETS 18

struct mtr_metrics {
    _Atomic uint64_t counters[MTR_C_COUNT];
    _Atomic int64_t gauges[MTR_G_COUNT];
    struct {
        _Atomic uint64_t buckets[MTR_HISTOGRAM_BUCKETS + 1];
        _Atomic uint64_t sum_ns;
    } histograms[MTR_H_COUNT];
};

static inline void mtr_count(struct mtr_metrics *m, enum mtr_counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&m->counters[c], n, memory_order_relaxed);
}

static inline void mtr_gauge_add(struct mtr_metrics *m, enum mtr_gauge g, int64_t n)
{
    atomic_fetch_add_explicit(&m->gauges[g], n, memory_order_relaxed);
}

static inline void mtr_gauge_set(struct mtr_metrics *m, enum mtr_gauge g, int64_t n)
{
    atomic_store_explicit(&m->gauges[g], n, memory_order_relaxed);
}

void mtr_observe(struct mtr_metrics *m, enum mtr_histogram h, uint64_t ns);

/* Prometheus text exposition format 0.0.4; every series has the label model. */
void mtr_metrics_render(const struct mtr_metrics *m, struct mtr_str model, struct mtr_buf *out);

/* One more series of the same text: metrale_device_info, which is 1 and has the labels hardware and
 * device. */
void mtr_metrics_render_device(struct mtr_str model, const char *hardware, const char *device,
                               struct mtr_buf *out);

#endif
