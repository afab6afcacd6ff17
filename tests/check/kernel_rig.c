/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/circuit/fuser.h"
#include "common/numeric/numeric.h"
#include "kernels/args/repack.h"
#include "worker/backend/open.h"

#define BLOCK_TOKENS   16
#define NO_BLOCK       0x3fffffff  /* an id whose use is a fault */
#define PIECE_BYTES    (16u << 20) /* of contents made in bulk */
#define REPACK_THREADS 256

/* ---- random numbers: a step of splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t next(struct rig *r)
{
    uint64_t z = r->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float rig_random(struct rig *r)
{
    return (float)(int32_t)(next(r) >> 40) / 8388608.0f - 1.0f;
}

uint32_t rig_below(struct rig *r, uint32_t limit)
{
    return (uint32_t)((next(r) >> 32) * limit >> 32);
}

/* ---- memory ---- */

static void fail_memory(struct rig *r)
{
    if (!r->err.code)
        mtr_fail(&r->err, MTR_NO_MEMORY, "no memory for a case");
}

static void *host_memory(struct rig *r, size_t count, size_t size)
{
    void *p = r->err.code ? NULL : calloc(count ? count : 1, size);
    if (!p)
        fail_memory(r);
    return p;
}

void *rig_memory(struct rig *r, enum rig_side_name side, const void *data, size_t bytes)
{
    struct mtr_backend *b = r->sides[side].backend;
    if (r->err.code)
        return NULL;
    if (r->owned_count == sizeof r->owned / sizeof *r->owned) {
        mtr_fail(&r->err, MTR_TOO_LARGE, "a case has too many allocations");
        return NULL;
    }
    void *p = b->ops->alloc(b, bytes ? bytes : 1, &r->err);
    if (!p)
        return NULL;
    r->owned[r->owned_count].side = side;
    r->owned[r->owned_count++].at = p;
    if (data)
        b->ops->upload(b, NULL, p, data, bytes, &r->err);
    else
        b->ops->fill(b, NULL, p, 0, bytes, &r->err);
    return p;
}

/* As many bytes as wanted out of one piece of random contents. */
static void fill_bulk(struct rig *r, enum rig_side_name side, void *at, size_t bytes,
                      const uint8_t *piece, size_t piece_bytes)
{
    struct mtr_backend *b = r->sides[side].backend;
    for (size_t i = 0; i < bytes && !r->err.code; i += piece_bytes) {
        size_t n = bytes - i < piece_bytes ? bytes - i : piece_bytes;
        b->ops->upload(b, NULL, (uint8_t *)at + i, piece, n, &r->err);
        b->ops->stream_wait(b, NULL, &r->err);
    }
}

/* ---- formats ---- */

static size_t element_bytes(enum mtr_format f)
{
    return mtr_format_info(f)->block_bytes;
}

static float poison(void)
{
    return mtr_f32_from_bits(0xffffffffu);
}

/* As both sides hold it. */
static float rounded(const struct rig *r, float v, bool plain)
{
    bool narrow_it = !plain && r->sides[RIG_SUBJECT].hardware->activations == MTR_BF16;
    return narrow_it ? mtr_bf16_to_f32(mtr_bf16_from_f32(v)) : v;
}

/* Where the f16 scales of a block of weights stand, and how many bytes it has. */
struct scales {
    enum mtr_format format;
    uint32_t at[2];
    uint32_t count;
};

static const struct scales scale_places[] = {
    {MTR_Q4_0, {0}, 1}, {MTR_Q4_1, {0, 2}, 2}, {MTR_Q5_0, {0}, 1},    {MTR_Q5_1, {0, 2}, 2},
    {MTR_Q8_0, {0}, 1}, {MTR_Q4_K, {0, 2}, 2}, {MTR_Q5_K, {0, 2}, 2}, {MTR_Q6_K, {208}, 1},
};

static const struct scales *find_scales(enum mtr_format f)
{
    for (size_t i = 0; i < sizeof scale_places / sizeof *scale_places; i++)
        if (scale_places[i].format == f)
            return &scale_places[i];
    return NULL;
}

