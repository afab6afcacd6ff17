/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions that a request offers to the model, in one form for all protocols.
 *
 * Each protocol spells them differently; templates and parsers see OpenAI's nested form:
 *
 *   [{"type": "function", "function": {"name": N, "description": D, "parameters": S}}, ...]
 */
#ifndef MTR_API_TOOLS_H
#define MTR_API_TOOLS_H

#include "broker/api/chat_request.h"
#include "common/base/error.h"

#define MTR_MAX_TOOLS           1024
#define MTR_MAX_TOOL_NAME_BYTES 256

struct mtr_tool {
    struct mtr_str name;
    struct mtr_str description;        /* {NULL, 0}: none */
    const struct mtr_json *parameters; /* JSON schema, or NULL: the function takes none */
    const struct mtr_json *original;   /* the whole entry if it has the form above already */
};

/*
 * Checks the tools and puts them into r->tools. field: what the protocol calls them, for errors.
 * MTR_INVALID: a name that is empty, too long, has other characters than letters, digits, '_', '-',
 * '.', '/' or ':', or comes twice; parameters that are no object. MTR_TOO_LARGE: too many.
 */
bool mtr_tools_set(struct mtr_chat_request *r, const struct mtr_tool *tools, uint32_t count,
                   const char *field, struct mtr_error *err);

/* Is a tool of that name among r->tools? */
bool mtr_tools_have(const struct mtr_chat_request *r, struct mtr_str name);

/* What fields can't say alone: a choice without tools, a named tool that is not there, a choice
 * that can't be kept. For protocols to call when all is read; field: what they call the choice. */
bool mtr_tools_check(const struct mtr_chat_request *r, const char *field, struct mtr_error *err);

#endif
