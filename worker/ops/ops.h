/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a launch of the plan to a launch on the backend: one launcher for each kernel family.
 *
 * A launcher reads the launch's slots and parameters (the table in common/circuit/families.h says
 * which), fills the argument struct of kernels/args/<family>.h with addresses from the executor's
 * tables, and chooses the grid from the rows of the step and the tiles of the point. It is the same
 * code for every hardware class, and pure: what it does it does through the backend's table.
 *
 * Kernel handles are looked up once, by mtr_op_resolve(), so that a class that lacks a kernel is
 * found out while loading.
 */
#ifndef MTR_OPS_OPS_H
#define MTR_OPS_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/families.h"
#include "common/circuit/plan.h"
#include "kernels/args/step.h"
#include "worker/backend/backend.h"

/* Physical memory of one layer of a cache group, device addresses. */
struct mtr_op_cache {
    void *k; /* [blocks, kv_heads, block_tokens, head_dim] */
    void *v; /* the same, or NULL for latent caches */
    uint32_t blocks;
};

/* Where everything is, for the launches of one step. Tables belong to the executor. */
struct mtr_op_context {
    struct mtr_backend *backend;
    struct mtr_stream *stream;
    const struct mtr_plan *plan;
    const struct mtr_step_view *step;  /* device address */
    const int32_t *output_rows;        /* device address: view's output_rows */
    uint32_t rows[MTR_ROWS_COUNT];     /* of this step */
    void *const *buffers;              /* [plan->buffer_count] device addresses */
    void *const *weights;              /* [plan->weight_count] */
    const struct mtr_op_cache *caches; /* [plan->cache_count] */
    void *const *states;               /* [plan->state_count] */
    float *const *constants;           /* [plan->constant_count] */
    void *scratch;                     /* mtr_op_scratch_bytes of the neediest launch */
    uint32_t processors;               /* of the device */
};

struct mtr_resolved_op;
typedef bool (*mtr_launcher)(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                             struct mtr_error *err);

/* A launch that is ready to run. */
struct mtr_resolved_op {
    const struct mtr_launch *launch;
    struct mtr_kernel *kernels[MTR_POINT_SHAPES]; /* of its point's shapes; owned by the backend */
    mtr_launcher run;
};

/* Finds launcher and kernel, and checks that the launch has the slots and parameters that its
 * function needs, with indices inside the plan. MTR_UNSUPPORTED names the function that the class
 * lacks; MTR_INTERNAL names the slot that a plan builder forgot. */
bool mtr_op_resolve(struct mtr_resolved_op *op, struct mtr_backend *backend,
                    const struct mtr_plan *plan, const struct mtr_launch *launch,
                    struct mtr_error *err);

/* Working memory beside the step's buffers that a launch wants on the device, for any step within
 * the plan's limits. Launches of a step follow one another and share it. */
uint64_t mtr_op_scratch_bytes(const struct mtr_plan *plan, const struct mtr_launch *launch);

/* Launches it; nothing where the step has no rows for it. */
bool mtr_op_run(const struct mtr_op_context *c, const struct mtr_resolved_op *op,
                struct mtr_error *err);

/* Behind the last launch of a list: chooses a token for each output row from the plan's logits.
 * `argmax` is that function of module "sample"; tokens [outputs] and last_tokens [slots] are device
 * addresses. */
bool mtr_op_sample(const struct mtr_op_context *c, struct mtr_kernel *argmax, int32_t *tokens,
                   int32_t *last_tokens, struct mtr_error *err);

#endif