/* Weights of a size that sums over a thousand of them stay small. */
static void random_plain(struct rig *r, enum mtr_format f, uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float v = rig_random(r) / 16;
        uint16_t h = f == MTR_F16 ? mtr_f16_from_f32(v) : mtr_bf16_from_f32(v);
        if (f == MTR_F32)
            memcpy(out + 4 * i, &v, 4);
        else
            memcpy(out + 2 * i, &h, 2);
    }
}

/* Numbers of e4m3 below a limit, or all pairs of e2m1. */
static void random_codes(struct rig *r, enum mtr_format f, uint8_t most, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        uint8_t code = (uint8_t)next(r);
        out[i] = f == MTR_E2M1 ? code : (code & 0x80) | (uint8_t)((code & 0x7f) % (most + 1u));
    }
}

static void random_weights(struct rig *r, enum mtr_format f, uint8_t *out, size_t bytes)
{
    const struct scales *s = find_scales(f);
    uint32_t block = mtr_format_info(f)->block_bytes;
    if (f == MTR_F32 || f == MTR_F16 || f == MTR_BF16) {
        random_plain(r, f, out, bytes / block);
        return;
    }
    if (f == MTR_E4M3 || f == MTR_E2M1) {
        random_codes(r, f, 0x7e, out, bytes);
        return;
    }
    if (!s) {
        mtr_fail(&r->err, MTR_UNSUPPORTED, "kernel-check makes no weights of format %s",
                 mtr_format_info(f)->name);
        return;
    }
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)next(r);
    for (size_t b = 0; b + block <= bytes; b += block)
        for (uint32_t i = 0; i < s->count; i++) {
            uint16_t h = mtr_f16_from_f32(rig_random(r) / 256);
            memcpy(out + b + s->at[i], &h, 2);
        }
}

/* ---- opening ---- */

bool rig_open(struct rig *r, const char *hardware, struct mtr_error *err)
{
    const char *names[RIG_SIDES] = {"host", hardware};
    *r = (struct rig){0};
    for (int i = 0; i < RIG_SIDES; i++) {
        struct rig_side *s = &r->sides[i];
        s->hardware = mtr_hardware_find(names[i]);
        if (!s->hardware)
            return mtr_fail(err, MTR_INVALID, "there is no hardware class %s", names[i]);
        const struct mtr_backend_options options = {.hardware = names[i]};
        s->backend = mtr_backend_open(&options, NULL, err);
        if (!s->backend || !s->backend->ops->info(s->backend, &s->info, err))
            return false;
    }
    return true;
}

void rig_close(struct rig *r)
{
    for (int i = 0; i < RIG_SIDES; i++)
        if (r->sides[i].backend)
            r->sides[i].backend->ops->destroy(r->sides[i].backend);
}

static const struct mtr_point *twin(struct rig *r, const struct mtr_family *family,
                                    const struct mtr_point *point,
                                    const struct mtr_family **twin_family)
{
    *twin_family = mtr_family_find(r->sides[RIG_HOST].hardware, family->name);
    for (uint32_t i = 0; *twin_family && i < (*twin_family)->point_count; i++)
        if (strcmp((*twin_family)->points[i].function, point->function) == 0)
            return &(*twin_family)->points[i];
    mtr_fail(&r->err, MTR_NOT_FOUND, "%s has no twin on the host", point->function);
    return point;
}

/* The rows whose logits are wanted: every other one, and the last of each sequence. */
static bool is_output(const struct rig *r, uint32_t row)
{
    if (r->bulk)
        return true;
    uint32_t end = 0;
    for (uint32_t s = 0; s < r->sequence_count; s++) {
        end += r->sequences[s].count;
        if (row + 1 == end)
            return true;
    }
    return row % 2 == 0;
}

