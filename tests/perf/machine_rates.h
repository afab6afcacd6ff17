/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What this machine can do at most, measured: the rate at which the backend's threads read memory
 * that is in no cache, and their rate of f32 fused multiply-adds (two operations each). Kernels are
 * judged by their share of these.
 */
#ifndef MTR_PERF_MACHINE_RATES_H
#define MTR_PERF_MACHINE_RATES_H

#include "worker/backend/backend.h"

struct mtr_machine_rates {
    double read_gb_per_s;
    double fma_gflop_per_s;
};

struct mtr_machine_rates mtr_measure_machine(struct mtr_backend *b);

/* Seconds of the monotonic clock. */
double mtr_perf_now(void);

#endif
