/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What OpenAI's protocols share: error bodies, usage, finish reasons.
 */
#ifndef MTR_API_OPENAI_H
#define MTR_API_OPENAI_H

#include "broker/api/protocol.h"

/* {"error":{"message","type","param","code"}} */
void mtr_openai_error(const struct mtr_error *err, struct mtr_buf *out);

/* The same for an answer whose status is not the one that the error's code has. */
void mtr_openai_error_as(int status, const struct mtr_error *err, struct mtr_buf *out);

/* The same as a stream frame, then [DONE]. */
void mtr_openai_stream_error(const struct mtr_error *err, struct mtr_buf *out);

/* "stop", "length", "tool_calls", or NULL while running. */
const char *mtr_openai_end(enum mtr_end finish);

/* The value of "usage". */
void mtr_openai_usage(struct mtr_json_writer *w, const struct mtr_usage *usage);

/* Wraps what was appended to out since `from` as "data: ...\n\n": call mtr_openai_frame_begin,
 * append JSON, call _end. */
void mtr_openai_frame_begin(struct mtr_buf *out);
void mtr_openai_frame_end(struct mtr_buf *out);

#endif
