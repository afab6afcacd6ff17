/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Named split patterns, and sources that contradict themselves. */
#include "broker/text/tokenizer_source.c"

#include "tests/unit/text/tiny_source.h"

static void splits_to(const char *name, const char *text, const char *want)
{
    struct tiny tiny;
    struct mtr_error err = {0};
    struct mtr_pieces p = {0};
    struct mtr_buf got = {0};
    tiny_init(&tiny);
    tiny.source.pre = mtr_str(name);
    struct mtr_tokenizer *t = mtr_tokenizer_from_source(&tiny.source, &err);
    ck_assert_msg(t != NULL, "%s: %s", name, err.message);
    ck_assert(mtr_pretokenize(&t->pretokenizer, &p, mtr_str(text), true, &err));
    for (size_t i = 0; i < p.count; i++) {
        mtr_buf_append(&got, p.text.ptr + p.items[i].at, p.items[i].len);
        mtr_buf_puts(&got, "|");
    }
    ck_assert_msg(strcmp(got.data, want) == 0, "%s: %s, want %s", name, got.data, want);
    mtr_buf_free(&got);
    mtr_pieces_free(&p);
    mtr_tokenizer_free(t);
    tiny_free(&tiny);
}

START_TEST(patterns)
{
    const char *text = "I'Ll say 12345 it's\n\n  fine!!\r\n";
    splits_to("gpt-2", text, "I|'|Ll| say| 12345| it|'s|\n\n | fine|!!|\r\n|");
    splits_to("smollm", text, "I|'|Ll| say| |1|2|3|4|5| it|'s|\n\n | fine|!!|\r\n|");
    splits_to("llama-bpe", text, "I|'Ll| say| |123|45| it|'s|\n\n| | fine|!!\r\n|");
    splits_to("qwen2", text, "I|'Ll| say| |1|2|3|4|5| it|'s|\n\n| | fine|!!\r\n|");
    splits_to("gpt-4o", "HelloWorld it's", "Hello|World| it's|");
    splits_to("tekken", "HelloWorld 12", "Hello|World| |1|2|");
    splits_to("deepseek-v3",
              "a1234\xe4\xb8\xad"
              "b",
              "a|123|4|\xe4\xb8\xad|b|");
    splits_to("qwen35", "\xe0\xa4\xa8\xe0\xa5\x8d", "\xe0\xa4\xa8\xe0\xa5\x8d|");
}
END_TEST

START_TEST(every_pattern_compiles)
{
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        for (size_t k = 0; k < MAX_SPLITS && splits[i].regexes[k] != NULL; k++) {
            struct mtr_error err = {0};
            struct mtr_regex *r = mtr_regex_compile(mtr_str(splits[i].regexes[k]), &err);
            ck_assert_msg(r != NULL, "%s: %s", splits[i].name, err.message);
            mtr_regex_free(r);
        }
}
END_TEST

static void refused(struct tiny *t, enum mtr_code code, const char *said)
{
    struct mtr_error err = {0};
    ck_assert(mtr_tokenizer_from_source(&t->source, &err) == NULL);
    ck_assert_msg(err.code == code && strstr(err.message, said), "%s", err.message);
    tiny_free(t);
    tiny_init(t);
}

START_TEST(refusals)
{
    struct tiny t;
    tiny_init(&t);
    t.source.pre = MTR_STR("nobody-knows");
    refused(&t, MTR_UNSUPPORTED, "nobody-knows");
    t.source.bos = TINY_TOKENS;
    refused(&t, MTR_INVALID, "bos token 267");
    t.source.token_count = 0;
    refused(&t, MTR_INVALID, "tokens");
    t.merges[1] = MTR_STR("l");
    refused(&t, MTR_INVALID, "merges[1]");
    t.merges[2] = MTR_STR("l q");
    refused(&t, MTR_INVALID, "merges[2]");
    t.source.model = MTR_VOCAB_SCORES;
    refused(&t, MTR_INVALID, "scores");
    tiny_free(&t);
}
END_TEST

START_TEST(control_tokens_are_not_made_by_merging)
{
    struct tiny t;
    struct mtr_error err = {0};
    struct mtr_ids ids = {0};
    tiny_init(&t);
    t.types[259] = MTR_TOKEN_CONTROL; /* "hello" */
    struct mtr_tokenizer *k = mtr_tokenizer_from_source(&t.source, &err);
    ck_assert_msg(k != NULL, "%s", err.message);
    struct mtr_encoder *e = mtr_encoder_new(k);
    ck_assert(mtr_encode(e, MTR_STR("hello"), 0, &ids, &err));
    for (size_t i = 0; i < ids.count; i++)
        ck_assert_uint_ne(ids.ids[i], 259);
    mtr_ids_free(&ids);
    mtr_encoder_free(e);
    mtr_tokenizer_free(k);
    tiny_free(&t);
}
END_TEST

MTR_CHECK_MAIN("text/tokenizer_source")
{
    tcase_add_test(tc, patterns);
    tcase_add_test(tc, every_pattern_compiles);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, control_tokens_are_not_made_by_merging);
}
