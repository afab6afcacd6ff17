/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Anthropic's messages: what becomes of a request, and the events of an answer in their order. */
#include "broker/api/anthropic.h"

#include "tests/unit/api/api_support.h"

#define HEAD "{\"max_tokens\":9,\"messages\":"
#define ONE  "[{\"role\":\"user\",\"content\":\"x\"}]"

static const struct mtr_protocol *messages(void)
{
    return mtr_anthropic_messages();
}

static struct mtr_str role_of(uint32_t i)
{
    return text_at(&request.messages->items[i], "role");
}

static struct mtr_str content_of(uint32_t i)
{
    return text_at(&request.messages->items[i], "content");
}

START_TEST(turns_become_messages)
{
    ck_assert(
        parse(messages(),
              "{\"max_tokens\":9,\"system\":[{\"type\":\"text\",\"text\":\"a\",\"cache_control\":"
              "{\"type\":\"ephemeral\"}},{\"type\":\"text\",\"text\":\"b\"}],\"messages\":["
              "{\"role\":\"user\",\"content\":\"1\"},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"2\"}]},"
              "{\"role\":\"assistant\",\"content\":\"3\"},{\"role\":\"system\",\"content\":\"4\"},"
              "{\"role\":\"user\",\"content\":[{\"type\":\"document\",\"title\":\"t\",\"source\":"
              "{\"type\":\"text\",\"media_type\":\"text/plain\",\"data\":\"d\"}}]}]}"));
    static const char *const expected[][2] = {{"system", "a\nb"},
                                              {"user", "1\n2"},
                                              {"assistant", "3"},
                                              {"system", "4"},
                                              {"user", "t\nd"}};
    ck_assert_uint_eq(request.messages->count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert(mtr_str_is(role_of(i), expected[i][0]));
        ck_assert(mtr_str_is(content_of(i), expected[i][1]));
    }
    ck_assert_uint_eq(request.max_tokens, 9);
    ck_assert(!request.continue_final_message);
}
END_TEST

START_TEST(results_come_before_what_is_said_beside_them)
{
    ck_assert(parse(messages(), HEAD
                    "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\""
                    ":[{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"tool_use\",\"id\":\"i1\","
                    "\"name\":\"f\",\"input\":{\"a\":1}}]},{\"role\":\"user\",\"content\":["
                    "{\"type\":\"tool_result\",\"tool_use_id\":\"i1\",\"content\":[{\"type\":"
                    "\"text\",\"text\":\"r\"}],\"is_error\":true},"
                    "{\"type\":\"text\",\"text\":\"u\"}]}]}"));
    ck_assert_uint_eq(request.messages->count, 4);
    ck_assert(mtr_str_is(role_of(2), "tool"));
    ck_assert(mtr_str_is(content_of(2), "The tool failed:\nr"));
    ck_assert(mtr_str_is(text_at(&request.messages->items[2], "tool_call_id"), "i1"));
    ck_assert(mtr_str_is(role_of(3), "user"));
    ck_assert(mtr_json_get(&request.messages->items[1], "tool_calls") != NULL);
}
END_TEST

START_TEST(a_last_assistant_turn_is_a_beginning)
{
    ck_assert(parse(messages(), HEAD "[{\"role\":\"user\",\"content\":\"x\"},"
                                     "{\"role\":\"assistant\",\"content\":\"so\"}]}"));
    ck_assert(request.continue_final_message);
    refused(messages(),
            HEAD "[{\"role\":\"user\",\"content\":\"x\"},"
                 "{\"role\":\"assistant\",\"content\":\"so \"}]}",
            "messages");
}
END_TEST

