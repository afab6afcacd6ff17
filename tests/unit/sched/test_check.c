/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The checker that all other tests rely on finds what is broken. */
#include "tests/support/sched_rig.h"

#include <string.h>

#include "tests/unit/check_main.h"

static struct sched_rig r;

static void setup(void)
{
    rig_init(&r);
    rig_start(&r);
    rig_submit(&r, 0, 12, 20);
    rig_run(&r, 1, 2);
    rig_plan(&r);
    ck_assert(mtr_sched_check(r.sched, &r.err));
}

/* What was broken on purpose can still be freed. */
static void teardown(void)
{
    mtr_sched_destroy(r.sched);
}

static void finds(const char *word)
{
    ck_assert(!mtr_sched_check(r.sched, &r.err));
    ck_assert_int_eq(r.err.code, MTR_INTERNAL);
    ck_assert_msg(strstr(r.err.message, word) != NULL, "%s", r.err.message);
}

START_TEST(a_leaked_block)
{
    ck_assert_uint_ne(mtr_id_pool_take(&r.sched->radix.pools[0]), MTR_NO_ID);
    finds("a block has not one owner");
}
END_TEST

START_TEST(a_block_of_two_owners)
{
    struct mtr_table *t = &r.sched->running[0]->table;
    ck_assert_uint_gt(t->count[0], t->shared);
    t->blocks[0][t->count[0] - 1] = t->blocks[0][0];
    finds("a block has not one owner");
}
END_TEST

START_TEST(a_block_in_use_that_was_given_back)
{
    struct mtr_table *t = &r.sched->running[0]->table;
    mtr_radix_give(&r.sched->radix, 0, t->blocks[0][t->count[0] - 1]);
    finds("a free block has an owner");
}
END_TEST

START_TEST(a_holder_too_many)
{
    r.sched->radix.nodes[r.sched->running[0]->table.nodes[0]].holders++;
    finds("holders");
}
END_TEST

START_TEST(a_shared_entry_that_is_not)
{
    struct mtr_table *t = &r.sched->running[0]->table;
    t->blocks[0][0] = t->blocks[0][1];
    finds("a shared entry is not its node's block");
}
END_TEST

START_TEST(rows_without_blocks)
{
    r.sched->running[0]->table.count[0] = 1;
    finds("rows without blocks");
}
END_TEST

START_TEST(rows_and_samples_that_disagree)
{
    r.sched->running[0]->pending = 0;
    finds("nothing is left to compute");
}
END_TEST

START_TEST(a_lost_slot)
{
    mtr_id_pool_take(&r.sched->slots);
    finds("slots");
}
END_TEST

MTR_CHECK_MAIN("sched/check")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_leaked_block);
    tcase_add_test(tc, a_block_of_two_owners);
    tcase_add_test(tc, a_block_in_use_that_was_given_back);
    tcase_add_test(tc, a_holder_too_many);
    tcase_add_test(tc, a_shared_entry_that_is_not);
    tcase_add_test(tc, rows_without_blocks);
    tcase_add_test(tc, rows_and_samples_that_disagree);
    tcase_add_test(tc, a_lost_slot);
}
