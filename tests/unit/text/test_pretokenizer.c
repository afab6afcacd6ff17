/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every type of step, read from JSON, on texts that tell it from its neighbours. */
#include "broker/text/pretokenizer.c"

#include "tests/unit/check_main.h"

/* Pieces joined by "|"; first as mtr_pretokenize takes it. */
static void pieces(const char *json, bool first, const char *text, const char *want)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_pretokenizer p;
    struct mtr_pieces out = {0};
    struct mtr_buf got = {0};
    mtr_arena_init(&arena, 0);
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(json), 0, &err);
    ck_assert_msg(v != NULL, "%s: %s", json, err.message);
    ck_assert_msg(mtr_pretokenizer_from_json(&p, v, &err), "%s: %s", json, err.message);
    ck_assert(mtr_pretokenize(&p, &out, mtr_str(text), first, &err));
    mtr_buf_puts(&got, "");
    for (size_t i = 0; i < out.count; i++) {
        ck_assert_uint_gt(out.items[i].len, 0);
        mtr_buf_append(&got, out.text.ptr + out.items[i].at, out.items[i].len);
        mtr_buf_puts(&got, "|");
    }
    ck_assert_msg(strcmp(got.data, want) == 0, "%s on '%s': got %s, want %s", json, text, got.data,
                  want);
    mtr_buf_free(&got);
    mtr_pieces_free(&out);
    mtr_pretokenizer_free(&p);
    mtr_arena_free(&arena);
}

#define SPLIT(behavior, invert)                                                                    \
    "{\"type\":\"Split\",\"pattern\":{\"String\":\"-\"},\"behavior\":\"" behavior                  \
    "\",\"invert\":" invert "}"

START_TEST(all_behaviors)
{
    const char *text = "the-final--countdown"; /* the library's own example */
    pieces(SPLIT("Removed", "false"), true, text, "the|final|countdown|");
    pieces(SPLIT("Isolated", "false"), true, text, "the|-|final|-|-|countdown|");
    pieces(SPLIT("MergedWithPrevious", "false"), true, text, "the-|final-|-|countdown|");
    pieces(SPLIT("MergedWithNext", "false"), true, text, "the|-final|-|-countdown|");
    pieces(SPLIT("Contiguous", "false"), true, text, "the|-|final|--|countdown|");
    pieces(SPLIT("Removed", "true"), true, text, "-|-|-|");
    pieces(SPLIT("Isolated", "false"), true, "", "");
    pieces(SPLIT("Removed", "false"), true, "--", "");
}
END_TEST

START_TEST(regexes)
{
    pieces(
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"}",
        true, "a12345b", "a|123|45|b|");
    pieces("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=(\\\\d{3})+(?!\\\\d))\"},\"behavior\":"
           "\"Isolated\"}",
           true, "1234567", "1|234|567|");
}
END_TEST

START_TEST(byte_level)
{
    pieces("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", true, "Hello world's  end",
           "Hello| world|'s| | end|"); /* raw: the mapping is the model's business */
    pieces("{\"type\":\"ByteLevel\"}", true, "a", " a|");
    pieces("{\"type\":\"ByteLevel\",\"use_regex\":false}", true, " a b", " a b|");
    pieces("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
           "false,"
           "\"use_regex\":false},{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":"
           "\"Isolated\"}]}",
           true, "a b", "a\xc4\xa0|b|"); /* not last: the mapping is made */
}
END_TEST

START_TEST(metaspace)
{
    pieces("{\"type\":\"Metaspace\"}", true, "a  b",
           "\xe2\x96\x81"
           "a|\xe2\x96\x81|\xe2\x96\x81"
           "b|");
    pieces("{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"}", true, "a b",
           "\xe2\x96\x81"
           "a|\xe2\x96\x81"
           "b|");
    pieces("{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"}", false, "a b",
           "a|\xe2\x96\x81"
           "b|");
    pieces("{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\",\"split\":false}", true, "a b",
           "a\xe2\x96\x81"
           "b|");
    pieces("{\"type\":\"Metaspace\"}", true, " a",
           "\xe2\x96\x81"
           "a|");
    pieces("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}", true, "a b",
           "a|_b|");
}
END_TEST

START_TEST(by_class)
{
    pieces("{\"type\":\"Digits\",\"individual_digits\":true}", true, "a12b", "a|1|2|b|");
    pieces("{\"type\":\"Digits\"}", true, "a12b", "a|12|b|");
    pieces("{\"type\":\"Punctuation\"}", true, "a,.b", "a|,|.|b|");
    pieces("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", true, "a,.b", "a|,.|b|");
    pieces("{\"type\":\"Whitespace\"}", true, " a_1, b\xe2\x80\x8d", "a_1|,|b\xe2\x80\x8d|");
    pieces("{\"type\":\"WhitespaceSplit\"}", true, " a,\xe3\x80\x80 b ", "a,|b|");
    pieces("{\"type\":\"BertPreTokenizer\"}", true, "it's $5", "it|'|s|$|5|");
    pieces("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"x\"}", true, "axxb", "a|b|");
    pieces("{\"type\":\"UnicodeScripts\"}", true, " ab\xd0\xb1 \xd0\xb2", "ab|\xd0\xb1 \xd0\xb2|");
    pieces("{\"type\":\"UnicodeScripts\"}", true, "\xe3\x81\x82\xe4\xb8\xad",
           "\xe3\x81\x82\xe4\xb8\xad|");
    pieces("{\"type\":\"FixedLength\",\"length\":2}", true, "a\xc3\xa9" "bcd", "a\xc3\xa9|bc|d|");
    pieces("null", true, "a b", "a b|");
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *json;
        enum mtr_code code;
    } bad[] = {
        {"{}", MTR_UNSUPPORTED},
        {"{\"type\":\"Nonsense\"}", MTR_UNSUPPORTED},
        {"{\"type\":7}", MTR_INVALID},
        {"{\"type\":\"Sequence\"}", MTR_INVALID},
        {"{\"type\":\"Split\",\"behavior\":\"Isolated\"}", MTR_INVALID},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"}}", MTR_INVALID},
        {"{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}", MTR_INVALID},
        {"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}",
         MTR_INVALID},
        {"{\"type\":\"FixedLength\",\"length\":0}", MTR_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mtr_error err = {0};
        struct mtr_arena arena;
        struct mtr_pretokenizer p;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(bad[i].json), 0, NULL);
        ck_assert_msg(!mtr_pretokenizer_from_json(&p, v, &err), "%s", bad[i].json);
        ck_assert_msg(err.code == bad[i].code, "%s: %s", bad[i].json, err.message);
        ck_assert(strncmp(err.message, "pre_tokenizer", 13) == 0);
        mtr_arena_free(&arena);
    }
}
END_TEST

MTR_CHECK_MAIN("text/pretokenizer")
{
    tcase_add_test(tc, all_behaviors);
    tcase_add_test(tc, regexes);
    tcase_add_test(tc, byte_level);
    tcase_add_test(tc, metaspace);
    tcase_add_test(tc, by_class);
    tcase_add_test(tc, refusals);
}
