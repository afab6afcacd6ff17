/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ZeroMQ sockets, the only place that calls libzmq.
 *
 * Addresses: "ipc:///path" (the socket file gets mode 0660, its directory must exist) or
 * "tcp://address:port", which needs CURVE keys: without a key pair tcp is refused. A key file holds
 * a Z85 key, as `metralectl keygen` writes it: NAME.key (secret, mode 0600, refused when others can
 * read it) and NAME.pub. A listening socket has a list of public keys that may connect.
 *
 * Every wait has a deadline. High-water marks are set, so no queue is unbounded: a send that would
 * block fails with MTR_BUSY. Closing lingers MTR_WIRE_LINGER_MS for what was sent but not yet
 * taken.
 */
#ifndef MTR_WIRE_SOCKET_H
#define MTR_WIRE_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/str.h"

#define MTR_WIRE_QUEUE_MESSAGES 256 /* waiting to be sent to, or taken from, one peer */
#define MTR_WIRE_LINGER_MS      250
#define MTR_WIRE_RECONNECT_MS   10 /* a worker may be there before its broker */

struct mtr_wire;   /* a ZeroMQ context: one a process */
struct mtr_socket; /* used by one thread at a time */

enum mtr_socket_kind {
    MTR_SOCKET_ROUTER, /* broker: many workers */
    MTR_SOCKET_DEALER, /* worker */
    MTR_SOCKET_REP,    /* broker: admin */
    MTR_SOCKET_REQ,    /* metralectl */
};

struct mtr_wire_keys {
    char public_key[41]; /* Z85, or "" for none */
    char secret_key[41];
    char server_key[41];       /* the peer's, for connecting sockets */
    const char (*allowed)[41]; /* [allowed_count] public keys that may connect */
    size_t allowed_count;
};

/* Destroy closes nothing: all sockets must be closed before. NULL is fine for both. */
struct mtr_wire *mtr_wire_create(struct mtr_error *err);
void mtr_wire_destroy(struct mtr_wire *w);

bool mtr_wire_keygen(char public_key[41], char secret_key[41], struct mtr_error *err);
bool mtr_wire_read_key(const char *path, bool secret, char key[41], struct mtr_error *err);
bool mtr_wire_check_key(const char *key); /* 40 characters of Z85? */

/* keys: NULL or with an empty public_key for none. A path that another process serves is refused
 * with MTR_BUSY; a socket file that nobody serves is replaced. Closing removes the socket file,
 * unless it is another's by then. */
struct mtr_socket *mtr_socket_bind(struct mtr_wire *w, enum mtr_socket_kind kind,
                                   const char *address, const struct mtr_wire_keys *keys,
                                   struct mtr_error *err);
struct mtr_socket *mtr_socket_connect(struct mtr_wire *w, enum mtr_socket_kind kind,
                                      const char *address, const struct mtr_wire_keys *keys,
                                      struct mtr_error *err);
void mtr_socket_close(struct mtr_socket *s);

/* peer: the routing id on ROUTER sockets (as received), {NULL, 0} on others. Never waits: MTR_BUSY
 * when the queue is full, MTR_NOT_FOUND when the peer is gone. */
bool mtr_socket_send(struct mtr_socket *s, struct mtr_str peer, struct mtr_str message,
                     struct mtr_error *err);

/* Takes one message if there is one: true and message->ptr set, or true and ptr NULL when none
 * waits. Both strings are copied into the arena; peer is {NULL, 0} but on ROUTER sockets. Messages
 * larger than MTR_WIRE_MAX_MESSAGE_BYTES are refused by the socket, which drops the connection.
 * False: one message was dropped (MTR_INVALID: not one frame; MTR_NO_MEMORY) and the next call goes
 * on, or MTR_IO. */
bool mtr_socket_receive(struct mtr_socket *s, struct mtr_arena *arena, struct mtr_str *peer,
                        struct mtr_str *message, struct mtr_error *err);

/* The process that sent the message received last, as the kernel knows it: what the process says of
 * itself proves nothing. 0 where that can't be known: over tcp, or from another PID namespace.
 * ROUTER sockets only. */
pid_t mtr_socket_peer_pid(const struct mtr_socket *s);

/* A descriptor that polls readable when the socket may have something. It is edge-triggered and
 * also consumed by sends: always drain with mtr_socket_receive until none waits, before each poll.
 */
int mtr_socket_fd(struct mtr_socket *s);

/* Waits until the socket has a message, the extra descriptor (or -1) is readable, or timeout_ms
 * (-1: for ever). True when one of them is; false on timeout or signal. */
bool mtr_socket_wait(struct mtr_socket *s, int extra_fd, int timeout_ms);

#endif
