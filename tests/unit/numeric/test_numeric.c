/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every code of every narrow format, and rounding checked against the nearest of all codes. */
#include "common/numeric/numeric.c"

#include <stdbool.h>

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

/* A format as this test sees it: codes without sign in increasing order of value. */
struct narrow_format {
    const char *name;
    uint32_t codes;  /* finite values, without sign */
    uint32_t sign;   /* the sign bit */
    uint32_t beyond; /* the code for what rounds above the largest */
    float (*decode)(uint32_t code);
    uint32_t (*encode)(float f);
};

static float f16_decode(uint32_t c)
{
    return mtr_f16_to_f32((uint16_t)c);
}

static uint32_t f16_encode(float f)
{
    return mtr_f16_from_f32(f);
}

static float e4m3_decode(uint32_t c)
{
    return mtr_e4m3_to_f32((uint8_t)c);
}

static uint32_t e4m3_encode(float f)
{
    return mtr_e4m3_from_f32(f);
}

static float e5m2_decode(uint32_t c)
{
    return mtr_e5m2_to_f32((uint8_t)c);
}

static uint32_t e5m2_encode(float f)
{
    return mtr_e5m2_from_f32(f);
}

static float e2m1_decode(uint32_t c)
{
    return mtr_e2m1_to_f32((uint8_t)c);
}

static uint32_t e2m1_encode(float f)
{
    return mtr_e2m1_from_f32(f);
}

static float bf16_decode(uint32_t c)
{
    return mtr_bf16_to_f32((uint16_t)c);
}

static uint32_t bf16_encode(float f)
{
    return mtr_bf16_from_f32(f);
}

static const struct narrow_format formats[] = {
    {"f16", 0x7c00, 0x8000, 0x7c00, f16_decode, f16_encode},
    {"e4m3", 0x7f, 0x80, 0x7e, e4m3_decode, e4m3_encode},
    {"e5m2", 0x7c, 0x80, 0x7b, e5m2_decode, e5m2_encode},
    {"e2m1", 8, 8, 7, e2m1_decode, e2m1_encode},
    {"bf16", 0x7f80, 0x8000, 0x7f80, bf16_decode, bf16_encode},
};

START_TEST(every_code_survives)
{
    const struct narrow_format *n = &formats[_i];
    unsigned wrong = 0;
    for (uint32_t c = 0; c < n->codes; c++) {
        wrong += n->encode(n->decode(c)) != c;
        wrong += n->encode(n->decode(c | n->sign)) != (c | n->sign);
        wrong += n->decode(c | n->sign) != -n->decode(c);
        wrong += c > 0 && n->decode(c) <= n->decode(c - 1);
    }
    ck_assert_msg(wrong == 0, "%s: %u wrong", n->name, wrong);
}
END_TEST

/* Between two neighbours: the middle goes to the even code, either side of it to the nearer. */
START_TEST(rounds_to_nearest_even)
{
    const struct narrow_format *n = &formats[_i];
    unsigned wrong = 0;
    for (uint32_t c = 0; c + 1 < n->codes; c++) {
        double middle = ((double)n->decode(c) + (double)n->decode(c + 1)) / 2;
        float m = (float)middle;
        if ((double)m != middle)
            continue;
        uint32_t even = c & 1 ? c + 1 : c;
        wrong += n->encode(m) != even;
        wrong += n->encode(-m) != (even | n->sign);
        wrong += n->encode(nextafterf(m, 0)) != c;
        wrong += n->encode(nextafterf(m, INFINITY)) != c + 1;
    }
    ck_assert_msg(wrong == 0, "%s: %u wrong", n->name, wrong);
}
END_TEST

START_TEST(the_top_of_the_range)
{
    const struct narrow_format *n = &formats[_i];
    ck_assert_uint_eq(n->encode(INFINITY), n->beyond);
    ck_assert_uint_eq(n->encode(-INFINITY), n->beyond | n->sign);
    ck_assert_uint_eq(n->encode(3.4028235e38f), n->beyond);
    float nan = n->decode(n->encode(NAN));
    ck_assert(n->sign == 8 ? nan == 6.0f : nan != nan); /* e2m1 has no NaN */
}
END_TEST

START_TEST(the_bottom_of_the_range)
{
    const struct narrow_format *n = &formats[_i];
    float smallest = n->decode(1);
    ck_assert_uint_eq(n->encode(0.0f), 0);
    ck_assert_uint_eq(n->encode(-0.0f), n->sign);
    if (n->decode != bf16_decode) {
        ck_assert_uint_eq(n->encode(smallest / 2), 0);
        ck_assert_uint_eq(n->encode(smallest / 4), 0);
        ck_assert_uint_eq(n->encode(0x1p-149f), 0);
        ck_assert_uint_eq(n->encode(-0x1p-149f), n->sign);
    }
    ck_assert_uint_eq(n->encode(smallest * 1.5f), 2);
}
END_TEST

#ifdef __FLT16_MANT_DIG__
START_TEST(f16_equals_the_compiler)
{
    unsigned wrong = 0;
    for (uint32_t i = 0; i < 1000000; i++) {
        uint32_t r[4];
        mtr_philox(3, i, 0, r);
        float f = mtr_f32_from_bits(i & 1 ? r[0] : (r[0] & 0x8fffffffu) | 0x30000000u);
        _Float16 want = (_Float16)f;
        uint16_t bits;
        memcpy(&bits, &want, sizeof bits);
        wrong += f == f && mtr_f16_from_f32(f) != bits;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST
#endif

START_TEST(known_values)
{
    ck_assert(mtr_f16_to_f32(0x3555) == 0x1.554p-2f);
    ck_assert(mtr_f16_to_f32(0x0001) == 0x1p-24f);
    ck_assert(mtr_f16_to_f32(0xfc00) == -INFINITY);
    ck_assert(mtr_e4m3_to_f32(0x7e) == 448.0f);
    ck_assert(mtr_e4m3_to_f32(0x01) == 0x1p-9f);
    ck_assert(mtr_e5m2_to_f32(0x7b) == 57344.0f);
    ck_assert(mtr_e5m2_to_f32(0x7c) == INFINITY);
    static const float fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (uint8_t c = 0; c < 8; c++)
        ck_assert(mtr_e2m1_to_f32(c) == fp4[c]);
    ck_assert(mtr_e8m0_to_f32(127) == 1.0f);
    ck_assert(mtr_e8m0_to_f32(0) == 0x1p-127f);
    ck_assert(mtr_e8m0_to_f32(1) == 0x1p-126f);
    ck_assert(mtr_e8m0_to_f32(254) == 0x1p127f);
    ck_assert(isnan(mtr_e8m0_to_f32(255)));
    ck_assert(isnan(mtr_e4m3_to_f32(0xff)));
}
END_TEST

MTR_CHECK_MAIN("numeric/numeric")
{
    int count = sizeof formats / sizeof *formats;
    tcase_add_loop_test(tc, every_code_survives, 0, count);
    tcase_add_loop_test(tc, rounds_to_nearest_even, 0, count);
    tcase_add_loop_test(tc, the_top_of_the_range, 0, count);
    tcase_add_loop_test(tc, the_bottom_of_the_range, 0, count);
#ifdef __FLT16_MANT_DIG__
    tcase_add_test(tc, f16_equals_the_compiler);
#endif
    tcase_add_test(tc, known_values);
}
