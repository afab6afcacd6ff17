/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Greedy tokens: the largest of a tile, and only where that is a new maximum its place.
 *
 * Drawn tokens: a place in the order is found by halving the range of its keys, with a pass over
 * the row each time. It needs no memory and is slow; where the host class draws, it does so with
 * worker/exec/sampler.c.
 */
#include "kernels/args/sample.h"

#include <math.h>

#include "common/numeric/numeric.h"
#include "kernels/host/rows.h"
#include "kernels/host/vec.h"

#define TILE 1024 /* elements: a multiple of the lanes */

/* The largest of x [n] and `least`; NaN counts as nothing. */
static float largest(const float *x, uint32_t n, float least)
{
    vf best = vf_set1(least);
    uint32_t i = 0;
    for (; i + MTR_HOST_LANES <= n; i += MTR_HOST_LANES)
        best = vf_max(vf_load(x + i), best);
    float max = vf_maximum(best);
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static uint32_t argmax_row(const float *x, uint32_t count)
{
    float max = -INFINITY;
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i += TILE) {
        uint32_t n = count - i < TILE ? count - i : TILE;
        float tile = largest(x + i, n, max);
        if (tile > max) {
            max = tile;
            at = i;
        }
    }
    if (max == -INFINITY)
        return 0;
    while (x[at] != max)
        at++;
    return at;
}

/* ---- drawing ---- */

struct row {
    const float *x;
    uint32_t count;
    float max, inverse;
};

/* What stands before a key in the order. */
struct prefix {
    uint64_t weight, tokens;
};

/* e^x for x <= 0 as worker/exec/vocab.c computes it. */
static float exp_negative(float x)
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
    return p * mtr_f32_from_bits((mtr_f32_bits(shifted) + 127) << 23);
}

static float scaled(const struct row *r, uint32_t i)
{
    return (r->x[i] - r->max) * r->inverse;
}

static uint32_t weight_of(float s)
{
    return (uint32_t)(int32_t)(exp_negative(s) * MTR_SAMPLE_WEIGHT + 0.5f);
}

/* s descending, then the id: the bits of -s order like the number. */
static uint64_t place_key(float s, uint32_t token)
{
    return (uint64_t)mtr_f32_bits(-s + 0.0f) << 32 | token;
}

static struct prefix before_key(const struct row *r, uint64_t key)
{
    struct prefix p = {0, 0};
    for (uint32_t i = 0; i < r->count; i++) {
        float s = scaled(r, i);
        uint32_t w = weight_of(s);
        if (w && place_key(s, i) < key) {
            p.weight += w;
            p.tokens++;
        }
    }
    return p;
}

/* The key of the token with `at` tokens, or so much weight, before it; there is one. */
static uint64_t find(const struct row *r, uint64_t at, bool by_tokens)
{
    uint64_t low = 0, high = UINT64_MAX;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        struct prefix p = before_key(r, middle);
        if ((by_tokens ? p.tokens : p.weight) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t weight_above(const struct row *r, float limit)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        float s = scaled(r, i);
        sum += s >= limit ? weight_of(s) : 0;
    }
    return sum;
}

/* The weight below which the draw falls. */
static uint64_t kept_weight(const struct row *r, const struct mtr_sample_row *how)
{
    const struct prefix all = before_key(r, UINT64_MAX);
    uint64_t kept = all.weight;
    if (how->top_k > 0 && how->top_k < all.tokens)
        kept = before_key(r, find(r, how->top_k, true)).weight;
    if (how->top_p < 1) {
        uint64_t share = (uint64_t)ceil((double)how->top_p * (double)kept);
        kept = all.weight;
        if (share < all.weight)
            kept = before_key(r, find(r, share ? share - 1 : 0, false) + 1).weight;
    }
    if (how->least > -INFINITY) {
        uint64_t above = weight_above(r, how->least < 0 ? how->least : 0);
        kept = above < kept ? above : kept;
    }
    return kept;
}

static uint32_t draw(const struct row *r, const struct mtr_sample_row *how)
{
    unsigned __int128 at = (unsigned __int128)kept_weight(r, how) * how->fraction >> 24;
    return (uint32_t)find(r, (uint64_t)at, false);
}

/* ---- the kernels ---- */

/* The slot of the lane whose last output row r is, or -1. */
static int32_t slot_behind(const struct mtr_step_view *step, uint32_t r)
{
    int32_t row = step->output_rows[r], lane = step->token_lanes[row];
    return step->lane_rows[lane + 1] == row + 1 ? step->lane_slots[lane] : -1;
}

static void give(const struct mtr_sample_args *args, uint32_t r, uint32_t token)
{
    int32_t slot = slot_behind(args->step, r);
    args->tokens[r] = (int32_t)token;
    if (slot >= 0)
        args->last_tokens[slot] = (int32_t)token;
}

void MTR_HOST_FN(argmax)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(argmax)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_sample_args *args = arguments;
    for (uint32_t r = block->x; r < args->step->outputs; r += block->grid_x)
        give(args, r, argmax_row(args->logits + (size_t)r * args->stride, args->vocab));
}

void MTR_HOST_FN(sample)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(sample)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_sample_args *args = arguments;
    for (uint32_t r = block->x; r < args->step->outputs; r += block->grid_x) {
        const struct mtr_sample_row *how = &args->step->sampling[r];
        const float *x = args->logits + (size_t)r * args->stride;
        uint32_t token = argmax_row(x, args->vocab);
        struct row row = {x, args->vocab, x[token], how->inverse};
        if (how->inverse > 0 && fabsf(x[token]) < INFINITY)
            token = draw(&row, how);
        give(args, r, token);
    }
}
