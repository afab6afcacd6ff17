/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How far a JSON string goes on without anything special, for the parser and the writer. Most time
 * of either goes here, so ASCII is scanned eight bytes at a time and two-byte characters in line.
 */
#ifndef MTR_BASE_JSON_SCAN_H
#define MTR_BASE_JSON_SCAN_H

#include <stdint.h>
#include <string.h>

#include "common/base/utf8.h"

#define MTR_EACH_BYTE(b) (0x0101010101010101u * (b))

/* Bit 7 of a byte of the result tells that this byte of w is a quote, a backslash, below 0x20 or
 * above 0x7f. Above the lowest such byte a borrow may raise a false alarm: use the lowest only. */
static inline uint64_t mtr_json_stops(uint64_t w)
{
    uint64_t quote = w ^ MTR_EACH_BYTE(0x22), slash = w ^ MTR_EACH_BYTE(0x5c);
    return ((quote - MTR_EACH_BYTE(1)) | (slash - MTR_EACH_BYTE(1)) | (w - MTR_EACH_BYTE(0x20)) |
            w) &
           MTR_EACH_BYTE(0x80);
}

/* The first byte at or after p that is a quote, backslash, control character or not ASCII. */
static inline const char *mtr_json_skip_plain(const char *p, const char *end)
{
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        w = __builtin_bswap64(w);
#endif
        uint64_t stop = mtr_json_stops(w);
        if (stop)
            return p + (__builtin_ctzll(stop) >> 3);
        p += 8;
    }
    while (p < end && (unsigned char)(*p - 0x20) < 0x60 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* The same, and over valid multi-byte characters: what stops it is special or not UTF-8. */
static inline const char *mtr_json_skip_text(const char *p, const char *end)
{
    for (;;) {
        p = mtr_json_skip_plain(p, end);
        if (p == end || (unsigned char)*p < 0x80)
            return p;
        if ((unsigned char)(*p - 0xc2) < 0x1e && end - p > 1 && (p[1] & 0xc0) == 0x80) {
            p += 2;
            continue;
        }
        uint32_t cp;
        int n = mtr_utf8_decode(p, (size_t)(end - p), &cp);
        if (n < 0)
            return p;
        p += n;
    }
}

#endif
