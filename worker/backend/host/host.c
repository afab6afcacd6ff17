/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The host backend. A launch turns its grid into indices [0, x * y * z), x fastest, and the pool
 * hands them out. Everything is done when a call returns, so streams carry no state, an
 * event is a time, and copies are memory copies.
 */
#include "worker/backend/host/host.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/host/host_kernel.h"
#include "worker/backend/host/machine.h"
#include "worker/backend/host/pool.h"

#define ALIGNMENT  256
#define PAGE_BYTES 4096u
#define HUGE_BYTES (2u << 20) /* allocations from here on ask for huge pages */

struct mtr_kernel {
    const struct mtr_host_entry *entry;
    mtr_host_function function;
};

struct mtr_stream {
    char unused;
};

struct mtr_event {
    uint64_t ns;
};

struct host_backend {
    struct mtr_backend base;
    enum mtr_isa isa;
    struct mtr_pool *pool;
    char *scratch; /* [threads, MTR_HOST_SCRATCH_BYTES] */
    size_t kernel_count;
    struct mtr_kernel *kernels;
    struct mtr_stream stream; /* the only one */
};

static struct host_backend *host_of(struct mtr_backend *b)
{
    return (struct host_backend *)b;
}

/* ---- memory ---- */

/* unit: a power of two */
static void *take(size_t bytes, size_t unit, struct mtr_error *err)
{
    size_t rounded = bytes ? (bytes + unit - 1) / unit * unit : unit;
    void *p = rounded < bytes ? NULL : aligned_alloc(unit, rounded);
    if (!p)
        mtr_fail(err, MTR_NO_MEMORY, "cannot allocate %zu bytes of host memory", bytes);
    return p;
}

static void *host_alloc(struct mtr_backend *b, size_t bytes, struct mtr_error *err)
{
    void *p = take(bytes, bytes >= HUGE_BYTES ? HUGE_BYTES : ALIGNMENT, err);
    if (p && bytes >= HUGE_BYTES)
        madvise(p, bytes, MADV_HUGEPAGE); /* advice only: nothing depends on it */
    return p;
}

/* The first token of a model with 30 layers touches 60 places: small pages make that cheap. */
static void *host_alloc_sparse(struct mtr_backend *b, size_t bytes, struct mtr_error *err)
{
    void *p = take(bytes, PAGE_BYTES, err);
    if (p)
        madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

static void host_free(struct mtr_backend *b, void *p)
{
    free(p);
}

static bool host_copy(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                      size_t bytes, struct mtr_error *err)
{
    memmove(dst, src, bytes);
    return true;
}

static bool host_fill(struct mtr_backend *b, struct mtr_stream *s, void *dst, uint8_t value,
                      size_t bytes, struct mtr_error *err)
{
    memset(dst, value, bytes);
    return true;
}

/* ---- kernels ---- */

static struct mtr_kernel *host_kernel(struct mtr_backend *b, const char *module,
                                      const char *function, struct mtr_error *err)
{
    struct host_backend *h = host_of(b);
    for (size_t i = 0; i < h->kernel_count; i++) {
        const struct mtr_host_entry *e = h->kernels[i].entry;
        if (strcmp(e->module, module) == 0 && strcmp(e->function, function) == 0)
            return &h->kernels[i];
    }
    mtr_fail(err, MTR_NOT_FOUND, "the host class has no kernel %s of module %s", function, module);
    return NULL;
}

struct launch {
    mtr_host_function function;
    const void *args;
    const uint32_t *grid;
    char *scratch;
};

static void launch_block(void *context, uint32_t i, uint32_t thread)
{
    const struct launch *l = context;
    const uint32_t *grid = l->grid;
    struct mtr_host_block block = {
        .x = i % grid[0],
        .y = i / grid[0] % grid[1],
        .z = i / grid[0] / grid[1],
        .grid_x = grid[0],
        .grid_y = grid[1],
        .grid_z = grid[2],
        .scratch = l->scratch + (size_t)thread * MTR_HOST_SCRATCH_BYTES,
    };
    l->function(l->args, &block);
}

static bool host_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_kernel *k,
                        const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                        const void *args, size_t args_bytes, struct mtr_error *err)
{
    struct host_backend *h = host_of(b);
    uint32_t count;
    if (__builtin_mul_overflow(grid[0], grid[1], &count) ||
        __builtin_mul_overflow(count, grid[2], &count))
        return mtr_fail(err, MTR_TOO_LARGE, "%s: a grid of %u x %u x %u blocks", k->entry->function,
                        grid[0], grid[1], grid[2]);
    struct launch l = {k->function, args, grid, h->scratch};
    mtr_pool_run(h->pool, count, launch_block, &l);
    return true;
}

