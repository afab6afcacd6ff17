/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which kernel class the workers will run, found before any of them is started: the plan is made
 * for a class. The worker program beside the broker is asked (metrale-worker --probe), since only
 * it knows devices and kernels. Where workers are on other machines, --hardware says it instead.
 */
#ifndef MTR_BROKER_PROBE_H
#define MTR_BROKER_PROBE_H

#include "common/base/arena.h"
#include "common/base/error.h"

struct mtr_probe {
    const char *hardware; /* "hopper" */
    const char *device;   /* "NVIDIA H200" */
    const char *note;     /* why it is no GPU, or NULL */
};

/* hardware: as the flag says, auto included. */
bool mtr_probe_worker(struct mtr_arena *arena, const char *hardware, uint32_t device,
                      struct mtr_probe *out, struct mtr_error *err);

/* Reads the line that a worker printed. */
bool mtr_probe_read(struct mtr_arena *arena, struct mtr_str line, struct mtr_probe *out,
                    struct mtr_error *err);

#endif
