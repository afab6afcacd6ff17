/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/sched/radix.h"

#include "tests/unit/check_main.h"

static const uint32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 9, 9};

static struct mtr_radix r;

static struct mtr_radix_key key(const uint32_t *tokens)
{
    return (struct mtr_radix_key){.tokens = tokens};
}

/* One full group of `blocks` blocks, maybe a sliding one of `window_blocks`. */
static void start(uint32_t blocks, uint32_t window_blocks)
{
    struct mtr_sched_geometry g = {.block_tokens = 4, .group_count = window_blocks ? 2 : 1};
    struct mtr_sched_capacity c = {{blocks, window_blocks}, 2};
    g.groups[1].kind = MTR_CACHE_SLIDING;
    g.groups[1].window = 4;
    ck_assert(mtr_radix_init(&r, &g, &c, NULL));
}

/* A node with fresh blocks in every group. */
static uint32_t grow(uint32_t parent, const uint32_t *tokens)
{
    uint32_t blocks[2] = {mtr_radix_take(&r, 0), MTR_NO_ID};
    if (r.group_count > 1)
        blocks[1] = mtr_radix_take(&r, 1);
    struct mtr_radix_key k = key(tokens);
    return mtr_radix_insert(&r, parent, &k, blocks);
}

START_TEST(a_path_is_found_by_its_tokens)
{
    start(8, 0);
    struct mtr_radix_key first = key(text), second = key(text + 4);
    uint32_t a = grow(MTR_RADIX_ROOT, text);
    mtr_radix_hold(&r, a);
    uint32_t b = grow(a, text + 4);
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &first), a);
    ck_assert_uint_eq(mtr_radix_child(&r, a, &second), b);
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &second), MTR_NO_ID);
    ck_assert_uint_eq(mtr_radix_child(&r, b, &first), MTR_NO_ID);
    ck_assert_uint_ne(mtr_radix_block(&r, a, 0), mtr_radix_block(&r, b, 0));
    ck_assert_uint_eq(grow(MTR_RADIX_ROOT, text), MTR_NO_ID); /* it is there already */
    mtr_radix_free(&r);
}
END_TEST

