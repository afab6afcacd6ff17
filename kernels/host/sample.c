/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Greedy tokens: the largest of a tile, and only where that is a new maximum its place. */
#include "kernels/args/sample.h"

#include <math.h>

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

/* The slot of the lane whose last output row r is, or -1. */
static int32_t slot_behind(const struct mtr_step_view *step, uint32_t r)
{
    int32_t row = step->output_rows[r], lane = step->token_lanes[row];
    return step->lane_rows[lane + 1] == row + 1 ? step->lane_slots[lane] : -1;
}

void MTR_HOST_FN(argmax)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(argmax)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_sample_args *args = arguments;
    for (uint32_t r = block->x; r < args->step->outputs; r += block->grid_x) {
        uint32_t token = argmax_row(args->logits + (size_t)r * args->stride, args->vocab);
        int32_t slot = slot_behind(args->step, r);
        args->tokens[r] = (int32_t)token;
        if (slot >= 0)
            args->last_tokens[slot] = (int32_t)token;
    }
}
