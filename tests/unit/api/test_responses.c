/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The Responses API: what becomes of items, the events in their order, what is kept. */
#include "broker/api/responses.h"

#include "tests/unit/api/api_support.h"

static struct mtr_log silent;
static struct mtr_store *store;

static const struct mtr_protocol *responses(void)
{
    return mtr_openai_responses();
}

static void setup_store(void)
{
    struct mtr_store_options o = {.path = ""};
    setup();
    mtr_log_init(&silent, "test");
    store = mtr_store_open(&o, &silent, &err);
    ck_assert_ptr_nonnull(store);
}

static void teardown_store(void)
{
    mtr_store_close(store);
    teardown();
}

/* As parse() of the support file, with a store. */
static bool parse_kept(const char *body)
{
    memset(&err, 0, sizeof err);
    mtr_chat_request_init(&request, &arena);
    request.store = store;
    request.owner = 1;
    request.fresh = MTR_STR("f0");
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(body), 0, &err);
    ck_assert_msg(v != NULL, "not JSON: %s", body);
    return responses()->parse(&request, v, &err);
}

static void expect_messages(const char *const (*expected)[2], uint32_t count)
{
    ck_assert_uint_eq(request.messages->count, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_json *m = &request.messages->items[i];
        ck_assert(mtr_str_is(text_at(m, "role"), expected[i][0]));
        if (expected[i][1])
            ck_assert_msg(mtr_str_is(text_at(m, "content"), expected[i][1]), "%u: %.*s", i,
                          MTR_STR_ARG(text_at(m, "content")));
    }
}

START_TEST(items_become_messages)
{
    static const char *const expected[][2] = {{"system", "i\nd"},  {"user", "q"},
                                              {"assistant", NULL}, {"tool", "r"},
                                              {"assistant", "a"},  {"user", "u"}};
    ck_assert_msg(
        parse_kept(
            "{\"instructions\":\"i\",\"store\":false,\"input\":["
            "{\"role\":\"developer\",\"content\":\"d\"},{\"type\":\"message\",\"role\":\"user\","
            "\"content\":[{\"type\":\"input_text\",\"text\":\"q\"}]},"
            "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[],\"content\":[{\"type\":"
            "\"reasoning_text\",\"text\":\"hm\"}]},"
            "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},"
            "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"r\"},"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
            "\"text\":\"a\",\"annotations\":[]}]},{\"role\":\"user\",\"content\":\"u\"}]}"),
        "%s", err.message);
    expect_messages(expected, 6);
    ck_assert(!request.keep);
    const struct mtr_json *call = &request.messages->items[2];
    ck_assert(mtr_json_get(call, "tool_calls") != NULL);
}
END_TEST

