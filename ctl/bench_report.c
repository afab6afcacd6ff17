/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A run as JSON, and JSON of a run as a table. There is one way to the table, through the JSON, so
 * a run looks the same when it ends and when it is looked up later.
 */
#include <stdio.h>

#include "ctl/bench.h"

/* ---- Judgement --------------------------------------------------------------------------------
 */

void mtr_bench_judge(struct mtr_bench_run *run)
{
    const struct mtr_bench_gates *g = &run->gates;
    uint64_t failed = 0, requests = 0;
    double best = 0, ttft = 0;
    for (uint32_t i = 0; i < run->point_count; i++) {
        const struct mtr_bench_point *p = &run->points[i];
        failed += p->failed;
        requests += p->requests;
        best = p->tokens_per_s > best ? p->tokens_per_s : best;
        ttft = p->ttft_ms.p99 > ttft ? p->ttft_ms.p99 : ttft;
    }
    run->status = "refused";
    run->reason[0] = '\0';
    if (failed == requests) {
        run->status = "failed";
        snprintf(run->reason, sizeof run->reason, "no request was answered: %s",
                 requests ? run->points[0].failures[0].text : "none was sent");
    } else if (failed > g->max_failed) {
        snprintf(run->reason, sizeof run->reason, "%llu of %llu requests failed, %u may",
                 (unsigned long long)failed, (unsigned long long)requests, g->max_failed);
    } else if (g->min_tokens_per_s > 0 && best < g->min_tokens_per_s) {
        snprintf(run->reason, sizeof run->reason, "%.1f tokens/s at best, below %.1f", best,
                 g->min_tokens_per_s);
    } else if (g->max_ttft_ms > 0 && ttft > g->max_ttft_ms) {
        snprintf(run->reason, sizeof run->reason, "a p99 of %.1f ms to the first token, above %.1f",
                 ttft, g->max_ttft_ms);
    } else {
        run->status = "passed";
    }
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void put_text(struct mtr_json_writer *w, const char *key, const char *text)
{
    mtr_json_key(w, key);
    mtr_json_put_cstr(w, text);
}

static void put_count(struct mtr_json_writer *w, const char *key, uint64_t n)
{
    mtr_json_key(w, key);
    mtr_json_put_u64(w, n);
}

static void put_real(struct mtr_json_writer *w, const char *key, double d)
{
    mtr_json_key(w, key);
    mtr_json_put_f64(w, d);
}

static void put_spread(struct mtr_json_writer *w, const char *key, struct mtr_bench_spread s)
{
    mtr_json_key(w, key);
    mtr_json_begin_object(w);
    put_real(w, "p50", s.p50);
    put_real(w, "p99", s.p99);
    mtr_json_end_object(w);
}

/* Under the names by which they are set. */
static void put_params(struct mtr_json_writer *w, const struct mtr_bench_params *params)
{
    struct mtr_bench_params p = *params;
    struct mtr_flag flags[MTR_BENCH_PARAMS];
    mtr_bench_flags(&p, flags);
    mtr_json_key(w, "parameters");
    mtr_json_begin_object(w);
    for (size_t i = 0; i < MTR_BENCH_PARAMS; i++) {
        const struct mtr_flag *f = &flags[i];
        mtr_json_key(w, f->name);
        if (f->kind == MTR_FLAG_BOOL)
            mtr_json_put_bool(w, *(bool *)f->target);
        else if (f->kind == MTR_FLAG_U32)
            mtr_json_put_u64(w, *(uint32_t *)f->target);
        else if (f->kind == MTR_FLAG_U64)
            mtr_json_put_u64(w, *(uint64_t *)f->target);
        else if (f->kind == MTR_FLAG_REAL)
            mtr_json_put_f64(w, *(double *)f->target);
        else
            mtr_json_put_cstr(w, *(const char **)f->target);
    }
    mtr_json_end_object(w);
}

static void put_gates(struct mtr_json_writer *w, const struct mtr_bench_gates *g)
{
    mtr_json_key(w, "gates");
    mtr_json_begin_object(w);
    if (g->min_tokens_per_s > 0)
        put_real(w, "min-tokens-per-s", g->min_tokens_per_s);
    if (g->max_ttft_ms > 0)
        put_real(w, "max-ttft-ms", g->max_ttft_ms);
    put_count(w, "max-failed", g->max_failed);
    mtr_json_end_object(w);
}

static void put_point(struct mtr_json_writer *w, const struct mtr_bench_point *p)
{
    mtr_json_begin_object(w);
    put_count(w, "prompt_tokens_asked", p->prompt_tokens_asked);
    put_count(w, "width", p->width);
    put_count(w, "requests", p->requests);
    put_count(w, "failed", p->failed);
    put_real(w, "wall_s", p->wall_s);
    put_count(w, "prompt_tokens", p->prompt_tokens);
    put_count(w, "cached_tokens", p->cached_tokens);
    put_count(w, "output_tokens", p->output_tokens);
    put_text(w, "counted_by", p->counted_by_server ? "server" : "pieces");
    put_real(w, "tokens_per_s", p->tokens_per_s);
    put_real(w, "stream_tokens_per_s", p->stream_tokens_per_s);
    put_spread(w, "ttft_ms", p->ttft_ms);
    put_spread(w, "inter_token_ms", p->gap_ms);
    mtr_json_key(w, "errors");
    mtr_json_begin_array(w);
    for (uint32_t i = 0; i < p->failure_count; i++) {
        mtr_json_begin_object(w);
        put_count(w, "count", p->failures[i].count);
        put_text(w, "message", p->failures[i].text);
        mtr_json_end_object(w);
    }
    mtr_json_end_array(w);
    mtr_json_end_object(w);
}

void mtr_bench_run_json(struct mtr_buf *out, const struct mtr_bench_run *run)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_text(&w, "id", run->id);
    put_text(&w, "date", run->date);
    put_text(&w, "benchmark", run->bench);
    put_text(&w, "url", run->url);
    put_text(&w, "model", run->model);
    put_text(&w, "version", run->version);
    put_text(&w, "status", run->status);
    put_text(&w, "reason", run->reason);
    put_params(&w, &run->params);
    put_gates(&w, &run->gates);
    mtr_json_key(&w, "results");
    mtr_json_begin_array(&w);
    for (uint32_t i = 0; i < run->point_count; i++)
        put_point(&w, &run->points[i]);
    mtr_json_end_array(&w);
    mtr_json_end_object(&w);
}

