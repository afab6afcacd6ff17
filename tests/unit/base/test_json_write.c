/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/json_write.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_buf buf;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&buf);
}

START_TEST(commas_and_colons)
{
    struct mtr_json_writer w = mtr_json_writer(&buf);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "a");
    mtr_json_begin_array(&w);
    mtr_json_put_i64(&w, -1);
    mtr_json_put_u64(&w, UINT64_MAX);
    mtr_json_begin_object(&w);
    mtr_json_end_object(&w);
    mtr_json_begin_array(&w);
    mtr_json_end_array(&w);
    mtr_json_put_null(&w);
    mtr_json_end_array(&w);
    mtr_json_key_str(&w, MTR_STR("b\n"));
    mtr_json_put_bool(&w, true);
    mtr_json_key(&w, "c");
    mtr_json_put_cstr(&w, "x");
    mtr_json_key(&w, "d");
    mtr_json_put_raw(&w, MTR_STR("[1]"));
    mtr_json_key(&w, "e");
    mtr_json_put_bool(&w, false);
    mtr_json_end_object(&w);
    ck_assert_str_eq(buf.data, "{\"a\":[-1,18446744073709551615,{},[],null],\"b\\n\":true,"
                               "\"c\":\"x\",\"d\":[1],\"e\":false}");
    ck_assert_int_eq(w.depth, 0);
}
END_TEST

static const struct {
    const char *text;
    size_t len;
    const char *json;
} escapes[] = {
    {"", 0, "\"\""},
    {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
    {"\b\f\n\r\t\x01\x1f\x7f", 8, "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""},
    {"a\0b", 3, "\"a\\u0000b\""},
    {"\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\""},
    {"a\xff\xfe"
     "b",
     4,
     "\"a\xef\xbf\xbd\xef\xbf\xbd"
     "b\""},
    {"\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},
    {"12345678\"12345678901234567\xc3\xa9\n", 29, "\"12345678\\\"12345678901234567\xc3\xa9\\n\""},
};

START_TEST(strings_are_escaped)
{
    ck_assert(mtr_json_escape(&buf, (struct mtr_str){escapes[_i].text, escapes[_i].len}));
    ck_assert_str_eq(buf.data, escapes[_i].json);
}
END_TEST

START_TEST(any_bytes_become_json)
{
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t r[8];
        struct mtr_error err;
        mtr_philox(5, i, 0, r);
        mtr_philox(5, i, 1, r + 4);
        struct mtr_str s = {(const char *)r, r[0] % sizeof r};
        mtr_buf_clear(&buf);
        mtr_json_escape(&buf, s);
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_buf_view(&buf), 0, &err);
        ck_assert_msg(v != NULL, "%s", err.message);
        if (mtr_utf8_valid(s))
            ck_assert(mtr_str_equal(v->text, s));
        mtr_arena_reset(&arena);
    }
}
END_TEST

static const struct {
    double value;
    const char *json;
} reals[] = {
    {0, "0.0"},
    {-0.0, "-0.0"},
    {1, "1.0"},
    {0.1, "0.1"},
    {1e22, "1e+22"},
    {1e-7, "1e-07"},
    {1.0 / 3, "0.3333333333333333"},
    {123456789, "123456789.0"},
    {-2.5, "-2.5"},
    {INFINITY, "null"},
    {NAN, "null"},
    {5e-324, "4.94065645841247e-324"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
};

START_TEST(reals_are_short)
{
    struct mtr_json_writer w = mtr_json_writer(&buf);
    mtr_json_put_f64(&w, reals[_i].value);
    ck_assert_str_eq(buf.data, reals[_i].json);
}
END_TEST

START_TEST(reals_read_back)
{
    for (uint32_t i = 0; i < 50000; i++) {
        uint32_t r[4];
        double d;
        struct mtr_json_writer w = mtr_json_writer(&buf);
        mtr_philox(6, i, 0, r);
        memcpy(&d, r, sizeof d);
        if (i & 1)
            d = (double)(float)mtr_uniform(6, i, 1) * -20;
        if (!isfinite(d))
            continue;
        mtr_buf_clear(&buf);
        mtr_json_put_f64(&w, d);
        ck_assert(strtod(buf.data, NULL) == d);
    }
}
END_TEST

START_TEST(values_come_out_as_they_came)
{
    static const char text[] = "{\"a\":[1,-0,1.50,1e-07,12345678901234567890,\"x\\n\",true,null],"
                               "\"a\":{},\"b\":[[[]]]}";
    struct mtr_error err;
    const struct mtr_json *v = mtr_json_parse(&arena, MTR_STR(text), 0, &err);
    struct mtr_json_writer w = mtr_json_writer(&buf);
    mtr_json_put_value(&w, v);
    ck_assert_str_eq(buf.data, text);
}
END_TEST

START_TEST(a_full_buffer_is_remembered)
{
    buf.limit_bytes = 5;
    struct mtr_json_writer w = mtr_json_writer(&buf);
    mtr_json_begin_array(&w);
    mtr_json_put_cstr(&w, "long text");
    mtr_json_end_array(&w);
    ck_assert(buf.failed);
    ck_assert_uint_le(buf.len, 5);
    ck_assert(!mtr_json_escape(&buf, MTR_STR("")));
}
END_TEST

MTR_CHECK_MAIN("base/json_write")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, commas_and_colons);
    tcase_add_loop_test(tc, strings_are_escaped, 0, sizeof escapes / sizeof *escapes);
    tcase_add_test(tc, any_bytes_become_json);
    tcase_add_loop_test(tc, reals_are_short, 0, sizeof reals / sizeof *reals);
    tcase_add_test(tc, reals_read_back);
    tcase_add_test(tc, values_come_out_as_they_came);
    tcase_add_test(tc, a_full_buffer_is_remembered);
}
