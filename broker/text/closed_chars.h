/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Characters that a byte-level vocabulary merges first, whatever stands beside them.
 *
 * A Chinese character is three bytes, and merging begins at bytes. For nearly all characters that
 * are tokens it can be told beforehand how that begins: its bytes become one symbol before anything
 * of it could merge with a neighbour. Such a character is closed, and may enter the merging as one
 * symbol, a third of the work.
 *
 * Let R be the highest rank among the merges that make the character of its bytes. It is closed if
 * every merge that could reach across its edge while it is in parts has a rank above R, and every
 * merge that takes the whole character has, too. The first is asked for neighbours that are not
 * ASCII: merges of a space with a first byte are among the earliest of many vocabularies.
 */
#ifndef MTR_TEXT_CLOSED_CHARS_H
#define MTR_TEXT_CLOSED_CHARS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/text/bpe.h"
#include "broker/text/vocab.h"

#define MTR_CLOSED_CHARS 0x10000 /* characters of two and three bytes */

/* ids [MTR_CLOSED_CHARS] by code point, MTR_TOKEN_NONE where not closed; on the heap, the caller's
 * to free. NULL: no memory. pieces are raw bytes. */
uint32_t *mtr_closed_chars(const struct mtr_vocab *pieces, const struct mtr_bpe_table *merges,
                           const uint32_t byte_ids[256]);

#endif
