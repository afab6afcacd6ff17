/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * UTF-8 (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF).
 */
#ifndef MTR_BASE_UTF8_H
#define MTR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"

/* Decodes one character at s[0..len). Returns its length 1..4 and sets *cp; 0 when len is 0; -1
 * when the bytes are not valid; -2 when they are a valid beginning that len cuts off. */
int mtr_utf8_decode(const char *s, size_t len, uint32_t *cp);

/* Writes 1..4 bytes and returns how many. cp must be a scalar value. */
int mtr_utf8_encode(uint32_t cp, char out[4]);

bool mtr_utf8_valid(struct mtr_str s);

/* Length of the longest prefix that does not end inside a character that may still be completed.
 * Bytes that can never become valid count as complete (they will be replaced). */
size_t mtr_utf8_complete(struct mtr_str s);

#endif
