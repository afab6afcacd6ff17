/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel families and their points: what a hardware class can launch.
 *
 * A family is one algorithm: one module, one argument struct (kernels/args/<family>.h), one
 * launcher (worker/ops/<family>.c). A point is one instantiation of it: one function of that
 * module. The tables are generated at build time from kernels/<class>/common/KERNEL_FAMILIES.toml.
 *
 * Names. Module = family. Function = family, then the policies that tell its points apart:
 *   embed_<weight>           linear_<weight>            rms_norm    rotary
 *   rope_append_<cache>      attention_<cache>          add  glu  activate  scale  gather
 *   gate  slice  concat      gated_norm                 conv1d_<weight>  delta_gate  delta_rule
 *   scan                     route   combine            experts_<weight>
 *   latent_query_<weight>    latent_append_<cache>      latent_attention_<cache>
 *   latent_value_<weight>
 * (rotary and rope_append are points of module "rope", gated_norm of "rms_norm", delta_gate and
 * delta_rule of "delta", add to concat of "elementwise", latent_attention of "attention", the
 * other latent ones of "latent")
 * with <weight> and <cache> the names of common/numeric/format.h: linear_q4_1, attention_bf16.
 * Where the scales of a matrix stand in tensors of their own, how they do is a policy too, behind
 * the weight's (mtr_scaling_name() of ir.h): linear_e4m3_block, linear_e2m1_group16.
 *
 * Slots of a launch (struct mtr_launch), by function; a slot in brackets may be MTR_NONE or missing
 * at the end. What plan builders fill in and launchers read is this and nothing else.
 *
 *   function     in                  out              weights           also, and parameters
 *   embed        -                   y                table             [MULTIPLIER 1]
 *   rms_norm     x [residual]        y [residual]     weight            EPS [UNIT_OFFSET 0]
 *   linear       x                   y of each part   2i: W of part i   [EPILOGUE NONE]
 *                                                     [2i+1: bias]      [ACTIVATION] [MULTIPLIER 1]
 *   rotary       -                   table            [factors]         constant: inverse
 *                                                                       frequencies [ROPE_SCALE 1]
 *   rope_append  q k v [table]       q                [q norm, k norm]  cache; HEADS KV_HEADS
 *                                                                       HEAD_DIM
 *                                                                       [ROTARY_DIM HEAD_DIM]
 *                                                                       [INTERLEAVED 0] [EPS]
 *                                                                       [UNIT_OFFSET 0]
 *   attention    q                   y                [sinks]           cache; HEADS KV_HEADS
 *                                                                       HEAD_DIM ATTN_SCALE
 *                                                                       [WINDOW 0] [SOFTCAP 0]
 *   latent_query     q table         y                W                 HEADS VALUE_DIM ROTARY_DIM
 *                                                                       [INTERLEAVED 0]
 *                                                                       [QUERY_BETA 0]
 *                                                                       [QUERY_LENGTH 1]
 *   latent_append    kv table        -                norm              cache; ROTARY_DIM EPS
 *                                                                       [INTERLEAVED 0]
 *                                                                       [UNIT_OFFSET 0]
 *   latent_attention q               y                -                 cache; HEADS HEAD_DIM (of
 *                                                                       an entry) ATTN_SCALE
 *                                                                       [WINDOW 0]
 *   latent_value     x               y                W                 HEADS VALUE_DIM
 *   add          a b                 y                -                 -
 *   glu          a b                 y                -                 ACTIVATION
 *   activate     a                   y                -                 ACTIVATION
 *   scale        a                   y                -                 MULTIPLIER
 *   gather       a [tokens]          y [outputs]      -                 -
 *   gate         a gate              y                -                 ACTIVATION
 *   slice        a                   y                -                 FIRST [HEADS 1]
 *   concat       a b [c]             y                -                 -
 *   gated_norm   x gate              y                weight            HEADS HEAD_DIM EPS
 *                                                                       ACTIVATION [GATE_FIRST 0]
 *   conv1d       x                   y                W [bias]          state; ACTIVATION
 *   delta_gate   a b                 decay beta       a_log dt_bias     -
 *   delta_rule   qkv decay beta      y                -                 state; HEADS KV_HEADS
 *                                                                       HEAD_DIM VALUE_DIM
 *                                                                       ATTN_SCALE [EPS -1]
 *   scan         xbc dt              y                a_log d dt_bias   state; HEADS HEAD_DIM
 *                                                                       GROUPS STATE_DIM [CLAMP 0]
 *   route        logits              chosen shares    [bias]            EXPERTS TOP_K SCORING
 *                                                                       RENORMALIZE [MULTIPLIER 1]
 *                                                                       [GROUPS 1] [TOP_GROUPS 1]
 *   experts      x chosen            y [pairs]        W [W of up]       EXPERTS TOP_K
 *                                                                       [EPILOGUE NONE]
 *                                                                       [ACTIVATION]
 *   combine      x [pairs] shares    y                -                 TOP_K
 *
 * In experts, EPILOGUE GLU with one weight: its matrices hold the gate's rows, then those of up. In
 * linear, EPILOGUE ADD adds to out[0], which holds the residual; GLU has two weights (gate, up)
 * and one output. rms_norm gathers when its launch has rows OUTPUTS and x has rows TOKENS. Rows of
 * all buffers but x and y of linear are dense: row_bytes = columns x element size.
 */
