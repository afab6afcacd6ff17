/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/sched_rig.h"

#include <math.h>
#include <string.h>

#include "tests/unit/check_main.h"

static struct sched_rig r;

static void setup(void)
{
    rig_init(&r);
}

static void teardown(void)
{
    rig_free(&r);
}

static bool answer(uint64_t step, const struct mtr_lane_result *lanes, uint32_t count)
{
    struct mtr_step_result result = {.step = step, .lane_count = count, .lanes = lanes};
    return mtr_sched_result(r.sched, &result, r.now_ns, &r.err);
}

static void refused(uint64_t step, const struct mtr_lane_result *lanes, uint32_t count,
                    const char *word)
{
    ck_assert_msg(!answer(step, lanes, count), "accepted, expected: %s", word);
    ck_assert_int_eq(r.err.code, MTR_INVALID);
    ck_assert_msg(strstr(r.err.message, word) != NULL, "%s", r.err.message);
}

START_TEST(what_was_not_asked_is_refused)
{
    static const uint32_t good[] = {5, 6}, bad[] = {RIG_VOCAB};
    static const struct mtr_token_logprobs probs[2];
    rig_start(&r);
    refused(1, NULL, 0, "no step is unanswered");
    uint64_t id = rig_submit(&r, 10, 6, 5);
    rig_plan(&r);
    struct mtr_lane_result lane = {.sequence = id, .token_count = 1, .tokens = good};
    refused(2, &lane, 1, "expected step 1");
    refused(1, &lane, 0, "only 0 lanes");
    struct mtr_lane_result two[] = {lane, lane};
    refused(1, two, 2, "2 lanes, expected 1");
    (two[0] = lane, two[0].sequence++);
    refused(1, two, 1, "expected 1");
    (two[0] = lane, two[0].token_count = 0);
    refused(1, two, 1, "0 tokens");
    (two[0] = lane, two[0].token_count = 2);
    refused(1, two, 1, "2 tokens");
    (two[0] = lane, two[0].token_count = 2, two[0].accepted = 1);
    refused(1, two, 1, "2 tokens");
    (two[0] = lane, two[0].tokens = bad);
    refused(1, two, 1, "vocabulary");
    (two[0] = lane, two[0].score_count = 1, two[0].scores = probs);
    refused(1, two, 1, "scores");
    (two[0] = lane, two[0].logprob_count = 1, two[0].logprobs = probs);
    refused(1, two, 1, "1 log-probabilities, expected 0");
    (two[0] = lane, two[0].draft_count = 1, two[0].drafts = good);
    refused(1, two, 1, "1 drafts, expected 0");
    ck_assert(answer(1, &lane, 1)); /* nothing of that did any harm */
    ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_TOKENS)->tokens[0], 5);
}
END_TEST

/* One lane with two best tokens asked for, and a number in its log-probabilities that is wrong. */
START_TEST(every_number_of_log_probabilities_is_checked)
{
    static const uint32_t token = 5, ids[] = {5, 6, 7}, strange[] = {5, RIG_VOCAB};
    static const float values[] = {-1, -2, -3}, wrong[] = {-1, NAN}, large[] = {-1, 1};
    static const struct {
        const char *word;
        struct mtr_token_logprobs p;
    } bad[] = {
        {"best tokens", {-1, 0, 3, ids, values}},
        {"best token 1000", {-1, 0, 2, strange, values}},
        {"rank 1000", {-1, RIG_VOCAB, 2, ids, values}},
        {"nan", {NAN, 0, 2, ids, values}},
        {"log-probability of 1", {1, 0, 2, ids, values}},
        {"nan", {-1, 0, 2, ids, wrong}},
        {"log-probability of 1", {-1, 0, 2, ids, large}},
    };
    static const struct mtr_token_logprobs good = {-1, RIG_VOCAB - 1, 2, ids, values};
    r.params.sampling.logprobs = 3;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    rig_plan(&r);
    struct mtr_lane_result lane = {.sequence = id, .token_count = 1, .tokens = &token};
    refused(1, &lane, 1, "0 log-probabilities, expected 1");
    lane.logprob_count = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lane.logprobs = &bad[i].p;
        refused(1, &lane, 1, bad[i].word);
    }
    lane.logprobs = &good;
    ck_assert_msg(answer(1, &lane, 1), "%s", r.err.message);
}
END_TEST

