/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Launch lists and graphs, on a mock that says it has graphs. */
#include "worker/exec/run.c"

#include <string.h>

#include "tests/support/mock_device.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

#define LANES 5

static struct tiny_model model;
static struct mtr_backend *b;
static struct mtr_backend_ops ops;
static struct mtr_exec *e;
static uint32_t begun, replayed, destroyed;
static bool graphs, capture_fails;
static char graph;

static bool info(struct mtr_backend *backend, struct mtr_device_info *out, struct mtr_error *err)
{
    *out = (struct mtr_device_info){.processors = 1, .direct = true, .graphs = graphs};
    return true;
}

static bool graph_begin(struct mtr_backend *backend, struct mtr_stream *s, struct mtr_error *err)
{
    begun++;
    return true;
}

static struct mtr_graph *graph_end(struct mtr_backend *backend, struct mtr_stream *s,
                                   struct mtr_error *err)
{
    if (capture_fails)
        mtr_fail(err, MTR_IO, "no capture");
    return capture_fails ? NULL : (struct mtr_graph *)&graph;
}

static bool graph_launch(struct mtr_backend *backend, struct mtr_stream *s, struct mtr_graph *g,
                         struct mtr_error *err)
{
    ck_assert_ptr_eq(g, &graph);
    replayed++;
    return true;
}

static void graph_destroy(struct mtr_backend *backend, struct mtr_graph *g)
{
    destroyed++;
}

static void run_argmax(void *context, const struct mtr_mock_call *launch)
{
    if (strcmp(launch->module, "sample") == 0)
        mock_device_run(context, launch);
}

static void open_with(bool has_graphs)
{
    graphs = has_graphs;
    begun = replayed = destroyed = 0;
    capture_fails = false;
    tiny_model_init(&model,
                    (struct mtr_plan_limits){.max_step_tokens = 32,
                                             .max_step_outputs = 8,
                                             .max_lanes = LANES,
                                             .max_sequence_tokens = 64},
                    MTR_F32);
    b = mtr_mock_backend_create();
    mtr_mock_on_launch(b, run_argmax, NULL);
    ops = *b->ops;
    ops.info = info;
    ops.graph_begin = graph_begin;
    ops.graph_end = graph_end;
    ops.graph_launch = graph_launch;
    ops.graph_destroy = graph_destroy;
    b->ops = &ops;
    e = mtr_exec_create(&(struct mtr_exec_options){.backend = b,
                                                   .plan = &model.plan,
                                                   .weights = model.addresses,
                                                   .max_slots = LANES,
                                                   .group_blocks = {16}},
                        NULL);
    ck_assert_ptr_nonnull(e);
}

static void close_all(void)
{
    mtr_exec_destroy(e);
    b->ops->destroy(b);
    tiny_model_free(&model);
}

static uint32_t launches(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < mtr_mock_call_count(b); i++)
        n += mtr_mock_call(b, i)->kind == MTR_MOCK_LAUNCH;
    mtr_mock_forget(b);
    return n;
}

/* Prefills all lanes, or decodes a token in `lanes` of them. */
static bool step(bool prefill, uint32_t lanes, uint32_t start, struct mtr_error *err)
{
    static const uint32_t tokens[4] = {1, 2, 3, 4}, blocks[4] = {0, 1, 2, 3};
    static const struct mtr_table_change table = {.count = 4, .blocks = blocks};
    struct mtr_lane lane[LANES];
    struct mtr_step_result result;
    memset(e->memory.chosen, 0, LANES * sizeof *e->memory.chosen); /* graphs do nothing here */
    for (uint32_t i = 0; i < lanes; i++)
        lane[i] = (struct mtr_lane){.sequence = i,
                                    .slot = i,
                                    .open = prefill,
                                    .start = start,
                                    .count = prefill ? 4 : 1,
                                    .tokens = tokens,
                                    .outputs = 1,
                                    .table_count = prefill,
                                    .tables = &table};
    return mtr_exec_step(e, &(struct mtr_step_plan){.lane_count = lanes, .lanes = lane}, &result,
                         err);
}

START_TEST(without_graphs_every_step_walks_the_list)
{
    open_with(false);
    ck_assert(step(true, 2, 0, NULL));
    ck_assert_uint_eq(launches(), TINY_LAUNCHES + 1); /* and the choice of tokens */
    ck_assert(step(false, 2, 4, NULL));
    ck_assert_uint_eq(launches(), TINY_LAUNCHES + 1); /* and the choice of tokens */
    ck_assert_uint_eq(begun, 0);
    close_all();
}
END_TEST

