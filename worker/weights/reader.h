/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reads pieces of files on threads of its own, ahead of the one who uploads them and in the order
 * in which he wants them.
 *
 *   reader threads ─► buffers, a ring ─► take, upload ... give back ─► reader threads
 *
 * Bytes that the page cache has come from there; others are read past it (O_DIRECT), so that a
 * load neither fills memory with what is read once nor waits for copies. Where a file system can't,
 * the piece is read in the usual way, and where there is no descriptor, from the mapping. What is
 * to be converted is converted by the thread that has read it.
 *
 * The buffers are the caller's, as are files and pieces; all must outlive the reader. One thread
 * calls.
 */
#ifndef MTR_WEIGHTS_READER_H
#define MTR_WEIGHTS_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/checkpoint/checkpoint.h"
#include "common/numeric/format.h"

#define MTR_READER_ALIGNMENT 4096u /* of direct reads: address, offset and length */

struct mtr_read_piece {
    uint32_t file;
    uint64_t offset, bytes; /* in the file */
    enum mtr_format from, to;
    uint64_t elements;
    uint64_t out_bytes; /* as `to` */
    bool inverted;      /* `to` is f32, and 1 / x is wanted */
};

struct mtr_reader_options {
    const struct mtr_checkpoint_file *files;
    const struct mtr_read_piece *pieces; /* [count] */
    uint32_t count;
    void *const *buffers; /* [buffer_count] of what mtr_reader_room() says for the largest piece */
    uint32_t buffer_count;
    uint32_t threads;
};

struct mtr_reader;

/* Bytes of a buffer that a piece needs. */
uint64_t mtr_reader_room(const struct mtr_read_piece *piece);

struct mtr_reader *mtr_reader_start(const struct mtr_reader_options *options,
                                    struct mtr_error *err);

/* The next piece, in its buffer: *data [out_bytes]. Waits for it. */
bool mtr_reader_take(struct mtr_reader *r, const void **data, struct mtr_error *err);

/* The oldest buffer that was taken may be written again. */
void mtr_reader_give(struct mtr_reader *r);

/* Stops after the pieces at hand and frees. NULL is fine. */
void mtr_reader_stop(struct mtr_reader *r);

#endif
