/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Device memory of an executor: the arena of a step's buffers, the physical caches, recurrent
 * states, constants, what launches need beside.
 *
 *   arena   one allocation; a buffer's address is its offset in it
 *   caches  one allocation a layer: K of all blocks, then V of all blocks
 *   states  one allocation a recurrent layer: [slots + snapshots, slot_bytes]
 */
#ifndef MTR_EXEC_MEMORY_H
#define MTR_EXEC_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/plan.h"
#include "common/wire/step.h"
#include "worker/backend/backend.h"
#include "worker/ops/ops.h"

struct mtr_exec_memory {
    const struct mtr_plan *plan;
    struct mtr_backend *backend;
    uint32_t group_blocks[MTR_MAX_GROUPS];
    uint32_t slots, snapshots;
    void *arena;
    void *scratch;   /* of the launches, one after the other; NULL where none needs it */
    int32_t *chosen; /* [max_step_outputs] tokens that the device has chosen */
    void **buffers;  /* [plan->buffer_count] into the arena */
    struct mtr_op_cache *caches; /* [plan->cache_count] */
    void **states;               /* [plan->state_count] */
    float **constants;           /* [plan->constant_count] */
};

bool mtr_exec_memory_init(struct mtr_exec_memory *m, struct mtr_backend *backend,
                          const struct mtr_plan *plan, const uint32_t *group_blocks, uint32_t slots,
                          uint32_t snapshots, struct mtr_error *err);
void mtr_exec_memory_free(struct mtr_exec_memory *m);

/* Bytes of scratch for the neediest launch of a plan. */
uint64_t mtr_exec_scratch_bytes(const struct mtr_plan *plan);

/* Runs an effect that check.c has passed. */
bool mtr_exec_effect(struct mtr_exec_memory *m, struct mtr_stream *stream,
                     const struct mtr_effect *effect, struct mtr_error *err);

#endif