START_TEST(bad_requests)
{
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{\"messages\":" ONE "}", "max_tokens"},
        {"{\"max_tokens\":-1,\"messages\":" ONE "}", "max_tokens"},
        {"{\"max_tokens\":1.5,\"messages\":" ONE "}", "max_tokens"},
        {"{\"max_tokens\":1}", "messages"},
        {HEAD "[]}", "messages"},
        {HEAD "{}}", "messages"},
        {HEAD "[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0]"},
        {HEAD "[{\"role\":\"user\"}]}", "messages[0]"},
        {HEAD "[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
        {HEAD "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
         "messages[0].content[0]"},
        {HEAD "[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
         "messages[0].content[0]"},
        {HEAD "[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"i\",\"name\":"
              "\"f\",\"input\":\"{}\"}]}]}",
         "messages[0].content[0]"},
        {HEAD "[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"x\","
              "\"content\":\"r\"}]}]}",
         "messages[0].content[0]"},
        {HEAD ONE ",\"system\":5}", "system"},
        {HEAD ONE ",\"temperature\":1.5}", "temperature"},
        {HEAD ONE ",\"top_k\":-1}", "top_k"},
        {HEAD ONE ",\"stop_sequences\":\"x\"}", "stop_sequences"},
        {HEAD ONE ",\"stop_sequences\":[\"\"]}", "stop_sequences"},
        {HEAD ONE ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"w\"}]}", "tools[0]"},
        {HEAD ONE ",\"tools\":[{\"name\":\"w\"}]}", "tools[0]"},
        {HEAD ONE ",\"tools\":[{\"name\":\"w\",\"input_schema\":{},\"defer_loading\":true}]}",
         "tools[0]"},
        {HEAD ONE ",\"tool_choice\":{\"type\":\"all\"}}", "tool_choice"},
        {HEAD ONE ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}}", "thinking"},
        {HEAD ONE ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2000}}", "thinking"},
        {HEAD ONE ",\"thinking\":{\"type\":\"between_tools\"}}", "thinking"},
        {HEAD ONE ",\"output_config\":{\"format\":{\"type\":\"json_schema\",\"schema\":{}}}}",
         "output_config"},
        {HEAD ONE ",\"output_config\":{\"other\":1}}", "output_config"},
        {HEAD ONE ",\"container\":\"c\"}", "container"},
        {HEAD ONE ",\"context_management\":{\"edits\":[{\"type\":\"clear_tool_uses_20250919\"}]}}",
         "context_management"},
        {HEAD ONE ",\"n\":2}", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(messages(), cases[i].body, cases[i].field);
}
END_TEST

START_TEST(hints_are_taken)
{
    ck_assert(parse(messages(),
                    HEAD ONE ",\"metadata\":{\"user_id\":\"u\"},\"service_tier\":\"auto\","
                             "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"},\"speed\":"
                             "\"fast\",\"mcp_servers\":[],\"context_management\":{\"edits\":[{"
                             "\"type\":\"clear_thinking_20251015\",\"keep\":\"all\"}]}}"));
}
END_TEST

START_TEST(counting_needs_no_limit)
{
    mtr_chat_request_init(&request, &arena);
    const struct mtr_json *v = mtr_json_parse(&arena, MTR_STR("{\"messages\":" ONE "}"), 0, &err);
    ck_assert(mtr_anthropic_parse_count(&request, v, &err));
}
END_TEST

static const struct mtr_out_event events[] = {
    {.kind = MTR_EVENT_REASONING, .text = {"hm", 2}},
    {.kind = MTR_EVENT_TEXT, .text = {"a", 1}},
    {.kind = MTR_EVENT_TEXT, .text = {"\"b", 2}},
    {.kind = MTR_EVENT_TOOL_BEGIN, .tool_id = {"9", 1}, .tool_name = {"f", 1}},
    {.kind = MTR_EVENT_TOOL_ARGUMENTS, .text = {"{\"k\"", 4}},
    {.kind = MTR_EVENT_TOOL_ARGUMENTS, .text = {":1}", 3}},
    {.kind = MTR_EVENT_TOOL_END},
    {.kind = MTR_EVENT_FINISH, .finish = MTR_END_TOOLS},
};
static const struct mtr_usage usage = {10, 4, 7, 2};

