/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* y[r] = multiplier * table[token_ids[r]]. Grid: rows. */
#ifndef MTR_ARGS_EMBED_H
#define MTR_ARGS_EMBED_H

#include "kernels/args/step.h"

struct mtr_embed_args {
    const struct mtr_step_view *step;
    const void *table; /* [vocab, cols] in the point's weight format */
    void *y;           /* [tokens, cols] activations */
    uint32_t cols;
    float multiplier;
};

#endif
