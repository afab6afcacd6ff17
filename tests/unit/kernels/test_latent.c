/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Latent attention, from latents and queries to values, against its definition in double, which
 * makes every head's keys and values; the same bits however the rows are cut into steps. */
#include "kernels/args/latent.h"

#include <stdio.h>

#include "kernels/args/attention.h"
#include "kernels/args/linear.h"
#include "tests/unit/kernels/kernel_test.h"

#define BLOCK_TOKENS 16
#define TABLE        12 /* blocks of the lane: 192 tokens */
#define TOKENS       150
#define LENGTH       64 /* of query_beta */

struct shape {
    uint32_t heads, parts, nope, value, rank, pairs;
    uint32_t interleaved;
    enum mtr_format weight;
};

struct world {
    const struct shape *s;
    bool bf16;
    float *q, *kv, *norm, *table, *w32, beta;
    uint8_t *weight;
    void *cache;
    int32_t positions[TOKENS], lanes[TOKENS], slot, blocks[2 * TABLE];
};

static uint32_t dim_of(const struct shape *s)
{
    return s->rank + 2 * s->pairs;
}

static void make(struct world *w, const struct shape *s, bool bf16, float beta, struct noise *n)
{
    size_t rows = (size_t)s->heads * (s->nope + s->value);
    *w = (struct world){.s = s, .bf16 = bf16, .slot = 1, .beta = beta};
    w->q = noise_floats(n, (size_t)TOKENS * s->heads * (s->nope + 2 * s->pairs));
    w->kv = noise_floats(n, (size_t)TOKENS * dim_of(s));
    for (size_t i = 0;
         s->weight >= MTR_Q4_0 && i < (size_t)TOKENS * s->heads * (s->nope + 2 * s->pairs); i++)
        w->q[i] *= 0.01f; /* such weights are large */
    w->norm = noise_floats(n, s->rank);
    w->table = must_alloc(TOKENS * 2ul * s->pairs * sizeof(float));
    w->weight = noise_weights(n, s->weight, rows, s->rank);
    w->w32 = dequantized(s->weight, w->weight, rows, s->rank);
    w->cache = must_alloc(2ul * TABLE * BLOCK_TOKENS * dim_of(s) * sizeof(float));
    for (int32_t t = 0; t < TOKENS; t++) {
        w->positions[t] = t;
        for (uint32_t i = 0; i < s->pairs; i++) {
            w->table[t * 2 * (int)s->pairs + (int)i] = cosf(0.3f * (float)(t * (int)(i + 1)));
            w->table[(t * 2 + 1) * (int)s->pairs + (int)i] = sinf(0.3f * (float)(t * (int)(i + 1)));
        }
    }
    for (int32_t i = 0; i < 2 * TABLE; i++) /* a permutation */
        w->blocks[i] = (i * 7 + 3) % (2 * TABLE);
}

