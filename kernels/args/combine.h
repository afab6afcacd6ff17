/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a token's experts say, weighted: y[t] = sum over slots s of shares[t, s] * x[t * top_k + s],
 * in the order of the slots, by fma. Grid: rows.
 */
#ifndef MTR_ARGS_COMBINE_H
#define MTR_ARGS_COMBINE_H

#include "kernels/args/step.h"

struct mtr_combine_args {
    const struct mtr_step_view *step;
    const void *x;       /* [pairs, cols] activations */
    const float *shares; /* [tokens, top_k] */
    void *y;             /* [tokens, cols] activations */
    uint32_t cols, top_k;
};

#endif
