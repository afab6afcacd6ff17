/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * decode-bench MODEL [options]: tokens per second of a model in this process, without broker, wire
 * and text: what the kernels and the executor alone can do. One JSON object on standard output.
 *
 * Decoding is greedy, and each step begins before the one before it has finished; device_us is the
 * mean time from a step's first work on the device to its last, step_us that from step to step:
 * what lies between is what the device waited.
 *
 * Prompts are pseudo-random token ids. Every figure is the best of --repeat runs: on a machine that
 * others use the slower ones measure them.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/str.h"
#include "tests/check/engine.h"

#define MAX_TOKENS 65536

static const char help[] = "Usage: decode-bench [options] MODEL\n"
                           "  --prompt N    tokens to prefill (512)\n"
                           "  --decode N    tokens to decode in each stream (128)\n"
                           "  --context N   tokens of prompt before decoding (32)\n"
                           "  --streams N   streams of the second decode figure (8)\n"
                           "  --repeat N    runs, of which the best counts (3)\n"
                           "  --hardware CLASS, --device N (host, 0)\n"
                           "  --dummy       random weights: config.json is enough\n"
                           "  --threads N, --isa NAME, --cache f32|bf16 (bf16)\n";

struct rate {
    double tokens_per_s, step_us, device_us;
};

struct bench {
    struct engine_options engine;
    uint32_t prompt, decode, context, streams, repeat;
    uint32_t *tokens; /* [MAX_TOKENS] */
};

static const struct option options[] = {
    {"prompt", required_argument, NULL, 'p'},  {"decode", required_argument, NULL, 'd'},
    {"context", required_argument, NULL, 'x'}, {"streams", required_argument, NULL, 's'},
    {"repeat", required_argument, NULL, 'r'},  {"hardware", required_argument, NULL, 'h'},
    {"device", required_argument, NULL, 'n'},  {"threads", required_argument, NULL, 't'},
    {"isa", required_argument, NULL, 'i'},     {"cache", required_argument, NULL, 'f'},
    {"dummy", no_argument, NULL, 'y'},         {NULL, 0, NULL, 0},
};

static bool number(uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t n;
    if (!mtr_str_to_u64(mtr_str(optarg), &n) || n < min || n > max)
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool take_option(struct bench *b, int id)
{
    switch (id) {
    case 'p':
        return number(1, MAX_TOKENS / 2, &b->prompt);
    case 'd':
        return number(1, MAX_TOKENS / 2, &b->decode);
    case 'x':
        return number(1, MAX_TOKENS / 2, &b->context);
    case 's':
        return number(1, ENGINE_MAX_SLOTS, &b->streams);
    case 'r':
        return number(1, 1000, &b->repeat);
    case 'h':
        b->engine.hardware = optarg;
        return true;
    case 'n':
        return number(0, 63, &b->engine.device);
    case 't':
        return number(0, 1024, &b->engine.threads);
    case 'i':
        b->engine.isa = optarg;
        return true;
    case 'f':
        b->engine.cache = optarg;
        return true;
    case 'y':
        b->engine.dummy = true;
        return true;
    default:
        return false;
    }
}

static double seconds(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return (double)mtr_now_ns(&c) / 1e9;
}

static bool time_prefill(struct bench *b, struct engine *e, double *rate, struct mtr_error *err)
{
    double best = 0;
    for (uint32_t i = 0; i < b->repeat; i++) {
        double begin = seconds();
        struct engine_run r = {.count = b->prompt, .tokens = b->tokens, .output = true};
        if (!engine_step(e, &r, 1, err))
            return false;
        double now = b->prompt / (seconds() - begin);
        best = now > best ? now : best;
    }
    *rate = best;
    return true;
}

static bool finish(struct engine *e, uint64_t *device_ns, struct mtr_error *err)
{
    bool ok = engine_finish(e, err);
    *device_ns += ok ? e->result.device_ns : 0;
    return ok;
}

static bool decode_once(struct bench *b, struct engine *e, uint32_t streams, uint64_t *device_ns,
                        struct mtr_error *err)
{
    struct engine_run runs[ENGINE_MAX_SLOTS];
    for (uint32_t i = 0; i < b->decode; i++) {
        for (uint32_t s = 0; s < streams; s++)
            runs[s] =
                (struct engine_run){.slot = s, .start = b->context + i, .count = 1, .output = true};
        if (!engine_begin(e, runs, streams, err) || (i && !finish(e, device_ns, err)))
            return false;
    }
    return finish(e, device_ns, err);
}

static bool time_decode(struct bench *b, struct engine *e, uint32_t streams, struct rate *rate,
                        struct mtr_error *err)
{
    *rate = (struct rate){0};
    for (uint32_t i = 0; i < b->repeat; i++) {
        uint64_t device_ns = 0;
        for (uint32_t s = 0; s < streams; s++) {
            struct engine_run r = {
                .slot = s, .count = b->context, .tokens = b->tokens + s, .output = true};
            if (!engine_step(e, &r, 1, err))
                return false;
        }
        double begin = seconds();
        if (!decode_once(b, e, streams, &device_ns, err))
            return false;
        double took = seconds() - begin, now = (double)b->decode * streams / took;
        if (now > rate->tokens_per_s)
            *rate = (struct rate){now, took * 1e6 / b->decode, (double)device_ns / 1e3 / b->decode};
    }
    return true;
}

/* Two operations for each weight that a prompt's token meets; the head only meets the last one. */
static uint64_t flop_per_token(const struct mtr_plan *plan)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < plan->weight_count; i++)
        if (plan->weights[i].rows > 1 && plan->weights[i].rows != plan->vocab &&
            plan->weights[i].role == MTR_WEIGHT_VALUES)
            elements += plan->weights[i].rows * plan->weights[i].cols;
    return 2 * elements;
}

