/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of the CUDA backend share.
 */
#ifndef MTR_CUDA_INTERNAL_H
#define MTR_CUDA_INTERNAL_H

#include <pthread.h>

#include "common/base/arena.h"
#include "worker/backend/cuda/cuda.h"
#include "worker/backend/cuda/driver.h"
#include "worker/backend/host/pool.h"

struct mtr_cuda_device {
    int handle;
    int major, minor; /* compute capability */
    int processors;
    int shared_bytes; /* of a block, static and dynamic, at most */
    bool integrated;
    char name[96];
    uint64_t memory_bytes;
};

struct mtr_kernel {
    struct mtr_kernel *next;
    struct cu_function *function;
    const char *module, *name;
    size_t args_bytes; /* of its parameter; 0: this driver can't say */
    bool waits;        /* by itself, for the kernel before it */
};

/* A module that is loaded. */
struct mtr_cuda_module {
    struct mtr_cuda_module *next;
    const char *name;
    struct cu_module *handle;
    bool waits; /* its kernels do, by themselves, for the ones before them */
};

struct mtr_cuda {
    struct mtr_backend base;
    struct mtr_cuda_driver driver;
    struct mtr_cuda_device device;
    struct cu_context *context;
    struct cu_stream *stream; /* the default one */
    pthread_t owner;          /* the context is current here */
    struct mtr_pool *pool;
    bool no_overlap;
    const struct mtr_kernel_target *target;
    struct mtr_arena arena; /* of kernels and modules */
    struct mtr_kernel *kernels;
    struct mtr_cuda_module *modules;
    char loss[MTR_ERROR_MESSAGE_BYTES]; /* what was said when the device was lost */
};

static inline struct mtr_cuda *mtr_cuda_of(struct mtr_backend *b)
{
    return (struct mtr_cuda *)b;
}

static inline struct cu_stream *mtr_cuda_stream(struct mtr_cuda *c, struct mtr_stream *s)
{
    return s ? (struct cu_stream *)s : c->stream;
}

/* Before any call of the driver: false when the device is lost. */
bool mtr_cuda_enter(struct mtr_cuda *c, struct mtr_error *err);

/* Whether the driver said yes; else fills err with what was being done (printf's words) and why
 * not, and remembers a loss. */
bool mtr_cuda_check(struct mtr_cuda *c, int result, struct mtr_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

bool mtr_cuda_find_device(const struct mtr_cuda_driver *d, uint32_t ordinal,
                          struct mtr_cuda_device *out, struct mtr_error *err);

/* Whether an image runs on the device. */
bool mtr_cuda_fits(uint32_t image, const struct mtr_cuda_device *device);

/* Whether its kernels wait by themselves for the ones before them: none older than sm_90 can. */
bool mtr_cuda_image_waits(uint32_t image);

/* The target of a class by name, or of the device if hardware is NULL. */
const struct mtr_kernel_target *mtr_cuda_find_target(const struct mtr_cuda_device *device,
                                                     const char *hardware, struct mtr_error *err);

/* The leaf of that model and quantization, if its images fit the device; else nothing changes. */
void mtr_cuda_use_target(struct mtr_backend *b, const char *model, const char *quant);

/* The function of the target's module, loaded if it is the first of it. */
struct mtr_kernel *mtr_cuda_kernel(struct mtr_backend *b, const char *module, const char *function,
                                   struct mtr_error *err);
void mtr_cuda_unload(struct mtr_cuda *c);

bool mtr_cuda_graph_begin(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err);
struct mtr_graph *mtr_cuda_graph_end(struct mtr_backend *b, struct mtr_stream *s,
                                     struct mtr_error *err);
bool mtr_cuda_graph_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_graph *g,
                           struct mtr_error *err);
void mtr_cuda_graph_destroy(struct mtr_backend *b, struct mtr_graph *g);

#endif
