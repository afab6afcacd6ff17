/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/ops.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

static struct op_rig r;

static bool resolves(const struct mtr_launch *l)
{
    struct mtr_resolved_op op;
    return mtr_op_resolve(&op, r.context.backend, &r.model.plan, l, &r.err);
}

START_TEST(every_launch_of_a_plan_resolves)
{
    op_rig_open(&r);
    for (uint32_t i = 0; i < TINY_LAUNCHES; i++)
        ck_assert_msg(resolves(&r.model.launches[i]), "%s", r.err.message);
    op_rig_close(&r);
}
END_TEST

START_TEST(an_absent_kernel_is_named)
{
    op_rig_open(&r);
    mtr_mock_deny(r.context.backend, "rope", "rotary");
    struct mtr_launch l = op_rig_launch(&r, "rotary");
    ck_assert(!resolves(&l));
    ck_assert_ptr_nonnull(strstr(r.err.message, "rotary"));
    op_rig_close(&r);
}
END_TEST

START_TEST(an_unknown_function_is_unsupported)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rotary");
    struct mtr_point point = *l.point;
    l.point = &point;
    point.function = "rotaryish";
    ck_assert(!resolves(&l));
    ck_assert_int_eq(r.err.code, MTR_UNSUPPORTED);
    op_rig_close(&r);
}
END_TEST

START_TEST(a_missing_slot_is_named)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "rope_append");
    l.cache = MTR_NONE;
    ck_assert(!resolves(&l));
    ck_assert_ptr_nonnull(strstr(r.err.message, "cache"));
    l = op_rig_launch(&r, "rope_append");
    l.in[1] = MTR_NONE;
    ck_assert(!resolves(&l));
    ck_assert_ptr_nonnull(strstr(r.err.message, "inputs"));
    l = op_rig_launch(&r, "rope_append");
    l.in[3] = MTR_NONE; /* optional */
    ck_assert(resolves(&l));
    l.in[3] = (uint16_t)r.model.plan.buffer_count;
    ck_assert(!resolves(&l));
    l = op_rig_launch(&r, "rotary");
    l.constant = 1;
    ck_assert(!resolves(&l));
    ck_assert_ptr_nonnull(strstr(r.err.message, "constant"));
    l = op_rig_launch(&r, "linear");
    l.weight_count = 0;
    ck_assert(!resolves(&l));
    l = op_rig_launch(&r, "attention");
    l.param_count = 2;
    ck_assert(!resolves(&l));
    ck_assert_ptr_nonnull(strstr(r.err.message, "parameter"));
    ck_assert_int_eq(r.err.code, MTR_INTERNAL);
    op_rig_close(&r);
}
END_TEST

START_TEST(no_rows_launch_nothing)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "embed");
    struct mtr_resolved_op op;
    r.context.rows[MTR_ROWS_TOKENS] = 0;
    ck_assert(mtr_op_resolve(&op, r.context.backend, &r.model.plan, &l, NULL));
    ck_assert(mtr_op_run(&r.context, &op, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(r.context.backend), 0);
    op_rig_close(&r);
}
END_TEST

START_TEST(a_failed_launch_names_the_function)
{
    op_rig_open(&r);
    struct mtr_launch l = op_rig_launch(&r, "embed");
    struct mtr_resolved_op op;
    ck_assert(mtr_op_resolve(&op, r.context.backend, &r.model.plan, &l, NULL));
    mtr_mock_fail_after(r.context.backend, 0);
    ck_assert(!mtr_op_run(&r.context, &op, &r.err));
    ck_assert_ptr_nonnull(strstr(r.err.message, "embed_f32"));
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/ops")
{
    tcase_add_test(tc, every_launch_of_a_plan_resolves);
    tcase_add_test(tc, an_absent_kernel_is_named);
    tcase_add_test(tc, an_unknown_function_is_unsupported);
    tcase_add_test(tc, a_missing_slot_is_named);
    tcase_add_test(tc, no_rows_launch_nothing);
    tcase_add_test(tc, a_failed_launch_names_the_function);
}
