/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From groups to a plan: launches with their slots filled, weights to bind, and where in the arena
 * each buffer stands. Internal to common/circuit.
 */
#ifndef MTR_CIRCUIT_PLANNER_H
#define MTR_CIRCUIT_PLANNER_H

#include "common/circuit/fuser.h"

/* Rows that a buffer must have room for. */
uint64_t mtr_plan_max_rows(const struct mtr_plan_limits *limits, enum mtr_rows rows,
                           uint32_t top_k);

/* Fills buffers, weights, lists and arena_bytes of the plan; limits are set already. covers
 * [MTR_MODE_COUNT]. */
bool mtr_plan_lay_out(struct mtr_arena *arena, const struct mtr_instance *in,
                      const struct mtr_hardware *hardware,
                      const struct mtr_cover covers[MTR_MODE_COUNT], struct mtr_plan *plan,
                      struct mtr_error *err);

#endif
