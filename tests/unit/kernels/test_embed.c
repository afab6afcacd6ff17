/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* embed_*: exactly the dequantized rows, times the multiplier. */
#include "kernels/args/embed.h"

#include "tests/unit/kernels/kernel_test.h"

static const struct {
    const char *function;
    enum mtr_format format;
} kinds[] = {
    {"embed_f32", MTR_F32},   {"embed_f16", MTR_F16},   {"embed_bf16", MTR_BF16},
    {"embed_q4_0", MTR_Q4_0}, {"embed_q4_1", MTR_Q4_1}, {"embed_q5_0", MTR_Q5_0},
    {"embed_q5_1", MTR_Q5_1}, {"embed_q8_0", MTR_Q8_0}, {"embed_q4_k", MTR_Q4_K},
    {"embed_q5_k", MTR_Q5_K}, {"embed_q6_k", MTR_Q6_K},
};
#define KINDS (int)(sizeof kinds / sizeof *kinds)
#define VOCAB 13
#define ROWS  9

static void check(struct noise *n, int kind, uint32_t cols, float multiplier)
{
    int32_t ids[ROWS];
    for (int r = 0; r < ROWS; r++)
        ids[r] = (int32_t)noise_below(n, VOCAB);
    ids[0] = VOCAB - 1;
    struct mtr_step_view step = {.tokens = ROWS, .token_ids = ids};
    uint8_t *w = noise_weights(n, kinds[kind].format, VOCAB, cols);
    float *values = dequantized(kinds[kind].format, w, VOCAB, cols);
    float *y = must_alloc(ROWS * cols * sizeof *y);
    struct mtr_embed_args args = {&step, w, y, cols, multiplier};
    FOR_EACH_ISA(isa)
    {
        poison(y, ROWS * cols * sizeof *y);
        run_kernel(kinds[kind].function, isa, &args, ROWS, 1);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t i = 0; i < cols; i++) {
                float want = values[(size_t)ids[r] * cols + i] * multiplier;
                ck_assert_msg(y[r * cols + i] == want, "%s (%s) [%u, %u]: %a, not %a",
                              kinds[kind].function, mtr_isa_name(isa), r, i,
                              (double)y[r * cols + i], (double)want);
            }
    }
    free(w);
    free(values);
    free(y);
}

START_TEST(rows_are_exact)
{
    struct noise n = {(uint64_t)_i + 1};
    uint32_t block = mtr_format_info(kinds[_i].format)->block_elements;
    for (int round = 0; round < 5; round++) {
        uint32_t cols = block == 1 ? 1 + noise_below(&n, 150) : block * (1 + noise_below(&n, 4));
        check(&n, _i, cols, 1.0f);
        check(&n, _i, cols, 3.7f);
    }
}
END_TEST

MTR_CHECK_MAIN("kernels/embed")
{
    tcase_add_loop_test(tc, rows_are_exact, 0, KINDS);
}
