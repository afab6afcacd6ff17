/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/unit/kernels/kernel_test.h"

START_TEST(every_kernel_has_a_portable_variant_and_a_name_of_its_own)
{
    size_t count;
    const struct mtr_host_entry *e = mtr_host_kernels(&count);
    ck_assert_uint_ge(count, 33);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_nonnull(e[i].variants[MTR_ISA_PORTABLE]);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(e[i].function, e[j].function);
    }
}
END_TEST

START_TEST(variants_fall_back)
{
    struct mtr_host_entry e = *find_kernel("add");
    e.variants[MTR_ISA_NEON] = e.variants[MTR_ISA_AVX2] = e.variants[MTR_ISA_AVX512] = NULL;
    ck_assert(mtr_host_variant(&e, MTR_ISA_AVX512) == e.variants[MTR_ISA_PORTABLE]);
    ck_assert(mtr_host_variant(&e, MTR_ISA_PORTABLE) == e.variants[MTR_ISA_PORTABLE]);
}
END_TEST

START_TEST(the_best_set_is_available)
{
    ck_assert(mtr_host_isa_available(MTR_ISA_PORTABLE));
    ck_assert(mtr_host_isa_available(mtr_host_best_isa()));
    for (int isa = (int)mtr_host_best_isa() + 1; isa < MTR_ISA_COUNT; isa++)
        ck_assert(!mtr_host_isa_available((enum mtr_isa)isa));
    ck_assert_str_eq(mtr_isa_name(MTR_ISA_AVX512), "avx512");
    ck_assert_str_eq(mtr_isa_name(MTR_ISA_COUNT), "unknown");
}
END_TEST

MTR_CHECK_MAIN("kernels/registry")
{
    tcase_add_test(tc, every_kernel_has_a_portable_variant_and_a_name_of_its_own);
    tcase_add_test(tc, variants_fall_back);
    tcase_add_test(tc, the_best_set_is_available);
}
