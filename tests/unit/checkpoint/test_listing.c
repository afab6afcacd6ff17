/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names, sizes, layout and order of lists of tensors. */
#include "common/checkpoint/listing.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

static struct mtr_error err;

START_TEST(quoting)
{
    char out[MTR_QUOTED_BYTES], longer[400];
    ck_assert_str_eq(mtr_quoted(MTR_STR("a.b"), out), "\"a.b\"");
    ck_assert_str_eq(mtr_quoted(MTR_STR("a\n\x01"), out), "\"a??\"");
    ck_assert_str_eq(mtr_quoted(MTR_STR("a\xff\xc3\xa4"), out), "\"a???\"");
    ck_assert_str_eq(mtr_quoted(MTR_STR("\xc3\xa4"), out), "\"\xc3\xa4\"");
    memset(longer, 'x', sizeof longer);
    mtr_quoted((struct mtr_str){longer, sizeof longer}, out);
    ck_assert_uint_lt(strlen(out), sizeof out);
    ck_assert(strstr(out, "x...\""));
    for (size_t i = 0; i < sizeof longer; i += 2)
        memcpy(longer + i, "\xc3\xa4", 2);
    mtr_quoted((struct mtr_str){longer + 1, sizeof longer - 1}, out); /* not UTF-8, cut anywhere */
    ck_assert(mtr_utf8_valid(mtr_str(out)));
    mtr_quoted((struct mtr_str){longer, sizeof longer}, out);
    ck_assert(mtr_utf8_valid(mtr_str(out)));
}
END_TEST

START_TEST(sizes)
{
    static const struct {
        enum mtr_format format;
        uint32_t rank;
        uint64_t shape[6];
        uint64_t bytes; /* UINT64_MAX: refused */
    } cases[] = {
        {MTR_F32, 0, {0}, 4},
        {MTR_BF16, 2, {3, 5}, 30},
        {MTR_F32, 2, {3, 0}, 0},
        {MTR_F32, 2, {0, 3}, 0},
        {MTR_Q4_1, 2, {2, 64}, 80},
        {MTR_Q4_1, 2, {64, 2}, UINT64_MAX},
        {MTR_Q4_1, 0, {0}, UINT64_MAX},
        {MTR_Q6_K, 3, {2, 3, 512}, 2520},
        {MTR_F32, 6, {1, 2, 3, 4, 5, 6}, 2880},
        {MTR_F32, 2, {1ull << 31, 1ull << 31}, UINT64_MAX}, /* 2^62 elements are 2^64 bytes */
        {MTR_I8, 2, {1ull << 31, 1ull << 31}, 1ull << 62},
        {MTR_I8, 2, {1ull << 32, 1ull << 31}, UINT64_MAX},
        {MTR_I8, 3, {1ull << 32, 1ull << 32, 0}, UINT64_MAX}, /* empty, but no shape that can be */
        {MTR_F32, 3, {UINT64_MAX, UINT64_MAX, UINT64_MAX}, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_tensor t = {.format = cases[i].format, .rank = cases[i].rank};
        memcpy(t.shape, cases[i].shape, sizeof t.shape);
        bool ok = mtr_listing_size(&t, &err);
        ck_assert_msg(ok == (cases[i].bytes != UINT64_MAX), "%zu", i);
        if (ok)
            ck_assert_uint_eq(t.bytes, cases[i].bytes);
    }
}
END_TEST

static struct mtr_tensor stretch(const char *name, uint64_t offset, uint64_t bytes)
{
    return (struct mtr_tensor){.name = mtr_str(name), .offset = offset, .bytes = bytes};
}

START_TEST(layout)
{
    struct mtr_tensor t[4] = {stretch("a", 20, 10), stretch("b", 10, 10), stretch("e", 20, 0),
                              stretch("c", 32, 8)};
    ck_assert(mtr_listing_layout(t, 4, 10, 40, MTR_HOLES_ALLOWED, &err));
    ck_assert(!mtr_listing_layout(t, 4, 10, 40, MTR_HOLES_REFUSED, &err));
    ck_assert_msg(strstr(err.message, "bytes 30 to 32, before tensor \"c\""), "%s", err.message);
    t[3].offset = 30;
    ck_assert(!mtr_listing_layout(t, 4, 10, 40, MTR_HOLES_REFUSED, &err));
    ck_assert_msg(strstr(err.message, "ends at byte 38, the file at 40"), "%s", err.message);
    ck_assert(mtr_listing_layout(t, 4, 10, 38, MTR_HOLES_REFUSED, &err));
    t[3].offset = 29;
    ck_assert(!mtr_listing_layout(t, 4, 10, 40, MTR_HOLES_ALLOWED, &err));
    ck_assert_msg(strstr(err.message, "\"c\" begins at byte 29, inside tensor \"a\""), "%s",
                  err.message);
    t[3].offset = 33;
    ck_assert(!mtr_listing_layout(t, 4, 10, 40, MTR_HOLES_ALLOWED, &err));
    ck_assert(!mtr_listing_layout(t, 4, 11, 50, MTR_HOLES_ALLOWED, &err));
    t[0].bytes = UINT64_MAX;
    ck_assert(!mtr_listing_layout(t, 4, 10, 50, MTR_HOLES_ALLOWED, &err));
    ck_assert(mtr_listing_layout(t, 0, 10, 50, MTR_HOLES_ALLOWED, &err));
    ck_assert(!mtr_listing_layout(t, 0, 10, 50, MTR_HOLES_REFUSED, &err));
}
END_TEST

START_TEST(sorting)
{
    enum { N = 500 };
    static struct mtr_tensor t[N];
    static char names[N][12];
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "t%u", (unsigned)(1000 * mtr_uniform(1, i, 0)));
        t[i].name = mtr_str(names[i]);
    }
    uint32_t *order = mtr_listing_sort(&arena, t, N);
    for (uint32_t i = 1; i < N; i++) {
        int c = mtr_str_order(t[order[i - 1]].name, t[order[i]].name);
        ck_assert(c < 0 || (c == 0 && order[i - 1] < order[i]));
    }
    ck_assert_int_lt(mtr_str_order(MTR_STR("ab"), MTR_STR("abc")), 0);
    ck_assert_int_gt(mtr_str_order(MTR_STR("\xff"), MTR_STR("a")), 0);
    ck_assert_int_eq(mtr_str_order((struct mtr_str){0}, MTR_STR("")), 0);
    mtr_arena_free(&arena);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/listing")
{
    tcase_add_test(tc, quoting);
    tcase_add_test(tc, sizes);
    tcase_add_test(tc, layout);
    tcase_add_test(tc, sorting);
}
