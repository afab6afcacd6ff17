/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The fuser: covers an instance's nodes with groups, each of which becomes one launch.
 *
 * Rules are tried by priority, and each from the first node to the last; a match that passes all
 * conditions takes its nodes. So the cover is greedy, deterministic, and every node is in exactly
 * one group, or the instance is refused with the name of the operation that no rule of the class
 * covers. Conditions of a match:
 *   - an edge made inside and not among the outputs is read inside only;
 *   - nobody outside reads an output before the group's last node;
 *   - an output that takes an input's memory: nobody reads that input at or after the last node;
 *   - all matrices have one format and one kind of scales, and the family has a point for them and
 *     for the cache's format;
 *   - numbers of the same name agree.
 */
#ifndef MTR_CIRCUIT_FUSER_H
#define MTR_CIRCUIT_FUSER_H

#include "common/base/arena.h"
#include "common/circuit/rules.h"

struct mtr_group {
    const struct mtr_fusion_rule *rule;
    const struct mtr_family *family;
    const struct mtr_point *point;
    uint16_t nodes[MTR_RULE_NODES]; /* by the pattern's order */
    uint16_t edges[MTR_RULE_VARS];  /* by variable */
    uint16_t last;                  /* its latest node: where it runs */
};

/* What runs in one mode, in order. */
struct mtr_cover {
    uint32_t count;
    struct mtr_group *groups;
};

bool mtr_fuse(struct mtr_arena *arena, const struct mtr_instance *in,
              const struct mtr_hardware *hardware, enum mtr_format cache, enum mtr_mode mode,
              struct mtr_cover *out, struct mtr_error *err);

/* The format in which the class's kernels read a matrix of the checkpoint: its own; where that has
 * no point, f32 for a plain one; else bf16, for what can be turned into it while it is loaded
 * (blocks that hold their own scales). False when `function` of the family reads none of these, or
 * not with such scales. */
bool mtr_kernel_format(const struct mtr_family *family, const char *function,
                       const struct mtr_instance_weight *weight, enum mtr_format *out);

const struct mtr_family *mtr_family_find(const struct mtr_hardware *hardware, const char *name);

#endif
