/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every refusal, by the words that name it. */
#include "worker/exec/check.c"

#include "tests/support/exec_rig.h"
#include "tests/unit/check_main.h"

static struct rig r;
static uint32_t text[RIG_TOKENS];
static uint32_t blocks[RIG_BLOCKS];
static struct mtr_table_change table;
static struct mtr_sampling sampling;
static uint8_t mask[(TINY_VOCAB + 7) / 8];
static struct mtr_lane lane;

/* Slot 0 has 40 tokens computed and one sampled; `lane` goes on with it. Slot 1 is unused. */
static void setup(void)
{
    rig_open(&r, 16, MTR_F32);
    for (uint32_t i = 0; i < RIG_TOKENS; i++)
        text[i] = rig_token(i);
    struct mtr_lane first = rig_lane(0, 0, 0, text, 40, 1);
    rig_step(&r, &first, 1);
    for (uint32_t i = 0; i < RIG_BLOCKS; i++)
        blocks[i] = i;
    table = (struct mtr_table_change){.count = RIG_BLOCKS, .blocks = blocks};
    sampling = mtr_sampling_greedy();
    memset(mask, 0xff, sizeof mask);
    lane = rig_lane(0, 0, 40, NULL, 1, 1);
}

static void teardown(void)
{
    rig_close(&r);
}

static void ck_refused(const char *words)
{
    struct mtr_step_plan plan = {.step = 2, .lane_count = 1, .lanes = &lane};
    r.err.message[0] = 0;
    ck_assert(!rig_try(&r, &plan));
    ck_assert_msg(strstr(r.err.message, words) != NULL, "\"%s\" is not in \"%s\"", words,
                  r.err.message);
    ck_assert(r.err.code == MTR_INVALID || r.err.code == MTR_UNSUPPORTED);
}

static void opened(uint32_t start, uint32_t count)
{
    lane = (struct mtr_lane){.sequence = 9,
                             .slot = 1,
                             .open = true,
                             .start = start,
                             .count = count,
                             .tokens = text + start,
                             .outputs = 1,
                             .table_count = 1,
                             .tables = &table};
}

START_TEST(a_right_plan_passes)
{
    lane.sampling = &sampling;
    lane.mask = mask;
    lane.mask_bytes = sizeof mask;
    rig_step(&r, &lane, 1);
}
END_TEST

START_TEST(slots)
{
    lane.slot = RIG_SLOTS;
    ck_refused("slot 6 of 6");
    lane = rig_lane(1, 0, 40, NULL, 1, 1);
    ck_refused("slot 1 was not opened for it");
    lane = rig_lane(0, 3, 40, NULL, 1, 1);
    ck_refused("slot 0 was not opened for it");
    const struct mtr_lane twice[2] = {rig_lane(0, 0, 40, NULL, 1, 1),
                                      rig_lane(0, 0, 40, NULL, 1, 1)};
    ck_assert(!rig_try(&r, &(struct mtr_step_plan){.lane_count = 2, .lanes = twice}));
    ck_assert_ptr_nonnull(strstr(r.err.message, "two lanes"));
    const struct mtr_lane many[RIG_SLOTS + 1] = {{0}};
    ck_assert(!rig_try(&r, &(struct mtr_step_plan){.lane_count = RIG_SLOTS + 1, .lanes = many}));
    ck_assert_ptr_nonnull(strstr(r.err.message, "7 lanes, at most 6"));
}
END_TEST

START_TEST(positions)
{
    lane.count = 0;
    ck_refused("no rows");
    lane = rig_lane(0, 0, 42, text, 1, 1);
    ck_refused("only 40 positions are computed");
    opened(120, 9);
    ck_refused("at most 128 tokens");
    opened(0, UINT32_MAX);
    lane.start = UINT32_MAX;
    ck_refused("at most 128 tokens");
}
END_TEST

START_TEST(too_many_tokens_in_a_step)
{
    const struct mtr_lane lanes[2] = {rig_lane(2, 2, 0, text, 128, 0),
                                      rig_lane(3, 3, 0, text, 128, 0)};
    ck_assert(!rig_try(&r, &(struct mtr_step_plan){.lane_count = 2, .lanes = lanes}));
    ck_assert_ptr_nonnull(strstr(r.err.message, "256 tokens, at most 200"));
}
END_TEST

