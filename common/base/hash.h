/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hashes. mtr_hash64 is for tables (fast, seeded, not for adversaries who know the seed);
 * mtr_sha256 is for identity: plan digests, image digests, checkpoints (libsodium).
 */
#ifndef MTR_BASE_HASH_H
#define MTR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t mtr_hash64(const void *bytes, size_t len, uint64_t seed);

/* A strong mixer of one word (splitmix64's finalizer). */
static inline uint64_t mtr_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void mtr_sha256(const void *bytes, size_t len, uint8_t out[32]);
void mtr_hex(const uint8_t *bytes, size_t len, char *out /* [2 * len + 1] */);

#endif
