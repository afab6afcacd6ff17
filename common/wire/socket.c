/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A socket's life: options, keys, then bind or connect; afterwards only whole messages go through.
 *
 * CURVE (rfc.zeromq.org/spec/26) encrypts and authenticates both ends: the connecting side knows
 * the listener's public key beforehand, the listener knows the list of public keys that may
 * connect.
 */
#include "common/wire/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "common/wire/codec.h"
#include "common/wire/zap.h"

#define IPC_PREFIX "ipc://"
#define TCP_PREFIX "tcp://"

struct mtr_wire {
    void *context;
    struct mtr_zap *zap; /* started by the first listener with keys */
};

struct mtr_socket {
    void *zmq;
    enum mtr_socket_kind kind;
    pid_t peer_pid; /* of the last message; 0: unknown */
    /* The socket file that bind made: "" for none. */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t device;
    ino_t inode;
};

static const int zmq_kinds[] = {
    [MTR_SOCKET_ROUTER] = ZMQ_ROUTER,
    [MTR_SOCKET_DEALER] = ZMQ_DEALER,
    [MTR_SOCKET_REP] = ZMQ_REP,
    [MTR_SOCKET_REQ] = ZMQ_REQ,
};

struct mtr_wire *mtr_wire_create(struct mtr_error *err)
{
    struct mtr_wire *w = calloc(1, sizeof(*w));
    if (w)
        w->context = zmq_ctx_new();
    if (w && w->context)
        return w;
    free(w);
    mtr_fail(err, MTR_NO_MEMORY, "no memory for a ZeroMQ context");
    return NULL;
}

void mtr_wire_destroy(struct mtr_wire *w)
{
    if (!w)
        return;
    zmq_ctx_shutdown(w->context);
    mtr_zap_join(w->zap);
    while (zmq_ctx_term(w->context) != 0 && errno == EINTR)
        ;
    free(w);
}

static bool starts(const char *address, const char *prefix)
{
    return mtr_str_starts(mtr_str(address), mtr_str(prefix));
}

/* The path of an ipc address, or NULL. */
static const char *ipc_path(const char *address)
{
    return starts(address, IPC_PREFIX) ? address + strlen(IPC_PREFIX) : NULL;
}

static bool has_keys(const struct mtr_wire_keys *keys)
{
    return keys && keys->public_key[0];
}

static bool check_address(const char *address, const struct mtr_wire_keys *keys,
                          struct mtr_error *err)
{
    const char *path = ipc_path(address);
    struct sockaddr_un un;
    if (path && (path[0] != '/' || strlen(path) >= sizeof(un.sun_path)))
        return mtr_fail(err, MTR_INVALID, "%s: expected an absolute path of less than %zu bytes",
                        address, sizeof(un.sun_path));
    if (path)
        return true;
    if (!starts(address, TCP_PREFIX))
        return mtr_fail(err, MTR_INVALID, "%s: expected ipc:///PATH or tcp://ADDRESS:PORT",
                        address);
    if (!has_keys(keys))
        return mtr_fail(err, MTR_DENIED,
                        "%s: tcp needs CURVE keys; make them with metralectl keygen, or use "
                        "ipc:///PATH on one machine",
                        address);
    return true;
}

static bool set_int(void *zmq, int option, int value, struct mtr_error *err)
{
    if (zmq_setsockopt(zmq, option, &value, sizeof(value)) == 0)
        return true;
    return mtr_fail(err, MTR_IO, "socket option %d: %s", option, zmq_strerror(zmq_errno()));
}

static bool set_text(void *zmq, int option, const char *value, struct mtr_error *err)
{
    if (zmq_setsockopt(zmq, option, value, strlen(value)) == 0)
        return true;
    return mtr_fail(err, MTR_IO, "socket option %d: %s", option, zmq_strerror(zmq_errno()));
}