START_TEST(scores_are_checked_like_log_probabilities)
{
    static const uint32_t token = 5, strange = RIG_VOCAB;
    static const float value = -1;
    struct mtr_token_logprobs scores[5] = {{.logprob = -1}};
    struct mtr_token_logprobs probs = {.logprob = -1};
    r.params.score = true;
    r.params.sampling.logprobs = 2;
    r.config.max_score_rows = 8;
    rig_start(&r);
    struct mtr_lane_result lane = {.sequence = rig_submit(&r, 10, 6, 3),
                                   .token_count = 1,
                                   .tokens = &token,
                                   .logprob_count = 1,
                                   .logprobs = &probs,
                                   .score_count = 5,
                                   .scores = scores};
    rig_plan(&r);
    scores[4] = (struct mtr_token_logprobs){-1, 0, 1, &strange, &value};
    refused(1, &lane, 1, "best token 1000");
    scores[4].top_ids = &token;
    ck_assert_msg(answer(1, &lane, 1), "%s", r.err.message);
}
END_TEST

START_TEST(drafts_are_checked_before_they_are_sent_or_believed)
{
    static const uint32_t tokens[] = {40, 41, 99}, drafts[] = {41, 42, 43}, bad[] = {41, RIG_VOCAB};
    struct mtr_lane_result lane = {
        .token_count = 1, .tokens = tokens, .draft_count = 3, .drafts = drafts};
    r.config.max_drafts = 2;
    rig_start(&r);
    uint64_t id = lane.sequence = rig_submit(&r, 10, 6, 20);
    rig_plan(&r);
    refused(1, &lane, 1, "3 drafts, expected 2 at most");
    (lane.draft_count = 2, lane.drafts = bad);
    refused(1, &lane, 1, "draft 1000");
    lane.drafts = drafts;
    ck_assert(answer(1, &lane, 1));
    ck_assert_uint_eq(rig_lane(rig_plan(&r), id)->drafts, 2);
    lane =
        (struct mtr_lane_result){.sequence = id, .token_count = 2, .tokens = tokens, .accepted = 1};
    refused(2, &lane, 1, "draft 0 accepted as 40, sent as 41");
    lane.tokens = tokens + 1;
    ck_assert(answer(2, &lane, 1));
}
END_TEST

START_TEST(a_stop_id_ends_it_unseen)
{
    uint32_t stop = 7;
    r.params.stop_ids = &stop;
    r.params.stop_count = 1;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    rig_plan(&r);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 7));
    const struct mtr_sched_event *events;
    ck_assert_uint_eq(mtr_sched_events(r.sched, &events), 1);
    ck_assert_int_eq(events[0].kind, MTR_SCHED_FINISHED);
    ck_assert_int_eq(events[0].finish, MTR_FINISH_STOP);
    ck_assert_uint_eq(events[0].id, id);
    ck_assert_uint_eq(events[0].stop_id, 7);
    ck_assert_uint_eq(events[0].output_tokens, 1);
    ck_assert(rig_answer(&r, 9)); /* the step that was ahead: nobody's token */
    ck_assert_uint_eq(mtr_sched_events(r.sched, &events), 0);
}
END_TEST

