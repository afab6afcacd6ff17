/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* combine: slots in order by fma, the same on all sets. */
#include "kernels/args/combine.h"

#include "tests/unit/kernels/kernel_test.h"

#define ROWS 5

static void check(struct noise *n, uint32_t cols, uint32_t top_k)
{
    struct mtr_step_view step = {.tokens = ROWS};
    float *x = noise_floats(n, (size_t)ROWS * top_k * cols),
          *shares = noise_floats(n, ROWS * top_k);
    float *want = must_alloc(ROWS * cols * sizeof *want), *y = must_alloc(ROWS * cols * sizeof *y);
    struct mtr_combine_args a = {&step, x, shares, y, cols, top_k};
    for (uint32_t t = 0; t < ROWS; t++)
        for (uint32_t i = 0; i < cols; i++) {
            float sum = 0;
            for (uint32_t s = 0; s < top_k; s++)
                sum = fmaf(shares[t * top_k + s], x[(t * top_k + s) * cols + i], sum);
            want[t * cols + i] = sum;
        }
    FOR_EACH_ISA(isa)
    {
        poison(y, ROWS * cols * sizeof *y);
        run_kernel("combine", isa, &a, 2, 1);
        same_bits(want, y, ROWS * cols, "combine", isa);
    }
    free(x);
    free(shares);
    free(want);
    free(y);
}

START_TEST(slots_in_order)
{
    struct noise n = {3};
    check(&n, 64, 8);
    check(&n, 1, 1);
    check(&n, 75, 3);
}
END_TEST

MTR_CHECK_MAIN("kernels/combine")
{
    tcase_add_test(tc, slots_in_order);
}
