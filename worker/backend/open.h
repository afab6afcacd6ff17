/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A backend by the name of a kernel class.
 *
 *   host    this machine's CPU
 *   auto    the class of the CUDA device where there are a driver, a device and kernels for it;
 *           the host otherwise
 *   others  that class on the CUDA device, or a clear refusal
 */
#ifndef MTR_BACKEND_OPEN_H
#define MTR_BACKEND_OPEN_H

#include "worker/backend/backend.h"

struct mtr_backend_options {
    const char *hardware;        /* NULL: auto */
    uint32_t device;             /* CUDA ordinal */
    uint32_t threads;            /* of the host, 0: as the backend likes */
    const char *instruction_set; /* host class, or NULL */
    const char *driver;          /* NULL: the system's CUDA driver */
    bool no_overlap;             /* CUDA: each kernel starts after the one before it has ended */
};

/* note, which may be NULL: for auto, why it is the host and no GPU; else untouched. */
struct mtr_backend *mtr_backend_open(const struct mtr_backend_options *options,
                                     struct mtr_error *note, struct mtr_error *err);

/* What it would open, without taking anything of a device. */
bool mtr_backend_probe(const struct mtr_backend_options *options, struct mtr_device_info *out,
                       struct mtr_error *note, struct mtr_error *err);

#endif
