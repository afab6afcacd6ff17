/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "worker/exec/memory.c"

#include <string.h>

#include "tests/unit/check_main.h"
#include "worker/backend/mock/mock.h"

static const float values[] = {1, 2, 3};
static const struct mtr_plan_buffer buffers[] = {{.offset = 0}, {.offset = 256}};
static const struct mtr_cache_group groups[] = {
    {.name = "full", .block_bytes = 64},
    {.name = "latent", .kind = MTR_CACHE_LATENT, .block_bytes = 48}};
static const struct mtr_plan_cache caches[] = {{0, 0}, {1, 0}, {0, 1}};
static const struct mtr_plan_state states[] = {{.slot_bytes = 10}, {.layer = 1, .slot_bytes = 4}};
static const struct mtr_plan_constant constant = {"table", 3, values};
static const struct mtr_plan plan = {.buffer_count = 2,
                                     .buffers = buffers,
                                     .arena_bytes = 512,
                                     .group_count = 2,
                                     .groups = groups,
                                     .cache_count = 3,
                                     .caches = caches,
                                     .state_count = 2,
                                     .states = states,
                                     .constant_count = 1,
                                     .constants = &constant};

static struct mtr_backend *b;
static struct mtr_exec_memory m;

static void setup(void)
{
    const uint32_t blocks[MTR_MAX_GROUPS] = {5, 3};
    b = mtr_mock_backend_create();
    ck_assert(mtr_exec_memory_init(&m, b, &plan, blocks, 4, 2, NULL));
    mtr_mock_forget(b);
}

static void teardown(void)
{
    mtr_exec_memory_free(&m);
    b->ops->destroy(b);
}

START_TEST(addresses)
{
    ck_assert_ptr_eq(m.buffers[1], (char *)m.arena + 256);
    ck_assert_ptr_eq(m.caches[0].v, (char *)m.caches[0].k + 5 * 32);
    ck_assert_ptr_null(m.caches[1].v);
    ck_assert_mem_eq(m.constants[0], values, sizeof values);
}
END_TEST

START_TEST(a_copied_block_is_copied_in_every_layer_of_its_group)
{
    memset((char *)m.caches[0].k + 64, 1, 32);
    memset((char *)m.caches[2].v + 64, 2, 32);
    const struct mtr_effect e = {.kind = MTR_COPY_BLOCK, .src = 2, .dst = 4};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 4); /* two layers, K and V */
    ck_assert_mem_eq((char *)m.caches[0].k + 128, (char *)m.caches[0].k + 64, 32);
    ck_assert_mem_eq((char *)m.caches[2].v + 128, (char *)m.caches[2].v + 64, 32);
}
END_TEST

START_TEST(a_latent_block_has_one_side)
{
    const struct mtr_effect e = {.kind = MTR_COPY_BLOCK, .group = 1, .src = 0, .dst = 1};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 1);
    ck_assert_uint_eq(mtr_mock_call(b, 0)->bytes, 48);
}
END_TEST

START_TEST(states_are_zeroed_kept_and_restored)
{
    char *first = m.states[0], *second = m.states[1];
    memset(first + 30, 7, 10); /* slot 3 */
    memset(second + 12, 8, 4);
    struct mtr_effect e = {.kind = MTR_SNAPSHOT_STATE, .src = 3, .dst = 1};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_int_eq(first[50], 7); /* behind four slots, the second snapshot */
    e = (struct mtr_effect){.kind = MTR_ZERO_STATE, .dst = 3};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_int_eq(first[39], 0);
    ck_assert_int_eq(second[12], 0);
    e = (struct mtr_effect){.kind = MTR_RESTORE_STATE, .src = 1, .dst = 0};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_int_eq(first[9], 7);
    ck_assert_int_eq(second[3], 8);
}
END_TEST

START_TEST(freeing_costs_nothing)
{
    const struct mtr_effect e = {.kind = MTR_FREE_BLOCK, .src = 1};
    ck_assert(mtr_exec_effect(&m, NULL, &e, NULL));
    ck_assert_uint_eq(mtr_mock_call_count(b), 0);
}
END_TEST

START_TEST(lack_of_memory_names_what_was_wanted)
{
    struct mtr_error err;
    struct mtr_exec_memory other;
    const uint32_t blocks[MTR_MAX_GROUPS] = {5, 3};
    struct mtr_backend *dead = mtr_mock_backend_create();
    mtr_mock_fail_after(dead, 0);
    ck_assert(!mtr_exec_memory_init(&other, dead, &plan, blocks, 4, 2, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "step buffers"));
    mtr_exec_memory_free(&other);
    dead->ops->destroy(dead);
}
END_TEST

MTR_CHECK_MAIN("exec/memory")
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, addresses);
    tcase_add_test(tc, a_copied_block_is_copied_in_every_layer_of_its_group);
    tcase_add_test(tc, a_latent_block_has_one_side);
    tcase_add_test(tc, states_are_zeroed_kept_and_restored);
    tcase_add_test(tc, freeing_costs_nothing);
    tcase_add_test(tc, lack_of_memory_names_what_was_wanted);
}
