/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A response that is being made: its items so far, and how it is written and kept.
 */
#ifndef MTR_API_RESPONSE_OBJECT_H
#define MTR_API_RESPONSE_OBJECT_H

#include "broker/api/responses.h"

enum mtr_response_item_kind { NO_ITEM, MESSAGE, REASONING, CALL };

struct mtr_response_item {
    enum mtr_response_item_kind kind;
    char id[MTR_ITEM_ID_BYTES];
    struct mtr_buf text;     /* of the message, the thought, the arguments */
    struct mtr_buf logprobs; /* of a message: entries, comma separated */
    struct mtr_buf call_id, name;
    bool cut; /* the answer ended inside */
};

struct mtr_response_answer {
    struct mtr_answer base;
    const struct mtr_response_request *own;
    char id[MTR_ITEM_ID_BYTES];
    struct mtr_str echo; /* members of the response that never change, comma separated */
    struct mtr_response_item *items; /* [count] */
    uint32_t count;
    size_t cap;
    bool open; /* the last item is not done */
    uint64_t sequence;
    struct mtr_str delta_head; /* of the open item's deltas, up to the text */
    enum mtr_end end;
    const struct mtr_error *error; /* why it failed */
    int64_t completed;
};

struct mtr_response_item *mtr_last_item(struct mtr_response_answer *a);

/* "key":value */
void mtr_put_pair(struct mtr_buf *out, const char *key, struct mtr_str value);

/* The part of a message, or an item: begun (empty), or as it is now. */
void mtr_put_text_part(const struct mtr_response_item *it, bool begun, struct mtr_buf *out);
void mtr_put_item(const struct mtr_response_answer *a, const struct mtr_response_item *it,
                  bool begun, struct mtr_buf *out);

/* The whole object; its output only where usage is known. */
void mtr_put_response(const struct mtr_response_answer *a, const char *status,
                      const struct mtr_usage *usage, struct mtr_buf *out);

/* Writes a->echo. */
bool mtr_response_echo(struct mtr_response_answer *a);

/* Hands the response over to the store: when a background one begins, and when one ends. */
void mtr_response_keep_begun(struct mtr_response_answer *a);
void mtr_response_keep(struct mtr_response_answer *a, const char *status,
                       const struct mtr_usage *usage);

#endif
