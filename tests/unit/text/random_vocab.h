/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random byte-level vocabularies over few characters, for tests that compare two ways of merging.
 */
#ifndef MTR_UNIT_TEXT_RANDOM_VOCAB_H
#define MTR_UNIT_TEXT_RANDOM_VOCAB_H

#include <string.h>

#include "broker/text/bpe.h"
#include "broker/text/vocab.h"
#include "common/base/buf.h"
#include "common/base/philox.h"
#include "tests/unit/check_main.h"

enum { MERGES = 400 };

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

/* A text of up to `longest` of those characters; freed by the caller. */
static void random_text(struct mtr_buf *text, uint32_t seed, uint32_t longest)
{
    static const char *const chars[] = {
        " ", "a", "\xe4\xb8\xad", "\xe5\x9b\xbd", "\xe4\xb8\xbd", "\xc3\xa9", "\xf0\x9f\x98\x80"};
    uint32_t count = draw(seed, 0, longest) + 1;
    for (uint32_t i = 0; i < count; i++)
        mtr_buf_puts(text, chars[draw(seed, 1 + i, 7)]);
}

#endif
