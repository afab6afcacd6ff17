/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The gated delta rule against its definition in double, cut and mixed in every way. */
#include "kernels/args/delta.h"

#include "tests/unit/kernels/kernel_test.h"

#define SLOTS 3
#define ROWS  11

struct rule {
    uint32_t heads, key_heads, dim, values, decays;
    float scale, eps;
    size_t row;                /* of qkv */
    float *qkv, *decay, *beta; /* [SLOTS, ROWS, ...] of each sequence */
    float *state;
};

static void make(struct rule *r, struct noise *n)
{
    size_t rows = SLOTS * ROWS;
    r->row = 2ul * r->key_heads * r->dim + (size_t)r->heads * r->values;
    r->qkv = noise_floats(n, rows * r->row);
    r->decay = noise_floats(n, rows * r->heads * r->decays);
    r->beta = noise_floats(n, rows * r->heads);
    for (size_t i = 0; i < rows * r->heads * r->decays; i++)
        r->decay[i] = fabsf(r->decay[i]);
    for (size_t i = 0; i < rows * r->heads; i++)
        r->beta[i] = fabsf(r->beta[i]);
    r->state = must_alloc(SLOTS * (size_t)r->heads * r->dim * r->values * sizeof(float));
}

static void discard(struct rule *r)
{
    free(r->qkv);
    free(r->decay);
    free(r->beta);
    free(r->state);
}

static double inverse_length(const float *x, uint32_t dim, double eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < dim; i++)
        sum += (double)x[i] * (double)x[i];
    return eps < 0 ? 1 : 1 / sqrt(sum + eps);
}

/* One value column of one head of one sequence, as the definition says. y [ROWS] */
static void expected(const struct rule *r, uint32_t slot, uint32_t head, uint32_t column, double *y)
{
    double s[160] = {0};
    for (uint32_t t = 0; t < ROWS; t++) {
        size_t row = (size_t)slot * ROWS + t, number = row * r->heads + head;
        const float *q = r->qkv + row * r->row + head / (r->heads / r->key_heads) * r->dim;
        const float *k = q + r->key_heads * r->dim;
        const float *v =
            r->qkv + row * r->row + 2 * r->key_heads * r->dim + head * r->values + column;
        double ql = inverse_length(q, r->dim, (double)r->eps) * (double)r->scale;
        double kl = inverse_length(k, r->dim, (double)r->eps), said = 0;
        for (uint32_t i = 0; i < r->dim; i++) {
            s[i] *= (double)r->decay[r->decays == 1 ? number : number * r->dim + i];
            said += s[i] * (double)k[i] * kl;
        }
        double delta = (double)r->beta[number] * ((double)*v - said);
        y[t] = 0;
        for (uint32_t i = 0; i < r->dim; i++) {
            s[i] += (double)k[i] * kl * delta;
            y[t] += s[i] * (double)q[i] * ql;
        }
    }
}

