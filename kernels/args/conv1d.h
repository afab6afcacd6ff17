/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Short causal convolution of each channel along a sequence's tokens, then an activation:
 *   y[t, c] = act(bias[c] + sum over j < taps of weight[c, j] * x[t - (taps - 1) + j, c])
 * Inputs before a lane's first row stand in the state of the lane's slot, which the launch leaves
 * with the last taps - 1 inputs: a sequence may be cut anywhere.
 *
 * Numerics: taps are summed in order. Grid: (tiles of MTR_CONV1D_TILE channels, lanes).
 */
#ifndef MTR_ARGS_CONV1D_H
#define MTR_ARGS_CONV1D_H

#include "kernels/args/step.h"

#define MTR_CONV1D_TILE     256
#define MTR_CONV1D_MAX_TAPS 16 /* that a kernel's working memory has room for */

struct mtr_conv1d_args {
    const struct mtr_step_view *step;
    const void *x;       /* [tokens, channels] activations */
    const float *weight; /* [channels, taps] */
    const float *bias;   /* [channels] or NULL */
    void *y;             /* [tokens, channels] activations; not x */
    float *state;        /* [slots, taps - 1, channels], the oldest first */
    uint32_t channels, taps;
    uint32_t activation; /* enum mtr_activation */
};

#endif
