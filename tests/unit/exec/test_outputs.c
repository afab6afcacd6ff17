/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Results of logits that the test writes: no launch of the mock has an effect but the choice of
 * tokens. */
#include "worker/exec/outputs.c"

#include "tests/support/mock_device.h"
#include "tests/support/tiny_model.h"
#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

static struct tiny_model model;
static struct mtr_backend *b;
static struct mtr_backend_ops ops;
static struct mtr_exec *e;
static struct mtr_step_result result;
static struct mtr_error err;
static bool unified;

static const uint32_t tokens[8] = {10, 11, 12, 13, 14, 15, 16, 17};
static const uint32_t blocks[4] = {0, 1, 2, 3};
static const struct mtr_table_change table = {.count = 4, .blocks = blocks};

static bool info(struct mtr_backend *backend, struct mtr_device_info *out, struct mtr_error *why)
{
    *out = (struct mtr_device_info){.processors = 3, .direct = unified};
    return true;
}

static void run_argmax(void *context, const struct mtr_mock_call *launch)
{
    if (strcmp(launch->module, "sample") == 0)
        mock_device_run(context, launch);
}

static void setup_with(bool same_memory)
{
    unified = same_memory;
    tiny_model_init(&model,
                    (struct mtr_plan_limits){.max_step_tokens = 32,
                                             .max_step_outputs = 8,
                                             .max_lanes = 3,
                                             .max_sequence_tokens = 64},
                    MTR_F32);
    b = mtr_mock_backend_create();
    mtr_mock_on_launch(b, run_argmax, NULL);
    ops = *b->ops;
    ops.info = info;
    b->ops = &ops;
    e = mtr_exec_create(&(struct mtr_exec_options){.backend = b,
                                                   .plan = &model.plan,
                                                   .weights = model.addresses,
                                                   .max_slots = 3,
                                                   .group_blocks = {16}},
                        &err);
    ck_assert_msg(e != NULL, "%s", err.message);
}

static void teardown(void)
{
    mtr_exec_destroy(e);
    b->ops->destroy(b);
    tiny_model_free(&model);
}

/* Row i of the logits has its largest at best[i]. */
static void write_logits(const uint32_t *best, uint32_t rows)
{
    float *logits = e->memory.buffers[model.plan.logits];
    memset(logits, 0, 8 * TINY_VOCAB * sizeof *logits);
    for (uint32_t i = 0; i < rows; i++)
        logits[i * TINY_VOCAB + best[i]] = 5;
}

static void step(const struct mtr_lane *lanes, uint32_t count)
{
    struct mtr_step_plan plan = {.step = 3, .lane_count = count, .lanes = lanes};
    ck_assert_msg(mtr_exec_step(e, &plan, &result, &err), "%s", err.message);
    ck_assert_uint_eq(result.step, 3);
}

static struct mtr_lane lane(uint32_t slot, uint32_t count, uint32_t outputs)
{
    return (struct mtr_lane){.sequence = 100 + slot,
                             .slot = slot,
                             .open = true,
                             .count = count,
                             .tokens = tokens,
                             .table_count = 1,
                             .tables = &table,
                             .outputs = outputs,
                             .drafts = outputs ? outputs - 1 : 0};
}

START_TEST(lanes_without_outputs_are_not_in_the_result)
{
    const uint32_t best[] = {42, 43};
    setup_with(_i);
    write_logits(best, 2);
    const struct mtr_lane lanes[] = {lane(0, 5, 1), lane(1, 5, 0), lane(2, 3, 1)};
    step(lanes, 3);
    ck_assert_uint_eq(result.lane_count, 2);
    ck_assert_uint_eq(result.lanes[0].sequence, 100);
    ck_assert_uint_eq(result.lanes[0].tokens[0], 42);
    ck_assert_uint_eq(result.lanes[1].sequence, 102);
    ck_assert_uint_eq(result.lanes[1].tokens[0], 43);
    ck_assert_uint_eq(result.lanes[1].logprob_count, 0);
    teardown();
}
END_TEST

START_TEST(drafts_are_accepted_up_to_the_first_that_differs)
{
    static const struct {
        uint32_t best[4];
        uint32_t accepted;
    } cases[] = {
        {{12, 13, 14, 70}, 3},
        {{12, 13, 71, 15}, 2},
        {{72, 13, 14, 15}, 0},
        {{12, 73, 14, 15}, 1},
    };
    setup_with(true);
    for (uint32_t i = 0; i < 4; i++) {
        const struct mtr_lane l = lane(0, 5, 4); /* 10 11 | drafts 12 13 14 */
        write_logits(cases[i].best, 4);
        step(&l, 1);
        const struct mtr_lane_result *r = &result.lanes[0];
        ck_assert_uint_eq(r->accepted, cases[i].accepted);
        ck_assert_uint_eq(r->token_count, cases[i].accepted + 1);
        ck_assert_mem_eq(r->tokens, cases[i].best, r->token_count * sizeof *r->tokens);
        ck_assert_uint_eq(e->slots.slots[0].computed, 2 + cases[i].accepted);
        ck_assert_uint_eq(e->slots.slots[0].length, 2 + cases[i].accepted + 1);
    }
    teardown();
}
END_TEST

START_TEST(masks_belong_to_their_row)
{
    const uint32_t best[] = {12, 60};
    uint8_t mask[2 * ((TINY_VOCAB + 7) / 8)];
    setup_with(true);
    memset(mask, 0xff, sizeof mask);
    mask[sizeof mask / 2 + 60 / 8] = 0;
    struct mtr_lane l = lane(0, 3, 2); /* 10 11 | draft 12 */
    l.mask = mask;
    l.mask_bytes = sizeof mask;
    write_logits(best, 2);
    step(&l, 1);
    ck_assert_uint_eq(result.lanes[0].accepted, 1);
    ck_assert_uint_ne(result.lanes[0].tokens[1], 60);
    teardown();
}
END_TEST

