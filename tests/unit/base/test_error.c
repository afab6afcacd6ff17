/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/error.c"

#include "tests/unit/check_main.h"

START_TEST(fills_code_message_and_field)
{
    struct mtr_error e;
    ck_assert(!mtr_fail(&e, MTR_NOT_FOUND, "no %s at %d", "x", 3));
    ck_assert_int_eq(e.code, MTR_NOT_FOUND);
    ck_assert_str_eq(e.message, "no x at 3");
    ck_assert_str_eq(e.field, "");
    ck_assert(!mtr_fail_field(&e, MTR_INVALID, "messages[2].content", "is %s", "null"));
    ck_assert_str_eq(e.field, "messages[2].content");
    ck_assert(!mtr_fail(&e, MTR_BUSY, "later"));
    ck_assert_str_eq(e.field, "");
}
END_TEST

START_TEST(null_is_allowed)
{
    ck_assert(!mtr_fail(NULL, MTR_INVALID, "x"));
    ck_assert(!mtr_fail_field(NULL, MTR_INVALID, "f", "x"));
    ck_assert(!mtr_fail_errno(NULL, "x"));
    ck_assert(!mtr_error_prefix(NULL, "x"));
}
END_TEST

START_TEST(prefixes_come_first)
{
    struct mtr_error e;
    mtr_fail_field(&e, MTR_INVALID, "f", "wrong magic");
    ck_assert(!mtr_error_prefix(&e, "tensor %d", 3));
    mtr_error_prefix(&e, "model.gguf");
    ck_assert_str_eq(e.message, "model.gguf: tensor 3: wrong magic");
    ck_assert_int_eq(e.code, MTR_INVALID);
    ck_assert_str_eq(e.field, "f");
}
END_TEST

START_TEST(arguments_may_be_the_message_itself)
{
    struct mtr_error e;
    mtr_fail(&e, MTR_IO, "inner");
    mtr_fail(&e, MTR_BUSY, "outer of %s", e.message);
    ck_assert_str_eq(e.message, "outer of inner");
    mtr_error_prefix(&e, "%s", e.message);
    ck_assert_str_eq(e.message, "outer of inner: outer of inner");
}
END_TEST

START_TEST(errno_is_named)
{
    struct mtr_error e;
    errno = ENOENT;
    ck_assert(!mtr_fail_errno(&e, "cannot open %s", "a"));
    ck_assert_int_eq(e.code, MTR_IO);
    ck_assert_str_eq(e.message, "cannot open a: No such file or directory");
}
END_TEST

START_TEST(text_is_safe_to_print)
{
    struct mtr_error e;
    mtr_fail(&e, MTR_INVALID, "a\nb\x1b[2J\xff\xc3(\xe2\x82\xac");
    ck_assert_str_eq(e.message, "a?b?[2J?"
                                "?(\xe2\x82\xac");
    mtr_fail_field(&e, MTR_INVALID, "k\n\xfe", "m");
    ck_assert_str_eq(e.field, "k??");
}
END_TEST

START_TEST(long_text_is_cut_between_characters)
{
    struct mtr_error e;
    char text[2000];
    for (size_t shift = 0; shift < 3; shift++) {
        size_t len = shift;
        memset(text, 'x', shift);
        while (len + 4 < sizeof text) {
            memcpy(text + len, "\xe2\x82\xac", 3);
            len += 3;
        }
        text[len] = 0;
        mtr_fail_field(&e, MTR_INVALID, text, "%s", text);
        ck_assert(mtr_utf8_valid(mtr_str(e.message)));
        ck_assert(mtr_utf8_valid(mtr_str(e.field)));
        ck_assert_uint_ge(strlen(e.message), MTR_ERROR_MESSAGE_BYTES - 4);
        mtr_error_prefix(&e, "%s", text);
        ck_assert(mtr_utf8_valid(mtr_str(e.message)));
    }
}
END_TEST

START_TEST(codes_have_names)
{
    for (int c = MTR_OK; c <= MTR_INTERNAL; c++)
        ck_assert_str_ne(mtr_code_name((enum mtr_code)c), "unknown");
    ck_assert_str_eq(mtr_code_name((enum mtr_code)999), "unknown");
    ck_assert_str_eq(mtr_code_name(MTR_NOT_FOUND), "not_found");
}
END_TEST

MTR_CHECK_MAIN("base/error")
{
    tcase_add_test(tc, fills_code_message_and_field);
    tcase_add_test(tc, null_is_allowed);
    tcase_add_test(tc, prefixes_come_first);
    tcase_add_test(tc, arguments_may_be_the_message_itself);
    tcase_add_test(tc, errno_is_named);
    tcase_add_test(tc, text_is_safe_to_print);
    tcase_add_test(tc, long_text_is_cut_between_characters);
    tcase_add_test(tc, codes_have_names);
}