static void drop(struct world *w)
{
    void *all[] = {w->q, w->kv, w->norm, w->table, w->w32, w->weight, w->cache};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void call(enum mtr_isa isa, const char *name, const char *format, const void *args,
                 uint32_t x, uint32_t y)
{
    char function[64];
    snprintf(function, sizeof function, "%s_%s", name, format);
    run_kernel(function, isa, args, x, y);
}

/* Rows [first, first + rows) as a step; out [rows, heads, value] */
static void step(const struct world *w, enum mtr_isa isa, uint32_t first, uint32_t rows, float *out)
{
    const struct shape *s = w->s;
    uint32_t dim = dim_of(s), x_dim = s->nope + 2 * s->pairs;
    size_t wide = (size_t)rows * s->heads * dim;
    const char *cache = w->bf16 ? "bf16" : "f32", *weight = mtr_format_info(s->weight)->name;
    float *query = must_alloc(wide * sizeof *query), *found = must_alloc(wide * sizeof *found);
    poison(query, wide * sizeof *query);
    poison(found, wide * sizeof *found);
    struct mtr_step_view view = {.tokens = rows,
                                 .lanes = 1,
                                 .positions = w->positions + first,
                                 .token_lanes = w->lanes,
                                 .lane_slots = &w->slot};
    view.tables[2] = w->blocks;
    view.table_stride[2] = TABLE;
    const float *table = w->table + (size_t)first * 2 * s->pairs;
    call(isa, "latent_append", cache,
         &(struct mtr_latent_append_args){&view, w->kv + (size_t)first * dim, w->norm, table,
                                          w->cache, 2, s->rank, s->pairs, s->interleaved,
                                          BLOCK_TOKENS, 1e-6f, 0},
         3, 1);
    struct mtr_latent_heads_args heads = {.step = &view,
                                          .x = w->q + (size_t)first * s->heads * x_dim,
                                          .weight = w->weight,
                                          .table = table,
                                          .y = query,
                                          .heads = s->heads,
                                          .nope = s->nope,
                                          .value = s->value,
                                          .rank = s->rank,
                                          .pairs = s->pairs,
                                          .x_dim = x_dim,
                                          .interleaved = s->interleaved,
                                          .query_beta = w->beta,
                                          .query_length = LENGTH};
    call(isa, "latent_query", weight, &heads, (rows + 15) / 16, s->heads);
    call(isa, "latent_attention", cache,
         &(struct mtr_attention_args){.step = &view,
                                      .q = query,
                                      .k_cache = w->cache,
                                      .v_cache = w->cache,
                                      .out = found,
                                      .group = 2,
                                      .heads = s->heads,
                                      .kv_heads = s->parts,
                                      .head_dim = dim,
                                      .block_tokens = BLOCK_TOKENS,
                                      .scale = 0.5f},
         s->parts, (rows + 15) / 16);
    heads.x = found;
    heads.x_dim = dim;
    heads.y = out;
    call(isa, "latent_value", weight, &heads, (rows + 15) / 16, s->heads);
    free(query);
    free(found);
}

static void run(const struct world *w, enum mtr_isa isa, uint32_t cut, float *out)
{
    const struct shape *s = w->s;
    size_t row = (size_t)s->heads * s->value;
    poison(w->cache, 2ul * TABLE * BLOCK_TOKENS * dim_of(s) * sizeof(float));
    poison(out, TOKENS * row * sizeof *out);
    for (uint32_t t = 0; t < TOKENS; t += cut)
        step(w, isa, t, TOKENS - t < cut ? TOKENS - t : cut, out + t * row);
}

/* ---- the definition ---- */

static void turned(const struct world *w, uint32_t t, const float *x, double *y)
{
    uint32_t n = w->s->pairs;
    const float *c = w->table + (size_t)t * 2 * n, *sine = c + n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t a = w->s->interleaved ? 2 * i : i, b = w->s->interleaved ? 2 * i + 1 : i + n;
        y[a] = (double)x[a] * (double)c[i] - (double)x[b] * (double)sine[i];
        y[b] = (double)x[b] * (double)c[i] + (double)x[a] * (double)sine[i];
    }
}

/* Cache entries in double, of bf16 caches as they are rounded. [TOKENS, dim] */
static double *entries(const struct world *w)
{
    const struct shape *s = w->s;
    uint32_t dim = dim_of(s);
    double *all = must_alloc(TOKENS * (size_t)dim * sizeof *all);
    for (uint32_t t = 0; t < TOKENS; t++) {
        const float *kv = w->kv + (size_t)t * dim;
        double sum = 0, *e = all + (size_t)t * dim;
        for (uint32_t i = 0; i < s->rank; i++)
            sum += (double)kv[i] * (double)kv[i];
        for (uint32_t i = 0; i < s->rank; i++)
            e[i] = (double)kv[i] / sqrt(sum / s->rank + 1e-6) * (double)w->norm[i];
        turned(w, t, kv + s->rank, e + s->rank);
    }
    return all;
}

static double through(const struct world *w, uint32_t row, const double *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < w->s->rank; i++)
        sum += (double)w->w32[(size_t)row * w->s->rank + i] * c[i];
    return sum;
}

