/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Whole steps on the host backend: what must not matter does not change a bit. */
#include "worker/exec/exec.c"

#include <malloc.h>
#include <math.h>
#include <string.h>

#include "tests/support/exec_rig.h"
#include "tests/unit/check_main.h"

#define PROMPT 70

static struct rig r;
static uint32_t text[RIG_TOKENS];

static void open_rig(uint32_t outputs, enum mtr_format cache)
{
    for (uint32_t i = 0; i < RIG_TOKENS; i++)
        text[i] = rig_token(i);
    rig_open(&r, outputs, cache);
}

static void ck_same_logits(uint64_t a, uint64_t b, uint32_t from, uint32_t to)
{
    for (uint32_t p = from; p < to; p++) {
        ck_assert(r.seen[a][p] && r.seen[b][p]);
        ck_assert_msg(memcmp(r.logits[a][p], r.logits[b][p], sizeof r.logits[a][p]) == 0,
                      "logits of position %u differ", p);
    }
}

/* All logits of the prompt, computed `chunk` rows a step. */
static void prefill(uint32_t slot, uint64_t sequence, uint32_t chunk)
{
    for (uint32_t at = 0; at < PROMPT; at += chunk) {
        uint32_t count = PROMPT - at < chunk ? PROMPT - at : chunk;
        struct mtr_lane lane = rig_lane(slot, sequence, at, text + at, count, 0);
        lane.score = true;
        rig_step(&r, &lane, 1);
    }
}

START_TEST(chunks_do_not_matter)
{
    const uint32_t chunks[] = {16, 7, 1, 33};
    open_rig(128, _i ? MTR_BF16 : MTR_F32);
    prefill(0, 0, PROMPT);
    for (uint32_t i = 0; i < 4; i++) {
        prefill(i + 1, i + 1, chunks[i]);
        ck_same_logits(0, i + 1, 0, PROMPT);
    }
    rig_close(&r);
}
END_TEST

START_TEST(passes_do_not_matter)
{
    open_rig(5, MTR_F32); /* 70 rows with logits, five at a time */
    prefill(0, 0, PROMPT);
    prefill(1, 1, 3);
    ck_same_logits(0, 1, 0, PROMPT);
    rig_close(&r);
}
END_TEST

START_TEST(neighbours_do_not_matter)
{
    uint32_t alone[20];
    open_rig(32, MTR_BF16);
    rig_greedy(&r, 0, 0, 40, alone, 20);
    rig_greedy(&r, 1, 1, 9, alone + 19, 1); /* overwritten below */
    rig_greedy(&r, 0, 0, 40, alone, 20);
    /* The same sequence again beside one that decodes and one that prefills. */
    for (uint32_t i = 0; i < 20; i++) {
        struct mtr_lane lanes[3] = {
            rig_lane(1, 1, 10 + i - 1, text + 3, 1, 1),
            rig_lane(2, 2, i ? 39 + i : 0, i ? NULL : text, i ? 1 : 40, 1),
            rig_lane(3, 3, i * 2, text + i * 2, 2, 0),
        };
        rig_step(&r, lanes, 3);
        ck_assert_uint_eq(r.result.lane_count, 2);
        ck_assert_uint_eq(r.result.lanes[1].sequence, 2);
        ck_assert_uint_eq(r.result.lanes[1].tokens[0], alone[i]);
    }
    ck_same_logits(0, 2, 39, 59);
    rig_close(&r);
}
END_TEST

START_TEST(decoding_equals_prefill)
{
    uint32_t tokens[24];
    open_rig(128, MTR_BF16);
    rig_greedy(&r, 0, 0, 40, tokens, 24);
    memcpy(text + 40, tokens, sizeof tokens);
    struct mtr_lane lane = rig_lane(1, 1, 0, text, 63, 0);
    lane.score = true;
    rig_step(&r, &lane, 1);
    ck_same_logits(0, 1, 39, 63);
    rig_close(&r);
}
END_TEST

START_TEST(a_cached_prefix_gives_the_same)
{
    open_rig(128, MTR_BF16);
    prefill(0, 0, PROMPT);
    uint32_t blocks[RIG_BLOCKS] = {0, 1, 2, 3, 40, 41, 42, 43}; /* 64 tokens of slot 0 */
    struct mtr_table_change change = {.count = RIG_BLOCKS, .blocks = blocks};
    struct mtr_lane lane = rig_lane(3, 3, 64, text + 64, PROMPT - 64, 0);
    lane.open = lane.score = true;
    lane.table_count = 1;
    lane.tables = &change;
    rig_step(&r, &lane, 1);
    ck_same_logits(0, 3, 64, PROMPT);
    rig_close(&r);
}
END_TEST

