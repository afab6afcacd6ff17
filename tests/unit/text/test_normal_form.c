/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Examples of the standard, and text that is long where it hurts. */
#include "broker/text/normal_form.c"

#include "tests/unit/check_main.h"

static const struct {
    const char *text, *nfc, *nfd, *nfkc, *nfkd;
} examples[] = {
    {"abc", "abc", "abc", "abc", "abc"},
    {"caf\xc3\xa9", "caf\xc3\xa9", "cafe\xcc\x81", "caf\xc3\xa9", "cafe\xcc\x81"},
    {"e\xcc\x81", "\xc3\xa9", "e\xcc\x81", "\xc3\xa9", "e\xcc\x81"},
    /* dot below before circumflex, in either order */
    {"o\xcc\x82\xcc\xa3", "\xe1\xbb\x99", "o\xcc\xa3\xcc\x82", "\xe1\xbb\x99", "o\xcc\xa3\xcc\x82"},
    {"\xe2\x84\xab", "\xc3\x85", "A\xcc\x8a", "\xc3\x85", "A\xcc\x8a"}, /* Angstrom */
    {"\xef\xac\x81", "\xef\xac\x81", "\xef\xac\x81", "fi", "fi"},       /* ligature */
    {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
     "\xea\xb0\x81", "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"}, /* Hangul */
    {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc",
     "\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* excluded from composition */
    {"\xcc\x81 x", "\xcc\x81 x", "\xcc\x81 x", "\xcc\x81 x", "\xcc\x81 x"},
    {"", "", "", "", ""},
};

static void check_form(const struct mtr_unicode *u, enum mtr_normal_form form, const char *text,
                       const char *want)
{
    struct mtr_normal_work w = {0};
    struct mtr_buf got = {0};
    mtr_buf_puts(&got, "");
    ck_assert(mtr_normal_form(u, form, &w, mtr_str(text), &got));
    ck_assert_msg(strcmp(got.data ? got.data : "", want) == 0, "%s in form %d: %s, want %s", text,
                  form, got.data, want);
    if (!mtr_normal_form_needed(u, form, mtr_str(text)))
        ck_assert_str_eq(text, want);
    mtr_buf_free(&got);
    mtr_normal_work_free(&w);
}

START_TEST(forms)
{
    struct mtr_unicode u;
    ck_assert(mtr_unicode_init(&u));
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        check_form(&u, MTR_NFC, examples[i].text, examples[i].nfc);
        check_form(&u, MTR_NFD, examples[i].text, examples[i].nfd);
        check_form(&u, MTR_NFKC, examples[i].text, examples[i].nfkc);
        check_form(&u, MTR_NFKD, examples[i].text, examples[i].nfkd);
    }
    mtr_unicode_free(&u);
}
END_TEST

/* Every character, alone and before a mark, against libutf8proc: but for those that are left alone.
 */
START_TEST(every_character)
{
    struct mtr_unicode u;
    struct mtr_normal_work w = {0};
    struct mtr_buf got = {0};
    ck_assert(mtr_unicode_init(&u));
    for (uint32_t cp = 1; cp < 0x30000; cp++) {
        char text[8], *want;
        if ((cp >= 0xd800 && cp < 0xe000) || mtr_unicode_unnormalized(cp))
            continue;
        size_t n = (size_t)mtr_utf8_encode(cp, text);
        memcpy(text + n, "\xcc\xa3", 3);
        mtr_buf_clear(&got);
        ck_assert(mtr_normal_form(&u, MTR_NFC, &w, (struct mtr_str){text, n + 2}, &got));
        want = (char *)utf8proc_NFC((const utf8proc_uint8_t *)text);
        ck_assert_msg(strcmp(got.data, want) == 0, "%x", cp);
        free(want);
    }
    mtr_buf_free(&got);
    mtr_normal_work_free(&w);
    mtr_unicode_free(&u);
}
END_TEST

START_TEST(a_million_marks)
{
    struct mtr_unicode u;
    struct mtr_normal_work w = {0};
    struct mtr_buf text = {0}, got = {0};
    ck_assert(mtr_unicode_init(&u));
    mtr_buf_puts(&text, "a");
    for (int i = 0; i < 500000; i++)
        mtr_buf_puts(&text, "\xcc\x81\xcc\xa3"); /* above, below: every second is out of order */
    ck_assert(mtr_normal_form(&u, MTR_NFD, &w, mtr_buf_view(&text), &got));
    ck_assert_uint_eq(got.len, text.len);
    ck_assert(memcmp(got.data, "a\xcc\xa3\xcc\xa3", 5) == 0);
    ck_assert(memcmp(got.data + got.len - 4, "\xcc\x81\xcc\x81", 4) == 0);
    mtr_buf_free(&text);
    mtr_buf_free(&got);
    mtr_normal_work_free(&w);
    mtr_unicode_free(&u);
}
END_TEST

MTR_CHECK_MAIN("text/normal_form")
{
    tcase_add_test(tc, forms);
    tcase_add_test(tc, every_character);
    tcase_add_test(tc, a_million_marks);
}
