/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What types a tool's schema allows a parameter, and raw text as JSON of such a type.
 */
#ifndef MTR_PARSE_SCHEMA_H
#define MTR_PARSE_SCHEMA_H

#include "common/base/buf.h"
#include "common/base/json.h"

enum mtr_schema_type {
    MTR_TYPE_NULL = 1,
    MTR_TYPE_INTEGER = 2,
    MTR_TYPE_NUMBER = 4,
    MTR_TYPE_BOOLEAN = 8,
    MTR_TYPE_OBJECT = 16,
    MTR_TYPE_ARRAY = 32,
    MTR_TYPE_STRING = 64,
    MTR_TYPE_ANY = 127,
};

/* The parameters' schema of the declared tool of that name; *found tells whether there is such a
 * tool, since it may have no parameters (NULL). */
const struct mtr_json *mtr_schema_of_tool(const struct mtr_json *tools, struct mtr_str name,
                                          bool *found);

/* The types that the parameter may have: bits of mtr_schema_type; 0: it is not declared. From
 * `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and local `$ref`. A declared parameter that
 * names no type may have any. */
unsigned mtr_schema_types(const struct mtr_json *parameters, struct mtr_str key);

/* A type by JSON Schema's name for it; 0: none. */
unsigned mtr_schema_type_named(struct mtr_str name);

/*
 * Appends the text as JSON of the first of the types that it reads as: null, integer, number,
 * boolean, object and array, string. What reads as none of them is a string. cut: the text's end is
 * missing; then false, and nothing appended, for what can't be told from a piece of a literal.
 */
bool mtr_schema_write(struct mtr_str text, unsigned types, bool cut, struct mtr_buf *out);

bool mtr_is_json_number(struct mtr_str s, bool *integer);

#endif