/* One row and head: out [value] */
static void expected(const struct world *w, const double *e, uint32_t t, uint32_t h, double *out)
{
    const struct shape *s = w->s;
    uint32_t dim = dim_of(s), x_dim = s->nope + 2 * s->pairs, first = h * (s->nope + s->value);
    const float *q = w->q + ((size_t)t * s->heads + h) * x_dim;
    double rope[64], weights[TOKENS], top = -INFINITY, sum = 0;
    double factor = 1 + (double)w->beta * log(1 + floor((double)t / LENGTH));
    turned(w, t, q + s->nope, rope);
    for (uint32_t p = 0; p <= t; p++) {
        const double *c = e + (size_t)p * dim;
        double dot = 0;
        for (uint32_t d = 0; d < s->nope; d++)
            dot += (double)q[d] * through(w, first + d, c);
        for (uint32_t i = 0; i < 2 * s->pairs; i++)
            dot += rope[i] * c[s->rank + i];
        weights[p] = dot * factor * 0.5;
        top = fmax(top, weights[p]);
    }
    memset(out, 0, s->value * sizeof *out);
    for (uint32_t p = 0; p <= t; p++) {
        double share = exp(weights[p] - top);
        sum += share;
        for (uint32_t d = 0; d < s->value; d++)
            out[d] += share * through(w, first + s->nope + d, e + (size_t)p * dim);
    }
    for (uint32_t d = 0; d < s->value; d++)
        out[d] /= sum;
}

static const struct shape shapes[] = {
    {4, 1, 16, 32, 32, 8, 1, MTR_BF16}, {6, 3, 12, 20, 40, 5, 0, MTR_F32},
    {3, 3, 7, 9, 24, 4, 1, MTR_F16},    {2, 1, 8, 16, 64, 8, 0, MTR_Q8_0},
    {2, 2, 8, 16, 256, 8, 1, MTR_Q4_K}, {1, 1, 1, 1, 16, 1, 1, MTR_F32},
};

START_TEST(values_however_it_is_cut)
{
    static const uint32_t cuts[] = {150, 1, 16, 7, 64};
    struct noise n = {(uint64_t)_i + 1};
    struct world w;
    make(&w, &shapes[_i / 2], _i & 1, _i % 3 ? 0.4f : 0, &n);
    size_t row = (size_t)w.s->heads * w.s->value, count = TOKENS * row;
    float *first = must_alloc(count * sizeof *first), *y = must_alloc(count * sizeof *y);
    double want[32], *e = entries(&w), tolerance = w.bf16 ? 0.02 : 1e-5;
    run(&w, MTR_ISA_PORTABLE, cuts[0], first);
    for (uint32_t t = 0; t < TOKENS; t += 1 + t / 8)
        for (uint32_t h = 0; h < w.s->heads; h++) {
            double most = 0;
            expected(&w, e, t, h, want);
            for (uint32_t d = 0; d < w.s->value; d++)
                most = fmax(most, fabs(want[d]));
            for (uint32_t d = 0; d < w.s->value; d++) {
                double got = (double)first[t * row + h * w.s->value + d];
                ck_assert_msg(fabs(got - want[d]) <= tolerance * (1 + most),
                              "shape %d row %u head %u [%u]: %g, not %g", _i / 2, t, h, d, got,
                              want[d]);
            }
        }
    FOR_EACH_ISA(isa)
    {
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            run(&w, isa, cuts[k], y);
            same_bits(first, y, count, "latent attention", isa);
        }
    }
    free(first);
    free(y);
    free(e);
    drop(&w);
}
END_TEST

