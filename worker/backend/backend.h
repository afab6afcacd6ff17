/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A device: memory, copies, kernels, streams, events, graphs. A table of functions with one
 * implementation a directory: host/ (this machine's CPU), cuda/ (driver API), mock/ (records what
 * it is asked, for unit tests).
 *
 * Device addresses are plain pointers (on CUDA they must not be read by the host). Calls on one
 * stream run in order; a NULL stream is the default one. Every function that can fail says so and
 * fills err; a backend whose device is lost fails everything from then on with MTR_IO and
 * `lost` set. Not thread-safe but for alloc_pinned, copy and stream functions used on different
 * streams (weight loading).
 */
#ifndef MTR_BACKEND_H
#define MTR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct mtr_stream;
struct mtr_event;
struct mtr_graph;
struct mtr_tensor_map; /* kernels/args/tensor_map.h */
struct mtr_kernel;     /* a function that can be launched; owned by the backend */

struct mtr_device_info {
    char name[96];     /* "AMD EPYC 9654 (avx512)" */
    char hardware[32]; /* kernel class: "host", "hopper", "gb10", "b200" */
    uint64_t memory_total_bytes;
    uint64_t memory_free_bytes;
    uint32_t processors; /* threads of the host pool, or SMs */
    bool unified;        /* device and host share the memory of this machine */
    bool direct;         /* this process can read and write at device addresses */
    bool graphs;         /* capture and replay work */
};

struct mtr_backend {
    const struct mtr_backend_ops *ops;
    bool lost;
};

struct mtr_backend_ops {
    const char *name;
    void (*destroy)(struct mtr_backend *b);
    bool (*info)(struct mtr_backend *b, struct mtr_device_info *out, struct mtr_error *err);

    /* Memory. alloc: 256-byte aligned, content undefined. alloc_sparse: the same for memory that
     * fills slowly (caches): where the device can, it costs what is touched, in small pieces. */
    void *(*alloc)(struct mtr_backend *b, size_t bytes, struct mtr_error *err);
    void *(*alloc_sparse)(struct mtr_backend *b, size_t bytes, struct mtr_error *err);
    void (*free)(struct mtr_backend *b, void *p);
    void *(*alloc_pinned)(struct mtr_backend *b, size_t bytes, struct mtr_error *err);
    void (*free_pinned)(struct mtr_backend *b, void *p);
    bool (*upload)(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                   size_t bytes, struct mtr_error *err);
    bool (*download)(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                     size_t bytes, struct mtr_error *err);
    bool (*copy)(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                 size_t bytes, struct mtr_error *err);
    bool (*fill)(struct mtr_backend *b, struct mtr_stream *s, void *dst, uint8_t value,
                 size_t bytes, struct mtr_error *err);

    /* Kernels. The same names on every class; NULL and MTR_NOT_FOUND when the class lacks one.
     * `args` is the struct of kernels/args for the kernel's family, copied before launch returns.
     * use_target, before the first look-up of what it changes: those that the build has for this
     * model and format alone (kernels/<class>/<model>/<quant>), if any; NULL where a class has one
     * set for all. */
    void (*use_target)(struct mtr_backend *b, const char *model, const char *quant);
    struct mtr_kernel *(*kernel)(struct mtr_backend *b, const char *module, const char *function,
                                 struct mtr_error *err);
    bool (*launch)(struct mtr_backend *b, struct mtr_stream *s, struct mtr_kernel *k,
                   const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                   const void *args, size_t args_bytes, struct mtr_error *err);

    /* How the device's copy engine sees a bf16 matrix [rows, cols], row_bytes from row to row, in
     * boxes of box_rows rows and MTR_TENSOR_MAP_COLS columns, swizzled by 128 bytes. NULL: this
     * class's kernels need none. */
    bool (*tensor_map)(struct mtr_backend *b, struct mtr_tensor_map *out, const void *address,
                       uint64_t rows, uint64_t cols, uint64_t row_bytes, uint32_t box_rows,
                       struct mtr_error *err);

    /* Runs work(context, i) for i in [0, count) on the host's threads and returns when all are
     * done; in any order. For host work beside kernels (sampling). NULL: the caller runs them
     * itself. */
    void (*parallel)(struct mtr_backend *b, uint32_t count,
                     void (*work)(void *context, uint32_t index), void *context);

    struct mtr_stream *(*stream_create)(struct mtr_backend *b, struct mtr_error *err);
    void (*stream_destroy)(struct mtr_backend *b, struct mtr_stream *s);
    bool (*stream_wait)(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err);

    struct mtr_event *(*event_create)(struct mtr_backend *b, struct mtr_error *err);
    void (*event_destroy)(struct mtr_backend *b, struct mtr_event *e);
    bool (*event_record)(struct mtr_backend *b, struct mtr_event *e, struct mtr_stream *s,
                         struct mtr_error *err);
    bool (*event_wait)(struct mtr_backend *b, struct mtr_event *e, struct mtr_error *err);
    bool (*event_done)(struct mtr_backend *b, struct mtr_event *e, bool *done,
                       struct mtr_error *err); /* without waiting */
    bool (*event_elapsed_ns)(struct mtr_backend *b, struct mtr_event *from, struct mtr_event *to,
                             uint64_t *ns, struct mtr_error *err);
    bool (*stream_wait_event)(struct mtr_backend *b, struct mtr_stream *s, struct mtr_event *e,
                              struct mtr_error *err);

    /* Graphs, where info.graphs. */
    bool (*graph_begin)(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err);
    struct mtr_graph *(*graph_end)(struct mtr_backend *b, struct mtr_stream *s,
                                   struct mtr_error *err);
    bool (*graph_launch)(struct mtr_backend *b, struct mtr_stream *s, struct mtr_graph *g,
                         struct mtr_error *err);
    void (*graph_destroy)(struct mtr_backend *b, struct mtr_graph *g);
};

#endif