START_TEST(whole_answer)
{
    ck_assert(parse(messages(), HEAD ONE "}"));
    play(messages(), events, 8, &usage);
    const struct mtr_json *v = answer(), *blocks = mtr_json_get(v, "content");
    ck_assert(mtr_str_is(text_at(v, "id"), "msg_id0"));
    ck_assert(mtr_str_is(text_at(v, "stop_reason"), "tool_use"));
    ck_assert_int_eq(mtr_json_get(v, "stop_sequence")->kind, MTR_JSON_NULL);
    ck_assert_uint_eq(blocks->count, 3);
    ck_assert(mtr_str_is(text_at(&blocks->items[0], "thinking"), "hm"));
    ck_assert(text_at(&blocks->items[0], "signature").len > 0);
    ck_assert(mtr_str_is(text_at(&blocks->items[1], "text"), "a\"b"));
    ck_assert(mtr_str_is(text_at(&blocks->items[2], "name"), "f"));
    ck_assert_int_eq(mtr_json_path(&blocks->items[2], "input.k")->integer, 1);
    ck_assert_int_eq(mtr_json_path(v, "usage.input_tokens")->integer, 6);
    ck_assert_int_eq(mtr_json_path(v, "usage.cache_read_input_tokens")->integer, 4);
    ck_assert_int_eq(mtr_json_path(v, "usage.output_tokens")->integer, 7);
    ck_assert_int_eq(mtr_json_path(v, "usage.output_tokens_details.thinking_tokens")->integer, 2);
}
END_TEST

/* Checks that a frame's event has its data's type, and returns the data. */
static const struct mtr_json *named_frame(size_t *at, const char *type)
{
    struct mtr_str all = mtr_buf_view(&out);
    size_t end = mtr_str_find(all, MTR_STR("\n\n"), *at);
    ck_assert(end != SIZE_MAX);
    struct mtr_str frame = mtr_str_sub(all, *at, end - *at);
    size_t line = mtr_str_find(frame, MTR_STR("\ndata: "), 0);
    *at = end + 2;
    ck_assert(line != SIZE_MAX && mtr_str_starts(frame, MTR_STR("event: ")));
    ck_assert_msg(mtr_str_is(mtr_str_sub(frame, 7, line - 7), type), "%.*s is not %s",
                  MTR_STR_ARG(frame), type);
    const struct mtr_json *v =
        mtr_json_parse(&arena, mtr_str_sub(frame, line + 7, SIZE_MAX), 0, &err);
    ck_assert_msg(v != NULL, "a frame is not JSON: %s", err.message);
    ck_assert(mtr_str_is(text_at(v, "type"), type));
    return v;
}

START_TEST(streamed_answer)
{
    static const struct {
        const char *type;
        int index; /* -1: has none */
    } expected[] = {
        {"message_start", -1},      {"content_block_start", 0}, {"content_block_delta", 0},
        {"content_block_delta", 0}, {"content_block_stop", 0},  {"content_block_start", 1},
        {"content_block_delta", 1}, {"content_block_delta", 1}, {"content_block_stop", 1},
        {"content_block_start", 2}, {"content_block_delta", 2}, {"content_block_delta", 2},
        {"content_block_stop", 2},  {"message_delta", -1},      {"message_stop", -1},
    };
    size_t at = 0;
    ck_assert(parse(messages(), HEAD ONE ",\"stream\":true}"));
    play(messages(), events, 8, &usage);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct mtr_json *v = named_frame(&at, expected[i].type);
        const struct mtr_json *index = mtr_json_get(v, "index");
        ck_assert_int_eq(index ? (int)index->integer : -1, expected[i].index);
        if (i == 3)
            ck_assert(mtr_str_is(text_at(v, "delta.type"), "signature_delta"));
        if (i == 7)
            ck_assert(mtr_str_is(text_at(v, "delta.text"), "\"b"));
        if (i == 11)
            ck_assert(mtr_str_is(text_at(v, "delta.partial_json"), ":1}"));
        if (i == 13)
            ck_assert(mtr_str_is(text_at(v, "delta.stop_reason"), "tool_use"));
    }
    ck_assert_uint_eq(at, out.len);
}
END_TEST

