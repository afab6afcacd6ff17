/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Building checkpoints for tests: GGUF and safetensors bytes in a buffer, folders on disk.
 */
#ifndef MTR_UNIT_CHECKPOINT_BUILD_H
#define MTR_UNIT_CHECKPOINT_BUILD_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/buf.h"

/* ---- Numbers and GGUF ------------------------------------------------------------------------ */

static inline void put_uint(struct mtr_buf *b, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        mtr_buf_byte(b, (uint8_t)(v >> 8 * i));
}

static inline void put_text(struct mtr_buf *b, const char *s)
{
    put_uint(b, strlen(s), 8);
    mtr_buf_puts(b, s);
}

static inline void put_head(struct mtr_buf *b, uint32_t version, uint64_t tensors, uint64_t entries)
{
    mtr_buf_puts(b, "GGUF");
    put_uint(b, version, 4);
    put_uint(b, tensors, 8);
    put_uint(b, entries, 8);
}

/* A metadata entry up to its value. */
static inline void put_key(struct mtr_buf *b, const char *key, uint32_t type)
{
    put_text(b, key);
    put_uint(b, type, 4);
}

static inline void put_kv_u32(struct mtr_buf *b, const char *key, uint32_t v)
{
    put_key(b, key, 4);
    put_uint(b, v, 4);
}

static inline void put_kv_f32(struct mtr_buf *b, const char *key, float v)
{
    uint32_t word;
    memcpy(&word, &v, sizeof word);
    put_key(b, key, 6);
    put_uint(b, word, 4);
}

static inline void put_kv_bool(struct mtr_buf *b, const char *key, unsigned v)
{
    put_key(b, key, 7);
    put_uint(b, v, 1);
}

static inline void put_kv_text(struct mtr_buf *b, const char *key, const char *v)
{
    put_key(b, key, 8);
    put_text(b, v);
}

/* An array up to its items. */
static inline void put_kv_array(struct mtr_buf *b, const char *key, uint32_t type, uint64_t count)
{
    put_key(b, key, 9);
    put_uint(b, type, 4);
    put_uint(b, count, 8);
}

/* dims: innermost first, as in the file. */
static inline void put_tensor(struct mtr_buf *b, const char *name, uint32_t rank,
                              const uint64_t *dims, uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put_uint(b, rank, 4);
    for (uint32_t i = 0; i < rank; i++)
        put_uint(b, dims[i], 8);
    put_uint(b, type, 4);
    put_uint(b, offset, 8);
}

static inline void put_padding(struct mtr_buf *b, size_t alignment)
{
    while (b->len % alignment)
        mtr_buf_byte(b, 0);
}

static inline void put_zeros(struct mtr_buf *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        mtr_buf_byte(b, 0);
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static inline void put_safetensors(struct mtr_buf *b, const char *header, size_t data_bytes)
{
    put_uint(b, strlen(header), 8);
    mtr_buf_puts(b, header);
    put_zeros(b, data_bytes);
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* A new empty folder; the path is from malloc. */
static inline char *make_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    ck_assert(asprintf(&path, "%s/mtr-test-XXXXXX", base ? base : "/tmp") > 0);
    ck_assert_ptr_nonnull(mkdtemp(path));
    return path;
}

static inline int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static inline void remove_folder(char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

/* folder/name, in one of a few static buffers. */
static inline const char *in_folder(const char *folder, const char *name)
{
    static char paths[4][1024];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Writes folder/name, making the folders between. */
static inline void write_bytes(const char *folder, const char *name, const void *bytes, size_t len)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *p = path + strlen(folder) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

static inline void write_text(const char *folder, const char *name, const char *text)
{
    write_bytes(folder, name, text, strlen(text));
}

static inline void write_buf(const char *folder, const char *name, struct mtr_buf *b)
{
    write_bytes(folder, name, b->data, b->len);
    mtr_buf_free(b);
}

/* Data that is not part of the repository: $MTR_SHARED, or ../shared beside the sources. NULL:
 * none. */
static inline const char *shared_path(const char *below)
{
    static char path[1024];
    const char *shared = getenv("MTR_SHARED"), *root = getenv("MTR_SOURCE_ROOT");
    if (shared)
        snprintf(path, sizeof path, "%s/%s", shared, below);
    else
        snprintf(path, sizeof path, "%s/../shared/%s", root ? root : ".", below);
    return access(path, F_OK) == 0 ? path : NULL;
}

#endif
