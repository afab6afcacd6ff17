/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The best split against all splits. */
#include "broker/text/unigram.c"

#include "common/base/philox.h"
#include "tests/unit/check_main.h"

enum { TOKENS = 40 };

static uint32_t draw(uint32_t seed, uint32_t i, uint32_t below)
{
    uint32_t r[4];
    mtr_philox(seed, i, 0, r);
    return r[0] % below;
}

static void random_word(char *out, uint32_t seed, uint32_t n, uint32_t longest)
{
    uint32_t len = draw(seed, n * 32, longest) + 1;
    for (uint32_t i = 0; i < len; i++)
        out[i] = (char)('a' + draw(seed, n * 32 + 1 + i, 3));
    out[len] = 0;
}

/* The highest sum over all ways to write s. */
static double best_sum(const struct mtr_vocab *v, const struct mtr_unigram *u, struct mtr_str s)
{
    if (s.len == 0)
        return 0;
    double best = -1e300;
    bool single = false;
    for (size_t n = 1; n <= s.len; n++) {
        uint32_t id = mtr_vocab_find(v, mtr_str_sub(s, 0, n));
        if (id == MTR_TOKEN_NONE)
            continue;
        single |= n == 1;
        double sum = u->scores[id] + best_sum(v, u, mtr_str_sub(s, n, SIZE_MAX));
        best = sum > best ? sum : best;
    }
    if (!single) {
        double sum = u->unknown_score + best_sum(v, u, mtr_str_sub(s, 1, SIZE_MAX));
        best = sum > best ? sum : best;
    }
    return best;
}

START_TEST(best_of_all)
{
    for (uint32_t seed = 0; seed < 30; seed++) {
        struct mtr_vocab v = {0};
        struct mtr_unigram u;
        struct mtr_unigram_work w = {0};
        double scores[TOKENS];
        char word[32];
        for (uint32_t id = 0; id < TOKENS; id++) {
            random_word(word, seed, id, 5);
            ck_assert(
                mtr_vocab_put(&v, id, mtr_str(word), true, NULL)); /* the last of equal ones */
            scores[id] = -1 - (double)draw(seed, 4000 + id, 64) / 8;
        }
        ck_assert(mtr_unigram_init(&u, &v, scores, NULL));
        for (uint32_t n = 0; n < 100; n++) {
            random_word(word, seed + 100, n, 12);
            struct mtr_str s = mtr_str(word);
            double sum = 0;
            size_t at = 0;
            ck_assert(mtr_unigram_split(&u, &w, s));
            for (size_t i = 0; i < w.count; i++) {
                uint32_t end = w.ends[i], id = w.steps[end].id;
                sum += id == MTR_TOKEN_NONE ? u.unknown_score : scores[id];
                if (id != MTR_TOKEN_NONE)
                    ck_assert(mtr_str_equal(mtr_vocab_get(&v, id), mtr_str_sub(s, at, end - at)));
                at = end;
            }
            ck_assert_uint_eq(at, s.len);
            ck_assert_double_eq_tol(sum, best_sum(&v, &u, s), 1e-9);
        }
        mtr_unigram_work_free(&w);
        mtr_unigram_free(&u);
        mtr_vocab_free(&v);
    }
}
END_TEST

START_TEST(unknown_characters_are_whole)
{
    struct mtr_vocab v = {0};
    struct mtr_unigram u;
    struct mtr_unigram_work w = {0};
    const double scores[] = {-1};
    ck_assert(mtr_vocab_put(&v, 0, MTR_STR("a"), false, NULL));
    ck_assert(mtr_unigram_init(&u, &v, scores, NULL));
    ck_assert(mtr_unigram_split(&u, &w,
                                MTR_STR("a\xe4\xb8\xad"
                                        "a")));
    ck_assert_uint_eq(w.count, 3);
    ck_assert_uint_eq(w.ends[1], 4);
    ck_assert_uint_eq(w.steps[4].id, MTR_TOKEN_NONE);
    ck_assert(mtr_unigram_split(&u, &w, MTR_STR("")));
    ck_assert_uint_eq(w.count, 0);
    mtr_unigram_work_free(&w);
    mtr_unigram_free(&u);
    mtr_vocab_free(&v);
}
END_TEST

MTR_CHECK_MAIN("text/unigram")
{
    tcase_add_test(tc, best_of_all);
    tcase_add_test(tc, unknown_characters_are_whole);
}
