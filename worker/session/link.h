/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A worker's line to its broker: the socket, and heartbeats on it.
 *
 * A thread sends a heartbeat every second, whatever the rest of the worker is doing, so that a long
 * step or load is not mistaken for death; a process that was stopped sends none. The socket is
 * shared under a lock, each holder brief. One thread at a time calls everything else here.
 */
#ifndef MTR_SESSION_LINK_H
#define MTR_SESSION_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/wire/plan.pb-c.h"
#include "common/wire/socket.h"

#define MTR_HEARTBEAT_MS 1000

struct mtr_link;

/* Connects, which succeeds whether or not the broker is there yet. */
struct mtr_link *mtr_link_open(const char *address, const struct mtr_wire_keys *keys,
                               struct mtr_error *err);
void mtr_link_close(struct mtr_link *l); /* waits for sent messages a little; NULL is fine */

/* What stands in messages from now on. */
void mtr_link_set_epoch(struct mtr_link *l, uint64_t epoch);
void mtr_link_set_step(struct mtr_link *l, uint64_t step);

/* Sends with the link's epoch. A full queue is waited for, up to deadline_ms (MTR_TIMEOUT). */
bool mtr_link_send(struct mtr_link *l, Mtr__FromWorker *message, int deadline_ms,
                   struct mtr_error *err);
bool mtr_link_send_bytes(struct mtr_link *l, struct mtr_str bytes, int deadline_ms,
                         struct mtr_error *err);

/* Takes a message if there is one: true, and *message NULL when none waits. It lives in the arena.
 */
bool mtr_link_receive(struct mtr_link *l, struct mtr_arena *arena, const Mtr__FromBroker **message,
                      struct mtr_error *err);

/* Waits until a message may have come, extra_fd is readable or timeout_us have passed. Call only
 * after mtr_link_receive found none. */
void mtr_link_wait(struct mtr_link *l, int extra_fd, int timeout_us);

/* Monotonic time of the last message from the broker; of open, before the first. */
uint64_t mtr_link_heard_ns(const struct mtr_link *l);

#endif
