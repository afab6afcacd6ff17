/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * protobuf-c messages in arenas.
 *
 * protobuf-c allocates each part of a message singly and frees it by walking the message. With an
 * allocator that takes from an arena and frees nothing, unpacking costs a few pointer bumps, cannot
 * leak, and stops at the arena's limit: a message of two-byte elements grows about a hundredfold
 * when it is unpacked, so the limit on message bytes alone would not bound memory.
 */
#include "common/wire/codec.h"

#include <protobuf-c/protobuf-c.h>

static void *take(void *arena, size_t bytes)
{
    return mtr_arena_alloc(arena, bytes ? bytes : 1);
}

static void leave(void *arena, void *p)
{
}

bool mtr_message_pack(struct mtr_buf *out, const struct ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (!mtr_buf_reserve(out, bytes))
        return false;
    if (bytes > 0) {
        protobuf_c_message_pack(message, (uint8_t *)out->data + out->len);
        out->len += bytes;
        out->data[out->len] = 0;
    }
    return true;
}

const void *mtr_message_unpack(struct mtr_arena *arena,
                               const struct ProtobufCMessageDescriptor *descriptor,
                               struct mtr_str bytes, struct mtr_error *err)
{
    if (bytes.len > MTR_WIRE_MAX_MESSAGE_BYTES) {
        mtr_fail(err, MTR_TOO_LARGE, "a %s of %zu bytes, more than the %u that are allowed",
                 descriptor->short_name, bytes.len, MTR_WIRE_MAX_MESSAGE_BYTES);
        return NULL;
    }
    ProtobufCAllocator allocator = {take, leave, arena};
    const uint8_t *data = bytes.len ? (const uint8_t *)bytes.ptr : (const uint8_t *)"";
    const void *message = protobuf_c_message_unpack(descriptor, &allocator, bytes.len, data);
    if (message)
        return message;
    if (mtr_arena_failed(arena))
        mtr_fail(err, MTR_NO_MEMORY, "no memory to unpack a %s of %zu bytes",
                 descriptor->short_name, bytes.len);
    else
        mtr_fail(err, MTR_INVALID, "%zu bytes that are no %s message", bytes.len,
                 descriptor->short_name);
    return NULL;
}
