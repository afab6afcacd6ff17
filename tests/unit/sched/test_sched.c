/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tests/support/sched_rig.h"

#include <string.h>

#include "tests/unit/check_main.h"

#define S 1000000000ull

static struct sched_rig r;

static void setup(void)
{
    rig_init(&r);
}

static void teardown(void)
{
    rig_free(&r);
}

static void no_such_config(const char *word)
{
    struct mtr_error err = {0};
    ck_assert_ptr_null(mtr_sched_create(&r.config, &err));
    ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);
    rig_init(&r);
}

START_TEST(configurations_that_make_no_sense)
{
    r.config.max_batch_size = 0;
    no_such_config("max_batch_size");
    r.config.max_num_seqs = 0;
    no_such_config("max_num_seqs");
    r.config.max_prefill_tokens = 1;
    no_such_config("max_prefill_tokens");
    r.config.max_drafts = MTR_SCHED_MAX_DRAFTS + 1;
    no_such_config("max_drafts");
    r.config.geometry.group_count = 0;
    no_such_config("group_count");
    r.config.geometry.groups[0].kind = MTR_CACHE_SLIDING;
    no_such_config("window");
    r.config.geometry.recurrent = true;
    r.config.geometry.chunk_tokens = 6;
    no_such_config("chunk_tokens");
    r.config.geometry.recurrent = true;
    r.config.geometry.chunk_tokens = 8;
    r.config.snapshot_interval_tokens = 12;
    no_such_config("snapshot_interval_tokens");
}
END_TEST

static void no_such_request(uint32_t count, const char *word)
{
    uint32_t tokens[400] = {0};
    uint64_t id;
    r.params.tokens = tokens;
    r.params.token_count = count;
    r.params.max_tokens = 4;
    ck_assert_msg(!mtr_sched_submit(r.sched, &r.params, 0, &id, &r.err), "%s", word);
    ck_assert_int_eq(r.err.code, MTR_INVALID);
    ck_assert_msg(strstr(r.err.message, word) != NULL, "%s", r.err.message);
    r.params = (struct mtr_sched_params){.sampling = mtr_sampling_greedy()};
}

START_TEST(requests_that_cannot_be_right)
{
    static const uint32_t ids[] = {RIG_VOCAB};
    static const struct mtr_sched_image images[] = {{.first = 2, .count = 3}, {.first = 4}};
    r.capacity.group_blocks[0] = 40;
    rig_start(&r);
    no_such_request(0, "no tokens");
    no_such_request(200, "may have 200");
    no_such_request(161, "room for a sequence of 160");
    r.params.stop_ids = ids;
    r.params.stop_count = 1;
    no_such_request(3, "stop_token_ids: token id 1000");
    r.params.stop_count = MTR_SCHED_MAX_STOPS + 1;
    no_such_request(3, "stop_token_ids is 257");
    r.params.sampling.bias_ids = ids;
    r.params.sampling.bias_count = 1;
    no_such_request(3, "logit_bias: token id 1000");
    r.params.images = images;
    r.params.image_count = 1;
    no_such_request(3, "behind the prompt");
    r.params.images = images;
    r.params.image_count = 2;
    no_such_request(9, "before image 0 ends");
}
END_TEST

START_TEST(the_queue_has_an_end)
{
    struct mtr_error err = {0};
    uint64_t id;
    r.config.max_num_seqs = 2;
    r.config.max_batch_size = 1;
    rig_start(&r);
    rig_submit(&r, 0, 4, 4);
    rig_submit(&r, 0, 4, 4);
    ck_assert(!mtr_sched_submit(r.sched, &r.params, 0, &id, &err));
    ck_assert_int_eq(err.code, MTR_BUSY);
    ck_assert_uint_eq(mtr_sched_retry_after_s(r.sched), 1);
    rig_plan(&r); /* one runs: there is room again */
    rig_submit(&r, 0, 4, 4);
    for (int i = 0; i < 40; i++) {
        r.now_ns += 5 * S;
        rig_run(&r, 1, 1);
        if (r.sched->waiting.count < 2)
            rig_submit(&r, 0, 4, 1);
    }
    ck_assert_uint_ge(mtr_sched_retry_after_s(r.sched), 4);
    ck_assert_uint_le(mtr_sched_retry_after_s(r.sched), MTR_SCHED_MAX_RETRY_S);
}
END_TEST

