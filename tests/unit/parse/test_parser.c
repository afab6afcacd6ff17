/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine by itself: when pieces come, what tokens are, what the prompt's end says. What each
 * format makes of recorded outputs is parser-check's.
 */
#include "broker/parse/parser.c"

#include <stdio.h>

#include "common/base/file.h"
#include "tests/unit/check_main.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":"
    "{\"type\":\"string\"},\"i\":{\"type\":\"integer\"}}}}}]";

static struct mtr_arena arena;
static struct mtr_buf seen; /* "T:text|R:text|C:name|A:json|E:|" as pieces come, joined */
static int last;
static struct mtr_parser *parser;
static struct mtr_parser_setup set;

static void take(void *context, enum mtr_piece_kind kind, struct mtr_str text)
{
    static const char letters[] = "TRCAE";
    if (last != (int)kind)
        mtr_buf_printf(&seen, "%s%c:", seen.len ? "|" : "", letters[kind]);
    mtr_buf_str(&seen, text);
    last = (int)kind;
}

static void setup(void)
{
    mtr_arena_init(&arena, 0);
}

static void teardown(void)
{
    mtr_parser_free(parser);
    parser = NULL;
    mtr_buf_free(&seen);
    mtr_arena_free(&arena);
}

static void begin(const char *format, const char *tail)
{
    const struct mtr_parse_format *f = mtr_parse_format_find(mtr_str(format));
    ck_assert_ptr_nonnull(f);
    mtr_parser_free(parser);
    mtr_buf_clear(&seen);
    last = -1;
    set = (struct mtr_parser_setup){
        .tools = f,
        .reasoning = f,
        .declared = mtr_json_parse(&arena, MTR_STR(tools), MTR_JSON_STRICT, NULL),
        .prompt_tail = mtr_str(tail),
        .tokenizer = set.tokenizer,
        .piece = take,
    };
    parser = mtr_parser_new(&set);
    ck_assert_ptr_nonnull(parser);
}

static void text(const char *t)
{
    ck_assert(mtr_parser_text(parser, mtr_str(t)));
}

static void sees(const char *expected)
{
    ck_assert_str_eq(seen.len ? seen.data : "", expected);
}

static void ends(const char *expected)
{
    ck_assert(mtr_parser_finish(parser));
    sees(expected);
}

START_TEST(strings_are_handed_out_as_they_grow)
{
    begin("hermes", "");
    text("Hi <tool_call>\n{\"name\": \"f\", \"argu");
    sees("T:Hi");
    text("ments\": {");
    sees("T:Hi|C:f|A:{");
    text("\"s\": \"one");
    sees("T:Hi|C:f|A:{\"s\":\"one");
    text(" two\\");
    sees("T:Hi|C:f|A:{\"s\":\"one two");
    text("n\", \"i\": 1");
    sees("T:Hi|C:f|A:{\"s\":\"one two\\n\"");
    text("7}}</tool_call>");
    sees("T:Hi|C:f|A:{\"s\":\"one two\\n\",\"i\":17}|E:");
    ck_assert_uint_eq(mtr_parser_calls(parser), 1);
    ends("T:Hi|C:f|A:{\"s\":\"one two\\n\",\"i\":17}|E:");
}
END_TEST

START_TEST(values_between_tags_grow_too)
{
    begin("qwen3_coder", "");
    text("<tool_call>\n<function=f>\n<parameter=s>\nfirst line\nsecond");
    sees("C:f|A:{\"s\":\"first line\\nsecond");
    text("\n</para");
    sees("C:f|A:{\"s\":\"first line\\nsecond");
    text("dise> more");
    sees("C:f|A:{\"s\":\"first line\\nsecond\\n</paradise> more");
    text("\n</parameter>\n</function>\n</tool_call>");
    ends("C:f|A:{\"s\":\"first line\\nsecond\\n</paradise> more\"}|E:");
}
END_TEST