START_TEST(bad_requests)
{
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{}", "input"},
        {"{\"input\":[]}", "input"},
        {"{\"input\":5}", "input"},
        {"{\"input\":[5]}", "input[0]"},
        {"{\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "input[0]"},
        {"{\"input\":[{\"role\":\"user\"}]}", "input[0].content"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
         "input[0].content[0]"},
        {"{\"input\":[{\"type\":\"mcp_call\"}]}", "input[0]"},
        {"{\"input\":[{\"type\":\"function_call\",\"name\":\"f\"}]}", "input[0]"},
        {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_no\"}]}", "input[0]"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"x\",\"output\":\"r\"}]}",
         "input"},
        {"{\"input\":\"x\",\"instructions\":5}", "instructions"},
        {"{\"input\":\"x\",\"previous_response_id\":\"resp_no\"}", "previous_response_id"},
        {"{\"input\":\"x\",\"conversation\":\"conv_no\"}", "conversation"},
        {"{\"input\":\"x\",\"conversation\":{}}", "conversation"},
        {"{\"input\":\"x\",\"conversation\":\"a\",\"previous_response_id\":\"b\"}",
         "previous_response_id"},
        {"{\"input\":\"x\",\"max_output_tokens\":0}", "max_output_tokens"},
        {"{\"input\":\"x\",\"include\":[\"all\"]}", "include"},
        {"{\"input\":\"x\",\"background\":true,\"store\":false}", "background"},
        {"{\"input\":\"x\",\"reasoning\":{\"effort\":\"huge\"}}", "reasoning.effort"},
        {"{\"input\":\"x\",\"reasoning\":{\"mode\":\"pro\"}}", "reasoning"},
        {"{\"input\":\"x\",\"text\":{\"format\":{\"type\":\"json_object\"}}}", "text.format"},
        {"{\"input\":\"x\",\"text\":{\"verbosity\":\"low\"}}", "text.verbosity"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0]"},
        {"{\"input\":\"x\",\"tool_choice\":\"any\"}", "tool_choice"},
        {"{\"input\":\"x\",\"tool_choice\":{\"type\":\"mcp\"}}", "tool_choice"},
        {"{\"input\":\"x\",\"context_management\":[{\"type\":\"compaction\"}]}",
         "context_management"},
        {"{\"input\":\"x\",\"prompt\":{\"id\":\"p\"}}", "prompt"},
        {"{\"input\":\"x\",\"metadata\":{\"a\":1}}", "metadata"},
        {"{\"input\":\"x\",\"stream_options\":{\"include_usage\":true}}", "stream_options"},
        {"{\"input\":\"x\",\"truncation\":\"some\"}", "truncation"},
        {"{\"input\":\"x\",\"n\":2}", "n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(!parse_kept(cases[i].body), "accepted: %s", cases[i].body);
        ck_assert_msg(strcmp(err.field, cases[i].field) == 0, "%s names '%s': %s", cases[i].body,
                      err.field, err.message);
    }
}
END_TEST

START_TEST(hints_are_taken)
{
    ck_assert_msg(
        parse_kept("{\"input\":\"x\",\"max_tool_calls\":3,\"service_tier\":\"flex\","
                   "\"truncation\":\"disabled\",\"text\":{\"format\":{\"type\":\"text\"}},"
                   "\"prompt_cache_key\":\"k\",\"user\":\"u\",\"context_management\":[],"
                   "\"reasoning\":{\"effort\":null,\"context\":\"auto\"},"
                   "\"include\":[\"file_search_call.results\"]}"),
        "%s", err.message);
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
    ck_assert(parse_kept("{\"input\":\"x\",\"instructions\":\"i\",\"metadata\":{\"m\":\"n\"}}"));
    play(responses(), events, 8, &usage);
    const struct mtr_json *v = answer(), *items = mtr_json_get(v, "output");
    ck_assert(mtr_str_is(text_at(v, "id"), "resp_id0"));
    ck_assert(mtr_str_is(text_at(v, "status"), "completed"));
    ck_assert(mtr_str_is(text_at(v, "instructions"), "i"));
    ck_assert(mtr_str_is(text_at(v, "metadata.m"), "n"));
    ck_assert_uint_eq(items->count, 3);
    ck_assert(mtr_str_is(text_at(&items->items[0], "type"), "reasoning"));
    ck_assert(
        mtr_str_is(text_at(&mtr_json_get(&items->items[0], "content")->items[0], "text"), "hm"));
    ck_assert(
        mtr_str_is(text_at(&mtr_json_get(&items->items[1], "content")->items[0], "text"), "a\"b"));
    ck_assert(mtr_str_is(text_at(&items->items[2], "arguments"), "{\"k\":1}"));
    ck_assert(mtr_str_is(text_at(&items->items[2], "call_id"), "call_9"));
    ck_assert_int_eq(mtr_json_path(v, "usage.total_tokens")->integer, 17);
    ck_assert_int_eq(mtr_json_path(v, "usage.output_tokens_details.reasoning_tokens")->integer, 2);
    struct mtr_store_object o;
    ck_assert(mtr_store_get(store, &arena, MTR_STORED_RESPONSE, MTR_STR("resp_id0"), 1, &o, &err));
    ck_assert(mtr_str_equal(o.body, mtr_buf_view(&out)));
}
END_TEST

START_TEST(a_chain_goes_on)
{
    static const char *const expected[][2] = {
        {"user", "x"}, {"assistant", "a\"b"}, {"tool", "r"}, {"user", "y"}};
    ck_assert(parse_kept("{\"input\":\"x\",\"instructions\":\"not carried over\"}"));
    play(responses(), events, 8, &usage);
    ck_assert_msg(parse_kept("{\"previous_response_id\":\"resp_id0\",\"input\":[{\"type\":"
                             "\"function_call_output\",\"call_id\":\"call_9\",\"output\":\"r\"},"
                             "{\"role\":\"user\",\"content\":\"y\"}]}"),
                  "%s", err.message);
    expect_messages(expected, 4);
    request.owner = 2;
    const struct mtr_json *v = mtr_json_parse(
        &arena, MTR_STR("{\"previous_response_id\":\"resp_id0\",\"input\":\"z\"}"), 0, &err);
    ck_assert(!responses()->parse(&request, v, &err));
}
END_TEST

static const struct mtr_json *next_event(size_t *at, uint64_t sequence, const char *type)
{
    struct mtr_str all = mtr_buf_view(&out);
    size_t end = mtr_str_find(all, MTR_STR("\n\n"), *at);
    ck_assert(end != SIZE_MAX);
    struct mtr_str frame = mtr_str_sub(all, *at, end - *at);
    size_t line = mtr_str_find(frame, MTR_STR("\ndata: "), 0);
    *at = end + 2;
    ck_assert(line != SIZE_MAX && mtr_str_starts(frame, MTR_STR("event: response.")));
    ck_assert_msg(mtr_str_is(mtr_str_sub(frame, 16, line - 16), type), "%.*s is not %s",
                  MTR_STR_ARG(frame), type);
    const struct mtr_json *v =
        mtr_json_parse(&arena, mtr_str_sub(frame, line + 7, SIZE_MAX), 0, &err);
    ck_assert_msg(v != NULL, "a frame is not JSON: %s", err.message);
    ck_assert_uint_eq((uint64_t)mtr_json_get(v, "sequence_number")->integer, sequence);
    return v;
}

START_TEST(streamed_answer)
{
    static const struct {
        const char *type;
        int index;
    } expected[] = {
        {"created", -1},
        {"in_progress", -1},
        {"output_item.added", 0},
        {"content_part.added", 0},
        {"reasoning_text.delta", 0},
        {"reasoning_text.done", 0},
        {"content_part.done", 0},
        {"output_item.done", 0},
        {"output_item.added", 1},
        {"content_part.added", 1},
        {"output_text.delta", 1},
        {"output_text.delta", 1},
        {"output_text.done", 1},
        {"content_part.done", 1},
        {"output_item.done", 1},
        {"output_item.added", 2},
        {"function_call_arguments.delta", 2},
        {"function_call_arguments.delta", 2},
        {"function_call_arguments.done", 2},
        {"output_item.done", 2},
        {"completed", -1},
    };
    size_t at = 0;
    ck_assert(parse_kept("{\"input\":\"x\",\"stream\":true}"));
    play(responses(), events, 8, &usage);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct mtr_json *v = next_event(&at, i, expected[i].type);
        const struct mtr_json *index = mtr_json_get(v, "output_index");
        ck_assert_int_eq(index ? (int)index->integer : -1, expected[i].index);
        if (i == 11)
            ck_assert(mtr_str_is(text_at(v, "delta"), "\"b"));
        if (i == 20)
            ck_assert_uint_eq(mtr_json_path(v, "response.output")->count, 3);
    }
    ck_assert_uint_eq(at, out.len);
}
END_TEST