#ifndef MTR_CIRCUIT_FAMILIES_H
#define MTR_CIRCUIT_FAMILIES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/circuit/ir.h"
#include "common/numeric/format.h"

/* One compiled form of a point. All forms of a point give a row the same bits: they differ in how
 * much of the output one block of the grid covers. */
struct mtr_point_shape {
    const char *function;  /* the point's name, with "_r<rows>" behind where there are several; the
                            * next ones of as many rows have "b", "c" behind that */
    uint32_t rows, cols;   /* that one block covers; 0: the launcher takes 1 row, all columns */
    uint32_t glu_cols;     /* of a gated unit, where they are fewer; 0: cols */
    uint32_t persistent;   /* not 0: a block takes tile after tile, and so many have a processor */
    uint32_t fill;         /* tiles that it wants for 100 processors; else the one before runs */
    uint32_t threads;      /* of a block; the host class has no use for it */
    uint32_t shared_bytes; /* dynamic shared memory of a block */
};

#define MTR_POINT_SHAPES 8

struct mtr_point {
    const char *function;
    enum mtr_format weight;      /* weight policy, or MTR_FORMAT_COUNT when the family has none */
    enum mtr_scaling scaling;    /* of that weight: where its scales stand */
    enum mtr_format cache;       /* cache policy, or MTR_FORMAT_COUNT */
    uint32_t min_rows, max_rows; /* that one launch covers; 0: no bound */
    const char *numerics;        /* how it sums, in words that the plan's digest includes */
    bool by_default;             /* false: only when a named policy asks for it */
    uint32_t shape_count;
    struct mtr_point_shape shapes[MTR_POINT_SHAPES]; /* by rows, the smallest first */
    /* What its working memory has room for; 0: any. */
    uint32_t max_k; /* columns of a matrix */
    uint32_t max_head_dim;
    uint32_t max_group; /* query heads of one kv head */
    /* A function of module "repack" (kernels/args/repack.h) that lays a matrix of `weight` out for
     * this point when it is loaded; NULL: it is read as it stands in the file. Rows and columns are
     * then padded to multiples of repack_rows and repack_cols (0: not padded). */
    const char *repack;
    uint32_t repack_rows, repack_cols;
    const char *repack_scales; /* the same for its scales by group of 16 columns */
};

static inline uint64_t mtr_padded(uint64_t n, uint32_t unit)
{
    return unit > 1 ? (n + unit - 1) / unit * unit : n;
}

struct mtr_family {
    const char *name;    /* = module */
    const char *compute; /* "cpu", "cuda core", "tensor core", "memory" */
    uint32_t point_count;
    const struct mtr_point *points; /* [point_count] */
};

#endif
