/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Times the host kernels: kernels-host [threads [instruction set [model]]]
 *
 * First linear_<format>[_<scaling>] on one shape with 1, 8 and 128 rows, then the launches of whole
 * steps of a model of SmolLM2-135M's shape with random weights: one token, eight tokens of eight
 * lanes, a prompt of 512. Shares are of the read bandwidth and the FMA rate that the same run
 * measures. With "model" as the third argument only the steps run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/circuit/ir.h"
#include "common/numeric/format.h"
#include "kernels/args/attention.h"
#include "kernels/args/elementwise.h"
#include "kernels/args/embed.h"
#include "kernels/args/linear.h"
#include "kernels/args/rms_norm.h"
#include "kernels/args/rope.h"
#include "tests/perf/machine_rates.h"
#include "worker/backend/host/host.h"

#define MIN_SECONDS 0.3
#define MIN_ROUNDS  5

static struct mtr_backend *backend;
static struct mtr_machine_rates rates;

static void *memory(size_t bytes)
{
    void *p = backend->ops->alloc(backend, bytes, NULL);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    uint32_t state = 12345;
    for (size_t i = 0; i + 4 <= bytes; i += 4) { /* halves are small f16 and bf16 numbers */
        state = state * 1664525u + 1013904223u;
        uint32_t v = (state >> 8 & 0x83ff83ffu) | 0x20002000u;
        memcpy((char *)p + i, &v, 4);
    }
    return p;
}

static float *floats(size_t count)
{
    float *p = memory(count * sizeof *p);
    for (size_t i = 0; i < count; i++)
        p[i] = (float)(i * 7919 % 1000) * 0.001f - 0.5f;
    return p;
}

