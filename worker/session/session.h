/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A worker's life with one broker: Hello, LoadModel, Ready, then plans in order until Exit.
 *
 * Everything that goes wrong is told to the broker as a Failure and ends the session: a worker that
 * starts again blank is worth more than one that recovers cleverly. The session also ends when the
 * broker has been silent for too long, and on SIGTERM after the step that runs.
 */
#ifndef MTR_SESSION_SESSION_H
#define MTR_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/socket.h"

struct mtr_session_options {
    const char *address;              /* of the broker */
    const struct mtr_wire_keys *keys; /* or NULL */
    uint32_t rank;
    const char *hardware;        /* kernel class, or "auto" */
    uint32_t device;             /* CUDA ordinal */
    bool no_overlap;             /* CUDA: each kernel starts after the one before it has ended */
    const char *instruction_set; /* host class, or NULL */
    uint32_t threads;            /* host class; 0: as the broker says, or one a core */
    int signal_fd;               /* a signalfd of SIGHUP and what ends the session; -1: none */
    const char *log_level_file;  /* read again on SIGHUP, or NULL */
    int broker_wait_ms;          /* how long the broker may take to answer Hello */
    int silence_ms;              /* how long it may be silent after that */
    struct mtr_log *log;
};

/* True when the broker said Exit or SIGTERM came. */
bool mtr_session_run(const struct mtr_session_options *options, struct mtr_error *err);

#endif