/* ---- Tables -----------------------------------------------------------------------------------
 */

static struct mtr_str text_of(const struct mtr_json *v, const char *path)
{
    const struct mtr_json *m = mtr_json_path(v, path);
    return m && m->kind == MTR_JSON_STRING ? m->text : MTR_STR("");
}

static double number_of(const struct mtr_json *v, const char *path)
{
    double d = 0;
    const struct mtr_json *m = mtr_json_path(v, path);
    return m && mtr_json_number(m, &d) ? d : 0;
}

static void put_row(struct mtr_buf *out, const struct mtr_json *p)
{
    mtr_buf_printf(out, "%7.0f %6.0f %8.0f %6.0f %9.1f %9.1f %9.1f %9.1f %8.2f %8.2f\n",
                   number_of(p, "prompt_tokens_asked"), number_of(p, "width"),
                   number_of(p, "requests"), number_of(p, "failed"), number_of(p, "tokens_per_s"),
                   number_of(p, "stream_tokens_per_s"), number_of(p, "ttft_ms.p50"),
                   number_of(p, "ttft_ms.p99"), number_of(p, "inter_token_ms.p50"),
                   number_of(p, "inter_token_ms.p99"));
}

static void put_errors(struct mtr_buf *out, const struct mtr_json *p)
{
    const struct mtr_json *errors = mtr_json_get(p, "errors");
    for (uint32_t i = 0; errors && errors->kind == MTR_JSON_ARRAY && i < errors->count; i++)
        mtr_buf_printf(out, "prompt %.0f, width %.0f: %.0f x %.*s\n",
                       number_of(p, "prompt_tokens_asked"), number_of(p, "width"),
                       number_of(&errors->items[i], "count"),
                       MTR_STR_ARG(text_of(&errors->items[i], "message")));
}

