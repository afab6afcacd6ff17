/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small row-wise kernels that a fuser usually folds into a neighbour; kept as families of their own
 * so that every circuit has a plan on every class.
 *   add: y = a + b     glu: y = act(a) * b     activate: y = act(a)     scale: y = multiplier * a
 *   gather: y[r] = a[gather[r]]
 *   gate: y = a * act(b), where column j of b is for the j-th of b_cols equal parts of a's columns
 *   slice: of each of `runs` equal parts of a's columns those from `first` on, cols / runs of them
 *   concat: y = the columns of a, then of b, then of c
 * Grid: rows, or tiles of all elements (worker/ops/elementwise.c).
 */
#ifndef MTR_ARGS_ELEMENTWISE_H
#define MTR_ARGS_ELEMENTWISE_H

#include "kernels/args/step.h"

struct mtr_elementwise_args {
    const struct mtr_step_view *step;
    const void *a;           /* [rows, cols] activations */
    const void *b;           /* [rows, cols] activations, or NULL */
    const void *c;           /* concat: [rows, cols - a_cols - b_cols], or NULL */
    void *y;                 /* [rows, cols] activations; may be a or b */
    const int32_t *gather;   /* or NULL */
    uint32_t rows_kind;      /* enum mtr_rows */
    uint32_t cols;           /* of y */
    uint32_t a_cols, b_cols; /* gate, slice, concat: of a and b */
    uint32_t runs, first;    /* slice */
    uint32_t activation;     /* enum mtr_activation */
    float multiplier;
};

#endif
