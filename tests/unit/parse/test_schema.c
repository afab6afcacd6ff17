/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Types that a schema allows, and raw text as JSON of them. */
#include "broker/parse/schema.c"

#include "tests/unit/check_main.h"

static struct mtr_arena arena;
static struct mtr_buf out;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&out);
}

static unsigned types(const char *schema)
{
    char *text = mtr_arena_printf(&arena,
                                  "{\"$defs\":{\"N\":{\"type\":\"number\"},\"L\":{\"$ref\":"
                                  "\"#/$defs/L\"}},\"properties\":{\"k\":%s}}",
                                  schema);
    const struct mtr_json *p = mtr_json_parse(&arena, mtr_str(text), MTR_JSON_STRICT, NULL);
    ck_assert_msg(p != NULL, "%s", text);
    ck_assert_uint_eq(mtr_schema_types(p, MTR_STR("other")), 0);
    return mtr_schema_types(p, MTR_STR("k"));
}

START_TEST(types_come_from_every_keyword)
{
    unsigned number = MTR_TYPE_NUMBER | MTR_TYPE_INTEGER;
    ck_assert_uint_eq(types("{\"type\":\"string\"}"), MTR_TYPE_STRING);
    ck_assert_uint_eq(types("{\"type\":[\"integer\",\"null\"]}"), MTR_TYPE_INTEGER | MTR_TYPE_NULL);
    ck_assert_uint_eq(types("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}"),
                      MTR_TYPE_STRING | MTR_TYPE_NULL);
    ck_assert_uint_eq(types("{\"allOf\":[{\"type\":[\"string\",\"null\"]},{\"type\":\"null\"}]}"),
                      MTR_TYPE_NULL);
    ck_assert_uint_eq(types("{\"enum\":[\"a\",1]}"), MTR_TYPE_STRING | MTR_TYPE_INTEGER);
    ck_assert_uint_eq(types("{\"const\":true}"), MTR_TYPE_BOOLEAN);
    ck_assert_uint_eq(types("{\"$ref\":\"#/$defs/N\"}"), number);
    ck_assert_uint_eq(types("{\"$ref\":\"#/$defs/L\"}"), MTR_TYPE_ANY);
    ck_assert_uint_eq(types("{\"$ref\":\"#/$defs/none\"}"), MTR_TYPE_ANY);
    ck_assert_uint_eq(types("{\"description\":\"x\"}"), MTR_TYPE_ANY);
    ck_assert_uint_eq(types("true"), MTR_TYPE_ANY);
}
END_TEST

static const char *as(const char *text, unsigned wanted)
{
    mtr_buf_clear(&out);
    ck_assert(mtr_schema_write(mtr_str(text), wanted, false, &out));
    return out.data;
}

START_TEST(text_becomes_the_first_type_that_it_reads_as)
{
    unsigned number = MTR_TYPE_NUMBER | MTR_TYPE_INTEGER;
    ck_assert_str_eq(as("42", MTR_TYPE_STRING), "\"42\"");
    ck_assert_str_eq(as(" 42 ", MTR_TYPE_INTEGER), "42");
    ck_assert_str_eq(as("4.0", MTR_TYPE_INTEGER), "\"4.0\"");
    ck_assert_str_eq(as("2.50", number), "2.50");
    ck_assert_str_eq(as("007", number), "\"007\"");
    ck_assert_str_eq(as("TRUE", MTR_TYPE_BOOLEAN), "true");
    ck_assert_str_eq(as("None", MTR_TYPE_NULL | MTR_TYPE_STRING), "null");
    ck_assert_str_eq(as("None", MTR_TYPE_INTEGER), "\"None\"");
    ck_assert_str_eq(as("{'a': [1, (2, True)], \"b\": None}", MTR_TYPE_OBJECT),
                     "{\"a\":[1,[2,true]],\"b\":null}");
    ck_assert_str_eq(as("[1, 2", MTR_TYPE_ARRAY), "\"[1, 2\"");
    ck_assert_str_eq(as("{\"a\":1}", MTR_TYPE_ARRAY), "\"{\\\"a\\\":1}\"");
    ck_assert_str_eq(as(" a \"b\"\n", MTR_TYPE_ANY), "\" a \\\"b\\\"\\n\"");
}
END_TEST

static bool cut(const char *text, unsigned wanted)
{
    mtr_buf_clear(&out);
    return mtr_schema_write(mtr_str(text), wanted, true, &out);
}

START_TEST(pieces_of_literals_are_nothing)
{
    ck_assert(!cut("tr", MTR_TYPE_BOOLEAN));
    ck_assert(!cut("-", MTR_TYPE_INTEGER));
    ck_assert(!cut("1.", MTR_TYPE_NUMBER | MTR_TYPE_INTEGER));
    ck_assert(cut("12", MTR_TYPE_INTEGER));
    ck_assert_str_eq(out.data, "12");
    ck_assert(cut("tr", MTR_TYPE_BOOLEAN | MTR_TYPE_STRING));
    ck_assert_str_eq(out.data, "\"tr\"");
    ck_assert(cut("[1, {\"a\": \"b", MTR_TYPE_ARRAY));
    ck_assert_str_eq(out.data, "[1,{\"a\":\"b\"}]");
}
END_TEST

START_TEST(tools_are_found_by_name)
{
    bool found;
    const struct mtr_json *tools = mtr_json_parse(
        &arena,
        MTR_STR("[1,{\"function\":{\"name\":\"a\"}},{\"function\":{\"name\":\"b\",\"parameters\":"
                "{}}}]"),
        MTR_JSON_STRICT, NULL);
    ck_assert_ptr_null(mtr_schema_of_tool(tools, MTR_STR("a"), &found));
    ck_assert(found);
    ck_assert_ptr_nonnull(mtr_schema_of_tool(tools, MTR_STR("b"), &found));
    ck_assert(found);
    mtr_schema_of_tool(tools, MTR_STR("c"), &found);
    ck_assert(!found);
    mtr_schema_of_tool(NULL, MTR_STR("c"), &found);
    ck_assert(!found);
}
END_TEST

MTR_CHECK_MAIN("parse/schema")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, types_come_from_every_keyword);
    tcase_add_test(tc, text_becomes_the_first_type_that_it_reads_as);
    tcase_add_test(tc, pieces_of_literals_are_nothing);
    tcase_add_test(tc, tools_are_found_by_name);
}
