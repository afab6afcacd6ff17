/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Metadata by key: types, ranges, arrays. */
#include "common/checkpoint/gguf_get.c"

#include <math.h>

#include "tests/unit/check_main.h"
#include "tests/unit/checkpoint/build.h"

static struct mtr_arena arena;
static struct mtr_error err;
static struct mtr_buf file;
static struct mtr_gguf g;

static void setup(void)
{
    struct mtr_buf *b = &file;
    put_head(b, 3, 0, 11);
    put_kv_text(b, "zz.name", "model");
    put_kv_u32(b, "u32", 4000000000u);
    put_key(b, "i8", 1), put_uint(b, 0xff, 1);
    put_key(b, "u64", 10), put_uint(b, UINT64_MAX, 8);
    put_kv_f32(b, "f32", 0.5f);
    put_kv_f32(b, "nan", NAN);
    put_kv_bool(b, "bool", 1);
    put_kv_array(b, "strings", 8, 3), put_text(b, "a"), put_text(b, ""), put_text(b, "ccc");
    put_kv_array(b, "i16s", 3, 2), put_uint(b, 0xffff, 2), put_uint(b, 5, 2);
    put_kv_array(b, "f32s", 6, 2), put_uint(b, 0x3fc00000, 4), put_uint(b, 0x7f800000, 4);
    put_kv_array(b, "bools", 7, 2), put_uint(b, 0x0001, 2);
    mtr_arena_init(&arena, 0);
    bool ok = mtr_gguf_parse(&arena, mtr_buf_view(b), &g, &err);
    ck_assert_msg(ok, "%s", err.message);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&file);
}

START_TEST(integers)
{
    int64_t v = -7;
    ck_assert(mtr_gguf_opt_i64(&g, "absent", 0, 1, &v, &err) && v == -7);
    ck_assert(mtr_gguf_opt_i64(&g, "u32", 0, UINT32_MAX, &v, &err) && v == 4000000000);
    ck_assert(mtr_gguf_opt_i64(&g, "i8", -5, 5, &v, &err) && v == -1);
    ck_assert(!mtr_gguf_opt_i64(&g, "i8", 0, 5, &v, &err));
    ck_assert_msg(strstr(err.message, "\"i8\" is -1, expected 0 to 5"), "%s", err.message);
    ck_assert(!mtr_gguf_opt_i64(&g, "u64", 0, INT64_MAX, &v, &err));
    ck_assert_msg(strstr(err.message, "18446744073709551615"), "%s", err.message);
    ck_assert(!mtr_gguf_opt_i64(&g, "f32", 0, 5, &v, &err));
    ck_assert_msg(strstr(err.message, "type float32, expected an integer"), "%s", err.message);
    ck_assert(!mtr_gguf_opt_i64(&g, "strings", 0, 5, &v, &err));
    ck_assert_msg(strstr(err.message, "array of string"), "%s", err.message);
    ck_assert_int_eq(v, -1);
}
END_TEST

START_TEST(others)
{
    double d = -1;
    bool b = false;
    struct mtr_str s = {0};
    ck_assert(mtr_gguf_opt_f64(&g, "f32", 0, 1, &d, &err) && d == 0.5);
    ck_assert(mtr_gguf_opt_f64(&g, "u32", 0, 1e10, &d, &err) && d == 4e9);
    ck_assert(mtr_gguf_opt_f64(&g, "i8", -1, 0, &d, &err) && d == -1);
    ck_assert(!mtr_gguf_opt_f64(&g, "nan", -1e300, 1e300, &d, &err));
    ck_assert(!mtr_gguf_opt_f64(&g, "bool", 0, 1, &d, &err));
    ck_assert(mtr_gguf_opt_bool(&g, "bool", &b, &err) && b);
    ck_assert(!mtr_gguf_opt_bool(&g, "u32", &b, &err));
    ck_assert(mtr_gguf_opt_str(&g, "zz.name", &s, &err) && mtr_str_is(s, "model"));
    ck_assert(!mtr_gguf_opt_str(&g, "u32", &s, &err));
    ck_assert_ptr_null(mtr_gguf_get(&g, "zz.nam"));
    ck_assert_ptr_null(mtr_gguf_get(&g, ""));
}
END_TEST

START_TEST(arrays)
{
    struct mtr_gguf_array a = {0};
    struct mtr_gguf_cursor c = {0};
    struct mtr_str s;
    ck_assert(mtr_gguf_opt_strings(&g, "strings", &a, &err));
    ck_assert(mtr_gguf_next(&a, &c, &s) && mtr_str_is(s, "a") && c.index == 1);
    ck_assert(mtr_gguf_next(&a, &c, &s) && s.len == 0);
    ck_assert(mtr_gguf_next(&a, &c, &s) && mtr_str_is(s, "ccc"));
    ck_assert(!mtr_gguf_next(&a, &c, &s) && c.at == a.data.len);
    ck_assert_int_eq(mtr_gguf_item_i64(&a, 0), 0);
    ck_assert(!mtr_gguf_opt_numbers(&g, "strings", &a, &err));
    ck_assert(!mtr_gguf_opt_strings(&g, "i16s", &a, &err));
    ck_assert(mtr_gguf_opt_numbers(&g, "i16s", &a, &err));
    ck_assert_int_eq(mtr_gguf_item_i64(&a, 0), -1);
    ck_assert(mtr_gguf_item_f64(&a, 1) == 5 && mtr_gguf_item_i64(&a, 2) == 0);
    c = (struct mtr_gguf_cursor){0};
    ck_assert(!mtr_gguf_next(&a, &c, &s));
    ck_assert(mtr_gguf_opt_numbers(&g, "f32s", &a, &err));
    ck_assert(mtr_gguf_item_f64(&a, 0) == 1.5 && mtr_gguf_item_i64(&a, 0) == 1);
    ck_assert_int_eq(mtr_gguf_item_i64(&a, 1), INT64_MAX);
    ck_assert(mtr_gguf_opt_numbers(&g, "bools", &a, &err));
    ck_assert(mtr_gguf_item_i64(&a, 0) == 1 && mtr_gguf_item_f64(&a, 1) == 0);
}
END_TEST

MTR_CHECK_MAIN("checkpoint/gguf_get")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, integers);
    tcase_add_test(tc, others);
    tcase_add_test(tc, arrays);
}
