/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Costs against numbers worked out by hand for a small model. */
#include "common/circuit/cost.c"

#include "tests/unit/circuit/model.h"

static struct model m;
static const struct mtr_plan *plan;

static void setup(void)
{
    model_smollm2_gguf(&m);
    plan = good_plan(&m);
}

static void teardown(void)
{
    model_free(&m);
}

START_TEST(memory)
{
    struct mtr_memory_need n = mtr_plan_memory(plan);
    uint64_t head = 49152ull * 576 / 32 * 34, matrices = 106168320ull / 32 * 20;
    ck_assert_uint_eq(n.weights, head + matrices + 35136 * 4); /* the tied head once */
    ck_assert_uint_eq(n.cache_token, 30 * 3 * 64 * 2 * 2);
    ck_assert_uint_eq(n.constants, 32 * 4);
    ck_assert(n.cache_sequence == 0 && n.state_sequence == 0 && n.arena == plan->arena_bytes);
}
END_TEST

START_TEST(one_decode_step)
{
    struct mtr_step_shape one = {1, 1, 99};
    struct mtr_cost c = mtr_step_cost(plan, &one, NULL);
    double matrices = 106168320.0 + 49152.0 * 576;
    ck_assert_double_eq(c.operations, 2 * matrices + 30 * 4.0 * 9 * 64 * 100);
    ck_assert_double_eq(c.cache_bytes, 30 * 3 * 64 * 2 * 2.0 * (100 + 1));
    double head = 49152.0 * 576 / 32 * 34;
    ck_assert_double_eq(c.weight_bytes,
                        head + 106168320.0 / 32 * 20 + 35136 * 4.0 + 576.0 / 32 * 34);
    ck_assert_double_eq(c.seconds, 0);
}
END_TEST

START_TEST(lanes_share_weights)
{
    struct mtr_step_shape one = {1, 1, 99}, eight = {8, 1, 99};
    struct mtr_cost a = mtr_step_cost(plan, &one, NULL), b = mtr_step_cost(plan, &eight, NULL);
    ck_assert_double_eq(b.operations, 8 * a.operations);
    ck_assert_double_eq(b.cache_bytes, 8 * a.cache_bytes);
    ck_assert(b.weight_bytes < 1.001 * a.weight_bytes);
}
END_TEST

START_TEST(causal_prefill)
{
    struct mtr_step_shape s = {2, 3, 10};
    ck_assert_double_eq(pairs(&s, 0), 2 * (11 + 12 + 13));
    ck_assert_double_eq(pairs(&s, 12), 2 * (11 + 12 + 12));
}
END_TEST

START_TEST(the_slower_bound_counts)
{
    struct mtr_device d = *mtr_device_find("host");
    struct mtr_step_shape one = {1, 1, 0};
    d.bandwidth = 1e9;
    d.flops_f32 = 1e30;
    struct mtr_cost c = mtr_step_cost(plan, &one, &d);
    ck_assert_double_eq_tol(c.seconds, (c.weight_bytes + c.cache_bytes + c.activation_bytes) / 1e9,
                            1e-9);
    d.bandwidth = 1e30;
    d.flops_f32 = 1e9;
    c = mtr_step_cost(plan, &one, &d);
    ck_assert_double_eq_tol(c.seconds, c.operations / 1e9, 1e-9);
}
END_TEST

MTR_CHECK_MAIN("circuit/cost")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, memory);
    tcase_add_test(tc, one_decode_step);
    tcase_add_test(tc, lanes_share_weights);
    tcase_add_test(tc, causal_prefill);
    tcase_add_test(tc, the_slower_bound_counts);
}
