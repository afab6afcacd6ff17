/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a text may be cut before it is merged.
 *
 * Byte pair encoding merges neighbours. If no token of the vocabulary holds the two characters "ab"
 * side by side, then no merge can ever reach across a boundary between an a and a b, and the text
 * on its left and on its right can be merged apart with the same result. This cuts text without
 * spaces (Chinese, or a SentencePiece vocabulary that sees a whole document as one word) into
 * pieces about as long as words, which repeat and are found in the cache of words.
 *
 * The set of such pairs is kept as a table of bits by hash: a false "joined" costs a little time
 * and nothing else. Tokens of byte-level vocabularies may begin or end inside a character; a joint
 * next to such a fragment is kept by the two bytes that meet there.
 */
#ifndef MTR_TEXT_JOINTS_H
#define MTR_TEXT_JOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"

struct mtr_joints {
    uint64_t ascii[128][2];     /* both characters ASCII: exact */
    uint64_t fragments[256][4]; /* last byte of the left, first byte of the right */
    uint64_t *pairs;            /* [mask + 1] bits by hash of the two characters */
    uint64_t mask;              /* of bit numbers */
};

/* For tokens of about `bytes` bytes in all. False: no memory. */
bool mtr_joints_init(struct mtr_joints *j, size_t bytes);
void mtr_joints_free(struct mtr_joints *j);

/* Enters the joints inside a token, any bytes. */
void mtr_joints_add(struct mtr_joints *j, struct mtr_str token);

/* After the last token: makes the table as small as it may be, so that it stays in the nearest
 * cache. */
void mtr_joints_finish(struct mtr_joints *j);

/*
 * The end of the piece that begins at text[from]: the first boundary of characters behind it that
 * no token reaches across. Text is valid UTF-8, from < text.len.
 */
size_t mtr_joints_cut(const struct mtr_joints *j, struct mtr_str text, size_t from);

#endif
