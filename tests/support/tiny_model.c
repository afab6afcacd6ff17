/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/tiny_model.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/args/linear.h"

enum { H, TABLE, X, Q, K, V, A, G, LAST, LOGITS, BUFFERS };

static const struct mtr_point points[] = {
    {.function = "embed_f32",
     .weight = MTR_F32,
     .cache = MTR_FORMAT_COUNT,
     .shape_count = 1,
     .shapes = {{"embed_f32"}}},
    {.function = "rotary",
     .weight = MTR_FORMAT_COUNT,
     .cache = MTR_FORMAT_COUNT,
     .shape_count = 1,
     .shapes = {{"rotary"}}},
    {.function = "rms_norm",
     .weight = MTR_F32,
     .cache = MTR_FORMAT_COUNT,
     .shape_count = 1,
     .shapes = {{"rms_norm"}}},
    {.function = "linear_f32",
     .weight = MTR_F32,
     .cache = MTR_FORMAT_COUNT,
     .shape_count = 1,
     .shapes = {{"linear_f32", MTR_LINEAR_TILE_ROWS, MTR_LINEAR_TILE_N, 0, 0}}},
    {.function = "rope_append_f32",
     .weight = MTR_FORMAT_COUNT,
     .cache = MTR_F32,
     .shape_count = 1,
     .shapes = {{"rope_append_f32"}}},
    {.function = "attention_f32",
     .weight = MTR_FORMAT_COUNT,
     .cache = MTR_F32,
     .shape_count = 1,
     .shapes = {{"attention_f32", 16, 0, 0, 0}}},
    {.function = "rope_append_bf16",
     .weight = MTR_FORMAT_COUNT,
     .cache = MTR_BF16,
     .shape_count = 1,
     .shapes = {{"rope_append_bf16"}}},
    {.function = "attention_bf16",
     .weight = MTR_FORMAT_COUNT,
     .cache = MTR_BF16,
     .shape_count = 1,
     .shapes = {{"attention_bf16", 16, 0, 0, 0}}},
};
enum { P_EMBED, P_ROTARY, P_NORM, P_LINEAR, P_ROPE, P_ATTENTION, P_ROPE_BF16, P_ATTENTION_BF16 };

static const struct mtr_family families[] = {
    {.name = "embed"}, {.name = "rope"},      {.name = "rms_norm"}, {.name = "linear"},
    {.name = "rope"},  {.name = "attention"}, {.name = "rope"},     {.name = "attention"}};

static void add_buffer(struct tiny_model *m, uint32_t i, enum mtr_rows rows, uint32_t cols)
{
    const struct mtr_plan_limits *l = &m->plan.limits;
    uint64_t count = rows == MTR_ROWS_OUTPUTS ? l->max_step_outputs : l->max_step_tokens;
    m->buffers[i] = (struct mtr_plan_buffer){.name = "buffer",
                                             .rows = rows,
                                             .cols = cols,
                                             .format = MTR_F32,
                                             .row_bytes = cols * sizeof(float),
                                             .offset = m->plan.arena_bytes};
    m->plan.arena_bytes += (count * cols * sizeof(float) + 63) & ~63ull;
}

static uint16_t add_weight(struct tiny_model *m, uint64_t rows, uint64_t cols)
{
    uint32_t i = m->plan.weight_count++;
    m->weights[i] = (struct mtr_plan_weight){.name = "weight",
                                             .rows = rows,
                                             .cols = cols,
                                             .format = MTR_F32,
                                             .kernel_format = MTR_F32,
                                             .scale = MTR_NONE,
                                             .global_scale = MTR_NONE,
                                             .tensor_rows = rows};
    return (uint16_t)i;
}

static struct mtr_launch *add_launch(struct tiny_model *m, uint32_t point, enum mtr_rows rows,
                                     int in, int out)
{
    struct mtr_launch *l = &m->launches[m->plan.lists[MTR_MODE_MIXED].count++];
    *l = (struct mtr_launch){.family = &families[point],
                             .point = &points[point],
                             .layer = MTR_NONE,
                             .rows = rows,
                             .cache = MTR_NONE,
                             .state = MTR_NONE,
                             .constant = MTR_NONE};
    if (in >= 0)
        l->in[l->in_count++] = (uint16_t)in;
    l->out[l->out_count++] = (uint16_t)out;
    return l;
}

