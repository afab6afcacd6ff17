/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hardware classes as generated: their families and the fusion rules that use them.
 *
 * A rule is a pattern of operations joined by edge variables, and how the matched edges, weights
 * and numbers fill the slots of one launch (families.h). Variables that neither enter nor leave the
 * launch must not be read by anything else. An output variable may share the memory of an input one
 * ("alias"); the rule then applies only where nobody reads the input afterwards.
 *
 * Every rule says how its kernel relates to running the operations one by one:
 *   reference      it defines the numerics of this chain on the class
 *   bit_identical  the same bytes as the chain, proven by the named test
 *   differs        another numerics point, only where a policy asks for it
 */
#ifndef MTR_CIRCUIT_RULES_H
#define MTR_CIRCUIT_RULES_H

#include "common/circuit/families.h"
#include "common/circuit/ir.h"

enum mtr_tag { MTR_TAG_REFERENCE, MTR_TAG_BIT_IDENTICAL, MTR_TAG_DIFFERS, MTR_TAG_COUNT };

#define MTR_RULE_NODES 8
#define MTR_RULE_VARS  16

struct mtr_pattern_node {
    enum mtr_op op;
    const char *role; /* NULL: any */
    uint8_t in_count, out_count;
    uint8_t in[MTR_NODE_IN];   /* variables */
    uint8_t out[MTR_NODE_OUT]; /* variables */
};

struct mtr_rule_weight {
    uint8_t node, slot; /* of the pattern, of the node */
};

struct mtr_rule_set {
    enum mtr_param name;
    double value;
};

struct mtr_fusion_rule {
    const char *name;
    int priority; /* higher first; equal ones in the order of the file */
    enum mtr_tag tag;
    const char *proof; /* BIT_IDENTICAL: the test */
    uint32_t modes;    /* bit set of enum mtr_mode */
    const char *family;
    const char *function; /* the point's name before its policies: "linear" */
    uint8_t node_count, var_count;
    struct mtr_pattern_node nodes[MTR_RULE_NODES];
    uint8_t in_count, out_count, weight_count, set_count;
    uint8_t in[MTR_LAUNCH_IN], out[MTR_LAUNCH_OUT];
    uint8_t alias[MTR_LAUNCH_OUT]; /* variable whose memory the output takes, or 0xff */
    struct mtr_rule_weight weights[MTR_LAUNCH_WEIGHTS];
    struct mtr_rule_set sets[4];
};

const char *mtr_tag_name(enum mtr_tag tag);

/* Whether a point's function is `base` or `base` with policies behind: linear, linear_q4_1. */
bool mtr_point_is(const struct mtr_point *p, const char *base);

struct mtr_hardware {
    const char *name, *vendor, *arch;
    const char *parent;          /* or NULL */
    enum mtr_format activations; /* of edges */
    enum mtr_format vectors;     /* of norm weights and biases in device memory */
    enum mtr_format default_cache;
    uint32_t max_batch_size, max_prefill_tokens; /* of a server that is not told otherwise */
    uint32_t family_count, rule_count;
    const struct mtr_family *families;
    const struct mtr_fusion_rule *rules; /* by priority */
};

const struct mtr_hardware *mtr_hardware_classes(uint32_t *count);
const struct mtr_hardware *mtr_hardware_find(const char *name);

/* A named machine, for estimates. */
struct mtr_device {
    const char *name, *title;
    const char *hardware; /* class */
    double memory_bytes;
    double bandwidth;                                   /* bytes a second */
    double flops_f32, flops_bf16, flops_fp8, flops_fp4; /* dense, 0: not there */
    double reserve_bytes;                               /* left to the system */
    const char *source;                                 /* where the figures come from */
};

const struct mtr_device *mtr_devices(uint32_t *count);
const struct mtr_device *mtr_device_find(const char *name);

#endif
