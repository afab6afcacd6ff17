/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* argmax: the lowest of equals, no NaN, and a slot's last token from the lane's last row. sample:
 * the tokens of the executor's sampler. */
#include "kernels/args/sample.h"

#include "common/base/philox.h"
#include "tests/unit/kernels/kernel_test.h"
#include "worker/exec/sampler.h"

#define ROWS   5
#define STRIDE 5000

/* Lanes: slot 2 with rows 0 to 2 (outputs 1, 2), slot 0 with row 3, slot 3 with rows 4 to 6
 * (outputs 4, 5: not its last row). */
static const int32_t output_rows[ROWS] = {1, 2, 3, 4, 5}, token_lanes[7] = {0, 0, 0, 1, 2, 2, 2};
static const int32_t lane_rows[4] = {0, 3, 4, 7}, lane_slots[3] = {2, 0, 3};
static const struct mtr_step_view step = {.tokens = 7,
                                          .lanes = 3,
                                          .outputs = ROWS,
                                          .token_lanes = token_lanes,
                                          .lane_slots = lane_slots,
                                          .lane_rows = lane_rows,
                                          .output_rows = output_rows};

static uint32_t plain_argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best] || (isnan(x[best]) && !isnan(x[i])))
            best = i;
    return isnan(x[best]) || x[best] == -INFINITY ? 0 : best;
}

static void check(const float *logits, uint32_t vocab, uint32_t grid)
{
    const int32_t marks[4] = {-7, -7, -7, -7};
    FOR_EACH_ISA(isa)
    {
        int32_t tokens[ROWS + 1], last[4];
        struct mtr_sample_args args = {.step = &step,
                                       .logits = logits,
                                       .tokens = tokens,
                                       .last_tokens = last,
                                       .vocab = vocab,
                                       .stride = STRIDE};
        memcpy(last, marks, sizeof last);
        tokens[ROWS] = -7;
        run_kernel("argmax", isa, &args, grid, 1);
        for (uint32_t r = 0; r < ROWS; r++)
            ck_assert_int_eq(tokens[r], (int32_t)plain_argmax(logits + r * STRIDE, vocab));
        ck_assert_int_eq(tokens[ROWS], -7);
        ck_assert_int_eq(last[2], tokens[1]);
        ck_assert_int_eq(last[0], tokens[2]);
        ck_assert_int_eq(last[1], -7);
        ck_assert_int_eq(last[3], -7);
    }
}

START_TEST(finds_the_largest)
{
    struct noise n = {5};
    float *x = noise_floats(&n, ROWS * STRIDE);
    const uint32_t vocabs[] = {1, 15, 16, 83, 1024, 1030, STRIDE};
    for (uint32_t v = 0; v < sizeof vocabs / sizeof *vocabs; v++)
        check(x, vocabs[v], v % 2 ? ROWS : ROWS + 3);
    check(x, STRIDE, 2);
    free(x);
}
END_TEST

START_TEST(equals_and_strangers)
{
    float *x = must_alloc(ROWS * STRIDE * sizeof *x);
    for (uint32_t i = 0; i < ROWS * STRIDE; i++)
        x[i] = -2;
    x[700] = x[3000] = x[701] = 9;         /* row 0: the first of equals */
    x[STRIDE] = NAN, x[STRIDE + 4999] = 1; /* row 1: NaN in front */
    for (uint32_t i = 0; i < STRIDE; i++)
        x[2 * STRIDE + i] = i % 2 ? NAN : -INFINITY; /* row 2: nothing possible */
    x[3 * STRIDE + 2047] = INFINITY;
    x[4 * STRIDE + 16] = NAN;
    check(x, STRIDE, ROWS);
    free(x);
}
END_TEST

#define VOCAB 700

