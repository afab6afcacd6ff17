/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* attention_*: against f64 softmax over a shuffled paged cache; the same bits for a row whatever
 * rows it shares a step or a tile with. Cache memory that a row may not see is NaN. */
#include "kernels/args/attention.h"

#include "tests/unit/kernels/kernel_test.h"

#define BLOCK_TOKENS 16
#define TABLE        24 /* blocks a lane may have: 384 tokens */
#define LANES        3

struct shape {
    uint32_t heads, kv_heads, head_dim, window;
    float softcap;
    bool sinks;
};

struct world {
    const struct shape *s;
    bool bf16;
    uint32_t starts[LANES], rows[LANES], tokens;
    int32_t *positions, *token_lanes, slots[LANES], tables[LANES * TABLE];
    float *q, *sinks, *k, *v; /* k, v [lanes, TABLE * BLOCK_TOKENS, kv_heads, head_dim] */
    void *k_cache, *v_cache;
    struct mtr_step_view step;
};

static size_t history_at(const struct world *w, uint32_t lane, uint32_t t, uint32_t h)
{
    return (((size_t)lane * TABLE * BLOCK_TOKENS + t) * w->s->kv_heads + h) * w->s->head_dim;
}

static void put(const struct world *w, void *cache, size_t at, float *value)
{
    if (!w->bf16) {
        ((float *)cache)[at] = *value;
        return;
    }
    ((uint16_t *)cache)[at] = mtr_bf16_from_f32(*value);
    *value = mtr_bf16_to_f32(((uint16_t *)cache)[at]);
}

/* Fills the caches with each lane's tokens up to its last row's position. */
static void fill(struct world *w)
{
    const struct shape *s = w->s;
    for (uint32_t lane = 0; lane < LANES; lane++)
        for (uint32_t t = 0; t < w->starts[lane] + w->rows[lane]; t++)
            for (uint32_t h = 0; h < s->kv_heads; h++) {
                size_t block = (size_t)w->tables[w->slots[lane] * TABLE + (int)(t / BLOCK_TOKENS)];
                size_t to =
                    ((block * s->kv_heads + h) * BLOCK_TOKENS + t % BLOCK_TOKENS) * s->head_dim;
                size_t from = history_at(w, lane, t, h);
                for (uint32_t i = 0; i < s->head_dim; i++) {
                    put(w, w->k_cache, to + i, &w->k[from + i]);
                    put(w, w->v_cache, to + i, &w->v[from + i]);
                }
            }
}

static void make(struct world *w, struct noise *n, const struct shape *s, bool bf16,
                 const uint32_t *starts, const uint32_t *rows)
{
    *w = (struct world){.s = s, .bf16 = bf16};
    for (int lane = 0; lane < LANES; lane++) {
        w->starts[lane] = starts[lane];
        w->rows[lane] = rows[lane];
        w->tokens += rows[lane];
        w->slots[lane] = (lane + 1) % LANES;
    }
    for (int i = 0; i < LANES * TABLE; i++) /* a permutation */
        w->tables[i] = (i * 7 + 3) % (LANES * TABLE);
    w->positions = must_alloc(w->tokens * 4);
    w->token_lanes = must_alloc(w->tokens * 4);
    uint32_t at = 0;
    for (int32_t lane = 0; lane < LANES; lane++)
        for (uint32_t r = 0; r < rows[lane]; r++, at++) {
            w->positions[at] = (int32_t)(starts[lane] + r);
            w->token_lanes[at] = lane;
        }
    size_t history = (size_t)LANES * TABLE * BLOCK_TOKENS * s->kv_heads * s->head_dim;
    w->q = noise_floats(n, (size_t)w->tokens * s->heads * s->head_dim);
    w->k = noise_floats(n, history);
    w->v = noise_floats(n, history);
    w->sinks = noise_floats(n, s->heads);
    w->k_cache = must_alloc(history * 4);
    w->v_cache = must_alloc(history * 4);
    poison(w->k_cache, history * 4);
    poison(w->v_cache, history * 4);
    fill(w);
    w->step = (struct mtr_step_view){.tokens = w->tokens,
                                     .lanes = LANES,
                                     .positions = w->positions,
                                     .token_lanes = w->token_lanes,
                                     .lane_slots = w->slots};
    w->step.tables[2] = w->tables;
    w->step.table_stride[2] = TABLE;
}

