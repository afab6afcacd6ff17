/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Chat completions: messages in, both kinds of answer out. */
#include "tests/unit/api/api_support.h"

START_TEST(messages_are_flattened)
{
    ck_assert(parse(mtr_openai_chat(),
                    "{\"messages\":[{\"role\":\"developer\",\"content\":\"be kind\"},"
                    "{\"role\":\"user\",\"name\":\"bob\",\"content\":[{\"type\":\"text\",\"text\":"
                    "\"a\"},{\"type\":\"text\",\"text\":\"b\\u0000\"}]}]}"));
    const struct mtr_json *m = request.messages;
    ck_assert_uint_eq(m->count, 2);
    ck_assert(mtr_str_is(text_at(&m->items[0], "role"), "system"));
    struct mtr_str content = text_at(&m->items[1], "content");
    ck_assert_uint_eq(content.len, 4);
    ck_assert(memcmp(content.ptr, "a\nb\0", 4) == 0);
    ck_assert(mtr_str_is(text_at(&m->items[1], "name"), "bob"));
}
END_TEST

START_TEST(bad_messages)
{
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{}", "messages"},
        {"{\"messages\":[]}", "messages"},
        {"{\"messages\":{}}", "messages"},
        {"{\"messages\":[1]}", "messages[0]"},
        {"{\"messages\":[{}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"root\",\"content\":\"x\"}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":1,\"content\":\"x\"}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"name\":5}]}", "messages[0]"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"audio\":{\"id\":\"a\"}}]}",
         "messages[0]"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":[]}]}",
         "messages[0]"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"top_logprobs\":2}",
         "top_logprobs"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"logprobs\":true,"
         "\"top_logprobs\":21}",
         "top_logprobs"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":"
         "{\"messages\":[]}}",
         "chat_template_kwargs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(mtr_openai_chat(), cases[i].body, cases[i].field);
}
END_TEST

static const struct mtr_event_top tops[] = {{1, {"Hel", 3}, -0.5f}, {2, {"\xc3", 1}, -2}};
static const struct mtr_event_token tokens[] = {{1, {"Hel", 3}, -0.5f, 2, tops, false, 0}};
static const struct mtr_out_event events[] = {
    {.kind = MTR_EVENT_TEXT, .text = {"Hel", 3}, .token_count = 1, .tokens = tokens},
    {.kind = MTR_EVENT_TEXT, .text = {"lo \"you\"", 8}},
    {.kind = MTR_EVENT_FINISH, .finish = MTR_END_STOP},
};
static const struct mtr_usage usage = {10, 4, 2, 0};

#define BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

START_TEST(whole_answer)
{
    ck_assert(parse(mtr_openai_chat(), BODY ",\"logprobs\":true,\"top_logprobs\":2}"));
    play(mtr_openai_chat(), events, 3, &usage);
    const struct mtr_json *v = answer();
    ck_assert(mtr_str_is(text_at(v, "id"), "chatcmpl-id0"));
    ck_assert(mtr_str_is(text_at(v, "object"), "chat.completion"));
    ck_assert(mtr_str_is(text_at(v, "model"), "the-model"));
    const struct mtr_json *c = &mtr_json_get(v, "choices")->items[0];
    ck_assert(mtr_str_is(text_at(c, "message.content"), "Hello \"you\""));
    ck_assert(mtr_str_is(text_at(c, "message.role"), "assistant"));
    ck_assert(mtr_str_is(text_at(c, "finish_reason"), "stop"));
    const struct mtr_json *l = mtr_json_path(c, "logprobs.content");
    ck_assert_uint_eq(l->count, 1);
    ck_assert_uint_eq(mtr_json_get(&l->items[0], "bytes")->count, 3);
    ck_assert_uint_eq(mtr_json_get(&l->items[0], "top_logprobs")->count, 2);
    ck_assert_int_eq(mtr_json_path(v, "usage.total_tokens")->integer, 12);
    ck_assert_int_eq(mtr_json_path(v, "usage.prompt_tokens_details.cached_tokens")->integer, 4);
}
END_TEST

START_TEST(streamed_answer_says_the_same)
{
    char text[64] = "";
    size_t at = 0, len = 0;
    const struct mtr_json *v, *finish = NULL, *u = NULL;
    ck_assert(parse(mtr_openai_chat(),
                    BODY ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"));
    play(mtr_openai_chat(), events, 3, &usage);
    v = next_frame(&at);
    ck_assert(
        mtr_str_is(text_at(&mtr_json_get(v, "choices")->items[0], "delta.role"), "assistant"));
    while ((v = next_frame(&at))) {
        const struct mtr_json *choices = mtr_json_get(v, "choices");
        ck_assert(mtr_str_is(text_at(v, "object"), "chat.completion.chunk"));
        ck_assert(mtr_json_get(v, "usage") != NULL);
        if (choices->count == 0) {
            u = mtr_json_get(v, "usage");
            continue;
        }
        ck_assert(mtr_json_get(v, "usage")->kind == MTR_JSON_NULL);
        const struct mtr_json *piece = mtr_json_path(&choices->items[0], "delta.content");
        if (piece) {
            memcpy(text + len, piece->text.ptr, piece->text.len);
            len += piece->text.len;
        }
        if (mtr_json_get(&choices->items[0], "finish_reason")->kind == MTR_JSON_STRING)
            finish = mtr_json_get(&choices->items[0], "finish_reason");
    }
    ck_assert_uint_eq(at, out.len);
    ck_assert_str_eq(text, "Hello \"you\"");
    ck_assert(finish && mtr_str_is(finish->text, "stop"));
    ck_assert(u && mtr_json_get(u, "completion_tokens")->integer == 2);
}
END_TEST

START_TEST(an_error_ends_a_stream)
{
    struct mtr_error error = {0};
    size_t at = 0;
    mtr_fail(&error, MTR_TIMEOUT, "too slow");
    mtr_openai_chat()->stream_error(&error, &out);
    const struct mtr_json *v = next_frame(&at);
    ck_assert(mtr_str_is(text_at(v, "error.message"), "too slow"));
    ck_assert_ptr_null(next_frame(&at));
}
END_TEST

MTR_CHECK_MAIN("api/openai_chat")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, messages_are_flattened);
    tcase_add_test(tc, bad_messages);
    tcase_add_test(tc, whole_answer);
    tcase_add_test(tc, streamed_answer_says_the_same);
    tcase_add_test(tc, an_error_ends_a_stream);
}
