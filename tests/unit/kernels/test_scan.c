/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Mamba-2's scan against its definition in double, cut and mixed in every way. */
#include "kernels/args/scan.h"

#include "tests/unit/kernels/kernel_test.h"

#define SLOTS 3
#define ROWS  11

struct scan {
    uint32_t heads, dim, groups, states;
    size_t row; /* of xbc */
    float *xbc, *dt, *a_log, *d, *bias, *state;
};

static void make(struct scan *s, struct noise *n)
{
    s->row = (size_t)s->heads * s->dim + 2ul * s->groups * s->states;
    s->xbc = noise_floats(n, SLOTS * ROWS * s->row);
    s->dt = noise_floats(n, SLOTS * ROWS * s->heads);
    s->a_log = noise_floats(n, s->heads);
    s->d = noise_floats(n, s->heads);
    s->bias = noise_floats(n, s->heads);
    s->state = must_alloc(SLOTS * (size_t)s->heads * s->dim * s->states * sizeof(float));
    for (uint32_t i = 0; i < SLOTS * ROWS * s->heads; i++)
        s->dt[i] = s->dt[i] * 6 - 2; /* some below the least */
}

static void discard(struct scan *s)
{
    free(s->xbc);
    free(s->dt);
    free(s->a_log);
    free(s->d);
    free(s->bias);
    free(s->state);
}

/* One column of one head of one sequence. y [ROWS] */
static void expected(const struct scan *s, uint32_t slot, uint32_t head, uint32_t column, double *y)
{
    double state[MTR_SCAN_PACKED_ROWS + 1] = {0};
    for (uint32_t t = 0; t < ROWS; t++) {
        size_t row = (size_t)slot * ROWS + t;
        const float *x = s->xbc + row * s->row + head * s->dim + column;
        const float *b =
            s->xbc + row * s->row + s->heads * s->dim + head / (s->heads / s->groups) * s->states;
        const float *c = b + s->groups * s->states;
        double dt = log1p(exp((double)s->dt[row * s->heads + head] + (double)s->bias[head]));
        dt = dt < 0.01 ? 0.01 : dt;
        y[t] = (double)s->d[head] * (double)*x;
        for (uint32_t i = 0; i < s->states; i++) {
            state[i] =
                state[i] * exp(-exp((double)s->a_log[head]) * dt) + (double)b[i] * dt * (double)*x;
            y[t] += (double)c[i] * state[i];
        }
    }
}

/* All sequences side by side, sequence i in pieces of cuts[i] rows. */
static void run(struct scan *s, enum mtr_isa isa, const uint32_t cuts[SLOTS], float *y)
{
    uint32_t done[SLOTS] = {0};
    size_t out_row = (size_t)s->heads * s->dim;
    float *xbc = must_alloc(SLOTS * ROWS * s->row * sizeof *xbc);
    float *dt = must_alloc(SLOTS * ROWS * s->heads * sizeof *dt);
    float *out = must_alloc(SLOTS * ROWS * out_row * sizeof *out);
    memset(s->state, 0, SLOTS * out_row * s->states * sizeof(float));
    for (uint32_t round = 0; round < ROWS; round++) {
        int32_t rows[SLOTS + 1] = {0}, slots[SLOTS];
        uint32_t lanes = 0, counts[SLOTS];
        for (uint32_t i = SLOTS; i-- > 0;) {
            uint32_t left = ROWS - done[i], count = left < cuts[i] ? left : cuts[i];
            size_t from = i * ROWS + done[i], to = (size_t)rows[lanes];
            if (!count)
                continue;
            memcpy(xbc + to * s->row, s->xbc + from * s->row, count * s->row * sizeof *xbc);
            memcpy(dt + to * s->heads, s->dt + from * s->heads, count * s->heads * sizeof *dt);
            slots[lanes] = (int32_t)i;
            counts[lanes] = count;
            rows[lanes + 1] = rows[lanes] + (int32_t)count;
            lanes++;
        }
        if (!lanes)
            break;
        struct mtr_step_view step = {.tokens = (uint32_t)rows[lanes],
                                     .lanes = lanes,
                                     .lane_rows = rows,
                                     .lane_slots = slots};
        poison(out, SLOTS * ROWS * out_row * sizeof *out);
        run_kernel("scan", isa,
                   &(struct mtr_scan_args){&step, xbc, dt, s->a_log, s->d, s->bias, out, s->state,
                                           s->heads, s->dim, s->groups, s->states, 0.01f},
                   3, 2);
        for (uint32_t l = 0; l < lanes; l++) {
            memcpy(y + ((size_t)slots[l] * ROWS + done[slots[l]]) * out_row,
                   out + (size_t)rows[l] * out_row, counts[l] * out_row * sizeof *y);
            done[slots[l]] += counts[l];
        }
    }
    free(xbc);
    free(dt);
    free(out);
}

static const struct scan shapes[] = {
    {.heads = 8, .dim = 16, .groups = 2, .states = 32},
    {.heads = 2, .dim = 64, .groups = 1, .states = 128},
    {.heads = 3, .dim = 75, .groups = 3, .states = 7},
    {.heads = 1, .dim = 1, .groups = 1, .states = 1},
    {.heads = 1, .dim = 3, .groups = 1, .states = MTR_SCAN_PACKED_ROWS + 1},
};

START_TEST(values_however_it_is_cut)
{
    static const uint32_t cuts[][SLOTS] = {{11, 11, 11}, {1, 1, 1}, {11, 1, 4}, {3, 7, 10}};
    struct noise n = {(uint64_t)_i + 1};
    struct scan s = shapes[_i];
    make(&s, &n);
    size_t row = (size_t)s.heads * s.dim, count = SLOTS * ROWS * row;
    float *first = must_alloc(count * sizeof *first), *y = must_alloc(count * sizeof *y);
    double want[ROWS];
    run(&s, MTR_ISA_PORTABLE, cuts[0], first);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        for (uint32_t c = 0; c < row; c++) {
            expected(&s, slot, c / s.dim, c % s.dim, want);
            for (uint32_t t = 0; t < ROWS; t++) {
                double got = (double)first[((size_t)slot * ROWS + t) * row + c];
                ck_assert_msg(fabs(got - want[t]) <= 2e-5 * (1 + fabs(want[t])), "%g, not %g", got,
                              want[t]);
            }
        }
    FOR_EACH_ISA(isa)
    {
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            poison(y, count * sizeof *y);
            run(&s, isa, cuts[k], y);
            same_bits(first, y, count, "scan", isa);
        }
    }
    free(first);
    free(y);
    discard(&s);
}
END_TEST

MTR_CHECK_MAIN("kernels/scan")
{
    tcase_add_loop_test(tc, values_however_it_is_cut, 0, 5);
}
