/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps in order, each with what it needs from the one before; the first that fails undoes all.
 */
#include "worker/session/load.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"
#include "common/circuit/compile.h"
#include "common/circuit/source.h"
#include "common/circuit/target.h"
#include "worker/exec/logprobs.h"

#define MEMORY_PERCENT 90         /* of the device, when the broker does not say */
#define HEADERS_BYTES  (1u << 30) /* limit of what headers, settings and plan may take */

static bool check_shape(const Mtr__LoadModel *l, struct mtr_error *err)
{
    const struct {
        const char *name;
        uint32_t value;
    } shapes[] = {{"world_size", l->world_size},
                  {"tensor_parallel", l->tensor_parallel},
                  {"expert_parallel", l->expert_parallel}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].value > 1)
            return mtr_fail(err, MTR_UNSUPPORTED, "%s %u: this worker serves one rank only",
                            shapes[i].name, shapes[i].value);
    if (l->top_logprobs_max > MTR_LOGPROBS_MAX_TOP)
        return mtr_fail(err, MTR_UNSUPPORTED, "%u log-probabilities a token, at most %u are given",
                        l->top_logprobs_max, MTR_LOGPROBS_MAX_TOP);
    if (!l->max_slots || !l->max_step_tokens || !l->max_step_outputs)
        return mtr_fail(err, MTR_INVALID,
                        "LoadModel with %u slots, %u tokens and %u outputs a step", l->max_slots,
                        l->max_step_tokens, l->max_step_outputs);
    return true;
}

static bool plan_options(const Mtr__LoadModel *l, const char *hardware,
                         struct mtr_plan_options *out, struct mtr_error *err)
{
    *out = (struct mtr_plan_options){
        .hardware = hardware,
        .precision = *l->precision ? l->precision : "declared",
        .cache = MTR_FORMAT_COUNT,
        .block_tokens = l->block_tokens,
        .limits = {.max_step_tokens = l->max_step_tokens,
                   .max_step_outputs = l->max_step_outputs,
                   .max_lanes = l->max_slots,
                   .max_sequence_tokens = l->max_sequence_tokens},
    };
    if (*l->cache_format && !mtr_format_parse(mtr_str(l->cache_format), &out->cache))
        return mtr_fail(err, MTR_UNSUPPORTED, "cache format \"%s\" is unknown", l->cache_format);
    return true;
}

static bool check_digest(const struct mtr_plan *plan, const ProtobufCBinaryData *want,
                         struct mtr_error *err)
{
    char ours[65], theirs[65];
    if (want->len == 0)
        return true;
    if (want->len == sizeof plan->digest && memcmp(want->data, plan->digest, want->len) == 0)
        return true;
    mtr_hex(plan->digest, sizeof plan->digest, ours);
    mtr_hex(want->data, want->len < 32 ? want->len : 32, theirs);
    return mtr_fail(err, MTR_INVALID,
                    "this worker's plan is %s, the broker's is %s: is the checkpoint the same, and "
                    "the build?",
                    ours, theirs);
}

/* Kernels made for this very model, where the build has some. */
static bool use_target(const struct mtr_loaded *m, struct mtr_str model_type,
                       struct mtr_backend *backend, struct mtr_error *err)
{
    uint32_t count;
    const struct mtr_target_model *models = mtr_target_models(&count), *chosen;
    const struct mtr_target_subject subject = {m->plan->hardware, model_type, m->plan->hidden,
                                               mtr_str(m->checkpoint->name)};
    if (!mtr_target_choose(models, count, &subject, &chosen, err))
        return false;
    if (chosen && backend->ops->use_target)
        backend->ops->use_target(backend, chosen->model, mtr_target_quant(m->plan));
    return true;
}

