/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loading: decide all places, allocate once, then fill weight after weight.
 *
 * Where the host can write device memory a weight is produced right where it will stand. Elsewhere
 * readers (reader.h) bring pieces into pinned buffers, and their uploads follow one another on a
 * stream of its own, some of them on their way at any time. A weight with a layout of its own goes
 * through the class's repack kernel: from the file where a kernel can read that, otherwise from
 * scratch memory that is filled in the same way; what overwrites the scratch memory comes behind
 * the kernel on the stream. Dummies are made by a kernel where they will stand.
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
#include "worker/weights/reader.h"

#define CHUNK_BYTES    ((uint64_t)8 << 20) /* produced at a time, about */
#define STAGES         12                  /* pinned buffers of that size */
#define UPLOADS        4                   /* of them, on their way */
#define READERS        8                   /* threads */
#define HUGE_SHARE     2   /* mapped weights get huge pages when they take no more of free memory */
#define REPACK_THREADS 256 /* of a block, on classes that have such */

struct loading {
    struct mtr_weights *w;
    const struct mtr_weights_options *o;
    const struct mtr_backend_ops *ops;
    struct mtr_placement placement;
    bool direct;         /* device addresses are the host's */
    uint64_t free_bytes; /* of the device, before */
    void *scratch;
    struct mtr_stream *stream; /* NULL where direct */
    struct mtr_reader *reader; /* of `pieces`, the chunks in the order of fill() */
    struct mtr_read_piece *pieces;
    uint32_t piece_count;
    void *stage[STAGES];
    struct mtr_event *staged[STAGES]; /* recorded behind the upload of that buffer */
    uint32_t stages, taken, given;
    uint64_t done_bytes, told_bytes, total_bytes;
};

