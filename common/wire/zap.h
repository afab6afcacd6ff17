/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who may connect: the ZeroMQ authentication protocol (rfc.zeromq.org/spec/27), answered from a
 * list of public keys for each listening socket. Used by socket.c alone.
 *
 * libzmq asks a REP socket at inproc://zeromq.zap.01 of the same context about every connection to
 * a socket with a domain. A thread answers: it waits in a receive and costs nothing otherwise. A
 * key that is in no list of its domain is refused during the handshake.
 */
#ifndef MTR_WIRE_ZAP_H
#define MTR_WIRE_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

#define MTR_ZAP_KEY_BYTES    32
#define MTR_ZAP_DOMAIN_BYTES 24

struct mtr_zap;

/* Starts the thread on a ZeroMQ context, before any socket with a domain is bound. */
struct mtr_zap *mtr_zap_start(void *zmq_context, struct mtr_error *err);

/* After zmq_ctx_shutdown, which ends the thread's wait. Joins it. NULL is fine. */
void mtr_zap_join(struct mtr_zap *zap);

/* Makes a new domain whose connections need one of keys [count]; writes its name. */
bool mtr_zap_allow(struct mtr_zap *zap, const uint8_t (*keys)[MTR_ZAP_KEY_BYTES], size_t count,
                   char domain[MTR_ZAP_DOMAIN_BYTES], struct mtr_error *err);

#endif
