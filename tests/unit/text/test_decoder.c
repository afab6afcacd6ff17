/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Chains of decoders, reduced and not, and bytes that are not text. */
#include "broker/text/decoder.c"

#include "tests/unit/check_main.h"

/* Decodes names given as "a|b|c" through the chain of steps, also where it could be reduced. */
static void chain(const char *json, enum mtr_decoder_kind kind, const char *names, const char *want)
{
    struct mtr_error err = {0};
    struct mtr_arena arena;
    struct mtr_decoder d;
    struct mtr_buf got = {0};
    struct mtr_str items[32], rest = mtr_str(names);
    size_t count = 0;
    mtr_arena_init(&arena, 0);
    const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(json), 0, &err);
    ck_assert_msg(v != NULL, "%s", err.message);
    ck_assert_msg(mtr_decoder_from_json(&d, v, &err), "%s: %s", json, err.message);
    ck_assert_int_eq(d.kind, kind);
    while (rest.len > 0) {
        size_t end = mtr_str_find(rest, MTR_STR("|"), 0);
        items[count++] = mtr_str_sub(rest, 0, end);
        rest = end == SIZE_MAX ? MTR_STR("") : mtr_str_sub(rest, end + 1, SIZE_MAX);
    }
    mtr_buf_puts(&got, "");
    ck_assert(mtr_decoder_chain(&d, items, count, &got, &err));
    ck_assert_msg(strcmp(got.data, want) == 0, "%s on %s: '%s', want '%s'", json, names, got.data,
                  want);
    mtr_buf_free(&got);
    mtr_decoder_free(&d);
    mtr_arena_free(&arena);
}

START_TEST(chains)
{
    chain("null", MTR_DECODE_CHAIN, "a|b", "a b");
    chain("{\"type\":\"ByteLevel\"}", MTR_DECODE_BYTES,
          "\xc4\xa0"
          "a|\xc3\xa4\xc2\xb8",
          " a\xef\xbf\xbd");
    chain("{\"type\":\"ByteLevel\"}", MTR_DECODE_BYTES, "<\xef\xbd\x9c>",
          "<\xef\xbd\x9c>"); /* no alphabet */
    chain("{\"type\":\"Metaspace\"}", MTR_DECODE_SPACES,
          "\xe2\x96\x81"
          "a|\xe2\x96\x81"
          "b",
          "a b");
    chain("{\"type\":\"Fuse\"}", MTR_DECODE_SPACES, "a|b", "ab");
    chain(
        "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},"
        "\"content\":"
        "\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
        "\",\"start\":1,"
        "\"stop\":0}]}",
        MTR_DECODE_SPACES, "_a|<0xC3>|<0xA9>|_|<0xC3>|<0x41>|b",
        "a\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd"
        "b");
    chain("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":"
          "\"Metaspace\"}]}",
          MTR_DECODE_CHAIN, "<0x41>|_b", "A_b");
    chain("{\"type\":\"WordPiece\"}", MTR_DECODE_CHAIN, "un|##able|,|do|n't", "unable, don't");
    chain("{\"type\":\"WordPiece\",\"cleanup\":false}", MTR_DECODE_CHAIN, "a|,|##b", "a ,b");
    chain("{\"type\":\"BPEDecoder\"}", MTR_DECODE_CHAIN, "ab|c</w>|d</w>", "abc d");
    chain("{\"type\":\"CTC\"}", MTR_DECODE_CHAIN, "a|a|<pad>|a|\x7c", "aa");
    chain("{\"type\":\"Strip\",\"content\":\"x\",\"start\":1,\"stop\":2}", MTR_DECODE_CHAIN,
          "xxaxxx|b", "xaxb");
    chain("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[0-9]+\"},\"content\":\"#\"}",
          MTR_DECODE_CHAIN, "a12|3", "a##");
}
END_TEST

START_TEST(bytes_that_are_not_text)
{
    static const struct {
        const char *bytes, *want;
    } cases[] = {
        {"abc", "abc"},
        {"\xe4\xb8", "\xef\xbf\xbd"},
        {"\xe4\xb8\xad\xe4", "\xe4\xb8\xad\xef\xbf\xbd"},
        {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"a\xf0\x9f"
         "b",
         "a\xef\xbf\xbd"
         "b"},
        {"\xf0\x9f\x98"
         "\xf0\x9f\x98\x80",
         "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* overlong */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_buf got = {0};
        ck_assert(mtr_lossy(mtr_str(cases[i].bytes), &got));
        ck_assert_msg(strcmp(got.data, cases[i].want) == 0, "case %zu: %s", i, got.data);
        mtr_buf_free(&got);
    }
}
END_TEST

START_TEST(byte_tokens)
{
    ck_assert_int_eq(mtr_byte_token(MTR_STR("<0x00>")), 0);
    ck_assert_int_eq(mtr_byte_token(MTR_STR("<0xFf>")), 255);
    ck_assert_int_eq(mtr_byte_token(MTR_STR("<0x0G>")), -1);
    ck_assert_int_eq(mtr_byte_token(MTR_STR("<0x000>")), -1);
    ck_assert_int_eq(mtr_byte_token(MTR_STR("")), -1);
}
END_TEST

START_TEST(refusals)
{
    static const char *const bad[] = {"{}", "{\"type\":\"Odd\"}", "{\"type\":\"Sequence\"}",
                                      "{\"type\":\"Replace\"}",
                                      "{\"type\":\"Strip\",\"start\":-1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mtr_error err = {0};
        struct mtr_arena arena;
        struct mtr_decoder d;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(bad[i]), 0, NULL);
        ck_assert(!mtr_decoder_from_json(&d, v, &err));
        ck_assert(strncmp(err.message, "decoder", 7) == 0);
        mtr_arena_free(&arena);
    }
}
END_TEST

MTR_CHECK_MAIN("text/decoder")
{
    tcase_add_test(tc, chains);
    tcase_add_test(tc, bytes_that_are_not_text);
    tcase_add_test(tc, byte_tokens);
    tcase_add_test(tc, refusals);
}