START_TEST(accepted_drafts_are_tokens)
{
    static const uint32_t tokens[] = {40, 41, 99}, drafts[] = {41, 42};
    static const struct mtr_token_logprobs probs[3] = {{.logprob = -1}, {.logprob = -2}};
    struct mtr_lane_result lane = {
        .token_count = 1, .tokens = tokens, .draft_count = 2, .drafts = drafts};
    r.config.max_drafts = 4;
    r.params.sampling.logprobs = 1;
    rig_start(&r);
    uint64_t id = lane.sequence = rig_submit(&r, 10, 6, 20);
    rig_plan(&r);
    lane.logprob_count = 1;
    lane.logprobs = probs;
    ck_assert(answer(1, &lane, 1));
    ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_TOKENS)->count, 1);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), id)->drafts, 2);
    lane = (struct mtr_lane_result){.sequence = id,
                                    .token_count = 2,
                                    .tokens = tokens + 1,
                                    .accepted = 1,
                                    .logprob_count = 2,
                                    .logprobs = probs};
    ck_assert(answer(2, &lane, 1));
    const struct mtr_sched_event *e = rig_event(&r, id, MTR_SCHED_TOKENS);
    ck_assert(e->count == 2 && e->tokens[0] == 41 && e->tokens[1] == 99);
    ck_assert_ptr_eq(e->logprobs, probs);
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert(l->start == 8 && l->tokens[0] == 99 && l->drafts == 0);
    ck_assert_uint_eq(r.sched->stats.accepted_tokens, 1);
}
END_TEST

START_TEST(tokens_behind_a_stop_are_dropped)
{
    static const uint32_t tokens[] = {40, 7, 9}, drafts[] = {40, 7};
    uint32_t stop = 7;
    struct mtr_lane_result lane = {
        .token_count = 1, .tokens = tokens, .draft_count = 2, .drafts = drafts};
    r.config.max_drafts = 4;
    r.params.stop_ids = &stop;
    r.params.stop_count = 1;
    rig_start(&r);
    uint64_t id = lane.sequence = rig_submit(&r, 10, 6, 20);
    rig_plan(&r);
    ck_assert(answer(1, &lane, 1));
    rig_plan(&r);
    lane =
        (struct mtr_lane_result){.sequence = id, .token_count = 3, .tokens = tokens, .accepted = 2};
    ck_assert(answer(2, &lane, 1));
    const struct mtr_sched_event *events;
    ck_assert_uint_eq(mtr_sched_events(r.sched, &events), 3);
    ck_assert_uint_eq(events[1].count, 1);
    ck_assert_int_eq(events[2].finish, MTR_FINISH_STOP);
    ck_assert_uint_eq(events[2].output_tokens, 3); /* 40, 40, and the stop id */
}
END_TEST

START_TEST(tokens_in_flight_survive_preemption)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    rig_plan(&r);
    mtr_sched_preempt(r.sched, mtr_sched_find(r.sched, id));
    ck_assert_ptr_null(rig_plan(&r)); /* its token is on the way */
    ck_assert(rig_answer(&r, 77));
    ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_TOKENS)->tokens[0], 77);
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert(l->open && l->start + l->count == 7 && l->outputs == 1);
    ck_assert_uint_eq(l->tokens[l->count - 1], 77);
}
END_TEST

START_TEST(scores_that_come_twice_are_told_once)
{
    r.config.max_score_rows = 8;
    r.params.score = true;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 20, 3);
    rig_plan(&r); /* [0, 8) */
    mtr_sched_preempt(r.sched, mtr_sched_find(r.sched, id));
    rig_plan(&r); /* the same again */
    ck_assert(rig_answer(&r, 1));
    ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_SCORES)->count, 7);
    ck_assert(rig_answer(&r, 1));
    ck_assert_ptr_null(rig_event(&r, id, MTR_SCHED_SCORES));
    rig_plan(&r);
    ck_assert(rig_answer(&r, 1));
    const struct mtr_sched_event *e = rig_event(&r, id, MTR_SCHED_SCORES);
    ck_assert(e->first == 8 && e->count == 7);
}
END_TEST

MTR_CHECK_MAIN("sched/result")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_was_not_asked_is_refused);
    tcase_add_test(tc, every_number_of_log_probabilities_is_checked);
    tcase_add_test(tc, scores_are_checked_like_log_probabilities);
    tcase_add_test(tc, drafts_are_checked_before_they_are_sent_or_believed);
    tcase_add_test(tc, a_stop_id_ends_it_unseen);
    tcase_add_test(tc, accepted_drafts_are_tokens);
    tcase_add_test(tc, tokens_behind_a_stop_are_dropped);
    tcase_add_test(tc, tokens_in_flight_survive_preemption);
    tcase_add_test(tc, scores_that_come_twice_are_told_once);
}
