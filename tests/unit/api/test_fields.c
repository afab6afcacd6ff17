/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Fields that protocols share: each range, each refusal, nothing ignored. */
#include "tests/unit/api/api_support.h"

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static bool chat(const char *fields)
{
    char body[1024];
    snprintf(body, sizeof body, "{" MESSAGES "%s%s}", fields[0] ? "," : "", fields);
    return parse(mtr_openai_chat(), body);
}

static void chat_refused(const char *fields, const char *field)
{
    char body[1024];
    snprintf(body, sizeof body, "{" MESSAGES ",%s}", fields);
    refused(mtr_openai_chat(), body, field);
}

START_TEST(sampling_is_read)
{
    ck_assert(chat("\"temperature\":0.5,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,"
                   "\"top_n_sigma\":1.5,\"repetition_penalty\":1.1,\"presence_penalty\":-1,"
                   "\"frequency_penalty\":2,\"seed\":-3,\"logit_bias\":{\"5\":-100,\"7\":1.5}"));
    const struct mtr_sampling *s = &request.sampling;
    ck_assert_float_eq(s->temperature, 0.5f);
    ck_assert_float_eq(s->top_p, 0.9f);
    ck_assert_uint_eq(s->top_k, 40);
    ck_assert_float_eq(s->min_p, 0.05f);
    ck_assert_float_eq(s->top_n_sigma, 1.5f);
    ck_assert_float_eq(s->repetition_penalty, 1.1f);
    ck_assert_float_eq(s->presence_penalty, -1);
    ck_assert_float_eq(s->frequency_penalty, 2);
    ck_assert(request.has_seed && request.seed == (uint64_t)-3);
    ck_assert_uint_eq(s->bias_count, 2);
    ck_assert(s->bias_ids[1] == 7 && s->bias_values[1] == 1.5f);
    ck_assert(request.has_temperature && request.has_top_p && request.has_top_k);
}
END_TEST

START_TEST(absent_and_null_are_the_same)
{
    ck_assert(chat("\"temperature\":null,\"stop\":null,\"max_tokens\":null,\"logprobs\":null"));
    ck_assert(!request.has_temperature && request.stop_count == 0 && request.max_tokens == 0);
    ck_assert_float_eq(request.sampling.temperature, 1);
}
END_TEST

START_TEST(bounds)
{
    static const struct {
        const char *fields, *field;
    } cases[] = {
        {"\"temperature\":2.1", "temperature"},
        {"\"temperature\":-0.1", "temperature"},
        {"\"temperature\":\"1\"", "temperature"},
        {"\"temperature\":1e999", "temperature"},
        {"\"top_p\":1.5", "top_p"},
        {"\"top_k\":-2", "top_k"},
        {"\"top_k\":1.5", "top_k"},
        {"\"min_p\":-1", "min_p"},
        {"\"max_tokens\":0", "max_tokens"},
        {"\"max_tokens\":-1", "max_tokens"},
        {"\"max_tokens\":1e3", "max_tokens"},
        {"\"max_tokens\":12345678901234567890", "max_tokens"},
        {"\"max_completion_tokens\":\"5\"", "max_completion_tokens"},
        {"\"n\":0", "n"},
        {"\"n\":129", "n"},
        {"\"seed\":1.5", "seed"},
        {"\"stop\":\"\"", "stop"},
        {"\"stop\":[1]", "stop"},
        {"\"stop\":{}", "stop"},
        {"\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\",\"j\",\"k\",\"l\",\"m\","
         "\"n\",\"o\",\"p\",\"q\"]",
         "stop"},
        {"\"stop_token_ids\":[-1]", "stop_token_ids"},
        {"\"logit_bias\":{\"x\":1}", "logit_bias"},
        {"\"logit_bias\":{\"1\":101}", "logit_bias"},
        {"\"logit_bias\":[]", "logit_bias"},
        {"\"stream\":1", "stream"},
        {"\"stream_options\":{\"include_usage\":true}", "stream_options"},
        {"\"stream\":true,\"stream_options\":{\"what\":1}", "stream_options"},
        {"\"min_tokens\":5,\"max_tokens\":4", "min_tokens"},
        {"\"presence_penalty\":2.5", "presence_penalty"},
        {"\"frequency_penalty\":-2.5", "frequency_penalty"},
        {"\"repetition_penalty\":0", "repetition_penalty"},
        {"\"user\":5", "user"},
        {"\"no_such_field\":1", "no_such_field"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        chat_refused(cases[i].fields, cases[i].field);
}
END_TEST

START_TEST(refused_fields_take_their_neutral_value)
{
    ck_assert(chat("\"store\":false,\"functions\":[],\"tools\":[],\"tool_choice\":\"auto\","
                   "\"response_format\":{\"type\":\"text\"},\"verbosity\":\"medium\""));
    chat_refused("\"store\":true", "store");
    chat_refused("\"response_format\":{\"type\":\"json_object\"}", "response_format");
    chat_refused("\"tool_choice\":\"required\"", "tool_choice");
    chat_refused("\"tools\":[{\"type\":\"custom\"}]", "tools");
    ck_assert_int_eq(err.code, MTR_UNSUPPORTED);
}
END_TEST

START_TEST(hints_change_nothing)
{
    ck_assert(chat("\"metadata\":{\"a\":\"b\"},\"service_tier\":\"auto\",\"user\":\"u\","
                   "\"prompt_cache_key\":\"k\",\"safety_identifier\":\"s\""));
}
END_TEST

START_TEST(a_body_that_is_no_object)
{
    ck_assert(!parse(mtr_openai_chat(), "[]"));
    ck_assert(!parse(mtr_openai_chat(), "\"x\""));
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

MTR_CHECK_MAIN("api/fields")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sampling_is_read);
    tcase_add_test(tc, absent_and_null_are_the_same);
    tcase_add_test(tc, bounds);
    tcase_add_test(tc, refused_fields_take_their_neutral_value);
    tcase_add_test(tc, hints_change_nothing);
    tcase_add_test(tc, a_body_that_is_no_object);
}
