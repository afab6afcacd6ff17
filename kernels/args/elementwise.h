/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small row-wise kernels that a fuser usually folds into a neighbour; kept as families of their own
 * so that every circuit has a plan on every class.
 *   add: y = a + b     glu: y = act(a) * b     activate: y = act(a)     scale: y = multiplier * a
 *   gather: y[r] = a[gather[r]]
 * Grid: rows.
 */
#ifndef MTR_ARGS_ELEMENTWISE_H
#define MTR_ARGS_ELEMENTWISE_H

#include "kernels/args/step.h"

struct mtr_elementwise_args {
    const struct mtr_step_view *step;
    const void *a;         /* [rows, cols] activations */
    const void *b;         /* [rows, cols] activations, or NULL */
    void *y;               /* [rows, cols] activations; may be a or b */
    const int32_t *gather; /* or NULL */
    uint32_t rows_kind;    /* enum mtr_rows */
    uint32_t cols;
    uint32_t activation; /* enum mtr_activation */
    float multiplier;
};

#endif
