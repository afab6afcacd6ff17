/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Piece k has buffer k mod buffer_count. A thread claims the next piece when the buffer's last
 * piece was given back; pieces get ready in any order and are taken in theirs.
 */
#include "worker/weights/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "worker/weights/convert.h"

#define MAX_THREADS 64

struct mtr_reader {
    struct mtr_reader_options o;
    pthread_mutex_t lock;
    pthread_cond_t ready_changed, room_changed;
    uint32_t next, taken, given; /* pieces */
    bool *ready, *nan;           /* [buffer_count]: it is there; an element is none */
    bool stop, failed;
    struct mtr_error error; /* the first */
    int *direct;            /* [files of the pieces] O_DIRECT, or -1 */
    uint32_t file_count;
    uint32_t thread_count;
    pthread_t threads[MAX_THREADS];
};

static uint64_t up(uint64_t n)
{
    return (n + MTR_READER_ALIGNMENT - 1) & ~(uint64_t)(MTR_READER_ALIGNMENT - 1);
}

/* Aligned stretches around the piece, at an aligned address. */
static uint64_t raw_room(const struct mtr_read_piece *p)
{
    return up(p->bytes) + 3 * MTR_READER_ALIGNMENT;
}

uint64_t mtr_reader_room(const struct mtr_read_piece *p)
{
    return p->from == p->to ? raw_room(p) : p->out_bytes;
}

/* ---- reading ---- */

/* All of [offset, offset + bytes), or what is wrong. */
static bool read_plain(const struct mtr_checkpoint_file *f, uint64_t offset, uint64_t bytes,
                       uint8_t *dst, struct mtr_error *err)
{
    if (f->map.fd < 0) {
        memcpy(dst, f->map.data + offset, bytes);
        return true;
    }
    while (bytes > 0) {
        ssize_t n = pread(f->map.fd, dst, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return mtr_fail_errno(err, "reading %s", f->path);
        if (n == 0)
            return mtr_fail(err, MTR_IO, "%s has become shorter: no byte at %llu", f->path,
                            (unsigned long long)offset);
        dst += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return true;
}

/* Whether all of it was in the page cache. */
static bool read_cached(const struct mtr_checkpoint_file *f, uint64_t offset, uint64_t bytes,
                        uint8_t *dst)
{
    struct iovec to = {dst, bytes};
    return f->map.fd >= 0 &&
           preadv2(f->map.fd, &to, 1, (off_t)offset, RWF_NOWAIT) == (ssize_t)bytes;
}

/* dst, offset and length are aligned; false when that many bytes did not come. */
static bool read_direct(int fd, uint64_t offset, uint64_t needed, uint64_t length, uint8_t *dst)
{
    uint64_t got = 0;
    while (fd >= 0 && got < needed) {
        ssize_t n = pread(fd, dst + got, length - got, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || (n % MTR_READER_ALIGNMENT != 0 && got + (uint64_t)n < needed))
            return false;
        got += (uint64_t)n;
    }
    return fd >= 0;
}

/* Reads a piece as it stands in the file into `room` [raw_room]; where its first byte is. */
static uint8_t *read_raw(struct mtr_reader *r, const struct mtr_read_piece *p, void *room,
                         struct mtr_error *err)
{
    const struct mtr_checkpoint_file *f = &r->o.files[p->file];
    uint64_t skip = p->offset % MTR_READER_ALIGNMENT, needed = skip + p->bytes;
    uint8_t *aligned = (uint8_t *)up((uintptr_t)room);
    if (read_cached(f, p->offset, p->bytes, aligned + skip) ||
        read_direct(r->direct[p->file], p->offset - skip, needed, up(needed), aligned) ||
        read_plain(f, p->offset, p->bytes, aligned + skip, err))
        return aligned + skip;
    return NULL;
}

/* GPU kernels widen e4m3 without looking for the one code that is no number. */
static bool has_nan(const struct mtr_read_piece *p, const uint8_t *data)
{
    uint8_t found = 0;
    for (uint64_t i = 0; p->to == MTR_E4M3 && i < p->out_bytes; i++)
        found |= (data[i] & 0x7f) == 0x7f;
    return found;
}

/* A thread's own memory for what it converts. */
struct raw {
    void *p;
    uint64_t bytes;
};

static bool grow(struct raw *raw, uint64_t bytes, struct mtr_error *err)
{
    if (raw->bytes >= bytes)
        return true;
    free(raw->p);
    raw->p = malloc(bytes);
    raw->bytes = raw->p ? bytes : 0;
    return raw->p ||
           mtr_fail(err, MTR_NO_MEMORY, "no memory to read %llu bytes", (unsigned long long)bytes);
}

static bool read_piece(struct mtr_reader *r, uint32_t k, struct raw *raw, struct mtr_error *err)
{
    const struct mtr_read_piece *p = &r->o.pieces[k];
    void *buffer = r->o.buffers[k % r->o.buffer_count];
    bool same = p->from == p->to;
    if (!same && !grow(raw, raw_room(p), err))
        return false;
    uint8_t *data = read_raw(r, p, same ? buffer : raw->p, err);
    if (data && !same) {
        mtr_convert(p->from, data, p->to, buffer, p->elements);
        data = buffer;
    }
    if (data && p->inverted)
        mtr_invert(data, p->elements);
    if (data)
        r->nan[k % r->o.buffer_count] = has_nan(p, data);
    return data != NULL;
}

/* ---- threads ---- */

/* The next piece whose buffer is free; false when there is nothing more to do. */
static bool claim(struct mtr_reader *r, uint32_t *k)
{
    while (!r->stop && !r->failed && r->next < r->o.count &&
           r->next - r->given >= r->o.buffer_count)
        pthread_cond_wait(&r->room_changed, &r->lock);
    *k = r->next;
    if (r->stop || r->failed || r->next >= r->o.count)
        return false;
    r->next++;
    return true;
}

static void *run(void *context)
{
    struct mtr_reader *r = context;
    struct mtr_error err = {0};
    struct raw raw = {0};
    uint32_t k;
    pthread_mutex_lock(&r->lock);
    while (claim(r, &k)) {
        pthread_mutex_unlock(&r->lock);
        bool ok = read_piece(r, k, &raw, &err);
        pthread_mutex_lock(&r->lock);
        if (ok)
            r->ready[k % r->o.buffer_count] = true;
        else if (!r->failed)
            r->error = err;
        r->failed = r->failed || !ok;
        pthread_cond_broadcast(ok ? &r->ready_changed : &r->room_changed);
        if (!ok)
            pthread_cond_broadcast(&r->ready_changed);
    }
    pthread_mutex_unlock(&r->lock);
    free(raw.p);
    return NULL;
}

/* The same file again, past the page cache; -1 where that is not to be had. */
static int open_direct(const struct mtr_checkpoint_file *f)
{
    struct stat a, b;
    int fd = f->map.fd < 0 ? -1 : open(f->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &a) == 0 && fstat(f->map.fd, &b) == 0 && a.st_dev == b.st_dev &&
        a.st_ino == b.st_ino)
        return fd;
    close(fd); /* somebody has replaced it since it was mapped */
    return -1;
}

static bool open_files(struct mtr_reader *r, struct mtr_error *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->o.count; i++)
        count = r->o.pieces[i].file >= count ? r->o.pieces[i].file + 1 : count;
    r->direct = calloc(count + 1u, sizeof *r->direct);
    r->ready = calloc(r->o.buffer_count, sizeof *r->ready);
    r->nan = calloc(r->o.buffer_count, sizeof *r->nan);
    if (!r->direct || !r->ready || !r->nan)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory to read %u files", count);
    for (; r->file_count < count; r->file_count++)
        r->direct[r->file_count] = open_direct(&r->o.files[r->file_count]);
    return true;
}

