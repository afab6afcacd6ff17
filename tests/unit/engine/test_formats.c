/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which format a template shows, and what ends reasoning by force. */
#include "broker/engine/formats.c"

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

static const char *name_of(const struct mtr_parse_format *f)
{
    return f ? f->name : "none";
}

static void shows(const char *source, const char *tools, const char *reasoning)
{
    struct mtr_error err = {0};
    struct mtr_formats f;
    const struct mtr_template *t = mtr_template_compile(&arena, mtr_str(source), &err);
    ck_assert_msg(t != NULL, "%s", err.message);
    ck_assert(mtr_formats_choose(t, mtr_str(source), NULL, NULL, &f, &err));
    ck_assert_str_eq(name_of(f.tools), tools);
    ck_assert_str_eq(name_of(f.reasoning), reasoning);
}

START_TEST(templates_show_their_format)
{
    shows("{{ messages }}", "none", "none");
    shows("{{ tools }}", "bare_json", "none");
    shows("{{ tools }}<tool_call>", "hermes", "none");
    shows("{{ tools }}<tool_call><think>", "hermes", "hermes");
    shows("{{ tools }}<tool_call><function=x>", "qwen3_coder", "none");
    shows("{{ tools }}[TOOL_CALLS]", "mistral", "none");
    shows("{{ tools }}[TOOL_CALLS][THINK]", "mistral", "mistral");
    shows("<|channel|>x<|message|>", "gpt_oss", "gpt_oss");
    shows("{{ tools }}<think>", "bare_json", "bare_json");
    shows("{{ x }}</think>", "none", "qwen3");
    shows("{{ tools }}<|tools_prefix|>", "none", "none");
}
END_TEST

START_TEST(flags_go_before_templates)
{
    struct mtr_error err = {0};
    struct mtr_formats f;
    ck_assert(
        mtr_formats_choose(NULL, MTR_STR("<tool_call><think>"), "mistral", "qwen3", &f, &err));
    ck_assert_str_eq(name_of(f.tools), "mistral");
    ck_assert_str_eq(name_of(f.reasoning), "qwen3");
    ck_assert(mtr_formats_choose(NULL, MTR_STR("<tool_call><think>"), "none", "none", &f, &err));
    ck_assert(!f.tools && !f.reasoning);
    ck_assert(!mtr_formats_choose(NULL, MTR_STR(""), "herms", NULL, &f, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "'herms'"));
    ck_assert_ptr_nonnull(strstr(err.message, "hermes"));
    ck_assert(!mtr_formats_choose(NULL, MTR_STR(""), "qwen3", NULL, &f, &err));
    ck_assert(!mtr_formats_choose(NULL, MTR_STR(""), NULL, "llama3", &f, &err));
}
END_TEST

START_TEST(reasoning_is_ended_by_its_closer)
{
    struct mtr_buf out = {0};
    mtr_formats_think_end(mtr_parse_format_find(MTR_STR("qwen3")), &out);
    ck_assert(mtr_str_ends(mtr_buf_view(&out), MTR_STR("\n</think>\n\n")));
    mtr_buf_clear(&out);
    mtr_formats_think_end(mtr_parse_format_find(MTR_STR("mistral")), &out);
    ck_assert(mtr_str_ends(mtr_buf_view(&out), MTR_STR("\n[/THINK]")));
    mtr_buf_clear(&out);
    mtr_formats_think_end(mtr_parse_format_find(MTR_STR("llama3")), &out);
    ck_assert_uint_eq(out.len, 0);
    mtr_formats_think_end(NULL, &out);
    ck_assert_uint_eq(out.len, 0);
    mtr_buf_free(&out);
}
END_TEST

MTR_CHECK_MAIN("engine/formats")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, templates_show_their_format);
    tcase_add_test(tc, flags_go_before_templates);
    tcase_add_test(tc, reasoning_is_ended_by_its_closer);
}