START_TEST(tokens)
{
    uint32_t bad[2] = {3, TINY_VOCAB};
    opened(0, 2);
    lane.tokens = bad;
    ck_refused("token 1 is 83, the vocabulary has 83");
    opened(0, 2);
    lane.tokens = NULL;
    ck_refused("its tokens are missing");
    lane = rig_lane(0, 0, 40, NULL, 2, 1);
    ck_refused("do not stand in the history");
    opened(2, 1);
    lane.history = bad;
    lane.history_count = 2;
    ck_refused("history token 1");
    lane.history = text;
    lane.history_count = 1;
    ck_refused("history has 1 tokens");
    lane = rig_lane(0, 0, 40, NULL, 1, 1);
    lane.history = text;
    lane.history_count = 40;
    ck_refused("history comes with open only");
    lane = rig_lane(0, 0, 40, NULL, 1, 1);
    lane.banned = bad;
    lane.banned_count = 2;
    ck_refused("banned id 1");
}
END_TEST

START_TEST(outputs)
{
    const uint32_t bad[][3] = {{1, 2, 1}, {4, 2, 0}, {4, 1, 1}, {4, 0, 1}, {4, 3, UINT32_MAX}};
    for (uint32_t i = 0; i < 5; i++) {
        opened(0, bad[i][0]);
        lane.outputs = bad[i][1];
        lane.drafts = bad[i][2];
        ck_refused("outputs and");
    }
    lane = rig_lane(0, 0, 40, NULL, 1, 1);
    lane.adapter = 1;
    ck_refused("no adapters");
}
END_TEST

START_TEST(tables)
{
    opened(0, 20);
    table.count = 1;
    ck_refused("group full lacks");
    opened(0, 20);
    table.first = 1;
    table.count = 2;
    ck_refused("group full lacks");
    opened(0, 1);
    table.first = UINT32_MAX;
    table.count = 2;
    ck_refused("a table has 8");
    opened(0, 1);
    table = (struct mtr_table_change){.group = 1, .count = 1, .blocks = blocks};
    ck_refused("cache group 1 of 1");
    opened(0, 1);
    table = (struct mtr_table_change){.count = 1, .blocks = blocks};
    blocks[0] = RIG_SLOTS * RIG_BLOCKS;
    ck_refused("block 48, group full has 48");
}
END_TEST

START_TEST(samplings)
{
    const uint32_t id = TINY_VOCAB;
    const float one = 1, nan = NAN;
    lane.sampling = &sampling;
    sampling.temperature = -1;
    ck_refused("temperature is -1");
    sampling.temperature = NAN;
    ck_refused("temperature is");
    sampling = mtr_sampling_greedy();
    sampling.repetition_penalty = 0;
    ck_refused("repetition_penalty is 0");
    sampling = mtr_sampling_greedy();
    sampling.logprobs = MTR_LOGPROBS_MAX_TOP + 2;
    ck_refused("log-probabilities");
    sampling = mtr_sampling_greedy();
    sampling.bias_count = 1;
    sampling.bias_ids = &id;
    sampling.bias_values = &one;
    ck_refused("biased id 0");
    sampling.bias_values = &nan;
    ck_refused("not a number");
}
END_TEST

START_TEST(penalties_need_known_tokens)
{
    opened(32, 8);
    sampling.output_start = 36;
    sampling.repetition_penalty = 1.1f;
    lane.sampling = &sampling;
    ck_refused("penalties need tokens from position 0, 32 are unknown");
    sampling.output_start = 20;
    sampling.repetition_penalty = 1;
    sampling.presence_penalty = 1;
    ck_refused("penalties need tokens from position 20");
    sampling.output_start = 36; /* all of the output is known */
    rig_step(&r, &lane, 1);
    opened(32, 8);
    lane.sampling = &sampling;
    lane.history = text;
    lane.history_count = 32;
    sampling.repetition_penalty = 1.1f;
    rig_step(&r, &lane, 1);
}
END_TEST

