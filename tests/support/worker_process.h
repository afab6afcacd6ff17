/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A metrale-worker process and the broker's side of its socket, for tests: starts it, speaks the
 * protocol by hand, and fails the running test when something does not come in time.
 */
#ifndef MTR_SUPPORT_WORKER_PROCESS_H
#define MTR_SUPPORT_WORKER_PROCESS_H

#include <sys/types.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/wire/plan.pb-c.h"
#include "common/wire/socket.h"
#include "common/wire/step.h"

#define WORKER_WAIT_MS 20000

struct worker_process {
    char dir[64];
    char address[128];
    struct mtr_wire *wire;
    struct mtr_socket *socket;
    struct mtr_str peer; /* of the last message */
    char peer_bytes[256];
    pid_t pid;
    struct mtr_arena arena; /* of the last message */
    struct mtr_arena scratch;
    struct mtr_buf out;
    uint64_t epoch;
    uint32_t heartbeats, progress; /* seen so far */
};

/* Binds a socket in a new folder and starts the worker with these more arguments (NULL at the end).
 */
void worker_start(struct worker_process *w, const char *const *arguments);
/* Kills what still runs and removes the folder. */
void worker_clean(struct worker_process *w);

void worker_send(struct worker_process *w, Mtr__FromBroker *message);
void worker_send_load(struct worker_process *w, const char *checkpoint, const char *digest_hex);
void worker_send_plan(struct worker_process *w, const struct mtr_step_plan *plan);
void worker_send_exit(struct worker_process *w);

/* The next message that is neither heartbeat nor progress; they are counted. */
const Mtr__FromWorker *worker_receive(struct worker_process *w);
/* Takes messages for so long, and returns how many heartbeats came. */
uint32_t worker_heartbeats_in(struct worker_process *w, int ms);

/* Waits for the end of the process; its exit status, or 128 + signal. */
int worker_status(struct worker_process *w);

#endif
