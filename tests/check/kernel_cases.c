/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/args/linear.h"

#define EPS       1e-5
#define VOCAB     97
#define MAX_PAIRS 256

/* ---- steps ---- */

static const struct rig_sequence one_row[] = {{0, 1}, {0, 0}};
static const struct rig_sequence few_rows[] = {{0, 5}, {40, 1}, {7, 3}, {0, 0}};
static const struct rig_sequence some_rows[] = {{0, 17}, {100, 1}, {31, 15}, {0, 0}};
static const struct rig_sequence many_rows[] = {{0, 130}, {3, 1}, {9, 70}, {0, 0}};
static const struct rig_sequence most_rows[] = {{0, 300}, {0, 0}};
static const struct rig_sequence far_rows[] = {{1000000, 3}, {131071, 2}, {0, 1}, {0, 0}};
/* Histories that end before, at and behind tiles of 64 and stretches of 256 tokens. */
static const struct rig_sequence short_history[] = {{0, 70}, {63, 1}, {250, 12}, {0, 0}};
static const struct rig_sequence long_history[] = {
    {511, 3}, {1000, 1}, {300, 40}, {767, 1}, {0, 0}};
static const struct rig_sequence deep_history[] = {{2040, 20}, {1279, 1}, {0, 0}};
/* Of very different lengths, in one step: blocks that share them have parts of several. */
static const struct rig_sequence uneven[] = {{4990, 5}, {3, 1}, {700, 2}, {1299, 1}, {0, 0}};

/* ---- builders ---- */

static void build_embed(struct rig *r, const struct kernel_case *c)
{
    uint32_t vocab = c->n[0] ? c->n[0] : VOCAB;
    uint16_t y = rig_output(r, MTR_ROWS_TOKENS, c->cols, false);
    uint16_t table = rig_matrix(r, r->sides[RIG_SUBJECT].launch.point->weight, vocab, c->cols);
    r->vocab = vocab;
    rig_slots(r, MTR_ROWS_TOKENS, NULL, 0, &y, 1, &table, 1);
    rig_param(r, MTR_P_MULTIPLIER, c->number ? c->number : 1);
}

static void build_rms_norm(struct rig *r, const struct kernel_case *c)
{
    enum mtr_rows rows = c->flags & K_GATHER ? MTR_ROWS_OUTPUTS : MTR_ROWS_TOKENS;
    uint16_t in[2] = {rig_input(r, MTR_ROWS_TOKENS, c->cols, 2, false)}, out[2];
    out[0] = rig_output(r, rows, c->cols, false);
    bool residual = c->flags & K_RESIDUAL;
    if (residual)
        in[1] = out[1] = rig_in_place(r, MTR_ROWS_TOKENS, c->cols, 2);
    uint16_t w = rig_vector(r, c->cols, c->flags & K_UNIT ? -0.5f : 0.5f, 1.5f);
    rig_slots(r, rows, in, residual ? 2 : 1, out, residual ? 2 : 1, &w, 1);
    rig_param(r, MTR_P_EPS, EPS);
    rig_param(r, MTR_P_UNIT_OFFSET, c->flags & K_UNIT ? 1 : 0);
}

static void build_rotary(struct rig *r, const struct kernel_case *c)
{
    float frequencies[MAX_PAIRS];
    for (uint32_t i = 0; i < c->cols; i++)
        frequencies[i] = (float)pow(1e6, -(double)i / c->cols);
    uint16_t table = rig_output(r, MTR_ROWS_TOKENS, 2 * c->cols, true), factors = MTR_NONE;
    if (c->flags & K_FACTORS)
        factors = rig_vector(r, c->cols, 1, 8);
    rig_constant(r, frequencies, c->cols);
    rig_slots(r, MTR_ROWS_TOKENS, NULL, 0, &table, 1, &factors, factors != MTR_NONE);
    rig_param(r, MTR_P_ROPE_SCALE, 1.25);
}

static void head_params(struct rig *r, const struct kernel_case *c)
{
    rig_param(r, MTR_P_HEADS, c->heads);
    rig_param(r, MTR_P_KV_HEADS, c->kv_heads);
    rig_param(r, MTR_P_HEAD_DIM, c->head_dim);
}

