/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Spot checks of the tables against the standard, and the two ways to ask against each other. */
#include "broker/text/unicode.c"

#include "tests/unit/check_main.h"

static const struct {
    uint32_t cp;
    uint8_t category;
    bool space, word, active;
} known[] = {
    {'A', MTR_LU, false, true, false},       {'a', MTR_LL, false, true, false},
    {'_', MTR_PC, false, true, false},       {'7', MTR_ND, false, true, false},
    {'$', MTR_SC, false, false, false},      {' ', MTR_ZS, true, false, false},
    {'\n', MTR_CC, true, false, false},      {0x85, MTR_CC, true, false, false},
    {0x301, MTR_MN, false, true, true},      {0xe9, MTR_LL, false, true, false},
    {0x212b, MTR_LU, false, true, true},     {0x1100, MTR_LO, false, true, false},
    {0x1161, MTR_LO, false, true, true},     {0xac00, MTR_LO, false, true, false},
    {0x4e2d, MTR_LO, false, true, false},    {0x3000, MTR_ZS, true, false, false},
    {0x2028, MTR_ZL, true, false, false},    {0x1f600, MTR_SO, false, false, false},
    {0x24b6, MTR_SO, false, true, false},    {0xe000, MTR_CO, false, false, false},
    {0x10ffff, MTR_CN, false, false, false}, {0x16d40, MTR_LM, false, true, false},
    {0x2f800, MTR_LO, false, true, true},    {0x200d, MTR_CF, false, true, false},
};

START_TEST(properties)
{
    struct mtr_unicode u;
    ck_assert(mtr_unicode_init(&u));
    ck_assert_uint_lt(u.block_count, 400);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint8_t p = mtr_unicode_properties(&u, known[i].cp);
        ck_assert_msg((p & MTR_CHAR_CATEGORY) == known[i].category, "%x: %u", known[i].cp, p);
        ck_assert_msg(!(p & MTR_CHAR_SPACE) == !known[i].space, "%x", known[i].cp);
        ck_assert_msg(!(p & MTR_CHAR_WORD) == !known[i].word, "%x", known[i].cp);
        ck_assert_msg(!(p & MTR_CHAR_ACTIVE) == !known[i].active, "%x", known[i].cp);
    }
    mtr_unicode_free(&u);
}
END_TEST

START_TEST(blocks_say_what_runs_say)
{
    struct mtr_unicode u;
    size_t count;
    const uint32_t *runs = mtr_unicode_category_runs(&count);
    ck_assert(mtr_unicode_init(&u));
    for (uint32_t cp = 0; cp < MTR_UNICODE_SCALARS; cp++) {
        uint32_t category = runs[find_run(runs, count, 5, cp)] & 31;
        ck_assert_uint_eq(mtr_unicode_properties(&u, cp), properties_of(cp, (uint8_t)category));
    }
    mtr_unicode_free(&u);
}
END_TEST

START_TEST(names)
{
    ck_assert_uint_eq(mtr_unicode_category_mask("L", 1), MTR_MASK_L);
    ck_assert_uint_eq(mtr_unicode_category_mask("lu", 2), MTR_MASK(MTR_LU));
    ck_assert_uint_eq(mtr_unicode_category_mask("Lx", 2), 0);
    uint32_t all =
        MTR_MASK_L | MTR_MASK_M | MTR_MASK_N | MTR_MASK_P | MTR_MASK_S | MTR_MASK_Z | MTR_MASK_C;
    ck_assert_uint_eq(all, (1u << MTR_CATEGORY_COUNT) - 1);
    ck_assert_uint_eq(mtr_unicode_script(0x4e2d), mtr_unicode_script_id("han", 3));
    ck_assert_uint_eq(mtr_unicode_script('a'), mtr_unicode_script_id("Latin", 5));
    ck_assert_uint_eq(mtr_unicode_script(0x378), 0);
    ck_assert_uint_eq(mtr_unicode_old_script('a'), mtr_unicode_script('a'));
    ck_assert_uint_ne(mtr_unicode_script(0x1fae0), 0);
    ck_assert_uint_eq(mtr_unicode_old_script(0x1fae0), 0);
    ck_assert_uint_eq(mtr_unicode_script_id("Klingon", 7), 0);
}
END_TEST

START_TEST(lower_case)
{
    static const uint32_t pairs[][2] = {{'Z', 'z'},        {'z', 'z'},       {0xc9, 0xe9},
                                        {0x3a3, 0x3c3},    {0x1c89, 0x1c8a}, {0x4e2d, 0x4e2d},
                                        {0x10d50, 0x10d70}};
    uint32_t out[2];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        ck_assert_int_eq(mtr_unicode_lower(pairs[i][0], out), 1);
        ck_assert_uint_eq(out[0], pairs[i][1]);
    }
    ck_assert_int_eq(mtr_unicode_lower(0x130, out), 2);
    ck_assert_uint_eq(out[1], 0x307);
}
END_TEST

MTR_CHECK_MAIN("text/unicode")
{
    tcase_add_test(tc, properties);
    tcase_add_test(tc, blocks_say_what_runs_say);
    tcase_add_test(tc, names);
    tcase_add_test(tc, lower_case);
}