START_TEST(reasoning_as_a_summary)
{
    size_t at = 0;
    ck_assert(parse_kept("{\"input\":\"x\",\"stream\":true,\"reasoning\":{\"summary\":\"auto\"}}"));
    play(responses(), events, 1, &usage);
    next_event(&at, 0, "created");
    next_event(&at, 1, "in_progress");
    next_event(&at, 2, "output_item.added");
    next_event(&at, 3, "reasoning_summary_part.added");
    const struct mtr_json *v = next_event(&at, 4, "reasoning_summary_text.delta");
    ck_assert_int_eq(mtr_json_get(v, "summary_index")->integer, 0);
}
END_TEST

START_TEST(sealed_reasoning_comes_back)
{
    struct mtr_buf body = {0};
    ck_assert(parse_kept(
        "{\"input\":\"x\",\"store\":false,\"include\":[\"reasoning.encrypted_content\"]}"));
    play(responses(), events, 1, &usage);
    const struct mtr_json *item = &mtr_json_get(answer(), "output")->items[0];
    mtr_buf_printf(&body,
                   "{\"store\":false,\"input\":[{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":"
                   "[],\"encrypted_content\":\"%.*s\"},{\"role\":\"assistant\",\"content\":\"a\"},"
                   "{\"role\":\"user\",\"content\":\"u\"}]}",
                   MTR_STR_ARG(text_at(item, "encrypted_content")));
    ck_assert_msg(parse_kept(body.data), "%s", err.message);
    mtr_buf_free(&body);
    ck_assert_uint_eq(request.messages->count, 2);
    const struct mtr_json *thought = mtr_json_get(&request.messages->items[0], "reasoning_content");
    ck_assert(thought && mtr_str_is(thought->text, "hm"));
}
END_TEST

START_TEST(a_limit_makes_it_incomplete)
{
    const struct mtr_out_event cut[] = {{.kind = MTR_EVENT_TEXT, .text = {"a", 1}},
                                        {.kind = MTR_EVENT_FINISH, .finish = MTR_END_LENGTH}};
    ck_assert(parse_kept("{\"input\":\"x\"}"));
    play(responses(), cut, 2, &usage);
    ck_assert(mtr_str_is(text_at(answer(), "status"), "incomplete"));
    ck_assert(mtr_str_is(text_at(answer(), "incomplete_details.reason"), "max_output_tokens"));
    ck_assert(
        mtr_str_is(text_at(&mtr_json_get(answer(), "output")->items[0], "status"), "incomplete"));
}
END_TEST

