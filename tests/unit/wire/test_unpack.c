/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Plans and results that cannot be right are refused, each for its reason; damaged bytes never
 * harm. */
#include "common/wire/codec.h"

#include <math.h>

#include "common/base/philox.h"
#include "common/wire/plan.pb-c.h"
#include "tests/unit/check_main.h"

static const uint32_t ids[64];

static struct mtr_arena arena;
static struct mtr_buf buf;

static void setup(void)
{
    mtr_arena_init(&arena, 64 << 20);
    buf = (struct mtr_buf){0};
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&buf);
}

static bool pass(const struct mtr_step_plan *in, struct mtr_error *err)
{
    struct mtr_step_plan out;
    mtr_buf_clear(&buf);
    ck_assert(mtr_pack_plan(&arena, &buf, 1, in));
    const Mtr__FromBroker *m =
        mtr_message_unpack(&arena, &mtr__from_broker__descriptor, mtr_buf_view(&buf), err);
    return m && mtr_unpack_plan(&arena, m, &out, err);
}

static void refused(struct mtr_lane lane, const char *word)
{
    struct mtr_error err = {0};
    struct mtr_step_plan plan = {.step = 12, .lane_count = 1, .lanes = &lane};
    ck_assert_msg(!pass(&plan, &err), "accepted, expected: %s", word);
    ck_assert_msg(strstr(err.message, word) != NULL, "%s, expected: %s", err.message, word);
    ck_assert_msg(strstr(err.message, "step 12: lane 0") != NULL, "%s", err.message);
}

static const struct mtr_lane good = {.sequence = 1, .count = 4, .tokens = ids, .outputs = 1};

START_TEST(bad_lanes)
{
    struct mtr_error err = {0};
    struct mtr_lane lane = good;
    struct mtr_step_plan plan = {.step = 12, .lane_count = 1, .lanes = &lane};
    ck_assert_msg(pass(&plan, &err), "%s", err.message);
    (lane = good, lane.count = 0);
    refused(lane, "count is 0");
    (lane = good, lane.start = UINT32_MAX);
    refused(lane, "positions");
    (lane = good, lane.outputs = 5);
    refused(lane, "5 outputs of 4 rows");
    (lane = good, lane.drafts = 1);
    refused(lane, "1 drafts need 2 outputs");
    (lane = good, lane.drafts = 1, lane.outputs = 2, lane.tokens = NULL);
    refused(lane, "drafts without tokens");
    (lane = good, lane.history = ids, lane.history_count = 3, lane.open = true);
    refused(lane, "history");
    (lane = good, lane.start = 3, lane.history = ids, lane.history_count = 3);
    refused(lane, "history");
    (lane = good, lane.mask = (const uint8_t *)"abc", lane.mask_bytes = 3, lane.outputs = 2);
    refused(lane, "mask");
    (lane = good, lane.count = MTR_WIRE_MAX_STEP_TOKENS + 1, lane.tokens = NULL);
    lane.outputs = 0;
    struct mtr_error rows = {0};
    ck_assert(!pass(&plan, &rows));
    ck_assert_ptr_nonnull(strstr(rows.message, "rows"));
}
END_TEST

START_TEST(bad_tables)
{
    struct mtr_table_change tables[MTR_MAX_GROUPS + 1] = {{MTR_MAX_GROUPS, 0, 1, ids}};
    struct mtr_lane lane = good;
    lane.tables = tables;
    lane.table_count = 1;
    refused(lane, "group 8");
    tables[0] = (struct mtr_table_change){0, UINT32_MAX, 2, ids};
    refused(lane, "table blocks");
    tables[0] = (struct mtr_table_change){0, 0, 1, ids};
    lane.table_count = MTR_MAX_GROUPS + 1;
    refused(lane, "table changes");
}
END_TEST

START_TEST(bad_sampling)
{
    struct mtr_sampling s;
    struct mtr_lane lane = good;
    lane.sampling = &s;
    const float nan = NAN;
    (s = mtr_sampling_greedy(), s.temperature = nan);
    refused(lane, "temperature");
    (s = mtr_sampling_greedy(), s.temperature = -1);
    refused(lane, "temperature");
    (s = mtr_sampling_greedy(), s.top_p = 1.5f);
    refused(lane, "top_p");
    (s = mtr_sampling_greedy(), s.min_p = INFINITY);
    refused(lane, "min_p");
    (s = mtr_sampling_greedy(), s.repetition_penalty = -1);
    refused(lane, "repetition_penalty");
    (s = mtr_sampling_greedy(), s.presence_penalty = -INFINITY);
    refused(lane, "presence_penalty");
    (s = mtr_sampling_greedy(), s.bias_count = 1, s.bias_ids = ids, s.bias_values = &nan);
    refused(lane, "bias 0");
}
END_TEST

