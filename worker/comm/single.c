/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A world of one rank: nothing to add, nothing to wait for. */
#include <stdlib.h>

#include "worker/comm/comm.h"

struct single {
    struct mtr_comm comm;
    struct mtr_backend *backend;
};

static void destroy(struct mtr_comm *c)
{
    free(c);
}

static bool all_reduce(struct mtr_comm *c, struct mtr_stream *s, void *data, size_t count,
                       enum mtr_format format, struct mtr_error *err)
{
    if (format != MTR_F32 && format != MTR_BF16)
        return mtr_fail(err, MTR_UNSUPPORTED, "all_reduce of format %s",
                        mtr_format_info(format)->name);
    return true;
}

static bool all_gather(struct mtr_comm *c, struct mtr_stream *s, void *dst, const void *src,
                       size_t bytes, struct mtr_error *err)
{
    struct mtr_backend *b = ((struct single *)c)->backend;
    return dst == src || b->ops->copy(b, s, dst, src, bytes, err);
}

static bool broadcast(struct mtr_comm *c, struct mtr_stream *s, void *data, size_t bytes,
                      uint32_t root, struct mtr_error *err)
{
    return root == 0 || mtr_fail(err, MTR_INVALID, "broadcast from rank %u in a world of 1", root);
}

static const struct mtr_comm_ops single_ops = {"single", destroy, all_reduce, all_gather,
                                               broadcast};

struct mtr_comm *mtr_comm_single(struct mtr_backend *backend, struct mtr_error *err)
{
    struct single *c = calloc(1, sizeof *c);
    if (!c) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a communicator");
        return NULL;
    }
    *c = (struct single){.comm = {.ops = &single_ops, .size = 1}, .backend = backend};
    return &c->comm;
}
