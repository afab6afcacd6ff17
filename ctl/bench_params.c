/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a benchmark's run can be told. The parameters are flags like all others; "--set name=value"
 * is rewritten into the flag, so that there is one place where ranges are held.
 */
#include <stdio.h>
#include <string.h>

#include "ctl/bench.h"

#define MAX_REQUESTS  1000000u
#define MAX_TOKENS    (1u << 20)
#define MAX_SEED      9007199254740991.0 /* JSON readers keep integers up to here */
#define MAX_ARGUMENTS 256

static const struct mtr_bench benches[] = {
    {"decode",
     "tokens per second of single streams, on short prompts",
     {.prompt_tokens = "32",
      .widths = "1",
      .output_tokens = 128,
      .repeats = 5,
      .warmup = 1,
      .timeout_s = 300,
      .api = "chat"}},
    {"ttft",
     "time to the first token, by the length of the prompt",
     {.prompt_tokens = "128,512,2048",
      .widths = "1",
      .output_tokens = 4,
      .repeats = 10,
      .warmup = 1,
      .timeout_s = 300,
      .api = "chat"}},
    {"concurrency-sweep",
     "throughput and latency, by the number of streams at once",
     {.prompt_tokens = "128",
      .widths = "1,2,4,8,16",
      .output_tokens = 64,
      .repeats = 3,
      .warmup = 1,
      .timeout_s = 300,
      .api = "chat"}},
};

const struct mtr_bench *mtr_benches(size_t *count)
{
    *count = sizeof benches / sizeof benches[0];
    return benches;
}

const struct mtr_bench *mtr_bench_find(const char *name, struct mtr_error *err)
{
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        if (strcmp(benches[i].name, name) == 0)
            return &benches[i];
    mtr_fail(err, MTR_INVALID, "there is no benchmark '%s': decode, ttft or concurrency-sweep",
             name);
    return NULL;
}

void mtr_bench_flags(struct mtr_bench_params *p, struct mtr_flag *flags)
{
    const struct mtr_flag all[MTR_BENCH_PARAMS] = {
        {"prompt-tokens", MTR_FLAG_STRING, &p->prompt_tokens, "N,N,...",
         "lengths of prompts, 1 to 1048576"},
        {"output-tokens", MTR_FLAG_U32, &p->output_tokens, "N", "tokens asked for in each answer",
         1, MAX_TOKENS},
        {"widths", MTR_FLAG_STRING, &p->widths, "N,N,...", "streams at once, 1 to 4096"},
        {"repeats", MTR_FLAG_U32, &p->repeats, "N", "requests of each stream, one after the other",
         1, 100000},
        {"warmup", MTR_FLAG_U32, &p->warmup, "N", "requests before each point that do not count", 0,
         1000},
        {"temperature", MTR_FLAG_REAL, &p->temperature, "X", "sampling temperature", 0, 2},
        {"seed", MTR_FLAG_U64, &p->seed, "N", "of prompts and sampling; 0: one is drawn", 0,
         MAX_SEED},
        {"api", MTR_FLAG_CHOICE, &p->api, NULL, "endpoint", 0, 0, "chat|completions"},
        {"timeout", MTR_FLAG_U32, &p->timeout_s, "SECONDS", "for one request", 1, 86400},
        {"warm", MTR_FLAG_BOOL, &p->warm, NULL, "one prompt for all requests: a warm prefix cache"},
        {"ignore-eos", MTR_FLAG_BOOL, &p->ignore_eos, NULL,
         "answers of full length, where the server knows ignore_eos"},
    };
    memcpy(flags, all, sizeof all);
}

/* ---- --set ------------------------------------------------------------------------------------
 */

static const struct mtr_flag *find_param(const struct mtr_flag *params, struct mtr_str name,
                                         struct mtr_error *err)
{
    struct mtr_buf names = {0};
    for (size_t i = 0; i < MTR_BENCH_PARAMS; i++) {
        if (mtr_str_is(name, params[i].name)) {
            mtr_buf_free(&names);
            return &params[i];
        }
        mtr_buf_printf(&names, "%s%s", i ? ", " : "", params[i].name);
    }
    mtr_fail(err, MTR_INVALID, "there is no parameter '%.*s'; there are %s", MTR_STR_ARG(name),
             names.failed ? "others" : names.data);
    mtr_buf_free(&names);
    return NULL;
}

