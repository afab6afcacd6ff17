/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What keeps a worker from harming its machine.
 */
#ifndef MTR_SESSION_GUARD_H
#define MTR_SESSION_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/log.h"

/*
 * To be called when all that the model needs is allocated, but for `later_bytes` (mapped weights
 * that move into private memory). From then on this process may take that and MTR_GUARD_SLACK_BYTES
 * more of private memory and no more: a mistake fails an allocation here instead of freezing the
 * machine. If the kernel must kill something, it shall be this process, which can be started again,
 * rather than the broker, which holds every sequence.
 */
#define MTR_GUARD_SLACK_BYTES (1ull << 30)
void mtr_guard_memory(struct mtr_log *log, uint64_t later_bytes);

/* This process gets SIGTERM when its parent dies; fails if the parent is dead already. */
bool mtr_guard_parent(struct mtr_error *err);

#endif
