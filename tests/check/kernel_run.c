/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Running the case of a rig: the step's view, contents, the launch, and what it left. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/numeric/numeric.h"
#include "kernels/args/sample.h"
#include "tests/check/kernel_rig.h"

#define LAST_TOKENS 8 /* slots that a token can come from */
#define WORDS       (sizeof(struct mtr_sample_row) / sizeof(int32_t))

/* ---- the step ---- */

/* A view and its arrays in one block; host holds the arrays, the view points to the device. */
struct view_block {
    uint8_t *bytes;
    size_t used, room;
    uint8_t *device;
};

/* Room for `count` numbers; where they are written, and in *device where kernels find them. */
static int32_t *take(struct view_block *b, size_t count, const int32_t **device)
{
    int32_t *p = (int32_t *)(void *)(b->bytes + b->used);
    *device = (const int32_t *)(const void *)(b->device + b->used);
    b->used += (count * sizeof *p + 63) / 64 * 64;
    return p;
}

static size_t view_room(const struct rig *r)
{
    size_t rows = r->rows + RIG_SPARE + 1;
    size_t table = (size_t)r->sequence_count * r->table_stride;
    return sizeof(struct mtr_step_view) +
           ((8 + WORDS) * rows + table + LAST_TOKENS) * sizeof(int32_t) + 16 * 64;
}

/* Whether a new lane begins with row i of a sequence. */
static bool begins_lane(enum rig_lanes lanes, uint32_t i, uint32_t count)
{
    return i == 0 || lanes == RIG_SINGLE || (lanes == RIG_HALVES && i == count / 2);
}

/* Each way to draw a token in turn, and every third row the largest. */
static struct mtr_sample_row sample_row(uint32_t output)
{
    static const struct mtr_sample_row ways[] = {
        {.inverse = 1, .top_p = 1, .least = -INFINITY},
        {.inverse = 1 / 0.7f, .top_p = 0.9f, .least = -INFINITY},
        {.inverse = 0, .top_p = 1, .least = -INFINITY},
        {.inverse = 0.5f, .top_p = 0.95f, .top_k = 40, .least = -INFINITY},
        {.inverse = 0.1f, .top_p = 1, .least = -3},
        {.inverse = 0.01f, .top_p = 0.999f, .top_k = 5000, .least = -INFINITY},
        {.inverse = 1e-3f, .top_p = 1, .least = -INFINITY},
    };
    struct mtr_sample_row row = ways[output % (sizeof ways / sizeof *ways)];
    row.fraction = output * 2654435761u >> 8;
    return row;
}

static void fill_rows(const struct rig *r, const struct rig_variant *v, struct view_block *b,
                      struct mtr_step_view *view)
{
    uint32_t rows = v->rows ? v->rows : r->rows, row = 0, lane = 0, output = 0;
    int32_t *ids = take(b, rows, &view->token_ids), *positions = take(b, rows, &view->positions);
    int32_t *lanes = take(b, rows, &view->token_lanes), *slots = take(b, rows, &view->lane_slots);
    int32_t *firsts = take(b, rows + 1, &view->lane_rows);
    int32_t *starts = take(b, rows, &view->lane_starts);
    int32_t *outputs = take(b, rows, &view->output_rows);
    int32_t *last = take(b, LAST_TOKENS, &view->last_tokens);
    const int32_t *sampling;
    int32_t *ways = take(b, rows * WORDS, &sampling);
    view->sampling = (const struct mtr_sample_row *)(const void *)sampling;
    for (uint32_t i = 0; i < rows; i++)
        memcpy(ways + i * WORDS, &(struct mtr_sample_row[]){sample_row(i)}, WORDS * sizeof *ways);
    for (uint32_t i = 0; i < LAST_TOKENS; i++)
        last[i] = (int32_t)(r->vocab ? i * 2654435761u % r->vocab : 0);
    for (uint32_t s = 0; s < r->sequence_count; s++)
        for (uint32_t i = 0; i < r->sequences[s].count && row < rows; i++, row++) {
            if (begins_lane(v->lanes, i, r->sequences[s].count)) {
                slots[lane] = (int32_t)s;
                firsts[lane] = (int32_t)row;
                starts[lane++] = (int32_t)(r->sequences[s].start + i);
            }
            ids[row] = row % 5 == 3 ? -1 - (int32_t)(row % LAST_TOKENS)
                                    : (int32_t)(r->vocab ? row * 40503u % r->vocab : 0);
            positions[row] = (int32_t)(r->sequences[s].start + i);
            lanes[row] = (int32_t)lane - 1;
            if (r->bulk || row % 2 == 0 || i + 1 == r->sequences[s].count)
                outputs[output++] = (int32_t)row;
            uint32_t end = r->sequences[s].start + i + 1;
            view->max_context = end > view->max_context ? end : view->max_context;
        }
    firsts[lane] = (int32_t)row;
    view->tokens = row;
    view->lanes = lane;
    view->outputs = output;
}

