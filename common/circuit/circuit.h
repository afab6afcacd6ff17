/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Circuits as generated from kernels/circuits: what is the same for every checkpoint of a family.
 *
 * A circuit is blocks in order: `pre` once, the blocks of each layer's kind, `post` once. A block
 * is nodes wired by edge names; a name stands for whatever edge was last bound to it, so that "h"
 * flows through all blocks. A node whose `when` is false is not there; a node that may be absent
 * therefore writes the name that it reads.
 *
 * Weights are declared once, with their shape and their names in both kinds of checkpoint, which
 * get ".weight" or ".bias" behind unless `bare`. In a name
 *
 *   {M}   is the module path of the decoder: "model"
 *   {H}   what stands before its last part where that is "model": "" or "language_model."
 *   {L}   that of the layer: "model.layers.3"
 *   {l}   the layer's number
 *   {e}   an expert's: each matrix of the stack is a tensor of its own
 */
#ifndef MTR_CIRCUIT_CIRCUIT_H
#define MTR_CIRCUIT_CIRCUIT_H

#include "common/circuit/expr.h"
#include "common/circuit/ir.h"

struct mtr_edge_def {
    const char *name;
    enum mtr_rows rows;
    enum mtr_format format; /* MTR_FORMAT_COUNT: the class's activations */
    struct mtr_expr cols;
};

struct mtr_weight_def {
    const char *role; /* "attn_q" */
    const char *hf;
    const char *gguf;
    struct mtr_expr rows; /* text NULL: a vector */
    struct mtr_expr cols;
    struct mtr_expr stack; /* matrices one behind the other, one an expert; text NULL: one */
    bool bare;
};

/* What a slot of a node binds. */
struct mtr_binding_def {
    uint16_t weight; /* of the circuit's weights, or MTR_NONE: an absent optional slot */
    bool bias;       /* the vector of `rows` elements beside the matrix */
    struct mtr_expr when;
};

struct mtr_param_def {
    enum mtr_param name;
    struct mtr_expr value;
};

struct mtr_node_def {
    enum mtr_op op;
    const char *name;
    const char *role;
    struct mtr_expr when;
    uint8_t in_count, out_count, binding_count, param_count;
    uint16_t in[MTR_NODE_IN];   /* of the circuit's edges, or MTR_NONE */
    uint16_t out[MTR_NODE_OUT]; /* of the circuit's edges */
    struct mtr_binding_def bindings[MTR_NODE_WEIGHTS];
    struct mtr_param_def params[MTR_NODE_PARAMS];
    uint16_t memory; /* of the circuit's caches, states or tables, as the op's signature says */
};

struct mtr_block_def {
    const char *name;
    uint32_t node_count;
    const struct mtr_node_def *nodes;
};

struct mtr_cache_def {
    const char *name; /* "full" */
    enum mtr_cache_kind kind;
    struct mtr_expr kv_heads, head_dim, window;
};

struct mtr_state_def {
    const char *name;
    enum mtr_state_kind kind;
    struct mtr_expr bytes;
};

/* Inverse frequencies for rotary embedding, from symbols <prefix>theta, <prefix>type, ... */
struct mtr_table_def {
    const char *name;
    const char *prefix; /* "rope_" */
};

/* A symbol that means another one within a layer kind: heads = swa_heads. */
struct mtr_rename_def {
    uint16_t symbol;
    struct mtr_expr value;
};

/* A block of a layer, where its condition holds. */
struct mtr_kind_block {
    uint16_t block;
    struct mtr_expr when;
};

/* Conditions and renames may read the symbol `layer`, its number, and those that say whether a list
 * of layers has it ("members" of a config map). */
struct mtr_kind_def {
    const char *name; /* "full_attention" */
    uint32_t block_count, rename_count;
    const struct mtr_kind_block *blocks;
    const struct mtr_rename_def *renames;
};

struct mtr_circuit {
    const char *name;
    const char *title; /* for people */
    uint32_t edge_count, weight_count, block_count, kind_count, pre_count, post_count;
    uint32_t cache_count, state_count, table_count;
    const struct mtr_edge_def *edges;
    const struct mtr_weight_def *weights;
    const struct mtr_block_def *blocks;
    const struct mtr_kind_def *kinds;
    const uint16_t *pre, *post; /* blocks */
    const struct mtr_cache_def *caches;
    const struct mtr_state_def *states;
    const struct mtr_table_def *tables;
    const char *logits; /* the edge that the model is for */
};

const struct mtr_circuit *mtr_circuit_find(const char *name);
const struct mtr_circuit *mtr_circuits(uint32_t *count);

#endif
