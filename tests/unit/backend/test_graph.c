/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Graphs of the CUDA backend. */
#include "worker/backend/cuda/internal.h"

#include "tests/unit/backend/cuda_rig.h"
#include "tests/unit/check_main.h"

static const uint32_t one[3] = {1, 1, 1};

START_TEST(what_was_captured_is_replayed)
{
    struct cuda_rig r = cuda_rig_open();
    struct mtr_backend *b = cuda_rig_backend(&r);
    struct mtr_kernel *k = b->ops->kernel(b, "elementwise", "add", NULL);
    unsigned args = 1;
    ck_assert(b->ops->graph_begin(b, NULL, NULL));
    for (int i = 0; i < 3; i++)
        ck_assert(b->ops->launch(b, NULL, k, one, one, 0, &args, sizeof args, NULL));
    struct mtr_graph *g = b->ops->graph_end(b, NULL, NULL);
    ck_assert_ptr_nonnull(g);
    ck_assert_ptr_nonnull(strstr(r.log(), "cuStreamBeginCapture_v2 1\n"));
    ck_assert_ptr_nonnull(strstr(r.log(), "cuGraphUpload\n"));
    ck_assert_ptr_nonnull(strstr(r.log(), "cuGraphDestroy\n"));
    ck_assert(b->ops->graph_launch(b, NULL, g, NULL));
    ck_assert_ptr_nonnull(strstr(r.log(), "cuGraphLaunch 3\n"));
    b->ops->graph_destroy(b, g);
    ck_assert_ptr_nonnull(strstr(r.log(), "cuGraphExecDestroy\n"));
    b->ops->destroy(b);
    cuda_rig_close(&r);
}
END_TEST

START_TEST(each_step_s_failure_is_named)
{
    static const struct {
        const char *symbol, *words;
    } steps[] = {{"cuStreamBeginCapture_v2", "beginning a graph: CUDA_ERROR_STREAM_CAPTURE"},
                 {"cuStreamEndCapture", "ending a graph: CUDA_ERROR_STREAM_CAPTURE"},
                 {"cuGraphInstantiateWithFlags", "making a graph ready: "},
                 {"cuGraphUpload", "uploading a graph: "}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct cuda_rig r = cuda_rig_open();
        struct mtr_backend *b = cuda_rig_backend(&r);
        struct mtr_error err = {0};
        r.script(steps[i].symbol, 0, 901);
        bool ok = b->ops->graph_begin(b, NULL, &err) && b->ops->graph_end(b, NULL, &err);
        ck_assert(!ok && !b->lost);
        ck_assert_msg(strstr(err.message, steps[i].words) != NULL, "%s", err.message);
        b->ops->destroy(b);
        cuda_rig_close(&r);
    }
}
END_TEST

MTR_CHECK_MAIN("backend/graph")
{
    tcase_add_test(tc, what_was_captured_is_replayed);
    tcase_add_test(tc, each_step_s_failure_is_named);
}