static void fill_view(struct rig *r, enum rig_side_name side, const struct rig_variant *v,
                      struct mtr_step_view *out)
{
    struct rig_side *s = &r->sides[side];
    size_t room = view_room(r);
    if (!s->view)
        s->view = rig_memory(r, side, NULL, room);
    struct view_block b = {calloc(1, room), (sizeof *out + 63) / 64 * 64, room, s->view};
    if (r->err.code || !b.bytes) {
        free(b.bytes);
        return;
    }
    struct mtr_step_view *view = (struct mtr_step_view *)(void *)b.bytes;
    fill_rows(r, v, &b, view);
    if (r->table) {
        size_t count = (size_t)r->sequence_count * r->table_stride;
        memcpy(take(&b, count, &view->tables[0]), r->table, count * sizeof *r->table);
        view->table_stride[0] = r->table_stride;
    }
    *out = *view;
    s->backend->ops->upload(s->backend, NULL, s->view, b.bytes, room, &r->err);
    s->backend->ops->stream_wait(s->backend, NULL, &r->err);
    free(b.bytes);
}

/* ---- contents ---- */

static size_t size_of(enum mtr_format f)
{
    return mtr_format_info(f)->block_bytes;
}

static void put(struct rig *r, enum rig_side_name side, void *at, enum mtr_format f,
                const float *values, size_t count)
{
    struct mtr_backend *b = r->sides[side].backend;
    uint8_t *bytes = malloc(count * size_of(f) + 1);
    if (!bytes) {
        mtr_fail(&r->err, MTR_NO_MEMORY, "no memory for a case");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint16_t h = mtr_bf16_from_f32(values[i]);
        memcpy(bytes + i * size_of(f), f == MTR_F32 ? (const void *)&values[i] : &h, size_of(f));
    }
    b->ops->upload(b, NULL, at, bytes, count * size_of(f), &r->err);
    b->ops->stream_wait(b, NULL, &r->err);
    free(bytes);
}

static void put_contents(struct rig *r, enum rig_side_name side)
{
    struct rig_side *s = &r->sides[side];
    for (uint32_t i = 0; i < s->plan.buffer_count && !r->err.code && !r->bulk; i++)
        put(r, side, s->buffer_at[i], s->buffers[i].format, r->buffers[i].values,
            (size_t)(rig_rows(r, s->buffers[i].rows) + RIG_SPARE) * s->buffers[i].cols);
    for (int kv = 0; kv < 2 && s->plan.cache_count && !r->err.code && !r->bulk; kv++)
        put(r, side, kv ? s->cache.v : s->cache.k, r->group.format, r->cache_values[kv],
            r->cache_elements);
}

