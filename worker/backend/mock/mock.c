/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mock backend. Memory is real, copies and fills are carried out and recorded, launches are
 * recorded only. Calls and kernels are kept in growing arrays of pointers, so that what a test
 * holds stays where it is. A test that runs out of memory is aborted.
 */
#include "worker/backend/mock/mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mtr_kernel {
    char module[64], function[64];
    bool denied;
};

struct mtr_stream {
    char unused;
};

struct mtr_event {
    uint32_t calls; /* recorded when the event was */
    uint32_t life;  /* of the record then */
};

struct mtr_graph {
    struct mtr_mock_call **calls; /* launches */
    uint32_t count;
};

struct mock_backend {
    struct mtr_backend base;
    struct mtr_mock_call **calls;
    uint32_t call_count, carried_out; /* calls below are done; the others wait, if deferred */
    bool deferred;
    uint32_t life; /* how often the record was forgotten */
    bool direct, graphs;
    struct mtr_graph *capturing;
    void (*run)(void *context, const struct mtr_mock_call *launch);
    void *run_context;
    struct mtr_kernel **kernels;
    uint32_t kernel_count;
    bool fails;
    uint32_t fail_after;
    struct mtr_stream stream;
};

static struct mock_backend *mock_of(const struct mtr_backend *b)
{
    return (struct mock_backend *)b;
}

/* ---- the record ---- */

/* Whether the device still answers; counts the call down. */
static bool alive(struct mtr_backend *b, struct mtr_error *err)
{
    struct mock_backend *m = mock_of(b);
    if (m->fails && m->fail_after == 0)
        b->lost = true;
    if (b->lost)
        return mtr_fail(err, MTR_IO, "the mock device is lost");
    if (m->fails)
        m->fail_after--;
    return true;
}

static bool no_memory(struct mock_backend *m, struct mtr_error *err)
{
    m->base.lost = true;
    return mtr_fail(err, MTR_NO_MEMORY, "no memory for the mock device's record");
}

/* Room for one more pointer in an array; false when there is no memory. */
static bool grow(void *array, uint32_t count)
{
    void *old, *more;
    memcpy(&old, array, sizeof old);
    more = realloc(old, (count + 1) * sizeof(void *));
    if (more)
        memcpy(array, &more, sizeof more);
    return more != NULL;
}

static void carry_out(struct mock_backend *m, uint32_t end)
{
    for (; m->carried_out < end; m->carried_out++) {
        const struct mtr_mock_call *c = m->calls[m->carried_out];
        if (c->kind == MTR_MOCK_FILL)
            memset(c->dst, c->value, c->bytes);
        else if (c->kind != MTR_MOCK_LAUNCH)
            memmove(c->dst, c->src, c->bytes);
        else if (m->run)
            m->run(m->run_context, c);
    }
}

/* Takes call.args, whatever comes of it: adds it to the graph that is being captured. */
static bool capture(struct mock_backend *m, struct mtr_mock_call call, struct mtr_error *err)
{
    struct mtr_graph *g = m->capturing;
    struct mtr_mock_call *c = malloc(sizeof *c);
    if (!c || call.kind != MTR_MOCK_LAUNCH || !grow(&g->calls, g->count)) {
        free(c);
        free((void *)call.args);
        return mtr_fail(err, MTR_INTERNAL, "the mock device captures launches only");
    }
    *c = call;
    g->calls[g->count++] = c;
    return true;
}

/* Takes call.args, whatever comes of it. */
static bool record(struct mock_backend *m, struct mtr_mock_call call, struct mtr_error *err)
{
    if (m->capturing)
        return capture(m, call, err);
    struct mtr_mock_call *c = malloc(sizeof *c);
    if (!c || !grow(&m->calls, m->call_count)) {
        free(c);
        free((void *)call.args);
        return no_memory(m, err);
    }
    *c = call;
    m->calls[m->call_count++] = c;
    if (!m->deferred)
        carry_out(m, m->call_count);
    return true;
}