void rig_begin(struct rig *r, const struct mtr_family *family, const struct mtr_point *point,
               uint64_t seed, const struct rig_sequence *sequences, uint32_t sequence_count)
{
    uint32_t longest = 1;
    r->seed = seed;
    r->rows = r->outputs = r->owned_count = 0;
    r->err = (struct mtr_error){0};
    r->cache_is_output = false;
    r->sequence_count = sequence_count;
    for (uint32_t i = 0; i < sequence_count; i++) {
        r->sequences[i] = sequences[i];
        r->rows += sequences[i].count;
        uint32_t end = sequences[i].start + sequences[i].count;
        longest = end > longest ? end : longest;
    }
    for (uint32_t i = 0; i < r->rows; i++)
        r->outputs += is_output(r, i);
    for (int i = 0; i < RIG_SIDES; i++) {
        struct rig_side *s = &r->sides[i];
        s->launch = (struct mtr_launch){.family = family,
                                        .point = point,
                                        .layer = MTR_NONE,
                                        .cache = MTR_NONE,
                                        .state = MTR_NONE,
                                        .constant = MTR_NONE};
        s->plan = (struct mtr_plan){
            .circuit = "check",
            .hardware = s->hardware->name,
            .limits = {r->rows + RIG_SPARE, r->rows + RIG_SPARE, r->rows + RIG_SPARE, longest},
            .buffers = s->buffers,
            .weights = s->weights,
            .groups = &r->group,
            .caches = &r->plan_cache,
            .constants = &r->constant,
        };
        s->view = s->scratch = NULL;
    }
    r->sides[RIG_HOST].launch.point = twin(r, family, point, &r->sides[RIG_HOST].launch.family);
}

void rig_end(struct rig *r)
{
    for (uint32_t i = 0; i < r->owned_count; i++) {
        struct mtr_backend *b = r->sides[r->owned[i].side].backend;
        b->ops->free(b, r->owned[i].at);
    }
    for (int i = 0; i < RIG_BUFFERS; i++)
        free(r->buffers[i].values);
    free(r->cache_values[0]);
    free(r->cache_values[1]);
    free(r->table);
    r->table = NULL;
    r->cache_values[0] = r->cache_values[1] = NULL;
    memset(r->buffers, 0, sizeof r->buffers);
    r->owned_count = 0;
}

/* ---- building ---- */

static int first_side(const struct rig *r)
{
    return r->bulk ? RIG_SUBJECT : RIG_HOST;
}

uint32_t rig_rows(const struct rig *r, enum mtr_rows rows)
{
    return rows == MTR_ROWS_OUTPUTS ? r->outputs : r->rows;
}

static uint16_t add_buffer(struct rig *r, enum mtr_rows rows, uint32_t cols, float size, bool plain,
                           bool output)
{
    uint32_t index = r->sides[RIG_SUBJECT].plan.buffer_count, have = rig_rows(r, rows);
    size_t capacity = have + RIG_SPARE;
    r->buffers[index].output = output;
    if (!r->bulk) {
        float *v = r->buffers[index].values = host_memory(r, capacity * cols, sizeof(float));
        for (size_t i = 0; v && i < capacity * cols; i++)
            v[i] = i / cols < have && size > 0 ? rounded(r, size * rig_random(r), plain) : poison();
    }
    uint8_t *piece = r->bulk ? host_memory(r, PIECE_BYTES, 1) : NULL;
    if (piece)
        random_plain(r, MTR_BF16, piece, PIECE_BYTES / 2);
    for (int i = first_side(r); i < RIG_SIDES; i++) {
        struct rig_side *s = &r->sides[i];
        enum mtr_format f = plain ? MTR_F32 : s->hardware->activations;
        s->buffers[index] =
            (struct mtr_plan_buffer){"buffer", rows, cols, f, cols * element_bytes(f), 0};
        s->plan.buffer_count = index + 1;
        s->buffer_at[index] =
            rig_memory(r, (enum rig_side_name)i, NULL, capacity * cols * element_bytes(f));
        if (piece)
            fill_bulk(r, (enum rig_side_name)i, s->buffer_at[index],
                      capacity * cols * element_bytes(f), piece, PIECE_BYTES);
    }
    free(piece);
    return (uint16_t)index;
}

uint16_t rig_input(struct rig *r, enum mtr_rows rows, uint32_t cols, float size, bool plain)
{
    return add_buffer(r, rows, cols, size, plain, false);
}

uint16_t rig_output(struct rig *r, enum mtr_rows rows, uint32_t cols, bool plain)
{
    return add_buffer(r, rows, cols, 0, plain, true);
}

uint16_t rig_in_place(struct rig *r, enum mtr_rows rows, uint32_t cols, float size)
{
    return add_buffer(r, rows, cols, size, false, true);
}

