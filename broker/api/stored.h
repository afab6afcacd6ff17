/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Requests about what is kept: chat completions, responses, conversations.
 *
 * A call is such a request without its HTTP: parts of the path, query, body in; JSON out. Calls run
 * on text threads, as they may read the store.
 */
#ifndef MTR_API_STORED_H
#define MTR_API_STORED_H

#include "broker/api/protocol.h"
#include "broker/store/store.h"

struct mtr_call {
    struct mtr_store *store; /* never NULL */
    uint64_t owner;
    struct mtr_str parts[2];     /* what stands where the path has {} */
    struct mtr_str query;        /* behind the question mark, as it came */
    const struct mtr_json *body; /* NULL: the request has none */
    struct mtr_arena *arena;
    struct mtr_str fresh; /* unique, for the ids of what is made */
    int64_t now;          /* seconds since 1970 */
    struct mtr_buf *out;
    /* Ends the background response of that id, if it runs. */
    void (*cancel)(void *context, struct mtr_str id);
    void *context;
};

typedef bool (*mtr_call_handler)(struct mtr_call *c, struct mtr_error *err);

/* The query's value of that name, decoded into the arena; {NULL, 0} where it is not there. */
struct mtr_str mtr_query_get(const struct mtr_call *c, const char *name);

/* limit, order and after. default_descending as the protocol has it. */
bool mtr_query_page(const struct mtr_call *c, bool default_descending, struct mtr_store_page *page,
                    struct mtr_error *err);

/* A page of a list: begin, then each entry as raw JSON, then end. */
struct mtr_list_writer {
    struct mtr_json_writer w;
    struct mtr_str first, last;
};
void mtr_list_begin(struct mtr_list_writer *l, struct mtr_buf *out);
void mtr_list_entry(struct mtr_list_writer *l, struct mtr_str id, struct mtr_str body);
void mtr_list_end(struct mtr_list_writer *l, bool has_more);

/* {"id": id, "object": object, "deleted": true} */
void mtr_put_deleted(struct mtr_buf *out, struct mtr_str id, const char *object);

/* The body's "metadata", which may be null (then {NULL, 0}: none), as JSON text. */
bool mtr_body_metadata(const struct mtr_call *c, struct mtr_str *out, struct mtr_error *err);

/* A copy of an object's JSON text in which the member has that value. */
struct mtr_str mtr_json_with(struct mtr_arena *arena, struct mtr_str object, const char *key,
                             struct mtr_str value, struct mtr_error *err);

/* ---- Chat completions (stored_chat.c) -------------------------------------------------------- */

bool mtr_stored_chat_keep(const struct mtr_chat_request *r, const struct mtr_answer_head *head,
                          struct mtr_str whole, struct mtr_error *err);
bool mtr_stored_chat_list(struct mtr_call *c, struct mtr_error *err);
bool mtr_stored_chat_get(struct mtr_call *c, struct mtr_error *err);
bool mtr_stored_chat_update(struct mtr_call *c, struct mtr_error *err);
bool mtr_stored_chat_delete(struct mtr_call *c, struct mtr_error *err);
bool mtr_stored_chat_messages(struct mtr_call *c, struct mtr_error *err);

#endif
