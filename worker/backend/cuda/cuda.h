/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The CUDA backend: one device by the driver API, with the kernels that are embedded in this build
 * (kernels/images).
 *
 * A device's class follows from its compute capability: that of the target compiled for it; any
 * other device that is new enough runs the sources of a class that has PTX, compiled by the driver
 * when they are first used. A class that is asked for by name runs on whatever device its images
 * fit.
 *
 * The default stream is one of the backend's own, so that it can be captured. Calls from threads
 * other than the one that made the backend work too, as far as backend.h allows them.
 *
 * Every result of the driver is checked; messages say what was being done and name the error. After
 * one that kills the context ("sticky") the backend is lost: everything fails with MTR_IO, and only
 * destroy makes sense. A worker then ends, and the broker starts another.
 */
#ifndef MTR_BACKEND_CUDA_H
#define MTR_BACKEND_CUDA_H

#include "kernels/images/images.h"
#include "worker/backend/backend.h"

struct mtr_cuda_options {
    uint32_t device;      /* ordinal, as CUDA_VISIBLE_DEVICES orders them */
    const char *hardware; /* class; NULL: the device's */
    const char *driver;   /* NULL: libcuda.so.1 */
    uint32_t threads;     /* for work beside kernels; 0: up to 8 */
    bool no_overlap;      /* start each kernel after the one before it has ended */
};

struct mtr_backend *mtr_cuda_backend_create(const struct mtr_cuda_options *options,
                                            struct mtr_error *err);

/* What a backend with these options would be, without taking anything of the device.
 * memory_free_bytes is 0: that is known to a context only. MTR_NOT_FOUND without driver or device,
 * MTR_UNSUPPORTED where the build has no kernels for it. */
bool mtr_cuda_probe(const struct mtr_cuda_options *options, struct mtr_device_info *out,
                    struct mtr_error *err);

#endif