static void build_rope_append(struct rig *r, const struct kernel_case *c)
{
    uint32_t kv = c->kv_heads * c->head_dim;
    uint16_t q = rig_in_place(r, MTR_ROWS_TOKENS, c->heads * c->head_dim, 2);
    uint16_t in[4] = {q, rig_input(r, MTR_ROWS_TOKENS, kv, 2, false),
                      rig_input(r, MTR_ROWS_TOKENS, kv, 2, false)};
    bool turns = !(c->flags & K_NO_TABLE), norms = c->flags & K_NORMS;
    if (turns)
        in[3] = rig_input(r, MTR_ROWS_TOKENS, 2 * c->cols, 1, true);
    uint16_t w[2] = {0};
    for (int i = 0; i < 2 && norms; i++)
        w[i] = rig_vector(r, c->head_dim, 0.5f, 1.5f);
    rig_cache(r, c->kv_heads, c->head_dim, 0, true);
    rig_slots(r, MTR_ROWS_TOKENS, in, turns ? 4 : 3, &q, 1, w, norms ? 2 : 0);
    head_params(r, c);
    rig_param(r, MTR_P_ROTARY_DIM, 2 * c->cols);
    rig_param(r, MTR_P_INTERLEAVED, c->flags & K_INTERLEAVED ? 1 : 0);
    rig_param(r, MTR_P_EPS, EPS);
}

static void build_attention(struct rig *r, const struct kernel_case *c)
{
    uint32_t cols = c->heads * c->head_dim;
    uint16_t q = rig_input(r, MTR_ROWS_TOKENS, cols, 4, false), sinks = MTR_NONE;
    uint16_t out = rig_output(r, MTR_ROWS_TOKENS, cols, false);
    if (c->flags & K_SINKS)
        sinks = rig_vector(r, c->heads, 0, 4);
    rig_cache(r, c->kv_heads, c->head_dim, c->window, false);
    rig_slots(r, MTR_ROWS_TOKENS, &q, 1, &out, 1, &sinks, sinks != MTR_NONE);
    head_params(r, c);
    rig_param(r, MTR_P_ATTN_SCALE, 1 / sqrt(c->head_dim));
    rig_param(r, MTR_P_WINDOW, c->window);
    rig_param(r, MTR_P_SOFTCAP, c->number);
}

static void build_pair(struct rig *r, const struct kernel_case *c)
{
    uint16_t in[2] = {rig_input(r, MTR_ROWS_TOKENS, c->cols, 3, false),
                      rig_input(r, MTR_ROWS_TOKENS, c->cols, 3, false)};
    uint16_t y = rig_output(r, MTR_ROWS_TOKENS, c->cols, false);
    rig_slots(r, MTR_ROWS_TOKENS, in, 2, &y, 1, NULL, 0);
    rig_param(r, MTR_P_ACTIVATION, c->activation);
}

static void build_unary(struct rig *r, const struct kernel_case *c)
{
    uint16_t y = rig_in_place(r, MTR_ROWS_TOKENS, c->cols, 3);
    rig_slots(r, MTR_ROWS_TOKENS, &y, 1, &y, 1, NULL, 0);
    rig_param(r, MTR_P_ACTIVATION, c->activation);
    rig_param(r, MTR_P_MULTIPLIER, c->number ? c->number : 1);
}

static void build_gather(struct rig *r, const struct kernel_case *c)
{
    uint16_t a = rig_input(r, MTR_ROWS_TOKENS, c->cols, 3, false);
    uint16_t y = rig_output(r, MTR_ROWS_OUTPUTS, c->cols, false);
    rig_slots(r, MTR_ROWS_OUTPUTS, &a, 1, &y, 1, NULL, 0);
}

static void build_linear(struct rig *r, const struct kernel_case *c)
{
    enum mtr_format f = r->sides[RIG_SUBJECT].launch.point->weight;
    bool glu = c->epilogue == MTR_EPILOGUE_GLU, add = c->epilogue == MTR_EPILOGUE_ADD;
    enum mtr_rows rows = c->flags & K_LOGITS ? MTR_ROWS_OUTPUTS : MTR_ROWS_TOKENS;
    uint16_t x = rig_input(r, rows, c->cols, 1, false), out[4], w[8];
    uint32_t parts = 0, outs = 0;
    for (; parts < 4 && c->n[parts]; parts++) {
        if (add)
            out[outs++] = rig_in_place(r, rows, c->n[parts], 1);
        else if (!glu || parts == 0)
            out[outs++] = rig_output(r, rows, c->n[parts], c->flags & K_LOGITS);
        w[2 * parts] = rig_matrix(r, f, c->n[parts], c->cols);
        w[2 * parts + 1] = c->flags & K_BIAS ? rig_vector(r, c->n[parts], -1, 1) : MTR_NONE;
    }
    rig_slots(r, rows, &x, 1, out, outs, w, 2 * parts);
    rig_param(r, MTR_P_EPILOGUE, c->epilogue);
    rig_param(r, MTR_P_ACTIVATION, c->activation);
    rig_param(r, MTR_P_MULTIPLIER, c->number ? c->number : 1);
}

