/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/api/openai.c"

#include <stdio.h>

#include "tests/unit/check_main.h"

static struct mtr_buf out;

static void teardown(void)
{
    mtr_buf_free(&out);
    out = (struct mtr_buf){0};
}

static const char *text(void)
{
    mtr_buf_byte(&out, '\0');
    return out.data;
}

START_TEST(every_code_has_a_status)
{
    static const struct {
        enum mtr_code code;
        int status;
    } cases[] = {{MTR_INVALID, 400},   {MTR_UNSUPPORTED, 400},  {MTR_TOO_LARGE, 400},
                 {MTR_NOT_FOUND, 404}, {MTR_DENIED, 401},       {MTR_BUSY, 429},
                 {MTR_TIMEOUT, 504},   {MTR_NO_MEMORY, 503},    {MTR_IO, 503},
                 {MTR_INTERNAL, 500},  {(enum mtr_code)99, 500}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_error e = {.code = cases[i].code};
        ck_assert_int_eq(mtr_http_status(&e), cases[i].status);
    }
}
END_TEST

START_TEST(a_body_names_the_field)
{
    struct mtr_error e = {0};
    mtr_fail_field(&e, MTR_UNSUPPORTED, "tools", "'tools' with \"quotes\"");
    mtr_openai_error(&e, &out);
    ck_assert_str_eq(text(), "{\"error\":{\"message\":\"'tools' with \\\"quotes\\\"\",\"type\":"
                             "\"invalid_request_error\",\"param\":\"tools\",\"code\":"
                             "\"unsupported_value\"}}");
}
END_TEST

START_TEST(another_status_has_another_name)
{
    static const struct {
        enum mtr_code code;
        int status;
        const char *name;
    } cases[] = {{MTR_TOO_LARGE, 413, "\"request_too_large\""},
                 {MTR_TOO_LARGE, 400, "\"limit_exceeded\""},
                 {MTR_UNSUPPORTED, 405, "\"method_not_allowed\""},
                 {MTR_INVALID, 417, "null"}}; /* one that is in no table */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_error e = {0};
        char end[64];
        mtr_fail(&e, cases[i].code, "x");
        mtr_openai_error_as(cases[i].status, &e, &out);
        snprintf(end, sizeof end, "\"param\":null,\"code\":%s}}", cases[i].name);
        ck_assert_msg(strstr(text(), end) != NULL, "%s", out.data);
        mtr_buf_clear(&out);
    }
}
END_TEST

START_TEST(a_stream_ends_after_its_error)
{
    struct mtr_error e = {0};
    mtr_fail(&e, MTR_TIMEOUT, "x");
    mtr_openai_stream_error(&e, &out);
    ck_assert_str_eq(text(), "data: {\"error\":{\"message\":\"x\",\"type\":\"timeout_error\","
                             "\"param\":null,\"code\":\"timeout\"}}\n\ndata: [DONE]\n\n");
}
END_TEST

MTR_CHECK_MAIN("api/openai")
{
    tcase_add_checked_fixture(tc, NULL, teardown);
    tcase_add_test(tc, every_code_has_a_status);
    tcase_add_test(tc, a_body_names_the_field);
    tcase_add_test(tc, another_status_has_another_name);
    tcase_add_test(tc, a_stream_ends_after_its_error);
}
