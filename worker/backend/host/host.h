/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host backend: kernels are C functions, a launch walks its grid on a thread pool.
 *
 * Work is done when launch returns; streams and events exist so that callers are written once. The
 * instruction set (avx512, avx2, neon, portable) is chosen when the backend is created; all of them
 * sum in the same order, so the bits are the same (see kernels/host/host_kernel.h).
 */
#ifndef MTR_BACKEND_HOST_H
#define MTR_BACKEND_HOST_H

#include "worker/backend/backend.h"

struct mtr_host_options {
    uint32_t threads;            /* 0: one for each core that this process may run on */
    const char *instruction_set; /* NULL: the best that the CPU has; else "avx512", ... */
};

struct mtr_backend *mtr_host_backend_create(const struct mtr_host_options *options,
                                            struct mtr_error *err);

#endif
