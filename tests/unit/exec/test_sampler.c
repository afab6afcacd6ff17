/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sampler against a plain one in doubles that sorts everything, and each rule by itself. */
#include "worker/exec/sampler.c"

#include "kernels/args/sample.h"
#include "kernels/host/host_kernel.h"
#include "tests/unit/check_main.h"

#define VOCAB 900

static struct mtr_sampler_scratch scratch;
static float logits[VOCAB];
static uint32_t history[64];

static void setup(void)
{
    ck_assert(mtr_sampler_scratch_init(&scratch, VOCAB, NULL));
    for (uint32_t i = 0, seed = 5; i < VOCAB; i++) {
        seed = seed * 1664525u + 1013904223u;
        logits[i] = (float)(seed >> 12) / 1048576.0f * 12;
    }
    for (uint32_t i = 0; i < 64; i++)
        history[i] = i * 7 % VOCAB;
}

static void teardown(void)
{
    for (uint32_t i = 0; i < VOCAB; i++)
        ck_assert_uint_eq(scratch.counts[i], 0);
    mtr_sampler_scratch_free(&scratch);
}

static struct mtr_sampler_input input(const struct mtr_sampling *s)
{
    return (struct mtr_sampler_input){
        .logits = logits, .vocab = VOCAB, .sampling = s, .position = 64, .history = history};
}

static uint32_t sample(const struct mtr_sampling *s)
{
    struct mtr_sampler_input in = input(s);
    return mtr_sample(&in, &scratch);
}

/* ---- a plain sampler -------------------------------------------------------------------------*/

static uint32_t order[VOCAB];

static int descending(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return logits[i] != logits[j] ? (logits[i] > logits[j] ? -1 : 1) : (i < j ? -1 : 1);
}

static uint32_t plain_sample(const struct mtr_sampling *s, double *closeness)
{
    double p[VOCAB], mean = 0, deviation = 0, sum = 0, kept = 0;
    for (uint32_t i = 0; i < VOCAB; i++) {
        order[i] = i;
        mean += (double)logits[i] / VOCAB;
    }
    for (uint32_t i = 0; i < VOCAB; i++)
        deviation += ((double)logits[i] - mean) * ((double)logits[i] - mean) / VOCAB;
    qsort(order, VOCAB, sizeof *order, descending);
    double max = (double)logits[order[0]];
    double floor = s->top_n_sigma > 0 ? max - (double)s->top_n_sigma * sqrt(deviation) : -1e9;
    uint32_t n = 0;
    while (n < VOCAB && (double)logits[order[n]] >= floor && (!s->top_k || n < s->top_k)) {
        p[n] = exp(((double)logits[order[n]] - max) / (double)s->temperature);
        sum += p[n++];
    }
    uint32_t reach = 0;
    for (double run = 0; reach < n && (reach == 0 || run < (double)s->top_p * sum);)
        run += p[reach++];
    uint32_t last = 0;
    while (last < reach && p[last] >= (double)s->min_p)
        last++;
    for (uint32_t i = 0; i < last; i++)
        kept += p[i];
    double at = (double)mtr_uniform(s->seed, 64, 0) * kept, run = 0;
    uint32_t i = 0;
    for (; i + 1 < last && run + p[i] <= at; i++)
        run += p[i];
    *closeness = fmin(fabs(run - at), fabs(run + p[i] - at)) / kept;
    return order[i];
}

START_TEST(filters_together_match_a_plain_sampler)
{
    const float temperatures[] = {0.3f, 0.8f, 1.0f, 1.7f}, top_ps[] = {0.1f, 0.7f, 0.95f, 1},
                min_ps[] = {0, 0.02f, 0.3f}, sigmas[] = {0, 0.7f, 1.6f};
    const uint32_t top_ks[] = {0, 1, 5, 40, 2000};
    uint32_t compared = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        struct mtr_sampling s = mtr_sampling_greedy();
        s.temperature = temperatures[i % 4];
        s.top_p = top_ps[i / 4 % 4];
        s.min_p = min_ps[i / 16 % 3];
        s.top_n_sigma = sigmas[i / 48 % 3];
        s.top_k = top_ks[i / 144 % 5];
        s.seed = i;
        double closeness;
        uint32_t want = plain_sample(&s, &closeness);
        if (closeness < 1e-5)
            continue; /* on an edge, where doubles and fixed point may differ */
        ck_assert_uint_eq(sample(&s), want);
        compared++;
    }
    ck_assert_uint_gt(compared, 3900);
}
END_TEST