uint32_t mtr_mock_call_count(const struct mtr_backend *b)
{
    return mock_of(b)->call_count;
}

const struct mtr_mock_call *mtr_mock_call(const struct mtr_backend *b, uint32_t index)
{
    struct mock_backend *m = mock_of(b);
    return index < m->call_count ? m->calls[index] : NULL;
}

void mtr_mock_defer(struct mtr_backend *b, bool deferred)
{
    mock_of(b)->deferred = deferred;
    if (!deferred)
        carry_out(mock_of(b), mock_of(b)->call_count);
}

void mtr_mock_forget(struct mtr_backend *b)
{
    struct mock_backend *m = mock_of(b);
    carry_out(m, m->call_count);
    for (uint32_t i = 0; i < m->call_count; i++) {
        free((void *)m->calls[i]->args);
        free(m->calls[i]);
    }
    free(m->calls);
    m->calls = NULL;
    m->call_count = m->carried_out = 0;
    m->life++;
}

void mtr_mock_be(struct mtr_backend *b, bool direct, bool graphs)
{
    mock_of(b)->direct = direct;
    mock_of(b)->graphs = graphs;
}

void mtr_mock_on_launch(struct mtr_backend *b,
                        void (*run)(void *context, const struct mtr_mock_call *launch),
                        void *context)
{
    mock_of(b)->run = run;
    mock_of(b)->run_context = context;
}

void mtr_mock_fail_after(struct mtr_backend *b, uint32_t calls)
{
    struct mock_backend *m = mock_of(b);
    m->fails = true;
    m->fail_after = calls;
}

/* ---- memory ---- */

static void *mock_alloc(struct mtr_backend *b, size_t bytes, struct mtr_error *err)
{
    if (!alive(b, err))
        return NULL;
    size_t rounded = bytes < SIZE_MAX - 255 ? (bytes + 255) / 256 * 256 : 0;
    void *p = bytes && !rounded ? NULL : aligned_alloc(256, rounded ? rounded : 256);
    if (!p)
        mtr_fail(err, MTR_NO_MEMORY, "the mock device has no %zu bytes", bytes);
    return p;
}

static void mock_free(struct mtr_backend *b, void *p)
{
    free(p);
}

static bool transfer(struct mtr_backend *b, enum mtr_mock_kind kind, void *dst, const void *src,
                     size_t bytes, struct mtr_error *err)
{
    if (!alive(b, err))
        return false;
    struct mtr_mock_call c = {.kind = kind, .bytes = bytes, .dst = dst, .src = src};
    return record(mock_of(b), c, err);
}

static bool mock_upload(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                        size_t bytes, struct mtr_error *err)
{
    return transfer(b, MTR_MOCK_UPLOAD, dst, src, bytes, err);
}

static bool mock_download(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                          size_t bytes, struct mtr_error *err)
{
    return transfer(b, MTR_MOCK_DOWNLOAD, dst, src, bytes, err);
}

static bool mock_copy(struct mtr_backend *b, struct mtr_stream *s, void *dst, const void *src,
                      size_t bytes, struct mtr_error *err)
{
    return transfer(b, MTR_MOCK_COPY, dst, src, bytes, err);
}

static bool mock_fill(struct mtr_backend *b, struct mtr_stream *s, void *dst, uint8_t value,
                      size_t bytes, struct mtr_error *err)
{
    if (!alive(b, err))
        return false;
    struct mtr_mock_call c = {.kind = MTR_MOCK_FILL, .bytes = bytes, .dst = dst, .value = value};
    return record(mock_of(b), c, err);
}

/* ---- kernels ---- */

static struct mtr_kernel *kernel_named(struct mock_backend *m, const char *module,
                                       const char *function)
{
    for (uint32_t i = 0; i < m->kernel_count; i++)
        if (strcmp(m->kernels[i]->module, module) == 0 &&
            strcmp(m->kernels[i]->function, function) == 0)
            return m->kernels[i];
    struct mtr_kernel *k = calloc(1, sizeof *k);
    if (!k || !grow(&m->kernels, m->kernel_count)) {
        free(k);
        return NULL;
    }
    snprintf(k->module, sizeof k->module, "%s", module);
    snprintf(k->function, sizeof k->function, "%s", function);
    m->kernels[m->kernel_count++] = k;
    return k;
}

