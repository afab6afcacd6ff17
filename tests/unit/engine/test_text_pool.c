/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every task runs once, also those that wait when the pool ends. */
#include "broker/engine/text_pool.c"

#include <stdatomic.h>

#include "tests/unit/engine/tiny_text.h"

#define TASKS 500

struct counted {
    struct mtr_task task; /* first */
    _Atomic uint32_t runs;
    size_t ids;
};

static struct mtr_arena arena;
static struct mtr_tokenizer *tokenizer;
static struct counted tasks[TASKS];

static void setup(void)
{
    mtr_arena_init(&arena, 0);
    tokenizer = tiny_tokenizer(&arena);
}

static void teardown(void)
{
    mtr_tokenizer_free(tokenizer);
    mtr_arena_free(&arena);
}

static void encode(struct mtr_task *task, struct mtr_encoder *encoder)
{
    struct counted *c = (struct counted *)task;
    struct mtr_ids ids = {0};
    if (mtr_encode(encoder, MTR_STR("Once upon a time"), 0, &ids, NULL))
        c->ids = ids.count;
    mtr_ids_free(&ids);
    atomic_fetch_add(&c->runs, 1);
}

START_TEST(all_run_before_the_end)
{
    struct mtr_error err = {0};
    struct mtr_text_pool *pool = mtr_text_pool_create(tokenizer, 3, &err);
    ck_assert_msg(pool != NULL, "%s", err.message);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){.task.run = encode};
        mtr_text_pool_submit(pool, &tasks[i].task);
    }
    mtr_text_pool_destroy(pool);
    for (int i = 0; i < TASKS; i++) {
        ck_assert_uint_eq(tasks[i].runs, 1);
        ck_assert_uint_gt(tasks[i].ids, 0);
        ck_assert_uint_eq(tasks[i].ids, tasks[0].ids);
    }
}
END_TEST

START_TEST(an_idle_pool_ends)
{
    struct mtr_text_pool *pool = mtr_text_pool_create(tokenizer, 2, NULL);
    ck_assert(pool != NULL);
    mtr_text_pool_destroy(pool);
    mtr_text_pool_destroy(NULL);
}
END_TEST

MTR_CHECK_MAIN("engine/pool")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, all_run_before_the_end);
    tcase_add_test(tc, an_idle_pool_ends);
}
