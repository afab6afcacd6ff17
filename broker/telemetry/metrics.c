/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One table a kind: name, help, index. Rendering walks the tables.
 */
#include "broker/telemetry/metrics.h"

static const struct {
    const char *name, *help;
} counters[MTR_C_COUNT] = {
    [MTR_C_REQUESTS] = {"metrale_requests_total", "Generation requests accepted"},
    [MTR_C_REQUESTS_FAILED] = {"metrale_requests_failed_total",
                               "Requests that ended with an error of the server"},
    [MTR_C_REQUESTS_REFUSED] = {"metrale_requests_refused_total",
                                "Requests refused as invalid, unauthorized or over a limit"},
    [MTR_C_REQUESTS_CANCELLED] = {"metrale_requests_cancelled_total",
                                  "Requests whose client went away"},
    [MTR_C_PROMPT_TOKENS] = {"metrale_prompt_tokens_total", "Tokens of accepted prompts"},
    [MTR_C_GENERATION_TOKENS] = {"metrale_generation_tokens_total", "Tokens sent to clients"},
    [MTR_C_PREFIX_HITS] = {"metrale_prefix_cache_hits_total",
                           "Prompts of which some prefix was cached"},
    [MTR_C_PREFIX_MISSES] = {"metrale_prefix_cache_misses_total",
                             "Prompts of which nothing was cached"},
    [MTR_C_PREFIX_HIT_TOKENS] = {"metrale_prefix_cache_hit_tokens_total",
                                 "Prompt tokens found in the prefix cache"},
    [MTR_C_PREFIX_MISS_TOKENS] = {"metrale_prefix_cache_miss_tokens_total",
                                  "Prompt tokens that had to be computed"},
    [MTR_C_PREEMPTIONS] = {"metrale_preemptions_total",
                           "Sequences set back for want of cache blocks"},
    [MTR_C_WORKER_LOSSES] = {"metrale_worker_losses_total", "Workers lost while serving"},
    [MTR_C_STEPS] = {"metrale_steps_total", "Steps executed"},
};

static const struct {
    const char *name, *help;
} gauges[MTR_G_COUNT] = {
    [MTR_G_REQUESTS_ACTIVE] = {"metrale_requests_active", "Requests being answered"},
    [MTR_G_RUNNING] = {"metrale_sequences_running", "Sequences that hold cache blocks"},
    [MTR_G_WAITING] = {"metrale_sequences_waiting", "Sequences in the queue"},
    [MTR_G_BLOCKS] = {"metrale_cache_blocks", "Cache blocks in all"},
    [MTR_G_BLOCKS_USED] = {"metrale_cache_blocks_used", "Cache blocks held by sequences"},
    [MTR_G_BLOCKS_CACHED] = {"metrale_cache_blocks_cached",
                             "Cache blocks held by the prefix cache alone"},
    [MTR_G_SNAPSHOTS] = {"metrale_state_snapshots",
                         "Snapshots of recurrent state that there is room for"},
    [MTR_G_SNAPSHOTS_USED] = {"metrale_state_snapshots_used",
                              "Snapshots of recurrent state that the prefix cache holds"},
    [MTR_G_READY] = {"metrale_ready", "1 when requests are served"},
};

static const struct {
    const char *name, *help;
} histograms[MTR_H_COUNT] = {
    [MTR_H_FIRST_TOKEN] = {"metrale_time_to_first_token_seconds",
                           "From the request's arrival to its first token"},
    [MTR_H_TOKEN_GAP] = {"metrale_inter_token_seconds", "Between two tokens of one stream"},
    [MTR_H_REQUEST] = {"metrale_request_seconds", "From a request's arrival to its end"},
    [MTR_H_STEP] = {"metrale_step_seconds", "Device time of a step"},
};

