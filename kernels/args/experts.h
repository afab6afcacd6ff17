/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each token-expert pair through its expert's matrix: row p = t * top_k + s of y is row t (or row
 * p, x_pairs) of x times the matrix of expert chosen[p]. Sums and scales are those of linear.h, and
 * so is a gated unit's epilogue: a pair has the bits that linear would give it.
 *
 * Only the matrices of chosen experts are read, each once for all its pairs (or a tile of them).
 * Grid: (tiles of N, y): y counts experts; or pairs, where by_pair is set, because there are fewer:
 * the first pair of an expert stands for all of them.
 */
#ifndef MTR_ARGS_EXPERTS_H
#define MTR_ARGS_EXPERTS_H

#include "kernels/args/linear.h"

struct mtr_experts_args {
    struct mtr_linear_args linear; /* parts as of expert 0; rows_kind is PAIRS; no ADD, no bias */
    const int32_t *chosen;         /* [tokens, top_k] */
    uint32_t experts, top_k;
    uint32_t x_pairs, by_pair;
    /* From an expert's matrix, scales and global scale to the next one's, of all parts. */
    uint64_t weight_bytes, scale_bytes, global_bytes;
};

#endif
