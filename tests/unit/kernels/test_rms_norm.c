/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* rms_norm: against f64, with and without residual, gather and unit offset. */
#include "kernels/args/rms_norm.h"

#include "tests/unit/kernels/kernel_test.h"

#define MAX_ROWS 20

static void check(struct noise *n, uint32_t cols, bool residual, bool gather, float offset)
{
    uint32_t from = 1 + noise_below(n, MAX_ROWS), rows = gather ? 1 + noise_below(n, from) : from;
    int32_t map[MAX_ROWS];
    for (uint32_t r = 0; r < rows; r++)
        map[r] = (int32_t)(from - 1 - r); /* each once: residual rows are updated in place */
    struct mtr_step_view step = {.tokens = from, .outputs = rows};
    float *x = noise_floats(n, from * cols), *base = noise_floats(n, from * cols);
    float *w = noise_floats(n, cols), *y = must_alloc(rows * cols * sizeof *y);
    float *sum = must_alloc(from * cols * sizeof *sum), *first = NULL;
    struct mtr_rms_norm_args args = {.step = &step,
                                     .x = x,
                                     .residual = residual ? sum : NULL,
                                     .weight = w,
                                     .y = y,
                                     .gather = gather ? map : NULL,
                                     .rows_kind = gather ? MTR_ROWS_OUTPUTS : MTR_ROWS_TOKENS,
                                     .cols = cols,
                                     .eps = 1e-5f,
                                     .unit_offset = offset};
    FOR_EACH_ISA(isa)
    {
        memcpy(sum, base, from * cols * sizeof *sum);
        poison(y, rows * cols * sizeof *y);
        run_kernel("rms_norm", isa, &args, rows, 1);
        for (uint32_t r = 0; r < rows; r++) {
            size_t at = (gather ? (uint32_t)map[r] : r) * cols;
            double square = 0;
            for (uint32_t i = 0; i < cols; i++) {
                float v = residual ? base[at + i] + x[at + i] : x[at + i];
                square += (double)v * v;
                if (residual)
                    ck_assert(sum[at + i] == v);
            }
            double inverse = 1 / sqrt(square / cols + 1e-5);
            for (uint32_t i = 0; i < cols; i++) {
                double v = residual ? sum[at + i] : x[at + i];
                double want = v * inverse * (offset + (double)w[i]);
                ck_assert(fabs(y[r * cols + i] - want) <= 1e-6 * (fabs(want) + 1));
            }
        }
        if (!first) {
            first = must_alloc(rows * cols * sizeof *first);
            memcpy(first, y, rows * cols * sizeof *first);
        }
        same_bits(first, y, rows * cols, "rms_norm", isa);
    }
    free(x);
    free(base);
    free(w);
    free(y);
    free(sum);
    free(first);
}

START_TEST(norms)
{
    struct noise n = {(uint64_t)_i + 1};
    for (int round = 0; round < 10; round++)
        check(&n, 1 + noise_below(&n, 600), _i & 1, _i & 2, _i & 4 ? 1.0f : 0.0f);
}
END_TEST

START_TEST(gated_heads)
{
    enum { ROWS = 6, HEADS = 3, DIM = 21, ALL = ROWS * HEADS * DIM };
    struct noise n = {21};
    struct mtr_step_view step = {.tokens = ROWS};
    float *x = noise_floats(&n, ALL), *gate = noise_floats(&n, ALL),
          *w = noise_floats(&n, HEADS * DIM);
    float y[ALL], first[ALL];
    struct mtr_gated_norm_args args = {.step = &step,
                                       .x = x,
                                       .gate = gate,
                                       .weight = w,
                                       .y = first,
                                       .heads = HEADS,
                                       .head_dim = DIM,
                                       .wide = _i,
                                       .gate_first = _i,
                                       .activation = MTR_ACT_SILU,
                                       .eps = 1e-6f};
    run_kernel("gated_norm", MTR_ISA_PORTABLE, &args, ROWS, 1);
    for (int i = 0; i < ALL; i++) {
        double square = 0, v[DIM];
        for (int k = 0; k < DIM; k++) {
            int at = i / DIM * DIM + k;
            double g = gate[at];
            v[k] = x[at] * (_i ? g / (1 + exp(-g)) : 1);
            square += v[k] * v[k];
        }
        double g = gate[i], weight = w[_i ? i % (HEADS * DIM) : i % DIM];
        double want = v[i % DIM] / sqrt(square / DIM + 1e-6) * weight;
        want *= _i ? 1 : g / (1 + exp(-g));
        ck_assert_msg(fabs(first[i] - want) <= 2e-6, "%g, not %g", (double)first[i], want);
    }
    args.y = y;
    FOR_EACH_ISA(isa)
    {
        poison(y, sizeof y);
        run_kernel("gated_norm", isa, &args, 2, 1);
        same_bits(first, y, ALL, "gated_norm", isa);
    }
    free(x);
    free(gate);
    free(w);
}
END_TEST

MTR_CHECK_MAIN("kernels/rms_norm")
{
    tcase_add_loop_test(tc, gated_heads, 0, 2);
    tcase_add_loop_test(tc, norms, 0, 8);
}
