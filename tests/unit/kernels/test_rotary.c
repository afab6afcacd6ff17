/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rotary: sines and cosines for positions up to a million, correctly rounded. */
#include "kernels/args/rope.h"

#include "tests/unit/kernels/kernel_test.h"

#define PAIRS 33
#define ROWS  400

START_TEST(tables)
{
    struct noise n = {5};
    static int32_t positions[ROWS];
    static float table[ROWS * 2 * PAIRS];
    float inverse[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        inverse[i] = powf(10000.0f, -2.0f * (float)i / (2 * PAIRS));
    for (int r = 0; r < ROWS; r++)
        positions[r] = r < 100 ? r : (int32_t)noise_below(&n, 1048577);
    struct mtr_step_view step = {.tokens = ROWS, .positions = positions};
    struct mtr_rotary_args args = {&step, inverse, table, PAIRS, 1.0f, NULL};
    FOR_EACH_ISA(isa)
    {
        poison(table, sizeof table);
        run_kernel("rotary", isa, &args, ROWS, 1);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < PAIRS; i++) {
                float angle = (float)positions[r] * inverse[i];
                ck_assert(table[r * 2 * PAIRS + i] == (float)cos((double)angle));
                ck_assert(table[r * 2 * PAIRS + PAIRS + i] == (float)sin((double)angle));
            }
    }
}
END_TEST

START_TEST(scaled)
{
    const int32_t positions[1] = {1000};
    const float inverse[2] = {1.0f, 0.5f};
    float table[4];
    struct mtr_step_view step = {.tokens = 1, .positions = positions};
    struct mtr_rotary_args args = {&step, inverse, table, 2, 1.25f, NULL};
    run_kernel("rotary", MTR_ISA_PORTABLE, &args, 1, 1);
    ck_assert(table[1] == 1.25f * (float)cos(500.0) && table[2] == 1.25f * (float)sin(1000.0));
}
END_TEST

START_TEST(factors_divide_frequencies)
{
    const int32_t positions[1] = {1000};
    const float inverse[2] = {1.0f, 0.5f}, factors[2] = {1.0f, 8.0f};
    float table[4];
    struct mtr_step_view step = {.tokens = 1, .positions = positions};
    struct mtr_rotary_args args = {&step, inverse, table, 2, 1.0f, factors};
    run_kernel("rotary", MTR_ISA_PORTABLE, &args, 1, 1);
    ck_assert(table[0] == (float)cos(1000.0) && table[1] == (float)cos(62.5));
}
END_TEST

MTR_CHECK_MAIN("kernels/rotary")
{
    tcase_add_test(tc, tables);
    tcase_add_test(tc, scaled);
    tcase_add_test(tc, factors_divide_frequencies);
}