/* The flag for "name=value"; *out stays NULL where the flag is to be left out. */
static bool flag_of(struct mtr_arena *arena, const struct mtr_flag *params, const char *set,
                    char **out, struct mtr_error *err)
{
    const char *equals = strchr(set, '=');
    if (!equals)
        return mtr_fail(err, MTR_INVALID, "--set takes NAME=VALUE, not '%s'", set);
    const struct mtr_flag *f =
        find_param(params, (struct mtr_str){set, (size_t)(equals - set)}, err);
    if (!f)
        return false;
    if (f->kind != MTR_FLAG_BOOL)
        *out = mtr_arena_printf(arena, "--%s", set);
    else if (strcmp(equals + 1, "true") == 0)
        *out = mtr_arena_printf(arena, "--%s", f->name);
    else if (strcmp(equals + 1, "false") == 0)
        return true;
    else
        return mtr_fail(err, MTR_INVALID, "%s takes true or false, not '%s'", f->name, equals + 1);
    return *out || mtr_fail(err, MTR_NO_MEMORY, "out of memory");
}

char **mtr_bench_expand_sets(struct mtr_arena *arena, const struct mtr_flag *params, int *argc,
                             char **argv, struct mtr_error *err)
{
    char **out = mtr_arena_calloc(arena, MAX_ARGUMENTS + 1, sizeof *out);
    int n = 0;
    if (!out || *argc > MAX_ARGUMENTS) {
        mtr_fail(err, MTR_INVALID, "more than %d arguments", MAX_ARGUMENTS);
        return NULL;
    }
    for (int i = 0; i < *argc; i++) {
        const char *set = NULL;
        if (strncmp(argv[i], "--set=", 6) == 0) {
            set = argv[i] + 6;
        } else if (strcmp(argv[i], "--set") == 0) {
            if (++i == *argc) {
                mtr_fail(err, MTR_INVALID, "--set needs a value: NAME=VALUE");
                return NULL;
            }
            set = argv[i];
        }
        out[n] = set ? NULL : argv[i];
        if (set && !flag_of(arena, params, set, &out[n], err))
            return NULL;
        n += out[n] != NULL;
    }
    *argc = n;
    return out;
}

/* ---- Lists ------------------------------------------------------------------------------------
 */

static bool add_number(const char *name, struct mtr_str text, uint32_t min, uint32_t max,
                       struct mtr_bench_list *out, struct mtr_error *err)
{
    uint64_t n;
    if (!mtr_str_to_u64(text, &n) || n < min || n > max)
        return mtr_fail(err, MTR_INVALID,
                        "--%s takes integers from %u to %u with commas between, not '%.*s'", name,
                        min, max, MTR_STR_ARG(text));
    if (out->count == MTR_BENCH_MAX_LIST)
        return mtr_fail(err, MTR_INVALID, "--%s takes at most %d numbers", name,
                        MTR_BENCH_MAX_LIST);
    for (uint32_t i = 0; i < out->count; i++)
        if (out->values[i] == n)
            return mtr_fail(err, MTR_INVALID, "--%s has %llu twice", name, (unsigned long long)n);
    out->values[out->count++] = (uint32_t)n;
    return true;
}

bool mtr_bench_list_read(const char *name, const char *text, uint32_t min, uint32_t max,
                         struct mtr_bench_list *out, struct mtr_error *err)
{
    *out = (struct mtr_bench_list){0};
    for (const char *c = text;; c++) {
        size_t len = strcspn(c, ",");
        if (!add_number(name, (struct mtr_str){c, len}, min, max, out, err))
            return false;
        c += len;
        if (!*c)
            return true;
    }
}

bool mtr_bench_params_check(const struct mtr_bench_params *p, struct mtr_bench_list *prompts,
                            struct mtr_bench_list *widths, struct mtr_error *err)
{
    uint64_t requests = 0;
    if (!mtr_bench_list_read("prompt-tokens", p->prompt_tokens, 1, MAX_TOKENS, prompts, err) ||
        !mtr_bench_list_read("widths", p->widths, 1, MTR_BENCH_MAX_WIDTH, widths, err))
        return false;
    for (uint32_t i = 0; i < widths->count; i++)
        requests += (uint64_t)widths->values[i] * p->repeats * prompts->count;
    if (requests > MAX_REQUESTS)
        return mtr_fail(err, MTR_INVALID,
                        "widths, repeats and prompt-tokens make %llu requests, more than %u",
                        (unsigned long long)requests, MAX_REQUESTS);
    return true;
}
