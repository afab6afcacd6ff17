/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of backend.h over the driver's functions. Handles of streams, events and graphs are the
 * driver's own; device addresses are its numbers as pointers.
 *
 * The context is the device's primary one. It is current in the thread that made the backend;
 * other threads make it current with each call, which costs them a fraction of a microsecond.
 */
#include "worker/backend/cuda/cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/args/tensor_map.h"
#include "worker/backend/cuda/internal.h"

#define MAX_THREADS 8 /* of the pool, when nobody says */

/* ---- what every call does ---- */

static bool is_lost(const struct mtr_cuda *c)
{
    return __atomic_load_n(&c->base.lost, __ATOMIC_ACQUIRE);
}

/* The first loss is the one that is told. */
static void lose(struct mtr_cuda *c, const char *why)
{
    if (is_lost(c))
        return;
    snprintf(c->loss, sizeof c->loss, "%s", why);
    __atomic_store_n(&c->base.lost, true, __ATOMIC_RELEASE);
}

bool mtr_cuda_check(struct mtr_cuda *c, int result, struct mtr_error *err, const char *format, ...)
{
    char doing[256], error[256], all[MTR_ERROR_MESSAGE_BYTES];
    va_list args;
    if (result == CU_SUCCESS)
        return true;
    va_start(args, format);
    vsnprintf(doing, sizeof doing, format, args);
    va_end(args);
    mtr_cuda_describe(&c->driver, result, error, sizeof error);
    if (mtr_cuda_is_sticky(result)) {
        snprintf(all, sizeof all, "%.240s: %s", doing, error);
        lose(c, all);
        return mtr_fail(err, MTR_IO, "%s: the device is lost", all);
    }
    enum mtr_code code = result == CU_ERROR_OUT_OF_MEMORY ? MTR_NO_MEMORY
                         : result == CU_ERROR_NOT_FOUND   ? MTR_NOT_FOUND
                                                          : MTR_IO;
    return mtr_fail(err, code, "%s: %s", doing, error);
}

bool mtr_cuda_enter(struct mtr_cuda *c, struct mtr_error *err)
{
    if (is_lost(c))
        return mtr_fail(err, MTR_IO, "the device was lost: %s", c->loss);
    if (pthread_equal(pthread_self(), c->owner))
        return true;
    return mtr_cuda_check(c, c->driver.context_set(c->context), err, "entering the context");
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* ---- memory ---- */

static void *cuda_alloc(struct mtr_backend *b, size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    uint64_t p = 0;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(c, c->driver.memory_alloc(&p, bytes ? bytes : 1), err,
                        "allocating %zu bytes on %s", bytes, c->device.name))
        return NULL;
    return (void *)(uintptr_t)p;
}

static void cuda_free(struct mtr_backend *b, void *p)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (p && mtr_cuda_enter(c, NULL))
        mtr_cuda_check(c, c->driver.memory_free(address(p)), NULL, "freeing memory");
}

static void *cuda_alloc_pinned(struct mtr_backend *b, size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    void *p = NULL;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(c, c->driver.host_alloc(&p, bytes ? bytes : 1, 0), err,
                        "allocating %zu bytes of pinned memory", bytes))
        return NULL;
    return p;
}

static void cuda_free_pinned(struct mtr_backend *b, void *p)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (p && mtr_cuda_enter(c, NULL))
        mtr_cuda_check(c, c->driver.host_free(p), NULL, "freeing pinned memory");
}

static bool cuda_upload(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                        size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.upload(address(dst), src, bytes, mtr_cuda_stream(c, s)), err,
                          "uploading %zu bytes", bytes);
}

static bool cuda_download(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                          size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.download(dst, address(src), bytes, mtr_cuda_stream(c, s)),
                          err, "downloading %zu bytes", bytes);
}

static bool cuda_copy(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                      size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c,
                          c->driver.copy(address(dst), address(src), bytes, mtr_cuda_stream(c, s)),
                          err, "copying %zu bytes on the device", bytes);
}

static bool cuda_fill(struct mtr_backend *b, struct mtr_stream *s, void *dst, uint8_t value,
                      size_t bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.fill(address(dst), value, bytes, mtr_cuda_stream(c, s)), err,
                          "filling %zu bytes on the device", bytes);
}

/* ---- launches ---- */

/* A kernel may start while the one before it ends, where each waits for it before it reads what
 * others write (device.cuh). */
