/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ids of tool calls that a template accepts.
 *
 * Mistral's templates refuse any id that is not nine letters and digits, whoever made it. Others
 * get one of that form, made from their own, so that a call and its result still have the same.
 */
#ifndef MTR_ENGINE_CALL_IDS_H
#define MTR_ENGINE_CALL_IDS_H

#include "common/base/arena.h"
#include "common/base/json.h"

/* The messages with such ids, in the arena; NULL: no memory. What has them already is shared. */
const struct mtr_json *mtr_short_call_ids(struct mtr_arena *arena, const struct mtr_json *messages);

#endif