struct parallel {
    void (*work)(void *context, uint32_t index);
    void *context;
};

static void parallel_index(void *context, uint32_t index, uint32_t thread)
{
    const struct parallel *p = context;
    p->work(p->context, index);
}

static void host_parallel(struct mtr_backend *b, uint32_t count,
                          void (*work)(void *context, uint32_t index), void *context)
{
    struct parallel p = {work, context};
    mtr_pool_run(host_of(b)->pool, count, parallel_index, &p);
}

/* ---- streams and events ---- */

static struct mtr_stream *host_stream_create(struct mtr_backend *b, struct mtr_error *err)
{
    return &host_of(b)->stream;
}

static void host_stream_destroy(struct mtr_backend *b, struct mtr_stream *s)
{
}

static bool host_stream_wait(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    return true;
}

static struct mtr_event *host_event_create(struct mtr_backend *b, struct mtr_error *err)
{
    struct mtr_event *e = calloc(1, sizeof *e);
    if (!e)
        mtr_fail(err, MTR_NO_MEMORY, "no memory for an event");
    return e;
}

static void host_event_destroy(struct mtr_backend *b, struct mtr_event *e)
{
    free(e);
}

static bool host_event_record(struct mtr_backend *b, struct mtr_event *e, struct mtr_stream *s,
                              struct mtr_error *err)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return true;
}

static bool host_event_wait(struct mtr_backend *b, struct mtr_event *e, struct mtr_error *err)
{
    return true;
}

static bool host_event_done(struct mtr_backend *b, struct mtr_event *e, bool *done,
                            struct mtr_error *err)
{
    *done = true;
    return true;
}

static bool host_event_elapsed(struct mtr_backend *b, struct mtr_event *from, struct mtr_event *to,
                               uint64_t *ns, struct mtr_error *err)
{
    *ns = to->ns > from->ns ? to->ns - from->ns : 0;
    return true;
}

static bool host_stream_wait_event(struct mtr_backend *b, struct mtr_stream *s, struct mtr_event *e,
                                   struct mtr_error *err)
{
    return true;
}

/* ---- graphs: a launch is a function call here, there is nothing to capture ---- */

static bool no_graphs(struct mtr_error *err)
{
    return mtr_fail(err, MTR_UNSUPPORTED, "the host class has no graphs");
}

static bool host_graph_begin(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    return no_graphs(err);
}

static struct mtr_graph *host_graph_end(struct mtr_backend *b, struct mtr_stream *s,
                                        struct mtr_error *err)
{
    no_graphs(err);
    return NULL;
}

static bool host_graph_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_graph *g,
                              struct mtr_error *err)
{
    return no_graphs(err);
}

static void host_graph_destroy(struct mtr_backend *b, struct mtr_graph *g)
{
}

/* ---- life ---- */

