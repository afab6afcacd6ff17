/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl bench: how fast a server that speaks OpenAI's protocol answers.
 *
 * A benchmark is a set of parameters with defaults. A run measures one point for each combination
 * of a prompt length and a width: `width` connections at once, each of which sends `repeats`
 * requests, one after the other. Every answer is streamed; the times are those at which its pieces
 * came here.
 *
 *   bench_params.c   what there is to set, its ranges, lists of numbers
 *   bench_prompt.c   words from a seed, and how many of them make a prompt of so many tokens
 *   bench_stream.c   an answer's bytes -> events -> times and counts
 *   bench_load.c     many connections at once (libcurl)
 *   bench_stats.c    samples -> a point: rates and percentiles
 *   bench_report.c   a run as a table and as JSON
 *   bench_history.c  the runs kept on disk
 *   bench.c          the command
 */
#ifndef MTR_CTL_BENCH_H
#define MTR_CTL_BENCH_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/flags.h"
#include "common/base/json.h"

/* ---- Parameters (bench_params.c) --------------------------------------------------------------
 */

#define MTR_BENCH_MAX_LIST  32 /* prompt lengths, widths */
#define MTR_BENCH_MAX_WIDTH 4096

struct mtr_bench_params {
    const char *prompt_tokens, *widths; /* "128,512" */
    uint32_t output_tokens, repeats, warmup, timeout_s;
    double temperature;
    uint64_t seed; /* 0: one is drawn */
    const char *api;
    bool warm, ignore_eos;
};
#define MTR_BENCH_PARAMS 11

struct mtr_bench {
    const char *name, *summary;
    struct mtr_bench_params defaults;
};

struct mtr_bench_list {
    uint32_t count, values[MTR_BENCH_MAX_LIST];
};

const struct mtr_bench *mtr_benches(size_t *count);
const struct mtr_bench *mtr_bench_find(const char *name, struct mtr_error *err);

/* The flags that set these parameters; flags [MTR_BENCH_PARAMS]. */
void mtr_bench_flags(struct mtr_bench_params *p, struct mtr_flag *flags);

/* Arguments in which each "--set NAME=VALUE" has become the parameter's flag, or nothing where a
 * switch is set to false; in the arena. A name that is no parameter is refused. */
char **mtr_bench_expand_sets(struct mtr_arena *arena, const struct mtr_flag *params, int *argc,
                             char **argv, struct mtr_error *err);

/* "1,2,4": numbers from min to max, none twice. */
bool mtr_bench_list_read(const char *name, const char *text, uint32_t min, uint32_t max,
                         struct mtr_bench_list *out, struct mtr_error *err);

/* Both lists, and what no single range can say: how many requests that makes. */
bool mtr_bench_params_check(const struct mtr_bench_params *p, struct mtr_bench_list *prompts,
                            struct mtr_bench_list *widths, struct mtr_error *err);

/* ---- Prompts (bench_prompt.c) -----------------------------------------------------------------
 */

/* How many tokens a prompt of w words is: tokens = base + per_word * w. */
struct mtr_bench_fit {
    double base, per_word;
};

/* The line through two measurements; one token a word where they make no sense. */
struct mtr_bench_fit mtr_bench_fit(uint32_t words_a, uint64_t tokens_a, uint32_t words_b,
                                   uint64_t tokens_b);
uint32_t mtr_bench_words_for(struct mtr_bench_fit fit, uint32_t tokens);

/* Appends the words of prompt `number`. Different numbers part within the first four words, so
 * that a prefix cache finds nothing of the one in the other. */
void mtr_bench_prompt(struct mtr_buf *out, uint64_t seed, uint64_t number, uint32_t words);

/* ---- Answers (bench_stream.c) -----------------------------------------------------------------
 */

#define MTR_BENCH_ERROR_BYTES 160

/* What is known of one request; times from the monotonic clock, 0 where there was none. */
struct mtr_bench_sample {
    uint64_t start_ns, first_ns, last_ns; /* sent; first and last piece of text, else the end */
    uint32_t pieces;
    uint64_t prompt_tokens, cached_tokens, output_tokens; /* as the server counts */
    bool has_usage;
    char error[MTR_BENCH_ERROR_BYTES]; /* "": it was answered */
};

/* Times between pieces, in ns, of all requests of a point. */
struct mtr_bench_gaps {
    uint64_t *ns;
    size_t count, cap;
};

/* Reads a body of server-sent events (WHATWG HTML, 9.2) piecewise, in any cut. */
struct mtr_bench_stream {
    struct mtr_bench_sample *sample;
    struct mtr_bench_gaps *gaps; /* may be NULL */
    struct mtr_arena arena;      /* of one event */
    struct mtr_buf line, data;
    bool after_cr, ended; /* [DONE] or a finish_reason came */
};

void mtr_bench_stream_begin(struct mtr_bench_stream *s, struct mtr_bench_sample *sample,
                            struct mtr_bench_gaps *gaps);
/* False once the sample has an error. */
bool mtr_bench_stream_feed(struct mtr_bench_stream *s, struct mtr_str bytes, uint64_t now_ns);
/* The body is over: an answer without an end is an error. */
void mtr_bench_stream_end(struct mtr_bench_stream *s);
void mtr_bench_stream_free(struct mtr_bench_stream *s);

