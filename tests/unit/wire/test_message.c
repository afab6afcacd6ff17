/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "common/wire/codec.h"

#include <stdlib.h>

#include "common/wire/admin.pb-c.h"
#include "common/wire/plan.pb-c.h"
#include "tests/unit/check_main.h"

START_TEST(any_message_comes_back)
{
    struct mtr_arena arena;
    struct mtr_buf buf = {0};
    struct mtr_error err;
    mtr_arena_init(&arena, 0);
    Mtr__AdminReply reply = MTR__ADMIN_REPLY__INIT;
    reply.error = "no such model";
    ck_assert(mtr_message_pack(&buf, &reply.base));
    const Mtr__AdminReply *back =
        mtr_message_unpack(&arena, &mtr__admin_reply__descriptor, mtr_buf_view(&buf), &err);
    ck_assert_ptr_nonnull(back);
    ck_assert_str_eq(back->error, "no such model");
    ck_assert_ptr_null(back->status);
    mtr_buf_free(&buf);
    mtr_arena_free(&arena);
}
END_TEST

START_TEST(no_bytes_are_an_empty_message)
{
    struct mtr_arena arena;
    mtr_arena_init(&arena, 0);
    const Mtr__FromWorker *m =
        mtr_message_unpack(&arena, &mtr__from_worker__descriptor, (struct mtr_str){NULL, 0}, NULL);
    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq(m->body_case, MTR__FROM_WORKER__BODY__NOT_SET);
    mtr_arena_free(&arena);
}
END_TEST

START_TEST(garbage_is_refused)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    mtr_arena_init(&arena, 0);
    ck_assert_ptr_null(mtr_message_unpack(&arena, &mtr__from_worker__descriptor,
                                          MTR_STR("\xff\xff\xff\xff\xff"), &err));
    ck_assert_int_eq(err.code, MTR_INVALID);
    mtr_arena_free(&arena);
}
END_TEST

/* Two bytes a lane make some two hundred in memory: the arena's limit must stop it. */
START_TEST(a_bomb_stops_at_the_limit)
{
    struct mtr_arena arena;
    struct mtr_error err = {0};
    size_t lanes = 1 << 20;
    char *bytes = malloc(2 * lanes + 16);
    uint32_t body = (uint32_t)(2 * lanes);
    size_t at = 0;
    bytes[at++] = 3 << 3 | 2; /* FromBroker.plan */
    for (; body >= 128; body >>= 7)
        bytes[at++] = (char)(body | 128);
    bytes[at++] = (char)body;
    for (size_t i = 0; i < lanes; i++) {
        bytes[at++] = 3 << 3 | 2; /* StepPlan.lanes */
        bytes[at++] = 0;
    }
    mtr_arena_init(&arena, 16 << 20);
    ck_assert_ptr_null(mtr_message_unpack(&arena, &mtr__from_broker__descriptor,
                                          (struct mtr_str){bytes, at}, &err));
    ck_assert_int_eq(err.code, MTR_NO_MEMORY);
    ck_assert_uint_le(arena.used_bytes, 16 << 20);
    mtr_arena_free(&arena);
    free(bytes);
}
END_TEST

MTR_CHECK_MAIN("wire/message")
{
    tcase_add_test(tc, any_message_comes_back);
    tcase_add_test(tc, no_bytes_are_an_empty_message);
    tcase_add_test(tc, garbage_is_refused);
    tcase_add_test(tc, a_bomb_stops_at_the_limit);
}
