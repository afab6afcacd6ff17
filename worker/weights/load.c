/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loading: decide all places, allocate once, then fill weight after weight.
 *
 * Where the host can write device memory (the host class) a weight is produced right where it will
 * stand. Elsewhere it is produced into one of two pinned buffers, while the other one's upload is
 * on its way. A weight with a layout of its own goes through the class's repack kernel: from the
 * file where a kernel can read that, otherwise from scratch memory that is filled in the same way.
 */
#include "worker/weights/weights.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/circuit/preflight.h"
#include "kernels/args/repack.h"
#include "worker/weights/convert.h"
#include "worker/weights/dummy.h"
#include "worker/weights/place.h"
#include "worker/weights/readahead.h"

#define CHUNK_BYTES    ((uint64_t)8 << 20) /* produced at a time, about */
#define STAGES         2
#define HUGE_SHARE     2   /* mapped weights get huge pages when they take no more of free memory */
#define REPACK_THREADS 256 /* of a block, on classes that have such */

struct loading {
    struct mtr_weights *w;
    const struct mtr_weights_options *o;
    const struct mtr_backend_ops *ops;
    struct mtr_placement placement;
    bool host;           /* device addresses are the host's */
    uint64_t free_bytes; /* of the device, before */
    void *scratch;
    void *stage[STAGES];
    struct mtr_event *staged[STAGES]; /* recorded behind the upload of that buffer */
    uint64_t stage_bytes;
    uint32_t turn;
    uint64_t done_bytes, told_bytes, total_bytes;
};

static bool ask_device(struct loading *l, struct mtr_error *err)
{
    struct mtr_device_info info = {0};
    if (!l->ops->info(l->o->backend, &info, err))
        return false;
    l->host = strcmp(info.hardware, "host") == 0;
    l->free_bytes = info.memory_free_bytes;
    return true;
}

/* Small weights are many: they are reported together. */
static bool report(struct loading *l, uint64_t more, struct mtr_error *err)
{
    l->done_bytes += more;
    bool due = l->done_bytes - l->told_bytes >= CHUNK_BYTES || l->done_bytes == l->total_bytes;
    if (due)
        l->told_bytes = l->done_bytes;
    if (due && l->o->progress && !l->o->progress(l->o->context, l->done_bytes, l->total_bytes))
        return mtr_fail(err, MTR_BUSY, "loading was cancelled");
    return true;
}

/* Rows [row, row + count) of a weight, as its kernel format, into host memory. */
static bool produce(const struct loading *l, uint32_t index, uint64_t row, uint64_t count,
                    void *dst, struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    const struct mtr_place *p = &l->placement.places[index];
    if (p->src) {
        const uint8_t *src = (const uint8_t *)p->src + row * (p->src_bytes / w->rows);
        mtr_convert(w->format, src, w->kernel_format, dst, count * w->cols);
        return true;
    }
    if (mtr_dummy_fill(w->kernel_format, w->rows == 1, l->o->dummy_seed, index, row * w->cols,
                       count * w->cols, dst))
        return true;
    return mtr_fail(err, MTR_UNSUPPORTED, "weight %s: no random values in format %s", w->name,
                    mtr_format_info(w->kernel_format)->name);
}

/* The next buffer, once its last upload is over. */
static bool next_stage(struct loading *l, void **buffer, struct mtr_event **event,
                       struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    uint32_t i = l->turn++ % STAGES;
    if (l->turn > STAGES && !l->ops->event_wait(b, l->staged[i], err))
        return false;
    *buffer = l->stage[i];
    *event = l->staged[i];
    return true;
}

static bool put_rows(struct loading *l, uint32_t index, uint64_t row, uint64_t count, uint8_t *dst,
                     uint64_t bytes, struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    struct mtr_event *event;
    void *buffer;
    if (l->host)
        return produce(l, index, row, count, dst, err);
    return next_stage(l, &buffer, &event, err) && produce(l, index, row, count, buffer, err) &&
           l->ops->upload(b, NULL, dst, buffer, bytes, err) &&
           l->ops->event_record(b, event, NULL, err);
}