/* Upper bounds in nanoseconds, 1-2-5 from 100 us. */
static const uint64_t bounds[MTR_HISTOGRAM_BUCKETS] = {
    100000ull,     200000ull,     500000ull,     1000000ull,     2000000ull,     5000000ull,
    10000000ull,   20000000ull,   50000000ull,   100000000ull,   200000000ull,   500000000ull,
    1000000000ull, 2000000000ull, 5000000000ull, 10000000000ull, 30000000000ull, 60000000000ull,
};

void mtr_observe(struct mtr_metrics *m, enum mtr_histogram h, uint64_t ns)
{
    int b = 0;
    while (b < MTR_HISTOGRAM_BUCKETS && ns > bounds[b])
        b++;
    atomic_fetch_add_explicit(&m->histograms[h].buckets[b], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->histograms[h].sum_ns, ns, memory_order_relaxed);
}

/* A label value: backslash, quote and newline escaped. */
static void put_named_label(struct mtr_buf *out, const char *name, struct mtr_str value)
{
    mtr_buf_printf(out, "%s=\"", name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '\\' || c == '"')
            mtr_buf_byte(out, '\\');
        if (c == '\n')
            mtr_buf_puts(out, "\\n");
        else
            mtr_buf_byte(out, (uint8_t)c);
    }
    mtr_buf_byte(out, '"');
}

static void put_label(struct mtr_buf *out, struct mtr_str model)
{
    put_named_label(out, "model", model);
}

static void put_series(struct mtr_buf *out, const char *name, const char *help, const char *type,
                       struct mtr_str model, int64_t value)
{
    mtr_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s{", name, help, name, type, name);
    put_label(out, model);
    mtr_buf_printf(out, "} %lld\n", (long long)value);
}

static void put_histogram(struct mtr_buf *out, const struct mtr_metrics *m, int h,
                          struct mtr_str model)
{
    const char *name = histograms[h].name;
    uint64_t total = 0;
    mtr_buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, histograms[h].help, name);
    for (int b = 0; b <= MTR_HISTOGRAM_BUCKETS; b++) {
        total += atomic_load_explicit(&m->histograms[h].buckets[b], memory_order_relaxed);
        mtr_buf_printf(out, "%s_bucket{", name);
        put_label(out, model);
        if (b < MTR_HISTOGRAM_BUCKETS)
            mtr_buf_printf(out, ",le=\"%g\"} %llu\n", (double)bounds[b] / 1e9,
                           (unsigned long long)total);
        else
            mtr_buf_printf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)total);
    }
    uint64_t sum = atomic_load_explicit(&m->histograms[h].sum_ns, memory_order_relaxed);
    mtr_buf_printf(out, "%s_sum{", name);
    put_label(out, model);
    mtr_buf_printf(out, "} %.9f\n%s_count{", (double)sum / 1e9, name);
    put_label(out, model);
    mtr_buf_printf(out, "} %llu\n", (unsigned long long)total);
}

void mtr_metrics_render(const struct mtr_metrics *m, struct mtr_str model, struct mtr_buf *out)
{
    for (int c = 0; c < MTR_C_COUNT; c++)
        put_series(out, counters[c].name, counters[c].help, "counter", model,
                   (int64_t)atomic_load_explicit(&m->counters[c], memory_order_relaxed));
    for (int g = 0; g < MTR_G_COUNT; g++)
        put_series(out, gauges[g].name, gauges[g].help, "gauge", model,
                   atomic_load_explicit(&m->gauges[g], memory_order_relaxed));
    for (int h = 0; h < MTR_H_COUNT; h++)
        put_histogram(out, m, h, model);
}

void mtr_metrics_render_device(struct mtr_str model, const char *hardware, const char *device,
                               struct mtr_buf *out)
{
    mtr_buf_puts(out, "# HELP metrale_device_info What the first worker computes on.\n"
                      "# TYPE metrale_device_info gauge\nmetrale_device_info{");
    put_label(out, model);
    mtr_buf_byte(out, ',');
    put_named_label(out, "hardware", mtr_str(hardware));
    mtr_buf_byte(out, ',');
    put_named_label(out, "device", mtr_str(device));
    mtr_buf_puts(out, "} 1\n");
}
