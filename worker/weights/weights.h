/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Weights of a plan in device memory.
 *
 *   checkpoint ─preflight─► each weight of the plan ─► placed, converted, repacked ─► address
 *
 * Where kernels read host memory (the host class) a weight whose format and layout in the file are
 * those that its kernel reads is used where it is mapped: loading it costs nothing, and a thread of
 * its own reads ahead, in the order in which a step needs the weights, so that the first token
 * waits for the disk and for nothing else; then it puts huge pages under the weights, where memory
 * allows. All others, and every weight on other classes, are copied into one allocation of the
 * backend: converted where plan->weights[i].kernel_format differs, then laid out by the point's
 * repack function where it has one.
 *
 * The checkpoint, the plan and the backend stay the caller's and must outlive the weights.
 */
#ifndef MTR_WEIGHTS_WEIGHTS_H
#define MTR_WEIGHTS_WEIGHTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"
#include "common/circuit/plan.h"
#include "worker/backend/backend.h"

struct mtr_readahead;

struct mtr_weights_options {
    struct mtr_backend *backend;
    const struct mtr_plan *plan;
    const struct mtr_checkpoint *checkpoint; /* NULL with `dummy` */

    /* Random weights of the plan's shapes and formats, the same for the same seed: for measuring
     * without a checkpoint. */
    bool dummy;
    uint64_t dummy_seed;

    /* Called on the loading thread every few megabytes and at the end: bytes copied so far, and of
     * all that are to be copied. NULL: nobody asks. Returning false cancels the load (MTR_BUSY). */
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
};

struct mtr_weights {
    void **device;         /* [plan->weight_count] addresses; tied weights share one */
    uint64_t total_bytes;  /* as kernels read them, shared ones once */
    uint64_t mapped_bytes; /* of these, used in place */
    uint64_t copied_bytes; /* of these, in `memory` */

    struct mtr_backend *backend;
    void *memory; /* of the backend, or NULL */
    struct mtr_readahead *readahead;
    struct mtr_arena arena;
};

/* Runs the preflight, then loads. On failure nothing is left allocated. Errors of the preflight as
 * in circuit/preflight.h; MTR_NO_MEMORY names the bytes that were wanted. */
bool mtr_weights_load(struct mtr_weights *w, const struct mtr_weights_options *options,
                      struct mtr_error *err);

/* Stops the read-ahead and frees. Fine on a zeroed struct. */
void mtr_weights_free(struct mtr_weights *w);

/* Bytes that mtr_weights_load() would take from the backend: for the budget, before loading.
 * `in_place`: the class reads mapped files (host). */
bool mtr_weights_bytes(const struct mtr_plan *plan, const struct mtr_checkpoint *ck, bool in_place,
                       uint64_t *mapped, uint64_t *copied, struct mtr_error *err);

/* Bytes that the read-ahead has brought into memory so far; all of mapped_bytes when it is done. */
uint64_t mtr_weights_resident(const struct mtr_weights *w);

#endif
