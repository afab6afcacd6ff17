/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * (unit_offset + weight). With `residual`: first
 * residual[r] += x[r], rounded to the activation format, then the norm of that sum.
 * (Zhang, Sennrich: "Root Mean Square Layer Normalization", 2019.) Grid: rows.
 */
#ifndef MTR_ARGS_RMS_NORM_H
#define MTR_ARGS_RMS_NORM_H

#include "kernels/args/step.h"

struct mtr_rms_norm_args {
    const struct mtr_step_view *step;
    const void *x;         /* [rows, cols] activations */
    void *residual;        /* [rows, cols] activations, or NULL */
    const void *weight;    /* [cols] in the point's weight format */
    void *y;               /* [rows, cols] activations */
    const int32_t *gather; /* row r of y comes from row gather[r] of x (and residual), or NULL */
    uint32_t rows_kind;    /* enum mtr_rows: which count of the step bounds r */
    uint32_t cols;
    float eps;
    float unit_offset; /* 0 or 1 */
};

/*
 * gated_norm: y = x / sqrt(mean(x^2) + eps) * weight * act(gate), for each head of the row by
 * itself; with gate_first, x * act(gate) stands in the place of x and no gate behind. Grid: rows.
 */
struct mtr_gated_norm_args {
    const struct mtr_step_view *step;
    const void *x;      /* [tokens, heads, head_dim] activations */
    const void *gate;   /* the same shape */
    const void *weight; /* [head_dim], or [heads, head_dim]: wide */
    void *y;            /* as x; may be x */
    uint32_t heads, head_dim;
    uint32_t wide, gate_first;
    uint32_t activation; /* enum mtr_activation */
    float eps;
};

#endif
