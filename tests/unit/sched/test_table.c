/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/sched/table.h"

#include "broker/sched/sequence.h"
#include "tests/unit/check_main.h"

static struct mtr_radix r;
static struct mtr_sched_geometry g;

static void start(uint32_t blocks, uint32_t window)
{
    g = (struct mtr_sched_geometry){.block_tokens = 4, .group_count = window ? 2 : 1};
    g.groups[1].kind = MTR_CACHE_SLIDING;
    g.groups[1].window = window;
    struct mtr_sched_capacity c = {{blocks, blocks}, 0};
    ck_assert(mtr_radix_init(&r, &g, &c, NULL));
}

static struct mtr_seq *sequence(uint32_t first, uint32_t count)
{
    uint32_t tokens[64];
    struct mtr_sched_params p = {
        .tokens = tokens, .token_count = count, .sampling = mtr_sampling_greedy()};
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = first + i;
    return mtr_seq_create(&p, 0);
}

static void claim_all(struct mtr_seq *q, uint32_t positions)
{
    for (uint32_t i = 0; i < g.group_count; i++)
        ck_assert(mtr_table_claim(&r, &q->table, i, positions));
}

static void end(struct mtr_seq *q)
{
    mtr_table_release(&r, &q->table);
    mtr_seq_destroy(q);
}

