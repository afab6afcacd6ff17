/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Layout of the block: the struct, then the arrays in the order of the table below, each on a
 * 64-byte boundary and as long as the pass needs it: a step that decodes uploads a kilobyte or two.
 */
#include "worker/exec/view.h"

#include <string.h>

_Static_assert(MTR_ARGS_GROUPS == MTR_MAX_GROUPS && MTR_PLAN_GROUPS == MTR_MAX_GROUPS,
               "kernels, plans and steps count cache groups alike");

enum array {
    OUTPUT_ROWS, /* first: its place must not depend on the others' lengths */
    TOKEN_IDS,
    POSITIONS,
    TOKEN_LANES,
    LANE_SLOTS,
    LANE_ROWS,
    LANE_STARTS,
    SAMPLE_ROWS, /* of structs; absent where none is given */
    ARRAY_COUNT
};

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* Offsets of the arrays; the one behind the last is the size of all. */
static void lay_out(uint32_t tokens, uint32_t lanes, uint32_t outputs, uint32_t samples,
                    size_t offsets[ARRAY_COUNT + 1])
{
    const uint32_t words = sizeof(struct mtr_sample_row) / sizeof(int32_t);
    const uint32_t lengths[ARRAY_COUNT] = {
        [OUTPUT_ROWS] = outputs, [TOKEN_IDS] = tokens,
        [POSITIONS] = tokens,    [TOKEN_LANES] = tokens,
        [LANE_SLOTS] = lanes,    [LANE_ROWS] = lanes + 1,
        [LANE_STARTS] = lanes,   [SAMPLE_ROWS] = samples * words,
    };
    offsets[0] = align64(sizeof(struct mtr_step_view));
    for (uint32_t a = 0; a < ARRAY_COUNT; a++)
        offsets[a + 1] = offsets[a] + align64(lengths[a] * sizeof(int32_t));
}

size_t mtr_view_bytes(const struct mtr_plan_limits *l)
{
    size_t offsets[ARRAY_COUNT + 1];
    lay_out(l->max_step_tokens, l->max_lanes, l->max_step_outputs, l->max_step_outputs, offsets);
    return offsets[ARRAY_COUNT];
}

bool mtr_view_init(struct mtr_view *v, struct mtr_backend *backend,
                   const struct mtr_plan_limits *limits, struct mtr_error *err)
{
    v->bytes = mtr_view_bytes(limits);
    v->host = backend->ops->alloc_pinned(backend, v->bytes, err);
    v->device = backend->ops->alloc(backend, v->bytes, err);
    if (!v->host || !v->device)
        return mtr_error_prefix(err, "step view of %zu bytes", v->bytes);
    memset(v->host, 0, v->bytes);
    return true;
}

void mtr_view_free(struct mtr_view *v, struct mtr_backend *backend)
{
    if (v->device)
        backend->ops->free(backend, v->device);
    if (v->host)
        backend->ops->free_pinned(backend, v->host);
    *v = (struct mtr_view){0};
}

/* The token at a position: its id, or where the device finds it. */
static int32_t token_at(const struct mtr_slot *slot, uint32_t number, uint32_t position)
{
    if (slot->pending && position >= slot->length - slot->pending)
        return -1 - (int32_t)number;
    return (int32_t)slot->tokens[position];
}

static void fill_segment(int32_t *const arrays[ARRAY_COUNT], const struct mtr_segment *s,
                         const struct mtr_lane *lane, const struct mtr_slot *slot, uint32_t index,
                         uint32_t row, uint32_t output)
{
    uint32_t start = lane->start + s->first;
    for (uint32_t i = 0; i < s->count; i++) {
        arrays[TOKEN_IDS][row + i] = token_at(slot, lane->slot, start + i);
        arrays[POSITIONS][row + i] = (int32_t)(start + i);
        arrays[TOKEN_LANES][row + i] = (int32_t)index;
    }
    arrays[LANE_SLOTS][index] = (int32_t)lane->slot;
    arrays[LANE_ROWS][index] = (int32_t)row;
    arrays[LANE_STARTS][index] = (int32_t)start;
    for (uint32_t i = 0; i < s->outputs; i++)
        arrays[OUTPUT_ROWS][output + i] = (int32_t)(row + s->count - s->outputs + i);
}

/* The arrays of int32_t; the last is another kind. */
static void point_to_device(struct mtr_step_view *view, const uint8_t *device,
                            const size_t offsets[ARRAY_COUNT + 1], const struct mtr_slots *slots)
{
    const int32_t **fields[SAMPLE_ROWS] = {
        [TOKEN_IDS] = &view->token_ids,     [POSITIONS] = &view->positions,
        [TOKEN_LANES] = &view->token_lanes, [LANE_SLOTS] = &view->lane_slots,
        [LANE_ROWS] = &view->lane_rows,     [LANE_STARTS] = &view->lane_starts,
        [OUTPUT_ROWS] = &view->output_rows,
    };
    for (uint32_t a = 0; a < SAMPLE_ROWS; a++)
        *fields[a] = (const int32_t *)(device + offsets[a]);
    view->last_tokens = slots->last_tokens;
    for (uint32_t g = 0; g < slots->group_count; g++) {
        view->tables[g] = slots->device[g];
        view->table_stride[g] = slots->stride[g];
    }
}

bool mtr_view_fill(struct mtr_view *v, struct mtr_backend *backend, struct mtr_stream *stream,
                   const struct mtr_step_plan *plan, const struct mtr_pass *pass,
                   const struct mtr_sample_row *samples, const struct mtr_slots *slots,
                   struct mtr_error *err)
{
    size_t offsets[ARRAY_COUNT + 1];
    int32_t *arrays[ARRAY_COUNT];
    lay_out(pass->tokens, pass->segment_count, pass->outputs, samples ? pass->outputs : 0, offsets);
    for (uint32_t a = 0; a < ARRAY_COUNT; a++)
        arrays[a] = (int32_t *)(v->host + offsets[a]);
    uint32_t row = 0, output = 0, longest = 0;
    for (uint32_t i = 0; i < pass->segment_count; i++) {
        const struct mtr_segment *s = &pass->segments[i];
        const struct mtr_lane *lane = &plan->lanes[s->lane];
        fill_segment(arrays, s, lane, &slots->slots[lane->slot], i, row, output);
        uint32_t end = lane->start + s->first + s->count;
        longest = end > longest ? end : longest;
        row += s->count;
        output += s->outputs;
    }
    arrays[LANE_ROWS][pass->segment_count] = (int32_t)row;
    struct mtr_step_view *view = (struct mtr_step_view *)v->host;
    view->tokens = row;
    view->lanes = pass->segment_count;
    view->outputs = output;
    view->pairs = row * v->top_k;
    view->max_context = longest;
    point_to_device(view, v->device, offsets, slots);
    view->sampling =
        samples ? (const struct mtr_sample_row *)(v->device + offsets[SAMPLE_ROWS]) : NULL;
    if (samples)
        memcpy(v->host + offsets[SAMPLE_ROWS], samples, output * sizeof *samples);
    return backend->ops->upload(backend, stream, v->device, v->host, offsets[ARRAY_COUNT], err);
}

const struct mtr_step_view *mtr_view_device(const struct mtr_view *v)
{
    return (const struct mtr_step_view *)v->device;
}

const int32_t *mtr_view_device_outputs(const struct mtr_view *v)
{
    return ((const struct mtr_step_view *)v->host)->output_rows;
}
