/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A conversation of another protocol, on its way to being chat's messages.
 *
 * Other protocols have pieces (blocks, items) where chat has messages: a message here is opened,
 * given parts, calls and thoughts, and closed when one of another role is opened. Memory is the
 * arena's, which remembers when it was too little.
 */
#ifndef MTR_API_TURNS_H
#define MTR_API_TURNS_H

#include "broker/api/build.h"
#include "broker/api/chat_request.h"

struct mtr_turns {
    struct mtr_arena *arena;
    struct mtr_array messages; /* the closed ones */
    const char *role;          /* of the open one, or NULL */
    struct mtr_array parts, calls, thoughts;
    struct mtr_array call_ids; /* of all messages */
};

struct mtr_turns mtr_turns(struct mtr_arena *arena);

/* Opens a message unless one of that role is open. */
void mtr_turns_open(struct mtr_turns *t, const char *role);
void mtr_turns_close(struct mtr_turns *t);

/* What the open message says; for the assistant's, what it called and thought. */
void mtr_turns_text(struct mtr_turns *t, struct mtr_str text);
void mtr_turns_thought(struct mtr_turns *t, struct mtr_str text);
void mtr_turns_call(struct mtr_turns *t, struct mtr_str id, struct mtr_str name,
                    struct mtr_str arguments);

/* A whole message of role tool. parts: text parts of chat. The call must have been made before:
 * where says whose result it is, for the error. */
bool mtr_turns_result(struct mtr_turns *t, struct mtr_str call, struct mtr_json parts,
                      const char *where, struct mtr_error *err);

/* Closes, and reads the messages as a chat request's. Errors are those of chat. */
bool mtr_turns_read(struct mtr_turns *t, struct mtr_chat_request *r, struct mtr_error *err);

#endif
