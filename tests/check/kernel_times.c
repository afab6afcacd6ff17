/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/check/kernel_times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/circuit/fuser.h"
#include "tests/check/kernel_cases.h"

#define LAUNCHES   40    /* in a graph, or a row */
#define ROUNDS     9     /* the median counts */
#define COPIES     16    /* most of a case's memory */
#define CACHE_SIZE 256e6 /* bytes that are to pass between two uses of the same */
#define VOCAB      151936
#define SLOTS      8   /* of lanes, more than the step has */
#define SLOW_BYTES 1e9 /* of a case that is measured with fewer launches */
#define SLOW_FLOPS 5e11

static const struct rig_variant plain = {.name = "", .shape = -1};

/* The case's weights and caches again, so that a launch finds none of them in a cache. */
struct copies {
    void *weights[COPIES][RIG_WEIGHTS];
    struct mtr_op_cache caches[COPIES];
    uint32_t count;
};

/* What is launched again and again: an operation, or the choice of a token. */
struct timed {
    struct rig *r;
    struct mtr_op_context context;
    struct mtr_resolved_op op;
    struct copies copies;
    struct mtr_kernel *chooser; /* NULL: an operation */
    int32_t *tokens, *last;     /* that it writes */
    uint32_t launches;
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
    size_t cache = r->cache_elements * mtr_format_info(r->group.format)->block_bytes;
    c->count = bytes > 0 && bytes < CACHE_SIZE ? (uint32_t)(CACHE_SIZE / bytes) + 1 : 1;
    c->count = c->count < COPIES ? c->count : COPIES;
    for (uint32_t i = 0; i < c->count && !r->err.code; i++) {
        memcpy(c->weights[i], s->weight_at, sizeof s->weight_at);
        c->caches[i] = s->cache;
        for (uint32_t w = 0; i && w < s->plan.weight_count; w++) {
            c->weights[i][w] =
                again(r, s->weight_at[w], rig_weight_bytes(s->launch.point, &s->weights[w]));
        }
        if (i && s->plan.cache_count) {
            c->caches[i].k = again(r, s->cache.k, cache);
            c->caches[i].v = again(r, s->cache.v, cache);
        }
    }
}

