/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl bench: run, list, history.
 *
 * Its exit status has one more meaning than that of other commands, for scripts that gate on it: 0
 * measured and passed; 1 nothing could be measured (a wrong parameter, nobody answers, cancelled,
 * every request failed); 2 measured, and a gate says no.
 */
#include "ctl/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "ctl/ctl.h"

#define ARENA_BYTES   ((size_t)1 << 30)
#define PROBE_A_WORDS 16
#define PROBE_B_WORDS 48
#define OWN_FLAGS     12
#define MAX_URL       2048

#define GATE_SAYS_NO 2

struct bench_options {
    const char *name, *url, *model, *api_key;
    struct mtr_bench_params params;
    struct mtr_bench_gates gates;
    bool json, no_history, no_fail, help;
};

static int cannot(const struct mtr_error *err)
{
    mtr_ctl_error("bench", err);
    return MTR_EXIT_FAILED;
}

/* ---- Options ----------------------------------------------------------------------------------
 */

static void own_flags(struct bench_options *o, struct mtr_flag *flags)
{
    const struct mtr_flag all[OWN_FLAGS] = {
        {"", MTR_FLAG_SECTION, NULL, NULL, "the server, and what is wanted of it"},
        {"url", MTR_FLAG_STRING, &o->url, "URL", "where it is: http://host:port"},
        {"model", MTR_FLAG_STRING, &o->model, "NAME", "its model; if not given, its first one"},
        {"api-key", MTR_FLAG_STRING, &o->api_key, "KEY", "bearer token; or METRALE_API_KEY is set"},
        {"min-tokens-per-s", MTR_FLAG_REAL, &o->gates.min_tokens_per_s, "X",
         "gate: the best point's tokens per second in all", 0, 1e9},
        {"max-ttft-ms", MTR_FLAG_REAL, &o->gates.max_ttft_ms, "X",
         "gate: every point's p99 time to the first token", 0, 1e9},
        {"max-failed", MTR_FLAG_U32, &o->gates.max_failed, "N", "gate: requests that may fail", 0,
         1000000},
        {"no-fail-on-verdict", MTR_FLAG_BOOL, &o->no_fail, NULL,
         "exit with 0, whatever the gates say"},
        {"no-history", MTR_FLAG_BOOL, &o->no_history, NULL, "do not keep the run"},
        {"json", MTR_FLAG_BOOL, &o->json, NULL, "print JSON"},
        {"help", MTR_FLAG_BOOL, &o->help, NULL, "print this"},
        {"", MTR_FLAG_SECTION, NULL, NULL, "parameters, also as --set NAME=VALUE"},
    };
    memcpy(flags, all, sizeof all);
}

/* http://host:port, without what every path begins with. */
static bool clean_url(struct mtr_arena *arena, struct bench_options *o, struct mtr_error *err)
{
    struct mtr_str url = mtr_str(o->url);
    if (url.len > MAX_URL ||
        (!mtr_str_starts(url, MTR_STR("http://")) && !mtr_str_starts(url, MTR_STR("https://"))))
        return mtr_fail(err, MTR_INVALID, "--url takes http://host:port or https://..., not '%s'",
                        o->url);
    while (mtr_str_ends(url, MTR_STR("/")))
        url.len--;
    if (mtr_str_ends(url, MTR_STR("/v1")))
        url.len -= 3;
    o->url = mtr_arena_strdup(arena, url);
    return o->url || mtr_fail(err, MTR_NO_MEMORY, "out of memory");
}

