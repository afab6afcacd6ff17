/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every field of a plan and a result, to bytes and back. */
#include "common/wire/codec.h"

#include "common/wire/plan.pb-c.h"
#include "tests/unit/check_main.h"

static const uint32_t ids[] = {5, 6, 7, 4000000000u};
static const float reals[] = {0.5f, -1.25f, 3e10f, -0.0f};

static struct mtr_arena arena;
static struct mtr_buf buf;

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    buf = (struct mtr_buf){0};
}

static void teardown(void)
{
    mtr_arena_free(&arena);
    mtr_buf_free(&buf);
}

static void roundtrip_plan(const struct mtr_step_plan *in, struct mtr_step_plan *out)
{
    struct mtr_error err = {0};
    ck_assert(mtr_pack_plan(&arena, &buf, 9, in));
    const Mtr__FromBroker *m =
        mtr_message_unpack(&arena, &mtr__from_broker__descriptor, mtr_buf_view(&buf), &err);
    ck_assert_msg(m != NULL, "%s", err.message);
    ck_assert_uint_eq(m->epoch, 9);
    ck_assert_msg(mtr_unpack_plan(&arena, m, out, &err), "%s", err.message);
}

START_TEST(a_full_plan)
{
    static const uint8_t mask[] = {0xff, 0, 0x80, 1};
    struct mtr_sampling sampling = {0.7f, 0.9f,       40, 0.05f, 1.5f, 1.1f, 0.2f,
                                    0.3f, UINT64_MAX, 12, 5,     4,    ids,  reals};
    struct mtr_table_change tables[] = {{0, 2, 3, ids}, {1, 0, 1, ids + 3}};
    struct mtr_effect effects[] = {
        {MTR_COPY_BLOCK, 1, 2, 3, {0}},
        {MTR_LOAD_ADAPTER, 0, 0, 4, MTR_STR("poet")},
    };
    struct mtr_lane lanes[] = {
        {.sequence = 1ull << 40,
         .slot = 3,
         .open = true,
         .start = 4,
         .count = 4,
         .tokens = ids,
         .history_count = 4,
         .history = ids,
         .table_count = 2,
         .tables = tables,
         .outputs = 2,
         .drafts = 1,
         .sampling = &sampling,
         .mask = mask,
         .mask_bytes = 4,
         .banned_count = 2,
         .banned = ids + 1,
         .score = true,
         .adapter = 7},
        {.sequence = 2, .start = 9, .count = 1, .outputs = 1},
    };
    struct mtr_step_plan in = {77, 2, effects, 2, lanes}, out;
    roundtrip_plan(&in, &out);
    ck_assert_uint_eq(out.step, 77);
    ck_assert_uint_eq(out.effect_count, 2);
    ck_assert_int_eq(out.effects[0].kind, MTR_COPY_BLOCK);
    ck_assert_uint_eq(out.effects[0].group, 1);
    ck_assert_uint_eq(out.effects[0].src, 2);
    ck_assert_uint_eq(out.effects[0].dst, 3);
    ck_assert(mtr_str_is(out.effects[1].name, "poet"));
    ck_assert_uint_eq(out.lane_count, 2);
    const struct mtr_lane *l = &out.lanes[0];
    ck_assert_uint_eq(l->sequence, 1ull << 40);
    ck_assert_uint_eq(l->slot, 3);
    ck_assert(l->open && l->score);
    ck_assert_uint_eq(l->start, 4);
    ck_assert_uint_eq(l->count, 4);
    ck_assert_mem_eq(l->tokens, ids, sizeof(ids));
    ck_assert_uint_eq(l->history_count, 4);
    ck_assert_mem_eq(l->history, ids, sizeof(ids));
    ck_assert_uint_eq(l->table_count, 2);
    ck_assert_uint_eq(l->tables[0].first, 2);
    ck_assert_uint_eq(l->tables[0].count, 3);
    ck_assert_mem_eq(l->tables[0].blocks, ids, 12);
    ck_assert_uint_eq(l->tables[1].group, 1);
    ck_assert_uint_eq(l->tables[1].blocks[0], ids[3]);
    ck_assert_uint_eq(l->outputs, 2);
    ck_assert_uint_eq(l->drafts, 1);
    ck_assert_uint_eq(l->mask_bytes, 4);
    ck_assert_mem_eq(l->mask, mask, 4);
    ck_assert_uint_eq(l->banned_count, 2);
    ck_assert_uint_eq(l->banned[1], ids[2]);
    ck_assert_uint_eq(l->adapter, 7);
    const struct mtr_sampling *s = l->sampling;
    ck_assert(s->temperature == 0.7f && s->top_p == 0.9f && s->top_k == 40 && s->min_p == 0.05f);
    ck_assert(s->top_n_sigma == 1.5f && s->repetition_penalty == 1.1f);
    ck_assert(s->presence_penalty == 0.2f && s->frequency_penalty == 0.3f);
    ck_assert(s->seed == UINT64_MAX && s->output_start == 12 && s->logprobs == 5);
    ck_assert_uint_eq(s->bias_count, 4);
    ck_assert_mem_eq(s->bias_ids, ids, sizeof(ids));
    ck_assert_mem_eq(s->bias_values, reals, sizeof(reals));
    ck_assert(!out.lanes[1].open && !out.lanes[1].tokens && !out.lanes[1].sampling);
    ck_assert(!out.lanes[1].mask && !out.lanes[1].score);
}
END_TEST

