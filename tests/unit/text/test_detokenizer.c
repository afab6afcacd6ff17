/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One id at a time: never half a character, and in the end what decoding all at once gives. */
#include "broker/text/detokenizer.c"

#include "common/base/philox.h"
#include "tests/unit/text/tiny_source.h"

enum { STREAMS = 3000 };

/* Pushes ids one by one; every step must leave valid UTF-8. Appends the whole to out. */
static void stream(const struct mtr_tokenizer *t, const uint32_t *ids, size_t count, bool skip,
                   struct mtr_buf *out)
{
    struct mtr_detokenizer d;
    mtr_detokenizer_init(&d, t, skip);
    mtr_buf_puts(out, "");
    for (size_t i = 0; i < count; i++) {
        ck_assert(mtr_detokenizer_push(&d, ids[i], out, NULL));
        ck_assert(mtr_utf8_valid(mtr_buf_view(out)));
    }
    ck_assert(mtr_detokenizer_flush(&d, out, NULL));
    ck_assert_uint_eq(d.held_count, 0);
    mtr_detokenizer_free(&d);
}

static uint32_t draw(uint32_t seed, uint32_t i, uint32_t below)
{
    uint32_t r[4];
    mtr_philox(seed, i, 0, r);
    return r[0] % below;
}

START_TEST(bytes_like_decoding_at_once)
{
    struct tiny tiny;
    tiny_init(&tiny);
    struct mtr_tokenizer *t = mtr_tokenizer_from_source(&tiny.source, NULL);
    static const uint8_t pool[] = {0xe4, 0xb8, 0xad, 0xf0, 0x9f, 0x98, 0x80, 0xff, 'a', 0xed, 0xa0};
    for (uint32_t n = 0; n < STREAMS; n++) {
        uint32_t ids[24];
        struct mtr_buf all = {0}, got = {0};
        size_t count = draw(n, 0, 24) + 1;
        for (uint32_t i = 0; i < count; i++)
            ids[i] = draw(n, 100 + i, 5) ? pool[draw(n, 200 + i, sizeof pool)]
                                         : draw(n, 300 + i, TINY_TOKENS + 3);
        mtr_buf_puts(&all, "");
        ck_assert(mtr_decode(t, ids, count, n % 2, &all, NULL));
        stream(t, ids, count, n % 2, &got);
        ck_assert_str_eq(got.data, all.data);
        mtr_buf_free(&all);
        mtr_buf_free(&got);
    }
    mtr_tokenizer_free(t);
    tiny_free(&tiny);
}
END_TEST

/* SentencePiece: ids 0 <unk>, 1 "\u2581a", 2 "b", 3 "\u2581", 4.. byte tokens E4 B8 AD 41 */
static struct mtr_tokenizer *spaces(bool prefix)
{
    static const char *const names[] = {"<unk>",
                                        "\xe2\x96\x81"
                                        "a",
                                        "b",
                                        "\xe2\x96\x81",
                                        "<0xE4>",
                                        "<0xB8>",
                                        "<0xAD>",
                                        "<0x41>"};
    struct mtr_str tokens[8];
    float scores[8] = {0};
    const uint8_t types[8] = {2, 1, 1, 1, 6, 6, 6, 6};
    for (int i = 0; i < 8; i++)
        tokens[i] = mtr_str(names[i]);
    struct mtr_vocab_source s = {.model = MTR_VOCAB_SCORES,
                                 .token_count = 8,
                                 .tokens = tokens,
                                 .scores = scores,
                                 .types = types,
                                 .bos = MTR_TOKEN_NONE,
                                 .eos = MTR_TOKEN_NONE,
                                 .eot = MTR_TOKEN_NONE,
                                 .eom = MTR_TOKEN_NONE,
                                 .unknown = 0,
                                 .pad = MTR_TOKEN_NONE,
                                 .add_space_prefix = prefix};
    struct mtr_tokenizer *t = mtr_tokenizer_from_source(&s, NULL);
    ck_assert(t != NULL);
    return t;
}

#define STREAMS_TO(t, want, ...)                                                                   \
    do {                                                                                           \
        const uint32_t ids_[] = {__VA_ARGS__};                                                     \
        struct mtr_buf got_ = {0};                                                                 \
        stream(t, ids_, sizeof ids_ / sizeof ids_[0], false, &got_);                               \
        ck_assert_str_eq(got_.data, want);                                                         \
        mtr_buf_free(&got_);                                                                       \
    } while (0)

#define BAD "\xef\xbf\xbd"

START_TEST(spaces_and_byte_tokens)
{
    struct mtr_tokenizer *t = spaces(true);
    STREAMS_TO(t, "a a", 1, 1); /* the first space is the prefix */
    STREAMS_TO(t, " a", 3, 1);  /* only one is */
    STREAMS_TO(t, "\xe4\xb8\xad a", 4, 5, 6, 1);
    STREAMS_TO(t, BAD BAD "b", 4, 5, 2); /* each byte of a broken run */
    STREAMS_TO(t, BAD BAD "b", 4, 7, 2); /* also those that would be characters */
    STREAMS_TO(t, "A" BAD, 7, 4);
    STREAMS_TO(t, BAD BAD "bA", 5, 7, 2, 7); /* a new run begins anew */
    mtr_tokenizer_free(t);
    t = spaces(false);
    STREAMS_TO(t, " a a", 1, 1);
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(spaces_like_decoding_at_once)
{
    struct mtr_tokenizer *t = spaces(true);
    for (uint32_t n = 0; n < STREAMS; n++) {
        uint32_t ids[16];
        struct mtr_buf all = {0}, got = {0};
        size_t count = draw(n, 0, 16) + 1, whole = 0;
        for (uint32_t i = 0; i < count; i++)
            ids[i] = draw(n, 1 + i, 9);
        mtr_buf_puts(&all, "");
        ck_assert(mtr_decode(t, ids, count, false, &all, NULL));
        stream(t, ids, count, false, &got);
        /* Equal but where a run broke after characters that had been handed out. */
        ck_assert_uint_le(got.len, all.len);
        while (whole < got.len && got.data[whole] == all.data[whole])
            whole++;
        if (whole < got.len)
            ck_assert(strstr(all.data, BAD) != NULL);
        mtr_buf_free(&all);
        mtr_buf_free(&got);
    }
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(decoders_that_need_all_tokens)
{
    const char *json = "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"["
                       "UNK]\":0,\"un\":1,"
                       "\"##able\":2,\",\":3,\"x\":4}},\"decoder\":{\"type\":\"WordPiece\"}}";
    struct mtr_tokenizer *t =
        mtr_tokenizer_from_json(mtr_str(json), (struct mtr_str){NULL, 0}, NULL);
    ck_assert(t != NULL);
    STREAMS_TO(t, "unable, x", 1, 2, 3, 4);
    mtr_tokenizer_free(t);
}
END_TEST

MTR_CHECK_MAIN("text/detokenizer")
{
    tcase_add_test(tc, bytes_like_decoding_at_once);
    tcase_add_test(tc, spaces_and_byte_tokens);
    tcase_add_test(tc, spaces_like_decoding_at_once);
    tcase_add_test(tc, decoders_that_need_all_tokens);
}
