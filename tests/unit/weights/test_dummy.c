/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random weights are finite, small, repeatable, and the same in parts. */
#include "worker/weights/dummy.c"

#include <math.h>

#include "tests/unit/check_main.h"

#define N 4096

static const enum mtr_format formats[] = {MTR_F32,  MTR_BF16, MTR_F16,  MTR_Q4_0,
                                          MTR_Q4_1, MTR_Q5_0, MTR_Q5_1, MTR_Q8_0,
                                          MTR_Q4_K, MTR_Q5_K, MTR_Q6_K};

START_TEST(values)
{
    static uint8_t block[N * 4];
    static float x[N];
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        const struct mtr_format_info *info = mtr_format_info(formats[f]);
        ck_assert(mtr_dummy_fill(formats[f], false, 7, 3, 0, N, block));
        info->dequantize(block, x, N / info->block_elements);
        double sum = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            ck_assert_msg(isfinite(x[i]) && fabsf(x[i]) < 0.25f, "%s: %g", info->name,
                          (double)x[i]);
            sum += (double)x[i], squares += (double)(x[i] * x[i]);
        }
        double deviation = sqrt(squares / N);
        ck_assert_msg(deviation > 0.003 && deviation < 0.06, "%s: %g", info->name, deviation);
        ck_assert_msg(fabs(sum / N) < 0.03, "%s: mean %g", info->name, sum / N);
    }
    ck_assert(!mtr_dummy_fill(MTR_I64, false, 7, 3, 0, N, block));
}
END_TEST

START_TEST(vectors)
{
    static float x[N];
    ck_assert(mtr_dummy_fill(MTR_F32, true, 7, 3, 0, N, x));
    for (int i = 0; i < N; i++)
        ck_assert(x[i] > 0.9f && x[i] < 1.1f);
}
END_TEST

START_TEST(parts)
{
    static uint8_t whole[N * 4], part[N * 4];
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        const struct mtr_format_info *info = mtr_format_info(formats[f]);
        size_t bytes = (size_t)N / info->block_elements * info->block_bytes;
        mtr_dummy_fill(formats[f], false, 7, 3, 0, N, whole);
        mtr_dummy_fill(formats[f], false, 7, 3, N / 2, N / 2, part);
        ck_assert(memcmp(whole + bytes / 2, part, bytes / 2) == 0);
        mtr_dummy_fill(formats[f], false, 8, 3, 0, N, part);
        ck_assert(memcmp(whole, part, bytes) != 0);
        mtr_dummy_fill(formats[f], false, 7, 4, 0, N, part);
        ck_assert(memcmp(whole, part, bytes) != 0);
    }
}
END_TEST

MTR_CHECK_MAIN("weights/dummy")
{
    tcase_add_test(tc, values);
    tcase_add_test(tc, vectors);
    tcase_add_test(tc, parts);
}
