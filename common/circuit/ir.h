/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The intermediate representation: what a model computes, as operations joined by edges, before
 * anyone decides which kernel runs what.
 *
 *   circuit tables ─instantiate─► struct mtr_instance ─fuser─► launches
 *
 * An edge is one matrix of a step, rows x cols x format. Rows are symbolic (plan.h); cols are
 * numbers by now. Every edge is written by one node and never again (single assignment): memory is
 * shared later, by the planner. A node is one operation of the closed vocabulary below: it reads
 * edges, weights and numbers, and writes edges or memory that outlives the step.
 *
 * The vocabulary is the same for every family. An operation states what is computed, never how; its
 * row in the signature table (ir.c) names its inputs, outputs, weights, numbers and memory in
 * order. scripts/gen_tables.py reads that table and checks every circuit and every fusion rule
 * against it.
 */
#ifndef MTR_CIRCUIT_IR_H
#define MTR_CIRCUIT_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/str.h"
#include "common/circuit/plan.h"
#include "common/numeric/format.h"

enum mtr_op {
    /* Rows in and out. */
    MTR_OP_EMBED,       /* row of a table for each token id */
    MTR_OP_NGRAM_EMBED, /* row of a table for a hash of the last n token ids */
    MTR_OP_GATHER,      /* rows whose logits are wanted */
    MTR_OP_CONCAT,      /* columns of a, then of b, then of c */
    MTR_OP_SLICE,       /* a run of columns, of the row or of each of `heads` equal parts of it */

    /* Norms. */
    MTR_OP_NORM,       /* RMS over the row */
    MTR_OP_HEAD_NORM,  /* RMS over each head of the row */
    MTR_OP_GATED_NORM, /* RMS over each head of the row, times act(gate) behind it or before; the
                          weight has a head's columns, or all */
    MTR_OP_L2_NORM,    /* each head to length 1 */

    /* Matrices and element-wise. */
    MTR_OP_LINEAR,      /* x W^T + b, of a role */
    MTR_OP_HEAD_LINEAR, /* the same with a matrix a head: output groups */
    MTR_OP_ADD,         /* a + b: the residual stream */
    MTR_OP_MUL,         /* a * b, b by column, head or row */
    MTR_OP_SCALE,       /* multiplier * a */
    MTR_OP_GLU,         /* act(gate) * up, possibly clamped; gate alone: its halves */
    MTR_OP_ACTIVATE,    /* act(a) */
    MTR_OP_GATE,        /* a * act(gate), a column of the gate for each equal part of a's */
    MTR_OP_SOFTCAP,     /* c tanh(a / c) */
    MTR_OP_ACT_QUANT,   /* activations to 8 or 4 bits with their scales */

    /* Attention. */
    MTR_OP_ROTARY,           /* cosines and sines of the positions, once a step */
    MTR_OP_ROPE,             /* rotate heads by that table */
    MTR_OP_KV_APPEND,        /* keys and values into the cache */
    MTR_OP_ATTENTION,        /* causal, full or windowed, with sinks and soft cap */
    MTR_OP_LATENT_QUERY,     /* queries through the key half of each head's matrix, and rotated */
    MTR_OP_LATENT_APPEND,    /* a latent, normalized, and the key that all heads share, rotated */
    MTR_OP_LATENT_ATTENTION, /* multi-head latent attention: one cache entry for all heads */
    MTR_OP_LATENT_VALUE,     /* what it found through the value half of each head's matrix */
    MTR_OP_INDEX_APPEND,
    MTR_OP_INDEX_SELECT,     /* the indexer's choice of positions for each row */
    MTR_OP_SPARSE_ATTENTION, /* over chosen positions */
    MTR_OP_COMPRESS_APPEND,  /* runs of tokens pooled into one cache entry */

    /* Recurrent mixers. */
    MTR_OP_CONV1D,     /* short causal convolution along time */
    MTR_OP_DELTA_GATE, /* decay and learning rate of the delta rule */
    MTR_OP_DELTA_RULE, /* gated delta rule over [q | k | v], decay by head or by channel; with eps,
                          q and k are first brought to length 1 */
    MTR_OP_SCAN,       /* selective state space (Mamba-2) over [x | B | C]; clamp: the least step */

    /* Mixture of experts. */
    MTR_OP_ROUTE,         /* scores to top-k experts and their weights */
    MTR_OP_HASH_ROUTE,    /* experts by token id */
    MTR_OP_EXPERT_LINEAR, /* each token-expert pair through its expert's matrix */
    MTR_OP_COMBINE,       /* pairs back to tokens, weighted, in slot order */

