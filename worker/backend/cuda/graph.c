/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is launched between begin and end is recorded instead of run, and replayed as one launch.
 * Only calls of the capturing thread are recorded; other threads may allocate meanwhile.
 */
#include "worker/backend/cuda/internal.h"

bool mtr_cuda_graph_begin(struct mtr_backend *b, struct mtr_stream *s, struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c,
                          c->driver.capture_begin(mtr_cuda_stream(c, s), CU_CAPTURE_THREAD_LOCAL),
                          err, "beginning a graph");
}

static struct cu_graph_exec *instantiate(struct mtr_cuda *c, struct cu_graph *graph,
                                         struct cu_stream *s, struct mtr_error *err)
{
    struct cu_graph_exec *exec = NULL;
    if (!mtr_cuda_check(c, c->driver.graph_instantiate(&exec, graph, 0), err,
                        "making a graph ready"))
        return NULL;
    if (mtr_cuda_check(c, c->driver.graph_upload(exec, s), err, "uploading a graph"))
        return exec;
    c->driver.graph_exec_destroy(exec);
    return NULL;
}

struct mtr_graph *mtr_cuda_graph_end(struct mtr_backend *b, struct mtr_stream *s,
                                     struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    struct cu_graph *graph = NULL;
    if (!mtr_cuda_enter(c, err) ||
        !mtr_cuda_check(c, c->driver.capture_end(mtr_cuda_stream(c, s), &graph), err,
                        "ending a graph"))
        return NULL;
    struct cu_graph_exec *exec = instantiate(c, graph, mtr_cuda_stream(c, s), err);
    c->driver.graph_destroy(graph);
    return (struct mtr_graph *)exec;
}

bool mtr_cuda_graph_launch(struct mtr_backend *b, struct mtr_stream *s, struct mtr_graph *g,
                           struct mtr_error *err)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    return mtr_cuda_enter(c, err) &&
           mtr_cuda_check(c,
                          c->driver.graph_launch((struct cu_graph_exec *)g, mtr_cuda_stream(c, s)),
                          err, "launching a graph");
}

void mtr_cuda_graph_destroy(struct mtr_backend *b, struct mtr_graph *g)
{
    struct mtr_cuda *c = mtr_cuda_of(b);
    if (g && mtr_cuda_enter(c, NULL))
        c->driver.graph_exec_destroy((struct cu_graph_exec *)g);
}