static void drop(struct world *w)
{
    void *all[] = {w->positions, w->token_lanes, w->q,       w->k,
                   w->v,         w->sinks,       w->k_cache, w->v_cache};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Runs rows [first, first + rows) as a step of their own, tile rows a block. */
static float *run(const struct world *w, enum mtr_isa isa, uint32_t first, uint32_t rows,
                  uint32_t tile)
{
    const struct shape *s = w->s;
    size_t row = (size_t)s->heads * s->head_dim;
    float *out = must_alloc(rows * row * sizeof *out);
    poison(out, rows * row * sizeof *out);
    struct mtr_step_view step = w->step;
    step.tokens = rows;
    step.positions += first;
    step.token_lanes += first;
    struct mtr_attention_args args = {.step = &step,
                                      .q = w->q + first * row,
                                      .k_cache = w->k_cache,
                                      .v_cache = w->v_cache,
                                      .sinks = s->sinks ? w->sinks : NULL,
                                      .out = out,
                                      .group = 2,
                                      .heads = s->heads,
                                      .kv_heads = s->kv_heads,
                                      .head_dim = s->head_dim,
                                      .block_tokens = BLOCK_TOKENS,
                                      .window = s->window,
                                      .scale = 1.5f / sqrtf((float)s->head_dim),
                                      .softcap = s->softcap};
    run_kernel(w->bf16 ? "attention_bf16" : "attention_f32", isa, &args, s->kv_heads,
               (rows + tile - 1) / tile);
    return out;
}

static void reference_row(const struct world *w, uint32_t r, uint32_t h, double *out)
{
    const struct shape *s = w->s;
    uint32_t lane = (uint32_t)w->token_lanes[r], p = (uint32_t)w->positions[r];
    uint32_t kv = h / (s->heads / s->kv_heads), dim = s->head_dim;
    uint32_t first = s->window && p >= s->window ? p - s->window + 1 : 0;
    const float *q = w->q + ((size_t)r * s->heads + h) * dim;
    double weights[TABLE * BLOCK_TOKENS], top = s->sinks ? w->sinks[h] : -INFINITY, sum = 0;
    for (uint32_t t = first; t <= p; t++) {
        double dot = 0;
        for (uint32_t i = 0; i < dim; i++)
            dot += (double)q[i] * w->k[history_at(w, lane, t, kv) + i];
        dot *= 1.5 / sqrt((double)dim);
        if (s->softcap != 0)
            dot = s->softcap * tanh(dot / s->softcap);
        weights[t] = dot;
        top = fmax(top, dot);
    }
    for (uint32_t i = 0; i < dim; i++)
        out[i] = 0;
    for (uint32_t t = first; t <= p; t++) {
        double e = exp(weights[t] - top);
        sum += e;
        for (uint32_t i = 0; i < dim; i++)
            out[i] += e * w->v[history_at(w, lane, t, kv) + i];
    }
    if (s->sinks)
        sum += exp(w->sinks[h] - top);
    for (uint32_t i = 0; i < dim; i++)
        out[i] /= sum;
}

static const struct shape shapes[] = {
    {9, 3, 64, 0, 0, false},  {4, 4, 128, 0, 0, false}, {8, 1, 80, 0, 0, true},
    {4, 2, 72, 50, 0, false}, {2, 1, 256, 0, 5, false}, {6, 2, 20, 16, 3, true},
};
#define SHAPES (int)(sizeof shapes / sizeof *shapes)

START_TEST(values)
{
    struct noise n = {(uint64_t)_i + 1};
    const uint32_t starts[LANES] = {0, 61, 300}, rows[LANES] = {150, 4, 1};
    struct world w;
    make(&w, &n, &shapes[_i / 2], _i & 1, starts, rows);
    float *got = run(&w, MTR_ISA_PORTABLE, 0, w.tokens, 16);
    double want[256];
    for (uint32_t r = 0; r < w.tokens; r++)
        for (uint32_t h = 0; h < w.s->heads; h++) {
            reference_row(&w, r, h, want);
            for (uint32_t i = 0; i < w.s->head_dim; i++) {
                float v = got[((size_t)r * w.s->heads + h) * w.s->head_dim + i];
                ck_assert_msg(fabs(v - want[i]) < 4e-6, "shape %d row %u head %u [%u]: %g, not %g",
                              _i / 2, r, h, i, (double)v, want[i]);
            }
        }
    FOR_EACH_ISA(isa)
    {
        float *other = run(&w, isa, 0, w.tokens, 16);
        same_bits(got, other, (size_t)w.tokens * w.s->heads * w.s->head_dim, "attention", isa);
        free(other);
    }
    free(got);
    drop(&w);
}
END_TEST

START_TEST(a_row_is_itself_in_company)
{
    struct noise n = {(uint64_t)_i + 50};
    const uint32_t starts[LANES] = {3, 17, 130}, rows[LANES] = {90, 33, 20};
    struct world w;
    make(&w, &n, &shapes[_i / 2], _i & 1, starts, rows);
    size_t row = (size_t)w.s->heads * w.s->head_dim;
    FOR_EACH_ISA(isa)
    {
        float *all = run(&w, isa, 0, w.tokens, 16);
        const uint32_t tiles[] = {1, 7, 64, 1000};
        for (int i = 0; i < 4; i++) {
            float *other = run(&w, isa, 0, w.tokens, tiles[i]);
            same_bits(all, other, w.tokens * row, "attention", isa);
            free(other);
        }
        for (uint32_t r = 0; r < w.tokens; r += 11) {
            float *alone = run(&w, isa, r, 1, 1);
            same_bits(all + r * row, alone, row, "attention", isa);
            free(alone);
        }
        free(all);
    }
    drop(&w);
}
END_TEST

MTR_CHECK_MAIN("kernels/attention")
{
    tcase_add_loop_test(tc, values, 0, 2 * SHAPES);
    tcase_add_loop_test(tc, a_row_is_itself_in_company, 0, 2 * SHAPES);
}