START_TEST(adapter_and_image_are_part_of_the_key)
{
    start(8, 0);
    struct mtr_radix_key k = key(text);
    uint32_t a = grow(MTR_RADIX_ROOT, text), common;
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &k), a);
    ck_assert_uint_eq(mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 3, &common), a);
    k.adapter = 1;
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &k), MTR_NO_ID);
    ck_assert_uint_eq(mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 3, &common), MTR_NO_ID);
    k.adapter = 0;
    k.image[15] = 1;
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &k), MTR_NO_ID);
    ck_assert_uint_eq(mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 3, &common), MTR_NO_ID);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(the_longest_common_beginning_wins)
{
    static const uint32_t near[] = {1, 2, 9, 9}, nearer[] = {1, 2, 3, 9}, far[] = {7, 7, 7, 7};
    start(8, 0);
    uint32_t common;
    struct mtr_radix_key k = key(text);
    grow(MTR_RADIX_ROOT, far);
    ck_assert_uint_eq(mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 4, &common), MTR_NO_ID);
    ck_assert_uint_eq(common, 0);
    uint32_t a = grow(MTR_RADIX_ROOT, nearer);
    grow(MTR_RADIX_ROOT, near);
    ck_assert_uint_eq(mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 4, &common), a);
    ck_assert_uint_eq(common, 3);
    mtr_radix_similar(&r, MTR_RADIX_ROOT, &k, 2, &common);
    ck_assert_uint_eq(common, 2);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(eviction_takes_the_least_recently_used_leaf)
{
    static const uint32_t texts[][4] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
    start(3, 0);
    uint32_t nodes[3];
    for (int i = 0; i < 3; i++)
        nodes[i] = grow(MTR_RADIX_ROOT, texts[i]);
    ck_assert_uint_eq(mtr_radix_available(&r, 0), 3);
    mtr_radix_hold(&r, nodes[0]); /* used: now the newest */
    ck_assert_uint_eq(mtr_radix_available(&r, 0), 2);
    mtr_radix_drop(&r, nodes[0]);
    uint32_t block = mtr_radix_block(&r, nodes[1], 0);
    ck_assert_uint_eq(mtr_radix_take(&r, 0), block);
    struct mtr_radix_key k = key(texts[1]);
    ck_assert_uint_eq(mtr_radix_child(&r, MTR_RADIX_ROOT, &k), MTR_NO_ID);
    ck_assert_uint_eq(r.evicted_blocks, 1);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(what_is_held_stays_and_parents_outlive_children)
{
    start(2, 0);
    uint32_t a = grow(MTR_RADIX_ROOT, text);
    mtr_radix_hold(&r, a);
    uint32_t b = grow(a, text + 4);
    mtr_radix_hold(&r, b);
    ck_assert_uint_eq(mtr_radix_take(&r, 0), MTR_NO_ID);
    mtr_radix_drop(&r, b);
    mtr_radix_drop(&r, a);
    uint32_t of_b = mtr_radix_block(&r, b, 0), of_a = mtr_radix_block(&r, a, 0);
    ck_assert_uint_eq(mtr_radix_take(&r, 0), of_b); /* the leaf first */
    ck_assert_uint_eq(mtr_radix_take(&r, 0), of_a);
    ck_assert_uint_eq(mtr_radix_take(&r, 0), MTR_NO_ID);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(window_blocks_leave_without_their_node)
{
    start(8, 2);
    uint32_t a = grow(MTR_RADIX_ROOT, text);
    mtr_radix_hold(&r, a);
    uint32_t b = grow(a, text + 4);
    mtr_radix_hold(&r, b);
    mtr_radix_pin(&r, b, 1);
    ck_assert_uint_eq(mtr_radix_available(&r, 1), 1);
    uint32_t block = mtr_radix_block(&r, a, 1);
    ck_assert_uint_eq(mtr_radix_take(&r, 1), block); /* a is held and no leaf, but not pinned */
    ck_assert_uint_eq(mtr_radix_block(&r, a, 1), MTR_NO_ID);
    ck_assert_uint_eq(mtr_radix_take(&r, 1), MTR_NO_ID);
    mtr_radix_restore(&r, a, 1, block);
    ck_assert_uint_eq(mtr_radix_available(&r, 1), 1);
    mtr_radix_unpin(&r, b, 1);
    ck_assert_uint_eq(mtr_radix_available(&r, 1), 2);
    mtr_radix_free(&r);
}
END_TEST

START_TEST(snapshots_go_to_who_was_used_last)
{
    start(8, 0);
    uint32_t a = grow(MTR_RADIX_ROOT, text), b = grow(MTR_RADIX_ROOT, text + 4),
             c = grow(MTR_RADIX_ROOT, text + 8);
    uint32_t first = mtr_radix_snapshot(&r, a);
    ck_assert_uint_ne(mtr_radix_snapshot(&r, b), MTR_NO_ID);
    mtr_radix_hold(&r, b);
    mtr_radix_drop(&r, b);
    ck_assert_uint_eq(mtr_radix_snapshot(&r, c), first); /* a's, the least recently used */
    ck_assert_uint_eq(r.nodes[a].snapshot, MTR_NO_ID);
    mtr_radix_drop_snapshot(&r, c);
    mtr_radix_drop_snapshot(&r, c);
    ck_assert_uint_eq(r.snapshots.free_count, 1);
    mtr_radix_free(&r);
}
END_TEST

MTR_CHECK_MAIN("sched/radix")
{
    tcase_add_test(tc, a_path_is_found_by_its_tokens);
    tcase_add_test(tc, adapter_and_image_are_part_of_the_key);
    tcase_add_test(tc, the_longest_common_beginning_wins);
    tcase_add_test(tc, eviction_takes_the_least_recently_used_leaf);
    tcase_add_test(tc, what_is_held_stays_and_parents_outlive_children);
    tcase_add_test(tc, window_blocks_leave_without_their_node);
    tcase_add_test(tc, snapshots_go_to_who_was_used_last);
}
