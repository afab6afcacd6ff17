/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The exponential is the classic one: exp(x) = 2^n exp(r), n the nearest integer to x / ln 2 (found
 * by adding 1.5 * 2^23, which leaves n in the low bits of the sum), r by subtracting n ln 2 in two
 * pieces, exp(r) by a polynomial (coefficients of Cephes' expf, S. L. Moshier). Its error is below
 * 1e-7 relative, and its operations are the same on every machine.
 */
#include "worker/exec/vocab.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LANES       16
#define TILE        1024 /* elements between two updates of the running result; of LANES */
#define SELECT_TILE 64
#define WEIGHT_ONE  1073741824.0f /* 2^30 */

/* One object file for every x86-64; the loader picks. (Sanitizers do not like resolvers that run
 * before them.) */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

static inline float exp_negative(float x)
{
    x = x > -80.0f ? x : -80.0f; /* NaN too */
    float shifted = x * 1.44269504088896341f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static inline float lanes_max(const float *m)
{
    float best = m[0];
    for (uint32_t j = 1; j < LANES; j++)
        best = m[j] > best ? m[j] : best;
    return best;
}

/* Two steps: the first tile that holds the maximum, then the place in it. */
CLONES uint32_t mtr_argmax(const float *x, uint32_t count)
{
    float best = -INFINITY;
    uint32_t from = 0, i = 0;
    for (; i + TILE <= count; i += TILE) {
        float m[LANES];
        for (uint32_t j = 0; j < LANES; j++)
            m[j] = -INFINITY;
        for (uint32_t k = 0; k < TILE; k += LANES)
            for (uint32_t j = 0; j < LANES; j++)
                m[j] = x[i + k + j] > m[j] ? x[i + k + j] : m[j];
        float top = lanes_max(m);
        if (top > best) {
            best = top;
            from = i;
        }
    }
    for (; i < count; i++)
        if (x[i] > best) {
            best = x[i];
            from = i;
        }
    for (i = from; i < count; i++)
        if (x[i] == best)
            return i;
    return 0;
}

CLONES double mtr_sum_exp(const float *x, uint32_t count, float max)
{
    double total = 0;
    uint32_t i = 0;
    for (; i + TILE <= count; i += TILE) {
        float sum[LANES] = {0};
        for (uint32_t k = 0; k < TILE; k += LANES)
            for (uint32_t j = 0; j < LANES; j++)
                sum[j] += exp_negative(x[i + k + j] - max);
        for (uint32_t j = 0; j < LANES; j++)
            total += (double)sum[j];
    }
    for (; i < count; i++)
        total += (double)exp_negative(x[i] - max);
    return total;
}

CLONES uint64_t mtr_exp_weights(const float *x, uint32_t count, float max, float inverse,
                                float floor, float *restrict scaled, uint32_t *restrict weights)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        float s = (x[i] - max) * inverse;
        int32_t w = (int32_t)(exp_negative(s) * WEIGHT_ONE + 0.5f);
        scaled[i] = s;
        weights[i] = x[i] >= floor ? (uint32_t)w : 0;
        total += weights[i];
    }
    return total;
}

static inline bool has_hit(const float *x, float factor, float low, float high)
{
    uint32_t hit[LANES] = {0};
    for (uint32_t k = 0; k < SELECT_TILE; k += LANES)
        for (uint32_t j = 0; j < LANES; j++) {
            float y = x[k + j] * factor;
            hit[j] |= (y >= low ? 1u : 0) & (y < high ? 1u : 0);
        }
    uint64_t pairs[LANES / 2], any = 0;
    memcpy(pairs, hit, sizeof pairs);
    for (uint32_t j = 0; j < LANES / 2; j++)
        any |= pairs[j];
    return any != 0;
}

/* Tiles without any are passed over by vector comparisons; in others every element is stored, and
 * the place moves on where it counts. */
CLONES uint32_t mtr_select(const float *x, uint32_t count, float factor, float low, float high,
                           uint32_t *restrict out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t end = count - i < SELECT_TILE ? count : i + SELECT_TILE;
        if (end - i == SELECT_TILE && !has_hit(x + i, factor, low, high))
            i = end;
        for (; i < end; i++) {
            float y = x[i] * factor;
            out[n] = i;
            n += (y >= low ? 1u : 0) & (y < high ? 1u : 0);
        }
    }
    return n;
}

CLONES uint32_t mtr_rank_of(const float *x, uint32_t count, uint32_t index)
{
    float v = x[index];
    uint32_t before = 0;
    for (uint32_t i = 0; i < index; i++)
        before += x[i] >= v;
    for (uint32_t i = index; i < count; i++)
        before += x[i] > v;
    return before;
}

static inline double add_lanes(const double *sum)
{
    double total = 0;
    for (uint32_t j = 0; j < LANES; j++)
        total += sum[j];
    return total;
}

static inline bool is_finite(float x)
{
    return fabsf(x) <= FLT_MAX;
}

CLONES void mtr_spread(const float *x, uint32_t count, double *mean, double *deviation)
{
    double sum[LANES] = {0}, squares[LANES] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++)
        n += is_finite(x[i]);
    uint32_t whole = count / LANES * LANES;
    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t j = 0; j < LANES; j++)
            sum[j] += is_finite(x[i + j]) ? (double)x[i + j] : 0;
    for (uint32_t i = whole; i < count; i++)
        sum[i - whole] += is_finite(x[i]) ? (double)x[i] : 0;
    double m = n ? add_lanes(sum) / n : 0;
    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t j = 0; j < LANES; j++) {
            double d = is_finite(x[i + j]) ? (double)x[i + j] - m : 0;
            squares[j] += d * d;
        }
    for (uint32_t i = whole; i < count; i++) {
        double d = is_finite(x[i]) ? (double)x[i] - m : 0;
        squares[i - whole] += d * d;
    }
    *mean = m;
    *deviation = n ? sqrt(add_lanes(squares) / n) : 0;
}
