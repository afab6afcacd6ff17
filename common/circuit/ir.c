/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The signature table. One row an operation:
 *   name, inputs, outputs, weights, params, rows, memory
 * scripts/gen_tables.py parses these rows as text, so keep to one string a column.
 */
#include "common/circuit/ir.h"

#include <stddef.h>

static const struct mtr_op_info ops[MTR_OP_COUNT] = {
    [MTR_OP_EMBED] = {"embed", "", "y", "weight", "multiplier?", MTR_ROW_SOURCE, MTR_MEM_NONE},
    [MTR_OP_NGRAM_EMBED] = {"ngram_embed", "", "y", "weight", "top_k", MTR_ROW_SOURCE,
                            MTR_MEM_NONE},
    [MTR_OP_GATHER] = {"gather", "x", "y", "", "", MTR_ROW_GATHER, MTR_MEM_NONE},
    [MTR_OP_CONCAT] = {"concat", "a b c?", "y", "", "", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_SLICE] = {"slice", "x", "y", "", "first heads?", MTR_ROW_SAME, MTR_MEM_NONE},

    [MTR_OP_NORM] = {"norm", "x", "y", "weight", "eps unit_offset?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_HEAD_NORM] = {"head_norm", "x", "y", "weight?",
                          "heads? kv_heads? head_dim eps unit_offset?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_GATED_NORM] = {"gated_norm", "x gate", "y", "weight",
                           "heads head_dim eps activation gate_first?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_L2_NORM] = {"l2_norm", "x", "y", "", "heads head_dim eps", MTR_ROW_SAME, MTR_MEM_NONE},

    [MTR_OP_LINEAR] = {"linear", "x", "y", "weight bias?", "multiplier?", MTR_ROW_SAME,
                       MTR_MEM_NONE},
    [MTR_OP_HEAD_LINEAR] = {"head_linear", "x", "y", "weight", "heads", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_ADD] = {"add", "a b", "y", "", "multiplier?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_MUL] = {"mul", "a b", "y", "", "heads?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_SCALE] = {"scale", "a", "y", "weight?", "multiplier?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_GLU] = {"glu", "gate up?", "y", "", "activation clamp?", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_ACTIVATE] = {"activate", "a", "y", "", "activation", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_GATE] = {"gate", "a gate", "y", "", "activation", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_SOFTCAP] = {"softcap", "a", "y", "", "softcap", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_ACT_QUANT] = {"act_quant", "a", "y scale", "", "", MTR_ROW_SAME, MTR_MEM_NONE},

    [MTR_OP_ROTARY] = {"rotary", "", "table", "factors?", "rotary_dim rope_scale", MTR_ROW_SOURCE,
                       MTR_MEM_CONSTANT},
    [MTR_OP_ROPE] = {"rope", "x table", "y", "", "heads? kv_heads? head_dim rotary_dim interleaved",
                     MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_KV_APPEND] = {"kv_append", "k v", "", "", "kv_heads head_dim", MTR_ROW_SAME,
                          MTR_MEM_CACHE},
    [MTR_OP_ATTENTION] = {"attention", "q", "y", "sinks?",
                          "heads kv_heads head_dim attn_scale window? softcap?", MTR_ROW_SAME,
                          MTR_MEM_CACHE},
    [MTR_OP_LATENT_QUERY] = {"latent_query", "q table", "y", "weight",
                             "heads value_dim rotary_dim interleaved query_beta? query_length?",
                             MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_LATENT_APPEND] = {"latent_append", "kv table", "", "weight",
                              "rotary_dim interleaved eps unit_offset?", MTR_ROW_SAME,
                              MTR_MEM_CACHE},
    [MTR_OP_LATENT_ATTENTION] = {"latent_attention", "q chosen?", "y", "",
                                 "heads head_dim attn_scale window?", MTR_ROW_SAME, MTR_MEM_CACHE},
    [MTR_OP_LATENT_VALUE] = {"latent_value", "x", "y", "weight", "heads value_dim", MTR_ROW_SAME,
                             MTR_MEM_NONE},
    [MTR_OP_INDEX_APPEND] = {"index_append", "k", "", "", "head_dim stride?", MTR_ROW_SAME,
                             MTR_MEM_CACHE},
    [MTR_OP_INDEX_SELECT] = {"index_select", "q weights", "chosen", "", "heads head_dim top_k",
                             MTR_ROW_SAME, MTR_MEM_CACHE},
    [MTR_OP_SPARSE_ATTENTION] = {"sparse_attention", "q chosen", "y", "sinks?",
                                 "heads kv_heads head_dim attn_scale window?", MTR_ROW_SAME,
                                 MTR_MEM_CACHE},
    [MTR_OP_COMPRESS_APPEND] = {"compress_append", "kv gate", "", "position?", "head_dim stride",
                                MTR_ROW_SAME, MTR_MEM_CACHE},

    [MTR_OP_CONV1D] = {"conv1d", "x", "y", "weight bias?", "kernel activation", MTR_ROW_SAME,
                       MTR_MEM_STATE},
    [MTR_OP_DELTA_GATE] = {"delta_gate", "a b?", "decay beta", "a_log dt_bias", "heads clamp?",
                           MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_DELTA_RULE] = {"delta_rule", "qkv decay beta", "y", "",
                           "heads kv_heads head_dim value_dim attn_scale eps?", MTR_ROW_SAME,
                           MTR_MEM_STATE},
    [MTR_OP_SCAN] = {"scan", "xbc dt", "y", "a_log d dt_bias",
                     "heads head_dim groups state_dim clamp?", MTR_ROW_SAME, MTR_MEM_STATE},

    [MTR_OP_ROUTE] = {"route", "logits", "experts scales", "bias?",
                      "experts top_k scoring renormalize multiplier? groups? top_groups?",
                      MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_HASH_ROUTE] = {"hash_route", "", "experts scales", "table", "experts top_k",
                           MTR_ROW_SOURCE, MTR_MEM_NONE},
    [MTR_OP_EXPERT_LINEAR] = {"expert_linear", "x experts", "y", "weight", "experts top_k",
                              MTR_ROW_EXPAND, MTR_MEM_NONE},
    [MTR_OP_COMBINE] = {"combine", "x scales skip?", "y", "", "top_k experts?", MTR_ROW_REDUCE,
                        MTR_MEM_NONE},

    [MTR_OP_STREAMS_SPLIT] = {"streams_split", "x", "s", "", "streams", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_STREAMS_READ] = {"streams_read", "s", "x mix", "fn base scale",
                             "streams iterations eps", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_STREAMS_WRITE] = {"streams_write", "s x mix", "t", "", "streams", MTR_ROW_SAME,
                              MTR_MEM_NONE},
    [MTR_OP_STREAMS_MERGE] = {"streams_merge", "s", "x", "fn base scale", "streams eps",
                              MTR_ROW_SAME, MTR_MEM_NONE},

    [MTR_OP_ALL_REDUCE] = {"all_reduce", "x", "y", "", "", MTR_ROW_SAME, MTR_MEM_NONE},
    [MTR_OP_ALL_GATHER] = {"all_gather", "x", "y", "", "", MTR_ROW_SAME, MTR_MEM_NONE},
};

static const char *const scaling_names[MTR_SCALING_COUNT] = {
    [MTR_SCALING_NONE] = "none",       [MTR_SCALING_TENSOR] = "tensor",
    [MTR_SCALING_CHANNEL] = "channel", [MTR_SCALING_BLOCK] = "block",
    [MTR_SCALING_GROUP16] = "group16", [MTR_SCALING_GROUP32] = "group32",
};

const struct mtr_op_info *mtr_op_info(enum mtr_op op)
{
    return (unsigned)op < MTR_OP_COUNT ? &ops[op] : NULL;
}

const char *mtr_scaling_name(enum mtr_scaling s)
{
    return (unsigned)s < MTR_SCALING_COUNT ? scaling_names[s] : "?";
}
