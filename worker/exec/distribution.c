/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Buckets hold tokens of nearly equal x, the likeliest first. Whole buckets are skipped by their
 * sums; the one in which the answer lies is opened: its tokens are gathered as 64-bit keys (the
 * bits of -x, which order like the number because -x >= 0, then the id) and sorted.
 */
#include "worker/exec/distribution.h"

#include <string.h>

#include "common/numeric/numeric.h"
#include "worker/exec/vocab.h"

#define BUCKETS          MTR_DISTRIBUTION_BUCKETS
#define BUCKETS_PER_UNIT 12.0f
#define HEAD             120 /* buckets counted at once: to exp(-10) of the largest */

/* The x of a bucket are those whose scaled value truncates to its number. */
static uint32_t bucket_of(float x)
{
    uint32_t b = (uint32_t)(x * -BUCKETS_PER_UNIT);
    return b < BUCKETS ? b : BUCKETS - 1;
}

static void count_buckets(struct mtr_distribution *d, uint32_t from, uint32_t to)
{
    uint32_t n = mtr_select(d->x, d->count, -BUCKETS_PER_UNIT, (float)from, (float)to, d->indices);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t token = d->indices[i], b = bucket_of(d->x[token]);
        d->bucket_count[b] += d->weights[token] != 0;
        d->bucket_weight[b] += d->weights[token];
    }
}

/* To be called before bucket b is read. */
static void need_bucket(struct mtr_distribution *d, uint32_t b)
{
    if (b < HEAD || d->tail_counted)
        return;
    d->tail_counted = true;
    count_buckets(d, HEAD, BUCKETS);
}

void mtr_distribution_init(struct mtr_distribution *d, const float *logits, uint32_t count,
                           float max, float temperature, float floor, float *x, uint32_t *weights,
                           uint64_t *keys, uint32_t *indices)
{
    memset(d, 0, sizeof *d);
    d->count = count;
    d->x = x;
    d->weights = weights;
    d->keys = keys;
    d->indices = indices;
    d->open_bucket = BUCKETS;
    d->total = mtr_exp_weights(logits, count, max, 1 / temperature, floor, x, weights);
    count_buckets(d, 0, HEAD);
}

/* Heap sort: in place, no recursion, and never worse than n log n. */
static void sift_down(uint64_t *keys, uint32_t i, uint32_t count)
{
    uint64_t key = keys[i];
    for (uint32_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && keys[child + 1] > keys[child])
            child++;
        if (keys[child] <= key)
            break;
        keys[i] = keys[child];
    }
    keys[i] = key;
}

static void sort_keys(uint64_t *keys, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(keys, i, count);
    for (uint32_t end = count; end-- > 1;) {
        uint64_t top = keys[0];
        keys[0] = keys[end];
        keys[end] = top;
        sift_down(keys, 0, end);
    }
}

static void open_bucket(struct mtr_distribution *d, uint32_t b)
{
    if (d->open_bucket == b)
        return;
    uint32_t n = 0, found = mtr_select(d->x, d->count, -BUCKETS_PER_UNIT, (float)b, (float)b + 1,
                                       d->indices);
    for (uint32_t i = 0; i < found; i++) {
        uint32_t token = d->indices[i];
        if (d->weights[token]) /* + 0.0f: no -0 */
            d->keys[n++] = (uint64_t)mtr_f32_bits(-d->x[token] + 0.0f) << 32 | token;
    }
    sort_keys(d->keys, n);
    d->open_bucket = b;
}

static uint32_t key_token(uint64_t key)
{
    return (uint32_t)key;
}

uint64_t mtr_distribution_first(struct mtr_distribution *d, uint32_t k)
{
    uint64_t sum = 0;
    uint32_t b = 0;
    for (; b < BUCKETS; b++) {
        need_bucket(d, b);
        if (d->bucket_count[b] > k)
            break;
        k -= d->bucket_count[b];
        sum += d->bucket_weight[b];
    }
    if (b == BUCKETS || k == 0)
        return sum;
    open_bucket(d, b);
    for (uint32_t i = 0; i < k; i++)
        sum += d->weights[key_token(d->keys[i])];
    return sum;
}

/* The bucket in which the running weight passes `at` (< total); *sum is the weight before it. */
static uint32_t bucket_at(struct mtr_distribution *d, uint64_t at, uint64_t *sum)
{
    uint32_t b = 0;
    for (*sum = 0; b < BUCKETS - 1; b++) {
        need_bucket(d, b);
        if (*sum + d->bucket_weight[b] > at)
            break;
        *sum += d->bucket_weight[b];
    }
    return b;
}

/* The place in the sorted open bucket where the running weight passes `at`; *sum is updated to the
 * weight up to and with it. */
static uint32_t place_at(const struct mtr_distribution *d, uint32_t b, uint64_t at, uint64_t *sum)
{
    uint32_t i = 0;
    *sum += d->weights[key_token(d->keys[i])];
    while (*sum <= at && i + 1 < d->bucket_count[b])
        *sum += d->weights[key_token(d->keys[++i])];
    return i;
}

uint64_t mtr_distribution_reach(struct mtr_distribution *d, uint64_t weight)
{
    if (weight >= d->total)
        return d->total;
    uint64_t at = weight ? weight - 1 : 0, sum;
    uint32_t b = bucket_at(d, at, &sum);
    open_bucket(d, b);
    place_at(d, b, at, &sum);
    return sum;
}

uint64_t mtr_distribution_above(struct mtr_distribution *d, float limit)
{
    if (limit >= 0)
        limit = 0;
    uint64_t sum = 0;
    uint32_t last = limit * -BUCKETS_PER_UNIT < BUCKETS ? bucket_of(limit) : BUCKETS - 1;
    need_bucket(d, last);
    for (uint32_t b = 0; b < last; b++)
        sum += d->bucket_weight[b];
    uint32_t n =
        mtr_select(d->x, d->count, -BUCKETS_PER_UNIT, (float)last, (float)last + 1, d->indices);
    for (uint32_t i = 0; i < n; i++)
        if (d->x[d->indices[i]] >= limit)
            sum += d->weights[d->indices[i]];
    return sum;
}

uint32_t mtr_distribution_token(struct mtr_distribution *d, uint64_t at)
{
    uint64_t sum;
    uint32_t b = bucket_at(d, at, &sum);
    open_bucket(d, b);
    return key_token(d->keys[place_at(d, b, at, &sum)]);
}
