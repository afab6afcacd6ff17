/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The stages in order, and the checks between them.
 */
#include "common/circuit/compile.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/circuit/config_map.h"
#include "common/circuit/planner.h"

#define MAX_STEP_TOKENS  65536
#define MAX_LANES        4096
#define MAX_BLOCK_TOKENS 1024

static const struct mtr_hardware *find_class(const char *name, struct mtr_error *err)
{
    const struct mtr_hardware *h = mtr_hardware_find(name);
    if (h)
        return h;
    uint32_t count;
    const struct mtr_hardware *all = mtr_hardware_classes(&count);
    char have[128];
    int n = 0;
    for (uint32_t i = 0; i < count && n < 100; i++)
        n += snprintf(have + n, sizeof have - (size_t)n, "%s%.20s", i ? ", " : "", all[i].name);
    mtr_fail(err, MTR_UNSUPPORTED, "no hardware class \"%.40s\"; there are: %s", name, have);
    return NULL;
}

/* Any cache point of the class will do: rules need all of them or none. */
static bool keeps_cache_in(const struct mtr_hardware *h, enum mtr_format format)
{
    for (uint32_t i = 0; i < h->family_count; i++)
        for (uint32_t p = 0; p < h->families[i].point_count; p++)
            if (h->families[i].points[p].cache == format)
                return true;
    return false;
}

static bool check_cache(const struct mtr_hardware *h, enum mtr_format cache, struct mtr_error *err)
{
    if (keeps_cache_in(h, cache))
        return true;
    char have[128] = "";
    int n = 0;
    for (uint32_t f = 0; f < MTR_FORMAT_COUNT && n < 100; f++)
        if (keeps_cache_in(h, f))
            n += snprintf(have + n, sizeof have - (size_t)n, "%s%s", n ? ", " : "",
                          mtr_format_info(f)->name);
    return mtr_fail(err, MTR_UNSUPPORTED, "class %s keeps no cache in %s; it has: %s", h->name,
                    mtr_format_info(cache)->name, have);
}

static bool set_limits(const struct mtr_plan_options *o, uint32_t context,
                       struct mtr_plan_limits *out, struct mtr_error *err)
{
    *out = o->limits;
    if (!out->max_step_tokens)
        out->max_step_tokens = MTR_DEFAULT_STEP_TOKENS;
    if (!out->max_lanes)
        out->max_lanes = MTR_DEFAULT_LANES;
    if (!out->max_step_outputs)
        out->max_step_outputs = out->max_lanes;
    if (!out->max_sequence_tokens)
        out->max_sequence_tokens = context;
    if (out->max_step_tokens > MAX_STEP_TOKENS || out->max_step_outputs > MAX_STEP_TOKENS)
        return mtr_fail(err, MTR_TOO_LARGE, "a step of %u tokens; at most %d are planned",
                        out->max_step_tokens, MAX_STEP_TOKENS);
    if (out->max_lanes > MAX_LANES)
        return mtr_fail(err, MTR_TOO_LARGE, "%u lanes; at most %d are planned", out->max_lanes,
                        MAX_LANES);
    if (out->max_sequence_tokens > context)
        return mtr_fail(err, MTR_INVALID,
                        "sequences of %u tokens are asked for, but the model was made for %u",
                        out->max_sequence_tokens, context);
    return true;
}

static bool digest(struct mtr_plan *plan, struct mtr_error *err)
{
    struct mtr_buf text = {0};
    bool good = mtr_plan_text(&text, plan);
    if (good)
        mtr_sha256(text.data, text.len, plan->digest);
    mtr_buf_free(&text);
    return good || mtr_fail(err, MTR_NO_MEMORY, "no memory for the plan's text");
}

static bool build(struct mtr_arena *arena, const struct mtr_model_source *source,
                  const struct mtr_plan_options *options, struct mtr_plan *plan,
                  struct mtr_error *err)
{
    struct mtr_settings settings;
    struct mtr_instance instance;
    struct mtr_cover covers[MTR_MODE_COUNT];
    const struct mtr_hardware *hardware = find_class(options->hardware, err);
    if (!hardware)
        return false;
    if (options->precision && strcmp(options->precision, "declared") != 0)
        return mtr_fail(err, MTR_UNSUPPORTED,
                        "precision \"%.40s\" is not there; only \"declared\" is",
                        options->precision);
    if (options->block_tokens % 16 || options->block_tokens > MAX_BLOCK_TOKENS)
        return mtr_fail(err, MTR_INVALID,
                        "blocks of %u tokens; a multiple of 16 up to %d is needed",
                        options->block_tokens, MAX_BLOCK_TOKENS);
    enum mtr_format cache =
        options->cache == MTR_FORMAT_COUNT ? hardware->default_cache : options->cache;
    if (!check_cache(hardware, cache, err) || !mtr_settings_read(arena, source, &settings, err) ||
        !mtr_instantiate(arena, source, &settings, hardware, options, &instance, err))
        return false;
    for (uint32_t mode = 0; mode < MTR_MODE_COUNT; mode++)
        if (!mtr_fuse(arena, &instance, hardware, cache, mode, &covers[mode], err))
            return false;
    plan->circuit = instance.circuit;
    plan->hardware = hardware->name;
    plan->precision = "declared";
    plan->vocab = instance.vocab;
    plan->hidden = instance.hidden;
    plan->layers = instance.layers;
    plan->context = instance.context;
    return set_limits(options, instance.context, &plan->limits, err) &&
           mtr_plan_lay_out(arena, &instance, hardware, covers, plan, err) && digest(plan, err);
}

struct mtr_plan *mtr_plan_build(struct mtr_arena *arena, const struct mtr_model_source *source,
                                const struct mtr_plan_options *options, struct mtr_error *err)
{
    struct mtr_plan *plan = mtr_arena_calloc(arena, 1, sizeof *plan);
    if (!plan) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a plan");
        return NULL;
    }
    return build(arena, source, options, plan, err) ? plan : NULL;
}