static bool ask_device(struct loading *l, struct mtr_error *err)
{
    struct mtr_device_info info = {0};
    if (!l->ops->info(l->o->backend, &info, err))
        return false;
    l->direct = info.direct;
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

/* ---- a chunk ---- */

/* Rows at a time, of the file and of the kernel's format. */
static uint64_t rows_at_once(const struct mtr_plan_weight *w)
{
    uint64_t from = 0, to = 0;
    mtr_format_row_bytes(w->format, w->cols, &from);
    mtr_format_row_bytes(w->kernel_format, w->cols, &to); /* held when it was placed */
    uint64_t row = from > to ? from : to;
    return row >= CHUNK_BYTES ? 1 : CHUNK_BYTES / row;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Where row `row` of a weight stands in the checkpoint, and how many more of its rows behind. */
struct source {
    const uint8_t *src;
    uint32_t file;
    uint64_t rows;
};

static struct source source_of(const struct mtr_plan_weight *w, const struct mtr_place *p,
                               uint64_t row)
{
    uint64_t row_bytes = p->src_bytes / w->rows, each = w->rows / (p->parts ? w->stack : 1);
    const struct mtr_place_part whole = {p->src, p->file};
    const struct mtr_place_part *part = p->parts ? &p->parts[row / each] : &whole;
    return (struct source){(const uint8_t *)part->src + row % each * row_bytes, part->file,
                           each - row % each};
}

/* The rows from `row` on that are one piece: of one tensor, and no more than fit a chunk. */
static uint64_t piece_rows(const struct mtr_plan_weight *w, const struct mtr_place *p, uint64_t row)
{
    uint64_t rest = p->src ? source_of(w, p, row).rows : w->rows - row;
    return least(rest, rows_at_once(w));
}

static bool make_dummy(const struct loading *l, uint32_t index, uint64_t row, uint64_t count,
                       void *dst, struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    const uint32_t block[3] = {MTR_DUMMY_THREADS, 1, 1};
    struct mtr_backend *b = l->o->backend;
    struct mtr_dummy_launch d;
    enum mtr_dummy_kind kind = w->role != MTR_WEIGHT_VALUES ? MTR_DUMMY_SCALES
                               : w->rows == 1               ? MTR_DUMMY_VECTOR
                                                            : MTR_DUMMY_MATRIX;
    if (!mtr_dummy_launch(w->kernel_format, kind, l->o->dummy_seed, index, row * w->cols,
                          count * w->cols, dst, &d))
        return mtr_fail(err, MTR_UNSUPPORTED, "no random values in format %s",
                        mtr_format_info(w->kernel_format)->name);
    const uint32_t grid[3] = {d.grid, 1, 1};
    struct mtr_kernel *k = l->ops->kernel(b, "dummy", d.function, err);
    return k && l->ops->launch(b, l->stream, k, grid, block, 0, &d.args, sizeof d.args, err);
}

static void convert_rows(const struct loading *l, uint32_t index, uint64_t row, uint64_t count,
                         void *dst)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    const struct mtr_place *p = &l->placement.places[index];
    const uint8_t *src = source_of(w, p, row).src;
    mtr_convert(w->format, src, w->kernel_format, dst, count * w->cols);
    if (w->inverted)
        mtr_invert(dst, count * w->cols);
}

/* The readers' next piece goes up; the oldest buffer goes back when its upload is over. */
static bool upload_piece(struct loading *l, void *dst, uint64_t bytes, struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    const void *data;
    if (!mtr_reader_take(l->reader, &data, err) ||
        !l->ops->upload(b, l->stream, dst, data, bytes, err) ||
        !l->ops->event_record(b, l->staged[l->taken % l->stages], l->stream, err))
        return false;
    if (++l->taken - l->given < least(UPLOADS, l->stages))
        return true;
    if (!l->ops->event_wait(b, l->staged[l->given % l->stages], err))
        return false;
    mtr_reader_give(l->reader);
    l->given++;
    return true;
}

static bool put_rows(struct loading *l, uint32_t index, uint64_t row, uint64_t count, uint8_t *dst,
                     uint64_t bytes, struct mtr_error *err)
{
    if (!l->placement.places[index].src)
        return make_dummy(l, index, row, count, dst, err);
    if (!l->direct)
        return upload_piece(l, dst, bytes, err);
    convert_rows(l, index, row, count, dst);
    return true;
}

/* ---- a weight ---- */

/* The whole weight, chunk after chunk, to dst in device memory. */
static bool put_weight(struct loading *l, uint32_t index, uint8_t *dst, struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[index];
    uint64_t row_bytes, count;
    mtr_format_row_bytes(w->kernel_format, w->cols, &row_bytes);
    for (uint64_t row = 0; row < w->rows; row += count) {
        count = piece_rows(w, &l->placement.places[index], row);
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
    return k &&
           l->ops->launch(l->o->backend, l->stream, k, grid, block, 0, &args, sizeof args, err);
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
    return l->ops->stream_wait(l->o->backend, l->stream, err);
}

/* ---- the whole ---- */

/* The chunks that put_weight() will ask for, in its order; only counted where pieces is NULL. */
static uint32_t list_pieces(const struct loading *l, struct mtr_read_piece *pieces)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->o->plan->weight_count; i++) {
        const struct mtr_plan_weight *w = &l->o->plan->weights[i];
        const struct mtr_place *p = &l->placement.places[i];
        if (p->kind != MTR_PLACE_COPIED || !p->src)
            continue;
        uint64_t row_bytes, count, src_row = p->src_bytes / w->rows;
        mtr_format_row_bytes(w->kernel_format, w->cols, &row_bytes);
        for (uint64_t row = 0; row < w->rows; row += count, n++) {
            struct source from = source_of(w, p, row);
            const uint8_t *base = l->o->checkpoint->files[from.file].map.data;
            count = piece_rows(w, p, row);
            if (pieces)
                pieces[n] = (struct mtr_read_piece){.file = from.file,
                                                    .offset = (uint64_t)(from.src - base),
                                                    .bytes = count * src_row,
                                                    .from = w->format,
                                                    .to = w->kernel_format,
                                                    .elements = count * w->cols,
                                                    .out_bytes = count * row_bytes,
                                                    .inverted = w->inverted};
        }
    }
    return n;
}