START_TEST(neutral_sampling_stays_neutral)
{
    struct mtr_sampling greedy = mtr_sampling_greedy();
    struct mtr_lane lane = {.count = 1, .outputs = 1, .open = true, .sampling = &greedy};
    struct mtr_step_plan in = {.step = 1, .lane_count = 1, .lanes = &lane}, out;
    roundtrip_plan(&in, &out);
    const struct mtr_sampling *s = out.lanes[0].sampling;
    ck_assert_ptr_nonnull(s);
    ck_assert(s->temperature == 0 && s->top_p == 1 && s->repetition_penalty == 1);
}
END_TEST

START_TEST(an_empty_plan)
{
    struct mtr_step_plan in = {.step = 3}, out;
    roundtrip_plan(&in, &out);
    ck_assert_uint_eq(out.step, 3);
    ck_assert_uint_eq(out.lane_count, 0);
    ck_assert_uint_eq(out.effect_count, 0);
}
END_TEST

START_TEST(a_full_result)
{
    struct mtr_error err = {0};
    struct mtr_token_logprobs probs[] = {{-0.5f, 2, 4, ids, reals}, {-7, 0, 0, NULL, NULL}};
    struct mtr_lane_result lanes[] = {
        {.sequence = 5,
         .token_count = 2,
         .tokens = ids,
         .accepted = 1,
         .draft_count = 3,
         .drafts = ids + 1,
         .logprob_count = 2,
         .logprobs = probs},
        {.sequence = 6, .score_count = 1, .scores = probs + 1},
    };
    struct mtr_step_result in = {8, 2, lanes, 123456789012ull, 42}, out;
    ck_assert(mtr_pack_result(&arena, &buf, 4, &in));
    const Mtr__FromWorker *m =
        mtr_message_unpack(&arena, &mtr__from_worker__descriptor, mtr_buf_view(&buf), &err);
    ck_assert_ptr_nonnull(m);
    ck_assert_uint_eq(m->epoch, 4);
    ck_assert_msg(mtr_unpack_result(&arena, m, &out, &err), "%s", err.message);
    ck_assert_uint_eq(out.step, 8);
    ck_assert_uint_eq(out.device_ns, 123456789012ull);
    ck_assert_uint_eq(out.wait_ns, 42);
    ck_assert_uint_eq(out.lane_count, 2);
    const struct mtr_lane_result *l = out.lanes;
    ck_assert_uint_eq(l[0].sequence, 5);
    ck_assert_uint_eq(l[0].token_count, 2);
    ck_assert_mem_eq(l[0].tokens, ids, 8);
    ck_assert_uint_eq(l[0].accepted, 1);
    ck_assert_uint_eq(l[0].draft_count, 3);
    ck_assert_mem_eq(l[0].drafts, ids + 1, 12);
    ck_assert_uint_eq(l[0].logprob_count, 2);
    ck_assert(l[0].logprobs[0].logprob == -0.5f && l[0].logprobs[0].rank == 2);
    ck_assert_uint_eq(l[0].logprobs[0].top_count, 4);
    ck_assert_mem_eq(l[0].logprobs[0].top_ids, ids, sizeof(ids));
    ck_assert_mem_eq(l[0].logprobs[0].top_logprobs, reals, sizeof(reals));
    ck_assert_uint_eq(l[1].token_count, 0);
    ck_assert_uint_eq(l[1].score_count, 1);
    ck_assert(l[1].scores[0].logprob == -7);
}
END_TEST

START_TEST(a_full_buffer_says_so)
{
    struct mtr_step_plan in = {.step = 3};
    buf.limit_bytes = 3;
    ck_assert(!mtr_pack_plan(&arena, &buf, 1000000, &in));
}
END_TEST

MTR_CHECK_MAIN("wire/pack")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_full_plan);
    tcase_add_test(tc, neutral_sampling_stays_neutral);
    tcase_add_test(tc, an_empty_plan);
    tcase_add_test(tc, a_full_result);
    tcase_add_test(tc, a_full_buffer_says_so);
}
