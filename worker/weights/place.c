/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A weight may stay in the file when nothing has to be done to it: same format, no layout of its
 * own, and an address that its elements can be read at.
 */
#include "worker/weights/place.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/circuit/families.h"
#include "worker/weights/convert.h"

#define SCALE_GROUP 16 /* columns */

/* What kernels may assume of an address: plain elements stand at a multiple of their size, blocks
 * (which begin with 16-bit scales) at a multiple of two. */
static bool aligned_for(enum mtr_format format, const void *p)
{
    const struct mtr_format_info *info = mtr_format_info(format);
    uint32_t alignment = info->block_elements == 1 ? info->block_bytes : 2;
    return (uintptr_t)p % alignment == 0;
}

static bool same_layout(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* All who read a weight must agree: it has one address. */
static bool note_layout(const struct mtr_plan *plan, uint16_t w, const char *repack, uint32_t rows,
                        uint32_t cols, bool *seen, struct mtr_place *places, struct mtr_error *err)
{
    if (seen[w] && !same_layout(repack, places[w].repack))
        return mtr_fail(err, MTR_INTERNAL,
                        "weight %s is read by points that want it in different layouts",
                        plan->weights[w].name);
    seen[w] = true;
    places[w].repack = repack;
    places[w].repack_rows = rows ? rows : 1;
    places[w].repack_cols = cols;
    return true;
}

/* Notes the layouts that one launch wants its matrices, and their scales by group, in. */
static bool note_launch(const struct mtr_plan *plan, const struct mtr_launch *launch, bool *seen,
                        struct mtr_place *places, struct mtr_error *err)
{
    const struct mtr_point *point = launch->point;
    for (uint8_t s = 0; s < launch->weight_count; s++) {
        uint16_t w = launch->weights[s];
        bool bias = point->repack && s % 2; /* of a linear's slots; a matrix may have one row */
        if (w == MTR_NONE || bias || (!point->repack && plan->weights[w].rows <= 1))
            continue;
        uint16_t scale = plan->weights[w].scale;
        if (!note_layout(plan, w, point->repack, point->repack_rows, point->repack_cols, seen,
                         places, err) ||
            (point->repack_scales && scale != MTR_NONE &&
             !note_layout(plan, scale, point->repack_scales, point->repack_rows,
                          point->repack_cols / SCALE_GROUP, seen, places, err)))
            return false;
    }
    return true;
}

static bool find_layouts(const struct mtr_plan *plan, struct mtr_place *places,
                         struct mtr_error *err)
{
    bool ok = true;
    bool *seen = calloc(plan->weight_count + 1u, sizeof *seen);
    if (!seen)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " weights",
                        plan->weight_count);
    for (int mode = 0; mode < MTR_MODE_COUNT; mode++)
        for (uint32_t l = 0; ok && l < plan->lists[mode].count; l++)
            ok = note_launch(plan, &plan->lists[mode].launches[l], seen, places, err);
    free(seen);
    return ok;
}

/* An earlier weight with the same content in the same layout, or MTR_NONE. */
static uint32_t find_shared(const struct mtr_plan *plan, const struct mtr_place *places, uint32_t i)
{
    const struct mtr_plan_weight *w = &plan->weights[i];
    for (uint32_t k = 0; w->tied && k < i; k++) {
        const struct mtr_plan_weight *v = &plan->weights[k];
        if (places[k].kind != MTR_PLACE_SHARED && same_layout(places[k].repack, places[i].repack) &&
            strcmp(v->name, w->name) == 0 && v->kernel_format == w->kernel_format &&
            v->first_row == w->first_row && v->rows == w->rows)
            return k;
    }
    return MTR_NONE;
}

/* One tensor of the weight: `bytes` of it, behind those of first_row. */
static bool find_part(const struct mtr_plan_weight *w, uint32_t expert, uint64_t from,
                      uint64_t bytes, const struct mtr_checkpoint *ck, struct mtr_place_part *out,
                      struct mtr_error *err)
{
    char room[MTR_WEIGHT_NAME_BYTES];
    struct mtr_str name = mtr_weight_tensor(w, expert, room);
    const struct mtr_tensor *t = mtr_checkpoint_find(ck, name);
    if (!t)
        return mtr_fail(err, MTR_NOT_FOUND, "tensor %.*s is missing", MTR_STR_ARG(name));
    if (from > t->bytes || bytes > t->bytes - from)
        return mtr_fail(err, MTR_INVALID, "weight %.*s has fewer rows than the plan binds",
                        MTR_STR_ARG(name));
    out->file = t->file;
    out->src = (const uint8_t *)mtr_checkpoint_data(ck, t) + from;
    return true;
}