static bool make_stages(struct loading *l, struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    uint64_t room = 0;
    for (uint32_t i = 0; i < l->piece_count; i++)
        room = mtr_reader_room(&l->pieces[i]) > room ? mtr_reader_room(&l->pieces[i]) : room;
    l->stages = (uint32_t)least(STAGES, l->piece_count);
    for (uint32_t i = 0; i < l->stages; i++)
        if (!(l->stage[i] = l->ops->alloc_pinned(b, room, err)) ||
            !(l->staged[i] = l->ops->event_create(b, err)))
            return mtr_error_prefix(err, "buffers for loading");
    return true;
}

static bool start_reader(struct loading *l, struct mtr_error *err)
{
    l->piece_count = list_pieces(l, NULL);
    if (l->piece_count == 0)
        return true;
    l->pieces = calloc(l->piece_count, sizeof *l->pieces);
    if (!l->pieces)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " pieces", l->piece_count);
    list_pieces(l, l->pieces);
    if (!make_stages(l, err))
        return false;
    l->reader = mtr_reader_start(&(struct mtr_reader_options){.files = l->o->checkpoint->files,
                                                              .pieces = l->pieces,
                                                              .count = l->piece_count,
                                                              .buffers = l->stage,
                                                              .buffer_count = l->stages,
                                                              .threads = READERS},
                                 err);
    return l->reader != NULL;
}

static bool allocate(struct loading *l, struct mtr_error *err)
{
    struct mtr_backend *b = l->o->backend;
    const struct mtr_placement *p = &l->placement;
    if (p->memory_bytes && !(l->w->memory = l->ops->alloc(b, p->memory_bytes, err)))
        return mtr_error_prefix(err, "weights (%" PRIu64 " bytes)", p->memory_bytes);
    if (p->scratch_bytes && !(l->scratch = l->ops->alloc(b, p->scratch_bytes, err)))
        return mtr_error_prefix(err, "scratch for weights (%" PRIu64 " bytes)", p->scratch_bytes);
    if (l->direct)
        return true;
    l->stream = l->ops->stream_create(b, err);
    return l->stream && start_reader(l, err);
}

/* Nothing is freed that a thread or the device still uses. */
static void release(struct loading *l)
{
    struct mtr_backend *b = l->o->backend;
    mtr_reader_stop(l->reader);
    free(l->pieces);
    if (l->stream) {
        l->ops->stream_wait(b, l->stream, NULL);
        l->ops->stream_destroy(b, l->stream);
    }
    for (int i = STAGES - 1; i >= 0; i--) {
        if (l->staged[i])
            l->ops->event_destroy(b, l->staged[i]);
        if (l->stage[i])
            l->ops->free_pinned(b, l->stage[i]);
    }
    if (l->scratch)
        l->ops->free(b, l->scratch);
}

/* Weight i and its scales, of those that are mapped and not listed yet; how many there are now. */
static uint32_t list_mapped(const struct loading *l, uint16_t i, bool *listed,
                            struct mtr_stretch *stretches, uint32_t count)
{
    const struct mtr_plan_weight *w = &l->o->plan->weights[i];
    const uint16_t all[] = {i, w->scale, w->global_scale};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        const struct mtr_place *p = all[k] == MTR_NONE ? NULL : &l->placement.places[all[k]];
        if (!p || listed[all[k]] || p->kind != MTR_PLACE_MAPPED)
            continue;
        listed[all[k]] = true;
        stretches[count++] = (struct mtr_stretch){p->src, p->bytes, p->file};
    }
    return count;
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
        for (uint8_t s = 0; s < (launch ? list->launches[k].weight_count : 1); s++)
            if (weights[s] != MTR_NONE)
                count = list_mapped(l, weights[s], listed, stretches, count);
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
        !mtr_place_weights(&w->arena, plan, ck, l->direct, &l->placement, err))
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
