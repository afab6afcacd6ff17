/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Merging from closed characters gives what merging from bytes gives, for random rules. */
#include "broker/text/closed_chars.c"

#include "tests/unit/text/random_vocab.h"

enum { ROUNDS = 60, WORDS = 300 };

static void from_bytes(const struct vocabulary *v, struct mtr_str s, struct mtr_bpe_work *w)
{
    w->count = 0;
    for (size_t i = 0; i < s.len; i++)
        ck_assert(mtr_bpe_push(w, v->byte_ids[(uint8_t)s.ptr[i]], 1));
    ck_assert(mtr_bpe_merge_ranked(&v->merges, w));
}

static size_t from_chars(const struct vocabulary *v, const uint32_t *closed, struct mtr_str s,
                         struct mtr_bpe_work *w)
{
    size_t used = 0;
    w->count = 0;
    for (size_t at = 0; at < s.len;) {
        uint32_t cp;
        int n = mtr_utf8_decode(s.ptr + at, s.len - at, &cp);
        bool high = n > 1 && (at == 0 || (uint8_t)s.ptr[at - 1] >= 0x80) &&
                    (at + (size_t)n == s.len || (uint8_t)s.ptr[at + (size_t)n] >= 0x80);
        if (high && cp < MTR_CLOSED_CHARS && closed[cp] != MTR_TOKEN_NONE) {
            ck_assert(mtr_bpe_push(w, closed[cp], (uint32_t)n));
            used++;
        } else {
            for (int i = 0; i < n; i++)
                ck_assert(mtr_bpe_push(w, v->byte_ids[(uint8_t)s.ptr[at + (size_t)i]], 1));
        }
        at += (size_t)n;
    }
    ck_assert(mtr_bpe_merge_ranked(&v->merges, w));
    return used;
}

START_TEST(same_as_from_bytes)
{
    size_t used = 0;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct vocabulary v;
        struct mtr_bpe_work a = {0}, b = {0};
        random_vocabulary(&v, seed);
        uint32_t *closed = mtr_closed_chars(&v.pieces, &v.merges, v.byte_ids);
        ck_assert(closed != NULL);
        for (uint32_t n = 0; n < WORDS; n++) {
            struct mtr_buf text = {0};
            random_text(&text, seed * 1000 + n, 12);
            from_bytes(&v, mtr_buf_view(&text), &a);
            used += from_chars(&v, closed, mtr_buf_view(&text), &b);
            ck_assert_uint_eq(a.count, b.count);
            for (size_t i = 0; i < a.count; i++)
                ck_assert_uint_eq(a.symbols[i].id, b.symbols[i].id);
            mtr_buf_free(&text);
        }
        free(closed);
        mtr_vocab_free(&v.pieces);
        mtr_bpe_table_free(&v.merges);
        mtr_bpe_work_free(&a);
        mtr_bpe_work_free(&b);
    }
    ck_assert_uint_gt(used, 100); /* the test tests something */
}
END_TEST

MTR_CHECK_MAIN("text/closed_chars")
{
    tcase_add_test(tc, same_as_from_bytes);
}