static bool make_plan(struct mtr_loaded *m, const Mtr__LoadModel *l, const char *hardware,
                      struct mtr_backend *backend, struct mtr_error *err)
{
    struct mtr_plan_options options;
    struct mtr_config config;
    if (!plan_options(l, hardware, &options, err))
        return false;
    m->checkpoint = mtr_checkpoint_open(&m->arena, l->checkpoint, NULL, err);
    if (!m->checkpoint || !mtr_config_read(&m->arena, m->checkpoint, &config, err))
        return false;
    struct mtr_model_source source = mtr_model_source_of(m->checkpoint, &config);
    m->plan = mtr_plan_build(&m->arena, &source, &options, err);
    return m->plan && check_digest(m->plan, &l->plan_digest, err) &&
           use_target(m, config.architecture, backend, err);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Weights that are read where they are mapped count too: a cache that pushes them out of memory
 * would turn every step into reads from disk. */
static bool make_budget(struct mtr_loaded *m, const Mtr__LoadModel *l, struct mtr_backend *backend,
                        struct mtr_error *err)
{
    struct mtr_device_info device;
    struct mtr_budget *b = &m->budget;
    if (!backend->ops->info(backend, &device, err) ||
        !mtr_weights_bytes(m->plan, l->dummy_weights ? NULL : m->checkpoint, device.direct,
                           &b->mapped, &b->copied, err))
        return false;
    uint32_t percent = l->memory_percent ? l->memory_percent : MEMORY_PERCENT;
    uint64_t share = device.memory_total_bytes / 100 * (percent < 100 ? percent : 100);
    uint64_t free = less(device.memory_free_bytes, l->reserve_bytes);
    m->snapshots = m->plan->state_count ? l->state_snapshots : 0;
    b->device_total = device.memory_total_bytes;
    b->device_free = device.memory_free_bytes;
    b->usable = share < free ? share : free;
    b->fixed = mtr_exec_fixed_bytes(m->plan, l->max_slots, m->snapshots);
    uint64_t taken = b->mapped + b->copied + b->fixed;
    b->cache = l->cache_bytes ? l->cache_bytes : less(b->usable, taken);
    if (taken + b->cache <= b->usable && b->cache)
        return true;
    return mtr_fail(err, MTR_NO_MEMORY,
                    "%.1f MB of weights, %.1f MB of step buffers and %.1f MB of cache do not fit "
                    "into the %.1f MB that this worker may use (%.1f MB free of %.1f MB, %.1f MB "
                    "reserved)",
                    (double)(b->mapped + b->copied) / 1e6, (double)b->fixed / 1e6,
                    (double)b->cache / 1e6, (double)b->usable / 1e6, (double)b->device_free / 1e6,
                    (double)b->device_total / 1e6, (double)l->reserve_bytes / 1e6);
}

/* What the blocks really take. */
static void count_cache(struct mtr_loaded *m)
{
    m->budget.cache = 0;
    for (uint32_t g = 0; g < m->plan->group_count; g++)
        m->budget.cache +=
            m->plan->groups[g].block_bytes * m->plan->groups[g].layers * m->budget.group_blocks[g];
}

struct weights_progress {
    const struct mtr_load_progress *to;
};

static bool report_weights(void *context, uint64_t done, uint64_t total)
{
    const struct weights_progress *p = context;
    return p->to->report(p->to->context, "weights", done, total);
}

static bool load_weights(struct mtr_loaded *m, const Mtr__LoadModel *l, struct mtr_backend *backend,
                         const struct mtr_load_progress *progress, struct mtr_error *err)
{
    struct weights_progress p = {progress};
    const struct mtr_weights_options options = {
        .backend = backend,
        .plan = m->plan,
        .checkpoint = l->dummy_weights ? NULL : m->checkpoint,
        .dummy = l->dummy_weights,
        .dummy_seed = l->dummy_seed,
        .progress = report_weights,
        .context = &p,
    };
    return mtr_weights_load(&m->weights, &options, err);
}

static bool make_exec(struct mtr_loaded *m, const Mtr__LoadModel *l, struct mtr_backend *backend,
                      const struct mtr_load_progress *progress, struct mtr_error *err)
{
    struct mtr_exec_options options = {
        .backend = backend,
        .plan = m->plan,
        .weights = m->weights.device,
        .max_slots = l->max_slots,
        .snapshots = m->snapshots,
    };
    memcpy(options.group_blocks, m->budget.group_blocks, sizeof options.group_blocks);
    if (!progress->report(progress->context, "cache", 0, m->budget.cache))
        return mtr_fail(err, MTR_BUSY, "loading was cancelled");
    m->exec = mtr_exec_create(&options, err);
    if (!m->exec)
        return false;
    if (!progress->report(progress->context, "warm-up", 0, 0))
        return mtr_fail(err, MTR_BUSY, "loading was cancelled");
    return mtr_exec_warm_up(m->exec, err);
}

bool mtr_load_model(struct mtr_loaded *m, const Mtr__LoadModel *l, struct mtr_backend *backend,
                    const struct mtr_load_progress *progress, struct mtr_error *err)
{
    struct mtr_device_info device;
    *m = (struct mtr_loaded){0};
    mtr_arena_init(&m->arena, HEADERS_BYTES);
    bool ok =
        check_shape(l, err) && backend->ops->info(backend, &device, err) &&
        make_plan(m, l, device.hardware, backend, err) && make_budget(m, l, backend, err) &&
        mtr_exec_divide_cache(m->plan, l->max_slots, m->budget.cache, m->budget.group_blocks, err);
    if (ok) {
        count_cache(m);
        ok = load_weights(m, l, backend, progress, err) && make_exec(m, l, backend, progress, err);
    }
    if (!ok)
        mtr_unload_model(m);
    return ok;
}

void mtr_unload_model(struct mtr_loaded *m)
{
    mtr_exec_destroy(m->exec);
    mtr_weights_free(&m->weights);
    mtr_checkpoint_close(m->checkpoint);
    mtr_arena_free(&m->arena);
    *m = (struct mtr_loaded){0};
}
