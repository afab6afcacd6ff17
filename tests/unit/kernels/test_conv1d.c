/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The causal convolution against its definition in double, cut and mixed in every way. */
#include "kernels/args/conv1d.h"

#include "tests/unit/kernels/kernel_test.h"

#define SLOTS 4
#define ROWS  9

struct conv {
    uint32_t channels, taps;
    float *weight, *bias;
    float *x;     /* [SLOTS, ROWS, channels] of each sequence */
    float *state; /* [SLOTS, taps - 1, channels] */
};

static void make(struct conv *c, struct noise *n, uint32_t channels, uint32_t taps)
{
    *c = (struct conv){channels,
                       taps,
                       noise_floats(n, channels * taps),
                       noise_floats(n, channels),
                       noise_floats(n, SLOTS * ROWS * channels),
                       must_alloc(SLOTS * taps * channels * sizeof(float))};
}

static void discard(struct conv *c)
{
    free(c->weight);
    free(c->bias);
    free(c->x);
    free(c->state);
}

static double expected(const struct conv *c, uint32_t slot, int row, uint32_t channel)
{
    const float *x = c->x + (size_t)slot * ROWS * c->channels;
    double sum = (double)c->bias[channel];
    for (uint32_t j = 0; j < c->taps; j++) {
        int at = row - (int)(c->taps - 1) + (int)j;
        if (at >= 0)
            sum += (double)c->weight[channel * c->taps + j] *
                   (double)x[(size_t)at * c->channels + channel];
    }
    return sum / (1 + exp(-sum));
}

/* All sequences side by side, sequence s in pieces of cuts[s] rows. y [SLOTS, ROWS, channels]. */
static void run(struct conv *c, enum mtr_isa isa, const uint32_t cuts[SLOTS], float *y)
{
    uint32_t done[SLOTS] = {0};
    size_t bytes = SLOTS * ROWS * c->channels * sizeof(float);
    float *x = must_alloc(bytes), *out = must_alloc(bytes);
    memset(c->state, 0, SLOTS * c->taps * c->channels * sizeof(float));
    for (uint32_t round = 0; round < ROWS; round++) {
        int32_t rows[SLOTS + 1] = {0}, slots[SLOTS];
        uint32_t lanes = 0, counts[SLOTS];
        for (uint32_t s = SLOTS; s-- > 0;) { /* lanes are not in the order of their slots */
            uint32_t left = ROWS - done[s], count = left < cuts[s] ? left : cuts[s];
            if (!count)
                continue;
            memcpy(x + (size_t)rows[lanes] * c->channels,
                   c->x + (size_t)(s * ROWS + done[s]) * c->channels,
                   count * c->channels * sizeof *x);
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
        poison(out, bytes);
        run_kernel("conv1d_f32", isa,
                   &(struct mtr_conv1d_args){.step = &step,
                                             .x = x,
                                             .weight = c->weight,
                                             .bias = c->bias,
                                             .y = out,
                                             .state = c->state,
                                             .channels = c->channels,
                                             .taps = c->taps,
                                             .activation = MTR_ACT_SILU},
                   2, 2);
        for (uint32_t l = 0; l < lanes; l++) {
            memcpy(y + ((size_t)slots[l] * ROWS + done[slots[l]]) * c->channels,
                   out + (size_t)rows[l] * c->channels, counts[l] * c->channels * sizeof *y);
            done[slots[l]] += counts[l];
        }
    }
    free(x);
    free(out);
}

START_TEST(values_however_it_is_cut)
{
    static const uint32_t shapes[][2] = {{1, 2}, {40, 4}, {300, 4}, {17, 16}, {16, 1}};
    static const uint32_t cuts[][SLOTS] = {{9, 9, 9, 9}, {1, 1, 1, 1}, {9, 1, 2, 5}, {4, 3, 7, 8}};
    struct noise n = {(uint64_t)_i + 1};
    struct conv c;
    make(&c, &n, shapes[_i][0], shapes[_i][1]);
    size_t count = SLOTS * ROWS * (size_t)c.channels;
    float *first = must_alloc(count * sizeof *first), *y = must_alloc(count * sizeof *y);
    run(&c, MTR_ISA_PORTABLE, cuts[0], first);
    for (size_t i = 0; i < count; i++) {
        uint32_t channel = (uint32_t)(i % c.channels), row = (uint32_t)(i / c.channels);
        double want = expected(&c, row / ROWS, (int)(row % ROWS), channel);
        ck_assert_msg(fabs(first[i] - want) <= 2e-6, "%g, not %g", (double)first[i], want);
    }
    FOR_EACH_ISA(isa)
    {
        for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++) {
            poison(y, count * sizeof *y);
            run(&c, isa, cuts[k], y);
            same_bits(first, y, count, "conv1d", isa);
        }
    }
    free(first);
    free(y);
    discard(&c);
}
END_TEST

START_TEST(a_slot_that_has_no_lane_keeps_its_state)
{
    struct noise n = {7};
    float *x = noise_floats(&n, 20), *w = noise_floats(&n, 20 * 3), y[20];
    float *state = noise_floats(&n, 3 * 2 * 20), *before = must_alloc(3 * 2 * 20 * sizeof *before);
    const int32_t rows[2] = {0, 1}, slots[1] = {1};
    struct mtr_step_view step = {.tokens = 1, .lanes = 1, .lane_rows = rows, .lane_slots = slots};
    memcpy(before, state, 3 * 2 * 20 * sizeof *before);
    run_kernel(
        "conv1d_f32", mtr_host_best_isa(),
        &(struct mtr_conv1d_args){
            .step = &step, .x = x, .weight = w, .y = y, .state = state, .channels = 20, .taps = 3},
        1, 1);
    ck_assert(memcmp(state, before, 40 * sizeof *state) == 0);
    ck_assert(memcmp(state + 80, before + 80, 40 * sizeof *state) == 0);
    ck_assert(memcmp(state + 40, before + 60, 20 * sizeof *state) == 0); /* moved on by one */
    ck_assert(memcmp(state + 60, x, 20 * sizeof *state) == 0);
    free(x);
    free(w);
    free(state);
    free(before);
}
END_TEST

MTR_CHECK_MAIN("kernels/conv1d")
{
    tcase_add_loop_test(tc, values_however_it_is_cut, 0, 5);
    tcase_add_test(tc, a_slot_that_has_no_lane_keeps_its_state);
}
