/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/ops/sample.c"

#include "tests/support/op_rig.h"
#include "tests/unit/check_main.h"

START_TEST(fills_its_arguments)
{
    struct op_rig r;
    int32_t tokens[8], last[4];
    op_rig_open(&r);
    struct mtr_backend *b = r.context.backend;
    struct mtr_kernel *k = b->ops->kernel(b, "sample", "argmax", &r.err);
    ck_assert(mtr_op_sample(&r.context, k, tokens, last, &r.err));
    const struct mtr_mock_call *call = mtr_mock_call(b, 0);
    const struct mtr_sample_args *a = call->args;
    ck_assert_uint_eq(call->bytes, sizeof *a);
    ck_assert_uint_eq(call->grid[0], 2 * MTR_SAMPLE_SPLIT);
    ck_assert_ptr_eq(a->step, r.context.step);
    ck_assert_ptr_eq(a->logits, r.buffers[r.model.plan.logits]);
    ck_assert_ptr_eq(a->tokens, tokens);
    ck_assert_ptr_eq(a->last_tokens, last);
    ck_assert_uint_eq(a->vocab, TINY_VOCAB);
    ck_assert_uint_eq(a->stride, TINY_VOCAB);
    r.context.rows[MTR_ROWS_OUTPUTS] = 0;
    ck_assert(mtr_op_sample(&r.context, k, tokens, last, &r.err));
    ck_assert_uint_eq(mtr_mock_call_count(b), 1);
    op_rig_close(&r);
}
END_TEST

MTR_CHECK_MAIN("ops/sample")
{
    tcase_add_test(tc, fills_its_arguments);
}
