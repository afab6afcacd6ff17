/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Range algebra against arrays of bits. */
#include "broker/text/charset.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

enum { SPACE = 2048 };

static void random_set(struct mtr_ranges *r, bool *bits, uint32_t seed)
{
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t v[4];
        mtr_philox(seed, i, 0, v);
        uint32_t first = v[0] % SPACE, last = first + v[1] % 40;
        last = last < SPACE ? last : SPACE - 1;
        mtr_ranges_add(r, first, last);
        for (uint32_t c = first; c <= last; c++)
            bits[c] = true;
    }
}

static void same(struct mtr_ranges *r, const bool *bits)
{
    struct mtr_charset s;
    ck_assert(mtr_charset_init(&s, r));
    for (uint32_t c = 0; c < SPACE; c++)
        ck_assert_msg(mtr_charset_has(&s, c) == bits[c], "%x", c);
    for (size_t i = 0; i + 1 < r->count; i++)
        ck_assert_uint_lt(r->items[i].last + 1, r->items[i + 1].first);
    mtr_charset_free(&s);
}

START_TEST(algebra)
{
    for (uint32_t seed = 0; seed < 50; seed++) {
        bool a[SPACE] = {false}, b[SPACE] = {false};
        struct mtr_ranges x = {0}, y = {0};
        random_set(&x, a, seed * 2);
        random_set(&y, b, seed * 2 + 1);
        same(&x, a);
        mtr_ranges_complement(&y);
        for (int c = 0; c < SPACE; c++)
            b[c] = !b[c];
        same(&y, b);
        if (seed % 2) {
            mtr_ranges_intersect(&x, &y);
            for (int c = 0; c < SPACE; c++)
                a[c] &= b[c];
        } else {
            mtr_ranges_add_all(&x, &y);
            for (int c = 0; c < SPACE; c++)
                a[c] |= b[c];
        }
        same(&x, a);
        mtr_ranges_free(&x);
        mtr_ranges_free(&y);
    }
}
END_TEST

START_TEST(complement_of_nothing_is_all)
{
    struct mtr_ranges r = {0};
    struct mtr_charset s;
    mtr_ranges_complement(&r);
    ck_assert(mtr_charset_init(&s, &r));
    ck_assert(mtr_charset_has(&s, 0) && mtr_charset_has(&s, 0x10ffff));
    ck_assert_uint_eq(s.block_count, 2);
    mtr_charset_free(&s);
    mtr_ranges_complement(&r);
    ck_assert_uint_eq(r.count, 0);
    mtr_ranges_free(&r);
}
END_TEST

START_TEST(runs_count_characters)
{
    struct mtr_ranges r = {0};
    struct mtr_charset s;
    mtr_ranges_add_categories(&r, MTR_MASK_L);
    ck_assert(mtr_charset_init(&s, &r));
    const char *text = "a\xc3\xa9\xe4\xb8\xad"
                       "b1";
    ck_assert_uint_eq(mtr_charset_run(&s, text, 8, SIZE_MAX), 7);
    ck_assert_uint_eq(mtr_charset_run(&s, text, 8, 3), 6);
    ck_assert_uint_eq(mtr_charset_run(&s, text, 1, SIZE_MAX), 1);
    ck_assert_uint_eq(mtr_charset_run(&s, "1", 1, SIZE_MAX), 0);
    mtr_charset_free(&s);
    mtr_ranges_free(&r);
}
END_TEST

START_TEST(folding_adds_the_other_case)
{
    struct mtr_ranges r = {0};
    struct mtr_charset s;
    mtr_ranges_add(&r, 'k', 's');
    mtr_ranges_add(&r, 0xe9, 0xe9);
    mtr_ranges_fold(&r);
    ck_assert(mtr_charset_init(&s, &r));
    ck_assert(mtr_charset_has(&s, 'K') && mtr_charset_has(&s, 0x212a) &&
              mtr_charset_has(&s, 0x17f));
    ck_assert(mtr_charset_has(&s, 0xc9) && !mtr_charset_has(&s, 'T'));
    mtr_charset_free(&s);
    mtr_ranges_free(&r);
}
END_TEST

MTR_CHECK_MAIN("text/charset")
{
    tcase_add_test(tc, algebra);
    tcase_add_test(tc, complement_of_nothing_is_all);
    tcase_add_test(tc, runs_count_characters);
    tcase_add_test(tc, folding_adds_the_other_case);
}