void mtr_mock_deny(struct mtr_backend *b, const char *module, const char *function)
{
    struct mtr_kernel *k = kernel_named(mock_of(b), module, function);
    if (k)
        k->denied = true;
    else
        b->lost = true;
}

static struct mtr_kernel *mock_kernel(struct mtr_backend *b, const char *module,
                                      const char *function, struct mtr_error *err)
{
    if (!alive(b, err))
        return NULL;
    struct mtr_kernel *k = kernel_named(mock_of(b), module, function);
    if (!k)
        no_memory(mock_of(b), err);
    if (!k || !k->denied)
        return k;
    mtr_fail(err, MTR_NOT_FOUND, "the mock class has no kernel %s of module %s", function, module);
    return NULL;
}

static bool record_launch(struct mock_backend *m, const struct mtr_mock_call *like,
                          const void *args, struct mtr_error *err)
{
    struct mtr_mock_call c = *like;
    void *copy = malloc(c.bytes ? c.bytes : 1);
    if (!copy)
        return no_memory(m, err);
    memcpy(copy, args, c.bytes);
    c.args = copy;
    return record(m, c, err);
}

static bool mock_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_kernel *k,
                        const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes,
                        const void *args, size_t args_bytes, struct mtr_error *err)
{
    if (!alive(b, err))
        return false;
    const struct mtr_mock_call c = {.kind = MTR_MOCK_LAUNCH,
                                    .module = k->module,
                                    .function = k->function,
                                    .grid = {grid[0], grid[1], grid[2]},
                                    .bytes = args_bytes};
    return record_launch(mock_of(b), &c, args, err);
}

static void mock_parallel(struct mtr_backend *b, uint32_t count,
                          void (*work)(void *context, uint32_t index), void *context)
{
    for (uint32_t i = 0; i < count; i++)
        work(context, i);
}

/* ---- streams and events ---- */

static struct mtr_stream *mock_stream_create(struct mtr_backend *b, struct mtr_error *err)
{
    return alive(b, err) ? &mock_of(b)->stream : NULL;
}

static void mock_stream_destroy(struct mtr_backend *b, struct mtr_stream *s)
{
}

static bool mock_stream_wait(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    carry_out(mock_of(b), mock_of(b)->call_count);
    return alive(b, err);
}

static struct mtr_event *mock_event_create(struct mtr_backend *b, struct mtr_error *err)
{
    struct mtr_event *e = alive(b, err) ? calloc(1, sizeof *e) : NULL;
    if (!e && !b->lost)
        no_memory(mock_of(b), err);
    return e;
}

static void mock_event_destroy(struct mtr_backend *b, struct mtr_event *e)
{
    free(e);
}

static bool mock_event_record(struct mtr_backend *b, struct mtr_event *e, struct mtr_stream *s,
                              struct mtr_error *err)
{
    e->calls = mock_of(b)->call_count;
    e->life = mock_of(b)->life;
    return alive(b, err);
}

static bool mock_event_wait(struct mtr_backend *b, struct mtr_event *e, struct mtr_error *err)
{
    if (e->life == mock_of(b)->life)
        carry_out(mock_of(b), e->calls);
    return alive(b, err);
}

static bool mock_event_done(struct mtr_backend *b, struct mtr_event *e, bool *done,
                            struct mtr_error *err)
{
    *done = e->life != mock_of(b)->life || e->calls <= mock_of(b)->carried_out;
    return alive(b, err);
}

