/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mtr_hash64 folds 16 bytes a step by a 64 x 64 -> 128 bit multiplication whose halves are xored:
 * every input bit reaches every output bit in one instruction pair (the method of wyhash, Wang Yi,
 * public domain). Words are read little-endian, so that a hash is the same on every machine.
 */
#include "common/base/hash.h"

#include <sodium.h>
#include <string.h>

/* Odd, half their bits set, no pattern: digits of pi, e and sqrt(2). */
#define K0 0x243f6a8885a308d3u
#define K1 0xb7e151628aed2a6bu
#define K2 0x6a09e667f3bcc909u

static uint64_t fold(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* len 0..8 bytes as a little-endian number. */
static uint64_t word(const uint8_t *p, size_t len)
{
    uint64_t w = 0;
    memcpy(&w, p, len);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

uint64_t mtr_hash64(const void *bytes, size_t len, uint64_t seed)
{
    const uint8_t *p = bytes;
    uint64_t h = seed ^ fold(seed ^ K0, K1);
    size_t left = len;
    for (; left > 16; p += 16, left -= 16)
        h = fold(word(p, 8) ^ K1, word(p + 8, 8) ^ h);
    uint64_t a = 0, b = 0;
    if (left >= 8) {
        a = word(p, 8);
        b = word(p + left - 8, 8);
    } else if (left > 0) {
        a = word(p, left);
    }
    return fold(K2 ^ len, fold(a ^ K1, b ^ h));
}

void mtr_sha256(const void *bytes, size_t len, uint8_t out[32])
{
    crypto_hash_sha256(out, bytes, len);
}

void mtr_hex(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * len] = 0;
}
