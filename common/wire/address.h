/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where the sockets of a server are when nobody says otherwise.
 *
 * A server has a run directory with plan.sock and admin.sock. By default it is named after the HTTP
 * port, so that several servers of one user do not meet:
 *   $XDG_RUNTIME_DIR/metrale-PORT, else /run/metrale-PORT for root, else /tmp/metrale-UID-PORT
 */
#ifndef MTR_WIRE_ADDRESS_H
#define MTR_WIRE_ADDRESS_H

#include <stdint.h>

#include "common/base/arena.h"

/* NULL when the arena is full. */
const char *mtr_default_run_dir(struct mtr_arena *arena, uint32_t port);
const char *mtr_plan_address(struct mtr_arena *arena, const char *run_dir);  /* ipc://... */
const char *mtr_admin_address(struct mtr_arena *arena, const char *run_dir);

#endif
