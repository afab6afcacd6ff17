/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Pairs of characters that some token holds side by side.
 */
#include "broker/text/joints.h"

#include <stdlib.h>
#include <string.h>

#include "broker/text/unicode.h"
#include "common/base/utf8.h"

#define MIN_BITS   (1u << 16)
#define MAX_BITS   (1u << 24)
#define MIN_SPREAD 12 /* bits in the table for each that is set: 8 in 100 are joined in error */

bool mtr_joints_init(struct mtr_joints *j, size_t bytes)
{
    memset(j, 0, sizeof *j);
    uint64_t bits = MIN_BITS;
    while (bits < MAX_BITS && bits < bytes * 2)
        bits *= 2;
    j->mask = bits - 1;
    j->pairs = calloc(bits / 64, sizeof *j->pairs);
    return j->pairs != NULL;
}

void mtr_joints_free(struct mtr_joints *j)
{
    free(j->pairs);
    j->pairs = NULL;
}

static uint64_t bit_of(const struct mtr_joints *j, uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return h >> 40 & j->mask;
}

static void set(uint64_t *bits, uint64_t n)
{
    bits[n >> 6] |= 1ull << (n & 63);
}

static bool get(const uint64_t *bits, uint64_t n)
{
    return bits[n >> 6] >> (n & 63) & 1;
}

void mtr_joints_add(struct mtr_joints *j, struct mtr_str token)
{
    const unsigned char *p = (const unsigned char *)token.ptr;
    uint32_t left = 0, cp;
    int left_length = -1; /* of the unit before; negative: a fragment */
    for (size_t at = 0; at < token.len;) {
        int n = mtr_utf8_decode(token.ptr + at, token.len - at, &cp);
        if (at > 0 && (n < 0 || left_length < 0))
            set(j->fragments[p[at - 1]], p[at]);
        else if (at > 0 && left < 128 && cp < 128)
            set(j->ascii[left], cp);
        else if (at > 0)
            set(j->pairs, bit_of(j, left, cp));
        left = cp;
        left_length = n;
        at += n > 0 ? (size_t)n : 1;
    }
}

/* Halving the table keeps what is in it: the number of a bit loses its highest digit. */
static void halve(struct mtr_joints *j)
{
    size_t half = (j->mask + 1) / 128;
    for (size_t i = 0; i < half; i++)
        j->pairs[i] |= j->pairs[i + half];
    j->mask /= 2;
}

void mtr_joints_finish(struct mtr_joints *j)
{
    uint64_t set_bits = 0;
    for (size_t i = 0; i <= j->mask / 64; i++)
        set_bits += (uint64_t)__builtin_popcountll(j->pairs[i]);
    while (j->mask + 1 > MIN_BITS && set_bits * MIN_SPREAD < (j->mask + 1) / 2)
        halve(j);
}

static bool joined(const struct mtr_joints *j, const unsigned char *at, uint32_t left,
                   uint32_t right)
{
    if (left < 128 && right < 128)
        return get(j->ascii[left], right) || get(j->fragments[left], right);
    return get(j->pairs, bit_of(j, left, right)) || get(j->fragments[at[-1]], at[0]);
}

size_t mtr_joints_cut(const struct mtr_joints *j, struct mtr_str text, size_t from)
{
    uint32_t left, right;
    size_t at = from + (size_t)mtr_utf8_next(text.ptr + from, &left);
    while (at < text.len) {
        size_t n = (size_t)mtr_utf8_next(text.ptr + at, &right);
        if (!joined(j, (const unsigned char *)text.ptr + at, left, right))
            break;
        at += n;
        left = right;
    }
    return at;
}
