/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ranks of one model talking to each other: a table of functions, like backend.h.
 *
 * One communicator a worker. All ranks call the same functions in the same order; the work is
 * queued on the stream (or done when the call returns, where that is no different). Every wait
 * between ranks has a deadline and its error names the peer. `single` is the world of one rank:
 * every collective is the identity.
 */
#ifndef MTR_COMM_COMM_H
#define MTR_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/numeric/format.h"
#include "worker/backend/backend.h"

struct mtr_comm {
    const struct mtr_comm_ops *ops;
    uint32_t rank, size;
};

struct mtr_comm_ops {
    const char *name;
    void (*destroy)(struct mtr_comm *c);
    /* data [count] of format F32 or BF16 becomes the sum over ranks, added in rank order. */
    bool (*all_reduce)(struct mtr_comm *c, struct mtr_stream *s, void *data, size_t count,
                       enum mtr_format format, struct mtr_error *err);
    /* dst [size, bytes] gets src [bytes] of every rank. dst + rank * bytes may be src. */
    bool (*all_gather)(struct mtr_comm *c, struct mtr_stream *s, void *dst, const void *src,
                       size_t bytes, struct mtr_error *err);
    bool (*broadcast)(struct mtr_comm *c, struct mtr_stream *s, void *data, size_t bytes,
                      uint32_t root, struct mtr_error *err);
};

/* The communicator of a world of one. The backend must outlive it. */
struct mtr_comm *mtr_comm_single(struct mtr_backend *backend, struct mtr_error *err);

#endif
