/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Both ways of merging against the definition: again and again the lowest rank, leftmost first. */
#include "broker/text/bpe.c"

#include "common/base/philox.h"
#include <math.h>

#include "tests/unit/check_main.h"

enum { SYMBOLS = 60, MERGES = 200, WORDS = 400 };

static uint32_t draw(uint32_t seed, uint32_t i, uint32_t below)
{
    uint32_t r[4];
    mtr_philox(seed, i, 0, r);
    return r[0] % below;
}

/* Random rules, also such that make a symbol older than its parts. */
static void random_rules(struct mtr_bpe_table *t, uint32_t seed)
{
    ck_assert(mtr_bpe_table_init(t, MERGES));
    for (uint32_t i = 0; i < MERGES; i++)
        mtr_bpe_table_put(t, (struct mtr_bpe_pair){.left = draw(seed, i * 3, SYMBOLS),
                                                   .right = draw(seed, i * 3 + 1, SYMBOLS),
                                                   .rank = i,
                                                   .id = draw(seed, i * 3 + 2, SYMBOLS)});
}

static size_t merge_by_definition(const struct mtr_bpe_table *t, uint32_t *ids, size_t count)
{
    for (;;) {
        const struct mtr_bpe_pair *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            const struct mtr_bpe_pair *p = mtr_bpe_table_find(t, ids[i], ids[i + 1]);
            if (p != NULL && (best == NULL || p->rank < best->rank)) {
                best = p;
                at = i;
            }
        }
        if (best == NULL)
            return count;
        ids[at] = best->id;
        count--;
        memmove(ids + at + 1, ids + at + 2, (count - at - 1) * sizeof *ids);
    }
}

static void compare(uint32_t seed, size_t longest)
{
    struct mtr_bpe_table t;
    struct mtr_bpe_work w = {0};
    uint32_t ids[512];
    random_rules(&t, seed);
    for (uint32_t n = 0; n < WORDS; n++) {
        size_t count = draw(seed + 1, n, (uint32_t)longest) + 1, bytes = 0;
        w.count = 0;
        for (size_t i = 0; i < count; i++) {
            ids[i] = draw(seed + 2 + n, (uint32_t)i, n % 3 ? SYMBOLS : 4);
            ck_assert(mtr_bpe_push(&w, ids[i], 1 + (uint32_t)i % 3));
            bytes += 1 + i % 3;
        }
        count = merge_by_definition(&t, ids, count);
        ck_assert(mtr_bpe_merge_ranked(&t, &w));
        ck_assert_uint_eq(w.count, count);
        for (size_t i = 0; i < count; i++) {
            ck_assert_uint_eq(w.symbols[i].id, ids[i]);
            bytes -= w.symbols[i].len;
        }
        ck_assert_uint_eq(bytes, 0);
    }
    mtr_bpe_work_free(&w);
    mtr_bpe_table_free(&t);
}

START_TEST(short_words)
{
    for (uint32_t seed = 0; seed < 20; seed++)
        compare(seed * 1000, SHORT_WORD);
}
END_TEST

START_TEST(long_words)
{
    for (uint32_t seed = 0; seed < 10; seed++)
        compare(seed * 1000 + 7, 500);
}
END_TEST

START_TEST(a_million_letters)
{
    struct mtr_bpe_table t;
    struct mtr_bpe_work w = {0};
    ck_assert(mtr_bpe_table_init(&t, 8));
    for (uint32_t i = 0; i < 8; i++) /* a, aa, aaaa, ... */
        mtr_bpe_table_put(&t, (struct mtr_bpe_pair){i, i, i, i + 1});
    for (uint32_t i = 0; i < 1000003; i++)
        ck_assert(mtr_bpe_push(&w, 0, 1));
    ck_assert(mtr_bpe_merge_ranked(&t, &w));
    ck_assert_uint_eq(w.count, 1000003 / 256 + 3); /* the rest is 67: 64, 2, 1 */
    ck_assert_uint_eq(w.symbols[0].id, 8);
    mtr_bpe_work_free(&w);
    mtr_bpe_table_free(&t);
}
END_TEST

START_TEST(scores)
{
    const char *tokens[] = {"a", "b", "c", "ab", "bc", "abc", "cab"};
    const float values[] = {0, 0, 0, -2, -1, -4, -0.5f};
    uint32_t ranks[7];
    struct mtr_vocab v = {0};
    struct mtr_bpe_work w = {0};
    for (uint32_t i = 0; i < 7; i++) {
        ck_assert(mtr_vocab_put(&v, i, mtr_str(tokens[i]), false, NULL));
        ranks[i] = mtr_bpe_score_rank(values[i]);
    }
    struct mtr_bpe_scores s = {&v, ranks};
    const char *text = "abcab";
    for (size_t i = 0; text[i]; i++)
        ck_assert(mtr_bpe_push(&w, (uint32_t)(text[i] - 'a'), 1));
    /* bc first (-1), then a+bc (-4) and ab (-2): ab before abc, and "abc" + "ab" is no token. */
    ck_assert(mtr_bpe_merge_scored(&s, &w, mtr_str(text)));
    ck_assert_uint_eq(w.count, 2);
    ck_assert_uint_eq(w.symbols[0].id, 5);
    ck_assert_uint_eq(w.symbols[1].id, 3);
    mtr_bpe_work_free(&w);
    mtr_vocab_free(&v);
}
END_TEST

START_TEST(ranks_of_scores)
{
    const float down[] = {INFINITY, 3.5f, 1e-30f, 0, -1e-30f, -1, -1e9f, -1e30f};
    for (size_t i = 0; i + 1 < sizeof down / sizeof down[0]; i++)
        ck_assert_uint_lt(mtr_bpe_score_rank(down[i]), mtr_bpe_score_rank(down[i + 1]));
    ck_assert_uint_eq(mtr_bpe_score_rank(NAN), NO_RANK - 1);
}
END_TEST

MTR_CHECK_MAIN("text/bpe")
{
    tcase_add_test(tc, short_words);
    tcase_add_test(tc, long_words);
    tcase_add_test(tc, a_million_letters);
    tcase_add_test(tc, scores);
    tcase_add_test(tc, ranks_of_scores);
}