START_TEST(a_copied_block_can_diverge)
{
    open_rig(128, MTR_F32);
    prefill(0, 0, PROMPT);
    uint32_t blocks[RIG_BLOCKS] = {0, 1, 2, 30, 31, 32, 33, 34}; /* 30 is a copy of 3 */
    struct mtr_table_change change = {.count = RIG_BLOCKS, .blocks = blocks};
    struct mtr_effect copy = {.kind = MTR_COPY_BLOCK, .src = 3, .dst = 30};
    struct mtr_lane lane = rig_lane(3, 3, 60, text + 60, PROMPT - 60, 0);
    lane.open = lane.score = true;
    lane.table_count = 1;
    lane.tables = &change;
    struct mtr_step_plan plan = {
        .step = ++r.step, .effect_count = 1, .effects = &copy, .lane_count = 1, .lanes = &lane};
    ck_assert_msg(rig_try(&r, &plan), "%s", r.err.message);
    ck_same_logits(0, 3, 60, PROMPT);
    text[60] =
        (text[60] + 1) % TINY_VOCAB; /* another last block; the first sequence keeps its own */
    lane = rig_lane(3, 3, 60, text + 60, 4, 0);
    rig_step(&r, &lane, 1);
    lane = rig_lane(0, 0, PROMPT - 1, text + PROMPT - 1, 1, 1);
    float before[TINY_VOCAB];
    memcpy(before, r.logits[0][PROMPT - 1], sizeof before);
    rig_step(&r, &lane, 1);
    ck_assert(memcmp(before, r.logits[0][PROMPT - 1], sizeof before) == 0);
    rig_close(&r);
}
END_TEST

/* Decodes by verifying drafts, of which every third is wrong. */
static uint32_t decode_with_drafts(uint32_t drafts, const uint32_t *truth, uint32_t count)
{
    uint32_t made = 1, steps = 0;
    struct mtr_lane lane = rig_lane(1, 1, 0, text, 40, 1);
    struct mtr_sampling s = mtr_sampling_greedy();
    s.temperature = 0.9f;
    s.seed = 12;
    lane.sampling = &s;
    rig_step(&r, &lane, 1);
    ck_assert_uint_eq(r.result.lanes[0].tokens[0], truth[0]);
    while (made < count) {
        uint32_t rows[8] = {truth[made - 1]};
        for (uint32_t i = 0; i < drafts; i++)
            rows[1 + i] = (truth[made + i] + ((made + i) % 3 == 0)) % TINY_VOCAB;
        lane = rig_lane(1, 1, 40 + made - 1, rows, 1 + drafts, 1 + drafts);
        lane.drafts = drafts;
        rig_step(&r, &lane, 1);
        const struct mtr_lane_result *got = &r.result.lanes[0];
        ck_assert_uint_eq(got->token_count, got->accepted + 1);
        for (uint32_t i = 0; i < got->token_count; i++)
            ck_assert_uint_eq(got->tokens[i], truth[made + i]);
        made += got->token_count;
        steps++;
    }
    return steps;
}

START_TEST(drafts_change_speed_only)
{
    uint32_t truth[40];
    open_rig(32, MTR_BF16);
    struct mtr_sampling s = mtr_sampling_greedy();
    s.temperature = 0.9f;
    s.seed = 12;
    struct mtr_lane lane = rig_lane(0, 0, 0, text, 40, 1);
    lane.sampling = &s;
    for (uint32_t i = 0; i < 40; i++) {
        rig_step(&r, &lane, 1);
        truth[i] = r.result.lanes[0].tokens[0];
        lane = rig_lane(0, 0, 40 + i, NULL, 1, 1);
    }
    ck_assert_uint_eq(decode_with_drafts(0, truth, 30), 29);
    ck_assert_uint_lt(decode_with_drafts(4, truth, 30), 15);
    rig_close(&r);
}
END_TEST

START_TEST(scores_are_log_softmax_of_the_logits)
{
    open_rig(16, MTR_F32);
    struct mtr_sampling s = mtr_sampling_greedy();
    s.logprobs = 1 + 3;
    struct mtr_lane lane = rig_lane(0, 0, 0, text, 30, 1);
    lane.score = true;
    lane.sampling = &s;
    rig_step(&r, &lane, 1);
    const struct mtr_lane_result *got = &r.result.lanes[0];
    ck_assert_uint_eq(got->score_count, 29);
    ck_assert_uint_eq(got->logprob_count, 1);
    for (uint32_t i = 0; i < 29; i++) {
        double sum = 0;
        for (uint32_t v = 0; v < TINY_VOCAB; v++)
            sum += exp((double)r.logits[0][i][v]);
        ck_assert_double_eq_tol((double)got->scores[i].logprob,
                                (double)r.logits[0][i][text[i + 1]] - log(sum), 1e-4);
        ck_assert_uint_eq(got->scores[i].top_count, 3);
        ck_assert_float_ge(got->scores[i].top_logprobs[0], got->scores[i].top_logprobs[1]);
    }
    ck_assert_uint_eq(got->logprobs[0].rank, 0);
    ck_assert_uint_eq(got->logprobs[0].top_ids[0], got->tokens[0]);
    rig_close(&r);
}
END_TEST