/* ---- the cases ---- */

#define EMBED(s, k, vocab)                                                                         \
    {                                                                                              \
        .function = "embed", .build = build_embed, .sequences = s, .cols = k, .n = { vocab }       \
    }
#define NORM(s, k, f)                                                                              \
    {                                                                                              \
        .function = "rms_norm", .build = build_rms_norm, .sequences = s, .cols = k, .flags = f     \
    }
#define ROTARY(s, k, f)                                                                            \
    {                                                                                              \
        .function = "rotary", .build = build_rotary, .sequences = s, .cols = k, .flags = f         \
    }
#define ROPE(s, h, kv, d, pairs, f)                                                                \
    {                                                                                              \
        .function = "rope_append", .build = build_rope_append, .sequences = s, .cols = pairs,      \
        .heads = h, .kv_heads = kv, .head_dim = d, .flags = f                                      \
    }
#define ATTEND(s, h, kv, d, w, cap, f)                                                             \
    {                                                                                              \
        .function = "attention", .build = build_attention, .sequences = s, .heads = h,             \
        .kv_heads = kv, .head_dim = d, .window = w, .number = cap, .flags = f                      \
    }
#define PAIR(name, s, k, act)                                                                      \
    {                                                                                              \
        .function = name, .build = build_pair, .sequences = s, .cols = k, .activation = act        \
    }
#define UNARY(name, s, k, act, by)                                                                 \
    {                                                                                              \
        .function = name, .build = build_unary, .sequences = s, .cols = k, .activation = act,      \
        .number = by                                                                               \
    }
#define GATHER(s, k)                                                                               \
    {                                                                                              \
        .function = "gather", .build = build_gather, .sequences = s, .cols = k                     \
    }