uint64_t rig_weight_bytes(const struct mtr_point *p, const struct mtr_plan_weight *w)
{
    bool scales = w->role == MTR_WEIGHT_SCALES, padded = scales ? p->repack_scales : p->repack;
    uint32_t unit = scales ? p->repack_cols / 16 : p->repack_cols;
    bool matrix = padded && (w->rows > 1 || scales);
    uint64_t row = 0;
    mtr_format_row_bytes(w->kernel_format, matrix ? mtr_padded(w->cols, unit) : w->cols, &row);
    return row * (matrix ? mtr_padded(w->rows, p->repack_rows) : w->rows);
}

static void *repacked(struct rig *r, enum rig_side_name side, const struct mtr_plan_weight *w,
                      void *src)
{
    struct rig_side *s = &r->sides[side];
    const struct mtr_point *p = s->launch.point;
    const char *function = w->role == MTR_WEIGHT_SCALES ? p->repack_scales : p->repack;
    if (!function || r->err.code)
        return src;
    uint32_t tiles = (uint32_t)(mtr_padded(w->rows, p->repack_rows) / p->repack_rows);
    void *dst = rig_memory(r, side, NULL, rig_weight_bytes(p, w));
    struct mtr_repack_args args = {src, dst, (uint32_t)w->rows, (uint32_t)w->cols};
    const uint32_t grid[3] = {tiles, 1, 1}, block[3] = {REPACK_THREADS, 1, 1};
    struct mtr_kernel *k = s->backend->ops->kernel(s->backend, "repack", function, &r->err);
    if (k && dst)
        s->backend->ops->launch(s->backend, NULL, k, grid, block, 0, &args, sizeof args, &r->err);
    return dst;
}

static uint16_t add_weight(struct rig *r, enum mtr_weight_role role, enum mtr_format f,
                           uint32_t rows, uint32_t cols, const uint8_t *bytes, size_t have,
                           uint64_t row_bytes)
{
    uint32_t index = r->sides[RIG_SUBJECT].plan.weight_count;
    for (int i = first_side(r); i < RIG_SIDES; i++) {
        struct rig_side *s = &r->sides[i];
        s->weights[index] = (struct mtr_plan_weight){.name = "weight",
                                                     .rows = rows,
                                                     .cols = cols,
                                                     .format = f,
                                                     .kernel_format = f,
                                                     .scale = MTR_NONE,
                                                     .global_scale = MTR_NONE,
                                                     .tensor_rows = rows,
                                                     .role = role};
        s->plan.weight_count = index + 1;
        s->weight_at[index] = rig_memory(r, (enum rig_side_name)i, NULL, rows * row_bytes);
        fill_bulk(r, (enum rig_side_name)i, s->weight_at[index], rows * row_bytes, bytes, have);
        if (role == MTR_WEIGHT_SCALES || (rows > 1 && role == MTR_WEIGHT_VALUES))
            s->weight_at[index] =
                repacked(r, (enum rig_side_name)i, &s->weights[index], s->weight_at[index]);
    }
    return (uint16_t)index;
}

/* A size that sums over a thousand weights stay small with. */
static uint16_t add_numbers(struct rig *r, enum mtr_weight_role role, uint32_t rows, uint32_t cols)
{
    size_t count = (size_t)rows * cols;
    float *v = host_memory(r, count, sizeof *v);
    uint16_t index = MTR_NONE;
    for (size_t i = 0; v && i < count; i++)
        v[i] = (rig_random(r) + 1.5f) * (role == MTR_WEIGHT_GLOBAL ? 0x1p-8f : 0x1p-12f);
    if (v)
        index = add_weight(r, role, MTR_F32, rows, cols, (uint8_t *)v, count * sizeof *v,
                           cols * sizeof *v);
    free(v);
    return index;
}

static uint16_t add_groups(struct rig *r, uint32_t rows, uint32_t cols)
{
    size_t count = (size_t)rows * cols;
    uint8_t *codes = host_memory(r, count, 1);
    uint16_t index = MTR_NONE;
    if (codes) {
        random_codes(r, MTR_E4M3, 0x4f, codes, count);
        index = add_weight(r, MTR_WEIGHT_SCALES, MTR_E4M3, rows, cols, codes, count, cols);
    }
    free(codes);
    return index;
}

