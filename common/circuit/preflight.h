/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Before anything is loaded: does this checkpoint hold what this plan binds, and nothing that it
 * would have to be but isn't?
 *
 * Every tensor that the plan binds must be there, of the plan's format, with the plan's columns
 * innermost and its rows in front (leading dimensions multiply: [experts, rows, cols] is experts x
 * rows rows). Every tensor that is there must be bound, or match a pattern of what is known to take
 * no part in the text path (buffers of rotary embeddings, vision and audio towers, draft layers,
 * activation scales): a bias that nobody adds would make silent nonsense.
 */
#ifndef MTR_CIRCUIT_PREFLIGHT_H
#define MTR_CIRCUIT_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"
#include "common/circuit/plan.h"

#define MTR_PREFLIGHT_MAX_LINES 1000 /* of a report */

/* True when everything fits. Otherwise MTR_INVALID, with the counts and the first names of what is
 * missing, misshaped, of another format, or extra. The report (may be NULL) gets all of them, one a
 * line, up to MTR_PREFLIGHT_MAX_LINES. */
bool mtr_preflight(const struct mtr_plan *plan, const struct mtr_checkpoint *ck,
                   struct mtr_buf *report, struct mtr_error *err);

/* Why a tensor of that name may be left unbound ("vision tower"), or NULL. */
const char *mtr_preflight_ignored(struct mtr_str name);

#endif
