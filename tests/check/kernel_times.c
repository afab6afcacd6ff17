/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_times.h"

#include <stdio.h>
#include <string.h>

#include "tests/check/kernel_cases.h"

#define LAUNCHES   20    /* in a graph, or a row */
#define ROUNDS     5     /* the best counts */
#define COPIES     16    /* most of a case's memory */
#define CACHE_SIZE 256e6 /* bytes that are to pass between two uses of the same */
#define SLOW_BYTES 1e9   /* of a case that is measured with fewer launches */
#define SLOW_FLOPS 5e11

/* The case's weights and caches again, so that a launch finds none of them in a cache. */
struct copies {
    void *weights[COPIES][RIG_WEIGHTS];
    struct mtr_op_cache caches[COPIES];
    uint32_t count;
};

static void *again(struct rig *r, const void *from, size_t bytes)
{
    struct mtr_backend *b = r->sides[RIG_SUBJECT].backend;
    void *p = rig_memory(r, RIG_SUBJECT, NULL, bytes);
    if (p)
        b->ops->copy(b, NULL, p, from, bytes, &r->err);
    return p;
}

static void make_copies(struct rig *r, double bytes, struct copies *c)
{
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    size_t cache = r->cache_elements * 2;
    c->count = bytes > 0 && bytes < CACHE_SIZE ? (uint32_t)(CACHE_SIZE / bytes) + 1 : 1;
    c->count = c->count < COPIES ? c->count : COPIES;
    for (uint32_t i = 0; i < c->count && !r->err.code; i++) {
        memcpy(c->weights[i], s->weight_at, sizeof s->weight_at);
        c->caches[i] = s->cache;
        for (uint32_t w = 0; i && w < s->plan.weight_count; w++) {
            uint64_t row = 0;
            mtr_format_row_bytes(s->weights[w].kernel_format, s->weights[w].cols, &row);
            uint64_t rows = s->weights[w].rows, unit = s->launch.point->repack_rows;
            rows = unit && rows > 1 ? (rows + unit - 1) / unit * unit : rows;
            c->weights[i][w] = again(r, s->weight_at[w], row * rows);
        }
        if (i && s->plan.cache_count) {
            c->caches[i].k = again(r, s->cache.k, cache);
            c->caches[i].v = again(r, s->cache.v, cache);
        }
    }
}

static bool launch_all(struct rig *r, struct mtr_op_context *context,
                       const struct mtr_resolved_op *op, const struct copies *c, uint32_t launches)
{
    for (uint32_t i = 0; i < launches; i++) {
        context->weights = (void *const *)c->weights[i % c->count];
        context->caches = &c->caches[i % c->count];
        if (!mtr_op_run(context, op, &r->err))
            return false;
    }
    return true;
}

/* Nanoseconds of one launch; 0 on an error. */
static double measure(struct rig *r, struct mtr_op_context *context,
                      const struct mtr_resolved_op *op, const struct copies *c, uint32_t launches)
{
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    const struct mtr_backend_ops *ops = s->backend->ops;
    struct mtr_backend *b = s->backend;
    struct mtr_stream *stream = ops->stream_create(b, &r->err);
    struct mtr_event *from = ops->event_create(b, &r->err), *to = ops->event_create(b, &r->err);
    struct mtr_graph *graph = NULL;
    double best = 0;
    context->stream = stream;
    bool ok = stream && from && to && launch_all(r, context, op, c, 1) &&
              ops->stream_wait(b, stream, &r->err);
    if (ok && s->info.graphs) {
        ok = ops->graph_begin(b, stream, &r->err) && launch_all(r, context, op, c, launches);
        graph = ok ? ops->graph_end(b, stream, &r->err) : NULL;
        ok = graph != NULL;
    }
    for (int round = 0; round < ROUNDS && ok; round++) {
        uint64_t ns = 0;
        ok = ops->event_record(b, from, stream, &r->err) &&
             (graph ? ops->graph_launch(b, stream, graph, &r->err)
                    : launch_all(r, context, op, c, launches)) &&
             ops->event_record(b, to, stream, &r->err) && ops->event_wait(b, to, &r->err) &&
             ops->event_elapsed_ns(b, from, to, &ns, &r->err);
        best = ok && (best == 0 || (double)ns < best) ? (double)ns : best;
    }
    if (graph)
        ops->graph_destroy(b, graph);
    if (from)
        ops->event_destroy(b, from);
    if (to)
        ops->event_destroy(b, to);
    if (stream)
        ops->stream_destroy(b, stream);
    return ok ? best / launches : 0;
}

static void time_case(struct rig *r, const struct mtr_family *f, const struct mtr_point *p,
                      const struct kernel_case *c)
{
    static const struct rig_variant plain = {.name = "", .shape = -1};
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    struct mtr_op_context context;
    struct mtr_resolved_op op;
    struct copies copies = {.count = 0};
    double bytes, operations;
    char name[200];
    kernel_case_name(c, name, sizeof name);
    kernel_case_work(c, p, &bytes, &operations);
    uint32_t launches = bytes > SLOW_BYTES || operations > SLOW_FLOPS ? 3 : LAUNCHES;
    r->bulk = true;
    rig_begin(r, f, p, 1, c->sequences, kernel_case_sequences(c));
    c->build(r, c);
    rig_prepare(r, RIG_SUBJECT, &plain, &context);
    make_copies(r, bytes, &copies);
    if (!r->err.code && mtr_op_resolve(&op, s->backend, &s->plan, &s->launch, &r->err)) {
        double ns = measure(r, &context, &op, &copies, launches);
        if (!r->err.code)
            printf("{\"kernel\":\"%s\",\"case\":\"%s\",\"us\":%.2f,\"gb_per_s\":%.0f,"
                   "\"tflop_per_s\":%.1f}\n",
                   p->function, name, ns / 1e3, bytes / ns, operations / ns / 1e3);
        fflush(stdout);
    }
    rig_end(r);
    r->bulk = false;
}

int kernel_times(struct rig *r, const char *only)
{
    const struct mtr_hardware *h = r->sides[RIG_SUBJECT].hardware;
    uint32_t count;
    const struct kernel_case *cases = kernel_timings(&count);
    for (uint32_t i = 0; i < h->family_count; i++)
        for (uint32_t j = 0; j < h->families[i].point_count; j++)
            for (uint32_t k = 0; k < count; k++) {
                const struct mtr_point *p = &h->families[i].points[j];
                if (!kernel_case_fits(&cases[k], &h->families[i], p) ||
                    (only && strncmp(p->function, only, strlen(only)) != 0))
                    continue;
                time_case(r, &h->families[i], p, &cases[k]);
                if (r->err.code) {
                    fprintf(stderr, "kernel-check: %s: %s\n", p->function, r->err.message);
                    return 2;
                }
            }
    return 0;
}
