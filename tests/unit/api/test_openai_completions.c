/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Legacy completions: every form of prompt, echo with scores. */
#include "tests/unit/api/api_support.h"

START_TEST(prompts)
{
    ck_assert(parse(mtr_openai_completions(), "{\"prompt\":\"a\"}"));
    ck_assert(request.prompt_count == 1 && request.prompts[0].kind == MTR_PROMPT_TEXT);
    ck_assert_uint_eq(request.max_tokens, 16);
    ck_assert(parse(mtr_openai_completions(), "{\"prompt\":[1,2,3]}"));
    ck_assert(request.prompt_count == 1 && request.prompts[0].id_count == 3);
    ck_assert(
        parse(mtr_openai_completions(), "{\"prompt\":[\"a\",[4],\"b\"],\"n\":2,\"best_of\":2}"));
    ck_assert(request.prompt_count == 3 && request.prompts[1].ids[0] == 4);
    ck_assert(parse(mtr_openai_completions(),
                    "{\"prompt\":\"a\",\"echo\":true,\"max_tokens\":0,\"logprobs\":1}"));
    ck_assert(request.no_tokens && request.echo && request.logprobs);
}
END_TEST

START_TEST(bad_requests)
{
    static const struct {
        const char *body, *field;
    } cases[] = {
        {"{}", "prompt"},
        {"{\"prompt\":[]}", "prompt"},
        {"{\"prompt\":[[]]}", "prompt"},
        {"{\"prompt\":5}", "prompt"},
        {"{\"prompt\":[1,\"a\"]}", "prompt"},
        {"{\"prompt\":[-1]}", "prompt"},
        {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
        {"{\"prompt\":\"a\",\"best_of\":2}", "best_of"},
        {"{\"prompt\":\"a\",\"max_tokens\":0}", "max_tokens"},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs"},
        {"{\"prompt\":[\"a\",\"b\"],\"n\":65}", "n"},
        {"{\"prompt\":\"a\",\"messages\":[]}", "messages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(mtr_openai_completions(), cases[i].body, cases[i].field);
}
END_TEST

START_TEST(logprobs_are_parallel_arrays)
{
    static const struct mtr_event_top tops[] = {{1, {"b", 1}, -0.25f}};
    static const struct mtr_event_token first = {.id = 9, .bytes = {"a", 1}, .unscored = true};
    static const struct mtr_event_token second = {.id = 1,
                                                  .bytes = {"b", 1},
                                                  .logprob = -0.25f,
                                                  .top_count = 1,
                                                  .top = tops,
                                                  .text_offset = 1};
    const struct mtr_out_event events[] = {
        {.kind = MTR_EVENT_TEXT, .text = {"a", 1}, .token_count = 1, .tokens = &first},
        {.kind = MTR_EVENT_TEXT, .text = {"b", 1}, .token_count = 1, .tokens = &second},
        {.kind = MTR_EVENT_FINISH, .finish = MTR_END_LENGTH},
    };
    struct mtr_usage usage = {1, 0, 1, 0};
    ck_assert(parse(mtr_openai_completions(), "{\"prompt\":\"a\",\"echo\":true,\"logprobs\":1}"));
    play(mtr_openai_completions(), events, 3, &usage);
    const struct mtr_json *c = &mtr_json_get(answer(), "choices")->items[0];
    ck_assert(mtr_str_is(text_at(c, "text"), "ab"));
    ck_assert(mtr_str_is(text_at(c, "finish_reason"), "length"));
    const struct mtr_json *l = mtr_json_get(c, "logprobs");
    ck_assert_uint_eq(mtr_json_get(l, "tokens")->count, 2);
    ck_assert_int_eq(mtr_json_get(l, "token_logprobs")->items[0].kind, MTR_JSON_NULL);
    ck_assert_double_eq(mtr_json_get(l, "token_logprobs")->items[1].real, -0.25);
    ck_assert_int_eq(mtr_json_get(l, "text_offset")->items[1].integer, 1);
    ck_assert_ptr_nonnull(mtr_json_get(&mtr_json_get(l, "top_logprobs")->items[1], "b"));
}
END_TEST

MTR_CHECK_MAIN("api/openai_completions")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, prompts);
    tcase_add_test(tc, bad_requests);
    tcase_add_test(tc, logprobs_are_parallel_arrays);
}