static void add_scales(struct rig *r, uint16_t matrix, enum mtr_scaling scaling, uint32_t rows,
                       uint32_t cols)
{
    uint16_t scale = MTR_NONE, global = MTR_NONE;
    if (scaling == MTR_SCALING_TENSOR)
        scale = add_numbers(r, MTR_WEIGHT_SCALES, 1, 1);
    else if (scaling == MTR_SCALING_CHANNEL)
        scale = add_numbers(r, MTR_WEIGHT_SCALES, rows, 1);
    else if (scaling == MTR_SCALING_BLOCK)
        scale = add_numbers(r, MTR_WEIGHT_SCALES, (rows + 127) / 128, (cols + 127) / 128);
    else
        scale = add_groups(r, rows, cols / 16);
    if (scaling == MTR_SCALING_GROUP16)
        global = add_numbers(r, MTR_WEIGHT_GLOBAL, 1, 1);
    for (int i = 0; i < RIG_SIDES; i++) {
        r->sides[i].weights[matrix].scale = scale;
        r->sides[i].weights[matrix].global_scale = global;
    }
}

uint16_t rig_matrix(struct rig *r, enum mtr_format f, uint32_t rows, uint32_t cols)
{
    uint64_t row_bytes = 0;
    if (!mtr_format_row_bytes(f, cols, &row_bytes))
        mtr_fail(&r->err, MTR_INVALID, "%u columns of %s", cols, mtr_format_info(f)->name);
    /* In bulk, whole rows over and over. */
    uint64_t some = PIECE_BYTES / (row_bytes ? row_bytes : 1) * row_bytes;
    size_t have = r->bulk && some < rows * row_bytes ? some : rows * row_bytes;
    uint8_t *bytes = host_memory(r, have, 1);
    uint16_t index = MTR_NONE;
    if (bytes) {
        random_weights(r, f, bytes, have);
        index = add_weight(r, MTR_WEIGHT_VALUES, f, rows, cols, bytes, have, row_bytes);
    }
    enum mtr_scaling scaling = r->sides[RIG_SUBJECT].launch.point->scaling;
    if (bytes && scaling != MTR_SCALING_NONE)
        add_scales(r, index, scaling, rows, cols);
    free(bytes);
    return index;
}

uint16_t rig_vector(struct rig *r, uint32_t count, float low, float high)
{
    float *v = host_memory(r, count, sizeof *v);
    uint16_t index = MTR_NONE;
    for (uint32_t i = 0; v && i < count; i++)
        v[i] = low + (high - low) * (rig_random(r) + 1) / 2;
    if (v)
        index = add_weight(r, MTR_WEIGHT_VALUES, MTR_F32, 1, count, (uint8_t *)v, count * sizeof *v,
                           count * sizeof *v);
    free(v);
    return index;
}