/* Names come from servers and files; a terminal must not obey what they say (C0, DEL, C1). */
static void make_printable(struct mtr_buf *out, size_t from)
{
    for (size_t i = from; i < out->len; i++) {
        unsigned char c = (unsigned char)out->data[i];
        unsigned char next = i + 1 < out->len ? (unsigned char)out->data[i + 1] : 0;
        if ((c < ' ' && c != '\n') || c == 0x7f)
            out->data[i] = '?';
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            out->data[i] = out->data[i + 1] = '?';
    }
}

void mtr_bench_run_table(struct mtr_buf *out, const struct mtr_json *run)
{
    const struct mtr_json *results = mtr_json_get(run, "results");
    uint32_t count = results && results->kind == MTR_JSON_ARRAY ? results->count : 0;
    size_t from = out->len;
    bool pieces = false;
    mtr_buf_printf(out, "%.*s of %.*s at %.*s\n%.*s  %.*s  (metrale %.*s)\n\n",
                   MTR_STR_ARG(text_of(run, "benchmark")), MTR_STR_ARG(text_of(run, "model")),
                   MTR_STR_ARG(text_of(run, "url")), MTR_STR_ARG(text_of(run, "date")),
                   MTR_STR_ARG(text_of(run, "id")), MTR_STR_ARG(text_of(run, "version")));
    mtr_buf_printf(out, "%30s %19s %19s %17s\n", "", "tokens/s", "first token, ms", "between, ms");
    mtr_buf_printf(out, "%7s %6s %8s %6s %9s %9s %9s %9s %8s %8s\n", "prompt", "width", "requests",
                   "failed", "in all", "a stream", "p50", "p99", "p50", "p99");
    for (uint32_t i = 0; i < count; i++) {
        put_row(out, &results->items[i]);
        pieces = pieces || mtr_str_is(text_of(&results->items[i], "counted_by"), "pieces");
    }
    mtr_buf_puts(out, "\n");
    for (uint32_t i = 0; i < count; i++)
        put_errors(out, &results->items[i]);
    if (pieces)
        mtr_buf_puts(out, "the server gives no usage: tokens are pieces of text\n");
    mtr_buf_printf(out, "%.*s%s%.*s\n", MTR_STR_ARG(text_of(run, "status")),
                   text_of(run, "reason").len ? ": " : "", MTR_STR_ARG(text_of(run, "reason")));
    make_printable(out, from);
}

void mtr_bench_history_head(struct mtr_buf *out)
{
    mtr_buf_printf(out, "%-24s %-20s %-18s %-9s %9s  %s\n", "run", "date", "benchmark", "status",
                   "tokens/s", "of");
}

void mtr_bench_history_row(struct mtr_buf *out, const struct mtr_json *run)
{
    const struct mtr_json *results = mtr_json_get(run, "results");
    size_t from = out->len;
    double best = 0;
    for (uint32_t i = 0; results && results->kind == MTR_JSON_ARRAY && i < results->count; i++) {
        double rate = number_of(&results->items[i], "tokens_per_s");
        best = rate > best ? rate : best;
    }
    mtr_buf_printf(out, "%-24.*s %-20.*s %-18.*s %-9.*s %9.1f  %.*s at %.*s\n",
                   MTR_STR_ARG(text_of(run, "id")), MTR_STR_ARG(text_of(run, "date")),
                   MTR_STR_ARG(text_of(run, "benchmark")), MTR_STR_ARG(text_of(run, "status")),
                   best, MTR_STR_ARG(text_of(run, "model")), MTR_STR_ARG(text_of(run, "url")));
    make_printable(out, from);
}
