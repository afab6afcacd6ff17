/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Values of each dialect, whole, cut, in pieces. */
#include "broker/parse/value.c"

#include "tests/unit/check_main.h"

static struct mtr_buf out;

static void teardown(void)
{
    mtr_buf_free(&out);
}

static const char *write(const char *text, enum mtr_dialect dialect, bool cut)
{
    size_t end = 0;
    mtr_buf_clear(&out);
    if (!mtr_value_write(mtr_str(text), 0, dialect, cut, &out, &end))
        return "bad";
    ck_assert_uint_le(end, strlen(text));
    return out.data;
}

START_TEST(json_and_a_little_more)
{
    const enum mtr_dialect d = MTR_DIALECT_JSON;
    ck_assert_str_eq(write("{ \"a\" : [ 1.50 , true ,None, ] , }", d, false),
                     "{\"a\":[1.50,true,null]}");
    ck_assert_str_eq(write("\"a\\d\\u00e9\\ud83d\\ude80\n\"", d, false), "\"a\\\\dé🚀\\n\"");
    ck_assert_str_eq(write("{'a':1}", d, false), "bad");
    ck_assert_str_eq(write("[1 2]", d, false), "bad");
    ck_assert_str_eq(write("{\"a\" 1}", d, false), "bad");
    ck_assert_str_eq(write("[1", d, false), "bad");
    ck_assert_str_eq(write("01", d, false), "bad");
}
END_TEST

START_TEST(python_and_gemma)
{
    ck_assert_str_eq(
        write("('a', \"it's\", '\\x41\\'', None, {'k': 1})", MTR_DIALECT_PYTHON, false),
        "[\"a\",\"it's\",\"A'\",null,{\"k\":1}]");
    ck_assert_str_eq(write("'''a 'b' c'''", MTR_DIALECT_PYTHON, false), "\"a 'b' c\"");
    ck_assert_str_eq(
        write("{a:<|\"|>x \"y\" } <tool_call|><|\"|>,b c:plain words,d:[1,true]}",
              MTR_DIALECT_GEMMA, false),
        "{\"a\":\"x \\\"y\\\" } <tool_call|>\",\"b c\":\"plain words\",\"d\":[1,true]}");
}
END_TEST

START_TEST(what_the_end_cut_is_closed)
{
    const enum mtr_dialect d = MTR_DIALECT_JSON;
    ck_assert_str_eq(write("{\"a\":[1,\"b", d, true), "{\"a\":[1,\"b\"]}");
    ck_assert_str_eq(write("{\"a\":1,\"b\":tr", d, true), "{\"a\":1}");
    ck_assert_str_eq(write("{\"a\":1,\"b", d, true), "{\"a\":1}");
    ck_assert_str_eq(write("{\"a\":-", d, true), "{}");
    ck_assert_str_eq(write("\"a\\u00", d, true), "\"a\"");
    ck_assert_str_eq(write("fal", d, true), "bad");
}
END_TEST

START_TEST(depth_is_limited)
{
    char deep[2 * MTR_VALUE_MAX_DEPTH + 8];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    ck_assert_str_eq(write(deep, MTR_DIALECT_JSON, true), "bad");
    struct mtr_value_scan scan = {0};
    ck_assert_int_eq(mtr_value_scan(&scan, mtr_str(deep), MTR_DIALECT_JSON, false), MTR_NO);
}
END_TEST

START_TEST(a_scan_goes_on_where_it_stopped)
{
    static const char text[] = "{\"a\": [\"}\\\"\", 1], \"b\": {}} x";
    struct mtr_value_scan scan = {0};
    enum mtr_progress r = MTR_MORE;
    for (size_t n = 1; n < sizeof text && r == MTR_MORE; n++)
        r = mtr_value_scan(&scan, (struct mtr_str){text, n}, MTR_DIALECT_JSON, false);
    ck_assert_int_eq(r, MTR_YES);
    ck_assert_uint_eq(scan.at, sizeof text - 3);
    struct mtr_value_scan bad = {0};
    ck_assert_int_eq(mtr_value_scan(&bad, MTR_STR("[1 </x>"), MTR_DIALECT_JSON, false), MTR_NO);
}
END_TEST

START_TEST(strings_in_pieces)
{
    static const char text[] = "a\\n\\ud83d\\ude80\\\"é\\q\" rest";
    for (size_t cut = 0; cut < sizeof text; cut++) {
        size_t at = 0;
        mtr_buf_clear(&out);
        if (mtr_string_copy((struct mtr_str){text, cut}, &at, MTR_QUOTE_JSON, false, &out) !=
            MTR_YES)
            ck_assert_int_eq(mtr_string_copy(mtr_str(text), &at, MTR_QUOTE_JSON, false, &out),
                             MTR_YES);
        ck_assert_str_eq(out.data, "a\\n🚀\\\"é\\\\q");
        ck_assert_str_eq(text + at, " rest");
    }
}
END_TEST

MTR_CHECK_MAIN("parse/value")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, json_and_a_little_more);
    tcase_add_test(tc, python_and_gemma);
    tcase_add_test(tc, what_the_end_cut_is_closed);
    tcase_add_test(tc, depth_is_limited);
    tcase_add_test(tc, a_scan_goes_on_where_it_stopped);
    tcase_add_test(tc, strings_in_pieces);
}
