/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Encoding, decoding and the vocabulary, on a vocabulary small enough to reckon by hand. */
#include "broker/text/tokenizer.c"

#include "common/base/philox.h"
#include "tests/unit/text/tiny_source.h"

struct fixture {
    struct tiny tiny;
    struct mtr_tokenizer *t;
    struct mtr_encoder *e;
};

static void set_up(struct fixture *f)
{
    struct mtr_error err = {0};
    tiny_init(&f->tiny);
    f->t = mtr_tokenizer_from_source(&f->tiny.source, &err);
    ck_assert_msg(f->t != NULL, "%s", err.message);
    f->e = mtr_encoder_new(f->t);
    ck_assert(f->e != NULL);
}

static void tear_down(struct fixture *f)
{
    mtr_encoder_free(f->e);
    mtr_tokenizer_free(f->t);
    tiny_free(&f->tiny);
}

static void same_ids(const struct mtr_ids *got, const uint32_t *want, size_t count)
{
    ck_assert_uint_eq(got->count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_uint_eq(got->ids[i], want[i]);
}

#define ENCODES(f, text, flags, ...)                                                               \
    do {                                                                                           \
        const uint32_t want_[] = {__VA_ARGS__};                                                    \
        struct mtr_ids got_ = {0};                                                                 \
        ck_assert(mtr_encode((f)->e, MTR_STR(text), flags, &got_, NULL));                          \
        same_ids(&got_, want_, sizeof want_ / sizeof want_[0]);                                    \
        mtr_ids_free(&got_);                                                                       \
    } while (0)

START_TEST(by_hand)
{
    struct fixture f;
    set_up(&f);
    ENCODES(&f, "hello w", 0, 259, 260);
    ENCODES(&f, "hello w", MTR_ENCODE_ADD_SPECIAL, 263, 259, 260);
    ENCODES(&f, "\xe4\xb8\xad\xe4\xb8", 0, 262, 0xef, 0xbf, 0xbd, 0xef, 0xbf,
            0xbd); /* a broken end */
    ENCODES(&f, "a<s>", MTR_ENCODE_PARSE_SPECIAL, 'a', 263);
    ENCODES(&f, "<s>", 0, '<', 's', '>');
    ENCODES(&f, "[tool]", 0, 266); /* user defined: in any text */
    tear_down(&f);
}
END_TEST

START_TEST(text_of_mixed_origin)
{
    struct fixture f;
    struct mtr_ids got = {0};
    struct mtr_error err = {0};
    set_up(&f);
    /* template "<s>he", user "llo</s>", template "</s>": merged across, but user tokens are text */
    const struct mtr_text_span spans[] = {{5, true}, {7, false}, {4, true}};
    const uint32_t want[] = {263, 259, '<', '/', 's', '>', 264};
    ck_assert(mtr_encode_spans(f.e, MTR_STR("<s>hello</s></s>"), spans, 3, 0, &got, &err));
    same_ids(&got, want, 7);
    ck_assert(!mtr_encode_spans(f.e, MTR_STR("x"), spans, 3, 0, &got, &err));
    ck_assert_int_eq(err.code, MTR_INTERNAL);
    same_ids(&got, want, 7); /* as it was */
    mtr_ids_free(&got);
    tear_down(&f);
}
END_TEST

START_TEST(there_and_back)
{
    struct fixture f;
    set_up(&f);
    for (uint32_t n = 0; n < 2000; n++) {
        struct mtr_buf text = {0}, back = {0};
        struct mtr_ids ids = {0};
        uint32_t r[4];
        mtr_philox(1, n, 0, r);
        for (uint32_t i = 0; i < r[0] % 40; i++) {
            uint32_t v[4];
            char c[4];
            mtr_philox(2, n, i, v);
            uint32_t cp = v[0] % 3 ? v[1] % 128 : v[1] % 0xd000;
            mtr_buf_append(&text, c, (size_t)mtr_utf8_encode(cp, c));
        }
        mtr_buf_puts(&text, "");
        ck_assert(mtr_encode(f.e, mtr_buf_view(&text), 0, &ids, NULL));
        ck_assert(mtr_decode(f.t, ids.ids, ids.count, false, &back, NULL));
        ck_assert(mtr_str_equal(mtr_buf_view(&text), mtr_buf_view(&back)));
        mtr_buf_free(&text);
        mtr_buf_free(&back);
        mtr_ids_free(&ids);
    }
    tear_down(&f);
}
END_TEST

START_TEST(decoding)
{
    struct fixture f;
    struct mtr_buf b = {0};
    const uint32_t ids[] = {263, 259, 9999, 260, 0xe4, 264};
    set_up(&f);
    ck_assert(mtr_decode(f.t, ids, 6, true, &b, NULL));
    ck_assert_str_eq(b.data, "hello w\xef\xbf\xbd");
    mtr_buf_clear(&b);
    ck_assert(mtr_decode(f.t, ids, 6, false, &b, NULL));
    ck_assert_str_eq(b.data, "<s>hello w\xef\xbf\xbd</s>");
    mtr_buf_free(&b);
    tear_down(&f);
}
END_TEST

START_TEST(vocabulary)
{
    struct fixture f;
    size_t count;
    set_up(&f);
    ck_assert_uint_eq(mtr_tokenizer_size(f.t), TINY_TOKENS);
    ck_assert_uint_eq(mtr_token_id(f.t, MTR_STR("<|im_end|>")), 265);
    ck_assert(mtr_str_is(mtr_token_name(f.t, 260), "\xc4\xa0w"));
    ck_assert(mtr_str_is(mtr_token_bytes(f.t, 260), " w"));
    ck_assert(mtr_str_is(mtr_token_bytes(f.t, 261), "\xe4\xb8"));
    ck_assert(mtr_str_is(mtr_token_bytes(f.t, 263), "<s>"));
    ck_assert(mtr_token_bytes(f.t, 267).ptr == NULL);
    ck_assert(mtr_token_is_special(f.t, 263) && !mtr_token_is_special(f.t, 266));
    ck_assert(!mtr_token_is_special(f.t, 5000) && !mtr_token_is_eog(f.t, 5000));
    ck_assert_uint_eq(mtr_tokenizer_bos(f.t), 263);
    ck_assert_uint_eq(mtr_tokenizer_eos(f.t), 264);
    ck_assert_uint_eq(mtr_tokenizer_pad(f.t), MTR_TOKEN_NONE);
    ck_assert_uint_eq(mtr_tokenizer_unknown(f.t), MTR_TOKEN_NONE);
    const uint32_t *eog = mtr_tokenizer_eog(f.t, &count);
    ck_assert_uint_eq(count, 2); /* eos, and <|im_end|> by its name */
    ck_assert(eog[0] == 264 && eog[1] == 265);
    ck_assert(mtr_token_is_eog(f.t, 265) && !mtr_token_is_eog(f.t, 263));
    tear_down(&f);
}
END_TEST

START_TEST(an_encoder_each)
{
    struct fixture f;
    struct mtr_ids a = {0}, b = {0};
    set_up(&f);
    struct mtr_encoder *other = mtr_encoder_new(f.t);
    ck_assert(mtr_encode(f.e, MTR_STR("hello hello"), 0, &a, NULL));
    ck_assert(mtr_encode(other, MTR_STR("hello hello"), 0, &b, NULL));
    same_ids(&a, b.ids, b.count);
    ck_assert(mtr_encode(f.e, MTR_STR(""), 0, &a, NULL)); /* appends nothing */
    same_ids(&a, b.ids, b.count);
    mtr_ids_free(&a);
    mtr_ids_free(&b);
    mtr_encoder_free(other);
    tear_down(&f);
}
END_TEST

MTR_CHECK_MAIN("text/tokenizer")
{
    tcase_add_test(tc, by_hand);
    tcase_add_test(tc, text_of_mixed_origin);
    tcase_add_test(tc, there_and_back);
    tcase_add_test(tc, decoding);
    tcase_add_test(tc, vocabulary);
    tcase_add_test(tc, an_encoder_each);
}
