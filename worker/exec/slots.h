/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Slots: what the worker remembers of each sequence between steps.
 *
 *   tokens     the history by absolute position: [known, length) were sent or sampled. known > 0
 *              where the slot was opened on cached blocks without their history.
 *   computed   the caches hold positions [0, computed)
 *   tables     block ids by cache group, of which entries [from, to) are set; a group that keeps
 *              everything has from = 0. The host copy is the truth for checks, the device copy
 *              is what kernels read.
 *   sampling   parameters, with a copy of the bias
 *
 * Slots do not check: check.c has done so before anything here is called.
 */
#ifndef MTR_EXEC_SLOTS_H
#define MTR_EXEC_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/circuit/plan.h"
#include "common/wire/step.h"
#include "worker/backend/backend.h"

/* A run of table entries. */
struct mtr_span {
    uint32_t from, to;
};

struct mtr_slot {
    bool used;
    uint64_t sequence;
    uint32_t *tokens; /* [max_sequence_tokens + 1] */
    uint32_t known, length;
    uint32_t computed;
    struct mtr_span tables[MTR_MAX_GROUPS];
    struct mtr_sampling sampling; /* its arrays are the two below */
    uint32_t *bias_ids;
    float *bias_values;
    size_t bias_ids_cap, bias_values_cap;
};

struct mtr_slots {
    uint32_t count;
    uint32_t group_count;
    uint32_t sequence_tokens;        /* max_sequence_tokens */
    struct mtr_slot *slots;          /* [count] */
    uint32_t *tokens;                /* memory of all histories */
    int32_t *host[MTR_MAX_GROUPS];   /* [count, stride], pinned */
    void *device[MTR_MAX_GROUPS];    /* [count, stride] i32 */
    uint32_t stride[MTR_MAX_GROUPS]; /* entries of one slot's table */
};

bool mtr_slots_init(struct mtr_slots *s, struct mtr_backend *backend, const struct mtr_plan *plan,
                    uint32_t count, struct mtr_error *err);
void mtr_slots_free(struct mtr_slots *s, struct mtr_backend *backend);

/* The span after a change: an entry run that touches the old one extends it, another replaces it.
 */
struct mtr_span mtr_span_after(struct mtr_span old, const struct mtr_table_change *change);

/* Takes over what a lane says: open, history, tokens, tables (uploaded), sampling. */
bool mtr_slots_apply(struct mtr_slots *s, struct mtr_backend *backend, struct mtr_stream *stream,
                     const struct mtr_lane *lane, struct mtr_error *err);

/* After the step: positions below start + count are computed but for rejected drafts; `tokens`
 * follow position `last` of the last accepted row. */
void mtr_slots_finish(struct mtr_slots *s, const struct mtr_lane *lane, uint32_t accepted,
                      const uint32_t *tokens, uint32_t token_count);

#endif