START_TEST(omitted_thinking)
{
    size_t at = 0;
    ck_assert(parse(messages(), HEAD ONE ",\"stream\":true,\"thinking\":{\"type\":\"adaptive\","
                                         "\"display\":\"omitted\"}}"));
    play(messages(), events, 8, &usage);
    named_frame(&at, "message_start");
    named_frame(&at, "content_block_start");
    ck_assert(mtr_str_is(text_at(named_frame(&at, "content_block_delta"), "delta.type"),
                         "signature_delta"));
}
END_TEST

START_TEST(stop_sequences_are_named)
{
    const struct mtr_out_event end[] = {
        {.kind = MTR_EVENT_FINISH, .finish = MTR_END_STOP, .stop = {"##", 2}}};
    ck_assert(parse(messages(), HEAD ONE ",\"stop_sequences\":[\"##\"]}"));
    play(messages(), end, 1, &usage);
    ck_assert(mtr_str_is(text_at(answer(), "stop_reason"), "stop_sequence"));
    ck_assert(mtr_str_is(text_at(answer(), "stop_sequence"), "##"));
    ck_assert_uint_eq(mtr_json_get(answer(), "content")->count, 0);
}
END_TEST

START_TEST(a_ping_comes_behind_the_start)
{
    size_t at = 0;
    struct mtr_answer_head head = {MTR_STR("id0"), MTR_STR("m"), 1};
    ck_assert(parse(messages(), HEAD ONE ",\"stream\":true}"));
    struct mtr_answer *a = messages()->answer(&request, &head);
    mtr_buf_clear(&out);
    a->ops->begin(a, &out);
    a->ops->ping(a, &out);
    a->ops->ping(a, &out);
    named_frame(&at, "message_start");
    named_frame(&at, "ping");
    named_frame(&at, "ping");
    ck_assert_uint_eq(at, out.len);
    a->ops->release(a);
}
END_TEST

START_TEST(errors)
{
    mtr_fail_field(&err, MTR_BUSY, "", "full");
    mtr_buf_clear(&out);
    mtr_anthropic_error_as(mtr_anthropic_status(&err), &err, MTR_STR("r1"), &out);
    ck_assert(mtr_str_is(text_at(answer(), "error.type"), "rate_limit_error"));
    ck_assert(mtr_str_is(text_at(answer(), "type"), "error"));
    ck_assert(mtr_str_is(text_at(answer(), "request_id"), "r1"));
    mtr_fail(&err, MTR_IO, "no worker");
    ck_assert_int_eq(mtr_anthropic_status(&err), 529);
    size_t at = 0;
    mtr_buf_clear(&out);
    messages()->stream_error(&err, &out);
    ck_assert(mtr_str_is(text_at(named_frame(&at, "error"), "error.type"), "overloaded_error"));
}
END_TEST

MTR_CHECK_MAIN("api/anthropic")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, turns_become_messages);
    tcase_add_test(tc, results_come_before_what_is_said_beside_them);
    tcase_add_test(tc, a_last_assistant_turn_is_a_beginning);
    tcase_add_test(tc, bad_requests);
    tcase_add_test(tc, hints_are_taken);
    tcase_add_test(tc, counting_needs_no_limit);
    tcase_add_test(tc, whole_answer);
    tcase_add_test(tc, streamed_answer);
    tcase_add_test(tc, omitted_thinking);
    tcase_add_test(tc, stop_sequences_are_named);
    tcase_add_test(tc, a_ping_comes_behind_the_start);
    tcase_add_test(tc, errors);
}