#define LINEAR(s, k, e, act, f, by, ...)                                                           \
    {                                                                                              \
        .function = "linear", .build = build_linear, .sequences = s, .cols = k, .epilogue = e,     \
        .activation = act, .flags = f, .number = by, .n = {                                        \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

static const struct kernel_case cases[] = {
    EMBED(few_rows, 512, 0),
    EMBED(many_rows, 1024, 0),
    EMBED(one_row, 576, 0),
    EMBED(some_rows, 35, 0),
    NORM(one_row, 4096, 0),
    NORM(some_rows, 576, K_RESIDUAL),
    NORM(many_rows, 2048, K_GATHER),
    NORM(few_rows, 4096, K_RESIDUAL | K_GATHER),
    NORM(few_rows, 35, K_RESIDUAL | K_UNIT),
    NORM(few_rows, 20488, K_RESIDUAL),
    ROTARY(far_rows, 64, 0),
    ROTARY(many_rows, 32, K_FACTORS),
    ROPE(some_rows, 9, 3, 64, 32, 0),
    ROPE(many_rows, 32, 8, 128, 64, K_NORMS),
    ROPE(few_rows, 4, 4, 80, 40, K_INTERLEAVED | K_NORMS),
    ROPE(few_rows, 8, 2, 128, 32, K_NORMS),
    ROPE(few_rows, 4, 1, 24, 6, K_NORMS),
    ROPE(few_rows, 4, 1, 24, 6, K_INTERLEAVED),
    ROPE(few_rows, 16, 2, 256, 128, 0),
    ROPE(few_rows, 4, 2, 64, 32, K_NO_TABLE),
    ATTEND(one_row, 4, 2, 64, 0, 0, 0),
    ATTEND(short_history, 9, 3, 64, 0, 0, 0),
    ATTEND(short_history, 8, 2, 128, 0, 0, 0),
    ATTEND(long_history, 8, 2, 128, 0, 0, 0),
    ATTEND(deep_history, 4, 4, 128, 0, 0, 0),
    ATTEND(uneven, 8, 2, 128, 0, 0, 0),
    ATTEND(uneven, 6, 3, 64, 900, 0, 0),
    ATTEND(long_history, 14, 2, 64, 0, 0, 0),
    ATTEND(long_history, 20, 1, 128, 0, 0, 0),
    ATTEND(short_history, 4, 2, 32, 0, 0, 0),
    ATTEND(long_history, 4, 2, 96, 0, 0, 0),
    ATTEND(short_history, 4, 2, 80, 0, 0, 0),
    ATTEND(long_history, 4, 2, 256, 0, 0, 0),
    ATTEND(long_history, 8, 4, 64, 100, 0, K_SINKS),
    ATTEND(deep_history, 8, 2, 128, 300, 0, 0),
    ATTEND(long_history, 4, 2, 256, 100, 30, 0),
    ATTEND(short_history, 8, 2, 128, 0, 20, K_SINKS),
    PAIR("add", many_rows, 576, MTR_ACT_NONE),
    PAIR("add", few_rows, 35, MTR_ACT_NONE),
    PAIR("glu", many_rows, 1536, MTR_ACT_SILU),
    PAIR("glu", few_rows, 12288, MTR_ACT_GELU_TANH),
    PAIR("glu", few_rows, 35, MTR_ACT_GELU),
    UNARY("activate", some_rows, 576, MTR_ACT_SILU, 0),
    UNARY("activate", some_rows, 576, MTR_ACT_GELU, 0),
    UNARY("activate", some_rows, 576, MTR_ACT_GELU_TANH, 0),
    UNARY("activate", some_rows, 576, MTR_ACT_RELU, 0),
    UNARY("activate", some_rows, 576, MTR_ACT_RELU2, 0),
    UNARY("activate", some_rows, 576, MTR_ACT_SIGMOID, 0),
    UNARY("scale", some_rows, 576, MTR_ACT_NONE, 0.3f),
    GATHER(many_rows, 576),
    GATHER(few_rows, 35),
    LINEAR(one_row, 512, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0, 96),
    LINEAR(few_rows, 576, MTR_EPILOGUE_NONE, MTR_ACT_NONE, K_BIAS, 0, 576, 192, 192),
    LINEAR(some_rows, 1024, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0.5f, 256, 64, 40),
    LINEAR(some_rows, 512, MTR_EPILOGUE_ADD, MTR_ACT_NONE, 0, 0, 200),
    LINEAR(many_rows, 1024, MTR_EPILOGUE_ADD, MTR_ACT_NONE, K_BIAS, 0, 576),
    LINEAR(few_rows, 512, MTR_EPILOGUE_GLU, MTR_ACT_SILU, 0, 0, 384, 384),
    LINEAR(most_rows, 256, MTR_EPILOGUE_GLU, MTR_ACT_GELU_TANH, 0, 0, 200, 200),
    LINEAR(most_rows, 576, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0, 128, 33),
    LINEAR(many_rows, 512, MTR_EPILOGUE_NONE, MTR_ACT_NONE, K_LOGITS, 0, 1000),
    LINEAR(few_rows, 72, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0, 40),
};

const struct kernel_case *kernel_cases(uint32_t *count)
{
    *count = sizeof cases / sizeof *cases;
    return cases;
}

/* ---- timings: Qwen3-8B, and small launches of Qwen3-Next-80B's widths ---- */

static const struct rig_sequence rows1[] = {{1023, 1}, {0, 0}};
static const struct rig_sequence rows8[] = {{1023, 8}, {0, 0}};
static const struct rig_sequence rows16[] = {{1023, 16}, {0, 0}};
static const struct rig_sequence rows64[] = {{1023, 64}, {0, 0}};
static const struct rig_sequence rows80[] = {{1023, 80}, {0, 0}};
static const struct rig_sequence rows256[] = {{1023, 256}, {0, 0}};
static const struct rig_sequence rows800[] = {{1023, 800}, {0, 0}};
static const struct rig_sequence prompt32[] = {{0, 32}, {0, 0}};
static const struct rig_sequence prompt128[] = {{0, 128}, {0, 0}};
static const struct rig_sequence prompt256[] = {{0, 256}, {0, 0}};
static const struct rig_sequence history64[] = {{63, 1}, {0, 0}};
static const struct rig_sequence history256[] = {{255, 1}, {0, 0}};
static const struct rig_sequence history4k[] = {{4095, 1}, {0, 0}};
static const struct rig_sequence rows512[] = {{0, 512}, {0, 0}};
static const struct rig_sequence rows8192[] = {{0, 8192}, {0, 0}};
static const struct rig_sequence history8k[] = {{8191, 1}, {0, 0}};
static const struct rig_sequence history32k[] = {{32767, 1}, {0, 0}};
static const struct rig_sequence eight1k[] = {{1023, 1}, {1023, 1}, {1023, 1}, {1023, 1},
                                              {1023, 1}, {1023, 1}, {1023, 1}, {1023, 1}};
static const struct rig_sequence eight8k[] = {{8191, 1}, {8191, 1}, {8191, 1}, {8191, 1},
                                              {8191, 1}, {8191, 1}, {8191, 1}, {8191, 1}};
static const struct rig_sequence eight32k[] = {{32767, 1}, {32767, 1}, {32767, 1}, {32767, 1},
                                               {32767, 1}, {32767, 1}, {32767, 1}, {32767, 1}};

#define QKV(s)         LINEAR(s, 4096, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0, 4096, 1024, 1024)
#define PROJ(s)        LINEAR(s, 4096, MTR_EPILOGUE_ADD, MTR_ACT_NONE, 0, 0, 4096)
#define GATE(s)        LINEAR(s, 4096, MTR_EPILOGUE_GLU, MTR_ACT_SILU, 0, 0, 12288, 12288)
#define DOWN(s)        LINEAR(s, 12288, MTR_EPILOGUE_ADD, MTR_ACT_NONE, 0, 0, 4096)
#define LOGITS(s)      LINEAR(s, 4096, MTR_EPILOGUE_NONE, MTR_ACT_NONE, K_LOGITS, 0, 151936)
#define LAYER(s)       QKV(s), PROJ(s), GATE(s), DOWN(s)
#define QHEADS(s)      ATTEND(s, 32, 8, 128, 0, 0, 0)
#define WIDE(s)        ATTEND(s, 16, 2, 256, 0, 0, 0)
#define PLAIN(s, k, n) LINEAR(s, k, MTR_EPILOGUE_NONE, MTR_ACT_NONE, 0, 0, n)

static const struct kernel_case timings[] = {
    EMBED(rows1, 4096, 32768),
    EMBED(rows8192, 4096, 32768),
    NORM(rows1, 4096, K_RESIDUAL),
    NORM(rows64, 4096, K_RESIDUAL),
    NORM(rows8192, 4096, K_RESIDUAL),
    ROTARY(rows1, 64, 0),
    ROPE(rows1, 32, 8, 128, 64, K_NORMS),
    ROPE(rows64, 32, 8, 128, 64, K_NORMS),
    ROPE(rows8192, 32, 8, 128, 64, K_NORMS),
    QHEADS(rows1),
    QHEADS(history8k),
    QHEADS(history32k),
    QHEADS(eight1k),
    QHEADS(eight8k),
    QHEADS(eight32k),
    QHEADS(rows512),
    QHEADS(rows8192),
    PAIR("glu", rows1, 12288, MTR_ACT_SILU),
    PAIR("glu", rows8192, 12288, MTR_ACT_SILU),
    PAIR("add", rows8192, 4096, MTR_ACT_NONE),
    LAYER(rows1),
    LAYER(rows8),
    LAYER(rows16),
    LAYER(rows64),
    LAYER(rows512),
    LAYER(rows8192),
    LOGITS(rows1),
    LOGITS(rows64),
    WIDE(prompt32),
    WIDE(prompt128),
    WIDE(prompt256),
    WIDE(rows512),
    WIDE(history64),
    WIDE(history256),
    WIDE(rows1),
    WIDE(history4k),
    PLAIN(rows80, 2048, 512),
    PLAIN(rows80, 512, 2048),
    PLAIN(rows16, 2048, 256),
    PLAIN(rows256, 256, 256),
    PLAIN(rows80, 2048, 1024),
    NORM(rows1, 2048, 0),
    NORM(rows16, 2048, 0),
    NORM(rows80, 2048, 0),
    PAIR("glu", rows16, 512, MTR_ACT_SILU),
    PAIR("glu", rows80, 512, MTR_ACT_SILU),
    PAIR("glu", rows800, 512, MTR_ACT_SILU),
    ROPE(prompt32, 16, 2, 256, 128, 0),
    ROPE(prompt128, 16, 2, 256, 128, 0),
    ROPE(rows512, 16, 2, 256, 128, 0),
};

const struct kernel_case *kernel_timings(uint32_t *count)
{
    *count = sizeof timings / sizeof *timings;
    return timings;
}

/* ---- about a case ---- */

uint32_t kernel_case_sequences(const struct kernel_case *c)
{
    uint32_t n = 0;
    while (n < RIG_SEQUENCES && c->sequences[n].count)
        n++;
    return n;
}

bool kernel_case_fits(const struct kernel_case *c, const struct mtr_family *family,
                      const struct mtr_point *p)
{
    uint32_t block = p->weight < MTR_FORMAT_COUNT ? mtr_format_info(p->weight)->block_elements : 1;
    bool attention = strcmp(family->name, "attention") == 0;
    if (!mtr_point_is(p, c->function) || c->cols % block ||
        (p->scaling == MTR_SCALING_GROUP16 && c->cols % 16))
        return false;
    /* Rows of a matrix begin on 16 bytes where a copy engine reads them. */
    if (strcmp(family->name, "linear") == 0 && p->max_k && c->cols > p->max_k)
        return false;
    if (p->max_head_dim && c->head_dim > p->max_head_dim)
        return false;
    return !attention || !p->max_group || c->heads / c->kv_heads <= p->max_group;
}

static uint32_t rows_of(const struct kernel_case *c)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < kernel_case_sequences(c); i++)
        rows += c->sequences[i].count;
    return rows;
}