/* The whole weight, chunk after chunk, to dst in device memory. */
static bool put_weight(struct loading *l, uint32_t index, uint8_t *dst, struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    uint64_t row_bytes, step;
    mtr_format_row_bytes(w->kernel_format, w->cols, &row_bytes); /* held when it was placed */
    step = row_bytes >= CHUNK_BYTES ? 1 : CHUNK_BYTES / row_bytes;
    for (uint64_t row = 0; row < w->rows; row += step) {
        uint64_t count = w->rows - row < step ? w->rows - row : step;
        if (!put_rows(l, index, row, count, dst + row * row_bytes, count * row_bytes, err) ||
            !report(l, count * row_bytes, err))
            return false;
    }
    return true;
}

static bool repack(struct loading *l, uint32_t index, const void *src, void *dst,
                   struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    const struct mtr_place *p = &l->placement.places[index];
    struct mtr_repack_args args = {src, dst, (uint32_t)w->rows, (uint32_t)w->cols};
    const uint32_t grid[3] = {(uint32_t)((w->rows + p->repack_rows - 1) / p->repack_rows), 1, 1};
    const uint32_t block[3] = {REPACK_THREADS, 1, 1};
    if (w->rows > UINT32_MAX || w->cols > UINT32_MAX)
        return mtr_fail(err, MTR_TOO_LARGE, "has more rows or columns than a kernel can count");
    struct mtr_kernel *k = l->ops->kernel(l->o->backend, "repack", p->repack, err);
    return k && l->ops->launch(l->o->backend, NULL, k, grid, block, 0, &args, sizeof args, err) &&
           l->ops->stream_wait(l->o->backend, NULL, err);
}

static bool fill_copied(struct loading *l, uint32_t index, struct mtr_error *err)
{
    const struct mtr_place *p = &l->placement.places[index];
    uint8_t *dst = (uint8_t *)l->w->memory + p->offset;
    l->w->device[index] = dst;
    if (!p->repack)
        return put_weight(l, index, dst, err);
    if (p->readable)
        return repack(l, index, p->src, dst, err) && report(l, p->bytes, err);
    uint64_t before = l->done_bytes;
    return put_weight(l, index, l->scratch, err) && repack(l, index, l->scratch, dst, err) &&
           report(l, p->bytes - (l->done_bytes - before), err); /* the padding */
}

static bool fill(struct loading *l, struct mtr_error *err)
{
    for (uint32_t i = 0; i < l->o->plan->weight_count; i++) {
        const struct mtr_place *p = &l->placement.places[i];
        bool ok = true;
        if (p->kind == MTR_PLACE_COPIED)
            ok = fill_copied(l, i, err);
        else if (p->kind == MTR_PLACE_MAPPED)
            l->w->device[i] = (void *)p->src;
        else
            l->w->device[i] = l->w->device[p->shared];
        if (!ok)
            return mtr_error_prefix(err, "weight %s", l->o->plan->weights[i].name);
    }
    return l->host || l->ops->stream_wait(l->o->backend, NULL, err);
}

static uint64_t largest_chunk(const struct loading *l)
{
    uint64_t largest = CHUNK_BYTES, row_bytes;
    for (uint32_t i = 0; i < l->o->plan->weight_count; i++) {
        const struct mtr_plan_weight *w = &l->o->plan->weights[i];
        if (mtr_format_row_bytes(w->kernel_format, w->cols, &row_bytes) && row_bytes > largest)
            largest = row_bytes;
    }
    return largest;
}

static bool allocate(struct loading *l, struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    const struct mtr_placement *p = &l->placement;
    if (p->memory_bytes && !(l->w->memory = l->ops->alloc(b, p->memory_bytes, err)))
        return mtr_error_prefix(err, "weights (%" PRIu64 " bytes)", p->memory_bytes);
    if (p->scratch_bytes && !(l->scratch = l->ops->alloc(b, p->scratch_bytes, err)))
        return mtr_error_prefix(err, "scratch for weights (%" PRIu64 " bytes)", p->scratch_bytes);
    if (l->host || p->memory_bytes == 0)
        return true;
    l->stage_bytes = largest_chunk(l);
    for (int i = 0; i < STAGES; i++)
        if (!(l->stage[i] = l->ops->alloc_pinned(b, l->stage_bytes, err)) ||
            !(l->staged[i] = l->ops->event_create(b, err)))
            return mtr_error_prefix(err, "buffers for loading");
    return true;
}

