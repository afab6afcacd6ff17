/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/sched_rig.h"

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

START_TEST(a_prompt_then_tokens_in_flight)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert(l->open && l->start == 0 && l->count == 6 && l->outputs == 1);
    ck_assert_uint_eq(l->tokens[5], 15);
    ck_assert_uint_eq(l->sampling->output_start, 6);
    ck_assert_uint_eq(l->table_count, 1);
    ck_assert(l->tables[0].first == 0 && l->tables[0].count == 2);
    l = rig_lane(rig_plan(&r), id); /* its token is not known yet */
    ck_assert(!l->open && l->start == 6 && l->count == 1 && l->outputs == 1);
    ck_assert(!l->tokens && !l->sampling && l->table_count == 0);
    ck_assert_ptr_null(rig_plan(&r)); /* two are in flight */
    ck_assert(rig_answer(&r, 77));
    l = rig_lane(rig_plan(&r), id);
    ck_assert(l->start == 7 && !l->tokens);
    ck_assert(rig_answer(&r, 78));
    ck_assert(rig_answer(&r, 79)); /* all answered */
    l = rig_lane(rig_plan(&r), id);
    ck_assert(l->start == 8 && l->tokens[0] == 79);
    ck_assert(l->tables[0].first == 2 && l->tables[0].count == 1);
}
END_TEST

START_TEST(nothing_is_planned_past_max_tokens)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 1);
    ck_assert_ptr_nonnull(rig_lane(rig_plan(&r), id));
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(rig_answer(&r, 77));
    ck_assert_int_eq(rig_event(&r, id, MTR_SCHED_FINISHED)->finish, MTR_FINISH_LENGTH);
}
END_TEST

START_TEST(long_prompts_are_cut_and_mixed_with_decode)
{
    r.config.max_prefill_tokens = 10;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 10, 4, 50), b = rig_submit(&r, 100, 25, 5);
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert_uint_eq(rig_lane(plan, b)->count, 6); /* what a left of ten */
    ck_assert_uint_eq(rig_lane(plan, b)->outputs, 0);
    plan = rig_plan(&r);
    ck_assert_uint_eq(rig_lane(plan, a)->count, 1);
    ck_assert(rig_lane(plan, b)->start == 6 && rig_lane(plan, b)->count == 10);
    ck_assert(rig_answer(&r, 1));
    plan = rig_plan(&r);
    ck_assert(rig_lane(plan, b)->start == 16 && rig_lane(plan, b)->count == 9);
    ck_assert_uint_eq(rig_lane(plan, b)->outputs, 1);
}
END_TEST

START_TEST(a_known_prompt_comes_from_the_cache)
{
    rig_start(&r);
    rig_submit(&r, 10, 20, 3);
    rig_run(&r, 1, 20);
    uint64_t id = rig_submit(&r, 10, 20, 3);
    const struct mtr_step_plan *plan = rig_plan(&r);
    const struct mtr_lane *l = rig_lane(plan, id);
    ck_assert(l->start == 19 && l->count == 1 && l->open);
    ck_assert_uint_eq(plan->effect_count, 1); /* the last block's beginning is copied */
    ck_assert_int_eq(plan->effects[0].kind, MTR_COPY_BLOCK);
    ck_assert_uint_eq(plan->effects[0].dst, l->tables[0].blocks[4]);
    ck_assert_uint_eq(l->history_count, 0); /* nobody asked for penalties */
    rig_run(&r, 1, 20);
    ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_FINISHED)->cached_tokens, 19);
}
END_TEST

START_TEST(penalties_need_the_history)
{
    rig_start(&r);
    rig_submit(&r, 10, 20, 3);
    rig_run(&r, 1, 20);
    r.params.sampling.repetition_penalty = 1.1f;
    uint64_t id = rig_submit(&r, 10, 20, 3);
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert_uint_eq(l->history_count, 19);
    ck_assert_uint_eq(l->history[18], 28);
}
END_TEST

START_TEST(output_is_shared_with_the_next_turn)
{
    uint32_t tokens[12] = {10, 11, 12, 13, 5, 5, 5, 5, 5, 50, 51, 52};
    uint64_t id;
    rig_start(&r);
    rig_submit(&r, 10, 4, 5); /* then five times 5 */
    rig_run(&r, 5, 20);
    r.params.tokens = tokens;
    r.params.token_count = 12;
    ck_assert(mtr_sched_submit(r.sched, &r.params, 0, &id, &r.err));
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert_uint_eq(l->start, 8); /* the last token was sampled, but never computed */
}
END_TEST

START_TEST(without_a_cache_nothing_is_shared)
{
    r.config.prefix_cache = false;
    rig_start(&r);
    rig_submit(&r, 10, 20, 3);
    rig_run(&r, 1, 20);
    uint64_t id = rig_submit(&r, 10, 20, 3);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), id)->start, 0);
}
END_TEST