void kernel_case_name(const struct kernel_case *c, char *out, size_t room)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } names[] = {{K_RESIDUAL, "residual"}, {K_GATHER, "gather"},     {K_UNIT, "1 + w"},
                 {K_NORMS, "norms"},       {K_INTERLEAVED, "pairs"}, {K_NO_TABLE, "no rotation"},
                 {K_SINKS, "sinks"},       {K_BIAS, "bias"},         {K_LOGITS, "f32"},
                 {K_FACTORS, "factors"}};
    uint32_t sequences = kernel_case_sequences(c);
    size_t at = (size_t)snprintf(out, room, "rows %u at %u", rows_of(c), c->sequences[0].start);
    if (sequences > 1)
        at += (size_t)snprintf(out + at, room - at, ", sequences %u", sequences);
    if (c->cols)
        at += (size_t)snprintf(out + at, room - at, ", cols %u", c->cols);
    for (int i = 0; i < 4 && c->n[i]; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%u", i ? "+" : ", n ", c->n[i]);
    if (c->epilogue)
        at += (size_t)snprintf(out + at, room - at, ", %s",
                               c->epilogue == MTR_EPILOGUE_ADD ? "add" : "glu");
    if (c->heads)
        at += (size_t)snprintf(out + at, room - at, ", heads %u/%u of %u", c->heads, c->kv_heads,
                               c->head_dim);
    if (c->window)
        at += (size_t)snprintf(out + at, room - at, ", window %u", c->window);
    if (c->activation)
        at += (size_t)snprintf(out + at, room - at, ", activation %u", c->activation);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (c->flags & names[i].flag)
            at += (size_t)snprintf(out + at, room - at, ", %s", names[i].name);
    if (c->number)
        snprintf(out + at, room - at, ", %g", (double)c->number);
}

