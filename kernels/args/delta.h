/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The gated delta rule (Yang, Kautz, Hatamizadeh: "Gated Delta Networks", 2024).
 *
 * delta_gate: decay and learning rate of each row and head, from two projections of it,
 *   decay = exp(-exp(a_log) * log(1 + exp(a + dt_bias))),   beta = 1 / (1 + exp(-b))
 *
 * delta_rule: each head has a matrix S [head_dim, value_dim], zero before the first token, that
 * maps keys to values. Token by token it forgets, learns what it said wrong about the token's key,
 * and answers the token's query: S *= decay,   S += k (beta * (v - k^T S))^T,   y = scale * q^T S
 * With eps >= 0 q and k are first divided by sqrt(sum of squares + eps). Several heads may share
 * the q and k of one key head.
 *
 * Numerics of the host's point: token after token, in prefill as in decode, so that a lane may be
 * cut anywhere; sums over head_dim in two accumulators, of the even and of the odd rows of S.
 *
 * Grid of delta_gate: rows; of delta_rule: (heads * tiles of MTR_DELTA_TILE values, lanes).
 */
#ifndef MTR_ARGS_DELTA_H
#define MTR_ARGS_DELTA_H

#include "kernels/args/step.h"

#define MTR_DELTA_TILE    64
#define MTR_DELTA_MAX_DIM 512 /* of keys: what a host kernel's scratch has room for */

struct mtr_delta_gate_args {
    const struct mtr_step_view *step;
    const void *a;        /* [tokens, heads] activations */
    const void *b;        /* [tokens, heads] activations */
    const float *a_log;   /* [heads] */
    const float *dt_bias; /* [heads] */
    float *decay;         /* [tokens, heads] f32 */
    float *beta;          /* [tokens, heads] f32 */
    uint32_t heads;
};

struct mtr_delta_rule_args {
    const struct mtr_step_view *step;
    const void *qkv;    /* [tokens, 2 * key_heads * head_dim + heads * value_dim] activations */
    const float *decay; /* [tokens, heads], or [tokens, heads, head_dim]: see decays */
    const float *beta;  /* [tokens, heads] */
    void *y;            /* [tokens, heads, value_dim] activations */
    float *state;       /* [slots, heads, head_dim, value_dim] */
    uint32_t heads, key_heads, head_dim, value_dim;
    uint32_t decays; /* of a head: 1, or one for each row of S */
    float scale;
    float eps; /* below 0: q and k stay as they are */
};

#endif