START_TEST(min_tokens_bans_the_stop_ids)
{
    uint32_t stop = 7;
    r.params.stop_ids = &stop;
    r.params.stop_count = 1;
    r.params.min_tokens = 2;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    for (int i = 0; i < 3; i++) {
        const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
        ck_assert_uint_eq(l->banned_count, i < 2);
        ck_assert(l->banned_count == 0 || l->banned[0] == 7);
        ck_assert(rig_answer(&r, 1));
    }
}
END_TEST

START_TEST(the_latest_is_preempted_and_the_oldest_goes_on)
{
    r.capacity.group_blocks[0] = 6;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 100, 8, 13), b = rig_submit(&r, 200, 8, 13);
    rig_plan(&r);
    ck_assert_uint_eq(r.sched->running_count, 2);
    for (int i = 0; i < 5; i++) { /* both want a fourth block at position 12 */
        ck_assert(rig_answer(&r, 1));
        rig_plan(&r);
    }
    struct mtr_sched_stats stats;
    mtr_sched_stats(r.sched, &stats);
    ck_assert_uint_eq(stats.preemptions, 1);
    ck_assert_uint_eq(stats.running, 1);
    ck_assert_uint_eq(r.sched->running[0]->id, a);
    ck_assert_uint_eq(mtr_sched_find(r.sched, b)->planned, 0);
    rig_run(&r, 1, 100);
    mtr_sched_stats(r.sched, &stats);
    ck_assert_uint_eq(stats.running + stats.waiting, 0);
    ck_assert_uint_gt(stats.replayed_tokens, 0);
}
END_TEST

START_TEST(nobody_is_admitted_who_would_not_fit)
{
    r.capacity.group_blocks[0] = 8;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 100, 16, 8), b = rig_submit(&r, 200, 16, 8);
    uint64_t c = rig_submit(&r, 300, 4, 8);
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert(rig_lane(plan, a) && !rig_lane(plan, b)); /* b's four blocks would leave none to a */
    ck_assert(!rig_lane(plan, c));                      /* and c may not overtake b */
}
END_TEST

START_TEST(windows_hold_no_more_than_they_need)
{
    r.config.geometry.group_count = 2;
    r.config.geometry.groups[1].kind = MTR_CACHE_SLIDING;
    r.config.geometry.groups[1].window = 8;
    r.config.prefix_cache = false;
    r.capacity.group_blocks[1] = 6;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 0, 60, 40);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), id)->count, 24); /* as far as six blocks reach */
    ck_assert_uint_gt(rig_run(&r, 1, 200), 40);
    ck_assert_int_eq(rig_event(&r, id, MTR_SCHED_FINISHED)->finish, MTR_FINISH_LENGTH);
}
END_TEST

START_TEST(constrained_sequences_wait_for_their_mask)
{
    uint8_t mask[RIG_VOCAB / 8] = {1};
    r.params.constrained = true;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 5);
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(mtr_sched_mask(r.sched, id, mask, sizeof(mask)));
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert_ptr_eq(l->mask, mask);
    ck_assert_uint_eq(l->mask_bytes, sizeof(mask));
    ck_assert_ptr_null(rig_plan(&r)); /* the next mask depends on this token */
    ck_assert(rig_answer(&r, 0));
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(mtr_sched_mask(r.sched, id, mask, sizeof(mask)));
    ck_assert_ptr_nonnull(rig_lane(rig_plan(&r), id));
    mtr_sched_worker_lost(r.sched, 0); /* the mask is still good */
    ck_assert(mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    ck_assert_ptr_eq(rig_lane(rig_plan(&r), id)->mask, mask);
}
END_TEST

START_TEST(scores_take_chunks_that_overlap)
{
    r.config.max_score_rows = 8;
    r.params.score = true;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 20, 0);
    static const uint32_t starts[] = {0, 7, 14}, counts[] = {8, 8, 6};
    for (int i = 0; i < 3; i++) {
        const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
        ck_assert(l->score && l->start == starts[i] && l->count == counts[i]);
        ck_assert_uint_eq(l->outputs, 0);
        ck_assert(rig_answer(&r, 0));
        ck_assert_uint_eq(rig_event(&r, id, MTR_SCHED_SCORES)->first, starts[i] + 1);
    }
    ck_assert_ptr_null(mtr_sched_find(r.sched, id));
}
END_TEST