static void attention_work(const struct kernel_case *c, double *bytes, double *operations)
{
    double seen = 0, read = 0;
    for (uint32_t s = 0; s < kernel_case_sequences(c); s++) {
        double start = c->sequences[s].start, n = c->sequences[s].count;
        seen += n * start + n * (n + 1) / 2;
        read += start + n;
    }
    *operations = 4 * seen * c->heads * c->head_dim;
    *bytes = 2 * (2 * read * c->kv_heads + 2.0 * rows_of(c) * c->heads) * c->head_dim;
}

void kernel_case_work(const struct kernel_case *c, const struct mtr_point *p, double *bytes,
                      double *operations)
{
    double rows = rows_of(c), n = 0;
    *bytes = *operations = 0;
    for (int i = 0; i < 4; i++)
        n += c->n[i];
    if (c->build == build_attention) {
        attention_work(c, bytes, operations);
    } else if (c->build == build_linear) {
        const struct mtr_format_info *f = mtr_format_info(p->weight);
        *operations = 2 * rows * n * c->cols;
        *bytes = n * c->cols / f->block_elements * f->block_bytes + 2 * rows * (c->cols + n);
    } else if (c->build == build_rope_append) {
        *bytes = 4 * rows * (c->heads + 2 * c->kv_heads) * c->head_dim;
    } else if (c->build == build_rms_norm) {
        *bytes = 2 * rows * c->cols * (c->flags & K_RESIDUAL ? 4 : 2);
    } else if (c->build == build_rotary) {
        *bytes = 8 * rows * c->cols;
    } else {
        *bytes = 2 * rows * c->cols * (c->build == build_pair ? 3 : 2);
    }
}
