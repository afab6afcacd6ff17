/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Merging from closed characters gives what merging from bytes gives, for random rules. */
#include "broker/text/closed_chars.c"

#include "common/base/buf.h"
#include "common/base/philox.h"
#include "tests/unit/check_main.h"

enum { MERGES = 400, ROUNDS = 60, WORDS = 300 };

static uint32_t draw(uint32_t seed, uint32_t i, uint32_t below)
{
    uint32_t r[4];
    mtr_philox(seed, i, 0, r);
    return r[0] % below;
}

struct vocabulary {
    struct mtr_vocab pieces;
    struct mtr_bpe_table merges;
    uint32_t byte_ids[256];
};

/* Bytes, then tokens made from two older ones that stand side by side in words of few characters.
 */
static void random_vocabulary(struct vocabulary *v, uint32_t seed)
{
    memset(v, 0, sizeof *v);
    ck_assert(mtr_bpe_table_init(&v->merges, MERGES));
    for (uint32_t b = 0; b < 256; b++) {
        char byte = (char)b;
        v->byte_ids[b] = b;
        ck_assert(mtr_vocab_put(&v->pieces, b, (struct mtr_str){&byte, 1}, false, NULL));
    }
    static const uint8_t bytes[] = {' ', 'a', 0xe4, 0xb8, 0xad, 0xe5, 0x9b, 0xbd, 0xc3, 0xa9};
    for (uint32_t i = 0, rank = 0; i < MERGES; i++) {
        uint32_t n = v->pieces.size - 256, pick = n + sizeof bytes;
        uint32_t l = draw(seed, i * 2, pick), r = draw(seed, i * 2 + 1, pick);
        l = l < sizeof bytes ? bytes[l] : 256 + l - (uint32_t)sizeof bytes;
        r = r < sizeof bytes ? bytes[r] : 256 + r - (uint32_t)sizeof bytes;
        struct mtr_str a = mtr_vocab_get(&v->pieces, l), b = mtr_vocab_get(&v->pieces, r);
        char text[64];
        if (a.len + b.len > 8 || mtr_bpe_table_find(&v->merges, l, r))
            continue;
        memcpy(text, a.ptr, a.len);
        memcpy(text + a.len, b.ptr, b.len);
        uint32_t id = mtr_vocab_find(&v->pieces, (struct mtr_str){text, a.len + b.len});
        if (id == MTR_TOKEN_NONE) {
            id = v->pieces.size;
            ck_assert(
                mtr_vocab_put(&v->pieces, id, (struct mtr_str){text, a.len + b.len}, false, NULL));
        }
        /* Some rules get a rank out of turn. */
        uint32_t turn =
            draw(seed, 5000 + i, 8) == 0 ? draw(seed, 9000 + i, MERGES) + MERGES : rank++;
        mtr_bpe_table_put(&v->merges, (struct mtr_bpe_pair){l, r, turn, id});
    }
}

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
        if (high && closed[cp] != MTR_TOKEN_NONE) {
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
    static const char *const chars[] = {
        " ", "a", "\xe4\xb8\xad", "\xe5\x9b\xbd", "\xe4\xb8\xbd", "\xc3\xa9"};
    size_t used = 0;
    for (uint32_t seed = 0; seed < ROUNDS; seed++) {
        struct vocabulary v;
        struct mtr_bpe_work a = {0}, b = {0};
        random_vocabulary(&v, seed);
        uint32_t *closed = mtr_closed_chars(&v.pieces, &v.merges, v.byte_ids);
        ck_assert(closed != NULL);
        for (uint32_t n = 0; n < WORDS; n++) {
            struct mtr_buf text = {0};
            for (uint32_t i = 0; i <= draw(seed, 20000 + n, 12); i++)
                mtr_buf_puts(&text, chars[draw(seed, 30000 + n * 16 + i, 6)]);
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
