/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a step costs, counted from the plan: bytes that have to move and operations that have to be
 * done, and how long both take at the least on a device (the roofline of Williams, Waterman,
 * Patterson 2009). Counts are exact for the plan; times are bounds, not predictions.
 */
#ifndef MTR_CIRCUIT_COST_H
#define MTR_CIRCUIT_COST_H

#include "common/circuit/plan.h"

struct mtr_device;

/* Lanes of equal length: `context` tokens are in the cache before the step adds `tokens` to each.
 */
struct mtr_step_shape {
    uint32_t lanes;
    uint32_t tokens; /* of each lane */
    uint32_t context;
};

struct mtr_cost {
    double weight_bytes, cache_bytes, activation_bytes;
    double operations; /* two for each multiply-add */
    double seconds;    /* sum over launches of the larger bound; 0 without a device */
};

/* device may be NULL. */
struct mtr_cost mtr_launch_cost(const struct mtr_plan *plan, const struct mtr_launch *launch,
                                const struct mtr_step_shape *shape,
                                const struct mtr_device *device);
struct mtr_cost mtr_step_cost(const struct mtr_plan *plan, const struct mtr_step_shape *shape,
                              const struct mtr_device *device);

/* Memory that does not depend on the load. */
struct mtr_memory_need {
    uint64_t weights, arena, constants;
    uint64_t cache_token;    /* bytes for each token of full history, all layers */
    uint64_t cache_sequence; /* and for each sequence: windows at their full length */
    uint64_t state_sequence; /* recurrent states */
};

struct mtr_memory_need mtr_plan_memory(const struct mtr_plan *plan);

/* Bytes of a weight in device memory. */
uint64_t mtr_weight_bytes(const struct mtr_plan_weight *w);

#endif