START_TEST(a_header_is_held_back_until_it_is_whole)
{
    begin("minimax_xml", "");
    text("Well, <minimax:tool_call>\n<invoke name=\"f");
    sees("T:Well,");
    ends("T:Well, <minimax:tool_call>\n<invoke name=\"f");
}
END_TEST

START_TEST(the_prompt_says_how_an_answer_begins)
{
    begin("qwen3", "<|im_start|>assistant\n<think>\n");
    ck_assert(mtr_parser_in_reasoning(parser));
    text("a</think>b");
    ck_assert(!mtr_parser_in_reasoning(parser));
    ends("R:a|T:b");
    begin("qwen3", "<think>\n\n</think>\n\n");
    ck_assert(!mtr_parser_in_reasoning(parser));
    begin("qwen3", "I wrote <think><|im_end|>\n<|im_start|>assistant\n");
    ck_assert(!mtr_parser_in_reasoning(parser));
    begin("mistral_think", "[THINK] was said[/INST]");
    ck_assert(!mtr_parser_in_reasoning(parser));
    begin("kimi_k3", "<|open|>think<|sep|>");
    ck_assert(mtr_parser_in_reasoning(parser));
    begin("gemma4", "<|turn>model\n<|channel>thought\n<channel|>");
    ck_assert(!mtr_parser_in_reasoning(parser));
}
END_TEST

START_TEST(only_tokens_are_hidden_where_the_vocabulary_has_them)
{
    char path[1024];
    struct mtr_error err = {0};
    struct mtr_str json;
    const char *root = getenv("MTR_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/tests/data/tiny/tokenizer.json", root ? root : ".");
    ck_assert_msg(mtr_file_read(&arena, path, 1u << 20, &json, &err), "%s", err.message);
    struct mtr_tokenizer *t = mtr_tokenizer_from_json(json, (struct mtr_str){0}, &err);
    set.tokenizer = t;
    begin("glm45", "");
    ck_assert(mtr_parser_hides(parser, MTR_STR("<|user|>")));
    ck_assert(!mtr_parser_hides(parser, MTR_STR("<|end|>")));
    text("a <|user|> b <|observation|> c ");
    ck_assert(mtr_parser_token(parser, MTR_STR("<|user|>")));
    text("d");
    ck_assert(mtr_parser_token(parser, MTR_STR("<|end|>")));
    ends("T:a <|user|> b  c d");
    set.tokenizer = NULL;
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(long_texts_take_no_more_memory)
{
    begin("bare_json", "");
    for (int i = 0; i < 20000; i++)
        text("some words ");
    ck_assert_uint_lt(parser->in.cap, 4 * COMPACT_BYTES);
    begin("hermes", "");
    text("<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"");
    for (int i = 0; i < 20000; i++)
        text("some words ");
    ck_assert_uint_lt(parser->in.cap, 4 * COMPACT_BYTES);
    begin("qwen3_coder", "");
    text("<function=f>\n<parameter=s>\n");
    for (int i = 0; i < 20000; i++)
        text("some <b>words</b>\n");
    ck_assert_uint_lt(parser->in.cap, 4 * COMPACT_BYTES);
}
END_TEST

START_TEST(without_tools_nothing_is_a_call)
{
    begin("hermes", "");
    mtr_parser_free(parser);
    set.declared = NULL;
    parser = mtr_parser_new(&set);
    text("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
    ends("T:<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>");
}
END_TEST

MTR_CHECK_MAIN("parse/parser")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, strings_are_handed_out_as_they_grow);
    tcase_add_test(tc, values_between_tags_grow_too);
    tcase_add_test(tc, a_header_is_held_back_until_it_is_whole);
    tcase_add_test(tc, the_prompt_says_how_an_answer_begins);
    tcase_add_test(tc, only_tokens_are_hidden_where_the_vocabulary_has_them);
    tcase_add_test(tc, long_texts_take_no_more_memory);
    tcase_add_test(tc, without_tools_nothing_is_a_call);
}