START_TEST(recurrent_prompts_are_cut_at_chunks_and_snapshots_taken)
{
    r.config.geometry.recurrent = true;
    r.config.geometry.chunk_tokens = 8;
    r.config.max_prefill_tokens = 13;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 10, 21, 3);
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert_int_eq(plan->effects[0].kind, MTR_ZERO_STATE);
    ck_assert_uint_eq(rig_lane(plan, a)->count, 8);
    plan = rig_plan(&r);
    ck_assert_uint_eq(rig_lane(plan, a)->count, 8);
    /* Of position 8, too: what follows 16 may be no more than the beginning of the answer. */
    ck_assert_int_eq(plan->effects[0].kind, MTR_SNAPSHOT_STATE);
    ck_assert(rig_answer(&r, 1));
    plan = rig_plan(&r);
    ck_assert_int_eq(plan->effects[0].kind, MTR_SNAPSHOT_STATE); /* of position 16 */
    ck_assert(rig_lane(plan, a)->start == 16 && rig_lane(plan, a)->outputs == 1);
    rig_run(&r, 1, 20);
    uint64_t b = rig_submit(&r, 10, 21, 3);
    plan = rig_plan(&r);
    ck_assert_int_eq(plan->effects[0].kind, MTR_RESTORE_STATE);
    ck_assert_uint_eq(rig_lane(plan, b)->start, 16);
}
END_TEST

START_TEST(a_long_last_chunk_is_worth_one_snapshot)
{
    r.config.geometry.recurrent = true;
    r.config.geometry.chunk_tokens = 24;
    r.config.max_prefill_tokens = 200;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 10, 48 + MTR_SCHED_PROMPT_TAIL + 1, 3);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), a)->count, 48);
    const struct mtr_step_plan *plan = rig_plan(&r);
    ck_assert(plan->effect_count == 1 && plan->effects[0].kind == MTR_SNAPSHOT_STATE);
    rig_run(&r, 1, 20);
    uint64_t b = rig_submit(&r, 30, 48 + MTR_SCHED_PROMPT_TAIL, 3);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), b)->count, 24);
}
END_TEST

START_TEST(recurrent_output_is_replayed_row_by_row)
{
    r.config.geometry.recurrent = true;
    r.config.geometry.chunk_tokens = 8;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 8, 10);
    for (uint32_t i = 0; i < 3; i++) {
        rig_plan(&r);
        ck_assert(rig_answer(&r, 20 + i));
    }
    mtr_sched_worker_lost(r.sched, 0);
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    ck_assert(l->start == 0 && l->count == 8 && l->outputs == 0);
    for (uint32_t i = 0; i < 3; i++) {
        l = rig_lane(rig_plan(&r), id);
        ck_assert(l->start == 8 + i && l->count == 1 && l->tokens[0] == 20 + i);
        ck_assert_uint_eq(l->outputs, i == 2);
        ck_assert(rig_answer(&r, 30));
    }
}
END_TEST

START_TEST(drafts_are_verified_and_cut)
{
    static const uint32_t drafts[] = {41, 42};
    struct mtr_lane_result lane = {.token_count = 1, .draft_count = 2, .drafts = drafts};
    uint32_t token = 40, stop = 7;
    r.config.max_drafts = 2;
    r.params.stop_ids = &stop;
    r.params.stop_count = 1;
    r.params.min_tokens = 3;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 10, 6, 20);
    rig_plan(&r);
    ck_assert_ptr_null(rig_plan(&r)); /* drafts come with the result */
    lane.sequence = id;
    lane.tokens = &token;
    struct mtr_step_result result = {.step = 1, .lane_count = 1, .lanes = &lane};
    ck_assert(mtr_sched_result(r.sched, &result, 0, &r.err));
    const struct mtr_lane *l = rig_lane(rig_plan(&r), id);
    /* Two are allowed; after one more token stop ids are, which is another rule for its sample. */
    ck_assert(l->drafts == 1 && l->count == 2 && l->outputs == 2 && l->start == 6);
    ck_assert(l->tokens[0] == 40 && l->tokens[1] == 41);
}
END_TEST

MTR_CHECK_MAIN("sched/plan")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_prompt_then_tokens_in_flight);
    tcase_add_test(tc, nothing_is_planned_past_max_tokens);
    tcase_add_test(tc, long_prompts_are_cut_and_mixed_with_decode);
    tcase_add_test(tc, a_known_prompt_comes_from_the_cache);
    tcase_add_test(tc, penalties_need_the_history);
    tcase_add_test(tc, output_is_shared_with_the_next_turn);
    tcase_add_test(tc, without_a_cache_nothing_is_shared);
    tcase_add_test(tc, min_tokens_bans_the_stop_ids);
    tcase_add_test(tc, the_latest_is_preempted_and_the_oldest_goes_on);
    tcase_add_test(tc, nobody_is_admitted_who_would_not_fit);
    tcase_add_test(tc, windows_hold_no_more_than_they_need);
    tcase_add_test(tc, constrained_sequences_wait_for_their_mask);
    tcase_add_test(tc, scores_take_chunks_that_overlap);
    tcase_add_test(tc, recurrent_prompts_are_cut_at_chunks_and_snapshots_taken);
    tcase_add_test(tc, a_long_last_chunk_is_worth_one_snapshot);
    tcase_add_test(tc, recurrent_output_is_replayed_row_by_row);
    tcase_add_test(tc, drafts_are_verified_and_cut);
}