static bool cuda_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_kernel *k,
                        const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                        const void *args, size_t args_bytes, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    void *parameters[] = {(void *)args};
    if (k->args_bytes && k->args_bytes != args_bytes)
        return mtr_fail(err, MTR_INTERNAL, "kernel %s takes arguments of %zu bytes, not %zu",
                        k->name, k->args_bytes, args_bytes);
    if (!mtr_cuda_enter(c, err))
        return false;
    struct cu_launch_attribute early = {CU_PROGRAMMATIC_STREAM_SERIALIZATION, 0, {.allowed = 1}};
    const struct cu_launch launch = {
        .grid = {grid[0], grid[1], grid[2]},
        .block = {block[0], block[1], block[2]},
        .shared_bytes = shared_bytes,
        .stream = mtr_cuda_stream(c, s),
        .attributes = &early,
        .attribute_count = k->waits ? 1 : 0,
    };
    int result = c->driver.launch(&launch, k->function, parameters, NULL);
    if (result == CU_SUCCESS) /* the words below cost more than the launch */
        return true;
    return mtr_cuda_check(c, result, err,
                          "launching %s with %" PRIu32 " x %" PRIu32 " x %" PRIu32
                          " blocks of %" PRIu32 " threads and %" PRIu32 " bytes of shared memory",
                          k->name, grid[0], grid[1], grid[2], block[0] * block[1] * block[2],
                          shared_bytes);
}

static bool cuda_tensor_map(struct mtr_backend *b, struct mtr_tensor_map *out, const void *p,
                            uint64_t rows, uint64_t cols, uint64_t row_bytes, uint32_t box_rows,
                            struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    const uint64_t size[] = {cols, rows}, stride[] = {row_bytes};
    const uint32_t box[] = {MTR_TENSOR_MAP_COLS, box_rows}, step[] = {1, 1};
    if (!mtr_cuda_enter(c, err))
        return false;
    int result = c->driver.tensor_map(out, CU_TENSOR_BF16, 2, (void *)p, size, stride, box, step,
                                      CU_TENSOR_INTERLEAVE_NONE, CU_TENSOR_SWIZZLE_128B,
                                      CU_TENSOR_L2_256B, CU_TENSOR_OUTSIDE_ZERO);
    if (result == CU_SUCCESS)
        return true;
    return mtr_cuda_check(c, result, err,
                          "describing a matrix of %" PRIu64 " rows of %" PRIu64 " columns, %" PRIu64
                          " bytes apart, at %p to the copy engine",
                          rows, cols, row_bytes, p);
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

static void cuda_parallel(struct mtr_backend *b, uint32_t count,
                          void (*work)(void *context, uint32_t index), void *context)
{
    struct parallel p = {work, context};
    mtr_pool_run(mtr_cuda_of(b)->pool, count, parallel_index, &p);
}

/* ---- streams and events ---- */

static struct mtr_stream *cuda_stream_create(struct mtr_backend *b, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    struct cu_stream *s = NULL;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(c, c->driver.stream_create(&s, CU_STREAM_NON_BLOCKING), err,
                        "making a stream"))
        return NULL;
    return (struct mtr_stream *)s;
}

static void cuda_stream_destroy(struct mtr_backend *b, struct mtr_stream *s)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (s && mtr_cuda_enter(c, NULL))
        mtr_cuda_check(c, c->driver.stream_destroy((struct cu_stream *)s), NULL, "ending a stream");
}

static bool cuda_stream_wait(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.stream_synchronize(mtr_cuda_stream(c, s)), err,
                          "waiting for the device");
}

static struct mtr_event *cuda_event_create(struct mtr_backend *b, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    struct cu_event *e = NULL;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(c, c->driver.event_create(&e, 0), err, "making an event"))
        return NULL;
    return (struct mtr_event *)e;
}

static void cuda_event_destroy(struct mtr_backend *b, struct mtr_event *e)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (e && mtr_cuda_enter(c, NULL))
        mtr_cuda_check(c, c->driver.event_destroy((struct cu_event *)e), NULL, "ending an event");
}

static bool cuda_event_record(struct mtr_backend *b, struct mtr_event *e, struct mtr_stream *s,
                              struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.event_record((struct cu_event *)e, mtr_cuda_stream(c, s)),
                          err, "recording an event");
}

static bool cuda_event_wait(struct mtr_backend *b, struct mtr_event *e, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c, c->driver.event_synchronize((struct cu_event *)e), err,
                          "waiting for the device");
}

static bool cuda_event_done(struct mtr_backend *b, struct mtr_event *e, bool *done,
                            struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (!mtr_cuda_enter(c, err))
        return false;
    int result = c->driver.event_query((struct cu_event *)e);
    *done = result != CU_ERROR_NOT_READY;
    return !*done || mtr_cuda_check(c, result, err, "asking for the device");
}

static bool cuda_event_elapsed(struct mtr_backend *b, struct mtr_event *from, struct mtr_event *to,
                               uint64_t *ns, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    float ms = 0;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(
            c, c->driver.event_elapsed(&ms, (struct cu_event *)from, (struct cu_event *)to), err,
            "measuring the time between two events"))
        return false;
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
    return true;
}

