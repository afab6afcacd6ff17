/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sixteen channels at a time: their taps stand in scratch as vectors, and each output row reads
 * `taps` inputs from the rows before it or, before the lane's first row, from the slot's state. The
 * state moves on when all rows are done.
 */
#include "kernels/args/conv1d.h"

#include "kernels/host/rows.h"
#include "kernels/host/vec_math.h"

struct lane {
    const float *x; /* of the lane's first row and the group's first channel */
    float *y, *state;
    uint32_t rows;
    size_t stride; /* channels */
    size_t n;      /* of the group, at most 16 */
};

_Static_assert(MTR_CONV1D_MAX_TAPS * sizeof(vf) <= MTR_HOST_SCRATCH_BYTES,
               "the scratch holds the taps of a group");

/* taps[j]: weight j of each channel. */
static void spread_taps(const struct mtr_conv1d_args *args, uint32_t channel, size_t n, vf *taps)
{
    const float *w = args->weight + (size_t)channel * args->taps;
    for (uint32_t j = 0; j < args->taps; j++) {
        float column[16] = {0};
        for (size_t c = 0; c < n; c++)
            column[c] = w[c * args->taps + j];
        taps[j] = vf_load(column);
    }
}

/* Inputs are numbered from the state's first on; input i of the lane is number past + i. */
static vf input(const struct lane *l, uint32_t number, uint32_t past)
{
    const float *from =
        number < past ? l->state + number * l->stride : l->x + (size_t)(number - past) * l->stride;
    return vf_load_n(from, l->n);
}

static void convolve(const struct mtr_conv1d_args *args, const struct lane *l, const vf *taps,
                     vf bias)
{
    uint32_t past = args->taps - 1;
    for (uint32_t r = 0; r < l->rows; r++) {
        vf sum = bias;
        for (uint32_t j = 0; j < args->taps; j++)
            sum = vf_fma(taps[j], input(l, r + j, past), sum);
        sum = vf_activate(sum, (enum mtr_activation)args->activation);
        vf_store_n(l->y + (size_t)r * l->stride, sum, l->n);
    }
    for (uint32_t j = 0; j < past; j++)
        vf_store_n(l->state + j * l->stride, input(l, l->rows + j, past), l->n);
}

static void convolve_group(const struct mtr_conv1d_args *args, uint32_t lane, uint32_t channel,
                           size_t n, vf *taps)
{
    const struct mtr_step_view *step = args->step;
    uint32_t first = (uint32_t)step->lane_rows[lane];
    size_t row = (size_t)first * args->channels + channel;
    size_t slot = (size_t)step->lane_slots[lane] * (args->taps - 1);
    const struct lane l = {.x = (const float *)args->x + row,
                           .y = (float *)args->y + row,
                           .state = args->state + slot * args->channels + channel,
                           .rows = (uint32_t)step->lane_rows[lane + 1] - first,
                           .stride = args->channels,
                           .n = n};
    convolve(args, &l, taps, args->bias ? vf_load_n(args->bias + channel, n) : vf_zero());
}

void MTR_HOST_FN(conv1d_f32)(const void *arguments, const struct mtr_host_block *block);
void MTR_HOST_FN(conv1d_f32)(const void *arguments, const struct mtr_host_block *block)
{
    const struct mtr_conv1d_args *args = arguments;
    uint32_t tiles = (args->channels + MTR_CONV1D_TILE - 1) / MTR_CONV1D_TILE;
    vf *taps = block->scratch;
    for (uint32_t t = block->x; t < tiles; t += block->grid_x) {
        uint32_t end = (t + 1) * MTR_CONV1D_TILE;
        end = end < args->channels ? end : args->channels;
        for (uint32_t c = t * MTR_CONV1D_TILE; c < end; c += 16) {
            size_t n = end - c < 16 ? end - c : 16;
            spread_taps(args, c, n, taps);
            for (uint32_t lane = block->y; lane < args->step->lanes; lane += block->grid_y)
                convolve_group(args, lane, c, n, taps);
        }
    }
}
