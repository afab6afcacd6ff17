/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/circuit/ir.c"

#include <string.h>

#include "tests/unit/check_main.h"

START_TEST(every_operation_has_a_signature)
{
    for (uint32_t i = 0; i < MTR_OP_COUNT; i++) {
        const struct mtr_op_info *a = mtr_op_info(i);
        ck_assert_msg(a && a->name && a->inputs && a->outputs && a->weights && a->params, "%u", i);
        for (uint32_t k = 0; k < i; k++)
            ck_assert_str_ne(a->name, mtr_op_info(k)->name);
    }
    ck_assert_ptr_null(mtr_op_info(MTR_OP_COUNT));
}
END_TEST

START_TEST(every_scaling_has_a_name)
{
    for (uint32_t i = 0; i < MTR_SCALING_COUNT; i++)
        ck_assert_ptr_nonnull(mtr_scaling_name(i));
    ck_assert_str_eq(mtr_scaling_name(MTR_SCALING_COUNT), "?");
}
END_TEST

MTR_CHECK_MAIN("circuit/ir")
{
    tcase_add_test(tc, every_operation_has_a_signature);
    tcase_add_test(tc, every_scaling_has_a_name);
}