void rig_prepare(struct rig *r, enum rig_side_name side, const struct rig_variant *v,
                 struct mtr_op_context *context)
{
    struct rig_side *s = &r->sides[side];
    struct mtr_step_view view = {0};
    uint64_t scratch = mtr_op_scratch_bytes(&s->plan, &s->launch);
    fill_view(r, side, v, &view);
    if (scratch && (!s->scratch || s->scratch_bytes < scratch)) {
        s->scratch = rig_memory(r, side, NULL, scratch);
        s->scratch_bytes = scratch;
    }
    if (r->err.code)
        return;
    put_contents(r, side);
    *context = (struct mtr_op_context){
        .backend = s->backend,
        .plan = &s->plan,
        .step = (const struct mtr_step_view *)(const void *)s->view,
        .output_rows = view.output_rows,
        .rows = {[MTR_ROWS_TOKENS] = view.tokens + v->extra,
                 [MTR_ROWS_OUTPUTS] = view.outputs + v->extra,
                 [MTR_ROWS_LANES] = view.lanes + v->extra},
        .buffers = s->buffer_at,
        .weights = s->weight_at,
        .caches = &s->cache,
        .constants = s->constant_at,
        .scratch = s->scratch,
        .processors = v->processors ? v->processors : s->info.processors,
    };
}

/* ---- results ---- */

static void get(struct rig *r, enum rig_side_name side, const void *at, enum mtr_format f,
                uint32_t rows, uint32_t cols, struct rig_part *p)
{
    struct mtr_backend *b = r->sides[side].backend;
    size_t count = (size_t)rows * cols;
    *p = (struct rig_part){.bytes = malloc(count * size_of(f) + 1),
                           .values = malloc(count * sizeof(float) + 1),
                           .rows = rows,
                           .cols = cols,
                           .row_bytes = cols * size_of(f)};
    if (!p->bytes || !p->values) {
        mtr_fail(&r->err, MTR_NO_MEMORY, "no memory for a result");
        return;
    }
    b->ops->download(b, NULL, p->bytes, at, count * size_of(f), &r->err);
    b->ops->stream_wait(b, NULL, &r->err);
    for (size_t i = 0; i < count; i++) {
        uint16_t h;
        memcpy(f == MTR_F32 ? (void *)&p->values[i] : &h, p->bytes + i * size_of(f), size_of(f));
        if (f != MTR_F32)
            p->values[i] = mtr_bf16_to_f32(h);
    }
}

static void get_results(struct rig *r, enum rig_side_name side, const struct mtr_op_context *c,
                        const struct rig_variant *v, struct rig_result *out)
{
    struct rig_side *s = &r->sides[side];
    for (uint32_t i = 0; i < s->plan.buffer_count && !r->err.code; i++) {
        const struct mtr_plan_buffer *b = &s->buffers[i];
        if (!r->buffers[i].output)
            continue;
        struct rig_part *p = &out->parts[out->count++];
        get(r, side, s->buffer_at[i], b->format, rig_rows(r, b->rows) + RIG_SPARE, b->cols, p);
        p->valid = c->rows[b->rows] - v->extra;
        p->poisoned = r->buffers[i].values && r->buffers[i].values[0] != r->buffers[i].values[0];
    }
    for (int kv = 0; kv < 2 && r->cache_is_output && !r->err.code; kv++) {
        struct rig_part *p = &out->parts[out->count++];
        get(r, side, kv ? s->cache.v : s->cache.k, r->group.format,
            (uint32_t)(r->cache_elements / r->group.head_dim), r->group.head_dim, p);
        p->valid = p->rows;
    }
}

void rig_run(struct rig *r, enum rig_side_name side, const struct rig_variant *v,
             struct rig_result *out)
{
    struct rig_side *s = &r->sides[side];
    const struct mtr_point *whole = s->launch.point;
    struct mtr_point one = *whole;
    struct mtr_op_context context;
    struct mtr_resolved_op op;
    out->count = 0;
    if (v->shape >= 0) {
        one.shapes[0] = one.shapes[v->shape];
        one.shape_count = 1;
        s->launch.point = &one;
    }
    rig_prepare(r, side, v, &context);
    if (!r->err.code && mtr_op_resolve(&op, s->backend, &s->plan, &s->launch, &r->err) &&
        mtr_op_run(&context, &op, &r->err) &&
        s->backend->ops->stream_wait(s->backend, NULL, &r->err))
        get_results(r, side, &context, v, out);
    s->launch.point = whole;
}

void rig_result_free(struct rig_result *result)
{
    for (uint32_t i = 0; i < result->count; i++) {
        free(result->parts[i].bytes);
        free(result->parts[i].values);
    }
    result->count = 0;
}
