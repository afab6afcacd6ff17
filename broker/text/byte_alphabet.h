/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The byte alphabet of GPT-2: every byte as one printable character, so that any bytes are text
 * that a vocabulary file can hold. Printable Latin-1 stands for itself; the other 68 bytes, in
 * order, are U+0100 and following ("Ġ" is the space).
 */
#ifndef MTR_TEXT_BYTE_ALPHABET_H
#define MTR_TEXT_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/str.h"

uint32_t mtr_byte_to_char(uint8_t byte);
int mtr_char_to_byte(uint32_t cp); /* -1: not in the alphabet */

/* Appends bytes in the alphabet. */
bool mtr_bytes_to_alphabet(struct mtr_str bytes, struct mtr_buf *out);

/* Appends the bytes that text stands for; false (and nothing appended) when a character of it is
 * not in the alphabet, or for want of memory (out->failed). */
bool mtr_alphabet_to_bytes(struct mtr_str text, struct mtr_buf *out);

#endif