START_TEST(deadlines_end_waiting_and_running)
{
    r.config.max_batch_size = 1;
    rig_start(&r);
    ck_assert_uint_eq(mtr_sched_next_ns(r.sched), UINT64_MAX);
    r.params.deadline_ns = 3 * S;
    uint64_t a = rig_submit(&r, 0, 4, 40);
    r.params.deadline_ns = 2 * S;
    uint64_t b = rig_submit(&r, 0, 4, 40);
    ck_assert_uint_eq(mtr_sched_next_ns(r.sched), 2 * S);
    rig_plan(&r);
    mtr_sched_expire(r.sched, 2 * S);
    ck_assert_int_eq(rig_event(&r, b, MTR_SCHED_FINISHED)->finish, MTR_FINISH_DEADLINE);
    ck_assert_uint_eq(mtr_sched_next_ns(r.sched), 3 * S);
    r.now_ns = 3 * S;
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert_int_eq(rig_event(&r, a, MTR_SCHED_FINISHED)->finish, MTR_FINISH_DEADLINE);
    ck_assert(rig_answer(&r, 1)); /* what was in flight */
}
END_TEST

START_TEST(cancelled_is_gone_at_once)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 0, 4, 40);
    rig_plan(&r);
    ck_assert(mtr_sched_cancel(r.sched, id, MTR_FINISH_CANCELLED, 0));
    ck_assert(!mtr_sched_cancel(r.sched, id, MTR_FINISH_CANCELLED, 0));
    ck_assert_int_eq(rig_event(&r, id, MTR_SCHED_FINISHED)->finish, MTR_FINISH_CANCELLED);
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(rig_answer(&r, 1));
    struct mtr_sched_stats stats;
    mtr_sched_stats(r.sched, &stats);
    ck_assert_uint_eq(stats.groups[0].used, 0);
}
END_TEST

START_TEST(a_lost_worker_loses_no_token)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 50, 6, 10);
    rig_plan(&r);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 77));
    mtr_sched_worker_lost(r.sched, 0);
    ck_assert_uint_eq(mtr_sched_in_flight(r.sched), 0);
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    const struct mtr_step_plan *plan = rig_plan(&r);
    const struct mtr_lane *l = rig_lane(plan, id);
    ck_assert_uint_eq(plan->step, 1); /* a new epoch */
    ck_assert(l->open && l->start == 0 && l->count == 7 && l->tokens[6] == 77);
    ck_assert_uint_eq(l->sampling->output_start, 6);
}
END_TEST

static void lose_workers(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_ptr_nonnull(rig_plan(&r));
        mtr_sched_worker_lost(r.sched, 0);
        ck_assert(mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    }
}

START_TEST(who_loses_every_worker_ends)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 0, 6, 10);
    lose_workers(MTR_SCHED_MAX_LOSSES - 1);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 77)); /* a token: counted from the start again */
    lose_workers(MTR_SCHED_MAX_LOSSES - 1);
    ck_assert_uint_eq(mtr_sched_list(r.sched, NULL, 0), 1);
    lose_workers(1);
    const struct mtr_sched_event *e = rig_event(&r, id, MTR_SCHED_FINISHED);
    ck_assert_int_eq(e->finish, MTR_FINISH_ERROR);
    ck_assert_ptr_nonnull(strstr(e->error->message, "lost 6 times"));
    ck_assert_uint_eq(mtr_sched_list(r.sched, NULL, 0), 0);
}
END_TEST

