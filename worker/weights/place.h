/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where each weight of a plan will be: decided before anything is allocated, so that a budget and a
 * load can't differ.
 */
#ifndef MTR_WEIGHTS_PLACE_H
#define MTR_WEIGHTS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"
#include "common/circuit/plan.h"

#define MTR_WEIGHT_ALIGNMENT 256 /* of a copied weight */

enum mtr_place_kind {
    MTR_PLACE_MAPPED, /* used in the file */
    MTR_PLACE_COPIED, /* in the backend's memory */
    MTR_PLACE_SHARED, /* the same as an earlier weight */
};

/* One tensor of a stack. */
struct mtr_place_part {
    const void *src;
    uint32_t file;
};

struct mtr_place {
    enum mtr_place_kind kind;
    uint32_t shared;                    /* SHARED: the earlier weight */
    const void *src;                    /* its first row in the file; NULL for dummies */
    uint32_t file;                      /* of the checkpoint */
    const struct mtr_place_part *parts; /* [stack] where each matrix is a tensor, or NULL */
    uint64_t src_bytes;                 /* of all rows */
    bool readable;                      /* a kernel can read it where it stands in the file */
    const char *repack;                 /* function of module "repack", or NULL */
    uint32_t repack_rows, repack_cols;  /* units that it pads to; 0: it does not */
    uint64_t bytes;                     /* as the kernel reads it */
    uint64_t offset;                    /* COPIED: in the backend's memory */
};

struct mtr_placement {
    struct mtr_place *places; /* [plan->weight_count] */
    uint64_t mapped_bytes;
    uint64_t copied_bytes;  /* of weights */
    uint64_t memory_bytes;  /* the same with padding: what is allocated */
    uint64_t scratch_bytes; /* largest weight that must stand somewhere before it is repacked */
};

/* ck NULL: dummies. in_place: kernels can read mapped files. Needs a passed preflight. */
bool mtr_place_weights(struct mtr_arena *arena, const struct mtr_plan *plan,
                       const struct mtr_checkpoint *ck, bool in_place, struct mtr_placement *out,
                       struct mtr_error *err);

#endif