static bool cuda_stream_wait_event(struct mtr_backend *b, struct mtr_stream *s, struct mtr_event *e,
                                   struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(
               c, c->driver.stream_wait_event(mtr_cuda_stream(c, s), (struct cu_event *)e, 0), err,
               "letting a stream wait for an event");
}

/* ---- life ---- */

static void describe(const struct mtr_cuda_device *d, const struct mtr_kernel_target *t,
                     struct mtr_device_info *out)
{
    *out = (struct mtr_device_info){
        .memory_total_bytes = d->memory_bytes,
        .processors = (uint32_t)d->processors,
        .unified = d->integrated,
        .graphs = true,
    };
    snprintf(out->name, sizeof out->name, "%s", d->name);
    snprintf(out->hardware, sizeof out->hardware, "%s", t->hardware);
}

static bool cuda_info(struct mtr_backend *b, struct mtr_device_info *out, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    size_t free_bytes = 0, total = 0;
    if (!mtr_cuda_enter(c, err) || !mtr_cuda_check(c, c->driver.memory_info(&free_bytes, &total),
                                                   err, "asking for the device's memory"))
        return false;
    describe(&c->device, c->target, out);
    out->memory_total_bytes = total;
    out->memory_free_bytes = free_bytes;
    return true;
}

/* In reverse. A lost context takes all it had with it when the process ends: the driver would
 * refuse each call, and may take its time for it. */
static void cuda_destroy(struct mtr_backend *b)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (c->context && !is_lost(c)) {
        mtr_cuda_unload(c);
        if (c->stream)
            c->driver.stream_destroy(c->stream);
        c->driver.context_release(c->device.handle);
    }
    mtr_cuda_close(&c->driver);
    mtr_pool_destroy(c->pool);
    mtr_arena_free(&c->arena);
    free(c);
}

static const struct mtr_backend_ops cuda_ops = {
    .name = "cuda",
    .destroy = cuda_destroy,
    .info = cuda_info,
    .alloc = cuda_alloc,
    .alloc_sparse = cuda_alloc,
    .free = cuda_free,
    .alloc_pinned = cuda_alloc_pinned,
    .free_pinned = cuda_free_pinned,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .use_target = mtr_cuda_use_target,
    .kernel = mtr_cuda_kernel,
    .launch = cuda_launch,
    .tensor_map = cuda_tensor_map,
    .parallel = cuda_parallel,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wait = cuda_stream_wait,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_wait = cuda_event_wait,
    .event_done = cuda_event_done,
    .event_elapsed_ns = cuda_event_elapsed,
    .stream_wait_event = cuda_stream_wait_event,
    .graph_begin = mtr_cuda_graph_begin,
    .graph_end = mtr_cuda_graph_end,
    .graph_launch = mtr_cuda_graph_launch,
    .graph_destroy = mtr_cuda_graph_destroy,
};

static bool start(struct mtr_cuda *c, const struct mtr_cuda_options *o, struct mtr_error *err)
{
    if (!mtr_cuda_open(&c->driver, o->driver, err) ||
        !mtr_cuda_find_device(&c->driver, o->device, &c->device, err))
        return false;
    c->target = mtr_cuda_find_target(&c->device, o->hardware, err);
    return c->target &&
           mtr_cuda_check(c, c->driver.context_retain(&c->context, c->device.handle), err,
                          "opening device %u, %s", o->device, c->device.name) &&
           mtr_cuda_check(c, c->driver.context_set(c->context), err, "entering the context") &&
           mtr_cuda_check(c, c->driver.stream_create(&c->stream, CU_STREAM_NON_BLOCKING), err,
                          "making the default stream");
}

struct mtr_backend *mtr_cuda_backend_create(const struct mtr_cuda_options *o, struct mtr_error *err)
{
    struct mtr_cuda *c = calloc(1, sizeof *c);
    uint32_t cores = mtr_pool_cores(), threads = cores < MAX_THREADS ? cores : MAX_THREADS;
    if (!c) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for the CUDA backend");
        return NULL;
    }
    c->base.ops = &cuda_ops;
    c->owner = pthread_self();
    c->no_overlap = o->no_overlap;
    mtr_arena_init(&c->arena, 0);
    c->pool = mtr_pool_create(o->threads ? o->threads : threads, err);
    if (c->pool && start(c, o, err))
        return &c->base;
    cuda_destroy(&c->base);
    return NULL;
}

bool mtr_cuda_probe(const struct mtr_cuda_options *o, struct mtr_device_info *out,
                    struct mtr_error *err)
{
    struct mtr_cuda_driver driver;
    struct mtr_cuda_device device;
    if (!mtr_cuda_open(&driver, o->driver, err))
        return false;
    const struct mtr_kernel_target *target = NULL;
    if (mtr_cuda_find_device(&driver, o->device, &device, err))
        target = mtr_cuda_find_target(&device, o->hardware, err);
    if (target)
        describe(&device, target, out);
    mtr_cuda_close(&driver);
    return target != NULL;
}
