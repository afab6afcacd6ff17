/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tools of any protocol in OpenAI's form, and what a choice may be. */
#include "broker/api/tools.c"

#include "tests/unit/check_main.h"

static struct mtr_arena arena;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    mtr_arena_free(&arena);
}

static void make(const struct mtr_tool *tools, uint32_t n, struct mtr_chat_request *r,
                 struct mtr_error *err, bool works)
{
    mtr_chat_request_init(r, &arena);
    ck_assert_int_eq(mtr_tools_set(r, tools, n, "tools", err), works);
}

START_TEST(flat_tools_become_nested)
{
    struct mtr_tool t[2] = {{.name = MTR_STR("now"), .description = MTR_STR("The time")},
                            {.name = MTR_STR("b")}};
    struct mtr_chat_request r;
    struct mtr_buf out = {0};
    make(t, 2, &r, NULL, true);
    struct mtr_json_writer w = mtr_json_writer(&out);
    mtr_json_put_value(&w, r.tools);
    ck_assert_str_eq(
        out.data,
        "[{\"type\":\"function\",\"function\":{\"name\":\"now\",\"description\":\"The time\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{}}}},"
        "{\"type\":\"function\",\"function\":{\"name\":\"b\","
        "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]");
    mtr_buf_free(&out);
    ck_assert(mtr_tools_have(&r, MTR_STR("now")));
    ck_assert(!mtr_tools_have(&r, MTR_STR("no")));
    make(t, 0, &r, NULL, true);
    ck_assert_ptr_null(r.tools);
}
END_TEST

START_TEST(bad_tools_are_refused)
{
    struct mtr_json text = {.kind = MTR_JSON_STRING};
    struct mtr_tool twice[2] = {{.name = MTR_STR("a")}, {.name = MTR_STR("a")}};
    struct mtr_tool blank = {.name = MTR_STR("a b")}, none = {0};
    struct mtr_tool odd = {.name = MTR_STR("a"), .parameters = &text};
    struct mtr_chat_request r;
    struct mtr_error err = {0};
    make(twice, 2, &r, &err, false);
    ck_assert_str_eq(err.message, "tools[0] and tools[1] have the same name 'a'");
    make(&blank, 1, &r, &err, false);
    make(&none, 1, &r, &err, false);
    ck_assert_str_eq(err.message, "tools[0] has no name");
    make(&odd, 1, &r, &err, false);
    ck_assert_str_eq(err.message, "the parameters of tools[0] must be an object, not string");
}
END_TEST

START_TEST(choices_are_kept_or_refused)
{
    struct mtr_tool t = {.name = MTR_STR("a")};
    struct mtr_chat_request r;
    struct mtr_error err = {0};
    make(&t, 1, &r, &err, true);
    ck_assert(mtr_tools_check(&r, "tool_choice", &err));
    r.tool_choice = MTR_TOOL_CHOICE_NONE;
    ck_assert(mtr_tools_check(&r, "tool_choice", &err));
    r.tool_choice = MTR_TOOL_CHOICE_REQUIRED;
    ck_assert(!mtr_tools_check(&r, "tool_choice", &err));
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
    r.tool_choice = MTR_TOOL_CHOICE_NAMED;
    r.tool_choice_name = MTR_STR("b");
    ck_assert(!mtr_tools_check(&r, "tool_choice", &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    r.tools = NULL;
    ck_assert(!mtr_tools_check(&r, "tool_choice", &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

MTR_CHECK_MAIN("api/tools")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, flat_tools_become_nested);
    tcase_add_test(tc, bad_tools_are_refused);
    tcase_add_test(tc, choices_are_kept_or_refused);
}