static void param(struct mtr_launch *l, enum mtr_param name, double value)
{
    l->params[l->param_count++] = (struct mtr_launch_param){name, value};
}

static void part(struct tiny_model *m, struct mtr_launch *l, uint64_t rows, uint64_t cols)
{
    if (l->weight_count)
        l->weights[l->weight_count++] = MTR_NONE; /* bias of the part before */
    l->weights[l->weight_count++] = add_weight(m, rows, cols);
}

static void add_norm(struct tiny_model *m, enum mtr_rows rows, int out)
{
    struct mtr_launch *l = add_launch(m, P_NORM, rows, H, out);
    l->weights[l->weight_count++] = add_weight(m, 1, TINY_HIDDEN);
    param(l, MTR_P_EPS, 1e-5);
}

static void heads(struct mtr_launch *l)
{
    param(l, MTR_P_HEADS, TINY_HEADS);
    param(l, MTR_P_KV_HEADS, TINY_KV_HEADS);
    param(l, MTR_P_HEAD_DIM, TINY_HEAD_DIM);
}

static void add_attention(struct tiny_model *m, uint16_t layer, enum mtr_format cache)
{
    const uint32_t q = TINY_HEADS * TINY_HEAD_DIM, kv = TINY_KV_HEADS * TINY_HEAD_DIM;
    bool f32 = cache == MTR_F32;
    add_norm(m, MTR_ROWS_TOKENS, X);
    struct mtr_launch *l = add_launch(m, P_LINEAR, MTR_ROWS_TOKENS, X, Q);
    l->out[l->out_count++] = K;
    l->out[l->out_count++] = V;
    part(m, l, q, TINY_HIDDEN);
    part(m, l, kv, TINY_HIDDEN);
    part(m, l, kv, TINY_HIDDEN);
    l = add_launch(m, f32 ? P_ROPE : P_ROPE_BF16, MTR_ROWS_TOKENS, Q, Q);
    l->in[l->in_count++] = K;
    l->in[l->in_count++] = V;
    l->in[l->in_count++] = TABLE;
    l->cache = layer;
    heads(l);
    l = add_launch(m, f32 ? P_ATTENTION : P_ATTENTION_BF16, MTR_ROWS_TOKENS, Q, A);
    l->cache = layer;
    heads(l);
    param(l, MTR_P_ATTN_SCALE, 0.25);
    l = add_launch(m, P_LINEAR, MTR_ROWS_TOKENS, A, H);
    part(m, l, TINY_HIDDEN, q);
    param(l, MTR_P_EPILOGUE, MTR_EPILOGUE_ADD);
}

static void add_mlp(struct tiny_model *m)
{
    add_norm(m, MTR_ROWS_TOKENS, X);
    struct mtr_launch *l = add_launch(m, P_LINEAR, MTR_ROWS_TOKENS, X, G);
    part(m, l, TINY_FFN, TINY_HIDDEN);
    part(m, l, TINY_FFN, TINY_HIDDEN);
    param(l, MTR_P_EPILOGUE, MTR_EPILOGUE_GLU);
    param(l, MTR_P_ACTIVATION, MTR_ACT_SILU);
    l = add_launch(m, P_LINEAR, MTR_ROWS_TOKENS, G, H);
    part(m, l, TINY_HIDDEN, TINY_FFN);
    param(l, MTR_P_EPILOGUE, MTR_EPILOGUE_ADD);
}