/* All sequences side by side, sequence s in pieces of cuts[s] rows. */
static void run(struct rule *r, enum mtr_isa isa, const uint32_t cuts[SLOTS], float *y)
{
    uint32_t done[SLOTS] = {0};
    size_t out_row = (size_t)r->heads * r->values, decay_row = (size_t)r->heads * r->decays;
    float *qkv = must_alloc(SLOTS * ROWS * r->row * sizeof *qkv);
    float *decay = must_alloc(SLOTS * ROWS * decay_row * sizeof *decay);
    float *beta = must_alloc(SLOTS * ROWS * r->heads * sizeof *beta);
    float *out = must_alloc(SLOTS * ROWS * out_row * sizeof *out);
    memset(r->state, 0, SLOTS * (size_t)r->heads * r->dim * r->values * sizeof(float));
    for (uint32_t round = 0; round < ROWS; round++) {
        int32_t rows[SLOTS + 1] = {0}, slots[SLOTS];
        uint32_t lanes = 0, counts[SLOTS];
        for (uint32_t s = SLOTS; s-- > 0;) {
            uint32_t left = ROWS - done[s], count = left < cuts[s] ? left : cuts[s];
            size_t from = s * ROWS + done[s], to = (size_t)rows[lanes];
            if (!count)
                continue;
            memcpy(qkv + to * r->row, r->qkv + from * r->row, count * r->row * sizeof *qkv);
            memcpy(decay + to * decay_row, r->decay + from * decay_row,
                   count * decay_row * sizeof *decay);
            memcpy(beta + to * r->heads, r->beta + from * r->heads,
                   count * r->heads * sizeof *beta);
            slots[lanes] = (int32_t)s;
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
        run_kernel("delta_rule", isa,
                   &(struct mtr_delta_rule_args){.step = &step,
                                                 .qkv = qkv,
                                                 .decay = decay,
                                                 .beta = beta,
                                                 .y = out,
                                                 .state = r->state,
                                                 .heads = r->heads,
                                                 .key_heads = r->key_heads,
                                                 .head_dim = r->dim,
                                                 .value_dim = r->values,
                                                 .decays = r->decays,
                                                 .scale = r->scale,
                                                 .eps = r->eps},
                   3, 2);
        for (uint32_t l = 0; l < lanes; l++) {
            memcpy(y + ((size_t)slots[l] * ROWS + done[slots[l]]) * out_row,
                   out + (size_t)rows[l] * out_row, counts[l] * out_row * sizeof *y);
            done[slots[l]] += counts[l];
        }
    }
    free(qkv);
    free(decay);
    free(beta);
    free(out);
}

static const struct rule shapes[] = {
    {.heads = 4, .key_heads = 2, .dim = 32, .values = 32, .decays = 1, .scale = 0.2f, .eps = 1e-6f},
    {.heads = 2, .key_heads = 2, .dim = 128, .values = 128, .decays = 1, .scale = 1, .eps = 1e-6f},
    {.heads = 3, .key_heads = 1, .dim = 7, .values = 75, .decays = 1, .scale = 0.4f, .eps = -1},
    {.heads = 2, .key_heads = 1, .dim = 20, .values = 33, .decays = 20, .scale = 1, .eps = 1e-6f},
    {.heads = 1, .key_heads = 1, .dim = 1, .values = 1, .decays = 1, .scale = 1, .eps = 1},
};

START_TEST(values_however_it_is_cut)
{
    static const uint32_t cuts[][SLOTS] = {{11, 11, 11}, {1, 1, 1}, {11, 1, 4}, {3, 7, 10}};
    struct noise n = {(uint64_t)_i + 1};
    struct rule r = shapes[_i];
    make(&r, &n);
    size_t row = (size_t)r.heads * r.values, count = SLOTS * ROWS * row;
    float *first = must_alloc(count * sizeof *first), *y = must_alloc(count * sizeof *y);
    double want[ROWS];
    run(&r, MTR_ISA_PORTABLE, cuts[0], first);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        for (uint32_t c = 0; c < row; c++) {
            expected(&r, slot, c / r.values, c % r.values, want);
            for (uint32_t t = 0; t < ROWS; t++) {
                double got = (double)first[((size_t)slot * ROWS + t) * row + c];
                ck_assert_msg(fabs(got - want[t]) <= 3e-6 * (1 + fabs(want[t])), "%g, not %g", got,
                              want[t]);
            }
        }
    FOR_EACH_ISA(isa)
    {
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            poison(y, count * sizeof *y);
            run(&r, isa, cuts[k], y);
            same_bits(first, y, count, "delta_rule", isa);
        }
    }
    free(first);
    free(y);
    discard(&r);
}
END_TEST

START_TEST(gates)
{
    enum { HEADS = 21, TOKENS = 5 };
    struct noise n = {3};
    float *a = noise_floats(&n, TOKENS * HEADS), *b = noise_floats(&n, TOKENS * HEADS);
    float *a_log = noise_floats(&n, HEADS), *bias = noise_floats(&n, HEADS);
    float decay[TOKENS * HEADS], beta[TOKENS * HEADS];
    struct mtr_step_view step = {.tokens = TOKENS};
    for (int i = 0; i < TOKENS * HEADS; i++) {
        a[i] *= 30;
        b[i] *= 30;
    }
    FOR_EACH_ISA(isa)
    {
        poison(decay, sizeof decay);
        poison(beta, sizeof beta);
        run_kernel("delta_gate", isa,
                   &(struct mtr_delta_gate_args){&step, a, b, a_log, bias, decay, beta, HEADS}, 2,
                   1);
        for (int i = 0; i < TOKENS * HEADS; i++) {
            double x = (double)a[i] + (double)bias[i % HEADS];
            double want = exp(-exp((double)a_log[i % HEADS]) * log1p(exp(x)));
            ck_assert_msg(fabs(decay[i] - want) <= 1e-5 * want + 1e-37, "%g, not %g",
                          (double)decay[i], want);
            want = 1 / (1 + exp(-(double)b[i]));
            ck_assert_msg(fabs(beta[i] - want) <= 1e-6 * want, "%g, not %g", (double)beta[i], want);
        }
    }
    free(a);
    free(b);
    free(a_log);
    free(bias);
}
END_TEST

MTR_CHECK_MAIN("kernels/delta")
{
    tcase_add_loop_test(tc, values_however_it_is_cut, 0, 5);
    tcase_add_test(tc, gates);
}