static bool set_bounds(struct mtr_socket *s, struct mtr_error *err)
{
    int64_t most = MTR_WIRE_MAX_MESSAGE_BYTES;
    if (zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &most, sizeof(most)) != 0)
        return mtr_fail(err, MTR_IO, "message limit: %s", zmq_strerror(zmq_errno()));
    return set_int(s->zmq, ZMQ_SNDHWM, MTR_WIRE_QUEUE_MESSAGES, err) &&
           set_int(s->zmq, ZMQ_RCVHWM, MTR_WIRE_QUEUE_MESSAGES, err) &&
           set_int(s->zmq, ZMQ_LINGER, MTR_WIRE_LINGER_MS, err) &&
           set_int(s->zmq, ZMQ_RECONNECT_IVL, MTR_WIRE_RECONNECT_MS, err) &&
           set_int(s->zmq, ZMQ_IPV6, 1, err) && set_int(s->zmq, ZMQ_TCP_KEEPALIVE, 1, err) &&
           (s->kind != MTR_SOCKET_ROUTER || set_int(s->zmq, ZMQ_ROUTER_MANDATORY, 1, err));
}

static struct mtr_socket *make_socket(struct mtr_wire *w, enum mtr_socket_kind kind,
                                      struct mtr_error *err)
{
    struct mtr_socket *s = calloc(1, sizeof(*s));
    if (!s) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a socket");
        return NULL;
    }
    s->kind = kind;
    s->zmq = zmq_socket(w->context, zmq_kinds[kind]);
    if (!s->zmq)
        mtr_fail(err, MTR_IO, "socket: %s", zmq_strerror(zmq_errno()));
    if (s->zmq && set_bounds(s, err))
        return s;
    mtr_socket_close(s);
    return NULL;
}

/* A domain for the allow list, so that libzmq asks about each connection. */
static bool set_allowed(struct mtr_wire *w, struct mtr_socket *s, const struct mtr_wire_keys *keys,
                        struct mtr_error *err)
{
    char domain[MTR_ZAP_DOMAIN_BYTES];
    uint8_t(*raw)[MTR_ZAP_KEY_BYTES] = calloc(keys->allowed_count + 1, sizeof(*raw));
    bool ok = raw || mtr_fail(err, MTR_NO_MEMORY, "no memory for allowed keys");
    for (size_t i = 0; ok && i < keys->allowed_count; i++)
        if (!mtr_wire_check_key(keys->allowed[i]) || !zmq_z85_decode(raw[i], keys->allowed[i]))
            ok = mtr_fail(err, MTR_INVALID, "allowed key %zu is no public key", i);
    if (ok && !w->zap)
        ok = (w->zap = mtr_zap_start(w->context, err)) != NULL;
    ok = ok && mtr_zap_allow(w->zap, (const uint8_t(*)[MTR_ZAP_KEY_BYTES])raw, keys->allowed_count,
                             domain, err);
    free(raw);
    return ok && set_text(s->zmq, ZMQ_ZAP_DOMAIN, domain, err);
}

static bool set_listener_keys(struct mtr_wire *w, struct mtr_socket *s,
                              const struct mtr_wire_keys *keys, struct mtr_error *err)
{
    if (!has_keys(keys))
        return true;
    return set_int(s->zmq, ZMQ_CURVE_SERVER, 1, err) &&
           set_text(s->zmq, ZMQ_CURVE_SECRETKEY, keys->secret_key, err) &&
           set_allowed(w, s, keys, err);
}

static bool set_connector_keys(struct mtr_socket *s, const struct mtr_wire_keys *keys,
                               struct mtr_error *err)
{
    if (!has_keys(keys))
        return true;
    if (!mtr_wire_check_key(keys->server_key))
        return mtr_fail(err, MTR_INVALID, "the listener's public key is missing or no key");
    return set_text(s->zmq, ZMQ_CURVE_PUBLICKEY, keys->public_key, err) &&
           set_text(s->zmq, ZMQ_CURVE_SECRETKEY, keys->secret_key, err) &&
           set_text(s->zmq, ZMQ_CURVE_SERVERKEY, keys->server_key, err);
}

