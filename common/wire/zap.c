/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A request has the frames
 *   version, request id, domain, address, identity, mechanism, credentials...
 * and a reply the frames
 *   version, request id, status code, status text, user id, metadata.
 * Domains are never taken back: a process binds a handful of sockets in its life.
 */
#include "common/wire/zap.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/buf.h"
#include "common/base/str.h"

#define FRAMES      7 /* of a CURVE request */
#define FRAME_BYTES 256

struct allowed {
    char domain[MTR_ZAP_DOMAIN_BYTES];
    uint8_t key[MTR_ZAP_KEY_BYTES];
};

struct mtr_zap {
    void *socket;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    struct allowed *allowed;
    size_t count, cap;
    unsigned domains;
};

struct frame {
    char bytes[FRAME_BYTES];
    size_t len;
};

/* Reads a whole request. The number of frames that came, those past FRAMES dropped; -1 when the
 * context ends. */
static int receive(struct mtr_zap *zap, struct frame frames[FRAMES])
{
    int count = 0;
    for (;;) {
        struct frame spare;
        struct frame *to = count < FRAMES ? &frames[count] : &spare;
        int n = zmq_recv(zap->socket, to->bytes, FRAME_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        to->len = (size_t)n < FRAME_BYTES ? (size_t)n : FRAME_BYTES;
        count++;
        int more = 0;
        size_t size = sizeof(more);
        if (zmq_getsockopt(zap->socket, ZMQ_RCVMORE, &more, &size) != 0 || !more)
            return count;
    }
}

static bool frame_is(const struct frame *f, const char *text)
{
    return mtr_str_is((struct mtr_str){f->bytes, f->len}, text);
}

static bool is_allowed(struct mtr_zap *zap, const struct frame *domain, const struct frame *key)
{
    bool found = false;
    pthread_mutex_lock(&zap->lock);
    for (size_t i = 0; i < zap->count && key->len == MTR_ZAP_KEY_BYTES; i++)
        found |= frame_is(domain, zap->allowed[i].domain) &&
                 memcmp(key->bytes, zap->allowed[i].key, MTR_ZAP_KEY_BYTES) == 0;
    pthread_mutex_unlock(&zap->lock);
    return found;
}

static void reply(struct mtr_zap *zap, const struct frame *id, bool allow)
{
    const char *code = allow ? "200" : "400";
    const char *text = allow ? "OK" : "this public key is not on the list";
    zmq_send(zap->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(zap->socket, id->bytes, id->len, ZMQ_SNDMORE);
    zmq_send(zap->socket, code, 3, ZMQ_SNDMORE);
    zmq_send(zap->socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(zap->socket, "", 0, ZMQ_SNDMORE);
    zmq_send(zap->socket, "", 0, 0);
}

static void *serve(void *context)
{
    struct mtr_zap *zap = context;
    struct frame frames[FRAMES];
    for (;;) {
        memset(frames, 0, sizeof(frames));
        int count = receive(zap, frames);
        if (count < 0)
            break;
        bool allow = count == FRAMES && frame_is(&frames[0], "1.0") &&
                     frame_is(&frames[5], "CURVE") && is_allowed(zap, &frames[2], &frames[6]);
        reply(zap, &frames[1], allow);
    }
    zmq_close(zap->socket);
    return NULL;
}

struct mtr_zap *mtr_zap_start(void *zmq_context, struct mtr_error *err)
{
    struct mtr_zap *zap = calloc(1, sizeof(*zap));
    if (!zap) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the authentication thread");
        return NULL;
    }
    int linger = 0;
    pthread_mutex_init(&zap->lock, NULL);
    zap->socket = zmq_socket(zmq_context, ZMQ_REP);
    if (!zap->socket || zmq_setsockopt(zap->socket, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
        zmq_bind(zap->socket, "inproc://zeromq.zap.01") != 0) {
        mtr_fail(err, MTR_IO, "authentication socket: %s", zmq_strerror(zmq_errno()));
        goto close;
    }
    if (pthread_create(&zap->thread, NULL, serve, zap) != 0) {
        mtr_fail_errno(err, "authentication thread");
        goto close;
    }
    return zap;
close:
    if (zap->socket)
        zmq_close(zap->socket);
    pthread_mutex_destroy(&zap->lock);
    free(zap);
    return NULL;
}

void mtr_zap_join(struct mtr_zap *zap)
{
    if (!zap)
        return;
    pthread_join(zap->thread, NULL);
    pthread_mutex_destroy(&zap->lock);
    free(zap->allowed);
    free(zap);
}

bool mtr_zap_allow(struct mtr_zap *zap, const uint8_t (*keys)[MTR_ZAP_KEY_BYTES], size_t count,
                   char domain[MTR_ZAP_DOMAIN_BYTES], struct mtr_error *err)
{
    pthread_mutex_lock(&zap->lock);
    void *array = zap->allowed;
    bool ok = mtr_grow(&array, &zap->cap, zap->count + count, sizeof(struct allowed));
    zap->allowed = array;
    if (ok) {
        snprintf(domain, MTR_ZAP_DOMAIN_BYTES, "metrale-%u", zap->domains++);
        for (size_t i = 0; i < count; i++) {
            struct allowed *a = &zap->allowed[zap->count++];
            memcpy(a->domain, domain, MTR_ZAP_DOMAIN_BYTES);
            memcpy(a->key, keys[i], MTR_ZAP_KEY_BYTES);
        }
    }
    pthread_mutex_unlock(&zap->lock);
    return ok || mtr_fail(err, MTR_NO_MEMORY, "no memory for %zu allowed keys", count);
}
