/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/base/ns.h"
#include "tests/support/sched_rig.h"
#include "tests/unit/check_main.h"

#define MS MTR_NS_PER_MS

static struct sched_rig r;

static void setup(void)
{
    rig_init(&r);
}

static void teardown(void)
{
    rig_free(&r);
}

START_TEST(fifo_takes_them_as_they_came)
{
    rig_start(&r);
    uint64_t first = rig_submit(&r, 0, 30, 5);
    rig_submit(&r, 100, 4, 5);
    ck_assert_uint_eq(mtr_policy_next(r.sched, true)->id, first);
    ck_assert_uint_eq(mtr_policy_next(r.sched, false)->id, first);
    ck_assert_uint_eq(mtr_policy_budget(r.sched, 0), 64);
}
END_TEST

START_TEST(slai_takes_the_front_then_the_shortest)
{
    r.config.policy = MTR_SCHED_SLAI;
    rig_start(&r);
    uint64_t first = rig_submit(&r, 0, 20, 5);
    rig_submit(&r, 100, 12, 5);
    uint64_t shortest = rig_submit(&r, 200, 4, 5);
    ck_assert_uint_eq(mtr_policy_next(r.sched, true)->id, first);
    ck_assert_uint_eq(mtr_policy_next(r.sched, false)->id, shortest);
    r.config.max_batch_size = 2;
    r.sched->config.max_batch_size = 2;
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert_uint_eq(plan->lane_count, 2);
    ck_assert_uint_eq(plan->lanes[0].sequence, first);
    ck_assert_uint_eq(plan->lanes[1].sequence, shortest);
}
END_TEST

START_TEST(slai_leaves_prefill_out_for_who_has_waited)
{
    r.config.policy = MTR_SCHED_SLAI;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 0, 4, 50);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 1)); /* its first token, now */
    uint64_t b = rig_submit(&r, 100, 4, 5);
    r.now_ns = 80 * MS; /* 80% of the deadline */
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert(rig_lane(plan, a) && !rig_lane(plan, b));
    ck_assert(rig_answer(&r, 1));
    plan = rig_plan(&r); /* a has just had a token */
    ck_assert(rig_lane(plan, a) && rig_lane(plan, b));
}
END_TEST

START_TEST(slai_does_not_starve_prefill)
{
    r.config.policy = MTR_SCHED_SLAI;
    rig_start(&r);
    rig_submit(&r, 0, 4, 150);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 1));
    uint64_t b = rig_submit(&r, 100, 4, 5);
    uint32_t steps = 0;
    for (; steps < 2 * MTR_SLAI_MAX_SKIPS; steps++) {
        r.now_ns += 90 * MS; /* every step is late */
        if (rig_lane(rig_plan(&r), b))
            break;
        ck_assert(rig_answer(&r, 1));
    }
    ck_assert_uint_eq(steps, MTR_SLAI_MAX_SKIPS);
}
END_TEST

START_TEST(slai_spares_no_prefill_for_who_cannot_go_on)
{
    uint8_t mask[RIG_VOCAB / 8] = {1};
    r.config.policy = MTR_SCHED_SLAI;
    r.params.constrained = true;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 0, 4, 50);
    ck_assert(mtr_sched_mask(r.sched, a, mask, sizeof(mask)));
    rig_plan(&r);
    ck_assert(rig_answer(&r, 0));
    r.params.constrained = false;
    uint64_t b = rig_submit(&r, 100, 4, 5);
    r.now_ns = 500 * MS; /* a has waited long, but for its mask */
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert(!rig_lane(plan, a) && rig_lane(plan, b));
}
END_TEST

START_TEST(slai_sizes_prefill_by_what_a_row_takes)
{
    r.config.policy = MTR_SCHED_SLAI;
    rig_start(&r);
    rig_submit(&r, 0, 4, 50);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 1));
    ck_assert_uint_eq(mtr_policy_budget(r.sched, 0), 64); /* nothing known yet */
    mtr_policy_observe(r.sched, 8, 8, 8 * 4 * MS);        /* too few rows to learn from */
    ck_assert_uint_eq(mtr_policy_budget(r.sched, 0), 64);
    mtr_policy_observe(r.sched, 40, 32, 40 * 4 * MS);
    ck_assert_uint_eq(mtr_policy_budget(r.sched, 0), 20); /* of 4 ms in 80 ms */
    for (int i = 0; i < 100; i++)
        mtr_policy_observe(r.sched, 40, 32, 40 * 40 * MS);
    ck_assert_uint_eq(mtr_policy_budget(r.sched, 0), MTR_SLAI_MIN_TOKENS);
}
END_TEST

START_TEST(siblings_wait_for_the_prompt)
{
    rig_start(&r);
    uint64_t first = rig_submit(&r, 0, 21, 5);
    r.params.after = first;
    uint64_t second = rig_submit(&r, 0, 21, 5);
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert(rig_lane(plan, first) && !rig_lane(plan, second));
    ck_assert(!rig_lane(rig_plan(&r), second));
    ck_assert(rig_answer(&r, 7));
    const struct mtr_lane *lane = rig_lane(rig_plan(&r), second);
    ck_assert_ptr_nonnull(lane);
    ck_assert_uint_eq(lane->start, 20);
    ck_assert_uint_eq(lane->count, 1);
}
END_TEST

START_TEST(a_sibling_of_nobody_goes_at_once)
{
    rig_start(&r);
    uint64_t first = rig_submit(&r, 0, 21, 5);
    r.params.after = first;
    uint64_t second = rig_submit(&r, 0, 21, 5);
    mtr_sched_cancel(r.sched, first, MTR_FINISH_CANCELLED, 0);
    ck_assert_ptr_nonnull(rig_lane(rig_plan(&r), second));
}
END_TEST

MTR_CHECK_MAIN("sched/policy")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, fifo_takes_them_as_they_came);
    tcase_add_test(tc, slai_takes_the_front_then_the_shortest);
    tcase_add_test(tc, slai_leaves_prefill_out_for_who_has_waited);
    tcase_add_test(tc, slai_does_not_starve_prefill);
    tcase_add_test(tc, slai_spares_no_prefill_for_who_cannot_go_on);
    tcase_add_test(tc, slai_sizes_prefill_by_what_a_row_takes);
    tcase_add_test(tc, siblings_wait_for_the_prompt);
    tcase_add_test(tc, a_sibling_of_nobody_goes_at_once);
}
