/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages of the plan socket, both ways. The first byte says which way. A plan or result that is
 * accepted must come out of the packer and unpack again to the same bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "common/wire/codec.h"
#include "common/wire/plan.pb-c.h"

#define ARENA_BYTES (64u << 20)

struct scratch {
    struct mtr_arena arena;
    struct mtr_buf once, twice;
};

static void check_plan(struct scratch *s, struct mtr_str bytes)
{
    struct mtr_step_plan plan;
    struct mtr_error err = {0};
    const Mtr__FromBroker *m =
        mtr_message_unpack(&s->arena, &mtr__from_broker__descriptor, bytes, &err);
    if (!m || !mtr_unpack_plan(&s->arena, m, &plan, &err)) {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0]);
        return;
    }
    MTR_FUZZ_CHECK(mtr_pack_plan(&s->arena, &s->once, m->epoch, &plan));
    m = mtr_message_unpack(&s->arena, &mtr__from_broker__descriptor, mtr_buf_view(&s->once), &err);
    MTR_FUZZ_CHECK(m && mtr_unpack_plan(&s->arena, m, &plan, &err));
    MTR_FUZZ_CHECK(mtr_pack_plan(&s->arena, &s->twice, m->epoch, &plan));
    MTR_FUZZ_CHECK(mtr_str_equal(mtr_buf_view(&s->once), mtr_buf_view(&s->twice)));
}

static void check_result(struct scratch *s, struct mtr_str bytes)
{
    struct mtr_step_result result;
    struct mtr_error err = {0};
    const Mtr__FromWorker *m =
        mtr_message_unpack(&s->arena, &mtr__from_worker__descriptor, bytes, &err);
    if (!m || !mtr_unpack_result(&s->arena, m, &result, &err)) {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0]);
        return;
    }
    MTR_FUZZ_CHECK(mtr_pack_result(&s->arena, &s->once, m->epoch, &result));
    m = mtr_message_unpack(&s->arena, &mtr__from_worker__descriptor, mtr_buf_view(&s->once), &err);
    MTR_FUZZ_CHECK(m && mtr_unpack_result(&s->arena, m, &result, &err));
    MTR_FUZZ_CHECK(mtr_pack_result(&s->arena, &s->twice, m->epoch, &result));
    MTR_FUZZ_CHECK(mtr_str_equal(mtr_buf_view(&s->once), mtr_buf_view(&s->twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scratch s = {0};
    if (size == 0)
        return 0;
    struct mtr_str bytes = {(const char *)data + 1, size - 1};
    mtr_arena_init(&s.arena, ARENA_BYTES);
    if (data[0] & 1)
        check_plan(&s, bytes);
    else
        check_result(&s, bytes);
    mtr_arena_free(&s.arena);
    mtr_buf_free(&s.once);
    mtr_buf_free(&s.twice);
    return 0;
}