/* libzmq replaces a socket file without asking. Only one that refuses connections is nobody's: a
 * busy one has no room for another just now. */
static bool check_unserved(const char *path, struct mtr_error *err)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mtr_fail_errno(err, "socket");
    memcpy(un.sun_path, path, strlen(path));
    bool served = connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0;
    int why = errno;
    close(fd);
    if (!served && (why == ECONNREFUSED || why == ENOENT))
        return true;
    if (served || why == EAGAIN)
        return mtr_fail(err, MTR_BUSY, "%s: another process serves this socket", path);
    errno = why;
    return mtr_fail_errno(err, "%s", path);
}

static bool bind_ipc(struct mtr_socket *s, const char *address, struct mtr_error *err)
{
    const char *path = ipc_path(address);
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
        return mtr_fail(err, MTR_INVALID, "%s: a file that is no socket is in the way", path);
    if (!check_unserved(path, err))
        return false;
    mode_t before = umask(0117); /* never open to others, not even before the chmod */
    int rc = zmq_bind(s->zmq, address);
    umask(before);
    if (rc != 0)
        return mtr_fail(err, MTR_IO, "%s: %s", address, zmq_strerror(zmq_errno()));
    if (chmod(path, 0660) != 0 || lstat(path, &st) != 0)
        return mtr_fail_errno(err, "%s", path);
    memcpy(s->path, path, strlen(path) + 1);
    s->device = st.st_dev;
    s->inode = st.st_ino;
    return true;
}