START_TEST(widths_are_few)
{
    static const uint32_t wants[][2] = {{1, 1},   {2, 2},    {3, 4},     {5, 8},    {9, 16},
                                        {16, 16}, {17, 24},  {25, 32},   {33, 48},  {49, 64},
                                        {65, 96}, {97, 128}, {129, 192}, {200, 200}};
    for (uint32_t i = 0; i < sizeof wants / sizeof *wants; i++)
        ck_assert_uint_eq(width_for(wants[i][0], 200), wants[i][1]);
    ck_assert_uint_eq(width_for(5, 6), 6);
}
END_TEST

START_TEST(decode_steps_are_captured_once_a_view_and_width)
{
    open_with(true);
    ck_assert(step(true, LANES, 0, NULL));
    ck_assert_uint_eq(begun, 0);
    launches();
    for (uint32_t i = 0; i < 6; i++)
        ck_assert(step(false, 3 + i % 2, 4, NULL)); /* both of width 4 */
    ck_assert_uint_eq(begun, MTR_PLANS_IN_FLIGHT);
    ck_assert_uint_eq(replayed, 6);
    ck_assert_uint_eq(launches(), (TINY_LAUNCHES + 1) * MTR_PLANS_IN_FLIGHT);
    ck_assert(step(false, 5, 4, NULL));
    ck_assert_uint_eq(begun, MTR_PLANS_IN_FLIGHT + 1);
    close_all();
    ck_assert_uint_eq(destroyed, MTR_PLANS_IN_FLIGHT + 1);
}
END_TEST

START_TEST(after_the_warm_up_nothing_is_captured)
{
    const struct mtr_step_view *view;
    open_with(true);
    ck_assert(mtr_exec_warm_up(e, NULL));
    view = mtr_view_device(&e->flights[0].view);
    ck_assert_uint_eq(view->tokens + view->lanes + view->outputs, 0); /* nobody's rows */
    ck_assert_uint_eq(begun, 4 * MTR_PLANS_IN_FLIGHT);                /* 1, 2, 4, 5 */
    ck_assert_uint_eq(replayed, begun);
    ck_assert(step(true, LANES, 0, NULL));
    for (uint32_t i = 1; i <= LANES; i++)
        ck_assert(step(false, i, 4, NULL));
    ck_assert_uint_eq(begun, 4 * MTR_PLANS_IN_FLIGHT);
    close_all();
    open_with(false);
    mtr_mock_forget(b);
    ck_assert(mtr_exec_warm_up(e, NULL)); /* nothing to do without graphs */
    ck_assert_uint_eq(launches(), 0);
    close_all();
}
END_TEST

START_TEST(a_failed_capture_is_an_error)
{
    struct mtr_error err = {0};
    open_with(true);
    capture_fails = true;
    ck_assert(step(true, 1, 0, NULL));
    ck_assert(!step(false, 1, 4, &err));
    ck_assert_str_eq(err.message, "no capture");
    close_all();
}
END_TEST

START_TEST(a_lost_device_names_the_place)
{
    struct mtr_error err = {0};
    open_with(false);
    ck_assert(step(true, 1, 0, NULL));
    mtr_mock_fail_after(b, 8);
    ck_assert(!step(false, 1, 4, &err));
    ck_assert_msg(strstr(err.message, "mock device is lost") != NULL, "%s", err.message);
    ck_assert_msg(strchr(err.message, ':') != NULL, "%s", err.message); /* of which function */
    close_all();
}
END_TEST

START_TEST(a_class_without_the_kernel_is_refused)
{
    struct mtr_error err = {0};
    open_with(false);
    mtr_exec_destroy(e);
    mtr_mock_deny(b, "attention", "attention_f32");
    e = mtr_exec_create(&(struct mtr_exec_options){.backend = b,
                                                   .plan = &model.plan,
                                                   .weights = model.addresses,
                                                   .max_slots = 1,
                                                   .group_blocks = {16}},
                        &err);
    ck_assert_ptr_null(e);
    ck_assert_ptr_nonnull(strstr(err.message, "attention_f32"));
    close_all();
}
END_TEST

MTR_CHECK_MAIN("exec/run")
{
    tcase_add_test(tc, without_graphs_every_step_walks_the_list);
    tcase_add_test(tc, widths_are_few);
    tcase_add_test(tc, decode_steps_are_captured_once_a_view_and_width);
    tcase_add_test(tc, after_the_warm_up_nothing_is_captured);
    tcase_add_test(tc, a_failed_capture_is_an_error);
    tcase_add_test(tc, a_lost_device_names_the_place);
    tcase_add_test(tc, a_class_without_the_kernel_is_refused);
}
