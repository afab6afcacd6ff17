/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ten rounds; each multiplies two counter words by constants, and mixes the high halves crosswise
 * with the other two words and the key, which then steps by a Weyl sequence. Constants and test
 * vectors are those of the paper and its Random123 library.
 */
#include "common/base/philox.h"

#define ROUNDS 10
#define M0     0xd2511f53u
#define M1     0xcd9e8d57u
#define W0     0x9e3779b9u
#define W1     0xbb67ae85u

static void philox4x32(uint32_t counter[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)M0 * counter[0];
        uint64_t p1 = (uint64_t)M1 * counter[2];
        counter[0] = (uint32_t)(p1 >> 32) ^ counter[1] ^ k0;
        counter[1] = (uint32_t)p1;
        counter[2] = (uint32_t)(p0 >> 32) ^ counter[3] ^ k1;
        counter[3] = (uint32_t)p0;
        k0 += W0;
        k1 += W1;
    }
}

void mtr_philox(uint64_t seed, uint64_t position, uint32_t draw, uint32_t out[4])
{
    out[0] = (uint32_t)position;
    out[1] = (uint32_t)(position >> 32);
    out[2] = draw;
    out[3] = 0;
    philox4x32(out, (uint32_t)seed, (uint32_t)(seed >> 32));
}

float mtr_uniform(uint64_t seed, uint64_t position, uint32_t draw)
{
    uint32_t out[4];
    mtr_philox(seed, position, draw, out);
    return (float)(out[0] >> 8) * 0x1p-24f;
}