START_TEST(masks)
{
    lane.mask = mask;
    lane.mask_bytes = sizeof mask - 1;
    ck_refused("mask of 10 bytes");
    lane.mask_bytes = sizeof mask;
    memset(mask, 0, sizeof mask);
    mask[sizeof mask - 1] = 0xf8; /* bits behind the vocabulary */
    ck_refused("mask row 0 allows no token");
    mask[sizeof mask - 1] = 0x04;
    rig_step(&r, &lane, 1);
    ck_assert_uint_eq(r.result.lanes[0].tokens[0], 82);
}
END_TEST

START_TEST(effects)
{
    static const struct {
        struct mtr_effect e;
        const char *words;
    } cases[] = {
        {{.kind = MTR_COPY_BLOCK, .src = 48}, "source 48"},
        {{.kind = MTR_COPY_BLOCK, .dst = 48}, "destination 48"},
        {{.kind = MTR_COPY_BLOCK, .group = 1}, "cache group 1 of 1"},
        {{.kind = MTR_FREE_BLOCK, .src = 48}, "source 48"},
        {{.kind = MTR_ZERO_STATE, .dst = 6}, "destination 6"},
        {{.kind = MTR_SNAPSHOT_STATE, .src = 0}, "destination 0"},
        {{.kind = MTR_RESTORE_STATE, .src = 0}, "source 0"},
        {{.kind = MTR_SPILL_BLOCK}, "not implemented"},
        {{.kind = MTR_LOAD_ADAPTER}, "not implemented"},
        {{.kind = MTR_EFFECT_COUNT}, "not implemented"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mtr_step_plan plan = {.effect_count = 1, .effects = &cases[i].e};
        ck_assert(!rig_try(&r, &plan));
        ck_assert_msg(strstr(r.err.message, cases[i].words) != NULL, "%s", r.err.message);
    }
}
END_TEST

START_TEST(a_window_needs_its_window_only)
{
    struct mtr_cache_group g = {.kind = MTR_CACHE_SLIDING, .window = 32, .block_tokens = 16};
    struct mtr_lane l = {.start = 100};
    ck_assert_uint_eq(first_seen(&g, &l), 69);
    l.start = 31;
    ck_assert_uint_eq(first_seen(&g, &l), 0);
    g.kind = MTR_CACHE_FULL;
    l.start = 100;
    ck_assert_uint_eq(first_seen(&g, &l), 0);
}
END_TEST

/* As if the model had a recurrent layer. */
START_TEST(states)
{
    const struct mtr_effect zero = {.kind = MTR_ZERO_STATE, .dst = 1};
    const struct mtr_effect other = {.kind = MTR_ZERO_STATE, .dst = 2};
    struct mtr_step_plan plan = {.step = 2, .lane_count = 1, .lanes = &lane};
    r.model.plan.state_count = 1;
    ck_assert(mtr_exec_check(r.exec, &plan, &r.err));
    lane = rig_lane(0, 0, 39, text + 39, 1, 1);
    ck_refused("starts at 39, its state stands at 40");
    lane = rig_lane(0, 0, 40, text, 2, 2);
    lane.drafts = 1;
    ck_refused("states can't be rolled back");
    opened(0, 8);
    ck_refused("slot 1 is opened at 0 without a state for it");
    plan.effect_count = 1;
    plan.effects = &other;
    ck_assert(!mtr_exec_check(r.exec, &plan, &r.err));
    plan.effects = &zero;
    ck_assert_msg(mtr_exec_check(r.exec, &plan, &r.err), "%s", r.err.message);
    opened(16, 8); /* needs a snapshot's, not an empty one */
    ck_assert(!mtr_exec_check(r.exec, &plan, &r.err));
    r.model.plan.state_count = 0;
}
END_TEST

MTR_CHECK_MAIN("exec/check")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_right_plan_passes);
    tcase_add_test(tc, states);
    tcase_add_test(tc, slots);
    tcase_add_test(tc, positions);
    tcase_add_test(tc, too_many_tokens_in_a_step);
    tcase_add_test(tc, tokens);
    tcase_add_test(tc, outputs);
    tcase_add_test(tc, tables);
    tcase_add_test(tc, samplings);
    tcase_add_test(tc, penalties_need_known_tokens);
    tcase_add_test(tc, masks);
    tcase_add_test(tc, effects);
    tcase_add_test(tc, a_window_needs_its_window_only);
}