/* "status 503: words of the body's error", from whatever body there is. */
void mtr_bench_http_error(struct mtr_bench_sample *sample, long status, struct mtr_str body);

/* ---- Load (bench_load.c) ----------------------------------------------------------------------
 */

struct mtr_bench_target {
    const char *url; /* without a slash or /v1 at its end */
    const char *api_key, *model;
};

struct mtr_bench_client; /* the library's handles and the signals that cancel */

struct mtr_bench_client *mtr_bench_client_create(const struct mtr_bench_target *target,
                                                 struct mtr_error *err);
void mtr_bench_client_destroy(struct mtr_bench_client *c);

/* GET /v1/models: the first model's id, in the arena. MTR_IO where nobody answers. */
const char *mtr_bench_first_model(struct mtr_bench_client *c, struct mtr_arena *arena,
                                  struct mtr_error *err);

/* One point's requests. Request i has prompt number first_number + i, or first_number when warm. */
struct mtr_bench_load {
    const struct mtr_bench_params *params;
    uint32_t width, requests, words, output_tokens;
    uint64_t seed, first_number;
    struct mtr_bench_sample *samples; /* [requests] */
    struct mtr_bench_gaps gaps;
    uint64_t wall_ns; /* from the first request to the last answer's end */
    uint32_t begun;   /* fewer than requests when cancelled */
};

/* False only when nothing could be measured at all, or on SIGINT and SIGTERM: "cancelled" is then
 * set. Requests that fail say so in their sample. */
bool mtr_bench_load_run(struct mtr_bench_client *c, struct mtr_bench_load *load, bool *cancelled,
                        struct mtr_error *err);

/* ---- Points (bench_stats.c) -------------------------------------------------------------------
 */

#define MTR_BENCH_MAX_ERRORS 8 /* different ones that are kept */

struct mtr_bench_spread {
    double p50, p99;
};

struct mtr_bench_failure {
    uint32_t count;
    char text[MTR_BENCH_ERROR_BYTES];
};

struct mtr_bench_point {
    uint32_t prompt_tokens_asked, width, requests, failed;
    double wall_s;
    uint64_t prompt_tokens, cached_tokens, output_tokens; /* of all answered requests */
    bool counted_by_server;                               /* else tokens are pieces of text */
    double tokens_per_s;                                  /* all streams together */
    double stream_tokens_per_s;                           /* the median stream, from its first */
    struct mtr_bench_spread ttft_ms, gap_ms;
    uint32_t failure_count;
    struct mtr_bench_failure failures[MTR_BENCH_MAX_ERRORS];
};

/* Nearest rank: the smallest value that at least p percent of all do not exceed. Values are sorted
 * on the way; 0 where there are none. */
double mtr_bench_percentile(double *values, size_t count, double p);

bool mtr_bench_point_make(struct mtr_bench_point *point, const struct mtr_bench_load *load,
                          uint32_t prompt_tokens, struct mtr_error *err);

/* ---- Runs (bench_report.c) --------------------------------------------------------------------
 */

/* What a run has to reach; 0: nothing is asked. */
struct mtr_bench_gates {
    double min_tokens_per_s; /* of the best point */
    double max_ttft_ms;      /* p99, at every point */
    uint32_t max_failed;     /* requests of the whole run */
};

struct mtr_bench_run {
    char id[40], date[32]; /* "run-1785000000123456789", "2026-07-25T17:20:00Z" */
    const char *bench, *url, *model, *version;
    struct mtr_bench_params params;
    struct mtr_bench_gates gates;
    const char *status;                   /* "passed", "refused" by a gate, "failed", "cancelled" */
    char reason[MTR_ERROR_MESSAGE_BYTES]; /* of another status than passed */
    uint32_t point_count;
    struct mtr_bench_point *points; /* [point_count] */
};

/* Sets status and reason from the points. */
void mtr_bench_judge(struct mtr_bench_run *run);

/* One JSON object on one line, without the newline. */
void mtr_bench_run_json(struct mtr_buf *out, const struct mtr_bench_run *run);
/* The table of a run, as it was written by mtr_bench_run_json. */
void mtr_bench_run_table(struct mtr_buf *out, const struct mtr_json *run);

/* ---- History (bench_history.c) ----------------------------------------------------------------
 */

#define MTR_BENCH_HISTORY_BYTES (64u << 20) /* of the file that is still read */

/* $XDG_STATE_HOME/metrale/bench.jsonl, else ~/.local/state/metrale/bench.jsonl. */
const char *mtr_bench_history_path(struct mtr_arena *arena, struct mtr_error *err);

/* Appends one line, all or nothing; folders are made. */
bool mtr_bench_history_add(const char *path, struct mtr_str line, struct mtr_error *err);

struct mtr_bench_history {
    const struct mtr_json **runs; /* [count], oldest first */
    uint32_t count;
    uint32_t damaged; /* lines that are no run */
};

/* No file is an empty history. */
bool mtr_bench_history_read(struct mtr_arena *arena, const char *path,
                            struct mtr_bench_history *out, struct mtr_error *err);

/* One line a run, the rate that of its best point, and the line above. */
void mtr_bench_history_head(struct mtr_buf *out);
void mtr_bench_history_row(struct mtr_buf *out, const struct mtr_json *run);

#endif
