/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chat completions: the fields that say what tools there are and how much to think, and the calls
 * of an unstreamed message.
 */
#ifndef MTR_API_OPENAI_CHAT_TOOLS_H
#define MTR_API_OPENAI_CHAT_TOOLS_H

#include "broker/api/fields.h"
#include "broker/api/out_event.h"
#include "common/base/buf.h"

const struct mtr_field *mtr_chat_tool_fields(size_t *count);

/* The value of "tool_calls" of a streamed chunk: the whole of what TOOL_BEGIN says, or a piece of
 * arguments. */
void mtr_chat_put_call_delta(const struct mtr_out_event *ev, struct mtr_buf *out);

/* Collects the calls of a message; `calls` is then the inside of its "tool_calls" array. */
void mtr_chat_collect_call(const struct mtr_out_event *ev, struct mtr_buf *calls);

/* A copy of a message's "tool_calls" as templates take them: arguments as objects, not as their
 * JSON. */
bool mtr_chat_read_calls(struct mtr_arena *arena, const struct mtr_json *calls, const char *field,
                         struct mtr_json *out, struct mtr_error *err);

#endif