static struct mtr_sample_row row_of(const struct mtr_sampling *s, uint32_t position)
{
    return (struct mtr_sample_row){
        .inverse = s->temperature < MTR_SAMPLER_GREEDY_BELOW ? 0 : 1 / s->temperature,
        .top_p = s->top_p,
        .least = s->min_p > 0 ? logf(s->min_p) : -INFINITY,
        .top_k = s->top_k,
        .fraction = (uint32_t)(mtr_uniform(s->seed, position, 0) * 16777216.0f),
    };
}

/* Row r of the logits under the r-th of these, many times over. */
static void draw_all(const float *x, const struct mtr_sampling *how, uint32_t draws)
{
    struct mtr_sampler_scratch scratch;
    ck_assert(mtr_sampler_scratch_init(&scratch, VOCAB, NULL));
    for (uint32_t position = 1; position <= draws; position++) {
        struct mtr_sample_row rows[ROWS];
        struct mtr_step_view view = step;
        int32_t tokens[ROWS], last[4];
        view.sampling = rows;
        for (uint32_t r = 0; r < ROWS; r++)
            rows[r] = row_of(&how[r], position);
        struct mtr_sample_args args = {&view, x, tokens, last, VOCAB, STRIDE};
        run_kernel("sample", MTR_ISA_PORTABLE, &args, ROWS, 1);
        for (uint32_t r = 0; r < ROWS; r++) {
            const struct mtr_sampler_input in = {.logits = x + r * STRIDE,
                                                 .vocab = VOCAB,
                                                 .sampling = &how[r],
                                                 .position = position};
            ck_assert_int_eq(tokens[r], (int32_t)mtr_sample(&in, &scratch));
        }
    }
    mtr_sampler_scratch_free(&scratch);
}

START_TEST(draws_as_the_sampler_does)
{
    struct noise n = {11};
    float *x = noise_floats(&n, ROWS * STRIDE);
    for (uint32_t i = 0; i < ROWS * STRIDE; i++)
        x[i] = floorf(x[i] * 40) / 4; /* equals */
    x[STRIDE + 3] = NAN;
    x[2 * STRIDE + 9] = -INFINITY;
    const struct mtr_sampling how[ROWS] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 1},
        {.temperature = 0.7f, .top_p = 0.9f, .repetition_penalty = 1, .seed = 2},
        {.temperature = 2, .top_p = 0.95f, .top_k = 40, .repetition_penalty = 1, .seed = 3},
        {.temperature = 1.5f, .top_p = 1, .min_p = 0.05f, .repetition_penalty = 1, .seed = 4},
        {.temperature = 0, .top_p = 0.5f, .top_k = 3, .repetition_penalty = 1, .seed = 5},
    };
    draw_all(x, how, 30);
    free(x);
}
END_TEST

START_TEST(draws_from_a_flat_row_and_a_steep_one)
{
    float *x = must_alloc(ROWS * STRIDE * sizeof *x);
    for (uint32_t i = 0; i < ROWS * STRIDE; i++)
        x[i] = i % 7 == 3 ? 50 : i / STRIDE % 2 ? 50 : -50;
    const struct mtr_sampling how[ROWS] = {
        {.temperature = 1, .top_p = 1, .top_k = 1, .repetition_penalty = 1, .seed = 1},
        {.temperature = 1, .top_p = 0.1f, .repetition_penalty = 1, .seed = 2},
        {.temperature = 30, .top_p = 1, .top_k = 650, .repetition_penalty = 1, .seed = 3},
        {.temperature = 100, .top_p = 0, .min_p = 1, .repetition_penalty = 1, .seed = 4},
        {.temperature = 0.01f, .top_p = 1, .min_p = 2, .repetition_penalty = 1, .seed = 5},
    };
    draw_all(x, how, 20);
    free(x);
}
END_TEST

MTR_CHECK_MAIN("kernels/sample")
{
    tcase_add_test(tc, draws_as_the_sampler_does);
    tcase_add_test(tc, draws_from_a_flat_row_and_a_steep_one);
    tcase_add_test(tc, finds_the_largest);
    tcase_add_test(tc, equals_and_strangers);
}