START_TEST(an_error_fails_it)
{
    size_t at = 0;
    struct mtr_error why = {0};
    mtr_fail(&why, MTR_TIMEOUT, "too slow");
    const struct mtr_out_event failed[] = {{.kind = MTR_EVENT_TEXT, .text = {"a", 1}},
                                           {.kind = MTR_EVENT_ERROR, .error = &why}};
    struct mtr_answer_head head = {MTR_STR("id1"), MTR_STR("m"), 1};
    ck_assert(parse_kept("{\"input\":\"x\",\"stream\":true}"));
    struct mtr_answer *a = responses()->answer(&request, &head);
    mtr_buf_clear(&out);
    for (int i = 0; i < 2; i++)
        a->ops->event(a, &failed[i], &out);
    static const char *const types[] = {"output_item.added", "content_part.added",
                                        "output_text.delta", "output_text.done",
                                        "content_part.done", "output_item.done"};
    for (uint64_t i = 0; i < 6; i++)
        next_event(&at, i, types[i]);
    const struct mtr_json *v = next_event(&at, 6, "failed");
    ck_assert(mtr_str_is(text_at(v, "response.status"), "failed"));
    ck_assert(mtr_str_is(text_at(v, "response.error.message"), "too slow"));
    a->ops->release(a);
}
END_TEST

static bool call(mtr_call_handler handler, const char *id, const char *body)
{
    struct mtr_call c = {.store = store,
                         .owner = 1,
                         .parts = {mtr_str(id)},
                         .arena = &arena,
                         .fresh = MTR_STR("n0"),
                         .now = 5,
                         .out = &out};
    mtr_buf_clear(&out);
    err = (struct mtr_error){0};
    if (body)
        c.body = mtr_json_parse(&arena, mtr_str(body), 0, &err);
    return handler(&c, &err);
}

START_TEST(conversations_gather_items)
{
    static const char *const expected[][2] = {
        {"user", "h"}, {"user", "x"}, {"assistant", "a\"b"}, {"user", "y"}};
    ck_assert(
        call(mtr_conversation_create, "", "{\"items\":[{\"role\":\"user\",\"content\":\"h\"}]}"));
    ck_assert(mtr_str_is(text_at(answer(), "id"), "conv_n0"));
    ck_assert(parse_kept("{\"input\":\"x\",\"conversation\":{\"id\":\"conv_n0\"}}"));
    play(responses(), &events[1], 2, &usage);
    ck_assert(parse_kept("{\"input\":\"y\",\"conversation\":\"conv_n0\"}"));
    expect_messages(expected, 4);
    ck_assert(call(mtr_conversation_items, "conv_n0", NULL));
    ck_assert_uint_eq(mtr_json_get(answer(), "data")->count, 3);
    ck_assert(!call(mtr_conversation_update, "conv_n0", "{\"metadata\":{\"a\":1}}"));
    ck_assert(call(mtr_conversation_update, "conv_n0", "{\"metadata\":{\"a\":\"1\"}}"));
    ck_assert(call(mtr_conversation_delete, "conv_n0", NULL));
    ck_assert(!call(mtr_conversation_get, "conv_n0", NULL));
    ck_assert_int_eq(err.code, MTR_NOT_FOUND);
}
END_TEST

START_TEST(only_background_is_cancelled)
{
    ck_assert(parse_kept("{\"input\":\"x\"}"));
    play(responses(), events, 8, &usage);
    ck_assert(!call(mtr_response_cancel, "resp_id0", NULL));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert(call(mtr_response_input_items, "resp_id0", NULL));
    ck_assert_uint_eq(mtr_json_get(answer(), "data")->count, 1);
    ck_assert(call(mtr_response_delete, "resp_id0", NULL));
    ck_assert(!call(mtr_response_get, "resp_id0", NULL));
}
END_TEST

MTR_CHECK_MAIN("api/responses")
{
    tcase_add_checked_fixture(tc, setup_store, teardown_store);
    tcase_add_test(tc, items_become_messages);
    tcase_add_test(tc, bad_requests);
    tcase_add_test(tc, hints_are_taken);
    tcase_add_test(tc, whole_answer);
    tcase_add_test(tc, a_chain_goes_on);
    tcase_add_test(tc, streamed_answer);
    tcase_add_test(tc, reasoning_as_a_summary);
    tcase_add_test(tc, sealed_reasoning_comes_back);
    tcase_add_test(tc, a_limit_makes_it_incomplete);
    tcase_add_test(tc, an_error_fails_it);
    tcase_add_test(tc, conversations_gather_items);
    tcase_add_test(tc, only_background_is_cancelled);
}
