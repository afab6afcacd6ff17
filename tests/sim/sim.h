/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The whole in one process: scheduler, wire bytes and scripted workers under a virtual clock. One
 * seed decides the model's cache geometry, the limits, what arrives when, what is cancelled, how
 * long steps take and when workers die. Invariants are checked after every event.
 */
#ifndef MTR_SIM_SIM_H
#define MTR_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

/* What happened over all runs; a simulation in which something never happens proves little. */
struct mtr_sim_totals {
    uint64_t steps, finished, stopped, cancelled, expired, failed, refused;
    uint64_t losses, preemptions, hit_tokens, copies, restores, snapshots, accepted, scored,
        replayed;
};

/* Runs one seed and adds to the totals. False: an invariant broke or somebody starved; err says
 * what. trace: print what happens. */
bool mtr_sim_run(uint64_t seed, bool trace, struct mtr_sim_totals *totals, struct mtr_error *err);

#endif