static bool host_info(struct mtr_backend *b, struct mtr_device_info *out, struct mtr_error *err)
{
    struct host_backend *h = host_of(b);
    *out = (struct mtr_device_info){.hardware = "host",
                                    .processors = mtr_pool_threads(h->pool),
                                    .unified = true,
                                    .direct = true};
    char name[64];
    mtr_machine_name(name, sizeof name);
    snprintf(out->name, sizeof out->name, "%s (%s)", name, mtr_isa_name(h->isa));
    mtr_machine_memory(&out->memory_total_bytes, &out->memory_free_bytes);
    return true;
}

static void host_destroy(struct mtr_backend *b)
{
    struct host_backend *h = host_of(b);
    mtr_pool_destroy(h->pool);
    free(h->scratch);
    free(h->kernels);
    free(h);
}

static const struct mtr_backend_ops host_ops = {
    .name = "host",
    .destroy = host_destroy,
    .info = host_info,
    .alloc = host_alloc,
    .alloc_sparse = host_alloc_sparse,
    .free = host_free,
    .alloc_pinned = host_alloc,
    .free_pinned = host_free,
    .upload = host_copy,
    .download = host_copy,
    .copy = host_copy,
    .fill = host_fill,
    .kernel = host_kernel,
    .launch = host_launch,
    .parallel = host_parallel,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_wait = host_stream_wait,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .event_wait = host_event_wait,
    .event_done = host_event_done,
    .event_elapsed_ns = host_event_elapsed,
    .stream_wait_event = host_stream_wait_event,
    .graph_begin = host_graph_begin,
    .graph_end = host_graph_end,
    .graph_launch = host_graph_launch,
    .graph_destroy = host_graph_destroy,
};

static bool choose_isa(const char *wanted, enum mtr_isa *out, struct mtr_error *err)
{
    *out = mtr_host_best_isa();
    if (!wanted)
        return true;
    for (int i = 0; i < MTR_ISA_COUNT; i++) {
        enum mtr_isa isa = (enum mtr_isa)i;
        if (strcmp(wanted, mtr_isa_name(isa)) != 0)
            continue;
        if (!mtr_host_isa_available(isa))
            return mtr_fail(err, MTR_UNSUPPORTED,
                            "this CPU or build has no %s kernels; the best is %s", wanted,
                            mtr_isa_name(*out));
        *out = isa;
        return true;
    }
    return mtr_fail(err, MTR_INVALID,
                    "instruction set %s is unknown; there are portable, neon, avx2 and avx512",
                    wanted);
}

static bool bind_kernels(struct host_backend *h, struct mtr_error *err)
{
    const struct mtr_host_entry *entries = mtr_host_kernels(&h->kernel_count);
    h->kernels = calloc(h->kernel_count, sizeof *h->kernels);
    if (!h->kernels)
        return mtr_fail(err, MTR_NO_MEMORY, "no memory for %zu kernels", h->kernel_count);
    for (size_t i = 0; i < h->kernel_count; i++)
        h->kernels[i] = (struct mtr_kernel){&entries[i], mtr_host_variant(&entries[i], h->isa)};
    return true;
}

struct mtr_backend *mtr_host_backend_create(const struct mtr_host_options *options,
                                            struct mtr_error *err)
{
    uint32_t threads = options->threads ? options->threads : mtr_pool_cores();
    if (threads > MTR_POOL_MAX_THREADS && !options->threads)
        threads = MTR_POOL_MAX_THREADS;
    struct host_backend *h = calloc(1, sizeof *h);
    if (!h) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the host backend");
        return NULL;
    }
    h->base.ops = &host_ops;
    if (!choose_isa(options->instruction_set, &h->isa, err) || !bind_kernels(h, err))
        goto no_kernels;
    h->pool = mtr_pool_create(threads, err);
    if (!h->pool)
        goto no_kernels;
    h->scratch = take((size_t)threads * MTR_HOST_SCRATCH_BYTES, PAGE_BYTES, err);
    if (h->scratch)
        return &h->base;
    mtr_pool_destroy(h->pool);
no_kernels:
    free(h->kernels);
    free(h);
    return NULL;
}
