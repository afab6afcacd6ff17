/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A CUDA driver without a device: a shared object with the functions that the backend uses. Device
 * memory is host memory, copies copy at once, launches are written down. One kernel computes
 * something: the one that chooses tokens makes them of the position and the token before. What it
 * says of itself and which calls fail is scripted through the functions below, which a test finds
 * by dlsym, or for a whole process through the environment:
 *
 *   FAKE_CUDA_CAPABILITY=9.0    compute capability (default 9.0)
 *   FAKE_CUDA_DEVICES=1         how many devices there are
 *   FAKE_CUDA_FAIL=cuGraphLaunch:20:719
 *                               after 20 calls of that function each one gives that result,
 *   FAKE_CUDA_ONCE=PATH         and makes this file; a process that finds it never fails
 */
#ifndef MTR_SUPPORT_FAKE_CUDA_H
#define MTR_SUPPORT_FAKE_CUDA_H

#include <stddef.h>

/* Back to the environment's device, an empty script and an empty log. */
void fake_cuda_reset(void);

void fake_cuda_capability(int major, int minor);

/* After `good` more calls of a function each one gives `result`. */
void fake_cuda_fail(const char *symbol, unsigned good, int result);

/* The size of every kernel's parameter, or 0: the driver can't say. */
void fake_cuda_parameter(size_t bytes);

/* The calls so far, a line each: "cuMemAlloc_v2 256". */
const char *fake_cuda_log(void);

#endif
