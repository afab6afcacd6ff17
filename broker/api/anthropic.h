/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of Anthropic's protocol share: the request's reader, errors.
 */
#ifndef MTR_API_ANTHROPIC_H
#define MTR_API_ANTHROPIC_H

#include "broker/api/protocol.h"

/* What an answer needs to know of its request beside struct mtr_chat_request; its `own`. */
struct mtr_anthropic_request {
    bool hide_thinking; /* thinking.display is "omitted": blocks come without their text */
};

/* POST /v1/messages. */
bool mtr_anthropic_parse(struct mtr_chat_request *r, const struct mtr_json *body,
                         struct mtr_error *err);

/* The same of POST /v1/messages/count_tokens, which has no limits and no sampling. */
bool mtr_anthropic_parse_count(struct mtr_chat_request *r, const struct mtr_json *body,
                               struct mtr_error *err);

/* Tools, their choice, thinking and output_config (anthropic_tools.c). */
bool mtr_anthropic_read_tools(struct mtr_chat_request *r, const struct mtr_json *body,
                              struct mtr_error *err);

/* Says by its type that a block or a tool is not served; or that it has none. */
bool mtr_anthropic_refuse_type(const struct mtr_json *block, const char *where,
                               struct mtr_error *err);

/* A mark of what to cache, at a place or at the body's top (where ""): checked, and not needed. */
bool mtr_anthropic_cache_control(const struct mtr_json *v, const char *where,
                                 struct mtr_error *err);

/* Their numbers differ from OpenAI's: 529 where nothing can be served. */
int mtr_anthropic_status(const struct mtr_error *err);

/* {"type":"error","error":{"type","message"},"request_id"}; request_id may be {NULL, 0}. */
void mtr_anthropic_error_as(int status, const struct mtr_error *err, struct mtr_str request_id,
                            struct mtr_buf *out);

#endif
