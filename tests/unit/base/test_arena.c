/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/arena.c"

#include "tests/unit/check_main.h"

START_TEST(allocations_are_aligned_and_apart)
{
    struct mtr_arena a;
    unsigned char *p[300];
    unsigned wrong = 0;
    mtr_arena_init(&a, 0);
    for (size_t i = 0; i < 300; i++) {
        p[i] = mtr_arena_alloc(&a, i * 7);
        ck_assert_ptr_nonnull(p[i]);
        ck_assert_uint_eq((uintptr_t)p[i] % 16, 0);
        memset(p[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 300; i++)
        for (size_t j = 0; j < i * 7; j++)
            wrong += p[i][j] != (unsigned char)i;
    ck_assert_uint_eq(wrong, 0);
    mtr_arena_free(&a);
    ck_assert_uint_eq(a.used_bytes, 0);
    ck_assert_ptr_nonnull(mtr_arena_alloc(&a, 1));
    mtr_arena_free(&a);
}
END_TEST

START_TEST(the_limit_holds_exactly)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 10000);
    size_t got = 0;
    while (mtr_arena_alloc(&a, 16))
        got += 16;
    ck_assert_uint_eq(got, 10000);
    ck_assert_uint_le(a.used_bytes, 10000);
    ck_assert(mtr_arena_failed(&a));
    mtr_arena_free(&a);
    ck_assert(!mtr_arena_failed(&a));
    ck_assert_ptr_null(mtr_arena_alloc(&a, 10001));
    ck_assert_ptr_nonnull(mtr_arena_alloc(&a, 9000));
    mtr_arena_free(&a);
}
END_TEST

START_TEST(impossible_sizes_fail)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 0);
    ck_assert_ptr_null(mtr_arena_alloc(&a, SIZE_MAX));
    ck_assert(mtr_arena_failed(&a));
    mtr_arena_init(&a, 0);
    ck_assert_ptr_null(mtr_arena_calloc(&a, SIZE_MAX / 8, 16));
    ck_assert(mtr_arena_failed(&a));
    mtr_arena_free(&a);
}
END_TEST

START_TEST(calloc_clears_used_memory)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 0);
    memset(mtr_arena_alloc(&a, 4000), 0xff, 4000);
    mtr_arena_reset(&a);
    unsigned char *p = mtr_arena_calloc(&a, 100, 40);
    for (size_t i = 0; i < 4000; i++)
        ck_assert_uint_eq(p[i], 0);
    mtr_arena_free(&a);
}
END_TEST

START_TEST(reset_keeps_the_largest_chunk)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 0);
    mtr_arena_alloc(&a, 100);
    void *big = mtr_arena_alloc(&a, 3 << 20);
    mtr_arena_alloc(&a, 8000);
    mtr_arena_reset(&a);
    size_t kept = a.used_bytes;
    ck_assert_uint_ge(kept, 3 << 20);
    ck_assert_ptr_eq(mtr_arena_alloc(&a, 3 << 20), big);
    ck_assert_uint_eq(a.used_bytes, kept);
    mtr_arena_free(&a);
}
END_TEST

START_TEST(big_requests_leave_the_room_of_the_head)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 0);
    char *first = mtr_arena_alloc(&a, 16);
    mtr_arena_alloc(&a, CHUNK_MAX_BYTES - sizeof(struct mtr_arena_chunk));
    char *second = mtr_arena_alloc(&a, 16);
    ck_assert_ptr_eq(first + 16, second);
    mtr_arena_free(&a);
}
END_TEST

START_TEST(strings)
{
    struct mtr_arena a;
    mtr_arena_init(&a, 0);
    struct mtr_str nul = {"a\0b", 3};
    struct mtr_str copy = mtr_arena_str(&a, nul);
    ck_assert(mtr_str_equal(copy, nul));
    ck_assert_int_eq(copy.ptr[3], 0);
    ck_assert_str_eq(mtr_arena_strdup(&a, (struct mtr_str){NULL, 0}), "");
    ck_assert_str_eq(mtr_arena_printf(&a, "%s-%d", "x", 42), "x-42");
    char *text = mtr_arena_printf(&a, "%5000d", 7);
    ck_assert_uint_eq(strlen(text), 5000);
    mtr_arena_free(&a);
    mtr_arena_init(&a, 64);
    ck_assert_ptr_null(
        mtr_arena_str(
            &a,
            (struct mtr_str){
                "0123456789012345678901234567890123456789012345678901234567890123456789", 65})
            .ptr);
    mtr_arena_free(&a);
}
END_TEST

MTR_CHECK_MAIN("base/arena")
{
    tcase_add_test(tc, allocations_are_aligned_and_apart);
    tcase_add_test(tc, the_limit_holds_exactly);
    tcase_add_test(tc, impossible_sizes_fail);
    tcase_add_test(tc, calloc_clears_used_memory);
    tcase_add_test(tc, reset_keeps_the_largest_chunk);
    tcase_add_test(tc, big_requests_leave_the_room_of_the_head);
    tcase_add_test(tc, strings);
}
