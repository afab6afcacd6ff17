/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Structs of step.h to and from protobuf bytes.
 *
 * Unpacking checks everything that can be checked without the model: kinds, counts against the
 * limits below, outputs <= count, drafts < outputs or both 0, tokens absent or [count]. What needs the
 * model (slots, blocks, token ids) is checked by the executor. Arrays are allocated in the arena
 * that the caller resets when it is done with the message.
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

#define MTR_WIRE_MAX_MESSAGE_BYTES (64u << 20)
#define MTR_WIRE_MAX_LANES         4096
#define MTR_WIRE_MAX_STEP_TOKENS   (1u << 20)

/* The protobuf messages other than plans and results are used as protobuf-c makes them. */
struct Mtr__FromBroker;
struct Mtr__FromWorker;

bool mtr_pack_plan(struct mtr_buf *out, uint64_t epoch, const struct mtr_step_plan *plan);
bool mtr_pack_result(struct mtr_buf *out, uint64_t epoch, const struct mtr_step_result *result);

bool mtr_unpack_plan(struct mtr_arena *arena, const struct Mtr__FromBroker *message,
                     struct mtr_step_plan *plan, struct mtr_error *err);
bool mtr_unpack_result(struct mtr_arena *arena, const struct Mtr__FromWorker *message,
                       struct mtr_step_result *result, struct mtr_error *err);

#endif