START_TEST(greedy_takes_the_lowest_of_the_largest)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    logits[500] = logits[100] = 99;
    ck_assert_uint_eq(sample(&s), 100);
    s.temperature = 1e-7f;
    ck_assert_uint_eq(sample(&s), 100);
}
END_TEST

START_TEST(the_number_comes_from_seed_and_position)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    s.temperature = 2;
    struct mtr_sampler_input in = input(&s);
    uint32_t first = mtr_sample(&in, &scratch), differs = 0;
    ck_assert_uint_eq(mtr_sample(&in, &scratch), first);
    for (in.position = 0; in.position < 64; in.position++)
        differs += mtr_sample(&in, &scratch) != first;
    ck_assert_uint_gt(differs, 50);
}
END_TEST

START_TEST(shares_are_those_of_the_softmax)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    s.temperature = 1;
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -INFINITY;
    logits[3] = 1;
    logits[8] = 1 + 0.6931472f; /* twice as likely */
    uint32_t threes = 0, n = 6000;
    for (s.seed = 0; s.seed < n; s.seed++)
        threes += sample(&s) == 3;
    ck_assert_uint_gt(threes, n / 3 - 150);
    ck_assert_uint_lt(threes, n / 3 + 150);
}
END_TEST

START_TEST(bias_ban_and_mask_exclude)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    const uint32_t ids[] = {77}, banned[] = {77, 78};
    const float values[] = {100};
    uint8_t mask[(VOCAB + 7) / 8] = {0};
    s.bias_count = 1;
    s.bias_ids = ids;
    s.bias_values = values;
    logits[78] = 50;
    logits[79] = 40;
    struct mtr_sampler_input in = input(&s);
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 77);
    in.banned = banned;
    in.banned_count = 2;
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 79);
    mask[78 / 8] = 1 << 78 % 8;
    mask[10 / 8] |= 1 << 10 % 8;
    in.mask = mask;
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 10);
    mask[10 / 8] = 0;
    mask[78 / 8] = 1 << 78 % 8;
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 78); /* the ban would leave nothing */
}
END_TEST

START_TEST(nothing_possible_gives_the_first_allowed)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    uint8_t mask[(VOCAB + 7) / 8] = {0, 4};
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = NAN;
    struct mtr_sampler_input in = input(&s);
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 0);
    in.mask = mask;
    ck_assert_uint_eq(mtr_sample(&in, &scratch), 10);
}
END_TEST

START_TEST(repetition_covers_prompt_and_output)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    s.output_start = 60;
    logits[history[2]] = 40;
    logits[5] = 30;
    s.repetition_penalty = 1.2f;
    ck_assert_uint_eq(sample(&s), history[2]); /* 33.3 */
    s.repetition_penalty = 1.5f;
    ck_assert_uint_eq(sample(&s), 5); /* 26.7 */
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -50;
    logits[history[2]] = -10;
    logits[5] = -14;
    ck_assert_uint_eq(sample(&s), 5); /* negative ones grow: -15 */
}
END_TEST

START_TEST(presence_and_frequency_cover_the_output_only)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    s.output_start = 60;
    for (uint32_t i = 60; i < 64; i++)
        history[i] = 321; /* four times */
    logits[history[2]] = 30;
    s.presence_penalty = 2;
    s.frequency_penalty = 1;
    ck_assert_uint_eq(sample(&s), history[2]);
    logits[321] = 35.5f;
    ck_assert_uint_eq(sample(&s), history[2]); /* 35.5 - 2 - 4 */
    logits[321] = 36.5f;
    ck_assert_uint_eq(sample(&s), 321);
}
END_TEST

START_TEST(says_what_history_it_reads)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    uint32_t from;
    s.output_start = 9;
    ck_assert(!mtr_sampling_reads_history(&s, &from));
    s.presence_penalty = 1;
    ck_assert(mtr_sampling_reads_history(&s, &from));
    ck_assert_uint_eq(from, 9);
    s.repetition_penalty = 1.1f;
    ck_assert(mtr_sampling_reads_history(&s, &from));
    ck_assert_uint_eq(from, 0);
}
END_TEST

