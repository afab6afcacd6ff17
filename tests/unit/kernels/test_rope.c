/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rope_append_*: rotation, head norms, and where k and v land in the cache. */
#include "kernels/args/rope.h"

#include "tests/unit/kernels/kernel_test.h"

#define ROWS         7
#define LANES        3
#define SLOTS        4
#define BLOCK_TOKENS 16
#define TABLE        4
#define BLOCKS       16

/* Lanes of 1, 4 and 2 rows at scattered positions and blocks. */
static const int32_t token_lanes[ROWS] = {0, 1, 1, 1, 1, 2, 2};
static const int32_t positions[ROWS] = {37, 14, 15, 16, 17, 0, 1};
static const int32_t lane_slots[LANES] = {2, 0, 3};
static const int32_t tables[SLOTS * TABLE] = {5, 9, -1, -1, -1, -1, -1, -1,
                                              1, 3, 8,  -1, 14, 2,  0,  7};

struct shape {
    uint32_t heads, kv_heads, head_dim, pairs;
    bool interleaved, norms, rotates;
};

static void reference_head(const struct shape *s, const float *in, const float *norm,
                           const float *table, double *out)
{
    double square = 0;
    for (uint32_t i = 0; i < s->head_dim; i++)
        square += (double)in[i] * in[i];
    double inverse = norm ? 1 / sqrt(square / s->head_dim + 1e-6) : 1;
    for (uint32_t i = 0; i < s->head_dim; i++)
        out[i] = in[i] * inverse * (norm ? 1 + (double)norm[i] : 1);
    for (uint32_t i = 0; s->rotates && i < s->pairs; i++) {
        uint32_t a = s->interleaved ? 2 * i : i, b = s->interleaved ? a + 1 : a + s->pairs;
        double c = table[i], d = table[s->pairs + i], x = out[a], y = out[b];
        out[a] = x * c - y * d;
        out[b] = y * c + x * d;
    }
}

static double cache_at(bool bf16, const void *cache, size_t i)
{
    return bf16 ? mtr_bf16_to_f32(((const uint16_t *)cache)[i]) : ((const float *)cache)[i];
}

static void near(double got, double want, double tolerance)
{
    ck_assert_msg(fabs(got - want) <= tolerance * (fabs(want) + 0.5), "%g, not %g", got, want);
}

struct data {
    float *q, *q0, *k, *v, *q_norm, *k_norm, *table;
    void *k_cache, *v_cache;
    size_t cache_bytes;
};

static void check_values(const struct shape *s, const struct data *d, bool bf16)
{
    double head[512], tolerance = bf16 ? 0.01 : 1e-6;
    uint32_t dim = s->head_dim;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *table = d->table + r * 2 * s->pairs;
        for (uint32_t h = 0; h < s->heads; h++) {
            size_t at = (r * s->heads + h) * dim;
            reference_head(s, d->q0 + at, s->norms ? d->q_norm : NULL, table, head);
            for (uint32_t i = 0; i < dim; i++)
                near(d->q[at + i], head[i], 1e-6);
        }
        int32_t block = tables[lane_slots[token_lanes[r]] * TABLE + positions[r] / BLOCK_TOKENS];
        for (uint32_t h = 0; h < s->kv_heads; h++) {
            size_t at = (r * s->kv_heads + h) * dim;
            size_t to = (((size_t)block * s->kv_heads + h) * BLOCK_TOKENS +
                         (size_t)positions[r] % BLOCK_TOKENS) *
                        dim;
            reference_head(s, d->k + at, s->norms ? d->k_norm : NULL, table, head);
            for (uint32_t i = 0; i < dim; i++) {
                near(cache_at(bf16, d->k_cache, to + i), head[i], tolerance);
                near(cache_at(bf16, d->v_cache, to + i), d->v[at + i], tolerance);
            }
        }
    }
}

