/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From a LoadModel message to an executor that is ready: checkpoint, settings, plan, digest,
 * budget, weights, caches.
 *
 * The budget is computed before anything large is allocated: what the device has, less the reserve,
 * less weights, step buffers and tables, is for the cache. If the broker named a cache size, that
 * is what is needed instead. What does not fit is refused with the figures.
 */
#ifndef MTR_SESSION_LOAD_H
#define MTR_SESSION_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"
#include "common/circuit/plan.h"
#include "common/wire/plan.pb-c.h"
#include "worker/exec/exec.h"
#include "worker/weights/weights.h"

/* What memory the model takes, in bytes. */
struct mtr_budget {
    uint64_t device_total, device_free;
    uint64_t usable;         /* of the device, for this worker */
    uint64_t mapped, copied; /* weights */
    uint64_t fixed;          /* step buffers, tables, states */
    uint64_t cache;
    uint32_t group_blocks[MTR_MAX_GROUPS];
};

struct mtr_loaded {
    struct mtr_arena arena;
    struct mtr_checkpoint *checkpoint;
    struct mtr_plan *plan;
    struct mtr_weights weights;
    struct mtr_budget budget;
    struct mtr_exec *exec;
    uint32_t snapshots;
};

/* Told what is being done; false cancels. */
struct mtr_load_progress {
    bool (*report)(void *context, const char *phase, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
};

/* On failure nothing is left loaded. */
bool mtr_load_model(struct mtr_loaded *m, const Mtr__LoadModel *load, struct mtr_backend *backend,
                    const struct mtr_load_progress *progress, struct mtr_error *err);
void mtr_unload_model(struct mtr_loaded *m); /* fine on a zeroed struct */

#endif