static bool run(struct bench *b, const char *model, struct mtr_error *err)
{
    struct engine e;
    struct rate one, many;
    double begin = seconds(), prefill;
    uint32_t longest = b->context + b->decode;
    b->engine.sequence_tokens = (longest > b->prompt ? longest : b->prompt) + 1;
    b->engine.step_tokens = b->prompt > b->context ? b->prompt : b->context;
    b->engine.slots = b->streams;
    if (!engine_open(&e, model, &b->engine, err))
        return false;
    engine_observe(&e, false);
    double loaded = seconds() - begin;
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        b->tokens[i] = (i * 2654435761u >> 7) % e.plan->vocab;
    bool ok = time_decode(b, &e, 1, &one, err) && time_decode(b, &e, b->streams, &many, err) &&
              time_prefill(b, &e, &prefill, err);
    if (ok)
        printf("{\"load_s\": %.3f, \"decode_tokens_per_s\": %.1f, \"step_us\": %.1f, "
               "\"device_us\": %.1f, \"decode_%u_streams_tokens_per_s\": %.1f, "
               "\"streams_step_us\": %.1f, \"streams_device_us\": %.1f, "
               "\"prefill_%u_tokens_per_s\": %.1f, \"weight_bytes\": %llu, "
               "\"flop_per_token\": %llu}\n",
               loaded, one.tokens_per_s, one.step_us, one.device_us, b->streams, many.tokens_per_s,
               many.step_us, many.device_us, b->prompt, prefill,
               (unsigned long long)e.weights.total_bytes,
               (unsigned long long)flop_per_token(e.plan));
    engine_close(&e);
    return ok;
}

int main(int argc, char **argv)
{
    struct bench b = {.engine = {.hardware = "host", .cache = "bf16", .step_outputs = 64},
                      .prompt = 512,
                      .decode = 128,
                      .context = 32,
                      .streams = 8,
                      .repeat = 3};
    struct mtr_error err = {0};
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (!take_option(&b, id))
            return fputs(help, stderr), 2;
    if (optind + 1 != argc)
        return fputs(help, stderr), 2;
    b.tokens = calloc(MAX_TOKENS, sizeof *b.tokens);
    bool ok = b.tokens && run(&b, argv[optind], &err);
    if (!ok)
        fprintf(stderr, "%s\n", b.tokens ? err.message : "no memory");
    free(b.tokens);
    return ok ? 0 : 1;
}