/* Elements of the cache that were written. */
static size_t written(const struct data *d, const void *cache, bool bf16)
{
    size_t count = 0;
    for (size_t i = 0; i < d->cache_bytes / (bf16 ? 2 : 4); i++)
        count += !isnan(cache_at(bf16, cache, i));
    return count;
}

static void check(struct noise *n, const struct shape *s, bool bf16)
{
    uint32_t dim = s->head_dim;
    struct mtr_step_view step = {.tokens = ROWS,
                                 .lanes = LANES,
                                 .positions = positions,
                                 .token_lanes = token_lanes,
                                 .lane_slots = lane_slots};
    step.tables[1] = tables;
    step.table_stride[1] = TABLE;
    size_t cache = (size_t)BLOCKS * s->kv_heads * BLOCK_TOKENS * dim * (bf16 ? 2 : 4);
    size_t q_bytes = ROWS * s->heads * dim * sizeof(float);
    struct data d = {must_alloc(q_bytes),
                     noise_floats(n, ROWS * s->heads * dim),
                     noise_floats(n, ROWS * s->kv_heads * dim),
                     noise_floats(n, ROWS * s->kv_heads * dim),
                     noise_floats(n, dim),
                     noise_floats(n, dim),
                     noise_floats(n, ROWS * 2 * s->pairs),
                     must_alloc(cache),
                     must_alloc(cache),
                     cache};
    struct mtr_rope_append_args args = {.step = &step,
                                        .q = d.q,
                                        .k = d.k,
                                        .v = d.v,
                                        .q_norm = s->norms ? d.q_norm : NULL,
                                        .k_norm = s->norms ? d.k_norm : NULL,
                                        .table = s->rotates ? d.table : NULL,
                                        .k_cache = d.k_cache,
                                        .v_cache = d.v_cache,
                                        .group = 1,
                                        .heads = s->heads,
                                        .kv_heads = s->kv_heads,
                                        .head_dim = dim,
                                        .pairs = s->pairs,
                                        .interleaved = s->interleaved,
                                        .block_tokens = BLOCK_TOKENS,
                                        .eps = 1e-6f,
                                        .unit_offset = 1.0f};
    void *first_q = must_alloc(q_bytes), *first_k = must_alloc(cache);
    FOR_EACH_ISA(isa)
    {
        memcpy(d.q, d.q0, q_bytes);
        poison(d.k_cache, cache);
        poison(d.v_cache, cache);
        run_kernel(bf16 ? "rope_append_bf16" : "rope_append_f32", isa, &args, ROWS, 1);
        check_values(s, &d, bf16);
        ck_assert(written(&d, d.k_cache, bf16) == ROWS * s->kv_heads * dim);
        ck_assert(written(&d, d.v_cache, bf16) == ROWS * s->kv_heads * dim);
        if (isa == MTR_ISA_PORTABLE) {
            memcpy(first_q, d.q, q_bytes);
            memcpy(first_k, d.k_cache, cache);
        }
        ck_assert(memcmp(first_q, d.q, q_bytes) == 0);
        ck_assert(memcmp(first_k, d.k_cache, cache) == 0);
    }
    void *all[] = {d.q,     d.q0,      d.k,       d.v,     d.q_norm, d.k_norm,
                   d.table, d.k_cache, d.v_cache, first_q, first_k};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

START_TEST(every_shape)
{
    static const struct shape shapes[] = {
        {9, 3, 64, 32, false, false, true}, {4, 2, 128, 64, false, true, true},
        {2, 1, 80, 10, false, false, true}, {3, 3, 20, 10, true, true, true},
        {8, 1, 256, 64, false, true, true}, {2, 2, 48, 24, false, false, false},
        {2, 1, 40, 8, true, false, true},
    };
    struct noise n = {(uint64_t)_i + 1};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check(&n, &shapes[i], _i);
}
END_TEST

MTR_CHECK_MAIN("kernels/rope")
{
    tcase_add_loop_test(tc, every_shape, 0, 2);
}