static uint32_t blocks_of(uint32_t tokens)
{
    return (tokens + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
}

/* Block ids in no order; those of blocks that the window has left behind are nobody's. */
static uint32_t fill_table(struct rig *r, uint32_t window)
{
    uint32_t total = 0, next_block = 0;
    for (uint32_t i = 0; i < r->sequence_count; i++) {
        uint32_t n = blocks_of(r->sequences[i].start + r->sequences[i].count);
        total += n;
        r->table_stride = n > r->table_stride ? n : r->table_stride;
    }
    r->table = host_memory(r, (size_t)r->sequence_count * r->table_stride, sizeof *r->table);
    int32_t *ids = host_memory(r, total, sizeof *ids);
    for (uint32_t i = 0; ids && i < total; i++) {
        uint32_t j = rig_below(r, i + 1);
        ids[i] = ids[j];
        ids[j] = (int32_t)i;
    }
    for (uint32_t s = 0; r->table && ids && s < r->sequence_count; s++) {
        uint32_t start = r->sequences[s].start, n = blocks_of(start + r->sequences[s].count);
        uint32_t seen = window && start >= window ? (start - window + 1) / BLOCK_TOKENS : 0;
        for (uint32_t b = 0; b < r->table_stride; b++) {
            int32_t id = b < n ? ids[next_block + b] : NO_BLOCK;
            r->table[(size_t)s * r->table_stride + b] = b < seen ? NO_BLOCK : id;
        }
        next_block += n;
    }
    free(ids);
    return total;
}

/* History and, for attention, the step's own tokens; for rope_append nothing is there yet. */
static void fill_cache(struct rig *r, float *values, bool empty)
{
    const struct mtr_cache_group *g = &r->group;
    for (uint64_t i = 0; i < r->cache_elements; i++)
        values[i] = poison();
    for (uint32_t s = 0; !empty && s < r->sequence_count; s++)
        for (uint32_t t = 0; t < r->sequences[s].start + r->sequences[s].count; t++) {
            int32_t block = r->table[(size_t)s * r->table_stride + t / BLOCK_TOKENS];
            if (block == NO_BLOCK)
                continue;
            for (uint32_t h = 0; h < g->kv_heads; h++) {
                uint64_t at = ((uint64_t)block * g->kv_heads + h) * BLOCK_TOKENS + t % BLOCK_TOKENS;
                for (uint32_t d = 0; d < g->head_dim; d++)
                    values[at * g->head_dim + d] =
                        mtr_bf16_to_f32(mtr_bf16_from_f32(rig_random(r) + rig_random(r)));
            }
        }
}

void rig_cache(struct rig *r, uint32_t kv_heads, uint32_t head_dim, uint32_t window, bool output)
{
    enum mtr_format f = r->sides[RIG_SUBJECT].launch.point->cache;
    r->group = (struct mtr_cache_group){.name = "full",
                                        .format = f,
                                        .block_tokens = BLOCK_TOKENS,
                                        .window = window,
                                        .layers = 1,
                                        .kv_heads = kv_heads,
                                        .head_dim = head_dim};
    r->plan_cache = (struct mtr_plan_cache){0, 0};
    r->table_stride = 0;
    r->cache_is_output = output;
    uint32_t blocks = fill_table(r, window);
    r->cache_elements = (uint64_t)blocks * kv_heads * BLOCK_TOKENS * head_dim;
    uint8_t *piece = r->bulk ? host_memory(r, PIECE_BYTES, 1) : NULL;
    if (piece)
        random_plain(r, MTR_BF16, piece, PIECE_BYTES / 2);
    for (int kv = 0; kv < 2; kv++) {
        if (!r->bulk)
            r->cache_values[kv] = host_memory(r, r->cache_elements, sizeof(float));
        if (r->cache_values[kv])
            fill_cache(r, r->cache_values[kv], output);
        for (int i = first_side(r); i < RIG_SIDES; i++) {
            struct rig_side *s = &r->sides[i];
            size_t bytes = r->cache_elements * element_bytes(f);
            void *at = rig_memory(r, (enum rig_side_name)i, NULL, bytes);
            *(kv ? &s->cache.v : &s->cache.k) = at;
            if (piece)
                fill_bulk(r, (enum rig_side_name)i, at, bytes, piece, PIECE_BYTES);
        }
    }
    free(piece);
    for (int i = 0; i < RIG_SIDES; i++) {
        r->sides[i].plan.group_count = r->sides[i].plan.cache_count = 1;
        r->sides[i].launch.cache = 0;
        r->sides[i].cache.blocks = blocks;
    }
}

void rig_constant(struct rig *r, const float *values, uint32_t count)
{
    r->constant = (struct mtr_plan_constant){"inverse frequencies", count, values};
    for (int i = first_side(r); i < RIG_SIDES; i++) {
        struct rig_side *s = &r->sides[i];
        s->constant_at[0] = rig_memory(r, (enum rig_side_name)i, values, count * sizeof *values);
        s->plan.constant_count = 1;
        s->launch.constant = 0;
    }
}

void rig_param(struct rig *r, enum mtr_param name, double value)
{
    for (int i = 0; i < RIG_SIDES; i++) {
        struct mtr_launch *l = &r->sides[i].launch;
        l->params[l->param_count++] = (struct mtr_launch_param){name, value};
    }
}

void rig_slots(struct rig *r, enum mtr_rows rows, const uint16_t *in, uint32_t in_count,
               const uint16_t *out, uint32_t out_count, const uint16_t *weights,
               uint32_t weight_count)
{
    for (int i = 0; i < RIG_SIDES; i++) {
        struct mtr_launch *l = &r->sides[i].launch;
        l->rows = rows;
        l->in_count = (uint8_t)in_count;
        l->out_count = (uint8_t)out_count;
        l->weight_count = (uint8_t)weight_count;
        memcpy(l->in, in, in_count * sizeof *in);
        memcpy(l->out, out, out_count * sizeof *out);
        memcpy(l->weights, weights, weight_count * sizeof *weights);
    }
}
