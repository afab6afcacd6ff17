/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Matrix products. A block of the grid is a tile of at most MTR_LINEAR_TILE_N outputs by
 * MTR_LINEAR_TILE_ROWS rows, in three steps:
 *
 *   scales   of the tile's weight rows, converted together (dequant.h)
 *   sums     [rows, TILE_N], the bare products. Few rows: weights are decoded in registers and
 *            used at once for all rows (linear.c). Many: a panel of weight rows is decoded into the
 *            scratch, and a micro-kernel of MTR_TILE_W x MTR_TILE_X outputs runs over it
 *            (linear_panel.c). Both keep one accumulator of sixteen lanes an output and end in the
 *            same tree (host_kernel.h).
 *   epilogue multiplier, bias, then store, residual add or gated activation (linear_panel.c)
 *
 * linear.c is compiled once for each weight format (and instruction set), linear_panel.c once.
 */
#ifndef MTR_KERNELS_HOST_LINEAR_H
#define MTR_KERNELS_HOST_LINEAR_H

#include "kernels/args/linear.h"
#include "kernels/host/vec.h"

#define MTR_TILE_N    MTR_LINEAR_TILE_N
#define MTR_TILE_ROWS MTR_LINEAR_TILE_ROWS

/* What one block computes: weight rows [n0, n0 + n) of a part, activation rows [r0, r0 + rows). */
struct mtr_linear_tile {
    const struct mtr_linear_args *args;
    uint32_t part, n0, n, r0, rows;
    const uint32_t *scattered; /* [rows] the row of y of each; NULL: they begin at r0 */
};

/* sums[x * MTR_TILE_N + w] = panel row w [k, stride ws] . x row x [k, stride xs] */
void MTR_HOST_FN(linear_multiply)(const float *panel, size_t ws, uint32_t wn, const float *x,
                                  size_t xs, uint32_t rows, size_t k, float *sums);

/* From the sums of a tile (and of the other half of a GLU) to its outputs. */
void MTR_HOST_FN(linear_epilogue)(const struct mtr_linear_tile *t, const float *sums,
                                  const float *other);

#endif
