/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * metralectl circuit: what a model computes and needs, from its headers alone.
 */
#include "common/circuit/compile.h"

#include <stdio.h>
#include <string.h>

#include "common/circuit/report.h"
#include "common/circuit/source.h"
#include "ctl/ctl.h"

#define ARENA_BYTES ((size_t)4 << 30)

struct circuit_options {
    const char *report, *model; /* positional */
    const char *cache_dir, *hardware, *device, *cache_format;
    uint32_t max_seq_len, max_batch_size, max_prefill_tokens, context;
    bool help;
};

static bool print_report(const struct circuit_options *o, const struct mtr_plan *plan,
                         const struct mtr_device *device, struct mtr_error *err)
{
    struct mtr_buf out = {0};
    bool ok;
    if (strcmp(o->report, "show") == 0)
        ok = mtr_report_show(&out, plan);
    else if (strcmp(o->report, "plan") == 0)
        ok = mtr_report_plan(&out, plan, device, o->context);
    else if (strcmp(o->report, "memory") == 0)
        ok = mtr_report_memory(&out, plan, device);
    else
        ok = mtr_report_precision(&out, plan);
    if (ok)
        fwrite(out.data, 1, out.len, stdout);
    mtr_buf_free(&out);
    return ok || mtr_fail(err, MTR_NO_MEMORY, "out of memory writing the report");
}

static struct mtr_plan *build_plan(struct mtr_arena *arena, const struct circuit_options *o,
                                   const struct mtr_checkpoint *ck, struct mtr_error *err)
{
    struct mtr_config config;
    const struct mtr_hardware *class = mtr_hardware_find(o->hardware);
    uint32_t batch = o->max_batch_size ? o->max_batch_size : class->max_batch_size;
    uint32_t prefill = o->max_prefill_tokens ? o->max_prefill_tokens : class->max_prefill_tokens;
    struct mtr_plan_options options = {
        .hardware = o->hardware,
        .precision = "declared",
        .cache = MTR_FORMAT_COUNT,
        .limits =
            {
                .max_step_tokens = prefill + batch,
                .max_step_outputs = batch,
                .max_lanes = batch,
                .max_sequence_tokens = o->max_seq_len,
            },
    };
    if (o->cache_format && !mtr_format_parse(mtr_str(o->cache_format), &options.cache)) {
        mtr_fail(err, MTR_INVALID, "there is no cache format '%s'", o->cache_format);
        return NULL;
    }
    if (!mtr_config_read(arena, ck, &config, err))
        return NULL;
    struct mtr_model_source source = mtr_model_source_of(ck, &config);
    return mtr_plan_build(arena, &source, &options, err);
}

static bool no_device(const char *name, struct mtr_error *err)
{
    struct mtr_buf names = {0};
    uint32_t count;
    const struct mtr_device *all = mtr_devices(&count);
    for (uint32_t i = 0; i < count; i++)
        mtr_buf_printf(&names, "%s%s", i ? ", " : "", all[i].name);
    mtr_fail(err, MTR_NOT_FOUND, "no device is called '%s'; known are %.*s", name, (int)names.len,
             names.len ? names.data : "");
    mtr_buf_free(&names);
    return false;
}

static bool report(const struct circuit_options *o, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_checkpoint_options options = {.cache_dir = o->cache_dir};
    const struct mtr_device *device = mtr_device_find(o->device);
    if (!device)
        return no_device(o->device, err);
    mtr_arena_init(&arena, ARENA_BYTES);
    struct mtr_checkpoint *ck = mtr_checkpoint_open(&arena, o->model, &options, err);
    struct mtr_plan *plan = ck ? build_plan(&arena, o, ck, err) : NULL;
    bool ok = plan && print_report(o, plan, device, err);
    mtr_checkpoint_close(ck);
    mtr_arena_free(&arena);
    bool named = !ok && strncmp(err->message, o->model, strlen(o->model)) == 0;
    return ok || (!named && mtr_error_prefix(err, "%s", o->model));
}

int mtr_ctl_circuit(int argc, char **argv)
{
    struct circuit_options o = {
        .hardware = "host",
        .device = "host",
    };
    struct mtr_flag flags[] = {
        {"hardware", MTR_FLAG_CHOICE, &o.hardware, NULL, "kernel class", 0, 0,
         "host|gb10|hopper|b200"},
        {"device", MTR_FLAG_STRING, &o.device, "NAME",
         "device to estimate for: host, gb10, h200, ..."},
        {"kv-cache-dtype", MTR_FLAG_STRING, &o.cache_format, "FORMAT", "format of the KV cache"},
        {"max-seq-len", MTR_FLAG_U32, &o.max_seq_len, "N",
         "tokens of a sequence; 0: the model's context", 0, 1 << 24},
        {"max-batch-size", MTR_FLAG_U32, &o.max_batch_size, "N",
         "sequences at once; 0: what suits the class", 0, 1024},
        {"max-prefill-tokens", MTR_FLAG_U32, &o.max_prefill_tokens, "N",
         "prompt tokens computed in one step; 0: what suits the class", 0, 65536},
        {"context", MTR_FLAG_U32, &o.context, "N", "plan: tokens of history to estimate with", 0,
         1 << 24},
        {"cache-dir", MTR_FLAG_STRING, &o.cache_dir, "PATH", "Hugging Face cache to look in"},
        {"help", MTR_FLAG_BOOL, &o.help, NULL, "print this"},
    };
    static const char *const reports[] = {"show", "plan", "memory", "precision"};
    const char *positionals[2] = {0};
    struct mtr_error error = {0};
    size_t count = sizeof flags / sizeof flags[0], n;
    bool known = false;
    if (!mtr_flags_parse(flags, count, argc, argv, positionals, 2, &n, &error))
        return mtr_ctl_error(argv[0], &error);
    if (o.help)
        return mtr_ctl_help(argv[0], flags, count);
    o.report = positionals[0];
    o.model = positionals[1];
    for (size_t i = 0; o.report && i < sizeof reports / sizeof reports[0]; i++)
        known |= strcmp(o.report, reports[i]) == 0;
    if (!known)
        mtr_fail(&error, MTR_INVALID, "which report? show, plan, memory or precision");
    else if (!o.model)
        mtr_fail(&error, MTR_INVALID,
                 "of which model? A GGUF file, a folder, a config.json, a hub id");
    else if (report(&o, &error))
        return 0;
    return mtr_ctl_error(argv[0], &error);
}
