/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages to and from bytes.
 *
 * mtr_message_pack and mtr_message_unpack carry any message of proto/ (common/wire/plan.pb-c.h and
 * admin.pb-c.h). Plans and results are also structs of step.h, which scheduler, executor and tests
 * work with; the other four functions turn them into bytes and messages into them.
 *
 * Everything unpacked lives in the arena of the call, the message and the structs made from it
 * alike (their arrays point into the message): the caller resets the arena when it is done with
 * both. The arena's limit bounds what a hostile message can make of 64 MiB of input. Never call
 * protobuf-c's free function on a message from here.
 *
 * Unpacking checks what can be checked without the model: kinds, counts against the limits below,
 * start + count, outputs <= count, drafts < outputs or both 0, tokens absent or [count], finite
 * sampling numbers. What needs the model (slots, blocks, token ids) is checked by the executor.
 */
#ifndef MTR_WIRE_CODEC_H
#define MTR_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/wire/step.h"

#define MTR_WIRE_MAX_MESSAGE_BYTES   (64u << 20)
#define MTR_WIRE_MAX_LANES           4096
#define MTR_WIRE_MAX_EFFECTS         (1u << 16)
#define MTR_WIRE_MAX_STEP_TOKENS     (1u << 20) /* rows of all lanes of a step */
#define MTR_WIRE_MAX_SEQUENCE_TOKENS (1u << 24)
#define MTR_WIRE_MAX_LANE_BLOCKS     (1u << 20) /* in one table change */
#define MTR_WIRE_MAX_BANNED          4096

struct Mtr__FromBroker;
struct Mtr__FromWorker;
struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* Appends the message's bytes. message: &anything.base. False: no memory or the buffer's limit. */
bool mtr_message_pack(struct mtr_buf *out, const struct ProtobufCMessage *message);

/* NULL, with err filled, when the bytes are no such message or the arena has no room. */
const void *mtr_message_unpack(struct mtr_arena *arena,
                               const struct ProtobufCMessageDescriptor *descriptor,
                               struct mtr_str bytes, struct mtr_error *err);

/* Append a FromBroker with a plan, a FromWorker with a result. scratch holds the message while it
 * is packed; the caller may reset it right after. */
bool mtr_pack_plan(struct mtr_arena *scratch, struct mtr_buf *out, uint64_t epoch,
                   const struct mtr_step_plan *plan);
bool mtr_pack_result(struct mtr_arena *scratch, struct mtr_buf *out, uint64_t epoch,
                     const struct mtr_step_result *result);

/* message: its body must be a plan (a result), which is checked. */
bool mtr_unpack_plan(struct mtr_arena *arena, const struct Mtr__FromBroker *message,
                     struct mtr_step_plan *plan, struct mtr_error *err);
bool mtr_unpack_result(struct mtr_arena *arena, const struct Mtr__FromWorker *message,
                       struct mtr_step_result *result, struct mtr_error *err);

#endif
