/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every answer is compared with that of a fully sorted list. */
#include "worker/exec/distribution.c"

#include <stdbool.h>
#include <stdlib.h>

#include "tests/unit/check_main.h"

#define N 700

struct fixture {
    float logits[N], x[N];
    uint32_t weights[N];
    uint64_t keys[N];
    uint32_t indices[N];
    uint32_t order[N]; /* of the tokens that weigh something */
    uint32_t count;
    struct mtr_distribution d;
};

static const struct fixture *sorting;

static int by_x(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sorting->x[i] != sorting->x[j])
        return sorting->x[i] > sorting->x[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

/* spread: how far logits lie apart; a few values occur often. */
static void make(struct fixture *f, uint32_t seed, float spread)
{
    float max = -1e9f;
    for (uint32_t i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        f->logits[i] = (float)(seed >> 20) / 4096.0f * spread;
        max = f->logits[i] > max ? f->logits[i] : max;
    }
    mtr_distribution_init(&f->d, f->logits, N, max, 1, -1e9f, f->x, f->weights, f->keys,
                          f->indices);
    f->count = 0;
    for (uint32_t i = 0; i < N; i++)
        if (f->weights[i])
            f->order[f->count++] = i;
    sorting = f;
    qsort(f->order, f->count, sizeof *f->order, by_x);
}

static const float spreads[] = {0, 0.05f, 3, 30, 2000};

START_TEST(first_sums_the_k_largest)
{
    struct fixture f;
    make(&f, 7, spreads[_i]);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < f.count; k++) {
        ck_assert_uint_eq(mtr_distribution_first(&f.d, k), sum);
        sum += f.weights[f.order[k]];
    }
    ck_assert_uint_eq(mtr_distribution_first(&f.d, N + 5), sum);
    ck_assert_uint_eq(f.d.total, sum);
}
END_TEST

START_TEST(token_and_reach_walk_the_sorted_order)
{
    struct fixture f;
    make(&f, 8, spreads[_i]);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < f.count; k++) {
        uint64_t after = sum + f.weights[f.order[k]];
        ck_assert_uint_eq(mtr_distribution_token(&f.d, sum), f.order[k]);
        ck_assert_uint_eq(mtr_distribution_token(&f.d, after - 1), f.order[k]);
        ck_assert_uint_eq(mtr_distribution_reach(&f.d, sum + 1), after);
        ck_assert_uint_eq(mtr_distribution_reach(&f.d, after), after);
        sum = after;
    }
    ck_assert_uint_eq(mtr_distribution_reach(&f.d, sum + 1), sum);
    ck_assert_uint_eq(mtr_distribution_reach(&f.d, 0), f.weights[f.order[0]]);
}
END_TEST

START_TEST(above_keeps_what_reaches_the_limit)
{
    struct fixture f;
    make(&f, 9, spreads[_i]);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < f.count; k++) {
        sum += f.weights[f.order[k]];
        bool last_of_equals = k + 1 == f.count || f.x[f.order[k + 1]] < f.x[f.order[k]];
        if (last_of_equals)
            ck_assert_uint_eq(mtr_distribution_above(&f.d, f.x[f.order[k]]), sum);
    }
    ck_assert_uint_ge(mtr_distribution_above(&f.d, 5), f.weights[f.order[0]]);
    ck_assert_uint_eq(mtr_distribution_above(&f.d, -1e30f), sum);
}
END_TEST

MTR_CHECK_MAIN("exec/distribution")
{
    int n = sizeof spreads / sizeof *spreads;
    tcase_add_loop_test(tc, first_sums_the_k_largest, 0, n);
    tcase_add_loop_test(tc, token_and_reach_walk_the_sorted_order, 0, n);
    tcase_add_loop_test(tc, above_keeps_what_reaches_the_limit, 0, n);
}