/* Another process may have taken the place since. */
static void remove_file(const struct mtr_socket *s)
{
    struct stat st;
    if (s->path[0] && lstat(s->path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode)
        unlink(s->path);
}

static bool bind_any(struct mtr_socket *s, const char *address, struct mtr_error *err)
{
    if (ipc_path(address))
        return bind_ipc(s, address, err);
    if (zmq_bind(s->zmq, address) == 0)
        return true;
    return mtr_fail(err, zmq_errno() == EADDRINUSE ? MTR_BUSY : MTR_IO, "%s: %s", address,
                    zmq_strerror(zmq_errno()));
}

struct mtr_socket *mtr_socket_bind(struct mtr_wire *w, enum mtr_socket_kind kind,
                                   const char *address, const struct mtr_wire_keys *keys,
                                   struct mtr_error *err)
{
    if (!check_address(address, keys, err))
        return NULL;
    struct mtr_socket *s = make_socket(w, kind, err);
    if (s && set_listener_keys(w, s, keys, err) && bind_any(s, address, err))
        return s;
    mtr_socket_close(s);
    return NULL;
}

struct mtr_socket *mtr_socket_connect(struct mtr_wire *w, enum mtr_socket_kind kind,
                                      const char *address, const struct mtr_wire_keys *keys,
                                      struct mtr_error *err)
{
    if (!check_address(address, keys, err))
        return NULL;
    struct mtr_socket *s = make_socket(w, kind, err);
    if (!s || !set_connector_keys(s, keys, err))
        goto fail;
    if (zmq_connect(s->zmq, address) == 0)
        return s;
    mtr_fail(err, MTR_IO, "%s: %s", address, zmq_strerror(zmq_errno()));
fail:
    mtr_socket_close(s);
    return NULL;
}

void mtr_socket_close(struct mtr_socket *s)
{
    if (!s)
        return;
    remove_file(s);
    if (s->zmq)
        zmq_close(s->zmq);
    free(s);
}

static bool send_error(struct mtr_error *err)
{
    int e = zmq_errno();
    enum mtr_code code = e == EAGAIN ? MTR_BUSY : e == EHOSTUNREACH ? MTR_NOT_FOUND : MTR_IO;
    return mtr_fail(err, code, "send: %s", zmq_strerror(e));
}

bool mtr_socket_send(struct mtr_socket *s, struct mtr_str peer, struct mtr_str message,
                     struct mtr_error *err)
{
    if (s->kind == MTR_SOCKET_ROUTER &&
        zmq_send(s->zmq, peer.ptr, peer.len, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return send_error(err);
    if (zmq_send(s->zmq, message.ptr, message.len, ZMQ_DONTWAIT) < 0)
        return send_error(err);
    return true;
}

/* libzmq says "localhost:UID:GID:PID" of the other end of a unix socket, from SO_PEERCRED. */
static pid_t peer_pid(zmq_msg_t *frame)
{
    const char *address = zmq_msg_gets(frame, "Peer-Address");
    unsigned uid, gid;
    int pid;
    const char *numbers = address ? strchr(address, ':') : NULL;
    if (!numbers || sscanf(numbers, ":%u:%u:%d", &uid, &gid, &pid) != 3 || pid < 0)
        return 0;
    return pid;
}

/* One frame into the arena. 1: taken, 0: none waits, -1: taken but lost for want of memory, -2: the
 * socket failed. */
static int take_frame(struct mtr_socket *s, struct mtr_arena *arena, struct mtr_str *out,
                      bool *more)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int n = zmq_msg_recv(&frame, s->zmq, ZMQ_DONTWAIT);
    if (n < 0) {
        int e = zmq_errno();
        zmq_msg_close(&frame);
        return e == EAGAIN || e == EINTR ? 0 : -2;
    }
    *more = zmq_msg_more(&frame);
    char *copy = mtr_arena_alloc(arena, (size_t)n + 1);
    if (copy) {
        memcpy(copy, zmq_msg_data(&frame), (size_t)n);
        copy[n] = 0;
    }
    *out = (struct mtr_str){copy, copy ? (size_t)n : 0};
    if (s->kind == MTR_SOCKET_ROUTER && !*more)
        s->peer_pid = peer_pid(&frame);
    zmq_msg_close(&frame);
    return copy ? 1 : -1;
}

/* Drops the rest of a message. Its frames are all here: ZeroMQ delivers whole messages. A REP
 * socket owes an answer before it can take the next one. */
static void drop_rest(struct mtr_socket *s, bool more)
{
    while (more) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        more = zmq_msg_recv(&frame, s->zmq, ZMQ_DONTWAIT) >= 0 && zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    if (s->kind == MTR_SOCKET_REP)
        zmq_send(s->zmq, "", 0, ZMQ_DONTWAIT);
}

bool mtr_socket_receive(struct mtr_socket *s, struct mtr_arena *arena, struct mtr_str *peer,
                        struct mtr_str *message, struct mtr_error *err)
{
    bool more = false;
    *peer = (struct mtr_str){0};
    *message = (struct mtr_str){0};
    int got = 1;
    if (s->kind == MTR_SOCKET_ROUTER) {
        got = take_frame(s, arena, peer, &more);
        if (got == 1 && !more)
            return mtr_fail(err, MTR_INVALID, "dropped a message without a frame");
    }
    if (got == 1)
        got = take_frame(s, arena, message, &more);
    if (got == 0)
        return true;
    if (got == -2)
        return mtr_fail(err, MTR_IO, "receive: %s", zmq_strerror(zmq_errno()));
    if (got == 1 && !more)
        return true;
    drop_rest(s, more);
    *message = (struct mtr_str){0};
    if (got == -1)
        return mtr_fail(err, MTR_NO_MEMORY, "dropped a message for want of memory");
    return mtr_fail(err, MTR_INVALID, "dropped a message of several frames");
}

pid_t mtr_socket_peer_pid(const struct mtr_socket *s)
{
    return s->peer_pid;
}

int mtr_socket_fd(struct mtr_socket *s)
{
    int fd = -1;
    size_t size = sizeof(fd);
    return zmq_getsockopt(s->zmq, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
}

bool mtr_socket_wait(struct mtr_socket *s, int extra_fd, int timeout_ms)
{
    zmq_pollitem_t items[] = {
        {.socket = s->zmq, .events = ZMQ_POLLIN},
        {.fd = extra_fd, .events = ZMQ_POLLIN},
    };
    return zmq_poll(items, extra_fd >= 0 ? 2 : 1, timeout_ms) > 0;
}