static void fill_weights(struct tiny_model *m)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < m->plan.weight_count; i++)
        total += m->weights[i].rows * m->weights[i].cols;
    m->memory = aligned_alloc(64, (total * sizeof(float) + 63) & ~63ull);
    uint32_t seed = 17;
    uint64_t at = 0;
    for (uint32_t i = 0; i < m->plan.weight_count; i++) {
        const struct mtr_plan_weight *w = &m->weights[i];
        float scale = i == 0 ? 1 : 3.5f / sqrtf((float)w->cols);
        m->addresses[i] = m->memory + at;
        for (uint64_t j = 0; j < w->rows * w->cols; j++) {
            seed = seed * 1664525u + 1013904223u;
            float noise = (float)(seed >> 8) / 8388608.0f - 1;
            m->memory[at++] = w->rows == 1 ? 1 + 0.3f * noise : noise * scale;
        }
    }
}

void tiny_model_init(struct tiny_model *m, struct mtr_plan_limits limits, enum mtr_format cache)
{
    static const uint32_t cols[BUFFERS] = {TINY_HIDDEN,
                                           TINY_HEAD_DIM,
                                           TINY_HIDDEN,
                                           TINY_HEADS * TINY_HEAD_DIM,
                                           TINY_KV_HEADS * TINY_HEAD_DIM,
                                           TINY_KV_HEADS * TINY_HEAD_DIM,
                                           TINY_HEADS * TINY_HEAD_DIM,
                                           TINY_FFN,
                                           TINY_HIDDEN,
                                           TINY_VOCAB};
    *m = (struct tiny_model){.plan = {.circuit = "tiny",
                                      .hardware = "host",
                                      .precision = "declared",
                                      .limits = limits,
                                      .vocab = TINY_VOCAB,
                                      .hidden = TINY_HIDDEN,
                                      .layers = TINY_LAYERS,
                                      .context = limits.max_sequence_tokens}};
    for (uint32_t i = 0; i < BUFFERS; i++)
        add_buffer(m, i, i < LAST ? MTR_ROWS_TOKENS : MTR_ROWS_OUTPUTS, cols[i]);
    struct mtr_launch *l = add_launch(m, P_EMBED, MTR_ROWS_TOKENS, -1, H);
    l->weights[l->weight_count++] = add_weight(m, TINY_VOCAB, TINY_HIDDEN);
    l = add_launch(m, P_ROTARY, MTR_ROWS_TOKENS, -1, TABLE);
    l->constant = 0;
    for (uint16_t i = 0; i < TINY_LAYERS; i++) {
        m->caches[i] = (struct mtr_plan_cache){.index = i};
        add_attention(m, i, cache);
        add_mlp(m);
    }
    add_norm(m, MTR_ROWS_OUTPUTS, LAST);
    l = add_launch(m, P_LINEAR, MTR_ROWS_OUTPUTS, LAST, LOGITS);
    part(m, l, TINY_VOCAB, TINY_HIDDEN);
    for (uint32_t i = 0; i < TINY_HEAD_DIM / 2; i++)
        m->inv_freq[i] = powf(10000, -2.0f * (float)i / TINY_HEAD_DIM);
    m->constant = (struct mtr_plan_constant){"inv_freq", TINY_HEAD_DIM / 2, m->inv_freq};
    uint64_t element = cache == MTR_F32 ? 4 : 2;
    m->group =
        (struct mtr_cache_group){.name = "full",
                                 .kind = MTR_CACHE_FULL,
                                 .format = cache,
                                 .block_tokens = 16,
                                 .layers = TINY_LAYERS,
                                 .kv_heads = TINY_KV_HEADS,
                                 .head_dim = TINY_HEAD_DIM,
                                 .block_bytes = 2 * 16 * TINY_KV_HEADS * TINY_HEAD_DIM * element};
    fill_weights(m);
    struct mtr_plan *p = &m->plan;
    p->buffer_count = BUFFERS;
    p->buffers = m->buffers;
    p->logits = LOGITS;
    p->weights = m->weights;
    p->group_count = 1;
    p->groups = &m->group;
    p->cache_count = TINY_LAYERS;
    p->caches = m->caches;
    p->constant_count = 1;
    p->constants = &m->constant;
    p->lists[MTR_MODE_MIXED].launches = m->launches;
    p->lists[MTR_MODE_DECODE] = p->lists[MTR_MODE_MIXED];
}

void tiny_model_free(struct tiny_model *m)
{
    free(m->memory);
}