static void launch(const char *module, const char *function, uint32_t x, uint32_t y,
                   const void *args, size_t bytes)
{
    struct mtr_error err;
    struct mtr_kernel *k = backend->ops->kernel(backend, module, function, &err);
    const uint32_t grid[3] = {x, y, 1}, block[3] = {1, 1, 1};
    if (!k || !backend->ops->launch(backend, NULL, k, grid, block, 0, args, bytes, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
}

/* ---- one kernel ---- */

static uint32_t tiles(uint32_t n, uint32_t tile)
{
    return (n + tile - 1) / tile;
}

struct kind {
    enum mtr_format format;
    enum mtr_scaling scaling;
};

/* Bytes of the scales in a tensor of their own. */
static size_t scale_bytes(struct kind kind, size_t n, size_t k)
{
    if (kind.scaling == MTR_SCALING_GROUP16)
        return n * k / 16;
    if (kind.scaling == MTR_SCALING_BLOCK)
        return sizeof(float) * tiles((uint32_t)n, 128) * tiles((uint32_t)k, 128);
    return kind.scaling == MTR_SCALING_CHANNEL ? sizeof(float) * n : sizeof(float);
}

static void time_linear(struct kind kind, uint32_t rows, uint32_t n, uint32_t k)
{
    uint64_t row_bytes = 0;
    enum mtr_format f = kind.format;
    mtr_format_row_bytes(f, k, &row_bytes);
    char function[32];
    snprintf(function, sizeof function, "linear_%s%s%s", mtr_format_info(f)->name,
             kind.scaling ? "_" : "", kind.scaling ? mtr_scaling_name(kind.scaling) : "");
    uint8_t *w = memory(row_bytes * n), *scale = memory(scale_bytes(kind, n, k));
    float global = 1;
    float *x = floats((size_t)rows * k), *y = floats((size_t)rows * n);
    struct mtr_step_view step = {.tokens = rows};
    struct mtr_linear_args args = {
        .step = &step,
        .x = x,
        .part =
            {{.weight = w, .scale = scale, .global_scale = &global, .y = y, .n = n, .y_stride = n}},
        .parts = 1,
        .k = k,
        .x_stride = k,
        .multiplier = 1};
    double best = INFINITY, total = 0;
    for (int round = 0; round < MIN_ROUNDS || total < MIN_SECONDS; round++) {
        double start = mtr_perf_now();
        launch("linear", function, tiles(n, MTR_LINEAR_TILE_N), tiles(rows, MTR_LINEAR_TILE_ROWS),
               &args, sizeof args);
        double seconds = mtr_perf_now() - start;
        total += seconds;
        best = fmin(best, seconds);
    }
    double gb = (double)row_bytes * n / best * 1e-9, gflop = 2.0 * rows * n * k / best * 1e-9;
    printf("%-19s rows %4u  %9.1f us  %6.2f GB/s (%3.0f%%)  %7.1f GFLOP/s (%3.0f%%)\n", function,
           rows, best * 1e6, gb, 100 * gb / rates.read_gb_per_s, gflop,
           100 * gflop / rates.fma_gflop_per_s);
    backend->ops->free(backend, w);
    backend->ops->free(backend, scale);
    backend->ops->free(backend, x);
    backend->ops->free(backend, y);
}

/* ---- whole steps ---- */

enum { LAYERS = 30, HIDDEN = 576, HEADS = 9, KV_HEADS = 3, DIM = 64, FFN = 1536, VOCAB = 49152 };
enum { MAX_ROWS = 512, CONTEXT = 1024, LANES = 8, BLOCK = 16, TABLE = CONTEXT / BLOCK };

struct layer {
    void *q, *k, *v, *o, *gate, *up, *down;
    float *norm1, *norm2;
    void *k_cache, *v_cache;
};

struct model {
    struct mtr_step_view step;
    int32_t ids[MAX_ROWS], positions[MAX_ROWS], token_lanes[MAX_ROWS], outputs[LANES];
    int32_t slots[LANES], table[LANES * TABLE];
    struct layer layers[LAYERS];
    void *head;
    float *norm, *inv_freq;
    float *h, *n, *q, *k, *v, *a, *f, *rotary, *logits;
    double by_kind[8]; /* seconds */
};

enum { T_NORM, T_QKV, T_ROPE, T_ATTENTION, T_O, T_GLU, T_DOWN, T_HEAD };
static const char *const kinds[] = {"norm", "qkv", "rope", "attention", "o", "glu", "down", "head"};

static void *q4(uint32_t n, uint32_t k)
{
    return memory((size_t)n * (k / 32) * 20);
}

static void build(struct model *m)
{
    for (int i = 0; i < LAYERS; i++) {
        size_t cache = (size_t)LANES * CONTEXT * KV_HEADS * DIM * 2;
        m->layers[i] = (struct layer){
            q4(HIDDEN, HIDDEN),
            q4(KV_HEADS * DIM, HIDDEN),
            q4(KV_HEADS * DIM, HIDDEN),
            q4(HIDDEN, HIDDEN),
            q4(FFN, HIDDEN),
            q4(FFN, HIDDEN),
            q4(HIDDEN, FFN),
            floats(HIDDEN),
            floats(HIDDEN),
            memory(cache),
            memory(cache),
        };
    }
    m->head = memory((size_t)VOCAB * (HIDDEN / 32) * 34);
    m->norm = floats(HIDDEN);
    m->inv_freq = floats(DIM / 2);
    m->h = floats(MAX_ROWS * HIDDEN);
    m->n = floats(MAX_ROWS * HIDDEN);
    m->q = floats(MAX_ROWS * HIDDEN);
    m->k = floats(MAX_ROWS * KV_HEADS * DIM);
    m->v = floats(MAX_ROWS * KV_HEADS * DIM);
    m->a = floats(MAX_ROWS * HIDDEN);
    m->f = floats(MAX_ROWS * FFN);
    m->rotary = floats(MAX_ROWS * DIM);
    m->logits = floats(LANES * VOCAB);
    for (int i = 0; i < LANES * TABLE; i++)
        m->table[i] = i;
    for (int i = 0; i < LANES; i++)
        m->slots[i] = i;
    m->step = (struct mtr_step_view){.token_ids = m->ids,
                                     .positions = m->positions,
                                     .token_lanes = m->token_lanes,
                                     .lane_slots = m->slots,
                                     .output_rows = m->outputs};
    m->step.tables[0] = m->table;
    m->step.table_stride[0] = TABLE;
}

/* lanes of rows / lanes rows, each after `past` tokens; one output a lane. */
static void arrange(struct model *m, uint32_t lanes, uint32_t rows, uint32_t past)
{
    m->step.tokens = rows;
    m->step.lanes = m->step.outputs = lanes;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t lane = r / (rows / lanes), at = r % (rows / lanes);
        m->token_lanes[r] = (int32_t)lane;
        m->positions[r] = (int32_t)(past + at);
        m->ids[r] = (int32_t)(r * 31 % VOCAB);
        m->outputs[lane] = (int32_t)r;
    }
}

static void timed(struct model *m, int kind, const char *module, const char *function, uint32_t x,
                  uint32_t y, const void *args, size_t bytes)
{
    double start = mtr_perf_now();
    launch(module, function, x, y, args, bytes);
    m->by_kind[kind] += mtr_perf_now() - start;
}

static void norm(struct model *m, const float *weight, bool gather)
{
    struct mtr_rms_norm_args args = {.step = &m->step,
                                     .x = m->h,
                                     .weight = weight,
                                     .y = m->n,
                                     .gather = gather ? m->outputs : NULL,
                                     .rows_kind = gather ? MTR_ROWS_OUTPUTS : MTR_ROWS_TOKENS,
                                     .cols = HIDDEN,
                                     .eps = 1e-5f};
    timed(m, T_NORM, "rms_norm", "rms_norm", gather ? m->step.outputs : m->step.tokens, 1, &args,
          sizeof args);
}

static void linear(struct model *m, int kind, const float *x, uint32_t k, uint32_t parts,
                   const struct mtr_linear_part *part, enum mtr_epilogue epilogue)
{
    uint32_t rows = kind == T_HEAD ? m->step.outputs : m->step.tokens, count = 0;
    struct mtr_linear_args args = {.step = &m->step,
                                   .x = x,
                                   .parts = parts,
                                   .k = k,
                                   .x_stride = k,
                                   .rows_kind = kind == T_HEAD ? MTR_ROWS_OUTPUTS : MTR_ROWS_TOKENS,
                                   .epilogue = epilogue,
                                   .activation = MTR_ACT_SILU,
                                   .multiplier = 1};
    for (uint32_t i = 0; i < parts; i++) {
        args.part[i] = part[i];
        if (i == 0 || epilogue != MTR_EPILOGUE_GLU)
            count += tiles(part[i].n, MTR_LINEAR_TILE_N);
    }
    timed(m, kind, "linear", kind == T_HEAD ? "linear_q8_0" : "linear_q4_1", count,
          tiles(rows, MTR_LINEAR_TILE_ROWS), &args, sizeof args);
}

static void attend(struct model *m, const struct layer *l)
{
    struct mtr_rope_append_args rope = {.step = &m->step,
                                        .q = m->q,
                                        .k = m->k,
                                        .v = m->v,
                                        .table = m->rotary,
                                        .k_cache = l->k_cache,
                                        .v_cache = l->v_cache,
                                        .heads = HEADS,
                                        .kv_heads = KV_HEADS,
                                        .head_dim = DIM,
                                        .pairs = DIM / 2,
                                        .block_tokens = BLOCK};
    timed(m, T_ROPE, "rope", "rope_append_bf16", m->step.tokens, 1, &rope, sizeof rope);
    struct mtr_attention_args attention = {.step = &m->step,
                                           .q = m->q,
                                           .k_cache = l->k_cache,
                                           .v_cache = l->v_cache,
                                           .out = m->a,
                                           .heads = HEADS,
                                           .kv_heads = KV_HEADS,
                                           .head_dim = DIM,
                                           .block_tokens = BLOCK,
                                           .scale = 0.125f};
    bool decode = m->step.tokens == m->step.lanes;
    uint32_t row_tiles = tiles(m->step.tokens, decode ? 1 : MTR_ATTENTION_TILE_ROWS);
    timed(m, T_ATTENTION, "attention", "attention_bf16", KV_HEADS, row_tiles, &attention,
          sizeof attention);
}

static void run_step(struct model *m)
{
    struct mtr_embed_args embed = {&m->step, m->head, m->h, HIDDEN, 1};
    launch("embed", "embed_q8_0", m->step.tokens, 1, &embed, sizeof embed);
    struct mtr_rotary_args rotary = {&m->step, m->inv_freq, m->rotary, DIM / 2, 1};
    launch("rope", "rotary", m->step.tokens, 1, &rotary, sizeof rotary);
    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &m->layers[i];
        norm(m, l->norm1, false);
        const struct mtr_linear_part qkv[] = {
            {.weight = l->q, .y = m->q, .n = HIDDEN, .y_stride = HIDDEN},
            {.weight = l->k, .y = m->k, .n = KV_HEADS * DIM, .y_stride = KV_HEADS * DIM},
            {.weight = l->v, .y = m->v, .n = KV_HEADS * DIM, .y_stride = KV_HEADS * DIM},
        };
        linear(m, T_QKV, m->n, HIDDEN, 3, qkv, MTR_EPILOGUE_NONE);
        attend(m, l);
        const struct mtr_linear_part o = {
            .weight = l->o, .y = m->h, .n = HIDDEN, .y_stride = HIDDEN};
        linear(m, T_O, m->a, HIDDEN, 1, &o, MTR_EPILOGUE_ADD);
        norm(m, l->norm2, false);
        const struct mtr_linear_part glu[] = {
            {.weight = l->gate, .y = m->f, .n = FFN, .y_stride = FFN},
            {.weight = l->up, .y = m->f, .n = FFN, .y_stride = FFN},
        };
        linear(m, T_GLU, m->n, HIDDEN, 2, glu, MTR_EPILOGUE_GLU);
        const struct mtr_linear_part down = {
            .weight = l->down, .y = m->h, .n = HIDDEN, .y_stride = HIDDEN};
        linear(m, T_DOWN, m->f, FFN, 1, &down, MTR_EPILOGUE_ADD);
    }
    norm(m, m->norm, true);
    const struct mtr_linear_part head = {
        .weight = m->head, .y = m->logits, .n = VOCAB, .y_stride = VOCAB};
    linear(m, T_HEAD, m->n, HIDDEN, 1, &head, MTR_EPILOGUE_NONE);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define MAX_STEPS 1000

static void time_steps(struct model *m, const char *name, uint32_t lanes, uint32_t rows,
                       uint32_t past)
{
    static double seconds[MAX_STEPS];
    double total = 0;
    int count = 0;
    arrange(m, lanes, rows, past);
    run_step(m);
    memset(m->by_kind, 0, sizeof m->by_kind);
    while (count < MAX_STEPS && (count < MIN_ROUNDS || total < 5 * MIN_SECONDS)) {
        double start = mtr_perf_now();
        run_step(m);
        seconds[count] = mtr_perf_now() - start;
        total += seconds[count++];
    }
    qsort(seconds, (size_t)count, sizeof *seconds, compare);
    double best = seconds[0], median = seconds[count / 2], parameters = 0;
    parameters += LAYERS * (2.0 * HIDDEN * (HIDDEN + KV_HEADS * DIM) + 3.0 * HIDDEN * FFN);
    double bytes = parameters * 20 / 32 + (double)VOCAB * HIDDEN * 34 / 32;
    double flops = 2 * (parameters * rows + (double)VOCAB * HIDDEN * lanes);
    printf("%-24s median %8.3f ms, best %8.3f ms: %7.1f tokens/s", name, median * 1e3, best * 1e3,
           rows / median);
    printf("  (%.0f%% of bandwidth, %.0f%% of FMA)\n",
           100 * bytes / best * 1e-9 / rates.read_gb_per_s,
           100 * flops / best * 1e-9 / rates.fma_gflop_per_s);
    for (int i = 0; i < 8; i++)
        printf("    %s %.3f", kinds[i], m->by_kind[i] / count * 1e3);
    printf(" ms\n");
}

int main(int argc, char **argv)
{
    struct mtr_error err;
    struct mtr_host_options options = {
        .threads = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0,
        .instruction_set = argc > 2 && strcmp(argv[2], "best") != 0 ? argv[2] : NULL};
    backend = mtr_host_backend_create(&options, &err);
    struct mtr_device_info info;
    if (!backend || !backend->ops->info(backend, &info, &err)) {
        fprintf(stderr, "kernels-host: %s\n", err.message);
        return 1;
    }
    rates = mtr_measure_machine(backend);
    printf("%s, %u threads: reads %.1f GB/s, %.0f GFLOP/s f32\n", info.name, info.processors,
           rates.read_gb_per_s, rates.fma_gflop_per_s);
    /* clang-format off */
    static const struct kind forms[] = {
        {MTR_F32}, {MTR_F16}, {MTR_BF16}, {MTR_Q4_0}, {MTR_Q4_1}, {MTR_Q5_0}, {MTR_Q5_1},
        {MTR_Q8_0}, {MTR_Q4_K}, {MTR_Q5_K}, {MTR_Q6_K},
        {MTR_E4M3, MTR_SCALING_TENSOR}, {MTR_E4M3, MTR_SCALING_CHANNEL},
        {MTR_E4M3, MTR_SCALING_BLOCK}, {MTR_E2M1, MTR_SCALING_GROUP16},
    };
    /* clang-format on */
    static const uint32_t rows[] = {1, 2, 4, 8, 128};
    for (size_t f = 0; argc < 4 && f < sizeof forms / sizeof *forms; f++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            time_linear(forms[f], rows[r], 3072, 1536);
    static struct model m;
    build(&m);
    time_steps(&m, "decode, 1 lane at 128", 1, 1, 128);
    time_steps(&m, "decode, 1 lane at 1000", 1, 1, 1000);
    time_steps(&m, "decode, 8 lanes at 128", 8, 8, 128);
    time_steps(&m, "prefill 512", 1, 512, 0);
    backend->ops->destroy(backend);
    return 0;
}
