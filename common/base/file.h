/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Files, read only. (The one part of base that does I/O.)
 */
#ifndef MTR_BASE_FILE_H
#define MTR_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

/* A whole file mapped read-only. A regular file only; empty files map to {NULL, 0}. */
struct mtr_file {
    const uint8_t *data; /* [size] */
    uint64_t size;
    int fd; /* kept open, for direct I/O by others */
};

bool mtr_file_map(struct mtr_file *f, const char *path, struct mtr_error *err);
void mtr_file_unmap(struct mtr_file *f); /* fine on a zeroed struct with fd = -1 too */

/* Reads a whole file into the arena; MTR_TOO_LARGE above limit_bytes. A NUL stands behind it. */
bool mtr_file_read(struct mtr_arena *arena, const char *path, size_t limit_bytes,
                   struct mtr_str *out, struct mtr_error *err);

bool mtr_file_exists(const char *path);
bool mtr_dir_exists(const char *path);

#endif
