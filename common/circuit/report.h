/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What metralectl prints about a plan. Each function appends stable text to `out` and returns false
 * only when memory is out. Figures say what they are: counted from the plan, or bounds for a
 * device.
 */
#ifndef MTR_CIRCUIT_REPORT_H
#define MTR_CIRCUIT_REPORT_H

#include "common/base/buf.h"
#include "common/circuit/cost.h"
#include "common/circuit/rules.h"

/* The launches, one a line, with rule, tag, compute unit and numerics; equal layers once. */
bool mtr_report_show(struct mtr_buf *out, const struct mtr_plan *plan);

/* Does it fit the device, what moves and what is computed in a few typical steps, and how fast that
 * can be at most. `context` tokens of history, 0: a quarter of the model's, at most 4096. */
bool mtr_report_plan(struct mtr_buf *out, const struct mtr_plan *plan,
                     const struct mtr_device *device, uint32_t context);

/* Weights, arena, cache and states in bytes, and how many sequences fit into the device. */
bool mtr_report_memory(struct mtr_buf *out, const struct mtr_plan *plan,
                       const struct mtr_device *device);

/* The format of every weight, edge and cache, and what each kernel sums in. */
bool mtr_report_precision(struct mtr_buf *out, const struct mtr_plan *plan);

#endif