START_TEST(bad_effects)
{
    struct mtr_error err = {0};
    struct mtr_effect effect = {.kind = MTR_EFFECT_COUNT};
    struct mtr_step_plan plan = {.step = 1, .effect_count = 1, .effects = &effect};
    ck_assert(!pass(&plan, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "kind"));
    effect = (struct mtr_effect){.kind = MTR_FREE_BLOCK, .group = MTR_MAX_GROUPS};
    ck_assert(!pass(&plan, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "cache group"));
}
END_TEST

START_TEST(another_body_is_no_plan)
{
    struct mtr_error err = {0};
    struct mtr_step_plan plan;
    struct mtr_step_result result;
    Mtr__FromBroker broker = MTR__FROM_BROKER__INIT;
    Mtr__FromWorker worker = MTR__FROM_WORKER__INIT;
    ck_assert(!mtr_unpack_plan(&arena, &broker, &plan, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    ck_assert(!mtr_unpack_result(&arena, &worker, &result, &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
}
END_TEST

static void refused_result(struct mtr_lane_result lane, const char *word)
{
    struct mtr_error err = {0};
    struct mtr_step_result in = {.step = 3, .lane_count = 1, .lanes = &lane}, out;
    mtr_buf_clear(&buf);
    ck_assert(mtr_pack_result(&arena, &buf, 1, &in));
    const Mtr__FromWorker *m =
        mtr_message_unpack(&arena, &mtr__from_worker__descriptor, mtr_buf_view(&buf), &err);
    ck_assert(!mtr_unpack_result(&arena, m, &out, &err));
    ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);
}

START_TEST(bad_results)
{
    struct mtr_token_logprobs probs[2] = {{0}};
    refused_result((struct mtr_lane_result){.token_count = 1, .tokens = ids, .accepted = 1},
                   "accepted");
    refused_result(
        (struct mtr_lane_result){
            .token_count = 1, .tokens = ids, .logprob_count = 2, .logprobs = probs},
        "log-probabilities");
}
END_TEST

/* Damages a good plan in every byte and cuts it everywhere; sanitizers watch. */
START_TEST(damaged_bytes_do_no_harm)
{
    struct mtr_sampling s = mtr_sampling_greedy();
    struct mtr_table_change table = {0, 0, 4, ids};
    struct mtr_effect effect = {.kind = MTR_COPY_BLOCK, .src = 1};
    struct mtr_lane lane = good;
    lane.open = true;
    lane.sampling = &s;
    lane.tables = &table;
    lane.table_count = 1;
    struct mtr_step_plan in = {5, 1, &effect, 1, &lane}, out;
    ck_assert(mtr_pack_plan(&arena, &buf, 1, &in));
    unsigned accepted = 0;
    for (size_t i = 0; i < buf.len * 64; i++) {
        uint32_t r[4];
        char bytes[512];
        mtr_philox(1, i, 0, r);
        ck_assert_uint_lt(buf.len, sizeof(bytes));
        memcpy(bytes, buf.data, buf.len);
        bytes[i % buf.len] = (char)r[0];
        size_t len = r[1] % 4 ? buf.len : r[2] % buf.len;
        mtr_arena_reset(&arena);
        const Mtr__FromBroker *m = mtr_message_unpack(&arena, &mtr__from_broker__descriptor,
                                                      (struct mtr_str){bytes, len}, NULL);
        accepted += m && mtr_unpack_plan(&arena, m, &out, NULL);
    }
    ck_assert_uint_gt(accepted, 0);
}
END_TEST

MTR_CHECK_MAIN("wire/unpack")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, bad_lanes);
    tcase_add_test(tc, bad_tables);
    tcase_add_test(tc, bad_sampling);
    tcase_add_test(tc, bad_effects);
    tcase_add_test(tc, another_body_is_no_plan);
    tcase_add_test(tc, bad_results);
    tcase_add_test(tc, damaged_bytes_do_no_harm);
}