START_TEST(logprobs_and_scores_come_when_asked_for)
{
    const uint32_t best[] = {11, 50, 13};
    struct mtr_sampling s = mtr_sampling_greedy();
    s.logprobs = 1 + 200 % MTR_LOGPROBS_MAX_TOP; /* more than the vocabulary has */
    setup_with(true);
    struct mtr_lane l = lane(1, 3, 1); /* 10 11 12 */
    l.score = true;
    l.sampling = &s;
    write_logits(best, 3);
    step(&l, 1);
    const struct mtr_lane_result *r = &result.lanes[0];
    ck_assert_uint_eq(r->score_count, 2);
    ck_assert_uint_eq(r->scores[0].rank, 0);
    ck_assert_uint_gt(r->scores[1].rank, 0);
    ck_assert_uint_eq(r->scores[1].top_ids[0], 50);
    ck_assert_uint_eq(r->logprob_count, 1);
    ck_assert_uint_eq(r->logprobs[0].top_count, 72);
    ck_assert_float_lt(r->logprobs[0].logprob, 0);
    teardown();
}
END_TEST

/* Logits come to this process for rows that it samples, and as many at a time as there is room. */
START_TEST(rows_are_fetched_in_batches)
{
    const uint32_t best[] = {42, 43, 44};
    struct mtr_sampling s = mtr_sampling_greedy();
    s.presence_penalty = 0.5f;
    setup_with(false);
    e->logit_rows = 1;
    write_logits(best, 3);
    struct mtr_lane lanes[] = {lane(0, 5, 1), lane(1, 5, 1), lane(2, 3, 1)};
    lanes[0].sampling = lanes[2].sampling = &s;
    mtr_mock_forget(b);
    step(lanes, 3);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(result.lanes[i].tokens[0], best[i]);
    uint32_t rows = 0, tokens_too = 0;
    for (uint32_t i = 0; i < mtr_mock_call_count(b); i++) {
        const struct mtr_mock_call *c = mtr_mock_call(b, i);
        rows += c->kind == MTR_MOCK_DOWNLOAD && c->bytes == TINY_VOCAB * sizeof(float);
        tokens_too += c->kind == MTR_MOCK_DOWNLOAD && c->bytes == 3 * sizeof(int32_t);
    }
    ck_assert_uint_eq(rows, 2);
    ck_assert_uint_eq(tokens_too, 1);
    teardown();
}
END_TEST

START_TEST(what_the_device_can_choose)
{
    static const struct mtr_sampling other[] = {
        {.top_p = 1, .repetition_penalty = 1.1f},
        {.top_p = 1, .repetition_penalty = 1, .frequency_penalty = 0.1f},
        {.top_p = 1, .repetition_penalty = 1, .logprobs = 1},
        {.top_p = 1, .repetition_penalty = 1, .bias_count = 1},
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .top_n_sigma = 1},
    };
    const struct mtr_sampling greedy = mtr_sampling_greedy(),
                              hot = {.temperature = 0.5f, .top_p = 0.9f, .repetition_penalty = 1};
    const uint8_t mask = 1;
    const struct mtr_lane plain = {.outputs = 1}, masked = {.outputs = 1, .mask = &mask},
                          banned = {.outputs = 1, .banned_count = 1};
    struct mtr_exec here = {.device = {.direct = true}}, there = {.device = {.direct = false}};
    ck_assert_int_eq(choice_of(&here, &plain, &greedy), MTR_CHOICE_GREEDY);
    ck_assert_int_eq(choice_of(&there, &plain, &greedy), MTR_CHOICE_GREEDY);
    ck_assert_int_eq(choice_of(&here, &plain, &hot), MTR_CHOICE_HOST);
    ck_assert_int_eq(choice_of(&there, &plain, &hot), MTR_CHOICE_DRAW);
    ck_assert_int_eq(choice_of(&there, &masked, &greedy), MTR_CHOICE_HOST);
    ck_assert_int_eq(choice_of(&there, &banned, &hot), MTR_CHOICE_HOST);
    for (uint32_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_int_eq(choice_of(&there, &plain, &other[i]), MTR_CHOICE_HOST);
}
END_TEST

START_TEST(a_token_that_cannot_be_is_an_error)
{
    setup_with(false);
    mtr_mock_on_launch(b, NULL, NULL); /* choosing does nothing */
    memset(e->memory.chosen, 0x7f, 8 * sizeof *e->memory.chosen);
    const struct mtr_lane l = lane(0, 5, 1);
    struct mtr_step_plan p = {.step = 3, .lane_count = 1, .lanes = &l};
    ck_assert(!mtr_exec_step(e, &p, &result, &err));
    ck_assert_int_eq(err.code, MTR_IO);
    teardown();
}
END_TEST

MTR_CHECK_MAIN("exec/outputs")
{
    tcase_add_loop_test(tc, lanes_without_outputs_are_not_in_the_result, 0, 2);
    tcase_add_test(tc, drafts_are_accepted_up_to_the_first_that_differs);
    tcase_add_test(tc, masks_belong_to_their_row);
    tcase_add_test(tc, rows_are_fetched_in_batches);
    tcase_add_test(tc, what_the_device_can_choose);
    tcase_add_test(tc, a_token_that_cannot_be_is_an_error);
    tcase_add_test(tc, logprobs_and_scores_come_when_asked_for);
}