static void release(struct loading *l)
{
    struct mtr_backend *b = l->o->backend;
    for (int i = STAGES - 1; i >= 0; i--) {
        if (l->staged[i])
            l->ops->event_destroy(b, l->staged[i]);
        if (l->stage[i])
            l->ops->free_pinned(b, l->stage[i]);
    }
    if (l->scratch)
        l->ops->free(b, l->scratch);
}

/* Mapped weights in the order in which a step reads them, then those that no launch reads. */
static void start_readahead(struct loading *l)
{
    const struct mtr_plan *plan = l->o->plan;
    struct mtr_stretch *stretches = calloc(plan->weight_count + 1u, sizeof *stretches);
    bool *listed = calloc(plan->weight_count + 1u, sizeof *listed);
    uint32_t count = 0;
    const struct mtr_launch_list *list = &plan->lists[MTR_MODE_MIXED];
    for (uint32_t k = 0; stretches && listed && k < list->count + plan->weight_count; k++) {
        bool launch = k < list->count;
        uint16_t rest = (uint16_t)(k - list->count);
        const uint16_t *weights = launch ? list->launches[k].weights : &rest;
        for (uint8_t s = 0; s < (launch ? list->launches[k].weight_count : 1); s++) {
            uint16_t i = weights[s];
            if (i == MTR_NONE || listed[i] || l->placement.places[i].kind != MTR_PLACE_MAPPED)
                continue;
            listed[i] = true;
            stretches[count++] =
                (struct mtr_stretch){l->placement.places[i].src, l->placement.places[i].bytes,
                                     l->placement.places[i].file};
        }
    }
    if (count)
        l->w->readahead = mtr_readahead_start(
            stretches, count, l->placement.mapped_bytes <= l->free_bytes / HUGE_SHARE);
    free(listed);
    free(stretches);
}

static bool load(struct loading *l, struct mtr_error *err)
{
    struct mtr_weights *w = l->w;
    const struct mtr_plan *plan = l->o->plan;
    const struct mtr_checkpoint *ck = l->o->dummy ? NULL : l->o->checkpoint;
    if ((ck && !mtr_preflight(plan, ck, NULL, err)) || !ask_device(l, err) ||
        !mtr_place_weights(&w->arena, plan, ck, l->host, &l->placement, err))
        return false;
    w->mapped_bytes = l->placement.mapped_bytes;
    w->copied_bytes = l->placement.copied_bytes;
    w->total_bytes = w->mapped_bytes + w->copied_bytes;
    l->total_bytes = w->copied_bytes;
    w->device = mtr_arena_calloc(&w->arena, plan->weight_count + 1u, sizeof *w->device);
    if (!w->device)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " weights",
                        plan->weight_count);
    start_readahead(l);
    return allocate(l, err) && fill(l, err);
}

bool mtr_weights_load(struct mtr_weights *w, const struct mtr_weights_options *options,
                      struct mtr_error *err)
{
    struct loading l = {.w = w, .o = options, .ops = options->backend->ops};
    *w = (struct mtr_weights){.backend = options->backend};
    mtr_arena_init(&w->arena, 0);
    if (!options->dummy && (!options->checkpoint || options->checkpoint->tensor_count == 0))
        return mtr_fail(err, MTR_INVALID, "%s has no tensors to load",
                        options->checkpoint ? options->checkpoint->path : "the checkpoint");
    bool ok = load(&l, err);
    release(&l);
    if (!ok)
        mtr_weights_free(w);
    return ok;
}

void mtr_weights_free(struct mtr_weights *w)
{
    if (!w->backend)
        return;
    mtr_readahead_stop(w->readahead);
    if (w->memory)
        w->backend->ops->free(w->backend, w->memory);
    mtr_arena_free(&w->arena);
    *w = (struct mtr_weights){0};
}

bool mtr_weights_bytes(const struct mtr_plan *plan, const struct mtr_checkpoint *ck, bool in_place,
                       uint64_t *mapped, uint64_t *copied, struct mtr_error *err)
{
    struct mtr_arena arena;
    struct mtr_placement placement;
    mtr_arena_init(&arena, 0);
    bool ok = mtr_place_weights(&arena, plan, ck, in_place, &placement, err);
    mtr_arena_free(&arena);
    if (ok) {
        *mapped = placement.mapped_bytes;
        *copied = placement.memory_bytes;
    }
    return ok;
}

uint64_t mtr_weights_resident(const struct mtr_weights *w)
{
    return w->readahead ? mtr_readahead_done(w->readahead) : w->mapped_bytes;
}
