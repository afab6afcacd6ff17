/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Known-answer vectors of philox4x32-10 from the Random123 library, and what the rest promises. */
#include "common/base/philox.c"

#include "tests/unit/check_main.h"

static const struct {
    uint32_t counter[4], key[2], expected[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers)
{
    uint32_t c[4] = {known[_i].counter[0], known[_i].counter[1], known[_i].counter[2],
                     known[_i].counter[3]};
    philox4x32(c, known[_i].key[0], known[_i].key[1]);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(c[i], known[_i].expected[i]);
}
END_TEST

START_TEST(every_argument_matters)
{
    uint32_t a[4], b[4], zero[4];
    mtr_philox(0, 0, 0, zero);
    ck_assert_uint_eq(zero[0], known[0].expected[0]);
    mtr_philox(1ull << 40, 0, 0, a);
    ck_assert_uint_ne(a[0], zero[0]);
    mtr_philox(0, 1ull << 40, 0, b);
    ck_assert_uint_ne(b[0], zero[0]);
    mtr_philox(0, 0, 1, a);
    ck_assert_uint_ne(a[0], zero[0]);
    ck_assert_uint_ne(a[0], b[0]);
}
END_TEST

START_TEST(uniform_is_in_range_and_even)
{
    enum { N = 1 << 16, BINS = 16 };
    unsigned bins[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        float u = mtr_uniform(42, i, 3);
        ck_assert(u >= 0.0f && u < 1.0f);
        ck_assert(mtr_uniform(42, i, 3) == u);
        sum += u;
        bins[(int)(u * BINS)]++;
    }
    ck_assert_double_eq_tol(sum / N, 0.5, 0.01);
    for (int b = 0; b < BINS; b++)
        ck_assert_uint_le(bins[b] > N / BINS ? bins[b] - N / BINS : N / BINS - bins[b], 400);
}
END_TEST

MTR_CHECK_MAIN("base/philox")
{
    tcase_add_loop_test(tc, known_answers, 0, 3);
    tcase_add_test(tc, every_argument_matters);
    tcase_add_test(tc, uniform_is_in_range_and_even);
}