static bool start_threads(struct mtr_reader *r, struct mtr_error *err)
{
    sigset_t all, before;
    uint32_t wanted = r->o.threads < MAX_THREADS ? r->o.threads : MAX_THREADS;
    int failed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
    for (; r->thread_count < wanted && !failed; r->thread_count += !failed)
        failed = pthread_create(&r->threads[r->thread_count], NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return r->thread_count || mtr_fail_errno(err, "starting a thread that reads weights");
}

struct mtr_reader *mtr_reader_start(const struct mtr_reader_options *options, struct mtr_error *err)
{
    struct mtr_reader *r = calloc(1, sizeof *r);
    if (!r) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory to read weights");
        return NULL;
    }
    r->o = *options;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->ready_changed, NULL);
    pthread_cond_init(&r->room_changed, NULL);
    if (open_files(r, err) && start_threads(r, err))
        return r;
    mtr_reader_stop(r);
    return NULL;
}

bool mtr_reader_take(struct mtr_reader *r, const void **data, struct mtr_error *err)
{
    uint32_t slot = r->taken % r->o.buffer_count;
    pthread_mutex_lock(&r->lock);
    while (!r->ready[slot] && !r->failed)
        pthread_cond_wait(&r->ready_changed, &r->lock);
    bool ok = r->ready[slot];
    r->ready[slot] = false;
    pthread_mutex_unlock(&r->lock);
    if (!ok)
        return mtr_fail(err, r->error.code, "%s", r->error.message);
    if (r->nan[slot])
        return mtr_fail(err, MTR_INVALID, "has an e4m3 element that is no number");
    const struct mtr_read_piece *p = &r->o.pieces[r->taken++];
    uint8_t *buffer = r->o.buffers[slot];
    if (p->from == p->to)
        buffer = (uint8_t *)up((uintptr_t)buffer) + p->offset % MTR_READER_ALIGNMENT;
    *data = buffer;
    return true;
}

void mtr_reader_give(struct mtr_reader *r)
{
    pthread_mutex_lock(&r->lock);
    r->given++;
    pthread_cond_broadcast(&r->room_changed);
    pthread_mutex_unlock(&r->lock);
}

void mtr_reader_stop(struct mtr_reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->room_changed);
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < r->thread_count; i++)
        pthread_join(r->threads[i], NULL);
    for (uint32_t i = 0; i < r->file_count; i++)
        if (r->direct[i] >= 0)
            close(r->direct[i]);
    pthread_cond_destroy(&r->room_changed);
    pthread_cond_destroy(&r->ready_changed);
    pthread_mutex_destroy(&r->lock);
    free(r->ready);
    free(r->nan);
    free(r->direct);
    free(r);
}