START_TEST(a_refused_plan_changes_nothing)
{
    uint32_t want[6], bad_token = TINY_VOCAB;
    open_rig(16, MTR_F32);
    rig_greedy(&r, 0, 0, 40, want, 6);
    rig_greedy(&r, 1, 1, 40, want, 3);
    struct mtr_sampling s = mtr_sampling_greedy();
    s.temperature = 3;
    struct mtr_lane lanes[2] = {rig_lane(1, 1, 42, NULL, 1, 1),
                                rig_lane(2, 2, 0, &bad_token, 1, 1)};
    lanes[0].sampling = &s;
    struct mtr_effect copy = {.kind = MTR_COPY_BLOCK, .src = 20, .dst = RIG_BLOCKS};
    struct mtr_step_plan plan = {
        .step = 99, .effect_count = 1, .effects = &copy, .lane_count = 2, .lanes = lanes};
    ck_assert(!rig_try(&r, &plan));
    ck_assert_int_eq(r.err.code, MTR_INVALID);
    ck_assert_ptr_nonnull(strstr(r.err.message, "lane 1 (sequence 2)"));
    for (uint32_t i = 3; i < 6; i++) {
        struct mtr_lane lane = rig_lane(1, 1, 39 + i, NULL, 1, 1);
        rig_step(&r, &lane, 1);
        ck_assert_uint_eq(r.result.lanes[0].tokens[0], want[i]);
    }
    rig_close(&r);
}
END_TEST

START_TEST(steps_do_not_allocate)
{
    open_rig(16, MTR_F32);
    struct mtr_sampling s = mtr_sampling_greedy();
    s.logprobs = 6;
    s.temperature = 0.7f;
    struct mtr_lane lane = rig_lane(0, 0, 0, text, 16, 1);
    lane.sampling = &s;
    size_t before = 0;
    for (uint32_t i = 0; i < 40; i++) {
        rig_step(&r, &lane, 1);
        lane = rig_lane(0, 0, 16 + i, NULL, 1, 1);
        if (i == 2)
            before = mallinfo2().uordblks;
    }
    ck_assert_uint_eq(mallinfo2().uordblks, before);
    rig_close(&r);
}
END_TEST

START_TEST(cache_memory_is_divided_by_need)
{
    struct mtr_cache_group groups[2] = {
        {.name = "full", .block_tokens = 16, .layers = 2, .block_bytes = 1000},
        {.name = "sliding",
         .kind = MTR_CACHE_SLIDING,
         .window = 64,
         .block_tokens = 16,
         .layers = 10,
         .block_bytes = 1000}};
    struct mtr_plan plan = {.group_count = 2,
                            .groups = groups,
                            .limits = {.max_step_tokens = 48, .max_sequence_tokens = 16000}};
    uint32_t blocks[MTR_MAX_GROUPS];
    /* A sequence: 1000 blocks of 2000 bytes, 8 blocks of 10000 bytes. */
    ck_assert(mtr_exec_divide_cache(&plan, 10, 2080000 * 5, blocks, NULL));
    ck_assert_uint_eq(blocks[0], 5000);
    ck_assert_uint_eq(blocks[1], 40);
    ck_assert(mtr_exec_divide_cache(&plan, 2, 2080000 * 50ull, blocks, NULL));
    ck_assert_uint_eq(blocks[0], 4000);
    struct mtr_error err;
    ck_assert(!mtr_exec_divide_cache(&plan, 10, 2080000, blocks, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(err.message, "sliding"));
}
END_TEST

MTR_CHECK_MAIN("exec/exec")
{
    tcase_add_loop_test(tc, chunks_do_not_matter, 0, 2);
    tcase_add_test(tc, passes_do_not_matter);
    tcase_add_test(tc, neighbours_do_not_matter);
    tcase_add_test(tc, decoding_equals_prefill);
    tcase_add_test(tc, a_cached_prefix_gives_the_same);
    tcase_add_test(tc, a_copied_block_can_diverge);
    tcase_add_test(tc, drafts_change_speed_only);
    tcase_add_test(tc, scores_are_log_softmax_of_the_logits);
    tcase_add_test(tc, a_refused_plan_changes_nothing);
    tcase_add_test(tc, steps_do_not_allocate);
    tcase_add_test(tc, cache_memory_is_divided_by_need);
}
