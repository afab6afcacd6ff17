/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Boundaries that tokens reach across, and those that none does. */
#include "broker/text/joints.c"

#include "common/base/buf.h"
#include "tests/unit/check_main.h"

static void cuts(const struct mtr_joints *j, const char *text, const char *want)
{
    struct mtr_buf got = {0};
    struct mtr_str t = mtr_str(text);
    for (size_t at = 0, end; at < t.len; at = end) {
        end = mtr_joints_cut(j, t, at);
        ck_assert_uint_gt(end, at);
        mtr_buf_append(&got, text + at, end - at);
        mtr_buf_puts(&got, "|");
    }
    ck_assert_str_eq(got.data, want);
    mtr_buf_free(&got);
}

START_TEST(whole_characters)
{
    struct mtr_joints j;
    ck_assert(mtr_joints_init(&j, 1000));
    mtr_joints_add(&j, MTR_STR("abc"));
    mtr_joints_add(&j, MTR_STR("\xe4\xb8\xad\xe6\x96\x87"));
    mtr_joints_add(&j, MTR_STR("x\xc3\xa9"));
    mtr_joints_add(&j, MTR_STR("q"));
    cuts(&j, "abcab", "abc|ab|");
    cuts(&j, "xqx", "x|q|x|");
    cuts(&j, "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad", "\xe4\xb8\xad\xe6\x96\x87|\xe4\xb8\xad|");
    cuts(&j, "x\xc3\xa9x", "x\xc3\xa9|x|");
    mtr_joints_free(&j);
}
END_TEST

START_TEST(fragments)
{
    struct mtr_joints j;
    ck_assert(mtr_joints_init(&j, 1000));
    mtr_joints_add(&j, MTR_STR(" \xe4"));        /* a space and a first byte */
    mtr_joints_add(&j, MTR_STR("\xad\xe6\x96")); /* a last byte and two of three */
    cuts(&j, " \xe4\xb8\xad", " \xe4\xb8\xad|");
    cuts(&j, " \xe6\x96\x87", " |\xe6\x96\x87|");
    cuts(&j, "\xe4\xb8\xad\xe6\x96\x87", "\xe4\xb8\xad\xe6\x96\x87|");
    cuts(&j, "\xe4\xb8\xae\xe6\x96\x87", "\xe4\xb8\xae|\xe6\x96\x87|");
    mtr_joints_free(&j);
}
END_TEST

MTR_CHECK_MAIN("text/joints")
{
    tcase_add_test(tc, whole_characters);
    tcase_add_test(tc, fragments);
}
