/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Cuts, closed characters and the cache change nothing: against merging from bytes. */
#include "broker/text/model.c"

#include "tests/unit/text/random_vocab.h"

enum { ROUNDS = 40, TEXTS = 400 };

static void by_definition(const struct vocabulary *v, struct mtr_str s, struct mtr_bpe_work *w)
{
    w->count = 0;
    for (size_t i = 0; i < s.len; i++)
        ck_assert(mtr_bpe_push(w, v->byte_ids[(uint8_t)s.ptr[i]], 1));
    ck_assert(mtr_bpe_merge_ranked(&v->merges, w));
}

START_TEST(bytes)
{
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct vocabulary v;
        struct mtr_model m = {.kind = MTR_MODEL_BPE_BYTES, .unknown = MTR_TOKEN_NONE};
        struct mtr_model_work work = {0};
        struct mtr_bpe_work plain = {0};
        struct mtr_ids ids = {0};
        random_vocabulary(&v, seed);
        m.pieces = v.pieces;
        m.merges = v.merges;
        ck_assert(mtr_model_finish(&m, NULL));
        ck_assert(m.cuts);
        for (uint32_t n = 0; n < TEXTS; n++) {
            struct mtr_buf text = {0};
            random_text(&text, seed * 100 + n % 200, n % 7 ? 12 : 200); /* each comes twice */
            ids.count = 0;
            ck_assert(mtr_model_encode(&m, &work, mtr_buf_view(&text), &ids));
            by_definition(&v, mtr_buf_view(&text), &plain);
            ck_assert_uint_eq(ids.count, plain.count);
            for (size_t i = 0; i < ids.count; i++)
                ck_assert_uint_eq(ids.ids[i], plain.symbols[i].id);
            mtr_buf_free(&text);
        }
        mtr_ids_free(&ids);
        mtr_bpe_work_free(&plain);
        mtr_model_work_free(&work);
        mtr_model_free(&m);
    }
}
END_TEST

static void add(struct mtr_model *m, const char *const *tokens)
{
    for (uint32_t i = 0; tokens[i] != NULL; i++)
        ck_assert(mtr_vocab_put(&m->pieces, i, mtr_str(tokens[i]), true, NULL));
}

/* Ids as "1 2 3". */
static void encodes(const struct mtr_model *m, struct mtr_model_work *w, const char *text,
                    const char *want)
{
    struct mtr_ids ids = {0};
    struct mtr_buf got = {0};
    ck_assert(mtr_model_encode(m, w, mtr_str(text), &ids));
    mtr_buf_puts(&got, "");
    for (size_t i = 0; i < ids.count; i++)
        mtr_buf_printf(&got, i > 0 ? " %u" : "%u", ids.ids[i]);
    ck_assert_msg(strcmp(got.data, want) == 0, "%s: %s, want %s", text, got.data, want);
    mtr_buf_free(&got);
    mtr_ids_free(&ids);
}

START_TEST(unknown_characters)
{
    const char *const tokens[] = {"<unk>", "a", "b", "<0xC3>", "<0xA9>", "ab", NULL};
    struct mtr_model m = {.kind = MTR_MODEL_BPE_CHARS, .unknown = 0};
    struct mtr_model_work w = {0};
    add(&m, tokens);
    ck_assert(mtr_bpe_table_init(&m.merges, 1));
    mtr_bpe_table_put(&m.merges, (struct mtr_bpe_pair){1, 2, 0, 5});
    ck_assert(mtr_model_finish(&m, NULL));
    for (int again = 0; again < 2; again++) { /* merged, and from the cache */
        m.fuse_unknown = false;
        m.byte_fallback = false;
        encodes(&m, &w, "abxya", "5 0 0 1");
        mtr_model_work_free(&w);
        m.fuse_unknown = true;
        encodes(&m, &w, "abxya", "5 0 1");
        encodes(&m, &w, "xyzab", "0 5");
        mtr_model_work_free(&w);
        m.byte_fallback = true;
        encodes(&m, &w, "ab\xc3\xa9x", "5 3 4 0");
        mtr_model_work_free(&w);
    }
    mtr_model_free(&m);
}
END_TEST

START_TEST(vanishing_characters_let_their_neighbours_meet)
{
    const char *const tokens[] = {"a", "b", "ab", NULL};
    struct mtr_model m = {.kind = MTR_MODEL_BPE_CHARS, .unknown = MTR_TOKEN_NONE};
    struct mtr_model_work w = {0};
    add(&m, tokens);
    ck_assert(mtr_bpe_table_init(&m.merges, 1));
    mtr_bpe_table_put(&m.merges, (struct mtr_bpe_pair){0, 1, 0, 2});
    ck_assert(mtr_model_finish(&m, NULL));
    ck_assert(!m.cuts);
    encodes(&m, &w, "axb", "2");
    mtr_model_work_free(&w);
    mtr_model_free(&m);
}
END_TEST

START_TEST(words)
{
    const char *const tokens[] = {"[UNK]", "un", "##aff", "##able", "able", "\xc3\xa9", NULL};
    struct mtr_model m = {.kind = MTR_MODEL_WORDPIECE,
                          .unknown = 0,
                          .max_chars = 10,
                          .prefix = "##",
                          .prefix_len = 2};
    struct mtr_model_work w = {0};
    add(&m, tokens);
    ck_assert(mtr_model_finish(&m, NULL));
    encodes(&m, &w, "unaffable", "1 2 3");
    encodes(&m, &w, "able", "4");
    encodes(&m, &w, "unx", "0");
    encodes(&m, &w, "unaffableable", "0"); /* longer than ten characters */
    encodes(&m, &w, "\xc3\xa9", "5");
    m.kind = MTR_MODEL_WORDLEVEL;
    encodes(&m, &w, "able", "4");
    encodes(&m, &w, "ables", "0");
    mtr_model_work_free(&w);
    mtr_model_free(&m);
}
END_TEST

START_TEST(ends_of_words)
{
    const char *const tokens[] = {"a", "b", "b</w>", "ab</w>", "a</w>", NULL};
    struct mtr_model m = {
        .kind = MTR_MODEL_BPE_CHARS, .unknown = MTR_TOKEN_NONE, .suffix = "</w>", .suffix_len = 4};
    struct mtr_model_work w = {0};
    add(&m, tokens);
    ck_assert(mtr_bpe_table_init(&m.merges, 1));
    mtr_bpe_table_put(&m.merges, (struct mtr_bpe_pair){0, 2, 0, 3});
    ck_assert(mtr_model_finish(&m, NULL));
    encodes(&m, &w, "ab", "3");
    encodes(&m, &w, "aba", "0 1 4");
    encodes(&m, &w, "a", "4");
    mtr_model_work_free(&w);
    mtr_model_free(&m);
}
END_TEST

MTR_CHECK_MAIN("text/model")
{
    tcase_add_test(tc, bytes);
    tcase_add_test(tc, unknown_characters);
    tcase_add_test(tc, vanishing_characters_let_their_neighbours_meet);
    tcase_add_test(tc, words);
    tcase_add_test(tc, ends_of_words);
}