static bool check_key(struct bench_options *o, struct mtr_error *err)
{
    if (!o->api_key)
        o->api_key = getenv("METRALE_API_KEY");
    for (const char *c = o->api_key; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return mtr_fail(err, MTR_INVALID, "the API key has a control character");
    return true;
}

static bool draw_seed(struct bench_options *o, struct mtr_error *err)
{
    uint32_t drawn;
    if (o->params.seed)
        return true;
    if (getrandom(&drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return mtr_fail_errno(err, "no seed can be drawn");
    o->params.seed = drawn | 1;
    return true;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

struct runner {
    struct mtr_bench_client *client;
    struct mtr_bench_run *run;
    struct mtr_bench_fit fit;
    struct mtr_bench_load load; /* the last one; the next keeps its samples and gaps */
    size_t sample_cap;
    uint64_t next_number; /* of a prompt: no two loads share one */
};

static bool load_run(struct runner *r, uint32_t width, uint32_t requests, uint32_t words,
                     struct mtr_error *err)
{
    bool cancelled;
    r->load.params = &r->run->params;
    r->load.width = width;
    r->load.requests = requests;
    r->load.words = words;
    r->load.seed = r->run->params.seed;
    r->load.first_number = r->next_number;
    r->next_number += requests;
    if (!mtr_grow((void **)&r->load.samples, &r->sample_cap, requests, sizeof *r->load.samples))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory for %u requests", requests);
    bool ok = mtr_bench_load_run(r->client, &r->load, &cancelled, err);
    if (cancelled)
        r->run->status = "cancelled";
    return ok;
}

/* Two short requests say what a word costs; a server that does not count gets a word a token. */
static bool measure_words(struct runner *r, struct mtr_error *err)
{
    static const uint32_t words[2] = {PROBE_A_WORDS, PROBE_B_WORDS};
    uint64_t tokens[2];
    r->load.output_tokens = 1;
    for (uint32_t i = 0; i < 2; i++) {
        if (!load_run(r, 1, 1, words[i], err))
            return false;
        const struct mtr_bench_sample *m = &r->load.samples[0];
        if (m->error[0])
            return mtr_fail(err, MTR_IO, "%s: the first request failed: %s", r->run->url, m->error);
        tokens[i] = m->prompt_tokens;
    }
    r->fit = mtr_bench_fit(words[0], tokens[0], words[1], tokens[1]);
    return true;
}

static bool warm_up(struct runner *r, uint32_t words, uint32_t width, struct mtr_error *err)
{
    const struct mtr_bench_params *p = &r->run->params;
    uint64_t number = r->next_number;
    uint32_t requests = p->warm && !p->warmup ? 1 : p->warmup;
    bool ok = !requests || load_run(r, requests < width ? requests : width, requests, words, err);
    if (p->warm)
        r->next_number = number; /* what it has left in the cache is wanted */
    return ok;
}

static bool run_point(struct runner *r, uint32_t prompt_tokens, uint32_t width,
                      struct mtr_error *err)
{
    struct mtr_bench_run *run = r->run;
    uint32_t words = mtr_bench_words_for(r->fit, prompt_tokens);
    struct mtr_bench_point *p = &run->points[run->point_count];
    r->load.output_tokens = run->params.output_tokens;
    if (!warm_up(r, words, width, err))
        return false;
    bool ok = load_run(r, width, width * run->params.repeats, words, err);
    if (!r->load.begun || !mtr_bench_point_make(p, &r->load, prompt_tokens, ok ? err : NULL))
        return false;
    run->point_count++;
    fprintf(stderr, "prompt %u, width %u: %.1f tokens/s, first token after %.1f ms, %u failed\n",
            prompt_tokens, width, p->tokens_per_s, p->ttft_ms.p50, p->failed);
    return ok;
}

static bool run_points(struct runner *r, const struct mtr_bench_list *prompts,
                       const struct mtr_bench_list *widths, struct mtr_error *err)
{
    bool ok = measure_words(r, err);
    for (uint32_t i = 0; ok && i < prompts->count; i++)
        for (uint32_t j = 0; ok && j < widths->count; j++)
            ok = run_point(r, prompts->values[i], widths->values[j], err);
    free(r->load.samples);
    free(r->load.gaps.ns);
    return ok;
}

/* A run that was broken off is kept when it has measured anything. */
static bool measure(struct mtr_arena *arena, struct bench_options *o, struct mtr_bench_run *run,
                    struct mtr_error *err)
{
    struct mtr_bench_target target = {.url = o->url, .api_key = o->api_key};
    struct mtr_bench_list prompts, widths;
    struct runner r = {.run = run};
    if (!mtr_bench_params_check(&run->params, &prompts, &widths, err))
        return false;
    run->points =
        mtr_arena_calloc(arena, (size_t)prompts.count * widths.count, sizeof *run->points);
    r.client = run->points ? mtr_bench_client_create(&target, err) : NULL;
    if (!r.client)
        return run->points || mtr_fail(err, MTR_NO_MEMORY, "out of memory");
    run->model = target.model = o->model ? o->model : mtr_bench_first_model(r.client, arena, err);
    bool ok = target.model && run_points(&r, &prompts, &widths, err);
    mtr_bench_client_destroy(r.client);
    if (ok)
        mtr_bench_judge(run);
    else
        snprintf(run->reason, sizeof run->reason, "%s", err->message);
    return ok;
}

static void date_run(struct mtr_bench_run *run)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(run->id, sizeof run->id, "run-%lld%09ld", (long long)now.tv_sec, now.tv_nsec);
    gmtime_r(&now.tv_sec, &utc);
    strftime(run->date, sizeof run->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static void print_run(struct mtr_arena *arena, struct mtr_str json, bool as_json)
{
    struct mtr_buf table = {0};
    if (as_json)
        mtr_buf_printf(&table, "%.*s\n", MTR_STR_ARG(json));
    else
        mtr_bench_run_table(&table, mtr_json_parse(arena, json, MTR_JSON_STRICT, NULL));
    fwrite(table.data, 1, table.len, stdout);
    mtr_buf_free(&table);
}

static int exit_status(const struct mtr_bench_run *run, bool no_fail)
{
    bool refused = strcmp(run->status, "refused") == 0;
    if (strcmp(run->status, "passed") == 0 || (refused && no_fail))
        return 0;
    return refused ? GATE_SAYS_NO : MTR_EXIT_FAILED;
}

static int run_bench(struct mtr_arena *arena, struct bench_options *o)
{
    struct mtr_error error = {0};
    struct mtr_buf line = {0};
    const char *path = NULL;
    if (!clean_url(arena, o, &error) || !check_key(o, &error) || !draw_seed(o, &error) ||
        (!o->no_history && !(path = mtr_bench_history_path(arena, &error))))
        return cannot(&error);
    struct mtr_bench_run run = {.bench = o->name,
                                .url = o->url,
                                .version = MTR_VERSION,
                                .status = "failed",
                                .params = o->params,
                                .gates = o->gates};
    date_run(&run);
    bool ok = measure(arena, o, &run, &error);
    if (!ok && !run.point_count)
        return cannot(&error);
    mtr_bench_run_json(&line, &run);
    print_run(arena, mtr_buf_view(&line), o->json);
    bool kept = !path || mtr_bench_history_add(path, mtr_buf_view(&line), &error);
    mtr_buf_free(&line);
    return ok && kept ? exit_status(&run, o->no_fail) : cannot(&error);
}

/* ---- run and list -----------------------------------------------------------------------------
 */

static int list_all(void)
{
    size_t count;
    const struct mtr_bench *b = mtr_benches(&count);
    for (size_t i = 0; i < count; i++)
        printf("%-20s %s\n", b[i].name, b[i].summary);
    printf("\nmetralectl bench list NAME shows its parameters.\n");
    return 0;
}

static int list_one(const struct mtr_bench *b)
{
    struct mtr_bench_params p = b->defaults;
    struct mtr_flag flags[MTR_BENCH_PARAMS];
    struct mtr_buf text = {0};
    mtr_bench_flags(&p, flags);
    mtr_flags_help(flags, MTR_BENCH_PARAMS, &text);
    printf("%s: %s\n\n%.*s\n--set NAME=VALUE does the same as --NAME VALUE.\n", b->name, b->summary,
           (int)text.len, text.len ? text.data : "");
    mtr_buf_free(&text);
    return 0;
}

static int list_command(int argc, char **argv)
{
    struct mtr_error error = {0};
    const char *name = NULL;
    size_t n;
    if (!mtr_flags_parse(NULL, 0, argc, argv, &name, 1, &n, &error))
        return cannot(&error);
    if (!name)
        return list_all();
    const struct mtr_bench *b = mtr_bench_find(name, &error);
    return b ? list_one(b) : cannot(&error);
}

static int parse_and_run(struct mtr_arena *arena, const struct mtr_bench *b, int argc, char **argv)
{
    struct bench_options o = {
        .name = b ? b->name : NULL, .url = "http://127.0.0.1:8888", .params.api = "chat"};
    struct mtr_flag flags[OWN_FLAGS + MTR_BENCH_PARAMS];
    struct mtr_error error = {0};
    size_t n, count = OWN_FLAGS + MTR_BENCH_PARAMS;
    if (b)
        o.params = b->defaults;
    own_flags(&o, flags);
    mtr_bench_flags(&o.params, flags + OWN_FLAGS);
    char **expanded = mtr_bench_expand_sets(arena, flags + OWN_FLAGS, &argc, argv, &error);
    if (!expanded || !mtr_flags_parse(flags, count, argc, expanded, NULL, 0, &n, &error))
        return cannot(&error);
    if (o.help)
        return mtr_ctl_help("bench", flags, count);
    if (b)
        return run_bench(arena, &o);
    mtr_fail(&error, MTR_INVALID, "run which one? decode, ttft or concurrency-sweep");
    return cannot(&error);
}

/* The defaults are the benchmark's, so its name comes first. */
static int run_command(int argc, char **argv)
{
    struct mtr_error error = {0};
    struct mtr_arena arena;
    bool named = argc > 1 && argv[1][0] != '-';
    const struct mtr_bench *b = named ? mtr_bench_find(argv[1], &error) : NULL;
    if (named && !b)
        return cannot(&error);
    mtr_arena_init(&arena, ARENA_BYTES);
    int status = parse_and_run(&arena, b, argc - named, argv + named);
    mtr_arena_free(&arena);
    return status;
}

/* ---- history ----------------------------------------------------------------------------------
 */

struct history_options {
    const char *id, *run;
    uint32_t limit;
    bool json;
};

static bool is_wanted(const struct history_options *o, const struct mtr_json *run)
{
    return (!o->id || mtr_str_is(mtr_json_get(run, "benchmark")->text, o->id)) &&
           (!o->run || mtr_str_is(mtr_json_get(run, "id")->text, o->run));
}

/* The last `limit` wanted ones begin here. */
static uint32_t first_wanted(const struct history_options *o, const struct mtr_bench_history *h)
{
    uint32_t wanted = 0;
    for (uint32_t i = h->count; i > 0; i--)
        if (is_wanted(o, h->runs[i - 1]) && ++wanted == o->limit)
            return i - 1;
    return 0;
}

static void print_history(const struct history_options *o, const struct mtr_bench_history *h)
{
    struct mtr_buf out = {0};
    struct mtr_json_writer w = mtr_json_writer(&out);
    if (o->json && !o->run)
        mtr_json_begin_array(&w);
    else if (!o->json && !o->run)
        mtr_bench_history_head(&out);
    for (uint32_t i = first_wanted(o, h); i < h->count; i++) {
        if (!is_wanted(o, h->runs[i]))
            continue;
        if (o->json)
            mtr_json_put_value(&w, h->runs[i]);
        else if (o->run)
            mtr_bench_run_table(&out, h->runs[i]);
        else
            mtr_bench_history_row(&out, h->runs[i]);
    }
    if (o->json && !o->run)
        mtr_json_end_array(&w);
    if (o->json)
        mtr_buf_byte(&out, '\n');
    fwrite(out.len ? out.data : "", 1, out.len, stdout);
    mtr_buf_free(&out);
}

static int show_history(struct mtr_arena *arena, const struct history_options *o)
{
    struct mtr_error error = {0};
    struct mtr_bench_history h;
    const char *path = mtr_bench_history_path(arena, &error);
    bool found = false;
    if ((o->id && !mtr_bench_find(o->id, &error)) || !path ||
        !mtr_bench_history_read(arena, path, &h, &error))
        return cannot(&error);
    for (uint32_t i = 0; i < h.count; i++)
        found = found || is_wanted(o, h.runs[i]);
    if (h.damaged)
        fprintf(stderr, "metralectl bench: %u lines of %s are no runs\n", h.damaged, path);
    if (o->run && !found) {
        mtr_fail(&error, MTR_NOT_FOUND, "%s has no run '%s'", path, o->run);
        return cannot(&error);
    }
    print_history(o, &h);
    return 0;
}

static int history_command(int argc, char **argv)
{
    struct history_options o = {.limit = 20};
    struct mtr_error error = {0};
    struct mtr_arena arena;
    bool help = false;
    struct mtr_flag flags[] = {
        {"id", MTR_FLAG_STRING, &o.id, "BENCHMARK", "runs of this benchmark"},
        {"run", MTR_FLAG_STRING, &o.run, "RUN", "this run, with all its results"},
        {"limit", MTR_FLAG_U32, &o.limit, "N", "the last runs", 1, 1000000},
        {"json", MTR_FLAG_BOOL, &o.json, NULL, "print JSON"},
        {"help", MTR_FLAG_BOOL, &help, NULL, "print this"},
    };
    size_t n, count = sizeof flags / sizeof flags[0];
    if (!mtr_flags_parse(flags, count, argc, argv, NULL, 0, &n, &error))
        return cannot(&error);
    if (help)
        return mtr_ctl_help("bench", flags, count);
    mtr_arena_init(&arena, ARENA_BYTES);
    int status = show_history(&arena, &o);
    mtr_arena_free(&arena);
    return status;
}

int mtr_ctl_bench(int argc, char **argv)
{
    struct mtr_error error = {0};
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "run") == 0 || strcmp(what, "--help") == 0)
        return run_command(argc - (what[0] == 'r'), argv + (what[0] == 'r'));
    if (strcmp(what, "list") == 0)
        return list_command(argc - 1, argv + 1);
    if (strcmp(what, "history") == 0)
        return history_command(argc - 1, argv + 1);
    mtr_fail(&error, MTR_INVALID, "what? run, list or history");
    return cannot(&error);
}
