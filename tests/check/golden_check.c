/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * golden-check: does the engine compute what was recorded?
 *
 * Exit status: 0 all right, 1 something differs, 2 something could not be run.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "tests/check/check.h"

static const char help[] =
    "Usage: golden-check [options] DIR...\n"
    "       golden-check [options] --model FILE.gguf CASES.json...\n"
    "\n"
    "DIR has config.json, model.safetensors and golden.safetensors. Of CASES.json the texts' ids,\n"
    "prompt log-likelihoods, greedy tokens and best logits are compared.\n"
    "\n"
    "  --chunk N[,N...]  prefill chunk sizes beside the whole (16,7)\n"
    "  --lanes N         also run the prompt N times in one step (1)\n"
    "  --hardware CLASS  host, gb10, hopper, b200 or auto (host)\n"
    "  --device N        CUDA device (0)\n"
    "  --no-overlap      CUDA: start each kernel after the one before it has ended\n"
    "  --cache FORMAT    f32 or bf16 (f32 on the host, else the class's own)\n"
    "  --threads N       (one a core)\n"
    "  --isa NAME        avx512, avx2, neon, portable (the best there is)\n"
    "  --tolerance X     relative error of logits (1e-3 with an f32 cache, 3e-2 with others)\n"
    "  --case NAME       only this case of CASES.json\n";

static const struct option options[] = {
    {"chunk", required_argument, NULL, 'c'},
    {"lanes", required_argument, NULL, 'l'},
    {"hardware", required_argument, NULL, 'h'},
    {"device", required_argument, NULL, 'd'},
    {"no-overlap", no_argument, NULL, 'o'},
    {"cache", required_argument, NULL, 'f'},
    {"threads", required_argument, NULL, 't'},
    {"isa", required_argument, NULL, 'i'},
    {"tolerance", required_argument, NULL, 'e'},
    {"model", required_argument, NULL, 'm'},
    {"case", required_argument, NULL, 'k'},
    {"help", no_argument, NULL, '?'},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
    uint64_t n;
    if (!mtr_str_to_u64(mtr_str(text), &n) || n < min || n > max)
        return false;
    *out = (uint32_t)n;
    return true;
}

static bool parse_chunks(struct check_options *o, const char *text)
{
    struct mtr_str rest = mtr_str(text);
    for (o->chunk_count = 0; o->chunk_count < CHECK_MAX_CHUNKS; o->chunk_count++) {
        size_t comma = mtr_str_find(rest, MTR_STR(","), 0);
        struct mtr_str one = mtr_str_sub(rest, 0, comma);
        uint64_t n;
        if (!mtr_str_to_u64(one, &n) || n == 0 || n > UINT32_MAX)
            return false;
        o->chunks[o->chunk_count] = (uint32_t)n;
        if (comma == SIZE_MAX) {
            o->chunk_count++;
            return true;
        }
        rest = mtr_str_sub(rest, comma + 1, SIZE_MAX);
    }
    return false;
}

static bool take_option(struct check_options *o, const char **model, int id)
{
    switch (id) {
    case 'c':
        return parse_chunks(o, optarg);
    case 'l':
        return number(optarg, 1, ENGINE_MAX_SLOTS - 1, &o->lanes);
    case 't':
        return number(optarg, 0, 1024, &o->engine.threads);
    case 'e':
        return mtr_str_to_f64(mtr_str(optarg), &o->tolerance) && o->tolerance > 0;
    case 'h':
        o->engine.hardware = optarg;
        return true;
    case 'd':
        return number(optarg, 0, 63, &o->engine.device);
    case 'o':
        o->engine.no_overlap = true;
        return true;
    case 'f':
        o->engine.cache = optarg;
        return true;
    case 'i':
        o->engine.isa = optarg;
        return true;
    case 'm':
        *model = optarg;
        return true;
    case 'k':
        o->only = optarg;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    struct check_options o = {.engine = {.hardware = "host", .step_outputs = 128},
                              .chunks = {16, 7},
                              .chunk_count = 2,
                              .lanes = 1};
    const char *model = NULL;
    int status = 0;
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (!take_option(&o, &model, id))
            return fputs(help, stderr), 2;
    if (optind == argc)
        return fputs(help, stderr), 2;
    for (int i = optind; i < argc; i++) {
        struct mtr_error err = {0};
        if (model ? check_real(model, argv[i], &o, &err) : check_folder(argv[i], &o, &err))
            continue;
        if (err.code && !model)
            mtr_error_prefix(&err, "%s", argv[i]);
        if (err.code)
            fprintf(stderr, "golden-check: %s\n", err.message);
        status = err.code ? 2 : status ? status : 1;
    }
    return status;
}