/* A microsecond a recorded call. */
static bool mock_event_elapsed(struct mtr_backend *b, struct mtr_event *from, struct mtr_event *to,
                               uint64_t *ns, struct mtr_error *err)
{
    *ns = to->calls > from->calls ? (uint64_t)(to->calls - from->calls) * 1000 : 0;
    return alive(b, err);
}

static bool mock_stream_wait_event(struct mtr_backend *b, struct mtr_stream *s, struct mtr_event *e,
                                   struct mtr_error *err)
{
    return alive(b, err);
}

/* ---- graphs ---- */

static bool mock_graph_begin(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    struct mock_backend *m = mock_of(b);
    if (!m->graphs)
        return mtr_fail(err, MTR_UNSUPPORTED, "the mock class has no graphs");
    if (!alive(b, err))
        return false;
    m->capturing = calloc(1, sizeof *m->capturing);
    return m->capturing || no_memory(m, err);
}

static struct mtr_graph *mock_graph_end(struct mtr_backend *b, struct mtr_stream *s,
                                        struct mtr_error *err)
{
    struct mtr_graph *g = mock_of(b)->capturing;
    mock_of(b)->capturing = NULL;
    if (!g)
        mtr_fail(err, MTR_INTERNAL, "the mock device captures nothing");
    return g;
}

static bool mock_graph_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_graph *g,
                              struct mtr_error *err)
{
    if (!alive(b, err))
        return false;
    for (uint32_t i = 0; i < g->count; i++)
        if (!record_launch(mock_of(b), g->calls[i], g->calls[i]->args, err))
            return false;
    return true;
}

static void mock_graph_destroy(struct mtr_backend *b, struct mtr_graph *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        free((void *)g->calls[i]->args);
        free(g->calls[i]);
    }
    free(g->calls);
    free(g);
}

/* ---- life ---- */

static bool mock_info(struct mtr_backend *b, struct mtr_device_info *out, struct mtr_error *err)
{
    *out = (struct mtr_device_info){.name = "mock",
                                    .hardware = "host",
                                    .memory_total_bytes = 1ull << 30,
                                    .memory_free_bytes = 1ull << 30,
                                    .processors = 1,
                                    .unified = mock_of(b)->direct,
                                    .direct = mock_of(b)->direct,
                                    .graphs = mock_of(b)->graphs};
    return alive(b, err);
}

static void mock_destroy(struct mtr_backend *b)
{
    struct mock_backend *m = mock_of(b);
    if (m->capturing)
        mock_graph_destroy(b, m->capturing);
    m->carried_out = m->call_count; /* what waits may point to memory that is gone */
    mtr_mock_forget(b);
    for (uint32_t i = 0; i < m->kernel_count; i++)
        free(m->kernels[i]);
    free(m->kernels);
    free(m);
}

static const struct mtr_backend_ops mock_ops = {
    .name = "mock",
    .destroy = mock_destroy,
    .info = mock_info,
    .alloc = mock_alloc,
    .alloc_sparse = mock_alloc,
    .free = mock_free,
    .alloc_pinned = mock_alloc,
    .free_pinned = mock_free,
    .upload = mock_upload,
    .download = mock_download,
    .copy = mock_copy,
    .fill = mock_fill,
    .kernel = mock_kernel,
    .launch = mock_launch,
    .parallel = mock_parallel,
    .stream_create = mock_stream_create,
    .stream_destroy = mock_stream_destroy,
    .stream_wait = mock_stream_wait,
    .event_create = mock_event_create,
    .event_destroy = mock_event_destroy,
    .event_record = mock_event_record,
    .event_wait = mock_event_wait,
    .event_done = mock_event_done,
    .event_elapsed_ns = mock_event_elapsed,
    .stream_wait_event = mock_stream_wait_event,
    .graph_begin = mock_graph_begin,
    .graph_end = mock_graph_end,
    .graph_launch = mock_graph_launch,
    .graph_destroy = mock_graph_destroy,
};

struct mtr_backend *mtr_mock_backend_create(void)
{
    struct mock_backend *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->base.ops = &mock_ops;
    m->direct = true;
    return &m->base;
}