START_TEST(a_smaller_cache_ends_who_cannot_fit)
{
    rig_start(&r);
    uint64_t big = rig_submit(&r, 0, 60, 10), small = rig_submit(&r, 0, 4, 10);
    mtr_sched_worker_lost(r.sched, 0);
    r.capacity.group_blocks[0] = 10;
    ck_assert(mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    const struct mtr_sched_event *e = rig_event(&r, big, MTR_SCHED_FINISHED);
    ck_assert_int_eq(e->finish, MTR_FINISH_ERROR);
    ck_assert_ptr_nonnull(strstr(e->error->message, "room for a sequence of 40"));
    ck_assert_ptr_nonnull(rig_lane(rig_plan(&r), small));
}
END_TEST

START_TEST(a_worker_without_room_is_refused)
{
    rig_start(&r);
    r.capacity.group_blocks[0] = 0;
    ck_assert(!mtr_sched_worker_ready(r.sched, &r.capacity, 0, &r.err));
    ck_assert_int_eq(r.err.code, MTR_INVALID);
    ck_assert_ptr_null(mtr_sched_plan(r.sched, 0));
}
END_TEST

START_TEST(what_the_cache_can_hold_is_the_length)
{
    r.capacity.group_blocks[0] = 3;
    rig_start(&r);
    uint64_t id = rig_submit(&r, 0, 8, 100);
    rig_run(&r, 1, 100);
    const struct mtr_sched_event *e = rig_event(&r, id, MTR_SCHED_FINISHED);
    ck_assert_int_eq(e->finish, MTR_FINISH_LENGTH);
    ck_assert_uint_eq(e->output_tokens, 5); /* 12 rows, and a token behind the last */
}
END_TEST

START_TEST(all_fail_when_no_worker_comes)
{
    struct mtr_error why;
    rig_start(&r);
    uint64_t a = rig_submit(&r, 0, 4, 40);
    rig_plan(&r);
    rig_submit(&r, 0, 4, 40);
    mtr_sched_worker_lost(r.sched, 0);
    mtr_fail(&why, MTR_TIMEOUT, "no worker");
    mtr_sched_fail_all(r.sched, &why, 0);
    const struct mtr_sched_event *e = rig_event(&r, a, MTR_SCHED_FINISHED);
    ck_assert_int_eq(e->finish, MTR_FINISH_ERROR);
    ck_assert_str_eq(e->error->message, "no worker");
    ck_assert_uint_eq(mtr_sched_list(r.sched, NULL, 0), 0);
}
END_TEST

START_TEST(a_prompt_without_output_ends_when_computed)
{
    rig_start(&r);
    uint64_t id = rig_submit(&r, 0, 8, 0);
    ck_assert_uint_eq(rig_lane(rig_plan(&r), id)->outputs, 0);
    ck_assert_ptr_null(rig_plan(&r));
    ck_assert(rig_answer(&r, 0));
    const struct mtr_sched_event *e = rig_event(&r, id, MTR_SCHED_FINISHED);
    ck_assert(e->finish == MTR_FINISH_LENGTH && e->output_tokens == 0);
}
END_TEST

START_TEST(reports)
{
    struct mtr_sched_info info[4];
    struct mtr_sched_stats stats;
    int tag;
    r.config.max_batch_size = 1;
    rig_start(&r);
    r.params.user = &tag;
    uint64_t a = rig_submit(&r, 0, 9, 40), b = rig_submit(&r, 0, 9, 40);
    rig_plan(&r);
    ck_assert(rig_answer(&r, 1));
    ck_assert_uint_eq(mtr_sched_list(r.sched, info, 4), 2);
    ck_assert(info[0].id == a && info[0].state == MTR_SCHED_DECODE && info[0].user == &tag);
    ck_assert_uint_eq(info[0].output_tokens, 1);
    ck_assert(info[1].id == b && info[1].state == MTR_SCHED_WAITING);
    mtr_sched_stats(r.sched, &stats);
    ck_assert(stats.running == 1 && stats.waiting == 1 && stats.prefix_miss_tokens == 9);
    ck_assert(stats.groups[0].blocks == 64 && stats.groups[0].used == 3);
    mtr_sched_cancel(r.sched, a, MTR_FINISH_CANCELLED, 0);
    mtr_sched_stats(r.sched, &stats);
    ck_assert(stats.groups[0].used == 0 && stats.groups[0].cached == 2);
    ck_assert_uint_eq(stats.groups[0].free, 62);
    ck_assert_str_eq(mtr_finish_name(MTR_FINISH_DEADLINE), "deadline");
}
END_TEST

START_TEST(geometry_of_a_plan)
{
    struct mtr_cache_group groups[] = {
        {.kind = MTR_CACHE_FULL, .block_tokens = 16},
        {.kind = MTR_CACHE_SLIDING, .block_tokens = 16, .window = 512}};
    struct mtr_plan plan = {.vocab = 77, .group_count = 2, .groups = groups};
    struct mtr_sched_geometry g = mtr_sched_geometry(&plan, 64);
    ck_assert(g.vocab == 77 && g.group_count == 2 && g.block_tokens == 16);
    ck_assert(g.groups[1].window == 512 && !g.recurrent && g.chunk_tokens == 0);
    plan.state_count = 1;
    g = mtr_sched_geometry(&plan, 64);
    ck_assert(g.recurrent && g.chunk_tokens == 64);
}
END_TEST

MTR_CHECK_MAIN("sched/sched")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, configurations_that_make_no_sense);
    tcase_add_test(tc, requests_that_cannot_be_right);
    tcase_add_test(tc, the_queue_has_an_end);
    tcase_add_test(tc, deadlines_end_waiting_and_running);
    tcase_add_test(tc, cancelled_is_gone_at_once);
    tcase_add_test(tc, a_lost_worker_loses_no_token);
    tcase_add_test(tc, who_loses_every_worker_ends);
    tcase_add_test(tc, a_smaller_cache_ends_who_cannot_fit);
    tcase_add_test(tc, a_worker_without_room_is_refused);
    tcase_add_test(tc, what_the_cache_can_hold_is_the_length);
    tcase_add_test(tc, all_fail_when_no_worker_comes);
    tcase_add_test(tc, a_prompt_without_output_ends_when_computed);
    tcase_add_test(tc, reports);
    tcase_add_test(tc, geometry_of_a_plan);
}