    /* Several residual streams (hyper-connections). */
    MTR_OP_STREAMS_SPLIT, /* one stream to many */
    MTR_OP_STREAMS_READ,  /* mix of the streams that enters a block */
    MTR_OP_STREAMS_WRITE, /* block's output added back, streams mixed */
    MTR_OP_STREAMS_MERGE, /* many streams to one */

    /* Between ranks. */
    MTR_OP_ALL_REDUCE,
    MTR_OP_ALL_GATHER,
    MTR_OP_COUNT,
};

/* What rows an operation's outputs have, given its first input's. */
enum mtr_row_rule {
    MTR_ROW_SOURCE, /* tokens, from nothing */
    MTR_ROW_SAME,   /* as the first input */
    MTR_ROW_GATHER, /* tokens to outputs */
    MTR_ROW_EXPAND, /* tokens to pairs */
    MTR_ROW_REDUCE, /* pairs to tokens */
};

/* Memory beyond the step that an operation touches. */
enum mtr_memory { MTR_MEM_NONE, MTR_MEM_CACHE, MTR_MEM_STATE, MTR_MEM_CONSTANT };

/* Lists are words separated by spaces, in the order of a node's arrays; "word?" may be absent. */
struct mtr_op_info {
    const char *name;
    const char *inputs;
    const char *outputs;
    const char *weights;
    const char *params; /* of enum mtr_param, in lower case */
    enum mtr_row_rule rows;
    enum mtr_memory memory;
};

const struct mtr_op_info *mtr_op_info(enum mtr_op op);

#define MTR_NODE_IN      4
#define MTR_NODE_OUT     3
#define MTR_NODE_WEIGHTS 4
#define MTR_NODE_PARAMS  8

/* Bound of an instance's nodes, edges and weights each, far above any model: all indices stay below
 * MTR_NONE, and hostile numbers cost no memory. Config maps bound layers and dimensions. */
#define MTR_MAX_NODES 60000

struct mtr_edge {
    const char *name; /* "L3.q" */
    enum mtr_rows rows;
    uint32_t cols;
    enum mtr_format format;
};

/* How the scales of a quantized matrix stand beside it. */
enum mtr_scaling {
    MTR_SCALING_NONE,    /* plain, or inside the format's blocks */
    MTR_SCALING_TENSOR,  /* one number */
    MTR_SCALING_CHANNEL, /* one a row */
    MTR_SCALING_BLOCK,   /* one a 128 x 128 block */
    MTR_SCALING_GROUP16, /* E4M3 for 16 along K, and one number a tensor (NVFP4) */
    MTR_SCALING_GROUP32, /* E8M0 for 32 along K (MXFP4) */
    MTR_SCALING_COUNT,
};

const char *mtr_scaling_name(enum mtr_scaling s);

/* A tensor that a node binds. */
struct mtr_instance_weight {
    const char *name;    /* with "{e}" where `apart` */
    uint64_t rows, cols; /* rows 1 for vectors */
    uint32_t stack;      /* matrices of that shape, one an expert; else 1 */
    bool apart;          /* each of them is a tensor of its own */
    enum mtr_format format;
    bool vector;
    enum mtr_scaling scaling;
    const char *scale_name;  /* or NULL */
    const char *global_name; /* or NULL */
    enum mtr_format scale_format, global_format;
    uint64_t scale_rows, scale_cols;
    bool global_divides; /* compressed-tensors: the second level is divided by */
};

struct mtr_node {
    enum mtr_op op;
    const char *name; /* "L3.attn_q", unique */
    const char *role; /* "q", "gate", ... or NULL */
    uint16_t layer;   /* MTR_NONE outside layers */
    uint8_t in_count, out_count, weight_count, param_count;
    uint16_t in[MTR_NODE_IN];           /* edges; MTR_NONE for an absent optional one */
    uint16_t out[MTR_NODE_OUT];         /* edges */
    uint16_t weights[MTR_NODE_WEIGHTS]; /* of the instance, or MTR_NONE */
    struct mtr_launch_param params[MTR_NODE_PARAMS];
    uint16_t cache; /* of the instance's caches, or MTR_NONE */
    uint16_t state;
    uint16_t constant;
};

/* A circuit at one shape. Everything lives in the arena that it was made in. */
struct mtr_instance {
    const char *circuit;
    uint32_t layers, vocab, hidden, context;
    uint32_t node_count, edge_count, weight_count;
    struct mtr_node *nodes; /* in execution order */
    struct mtr_edge *edges;
    struct mtr_instance_weight *weights;
    uint16_t logits; /* edge */

    uint32_t group_count, cache_count, state_count, constant_count;
    struct mtr_cache_group *groups;
    struct mtr_plan_cache *caches;
    struct mtr_plan_state *states;
    struct mtr_plan_constant *constants;
};

#endif
