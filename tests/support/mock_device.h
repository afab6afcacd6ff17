/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A device in slow motion: the mock backend, whose launches run the host class's kernels, but not
 * before somebody waits for them. What the host changes too early, or reads too early, shows in the
 * results.
 */
#ifndef MTR_SUPPORT_MOCK_DEVICE_H
#define MTR_SUPPORT_MOCK_DEVICE_H

#include "worker/backend/mock/mock.h"

/* Not direct; the test fails when there is no memory. */
struct mtr_backend *mock_device_create(bool graphs);

/* The effect of one launch: for mtr_mock_on_launch. */
void mock_device_run(void *context, const struct mtr_mock_call *launch);

#endif
