/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/engine.h"

#include <stdlib.h>
#include <string.h>

#include "common/circuit/compile.h"
#include "common/circuit/source.h"
#include "worker/backend/open.h"

#define HEADERS_BYTES (1u << 30)

static void observe(void *context, uint64_t sequence, uint32_t position, const float *logits)
{
    struct engine *e = context;
    size_t row = e->last_only ? 0 : position;
    if (e->rows[sequence])
        memcpy(e->rows[sequence] + row * e->plan->vocab, logits, e->plan->vocab * sizeof(float));
}

static bool make_plan(struct engine *e, const char *model, const struct engine_options *o,
                      struct mtr_error *err)
{
    struct mtr_config config;
    struct mtr_device_info device;
    if (!e->backend->ops->info(e->backend, &device, err))
        return false;
    e->draws = !device.direct;
    const char *cache = o->cache ? o->cache : strcmp(device.hardware, "host") == 0 ? "f32" : NULL;
    struct mtr_plan_options options = {
        .hardware = device.hardware,
        .cache = MTR_FORMAT_COUNT,
        .precision = "declared",
        .block_tokens = 16,
        .limits = {.max_step_tokens = o->step_tokens,
                   .max_step_outputs = o->step_outputs,
                   .max_lanes = o->slots,
                   .max_sequence_tokens = o->sequence_tokens},
    };
    if (cache && !mtr_format_parse(mtr_str(cache), &options.cache))
        return mtr_fail(err, MTR_INVALID, "cache format \"%s\" is unknown", cache);
    e->checkpoint = mtr_checkpoint_open(&e->arena, model, NULL, err);
    if (!e->checkpoint || !mtr_config_read(&e->arena, e->checkpoint, &config, err))
        return false;
    struct mtr_model_source source = mtr_model_source_of(e->checkpoint, &config);
    e->plan = mtr_plan_build(&e->arena, &source, &options, err);
    return e->plan != NULL;
}

static bool make_exec(struct engine *e, const struct engine_options *o, struct mtr_error *err)
{
    const struct mtr_weights_options w = {.backend = e->backend,
                                          .plan = e->plan,
                                          .checkpoint = o->dummy ? NULL : e->checkpoint,
                                          .dummy = o->dummy};
    struct mtr_exec_options x = {
        .backend = e->backend, .plan = e->plan, .max_slots = o->slots, .observer = {observe, e}};
    x.snapshots = e->plan->state_count ? 1 : 0;
    if (!mtr_weights_load(&e->weights, &w, err))
        return false;
    x.weights = e->weights.device;
    e->slots = o->slots;
    e->last_only = o->last_only;
    e->blocks = (o->sequence_tokens + 15) / 16;
    e->tables = calloc((size_t)e->slots * e->blocks, sizeof *e->tables);
    for (uint32_t g = 0; g < e->plan->group_count; g++)
        x.group_blocks[g] = e->slots * e->blocks;
    e->exec = e->tables ? mtr_exec_create(&x, err) : NULL;
    return e->exec && mtr_exec_warm_up(e->exec, err);
}

bool engine_open(struct engine *e, const char *model, const struct engine_options *o,
                 struct mtr_error *err)
{
    *e = (struct engine){0};
    mtr_arena_init(&e->arena, HEADERS_BYTES);
    if (o->slots > ENGINE_MAX_SLOTS)
        return mtr_fail(err, MTR_INVALID, "%u lanes, at most %u", o->slots, ENGINE_MAX_SLOTS);
    struct mtr_backend_options b = {.hardware = o->hardware,
                                    .device = o->device,
                                    .no_overlap = o->no_overlap,
                                    .threads = o->threads,
                                    .instruction_set = o->isa};
    e->backend = mtr_backend_open(&b, NULL, err);
    if (e->backend && make_plan(e, model, o, err) && make_exec(e, o, err))
        return true;
    engine_close(e);
    return false;
}

void engine_close(struct engine *e)
{
    mtr_exec_destroy(e->exec);
    mtr_weights_free(&e->weights);
    if (e->backend)
        e->backend->ops->destroy(e->backend);
    mtr_checkpoint_close(e->checkpoint);
    mtr_arena_free(&e->arena);
    free(e->tables);
    *e = (struct engine){0};
}

/* The whole table of a slot, the lender's blocks in front. Whole blocks are borrowed only. */
static void make_table(struct engine *e, const struct engine_run *r)
{
    uint32_t *table = e->tables + (size_t)r->slot * e->blocks;
    for (uint32_t i = 0; i < e->blocks; i++) {
        bool lent = r->borrow && (i + 1) * 16 <= r->start;
        table[i] = (lent ? r->lender : r->slot) * e->blocks + i;
    }
}

static struct mtr_lane make_lane(struct engine *e, const struct engine_run *r,
                                 struct mtr_table_change *changes)
{
    bool open = r->start == 0 || r->borrow;
    for (uint32_t g = 0; open && g < e->plan->group_count; g++)
        changes[g] = (struct mtr_table_change){
            .group = g, .count = e->blocks, .blocks = e->tables + (size_t)r->slot * e->blocks};
    if (open)
        make_table(e, r);
    return (struct mtr_lane){
        .sequence = r->slot,
        .slot = r->slot,
        .open = open,
        .start = r->start,
        .count = r->count,
        .tokens = r->tokens,
        .table_count = open ? e->plan->group_count : 0,
        .tables = changes,
        .outputs = r->output,
        .sampling = r->sampling,
        .score = r->score,
    };
}

/* What recurrent layers need: a state to begin with, or a snapshot of where it stands. */
static uint32_t make_effects(const struct engine *e, const struct engine_run *r,
                             struct mtr_effect *effects)
{
    uint32_t count = 0;
    if (!e->plan->state_count)
        return 0;
    if (r->snapshot)
        effects[count++] = (struct mtr_effect){.kind = MTR_SNAPSHOT_STATE, .src = r->slot};
    if (r->borrow)
        effects[count++] = (struct mtr_effect){.kind = MTR_RESTORE_STATE, .dst = r->slot};
    else if (r->start == 0)
        effects[count++] = (struct mtr_effect){.kind = MTR_ZERO_STATE, .dst = r->slot};
    return count;
}

bool engine_begin(struct engine *e, const struct engine_run *runs, uint32_t count,
                  struct mtr_error *err)
{
    struct engine_flight *f = &e->flights[++e->step % MTR_PLANS_IN_FLIGHT];
    if (count > ENGINE_MAX_SLOTS)
        return mtr_fail(err, MTR_INVALID, "%u lanes, at most %u", count, ENGINE_MAX_SLOTS);
    f->plan = (struct mtr_step_plan){
        .step = e->step, .effects = f->effects, .lane_count = count, .lanes = f->lanes};
    for (uint32_t i = 0; i < count; i++) {
        f->lanes[i] = make_lane(e, &runs[i], f->changes[i]);
        f->plan.effect_count += make_effects(e, &runs[i], f->effects + f->plan.effect_count);
    }
    return mtr_exec_begin(e->exec, &f->plan, err);
}

bool engine_finish(struct engine *e, struct mtr_error *err)
{
    return mtr_exec_finish(e->exec, &e->result, err);
}

void engine_observe(struct engine *e, bool on)
{
    mtr_exec_observe(e->exec, (struct mtr_exec_observer){on ? observe : NULL, e});
}

bool engine_step(struct engine *e, const struct engine_run *runs, uint32_t count,
                 struct mtr_error *err)
{
    return engine_begin(e, runs, count, err) && engine_finish(e, err);
}