/* Scales in tensors of their own: the same as of the plain matrix that they make. */
START_TEST(scaled_matrices)
{
    enum { HEADS = 3, NOPE = 40, VALUE = 50, RANK = 160, ROWS = HEADS * (NOPE + VALUE) };
    static const char *const names[] = {"e4m3_tensor", "e4m3_channel", "e4m3_block"};
    struct noise n = {9};
    uint8_t *w8 = must_alloc(ROWS * RANK);
    float *scale = noise_floats(&n, ROWS), *plain = must_alloc(ROWS * RANK * sizeof *plain);
    float *x = noise_floats(&n, HEADS * RANK), want[HEADS * VALUE], got[HEADS * VALUE];
    struct mtr_step_view view = {.tokens = 1};
    for (int i = 0; i < ROWS * RANK; i++)
        w8[i] = (uint8_t)(noise_u32(&n) & 0xbf); /* no NaN */
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < ROWS * RANK; i++) {
            int r = i / RANK, c = i % RANK;
            int at = k == 0 ? 0 : k == 1 ? r : r / 128 * 2 + c / 128;
            plain[i] = mtr_e4m3_to_f32(w8[i]) * scale[at];
        }
        struct mtr_latent_heads_args a = {.step = &view,
                                          .x = x,
                                          .weight = plain,
                                          .y = want,
                                          .heads = HEADS,
                                          .nope = NOPE,
                                          .value = VALUE,
                                          .rank = RANK,
                                          .x_dim = RANK};
        run_kernel("latent_value_f32", MTR_ISA_PORTABLE, &a, 1, HEADS);
        a.weight = w8;
        a.scale = scale;
        a.y = got;
        FOR_EACH_ISA(isa)
        {
            poison(got, sizeof got);
            call(isa, "latent_value", names[k], &a, 1, HEADS);
            same_bits(want, got, HEADS * VALUE, names[k], isa);
        }
    }
    free(w8);
    free(scale);
    free(plain);
    free(x);
}
END_TEST

/* NVFP4: two a byte, the even column low; a scale for sixteen, and one for all. */
START_TEST(grouped_matrices)
{
    enum { HEADS = 2, NOPE = 5, VALUE = 7, RANK = 48, ROWS = HEADS * (NOPE + VALUE) };
    struct noise n = {11};
    uint8_t packed[ROWS * RANK / 2], scale[ROWS * RANK / 16];
    float *plain = must_alloc(ROWS * RANK * sizeof *plain), global = 0.37f, table[2] = {1, 0};
    float *x = noise_floats(&n, HEADS * (NOPE + 2)), want[HEADS * (RANK + 2)],
          got[HEADS * (RANK + 2)];
    int32_t position = 0;
    struct mtr_step_view view = {.tokens = 1, .positions = &position};
    for (size_t i = 0; i < sizeof packed; i++)
        packed[i] = (uint8_t)noise_u32(&n);
    for (size_t i = 0; i < sizeof scale; i++)
        scale[i] = (uint8_t)(noise_u32(&n) & 0x3f);
    for (int i = 0; i < ROWS * RANK; i++)
        plain[i] = mtr_e2m1_to_f32((uint8_t)(packed[i / 2] >> (i & 1 ? 4 : 0) & 15)) *
                   (mtr_e4m3_to_f32(scale[i / 16]) * global);
    struct mtr_latent_heads_args a = {.step = &view,
                                      .x = x,
                                      .weight = plain,
                                      .table = table,
                                      .y = want,
                                      .heads = HEADS,
                                      .nope = NOPE,
                                      .value = VALUE,
                                      .rank = RANK,
                                      .pairs = 1,
                                      .x_dim = NOPE + 2};
    run_kernel("latent_query_f32", MTR_ISA_PORTABLE, &a, 1, HEADS);
    a.weight = packed;
    a.scale = scale;
    a.global_scale = &global;
    a.y = got;
    FOR_EACH_ISA(isa)
    {
        poison(got, sizeof got);
        call(isa, "latent_query", "e2m1_group16", &a, 1, HEADS);
        same_bits(want, got, HEADS * (RANK + 2), "e2m1_group16", isa);
    }
    free(plain);
    free(x);
}
END_TEST

MTR_CHECK_MAIN("kernels/latent")
{
    tcase_add_loop_test(tc, values_however_it_is_cut, 0, 12);
    tcase_add_test(tc, scaled_matrices);
    tcase_add_test(tc, grouped_matrices);
}