START_TEST(published_blocks_are_shared_and_outlive_their_maker)
{
    struct mtr_table_copy copy;
    uint32_t snapshot;
    start(8, 0);
    struct mtr_seq *a = sequence(1, 11), *b = sequence(1, 11);
    claim_all(a, 11);
    mtr_table_publish(&r, &g, a, 11);
    ck_assert_uint_eq(a->table.shared, 2); /* the third is not full */
    uint32_t first = a->table.blocks[0][0];
    end(a);
    ck_assert_uint_eq(r.pools[0].free_count, 6);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 10, &snapshot, &copy), 8);
    ck_assert_uint_eq(b->table.blocks[0][0], first);
    ck_assert_uint_eq(b->table.sent[0], 0); /* the worker has to hear of them */
    ck_assert_uint_eq(mtr_radix_available(&r, 0), 6);
    end(b);
    ck_assert_uint_eq(mtr_radix_available(&r, 0), 8);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(a_block_that_begins_alike_is_copied)
{
    struct mtr_table_copy copy;
    uint32_t snapshot;
    start(8, 0);
    struct mtr_seq *a = sequence(1, 12), *b = sequence(1, 12);
    claim_all(a, 12);
    mtr_table_publish(&r, &g, a, 12);
    b->tokens[10] = 99; /* differs in the third block's third token */
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 11, &snapshot, &copy), 10);
    ck_assert_uint_eq(copy.tokens, 2);
    ck_assert_uint_eq(copy.src[0], a->table.blocks[0][2]);
    ck_assert_uint_eq(b->table.shared, 2);
    mtr_table_release(&r, &b->table);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 9, &snapshot, &copy), 9); /* no further */
    end(b);
    end(a);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(twins_come_to_use_one_block)
{
    start(8, 0);
    struct mtr_seq *a = sequence(1, 8), *b = sequence(1, 8);
    claim_all(a, 8);
    claim_all(b, 8);
    b->table.sent[0] = 2;
    mtr_table_publish(&r, &g, a, 8);
    mtr_table_publish(&r, &g, b, 8);
    ck_assert_uint_eq(b->table.blocks[0][0], a->table.blocks[0][0]);
    ck_assert_uint_eq(b->table.blocks[0][1], a->table.blocks[0][1]);
    ck_assert_uint_eq(b->table.sent[0], 0);
    ck_assert_uint_eq(r.pools[0].free_count, 6);
    end(a);
    end(b);
    ck_assert_uint_eq(r.idle, 2);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(windows_slide)
{
    start(16, 6);
    struct mtr_seq *a = sequence(1, 24);
    claim_all(a, 24);
    mtr_table_slide(&r, &g, &a->table, 5); /* sees [0, 5] */
    ck_assert_uint_eq(a->table.floor[1], 0);
    mtr_table_slide(&r, &g, &a->table, 9); /* sees [4, 9] */
    ck_assert_uint_eq(a->table.floor[1], 1);
    ck_assert_uint_eq(a->table.blocks[1][0], MTR_NO_ID);
    ck_assert_uint_eq(a->table.floor[0], 0); /* the full group keeps all */
    mtr_table_slide(&r, &g, &a->table, 21);
    ck_assert_uint_eq(a->table.floor[1], 4);
    ck_assert_uint_eq(r.pools[1].free_count, 16 - 2);
    end(a);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(a_hit_needs_the_window_before_its_end)
{
    struct mtr_table_copy copy;
    uint32_t snapshot;
    start(16, 6);
    struct mtr_seq *a = sequence(1, 17), *b = sequence(1, 17), *other = sequence(50, 60);
    claim_all(a, 16);
    mtr_table_publish(&r, &g, a, 16);
    mtr_table_slide(&r, &g, &a->table, 16); /* sees [11, 16]: blocks 2 and 3 stay pinned */
    ck_assert_uint_eq(r.windows[1].count, 2);
    for (int i = 0; i < 12 + 2; i++) /* all free blocks of the window group, and two evicted */
        ck_assert(mtr_table_claim(&r, &other->table, 1, 4 * (i + 1)));
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 16, &snapshot, &copy), 16);
    ck_assert_uint_eq(b->table.floor[1], 2);
    mtr_table_release(&r, &b->table);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 11, &snapshot, &copy), 0); /* needs block 0, 1 */
    mtr_table_release(&r, &b->table);
    end(a);
    end(other);
    /* Computing it again gives the tree its window blocks back. */
    claim_all(b, 16);
    mtr_table_publish(&r, &g, b, 16);
    end(b);
    b = sequence(1, 17);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 11, &snapshot, &copy), 11);
    ck_assert_uint_eq(copy.tokens, 3);
    end(b);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(recurrent_models_need_a_snapshot)
{
    struct mtr_table_copy copy;
    uint32_t snapshot;
    start(8, 0);
    g.recurrent = true;
    g.chunk_tokens = 4;
    mtr_id_pool_free(&r.snapshots);
    ck_assert(mtr_id_pool_init(&r.snapshots, 1));
    struct mtr_seq *a = sequence(1, 12), *b = sequence(1, 12);
    claim_all(a, 12);
    mtr_table_publish(&r, &g, a, 12);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 11, &snapshot, &copy), 0);
    ck_assert_uint_eq(snapshot, MTR_NO_ID);
    uint32_t id = mtr_radix_snapshot(&r, a->table.nodes[0]);
    ck_assert_uint_eq(mtr_table_attach(&r, &g, b, 11, &snapshot, &copy), 4);
    ck_assert_uint_eq(snapshot, id);
    ck_assert_uint_eq(copy.tokens, 0);
    end(a);
    end(b);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(what_could_be_claimed_stays)
{
    start(3, 0);
    struct mtr_seq *a = sequence(1, 40);
    ck_assert(!mtr_table_claim(&r, &a->table, 0, 17));
    ck_assert_uint_eq(a->table.count[0], 3);
    ck_assert(mtr_table_claim(&r, &a->table, 0, 12));
    end(a);
    ck_assert_uint_eq(r.pools[0].free_count, 3);
    mtr_radix_free(&r);
}
END_TEST

MTR_CHECK_MAIN("sched/table")
{
    tcase_add_test(tc, published_blocks_are_shared_and_outlive_their_maker);
    tcase_add_test(tc, a_block_that_begins_alike_is_copied);
    tcase_add_test(tc, twins_come_to_use_one_block);
    tcase_add_test(tc, windows_slide);
    tcase_add_test(tc, a_hit_needs_the_window_before_its_end);
    tcase_add_test(tc, recurrent_models_need_a_snapshot);
    tcase_add_test(tc, what_could_be_claimed_stays);
}