static bool launch_all(struct timed *t, uint32_t launches)
{
    struct rig *r = t->r;
    for (uint32_t i = 0; i < launches; i++) {
        if (!t->chooser) {
            t->context.weights = (void *const *)t->copies.weights[i % t->copies.count];
            t->context.caches = &t->copies.caches[i % t->copies.count];
        }
        if (t->chooser ? !mtr_op_sample(&t->context, t->chooser, t->tokens, t->last, &r->err)
                       : !mtr_op_run(&t->context, &t->op, &r->err))
            return false;
    }
    return true;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds of one launch: the median of the rounds; 0 on an error. */
static double measure(struct timed *t)
{
    struct rig *r = t->r;
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    const struct mtr_backend_ops *ops = s->backend->ops;
    struct mtr_backend *b = s->backend;
    struct mtr_stream *stream = ops->stream_create(b, &r->err);
    struct mtr_event *from = ops->event_create(b, &r->err), *to = ops->event_create(b, &r->err);
    struct mtr_graph *graph = NULL;
    uint64_t ns[ROUNDS] = {0};
    t->context.stream = stream;
    bool ok = stream && from && to && launch_all(t, 1) && ops->stream_wait(b, stream, &r->err);
    if (ok && s->info.graphs) {
        ok = ops->graph_begin(b, stream, &r->err) && launch_all(t, t->launches);
        graph = ok ? ops->graph_end(b, stream, &r->err) : NULL;
        ok = graph != NULL;
    }
    for (int round = 0; round < ROUNDS && ok; round++)
        ok = ops->event_record(b, from, stream, &r->err) &&
             (graph ? ops->graph_launch(b, stream, graph, &r->err) : launch_all(t, t->launches)) &&
             ops->event_record(b, to, stream, &r->err) && ops->event_wait(b, to, &r->err) &&
             ops->event_elapsed_ns(b, from, to, &ns[round], &r->err);
    if (graph)
        ops->graph_destroy(b, graph);
    if (from)
        ops->event_destroy(b, from);
    if (to)
        ops->event_destroy(b, to);
    if (stream)
        ops->stream_destroy(b, stream);
    qsort(ns, ROUNDS, sizeof *ns, by_size);
    return ok ? (double)ns[ROUNDS / 2] / t->launches : 0;
}

static void print_time(struct timed *t, const char *kernel, const char *name, double bytes,
                       double operations)
{
    double ns = measure(t);
    if (!t->r->err.code)
        printf("{\"kernel\":\"%s\",\"case\":\"%s\",\"us\":%.2f,\"gb_per_s\":%.0f,"
               "\"tflop_per_s\":%.1f,\"bytes\":%.0f,\"operations\":%.0f,\"launches\":%u}\n",
               kernel, name, ns / 1e3, bytes / ns, operations / ns / 1e3, bytes, operations,
               t->launches);
    fflush(stdout);
}

static void time_case(struct rig *r, const struct mtr_family *f, const struct mtr_point *p,
                      const struct kernel_case *c)
{
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    struct timed t = {.r = r};
    double bytes, operations;
    char name[200];
    kernel_case_name(c, name, sizeof name);
    kernel_case_work(c, p, &bytes, &operations);
    t.launches = bytes > SLOW_BYTES || operations > SLOW_FLOPS ? 3 : LAUNCHES;
    r->bulk = true;
    rig_begin(r, f, p, 1, c->sequences, kernel_case_sequences(c));
    c->build(r, c);
    rig_prepare(r, RIG_SUBJECT, &plain, &t.context);
    make_copies(r, bytes, &t.copies);
    if (!r->err.code && mtr_op_resolve(&t.op, s->backend, &s->plan, &s->launch, &r->err))
        print_time(&t, p->function, name, bytes, operations);
    rig_end(r);
    r->bulk = false;
}

/* The largest of each row of logits, which are still in the cache, as behind the head. */
static void time_argmax(struct rig *r, uint32_t rows)
{
    const struct rig_sequence step = {.start = 1023, .count = rows};
    const struct mtr_family *family = mtr_family_find(r->sides[RIG_SUBJECT].hardware, "rms_norm");
    struct rig_side *s = &r->sides[RIG_SUBJECT];
    struct timed t = {.r = r, .launches = LAUNCHES};
    char name[64];
    snprintf(name, sizeof name, "rows %u at %u, cols %u, f32", rows, step.start, VOCAB);
    r->bulk = true;
    rig_begin(r, family, &family->points[0], 1, &step, 1);
    s->plan.logits = rig_input(r, MTR_ROWS_OUTPUTS, VOCAB, 1, true);
    s->plan.vocab = VOCAB;
    t.tokens = rig_memory(r, RIG_SUBJECT, NULL, rows * sizeof *t.tokens);
    t.last = rig_memory(r, RIG_SUBJECT, NULL, SLOTS * sizeof *t.last);
    rig_prepare(r, RIG_SUBJECT, &plain, &t.context);
    if (!r->err.code)
        t.chooser = s->backend->ops->kernel(s->backend, "sample", "argmax", &r->err);
    if (t.chooser)
        print_time(&t, "argmax", name, 4.0 * rows * VOCAB, 0);
    rig_end(r);
    r->bulk = false;
}

static int failed(const struct rig *r, const char *function)
{
    fprintf(stderr, "kernel-check: %s: %s\n", function, r->err.message);
    return 2;
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
                if (r->err.code)
                    return failed(r, p->function);
            }
    for (uint32_t rows = 1; rows <= 64; rows *= 64)
        if (!only || strncmp("argmax", only, strlen(only)) == 0) {
            time_argmax(r, rows);
            if (r->err.code)
                return failed(r, "argmax");
        }
    return 0;
}
