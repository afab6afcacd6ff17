/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * SentencePiece's precompiled normalizer: a double-array trie from byte strings to replacements
 * ("precompiled_charsmap"; the trie's format is darts-clone's).
 *
 *   u32 size of the trie in bytes, the trie as u32 units, replacements with a NUL behind each
 */
#ifndef MTR_TEXT_CHARSMAP_H
#define MTR_TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/str.h"

struct mtr_charsmap {
    uint32_t *units; /* [unit_count] */
    size_t unit_count;
    struct mtr_buf replacements;
};

/* From its base64 form. MTR_INVALID where the sizes do not fit. */
bool mtr_charsmap_init(struct mtr_charsmap *m, struct mtr_str base64, struct mtr_error *err);
void mtr_charsmap_free(struct mtr_charsmap *m);

/* Appends valid UTF-8 text as the map rewrites it. False: no memory. */
bool mtr_charsmap_apply(const struct mtr_charsmap *m, struct mtr_str text, struct mtr_buf *out);

#endif
