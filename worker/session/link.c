/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The socket's descriptor is edge-triggered, and a send can swallow an edge. So the rule is:
 * whoever sends while another thread may be waiting wakes that thread through the event descriptor,
 * and the waiter drains the socket before it waits again.
 */
#include "worker/session/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/wire/codec.h"

#define RETRY_MS            2 /* between attempts on a full queue */
#define MEMINFO_LINES       64
#define MAX_HEARTBEAT_BYTES 4096

struct mtr_link {
    struct mtr_wire *wire;
    struct mtr_socket *socket;
    int wake;             /* eventfd */
    pthread_mutex_t lock; /* socket, stopping */
    pthread_cond_t stop;
    bool stopping, started;
    pthread_t heartbeats;
    _Atomic uint64_t epoch, last_step;
    uint64_t heard_ns;
    struct mtr_buf out; /* of the calling thread */
};

static uint64_t now_ns(void)
{
    struct mtr_clock c = mtr_clock_monotonic();
    return mtr_now_ns(&c);
}

static uint64_t available_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    for (int i = 0; f && i < MEMINFO_LINES && fgets(line, sizeof line, f); i++)
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return (uint64_t)kib * 1024;
}

static void wake(struct mtr_link *l)
{
    const uint64_t one = 1;
    if (write(l->wake, &one, sizeof one) < 0 && errno != EAGAIN)
        return; /* the waiter has a time limit of its own */
}

/* Called with the lock held. A full queue is no matter: what is in it is as good a sign of life. */
static void send_heartbeat(struct mtr_link *l, struct mtr_buf *out)
{
    Mtr__Heartbeat beat = MTR__HEARTBEAT__INIT;
    Mtr__FromWorker message = MTR__FROM_WORKER__INIT;
    beat.sent_ns = now_ns();
    beat.last_step = l->last_step;
    beat.memory_free_bytes = available_memory();
    message.epoch = l->epoch;
    message.body_case = MTR__FROM_WORKER__BODY_HEARTBEAT;
    message.heartbeat = &beat;
    mtr_buf_clear(out);
    if (mtr_message_pack(out, &message.base))
        mtr_socket_send(l->socket, (struct mtr_str){0}, mtr_buf_view(out), NULL);
}

static void *beat(void *context)
{
    struct mtr_link *l = context;
    struct mtr_buf out = {.limit_bytes = MAX_HEARTBEAT_BYTES};
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    pthread_mutex_lock(&l->lock);
    while (!l->stopping) {
        at.tv_sec += MTR_HEARTBEAT_MS / 1000;
        while (!l->stopping && pthread_cond_timedwait(&l->stop, &l->lock, &at) == 0)
            continue;
        if (l->stopping)
            break;
        send_heartbeat(l, &out);
        wake(l);
        clock_gettime(CLOCK_MONOTONIC, &at); /* no burst after a stop */
    }
    pthread_mutex_unlock(&l->lock);
    mtr_buf_free(&out);
    return NULL;
}

static bool start_heartbeats(struct mtr_link *l, struct mtr_error *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->stop, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&l->lock, NULL);
    errno = pthread_create(&l->heartbeats, NULL, beat, l);
    l->started = errno == 0;
    return l->started || mtr_fail_errno(err, "can't start the heartbeat thread");
}

struct mtr_link *mtr_link_open(const char *address, const struct mtr_wire_keys *keys,
                               struct mtr_error *err)
{
    struct mtr_link *l = calloc(1, sizeof *l);
    if (!l) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the line to the broker");
        return NULL;
    }
    l->out.limit_bytes = MTR_WIRE_MAX_MESSAGE_BYTES;
    l->heard_ns = now_ns();
    l->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->wire = l->wake < 0 ? NULL : mtr_wire_create(err);
    if (l->wake < 0)
        mtr_fail_errno(err, "eventfd");
    if (l->wire)
        l->socket = mtr_socket_connect(l->wire, MTR_SOCKET_DEALER, address, keys, err);
    if (l->socket && start_heartbeats(l, err))
        return l;
    mtr_link_close(l);
    return NULL;
}

void mtr_link_close(struct mtr_link *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stopping = true;
        pthread_cond_signal(&l->stop);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->heartbeats, NULL);
    }
    if (l->socket)
        mtr_socket_close(l->socket);
    mtr_wire_destroy(l->wire);
    if (l->wake >= 0)
        close(l->wake);
    mtr_buf_free(&l->out);
    free(l);
}

void mtr_link_set_epoch(struct mtr_link *l, uint64_t epoch)
{
    l->epoch = epoch;
}

void mtr_link_set_step(struct mtr_link *l, uint64_t step)
{
    l->last_step = step;
}

bool mtr_link_send_bytes(struct mtr_link *l, struct mtr_str bytes, int deadline_ms,
                         struct mtr_error *err)
{
    for (int waited = 0;; waited += RETRY_MS) {
        struct mtr_error why = {0};
        pthread_mutex_lock(&l->lock);
        bool sent = mtr_socket_send(l->socket, (struct mtr_str){0}, bytes, &why);
        pthread_mutex_unlock(&l->lock);
        if (sent)
            return true;
        if (why.code != MTR_BUSY)
            return mtr_fail(err, why.code, "%s", why.message);
        if (waited >= deadline_ms)
            return mtr_fail(err, MTR_TIMEOUT, "the broker takes no messages for %d ms", waited);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * (long)MTR_NS_PER_MS}, NULL);
    }
}

bool mtr_link_send(struct mtr_link *l, Mtr__FromWorker *message, int deadline_ms,
                   struct mtr_error *err)
{
    message->epoch = l->epoch;
    mtr_buf_clear(&l->out);
    if (!mtr_message_pack(&l->out, &message->base))
        return mtr_fail(err, MTR_NO_MEMORY, "no memory to pack a message");
    return mtr_link_send_bytes(l, mtr_buf_view(&l->out), deadline_ms, err);
}

bool mtr_link_receive(struct mtr_link *l, struct mtr_arena *arena, const Mtr__FromBroker **message,
                      struct mtr_error *err)
{
    struct mtr_str peer, bytes;
    *message = NULL;
    pthread_mutex_lock(&l->lock);
    bool ok = mtr_socket_receive(l->socket, arena, &peer, &bytes, err);
    pthread_mutex_unlock(&l->lock);
    if (!ok || !bytes.ptr)
        return ok;
    l->heard_ns = now_ns();
    *message = mtr_message_unpack(arena, &mtr__from_broker__descriptor, bytes, err);
    return *message != NULL;
}

void mtr_link_wait(struct mtr_link *l, int extra_fd, int timeout_us)
{
    struct pollfd fds[3] = {
        {.fd = mtr_socket_fd(l->socket), .events = POLLIN},
        {.fd = l->wake, .events = POLLIN},
        {.fd = extra_fd, .events = POLLIN},
    };
    const struct timespec timeout = {timeout_us / 1000000, timeout_us % 1000000 * 1000L};
    uint64_t count;
    if (ppoll(fds, 3, &timeout, NULL) > 0 && fds[1].revents &&
        read(l->wake, &count, sizeof count) < 0)
        return; /* somebody else's wake-up: nothing to take */
}

uint64_t mtr_link_heard_ns(const struct mtr_link *l)
{
    return l->heard_ns;
}
