/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * y = x W^T + bias, for up to four weights that read the same x (q, k, v; gate, up; the experts'
 * shared inputs), then an epilogue:
 *   NONE      each weight's rows go to its own output
 *   ADD       out[0] += the product (residual); one weight
 *   GLU       out[0] = act(first) * second; two weights of equal rows
 *
 * Numerics: every output sums over K in an order that depends on K alone (the point states which),
 * never on the number of rows. out = multiplier * sum + bias, each rounded; then the epilogue.
 *
 * Weights with scales in tensors of their own (points linear_e4m3_<scaling>, linear_e2m1_group16):
 *   tensor   scale [1] f32
 *   channel  scale [n] f32
 *   block    scale [ceil(n / 128), ceil(k / 128)] f32, one for 128 x 128 weights
 *   group16  scale [n, k / 16] e4m3, one for 16 along k; global_scale multiplies them all
 * A weight is worth e4m3 * scale, or e2m1 * (scale * global_scale), each product rounded. Packed
 * e2m1 holds two weights a byte, the even index in the low nibble; k is a multiple of 16 there.
 *
 * Grid: (tiles of N, tiles of rows), the tiles of the parts one after the other, in a GLU those of
 * the first part; rows of the step and columns of y, where a kernel's source may speak of weight
 * rows and tokens. A persistent shape has no more blocks than processors take at once, side by
 * side, and each takes tile after tile. MTR_LINEAR_TILE_* are the host class's tiles, as its points
 * say.
 */
#ifndef MTR_ARGS_LINEAR_H
#define MTR_ARGS_LINEAR_H

#include "kernels/args/step.h"
#include "kernels/args/tensor_map.h"

#define MTR_LINEAR_PARTS     4
#define MTR_LINEAR_TILE_N    32
#define MTR_LINEAR_TILE_ROWS 128
#define MTR_LINEAR_MAX_K     61440 /* longest sum that a host kernel's scratch has room for */

enum mtr_epilogue { MTR_EPILOGUE_NONE, MTR_EPILOGUE_ADD, MTR_EPILOGUE_GLU };

struct mtr_linear_part {
    struct mtr_tensor_map map; /* of weight, unless repacked: boxes of half the shape's columns */
    const void *weight;        /* [n, k] in the point's weight format, or repacked */
    const void *scale;         /* by the point's scaling, or NULL: see above */
    const void *global_scale;  /* [1] f32, or NULL */
    const void *bias;          /* [n] f32, or NULL */
    void *y;                   /* [rows, n] activations, or f32 */
    uint32_t n;
    uint32_t y_stride; /* elements between rows of y */
};

struct mtr_linear_args {
    struct mtr_tensor_map x_map; /* of x: boxes of the shape's rows */
    const struct mtr_step_view *step;
    const void *x; /* [rows, k] activations, row stride x_stride elements */
    struct mtr_linear_part part[MTR_LINEAR_PARTS];
    uint32_t parts;
    uint32_t k;
    uint32_t x_stride;
    uint32_t rows_kind;  /* enum mtr_rows */
    uint32_t epilogue;   /* enum mtr_epilogue */
    uint32_t activation; /* enum mtr_activation, for GLU */
    float multiplier;    /* of the product, 1 for none */
    uint32_t y_f32;      /* y is f32 and not in the activations' format: logits */
};

#endif
