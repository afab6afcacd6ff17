/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files are opened without waiting (a FIFO under a model's name must not hang a server) and only
 * regular ones are accepted. The kernel's own files say size 0 and have content; mtr_file_read
 * copes.
 */
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"

#define READ_STEP_BYTES 65536u

static int open_regular(const char *path, struct stat *st, struct mtr_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        bool missing = errno == ENOENT || errno == ENOTDIR;
        mtr_fail_errno(err, "cannot open %s", path);
        if (missing && err)
            err->code = MTR_NOT_FOUND;
        return -1;
    }
    if (fstat(fd, st) < 0) {
        mtr_fail_errno(err, "cannot stat %s", path);
    } else if (!S_ISREG(st->st_mode)) {
        mtr_fail(err, MTR_INVALID, "%s is %s, expected a regular file", path,
                 S_ISDIR(st->st_mode) ? "a directory" : "a device, pipe or socket");
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

bool mtr_file_map(struct mtr_file *f, const char *path, struct mtr_error *err)
{
    struct stat st;
    *f = (struct mtr_file){.fd = -1};
    int fd = open_regular(path, &st, err);
    if (fd < 0)
        return false;
    void *data = NULL;
    if (st.st_size > 0) {
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) {
            mtr_fail_errno(err, "cannot map %s (%lld bytes)", path, (long long)st.st_size);
            close(fd);
            return false;
        }
    }
    *f = (struct mtr_file){data, (uint64_t)st.st_size, fd};
    return true;
}

void mtr_file_unmap(struct mtr_file *f)
{
    if (f->data)
        munmap((void *)f->data, (size_t)f->size);
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct mtr_file){.fd = -1};
}

/* One read(2) that starts again when a signal interrupts it. */
static ssize_t read_some(int fd, void *into, size_t len)
{
    ssize_t n;
    do
        n = read(fd, into, len);
    while (n < 0 && errno == EINTR);
    return n;
}

static bool read_sized(struct mtr_arena *arena, int fd, const char *path, size_t size,
                       struct mtr_str *out, struct mtr_error *err)
{
    char *data = mtr_arena_alloc(arena, size + 1);
    if (!data)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %s (%zu bytes)", path, size);
    size_t len = 0;
    while (len < size) {
        ssize_t n = read_some(fd, data + len, size - len);
        if (n < 0)
            return mtr_fail_errno(err, "cannot read %s", path);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    data[len] = 0;
    *out = (struct mtr_str){data, len};
    return true;
}

static bool read_unsized(struct mtr_arena *arena, int fd, const char *path, size_t limit_bytes,
                         struct mtr_str *out, struct mtr_error *err)
{
    struct mtr_buf b = {0};
    ssize_t n = 1;
    while (n > 0 && b.len <= limit_bytes && mtr_buf_reserve(&b, READ_STEP_BYTES)) {
        n = read_some(fd, b.data + b.len, READ_STEP_BYTES);
        b.len += n > 0 ? (size_t)n : 0;
    }
    bool ok = false;
    if (n < 0) {
        mtr_fail_errno(err, "cannot read %s", path);
    } else if (b.len > limit_bytes) {
        mtr_fail(err, MTR_TOO_LARGE, "%s is larger than the limit of %zu bytes", path, limit_bytes);
    } else {
        *out = mtr_arena_str(arena, mtr_buf_view(&b));
        ok = out->ptr && !b.failed;
        if (!ok)
            mtr_fail(err, MTR_NO_MEMORY, "no memory for %s", path);
    }
    mtr_buf_free(&b);
    return ok;
}

bool mtr_file_read(struct mtr_arena *arena, const char *path, size_t limit_bytes,
                   struct mtr_str *out, struct mtr_error *err)
{
    struct stat st;
    int fd = open_regular(path, &st, err);
    if (fd < 0)
        return false;
    bool ok;
    if ((uint64_t)st.st_size > limit_bytes)
        ok = mtr_fail(err, MTR_TOO_LARGE, "%s has %lld bytes, the limit is %zu", path,
                      (long long)st.st_size, limit_bytes);
    else if (st.st_size > 0)
        ok = read_sized(arena, fd, path, (size_t)st.st_size, out, err);
    else
        ok = read_unsized(arena, fd, path, limit_bytes, out, err);
    close(fd);
    return ok;
}

bool mtr_file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool mtr_dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