/* ---- the kernel that does the same ------------------------------------------------------------*/

#define ROWS 4000

static uint32_t kernel_sample(const float *x, uint32_t vocab, const struct mtr_sampling *s,
                              uint32_t position)
{
    static const int32_t zero[2] = {0, 1};
    uint32_t words[4];
    mtr_philox(s->seed, position, 0, words);
    const struct mtr_sample_row how = {
        .inverse = 1 / s->temperature,
        .top_p = s->top_p,
        .least = s->min_p > 0 ? logf(s->min_p) : -INFINITY,
        .top_k = s->top_k,
        .fraction = words[0] >> 8,
    };
    const struct mtr_step_view step = {.outputs = 1,
                                       .output_rows = zero,
                                       .token_lanes = zero,
                                       .lane_rows = zero,
                                       .lane_slots = zero,
                                       .sampling = &how};
    int32_t token, last;
    struct mtr_sample_args args = {&step, x, &token, &last, vocab, vocab};
    static _Alignas(64) uint8_t room[MTR_HOST_SCRATCH_BYTES];
    struct mtr_host_block block = {.grid_x = 1, .grid_y = 1, .grid_z = 1, .scratch = room};
    size_t count, i = 0;
    const struct mtr_host_entry *entries = mtr_host_kernels(&count);
    while (strcmp(entries[i].function, "sample") != 0)
        ck_assert_uint_lt(++i, count);
    mtr_host_variant(&entries[i], mtr_host_best_isa())(&args, &block);
    ck_assert_int_eq(token, last);
    return (uint32_t)token;
}

static uint32_t dice(uint32_t *seed, uint32_t sides)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * sides >> 32);
}

/* Logits of several kinds: spread, narrow, many equals, with numbers that are none. */
static void oddly(float *x, uint32_t vocab, uint32_t *seed)
{
    uint32_t kind = dice(seed, 5);
    for (uint32_t i = 0; i < vocab; i++) {
        float v = (float)dice(seed, 1u << 20) / 1048576.0f;
        x[i] = kind == 0   ? 30 * v
               : kind == 1 ? 0.01f * v
               : kind == 2 ? (float)dice(seed, 4)
               : kind == 3 ? (dice(seed, 3) ? -INFINITY : 8 * v)
                           : (dice(seed, 4) ? 10 * v : NAN);
    }
    if (dice(seed, 50) == 0)
        x[dice(seed, vocab)] = INFINITY;
}

START_TEST(the_kernel_draws_the_same)
{
    static float x[VOCAB];
    uint32_t seed = 77;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t vocab = 1 + dice(&seed, VOCAB);
        oddly(x, vocab, &seed);
        struct mtr_sampling s = {
            .temperature = 0.05f + (float)dice(&seed, 40) / 10,
            .top_p = dice(&seed, 2) ? 1 : (float)dice(&seed, 101) / 100,
            .top_k = dice(&seed, 2) ? 0 : dice(&seed, 2 * vocab),
            .min_p = dice(&seed, 2) ? 0 : (float)dice(&seed, 120) / 100,
            .repetition_penalty = 1,
            .seed = i * 0x9e3779b97f4a7c15ull,
        };
        const struct mtr_sampler_input in = {
            .logits = x, .vocab = vocab, .sampling = &s, .position = i % 97};
        uint32_t want = mtr_sample(&in, &scratch), have = kernel_sample(x, vocab, &s, i % 97);
        ck_assert_msg(want == have, "row %u: %u, the kernel says %u", i, want, have);
    }
}
END_TEST

MTR_CHECK_MAIN("exec/sampler")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_kernel_draws_the_same);
    tcase_add_test(tc, filters_together_match_a_plain_sampler);
    tcase_add_test(tc, greedy_takes_the_lowest_of_the_largest);
    tcase_add_test(tc, the_number_comes_from_seed_and_position);
    tcase_add_test(tc, shares_are_those_of_the_softmax);
    tcase_add_test(tc, bias_ban_and_mask_exclude);
    tcase_add_test(tc, nothing_possible_gives_the_first_allowed);
    tcase_add_test(tc, repetition_covers_prompt_and_output);
    tcase_add_test(tc, presence_and_frequency_cover_the_output_only);
    tcase_add_test(tc, says_what_history_it_reads);
}
