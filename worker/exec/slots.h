/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Slots: what the worker remembers of each sequence between steps.
 *
 *   tokens     the history by absolute position: [known, length) were sent or sampled. known > 0
 *              where the slot was opened on cached blocks without their history.
 *   pending    so many at the end of the history were chosen by a step that has not finished: their
 *              ids are on the device only, the newest in last_tokens
 *   computed   the caches hold positions [0, computed), or will when what has begun is done
 *   tables     block ids by cache group, of which entries [from, to) are set; a group that keeps
 *              everything has from = 0. The host copy is the truth for checks, the device copy
 *              is what kernels read; what goes from one to the other passes a staging buffer, one
 *              for each plan in flight, which stays as it is while the copy is on its way.
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
    uint32_t pending;
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
    int32_t *host[MTR_MAX_GROUPS];   /* [count, stride] */
    void *device[MTR_MAX_GROUPS];    /* [count, stride] i32 */
    int32_t *last_tokens;            /* device [count]: the newest token chosen there */
    uint32_t stride[MTR_MAX_GROUPS]; /* entries of one slot's table */
};

/* Table entries on their way to the device. */
struct mtr_staging {
    int32_t *entries; /* [MTR_STAGING_ENTRIES] pinned */
    uint32_t used;    /* since the plan in flight began */
};

#define MTR_STAGING_ENTRIES 16384u /* 64 KiB; a plan with more waits for its own copies */

bool mtr_staging_init(struct mtr_staging *s, struct mtr_backend *backend, struct mtr_error *err);
void mtr_staging_free(struct mtr_staging *s, struct mtr_backend *backend);

bool mtr_slots_init(struct mtr_slots *s, struct mtr_backend *backend, const struct mtr_plan *plan,
                    uint32_t count, struct mtr_error *err);
void mtr_slots_free(struct mtr_slots *s, struct mtr_backend *backend);

/* Bytes on the device that tables and last tokens take. */
uint64_t mtr_slots_bytes(const struct mtr_plan *plan, uint32_t count);

/* The span after a change: an entry run that touches the old one extends it, another replaces it.
 */
struct mtr_span mtr_span_after(struct mtr_span old, const struct mtr_table_change *change);

/* Takes over what a lane says: open, history, tokens, tables (uploaded), sampling. */
bool mtr_slots_apply(struct mtr_slots *s, struct mtr_backend *backend, struct mtr_stream *stream,
                     struct mtr_staging *staging, const struct mtr_lane *lane,
                     struct mtr_error *err);

/* For a step whose tokens the device chooses: once it is under way the lane's rows count as
 * computed, and its token as pending; once it has finished, that token (the oldest that is pending)
 * has an id. */
void mtr_slots_advance(struct mtr_slots *s, const struct mtr_lane *lane);
void mtr_slots_settle(struct mtr_slots *s, const struct mtr_lane *lane, uint32_t token);

/* For other steps, afterwards: positions below start + count are computed but for rejected drafts;
 * `tokens` follow position `last` of the last accepted row. */
void mtr_slots_finish(struct mtr_slots *s, const struct mtr_lane *lane, uint32_t accepted,
                      const uint32_t *tokens, uint32_t token_count);

#endif