static bool find_source(struct mtr_arena *arena, const struct mtr_plan_weight *w,
                        const struct mtr_checkpoint *ck, struct mtr_place *p, struct mtr_error *err)
{
    uint64_t row_bytes;
    uint32_t count = mtr_weight_tensors(w);
    struct mtr_place_part *parts = mtr_arena_calloc(arena, count, sizeof *parts);
    if (!mtr_format_row_bytes(w->format, w->cols, &row_bytes))
        return mtr_fail(err, MTR_INVALID,
                        "weight %s: a row of %" PRIu64 " is no multiple of a block", w->name,
                        w->cols);
    if (!parts)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " tensors", count);
    uint64_t from = (uint64_t)w->first_row * row_bytes;
    p->src_bytes = w->rows * row_bytes;
    for (uint32_t e = 0; e < count; e++)
        if (!find_part(w, e, from, p->src_bytes / count, ck, &parts[e], err))
            return false;
    p->file = parts->file;
    p->src = parts->src;
    p->parts = w->apart ? parts : NULL;
    return true;
}

/* Decides where weight i stands, when it is no earlier weight's twin. */
static void choose_place(const struct mtr_plan_weight *w, bool readable, uint64_t row_bytes,
                         struct mtr_place *p, struct mtr_placement *out)
{
    const uint64_t mask = MTR_WEIGHT_ALIGNMENT - 1;
    if (readable && !p->repack) {
        p->kind = MTR_PLACE_MAPPED;
        out->mapped_bytes += p->bytes;
        return;
    }
    p->kind = MTR_PLACE_COPIED;
    p->offset = out->memory_bytes;
    out->copied_bytes += p->bytes;
    out->memory_bytes += (p->bytes + mask) & ~mask;
    if (p->repack && !readable && w->rows * row_bytes > out->scratch_bytes)
        out->scratch_bytes = w->rows * row_bytes;
}

static bool place_one(struct mtr_arena *arena, const struct mtr_plan *plan,
                      const struct mtr_checkpoint *ck, bool in_place, uint32_t i,
                      struct mtr_placement *out, struct mtr_error *err)
{
    const struct mtr_plan_weight *w = &plan->weights[i];
    struct mtr_place *p = &out->places[i];
    uint64_t row_bytes, padded;
    if (!mtr_convertible(w->format, w->kernel_format))
        return mtr_fail(err, MTR_UNSUPPORTED, "weight %s: no conversion from %s to %s", w->name,
                        mtr_format_info(w->format)->name, mtr_format_info(w->kernel_format)->name);
    if (!mtr_format_row_bytes(w->kernel_format, w->cols, &row_bytes))
        return mtr_fail(err, MTR_INVALID,
                        "weight %s: a row of %" PRIu64 " is no multiple of a block", w->name,
                        w->cols);
    if (ck && !find_source(arena, w, ck, p, err))
        return false;
    p->bytes = w->rows * row_bytes;
    if (p->repack) {
        if (!mtr_format_row_bytes(w->kernel_format, mtr_padded(w->cols, p->repack_cols), &padded))
            return mtr_fail(err, MTR_INTERNAL, "weight %s: no columns to pad to", w->name);
        p->bytes = mtr_padded(w->rows, p->repack_rows) * padded;
    }
    p->shared = find_shared(plan, out->places, i);
    p->readable = in_place && p->src && !p->parts && w->format == w->kernel_format &&
                  !w->inverted && aligned_for(w->format, p->src);
    if (p->shared != MTR_NONE)
        p->kind = MTR_PLACE_SHARED;
    else
        choose_place(w, p->readable, row_bytes, p, out);
    return true;
}

bool mtr_place_weights(struct mtr_arena *arena, const struct mtr_plan *plan,
                       const struct mtr_checkpoint *ck, bool in_place, struct mtr_placement *out,
                       struct mtr_error *err)
{
    *out = (struct mtr_placement){0};
    out->places = mtr_arena_calloc(arena, plan->weight_count + 1u, sizeof *out->places);
    if (!out->places)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %" PRIu32 " weights",
                        plan->weight_count);
    if (!find_layouts(plan, out->places, err))
        return false;
    for (uint32_t i = 0; i < plan->weight_count; i++)
        if (!place_one(arena, plan, ck, in_place, i, out, err))
            return false;
    return true;
}
