/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Frequencies against values computed from the published formulas in another language. */
#include "common/circuit/rope.c"

#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_symbols s;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    memset(&s, 0, sizeof s);
    mtr_symbol_set(&s, "context", 32768);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

static void set(const char *name, double value)
{
    ck_assert(mtr_symbol_set(&s, name, value));
}

struct point {
    uint32_t index;
    double want;
};

static void check_points(const struct point *list, size_t count)
{
    ck_assert_msg(mtr_rope_prepare(&s, "rope_", &err), "%s", err.message);
    const float *f = mtr_rope_frequencies(&arena, &s, "rope_", 64);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs(f[list[i].index] / list[i].want - 1) < 1e-6, "%u: %.9g, not %.9g",
                      list[i].index, f[list[i].index], list[i].want);
}

#define CHECK_POINTS(list) check_points(list, sizeof list / sizeof *list)

START_TEST(plain_and_linear)
{
    static const struct point plain[] = {{0, 1}, {32, 0.001}, {16, 0.0316227766}};
    static const struct point linear4[] = {{0, 0.25}, {32, 0.00025}};
    set("rope_theta", 1e6);
    CHECK_POINTS(plain);
    set("rope_type", 1);
    set("rope_factor", 4);
    CHECK_POINTS(linear4);
    ck_assert_double_eq(mtr_symbol_get(&s, "rope_scale", 0), 1);
}
END_TEST

START_TEST(yarn_of_qwen)
{
    static const struct point list[] = {{0, 1},
                                        {10, 0.115478198},
                                        {20, 0.0133352143},
                                        {25, 0.00413173802},
                                        {30, 0.00106436098},
                                        {32, 0.000602941176},
                                        {35, 0.000246258407},
                                        {40, 4.44569853e-05},
                                        {63, 3.1023444e-07}};
    set("rope_theta", 1e6);
    set("rope_type", 3);
    set("rope_factor", 4);
    set("rope_original", 32768);
    CHECK_POINTS(list);
    ck_assert_double_eq_tol(mtr_symbol_get(&s, "rope_scale", 0), 1.138629436111989, 1e-12);
    ck_assert_double_eq(mtr_symbol_get(&s, "rope_sharpness", 0), 1);
    set("rope_mscale", 1);
    set("rope_mscale_all", 1);
    ck_assert(mtr_rope_prepare(&s, "rope_", &err));
    ck_assert_double_eq(mtr_symbol_get(&s, "rope_scale", 0), 1);
    ck_assert_double_eq_tol(mtr_symbol_get(&s, "rope_sharpness", 0),
                            1.138629436111989 * 1.138629436111989, 1e-12);
    set("rope_attention", 1.5);
    ck_assert(mtr_rope_prepare(&s, "rope_", &err));
    ck_assert_double_eq(mtr_symbol_get(&s, "rope_scale", 0), 1.5);
}
END_TEST

START_TEST(llama3_of_llama)
{
    static const struct point list[] = {{0, 1},
                                        {10, 0.128687373},
                                        {25, 0.00594073038},
                                        {30, 0.00137189357},
                                        {32, 0.000524846161},
                                        {35, 9.55621235e-05},
                                        {63, 3.06892599e-07}};
    set("rope_theta", 500000);
    set("rope_type", 2);
    set("rope_factor", 8);
    set("rope_low", 1);
    set("rope_high", 4);
    set("rope_original", 8192);
    CHECK_POINTS(list);
}
END_TEST

static void refused(const char *words)
{
    ck_assert(!mtr_rope_prepare(&s, "rope_", &err));
    ck_assert_msg(strstr(err.message, words), "%s", err.message);
}

START_TEST(numbers_must_fit_the_scaling)
{
    set("rope_factor", 2);
    refused("rotary scaling \"default\" has no factor");
    set("rope_type", 2);
    refused("rotary scaling \"llama3\" lacks its low");
    set("rope_low", 4);
    set("rope_high", 4);
    set("rope_original", 8192);
    refused("high_freq_factor must be above");
    set("rope_type", 9);
    refused("not computed here");
}
END_TEST

START_TEST(extreme_numbers_stay_finite)
{
    set("rope_theta", 2);
    set("rope_type", 3);
    set("rope_factor", 1e6);
    set("rope_original", 1);
    ck_assert(mtr_rope_prepare(&s, "rope_", &err));
    const float *f = mtr_rope_frequencies(&arena, &s, "rope_", 64);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert(isfinite(f[i]));
}
END_TEST

MTR_CHECK_MAIN("circuit/rope")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, plain_and_linear);
    tcase_add_test(tc, yarn_of_qwen);
    tcase_add_test(tc, llama3_of_llama);
    tcase_add_test(tc, numbers_must_fit_the_scaling);
    tcase_add_test(tc, extreme_numbers_stay_finite);
}
