/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Random weights are finite, small, repeatable, and the same in parts. */
#include "worker/weights/dummy.c"

#include <math.h>
#include <string.h>

#include "kernels/host/host_kernel.h"
#include "tests/unit/check_main.h"

#define N 4096

static const enum mtr_format formats[] = {MTR_F32,  MTR_BF16, MTR_F16,  MTR_Q4_0,
                                          MTR_Q4_1, MTR_Q5_0, MTR_Q5_1, MTR_Q8_0,
                                          MTR_Q4_K, MTR_Q5_K, MTR_Q6_K};

/* Runs the launch on the host class, or says that there is none. */
static bool fill(enum mtr_format format, enum mtr_dummy_kind kind, uint64_t seed, uint32_t index,
                 uint64_t first, uint64_t elements, void *dst)
{
    struct mtr_dummy_launch l;
    size_t count, i = 0;
    if (!mtr_dummy_launch(format, kind, seed, index, first, elements, dst, &l))
        return false;
    const struct mtr_host_entry *entries = mtr_host_kernels(&count);
    while (strcmp(entries[i].function, l.function) != 0)
        ck_assert_uint_lt(++i, count);
    struct mtr_host_block block = {.grid_x = l.grid, .grid_y = 1, .grid_z = 1};
    for (; block.x < l.grid; block.x++)
        mtr_host_variant(&entries[i], MTR_ISA_PORTABLE)(&l.args, &block);
    return true;
}

/* A file of this seed stays what it is. */
START_TEST(bytes_never_change)
{
    static const struct {
        enum mtr_format format;
        enum mtr_dummy_kind kind;
        uint32_t hash;
    } wants[] = {
        {MTR_F32, MTR_DUMMY_MATRIX, 0xfff0fe45u},  {MTR_BF16, MTR_DUMMY_MATRIX, 0x532136dcu},
        {MTR_F16, MTR_DUMMY_MATRIX, 0xb0023ef6u},  {MTR_Q4_0, MTR_DUMMY_MATRIX, 0xd59a574fu},
        {MTR_Q4_1, MTR_DUMMY_MATRIX, 0x4a37a479u}, {MTR_Q5_0, MTR_DUMMY_MATRIX, 0x6db27407u},
        {MTR_Q5_1, MTR_DUMMY_MATRIX, 0x48e94c50u}, {MTR_Q8_0, MTR_DUMMY_MATRIX, 0x75adf314u},
        {MTR_Q4_K, MTR_DUMMY_MATRIX, 0xd8985715u}, {MTR_Q5_K, MTR_DUMMY_MATRIX, 0x51c840f1u},
        {MTR_Q6_K, MTR_DUMMY_MATRIX, 0xb0ecddf5u}, {MTR_E4M3, MTR_DUMMY_MATRIX, 0x54d65755u},
        {MTR_E2M1, MTR_DUMMY_MATRIX, 0x37de4799u}, {MTR_E4M3, MTR_DUMMY_SCALES, 0xacffddc5u},
        {MTR_F32, MTR_DUMMY_SCALES, 0xbdc1dc5u},   {MTR_F32, MTR_DUMMY_VECTOR, 0x6f1af0c0u},
        {MTR_BF16, MTR_DUMMY_VECTOR, 0xbeef7643u}, {MTR_F16, MTR_DUMMY_VECTOR, 0xec330b69u},
    };
    static uint8_t b[4 * N];
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        const struct mtr_format_info *info = mtr_format_info(wants[i].format);
        ck_assert(fill(wants[i].format, wants[i].kind, 7, 3, 512, N, b));
        uint32_t hash = 2166136261u; /* FNV-1a */
        for (size_t k = 0; k < N / info->block_elements * info->block_bytes; k++)
            hash = (hash ^ b[k]) * 16777619u;
        ck_assert_msg(hash == wants[i].hash, "%s: %#x", info->name, hash);
    }
}
END_TEST

START_TEST(values)
{
    static uint8_t block[N * 4];
    static float x[N];
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        const struct mtr_format_info *info = mtr_format_info(formats[f]);
        ck_assert(fill(formats[f], MTR_DUMMY_MATRIX, 7, 3, 0, N, block));
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
    ck_assert(!fill(MTR_I64, MTR_DUMMY_MATRIX, 7, 3, 0, N, block));
}
END_TEST

/* Of formats whose scales stand in tensors of their own. */
START_TEST(scaled_values)
{
    static const enum mtr_format f[] = {MTR_E4M3, MTR_E2M1};
    static uint8_t codes[N], group[N];
    float scale;
    ck_assert(fill(MTR_F32, MTR_DUMMY_SCALES, 7, 4, 5, 1, &scale));
    ck_assert(fill(MTR_E4M3, MTR_DUMMY_SCALES, 7, 5, 0, N / 16, group));
    for (int k = 0; k < 2; k++) {
        double squares = 0;
        ck_assert(fill(f[k], MTR_DUMMY_MATRIX, 7, 3, 0, N, codes));
        for (int i = 0; i < N; i++) {
            uint8_t nibble = i & 1 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
            float x = k ? mtr_e2m1_to_f32(nibble) * mtr_e4m3_to_f32(group[i / 16]) * scale
                        : mtr_e4m3_to_f32(codes[i]) * scale;
            ck_assert(isfinite(x) && fabsf(x) < 0.25f);
            squares += (double)(x * x);
        }
        double deviation = sqrt(squares / N);
        ck_assert_msg(deviation > 0.003 && deviation < 0.06, "%g", deviation);
    }
}
END_TEST

START_TEST(vectors)
{
    static float x[N];
    ck_assert(fill(MTR_F32, MTR_DUMMY_VECTOR, 7, 3, 0, N, x));
    for (int i = 0; i < N; i++)
        ck_assert(x[i] > 0.9f && x[i] < 1.1f);
}
END_TEST

static void check_parts(enum mtr_format format)
{
    static uint8_t whole[N * 4], part[N * 4];
    const struct mtr_format_info *info = mtr_format_info(format);
    size_t bytes = (size_t)N / info->block_elements * info->block_bytes;
    fill(format, MTR_DUMMY_MATRIX, 7, 3, 0, N, whole);
    fill(format, MTR_DUMMY_MATRIX, 7, 3, N / 2, N / 2, part);
    ck_assert(memcmp(whole + bytes / 2, part, bytes / 2) == 0);
    fill(format, MTR_DUMMY_MATRIX, 8, 3, 0, N, part);
    ck_assert(memcmp(whole, part, bytes) != 0);
    fill(format, MTR_DUMMY_MATRIX, 7, 4, 0, N, part);
    ck_assert(memcmp(whole, part, bytes) != 0);
}

START_TEST(parts)
{
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
        check_parts(formats[f]);
    check_parts(MTR_E4M3);
    check_parts(MTR_E2M1);
}
END_TEST

MTR_CHECK_MAIN("weights/dummy")
{
    tcase_add_test(tc, bytes_never_change);
    tcase_add_test(tc, values);
    tcase_add_test(tc, scaled_values);
    tcase_add_test(tc, vectors);
    tcase_add_test(tc, parts);
}
