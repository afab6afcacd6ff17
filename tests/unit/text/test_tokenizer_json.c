/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files that are wrong are refused with words that say where; files that are odd are read right. */
#include "broker/text/tokenizer_json.c"

#include "tests/unit/check_main.h"

static const char good[] = "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},{"
                           "\"id\":9,\"content\":\"new\","
                           "\"special\":false,\"normalized\":false}],\"normalizer\":null,\"pre_"
                           "tokenizer\":null,\"post_processor\":"
                           "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
                           "\"<s>\",\"type_id\":0}},{\"Sequence\":"
                           "{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":\"<"
                           "s>\",\"ids\":[0],\"tokens\":[\"<s>\"]}}},"
                           "\"decoder\":{\"type\":\"Fuse\"},\"model\":{\"type\":\"BPE\",\"unk_"
                           "token\":null,\"vocab\":{\"<s>\":0,\"a\":1,"
                           "\"b\":2,\"ab\":3,\"aab\":4},\"merges\":[\"a b\",[\"a\",\"ab\"]]}}";

static struct mtr_tokenizer *load(struct mtr_str json, struct mtr_error *err)
{
    return mtr_tokenizer_from_json(json, (struct mtr_str){NULL, 0}, err);
}

START_TEST(both_spellings_of_merges)
{
    struct mtr_error err = {0};
    struct mtr_tokenizer *t = load(MTR_STR(good), &err);
    ck_assert_msg(t != NULL, "%s", err.message);
    struct mtr_encoder *e = mtr_encoder_new(t);
    struct mtr_ids ids = {0};
    ck_assert(mtr_encode(e, MTR_STR("aabnewab"), MTR_ENCODE_ADD_SPECIAL, &ids, &err));
    const uint32_t want[] = {0, 4, 5,
                             3}; /* the file's id 9 for "new" is not taken, as the next is 5 */
    ck_assert_uint_eq(ids.count, 4);
    ck_assert(memcmp(ids.ids, want, sizeof want) == 0);
    mtr_ids_free(&ids);
    mtr_encoder_free(e);
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(tokens_of_the_config)
{
    struct mtr_error err = {0};
    struct mtr_tokenizer *t = mtr_tokenizer_from_json(
        MTR_STR(good),
        MTR_STR("{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"b\"},\"pad_token\":null}"),
        &err);
    ck_assert_msg(t != NULL, "%s", err.message);
    ck_assert_uint_eq(t->bos, 0);
    ck_assert_uint_eq(t->eos, 2);
    ck_assert_uint_eq(t->pad, MTR_TOKEN_NONE);
    ck_assert(mtr_token_is_eog(t, 2));
    mtr_tokenizer_free(t);
}
END_TEST

START_TEST(every_cut_is_refused)
{
    for (size_t len = 0; len < sizeof good - 1; len++) {
        struct mtr_error err = {0};
        ck_assert(load((struct mtr_str){good, len}, &err) == NULL);
        ck_assert(strncmp(err.message, "tokenizer.json", 14) == 0);
    }
}
END_TEST

/* The good file with one text put in place of another. */
static void refused(const char *from, const char *to, enum mtr_code code, const char *said)
{
    struct mtr_error err = {0};
    struct mtr_buf b = {0};
    const char *at = strstr(good, from);
    ck_assert(at != NULL);
    mtr_buf_append(&b, good, (size_t)(at - good));
    mtr_buf_puts(&b, to);
    mtr_buf_puts(&b, at + strlen(from));
    struct mtr_tokenizer *t = load(mtr_buf_view(&b), &err);
    ck_assert_msg(t == NULL, "%s", to);
    ck_assert_msg(err.code == code && strstr(err.message, said), "%s: %s", to, err.message);
    mtr_buf_free(&b);
}

START_TEST(refusals)
{
    refused("\"a\":1", "\"a\":-1", MTR_INVALID, "model.vocab");
    refused("\"a\":1", "\"a\":99999999999999999999", MTR_INVALID, "model.vocab");
    refused("\"a\":1", "\"a\":4194304", MTR_INVALID, "model.vocab");
    refused("\"a\":1", "\"a\":\"1\"", MTR_INVALID, "model.vocab");
    refused("\"a b\"", "\"a c\"", MTR_INVALID, "model.merges[0]");
    refused("\"a b\"", "\"ab\"", MTR_INVALID, "model.merges[0]");
    refused("\"a b\"", "\"a b a\"", MTR_INVALID, "model.merges[0]");
    refused("[\"a\",\"ab\"]", "[\"a\"]", MTR_INVALID, "model.merges[1]");
    refused("[\"a\",\"ab\"]", "[\"b\",\"b\"]", MTR_INVALID, "model.merges[1]");
    refused("\"BPE\"", "\"Odd\"", MTR_UNSUPPORTED, "Odd");
    refused("\"unk_token\":null", "\"unk_token\":\"no\"", MTR_INVALID, "unk_token");
    refused("\"unk_token\":null", "\"dropout\":0.5", MTR_UNSUPPORTED, "dropout");
    refused("\"unk_token\":null", "\"byte_fallback\":1", MTR_INVALID, "byte_fallback");
    refused("\"ids\":[0]", "\"ids\":[-1]", MTR_INVALID, "post_processor");
    refused("\"ids\":[0]", "\"id5\":[0]", MTR_INVALID, "post_processor");
    refused("{\"type\":\"Fuse\"}", "7", MTR_UNSUPPORTED, "decoder");
    refused("\"content\":\"new\"", "\"content\":7", MTR_INVALID, "added_tokens[1]");
    refused("\"normalizer\":null", "\"normalizer\":{\"type\":\"NFX\"}", MTR_UNSUPPORTED, "NFX");
    refused("{\"added", "[{\"added", MTR_INVALID, "tokenizer.json");
}
END_TEST

START_TEST(scores_as_the_library_reads_them)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"-1.5", -1.5},       {"0.1", 0.1},     {"-12", -12}, {"1e3", 1000},
                 {"-2.5e-3", -0.0025}, {"1.25E+2", 125}, {"0.0", 0},   {"3.0", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtr_arena arena;
        mtr_arena_init(&arena, 0);
        const struct mtr_json *v = mtr_json_parse(&arena, mtr_str(cases[i].text), 0, NULL);
        ck_assert_double_eq_tol(score_of(v), cases[i].value, 1e-15);
        mtr_arena_free(&arena);
    }
}
END_TEST

MTR_CHECK_MAIN("text/tokenizer_json")
{
    tcase_add_test(tc, both_spellings_of_merges);
    tcase_add_test(tc, tokens_of_the_config);
    tcase_add_test(tc, every_cut_is_refused);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, scores_as_the_library_reads_them);
}
