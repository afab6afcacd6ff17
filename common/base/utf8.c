/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The first byte says the length and the range of the second; all later bytes are 80..BF (table 3-7
 * of the Unicode standard). Runs of ASCII are skipped eight bytes at a time.
 */
#include "common/base/utf8.h"

#define HIGH_BITS 0x8080808080808080u

/* Length of the character that begins with `first`, 0 if none does; range of its second byte. */
static int lead(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    if (first < 0xe0)
        return 2;
    if (first < 0xf0) {
        *low = first == 0xe0 ? 0xa0 : 0x80;
        *high = first == 0xed ? 0x9f : 0xbf;
        return 3;
    }
    *low = first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xf4 ? 0x8f : 0xbf;
    return 4;
}

int mtr_utf8_decode(const char *s, size_t len, uint32_t *cp)
{
    if (len == 0)
        return 0;
    uint8_t first = (uint8_t)s[0], low, high;
    int n = lead(first, &low, &high);
    if (n == 1) {
        *cp = first;
        return 1;
    }
    if (n == 0)
        return -1;
    uint32_t value = first & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((size_t)i == len)
            return -2;
        uint8_t byte = (uint8_t)s[i];
        if (byte < low || byte > high)
            return -1;
        value = value << 6 | (byte & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *cp = value;
    return n;
}

int mtr_utf8_encode(uint32_t cp, char out[4])
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((0xf00u >> n) | cp);
    return n;
}

static size_t ascii_prefix(const char *s, size_t len)
{
    size_t i = 0;
    for (uint64_t w; i + 8 <= len; i += 8) {
        memcpy(&w, s + i, 8);
        if (w & HIGH_BITS)
            break;
    }
    while (i < len && (uint8_t)s[i] < 0x80)
        i++;
    return i;
}

bool mtr_utf8_valid(struct mtr_str s)
{
    for (size_t i = ascii_prefix(s.ptr, s.len); i < s.len;) {
        uint32_t cp;
        int n = mtr_utf8_decode(s.ptr + i, s.len - i, &cp);
        if (n < 0)
            return false;
        i += (size_t)n;
        if (n == 1)
            i += ascii_prefix(s.ptr + i, s.len - i);
    }
    return true;
}

size_t mtr_utf8_complete(struct mtr_str s)
{
    for (size_t back = 1; back <= 3 && back <= s.len; back++) {
        const char *p = s.ptr + s.len - back;
        if (((uint8_t)*p & 0xc0) == 0x80)
            continue;
        uint32_t cp;
        return mtr_utf8_decode(p, back, &cp) == -2 ? s.len - back : s.len;
    }
    return s.len;
}
