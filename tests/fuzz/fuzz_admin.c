/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages of the admin socket, both ways. The first byte says which way. What unpacks must pack
 * again, and those bytes, where the library takes them (it keeps unknown fields, also of number 0,
 * which it then refuses), must not change any more.
 */
#include "tests/fuzz/fuzz.h"

#include "common/wire/admin.pb-c.h"
#include "common/wire/codec.h"

#define ARENA_BYTES (64u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *way =
        data[0] & 1 ? &mtr__admin_request__descriptor : &mtr__admin_reply__descriptor;
    struct mtr_str bytes = {(const char *)data + 1, size - 1};
    struct mtr_arena arena;
    struct mtr_buf once = {0}, twice = {0};
    struct mtr_error err = {0};
    mtr_arena_init(&arena, ARENA_BYTES);
    const ProtobufCMessage *m = mtr_message_unpack(&arena, way, bytes, &err);
    if (m) {
        MTR_FUZZ_CHECK(mtr_message_pack(&once, m));
        m = mtr_message_unpack(&arena, way, mtr_buf_view(&once), &err);
        MTR_FUZZ_CHECK(!m || mtr_message_pack(&twice, m));
        MTR_FUZZ_CHECK(!m || mtr_str_equal(mtr_buf_view(&once), mtr_buf_view(&twice)));
    } else {
        MTR_FUZZ_CHECK(err.code != MTR_OK && err.message[0]);
    }
    mtr_buf_free(&once);
    mtr_buf_free(&twice);
    mtr_arena_free(&arena);
    return 0;
}
