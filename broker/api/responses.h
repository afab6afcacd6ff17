/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of the Responses API share: items, the request, the store's objects.
 *
 * A conversation is a row of items: messages, reasoning, function calls and their outputs. Items
 * that a client sends are made whole first (an id, a status, content in parts), and so they are
 * kept, listed, and turned into messages of chat.
 */
#ifndef MTR_API_RESPONSES_H
#define MTR_API_RESPONSES_H

#include "broker/api/stored.h"
#include "broker/api/turns.h"

#define MTR_ITEM_ID_BYTES 64

/* ---- Items (responses_items.c) --------------------------------------------------------------- */

struct mtr_items {
    struct mtr_arena *arena;
    struct mtr_store *store; /* where references are looked up; or NULL */
    uint64_t owner;
    struct mtr_str fresh;   /* unique, for ids */
    struct mtr_array array; /* each an object with an id */
};

/* input: a text, an item or an array of items; made whole and appended. */
bool mtr_items_add(struct mtr_items *items, const struct mtr_json *input, const char *field,
                   struct mtr_error *err);

/* One whole item as what it says in a conversation. */
bool mtr_item_turn(struct mtr_turns *t, const struct mtr_json *item, struct mtr_error *err);

/* Writes items of a parent; those of array, with their ids. */
void mtr_items_keep(struct mtr_store_batch *b, struct mtr_arena *arena,
                    const struct mtr_array *array, struct mtr_str parent, enum mtr_store_list list,
                    uint64_t owner);

/* Appends reasoning as encrypted_content: not secret, only opaque, so that clients who keep nothing
 * here can bring it back. */
void mtr_seal(struct mtr_str text, struct mtr_buf *out);

/* ---- The request (responses_request.c) ------------------------------------------------------- */

/* What an answer needs to know of its request; its `own`. */
struct mtr_response_request {
    const struct mtr_json *body;
    struct mtr_str previous;     /* previous_response_id, or {NULL, 0} */
    struct mtr_str conversation; /* its id, or {NULL, 0} */
    struct mtr_items input;
    bool summary;   /* reasoning is to be given as a summary: all of it */
    bool encrypted; /* include: reasoning.encrypted_content */
    bool logprobs;  /* include: message.output_text.logprobs */
};

bool mtr_responses_parse(struct mtr_chat_request *r, const struct mtr_json *body,
                         struct mtr_error *err);

/* POST /v1/responses/input_tokens: the same fields, and nothing is answered. */
bool mtr_responses_parse_count(struct mtr_chat_request *r, const struct mtr_json *body,
                               struct mtr_error *err);

/* "conv_..." of a string or {"id"}; must be there. */
bool mtr_conversation_find(struct mtr_store *store, struct mtr_arena *arena, uint64_t owner,
                           struct mtr_str id, struct mtr_store_object *out, struct mtr_error *err);

/* ---- Calls ----------------------------------------------------------------------------------- */

bool mtr_response_get(struct mtr_call *c, struct mtr_error *err);
bool mtr_response_delete(struct mtr_call *c, struct mtr_error *err);
bool mtr_response_cancel(struct mtr_call *c, struct mtr_error *err);
bool mtr_response_input_items(struct mtr_call *c, struct mtr_error *err);

bool mtr_conversation_create(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_get(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_update(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_delete(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_items(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_add_items(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_item(struct mtr_call *c, struct mtr_error *err);
bool mtr_conversation_delete_item(struct mtr_call *c, struct mtr_error *err);

#endif
