/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From the samples of a point's requests to what is reported of it.
 *
 * A stream's rate is counted from its first piece, (tokens - 1) / (last - first): the wait for the
 * first one is the other figure. The rate in all is every token over the time of the whole point,
 * with the waits, which is what a server delivers at that width. Failed requests give an error and
 * nothing else.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "ctl/bench.h"

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mtr_bench_percentile(double *values, size_t count, double p)
{
    if (!count)
        return 0;
    qsort(values, count, sizeof *values, compare);
    double rank = ceil(p / 100 * (double)count);
    size_t i = rank < 1 ? 0 : (size_t)rank - 1;
    return values[i < count ? i : count - 1];
}

static struct mtr_bench_spread spread_of(double *values, size_t count)
{
    return (struct mtr_bench_spread){mtr_bench_percentile(values, count, 50),
                                     mtr_bench_percentile(values, count, 99)};
}

/* Errors beyond the kept ones are counted with the last. */
static void count_failure(struct mtr_bench_point *p, const char *text)
{
    uint32_t i = 0;
    while (i < p->failure_count && strcmp(p->failures[i].text, text) != 0)
        i++;
    if (i == MTR_BENCH_MAX_ERRORS) {
        i--;
        snprintf(p->failures[i].text, sizeof p->failures[i].text, "other errors");
    } else if (i == p->failure_count) {
        p->failure_count++;
        snprintf(p->failures[i].text, sizeof p->failures[i].text, "%s", text);
    }
    p->failures[i].count++;
    p->failed++;
}

static uint64_t tokens_of(const struct mtr_bench_sample *m)
{
    return m->has_usage ? m->output_tokens : m->pieces;
}

static void add_sample(struct mtr_bench_point *p, const struct mtr_bench_sample *m, double *ttft,
                       size_t *ttfts, double *rate, size_t *rates)
{
    p->prompt_tokens += m->prompt_tokens;
    p->cached_tokens += m->cached_tokens;
    p->output_tokens += tokens_of(m);
    p->counted_by_server = p->counted_by_server && m->has_usage;
    if (m->first_ns)
        ttft[(*ttfts)++] = (double)(m->first_ns - m->start_ns) / MTR_NS_PER_MS;
    if (m->last_ns > m->first_ns && tokens_of(m) > 1)
        rate[(*rates)++] =
            (double)(tokens_of(m) - 1) * MTR_NS_PER_S / (double)(m->last_ns - m->first_ns);
}

bool mtr_bench_point_make(struct mtr_bench_point *point, const struct mtr_bench_load *load,
                          uint32_t prompt_tokens, struct mtr_error *err)
{
    size_t n = load->begun, room = n > load->gaps.count ? n : load->gaps.count;
    size_t ttfts = 0, rates = 0;
    double *ttft = calloc(n + 1, sizeof *ttft), *rate = calloc(n + 1, sizeof *rate);
    double *gap = calloc(room + 1, sizeof *gap);
    bool ok = ttft && rate && gap;
    *point = (struct mtr_bench_point){
        .prompt_tokens_asked = prompt_tokens,
        .width = load->width,
        .requests = load->begun,
        .wall_s = (double)load->wall_ns / MTR_NS_PER_S,
        .counted_by_server = true,
    };
    for (size_t i = 0; ok && i < n; i++)
        if (load->samples[i].error[0])
            count_failure(point, load->samples[i].error);
        else
            add_sample(point, &load->samples[i], ttft, &ttfts, rate, &rates);
    for (size_t i = 0; ok && i < load->gaps.count; i++)
        gap[i] = (double)load->gaps.ns[i] / MTR_NS_PER_MS;
    if (ok) {
        point->ttft_ms = spread_of(ttft, ttfts);
        point->gap_ms = spread_of(gap, load->gaps.count);
        point->stream_tokens_per_s = mtr_bench_percentile(rate, rates, 50);
        point->tokens_per_s = point->wall_s > 0 ? (double)point->output_tokens / point->wall_s : 0;
    }
    free(ttft);
    free(rate);
    free(gap);
    return ok || mtr_fail(err, MTR_NO_MEMORY, "out of memory for %zu times", room);
}
