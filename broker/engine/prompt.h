/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A request's prompt as token ids: template, then tokenizer.
 */
#ifndef MTR_ENGINE_PROMPT_H
#define MTR_ENGINE_PROMPT_H

#include "broker/api/chat_request.h"
#include "broker/engine/model.h"

/*
 * Appends the ids of one prompt of the request.
 *
 * CHAT: the messages go through the model's template with add_generation_prompt; special tokens act
 * where the template wrote them, and are text where a client did. TEXT: the text with what the
 * tokenizer puts around (bos); special tokens in it are parsed, since a raw prompt is all that its
 * writer has. IDS: as they are, each checked.
 * Errors: MTR_INVALID with the template's own message, MTR_UNSUPPORTED without a template.
 */
bool mtr_prompt_encode(const struct mtr_served_model *model, struct mtr_chat_request *request,
                       const struct mtr_prompt *prompt, struct mtr_encoder *encoder,
                       struct mtr_ids *out, struct mtr_error *err);

#endif
