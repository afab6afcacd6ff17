/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A request body as a table of fields.
 *
 * A protocol lists every field it knows: read by a function, accepted as a hint that changes no
 * answer, or refused by name with the reason. A field that is in no list is refused too, so that
 * nothing a client asks for is silently ignored. Null counts as absent.
 */
#ifndef MTR_API_FIELDS_H
#define MTR_API_FIELDS_H

#include "broker/api/chat_request.h"
#include "common/base/error.h"

struct mtr_field {
    const char *name;
    /* Reads the value into the request. NULL: a hint, unless refusal is set. */
    bool (*read)(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err);
    const char *refusal; /* why it is not served; the neutral value below is fine */
    const char *neutral; /* JSON text of a value that may stand there although refused, or NULL */
};

/* Walks the members of body by the tables (the first that has the name wins). */
bool mtr_fields_read(struct mtr_chat_request *r, const struct mtr_json *body,
                     const struct mtr_field *const *tables, size_t table_count,
                     const size_t *counts, struct mtr_error *err);

/* Fields that chat and completions share: sampling, limits, stops, stream, hints. */
const struct mtr_field *mtr_fields_common(size_t *count);

/* "metadata" as OpenAI has it: at most 16 strings by name. */
bool mtr_metadata_check(const struct mtr_json *v, struct mtr_error *err);
bool mtr_read_metadata(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err);

/* A field "store": true needs a store. */
bool mtr_read_store(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err);

/* Checks between fields, once all are read. */
bool mtr_request_check(struct mtr_chat_request *r, struct mtr_error *err);

#endif
