/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/buf.c"

#include "tests/unit/check_main.h"

START_TEST(appends_in_order)
{
    struct mtr_buf b = {0};
    ck_assert(mtr_buf_puts(&b, "abc"));
    ck_assert(mtr_buf_byte(&b, 'd'));
    ck_assert(mtr_buf_str(&b, MTR_STR("ef")));
    ck_assert(mtr_buf_str(&b, (struct mtr_str){NULL, 0}));
    ck_assert(mtr_buf_printf(&b, "%d%s", 12, "!"));
    ck_assert_str_eq(b.data, "abcdef12!");
    ck_assert_uint_eq(b.len, 9);
    mtr_buf_free(&b);
    ck_assert_ptr_null(b.data);
}
END_TEST

static int number_at(const char *digits, int count)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        n = n * 10 + (digits[i] - '0');
    return n;
}

START_TEST(grows_and_keeps_content)
{
    struct mtr_buf b = {0};
    int wrong = 0;
    for (int i = 0; i < 10000; i++)
        ck_assert(mtr_buf_printf(&b, "%05d", i));
    ck_assert_uint_eq(b.len, 50000);
    for (int i = 0; i < 10000; i++)
        wrong += number_at(b.data + i * 5, 5) != i;
    ck_assert_int_eq(wrong, 0);
    mtr_buf_free(&b);
}
END_TEST

START_TEST(the_limit_fails_and_leaves_content)
{
    struct mtr_buf b = {.limit_bytes = 10};
    ck_assert(mtr_buf_puts(&b, "01234567"));
    ck_assert(!mtr_buf_puts(&b, "89a"));
    ck_assert(b.failed);
    ck_assert_str_eq(b.data, "01234567");
    ck_assert(!mtr_buf_puts(&b, "8"));
    ck_assert(!mtr_buf_printf(&b, "8"));
    ck_assert_str_eq(b.data, "01234567");
    b.failed = false;
    ck_assert(!mtr_buf_printf(&b, "%s", "890"));
    ck_assert_str_eq(b.data, "01234567");
    b.failed = false;
    ck_assert(mtr_buf_printf(&b, "%s", "89"));
    ck_assert_str_eq(b.data, "0123456789");
    mtr_buf_clear(&b);
    ck_assert(mtr_buf_puts(&b, "abcdefghij"));
    ck_assert(!mtr_buf_byte(&b, 'k'));
    mtr_buf_free(&b);
}
END_TEST

START_TEST(impossible_sizes_fail)
{
    struct mtr_buf b = {0};
    ck_assert(!mtr_buf_reserve(&b, SIZE_MAX));
    ck_assert(b.failed);
    mtr_buf_free(&b);
}
END_TEST

START_TEST(consume)
{
    struct mtr_buf b = {0};
    mtr_buf_consume(&b, 3);
    mtr_buf_puts(&b, "hello world");
    mtr_buf_consume(&b, 6);
    ck_assert_str_eq(b.data, "world");
    mtr_buf_consume(&b, 0);
    ck_assert_str_eq(b.data, "world");
    mtr_buf_consume(&b, 99);
    ck_assert_str_eq(b.data, "");
    mtr_buf_free(&b);
}
END_TEST

START_TEST(grow_doubles_and_refuses_overflow)
{
    uint64_t *array = NULL;
    size_t cap = 0;
    ck_assert(mtr_grow((void **)&array, &cap, 1, sizeof *array));
    ck_assert_uint_ge(cap, 1);
    for (size_t i = 0; i < cap; i++)
        array[i] = i;
    size_t before = cap;
    ck_assert(mtr_grow((void **)&array, &cap, before + 1, sizeof *array));
    ck_assert_uint_ge(cap, 2 * before);
    for (size_t i = 0; i < before; i++)
        ck_assert_uint_eq(array[i], i);
    before = cap;
    ck_assert(!mtr_grow((void **)&array, &cap, SIZE_MAX / 4, sizeof *array));
    ck_assert(!mtr_grow((void **)&array, &cap, SIZE_MAX, 1));
    ck_assert_uint_eq(cap, before);
    ck_assert_uint_eq(array[1], 1);
    free(array);
}
END_TEST

MTR_CHECK_MAIN("base/buf")
{
    tcase_add_test(tc, appends_in_order);
    tcase_add_test(tc, grows_and_keeps_content);
    tcase_add_test(tc, the_limit_fails_and_leaves_content);
    tcase_add_test(tc, impossible_sizes_fail);
    tcase_add_test(tc, consume);
    tcase_add_test(tc, grow_doubles_and_refuses_overflow);
}
