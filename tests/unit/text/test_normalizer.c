/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every type of step, read from JSON. */
#include "broker/text/normalizer.c"

#include "tests/unit/check_main.h"

static void becomes(const char *json, const char *text, const char *want, bool want_cut)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_unicode u;
    struct mtr_normalizer n;
    struct mtr_normalizer_work w = {0};
    struct mtr_str got;
    bool cut;
    mtr_arena_init(&arena, 0);
    ck_assert(mtr_unicode_init(&u));
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(json), 0, &err);
    ck_assert_msg(v != NULL, "%s: %s", json, err.message);
    ck_assert_msg(mtr_normalizer_from_json(&n, v, &err), "%s: %s", json, err.message);
    ck_assert(mtr_normalize(&n, &u, &w, mtr_str(text), &got, &cut, &err));
    ck_assert_msg(mtr_str_is(got, want), "%s on '%s': got '%.*s', want '%s'", json, text,
                  MTR_STR_ARG(got), want);
    ck_assert(cut == want_cut);
    mtr_normalizer_free(&n);
    mtr_normalizer_work_free(&w);
    mtr_unicode_free(&u);
    mtr_arena_free(&arena);
}

START_TEST(steps)
{
    becomes("null", "A b", "A b", false);
    becomes("{\"type\":\"NFC\"}", "e\xcc\x81", "\xc3\xa9", false);
    becomes("{\"type\":\"NFKD\"}", "\xef\xac\x81", "fi", false);
    becomes("{\"type\":\"Lowercase\"}", "A\xc3\x89\xc4\xb0", "a\xc3\xa9i\xcc\x87", false);
    becomes("{\"type\":\"Strip\"}", " \n a b\xe3\x80\x80", "a b", true);
    becomes("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " a ", " a", false);
    becomes("{\"type\":\"Strip\"}", "  ", "", true);
    becomes("{\"type\":\"StripAccents\"}", "e\xcc\x81", "e", false);
    becomes("{\"type\":\"Nmt\"}",
            "\x01"
            "a\tb\xe2\x80\x8b",
            "a b ", true);
    becomes("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "a", "_a", false);
    becomes("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "", "", false);
    becomes("{\"type\":\"Replace\",\"pattern\":{\"String\":\"aa\"},\"content\":\"b\"}", "aaaaa",
            "bba", false);
    becomes("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}", "a   b",
            "a b", false);
    becomes("{\"type\":\"ByteLevel\"}", "a b",
            "a\xc4\xa0"
            "b",
            false);
    becomes(
        "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"_\"},{"
        "\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"},{\"type\":\"Lowercase\"}]}",
        "A B", "_a_b", false);
}
END_TEST

START_TEST(bert)
{
    becomes("{\"type\":\"BertNormalizer\"}", "H\xc3\xa9l\x01lo\t\xe4\xb8\xad!",
            "hello  \xe4\xb8\xad !", false);
    becomes("{\"type\":\"BertNormalizer\",\"lowercase\":false}", "H\xc3\xa9", "H\xc3\xa9", false);
    becomes("{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,"
            "\"strip_accents\":true,\"lowercase\":false}",
            "H\xc3\xa9\t\xe4\xb8\xad", "He\t\xe4\xb8\xad", false);
}
END_TEST

START_TEST(sentencepiece)
{
    struct mtr_normalizer n;
    ck_assert(mtr_normalizer_for_sentencepiece(&n, true, NULL));
    ck_assert_uint_eq(n.count, 2);
    mtr_normalizer_free(&n);
    ck_assert(mtr_normalizer_for_sentencepiece(&n, false, NULL));
    ck_assert_uint_eq(n.count, 1);
    mtr_normalizer_free(&n);
}
END_TEST

START_TEST(refusals)
{
    static const char *const bad[] = {
        "{}",
        "{\"type\":\"Odd\"}",
        "{\"type\":\"Replace\"}",
        "{\"type\":\"Prepend\"}",
        "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}",
        "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!!\"}",
        "{\"type\":\"Sequence\",\"normalizers\":7}",
        "{\"type\":\"Strip\",\"strip_left\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mtr_error err = {0};
        struct mtr_arena arena;
        struct mtr_normalizer n;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(bad[i]), 0, NULL);
        ck_assert_msg(!mtr_normalizer_from_json(&n, v, &err), "%s", bad[i]);
        ck_assert_msg(strncmp(err.message, "normalizer", 10) == 0, "%s: %s", bad[i], err.message);
        mtr_arena_free(&arena);
    }
}
END_TEST

MTR_CHECK_MAIN("text/normalizer")
{
    tcase_add_test(tc, steps);
    tcase_add_test(tc, bert);
    tcase_add_test(tc, sentencepiece);
    tcase_add_test(tc, refusals);
}
