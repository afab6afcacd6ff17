/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The selective state space of Mamba-2 (Dao, Gu: "Transformers are SSMs", 2024). Each head has a
 * matrix S [state_dim, head_dim], zero before the first token. A token brings x [head_dim] for the
 * head, B and C [state_dim] for the head's group, and a step width:
 *   dt = max(log(1 + exp(dt + dt_bias)), least),   S = exp(-exp(a_log) dt) S + B (dt x)^T,
 *   y = C^T S + d x
 *
 * Numerics of the host's point: token after token, in prefill as in decode, so that a lane may be
 * cut anywhere; sums over state_dim in two accumulators, of the even and of the odd rows of S.
 * Grid: (heads * tiles of MTR_SCAN_TILE columns, lanes).
 */
#ifndef MTR_ARGS_SCAN_H
#define MTR_ARGS_SCAN_H

#include "kernels/args/step.h"

#define MTR_SCAN_TILE        64
#define MTR_SCAN_PACKED_ROWS 1024 /* of S, that a host kernel's scratch takes */

struct mtr_scan_args {
    const struct mtr_step_view *step;
    const void *xbc;      /* [tokens, heads * head_dim + 2 * groups * state_dim] activations */
    const void *dt;       /* [tokens, heads] activations */
    const float *a_log;   /* [heads] */
    const float *d;       /* [heads] */
    const float *dt_bias; /* [heads] */
    void *y;              /* [tokens, heads, head_dim] activations */
    float *state;         /* [slots, heads, state_dim, head_dim] */
    uint32_t heads, head_dim, groups, state_dim;
    float least; /* of dt */
};

#endif
