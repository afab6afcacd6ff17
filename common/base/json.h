/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * JSON, read into an arena and written to a buffer (RFC 8259).
 *
 * Why not a library: chat templates print what clients sent, so numbers must keep the text they
 * came with (12345678901234567890, 1e-07), objects their order, strings their NUL bytes; and every
 * error must name the byte where it happened. See docs/adr/0002.
 *
 * A value is immutable and lives as long as the arena and, for numbers and for strings without
 * escapes, the input text that it points into. Limits: nesting MTR_JSON_MAX_DEPTH, a number's text
 * MTR_JSON_MAX_NUMBER_BYTES, and the arena's limit (also held against the parser's own stack of
 * unfinished values). A REAL beyond double's range is infinite, as in Python. Duplicate keys are
 * kept in order and a look-up finds the last, as in Python. Strings are valid UTF-8: a lone
 * surrogate escape is refused, raw invalid UTF-8 too.
 */
#ifndef MTR_BASE_JSON_H
#define MTR_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/base/str.h"

#define MTR_JSON_MAX_DEPTH        128
#define MTR_JSON_MAX_NUMBER_BYTES 1024

enum mtr_json_kind {
    MTR_JSON_NULL,
    MTR_JSON_BOOL,
    MTR_JSON_INT,  /* no fraction, no exponent; `integer` holds it when it fits, see `big` */
    MTR_JSON_REAL, /* fraction or exponent */
    MTR_JSON_STRING,
    MTR_JSON_ARRAY,
    MTR_JSON_OBJECT,
} __attribute__((packed)); /* one byte: a value then takes 32 */

struct mtr_json_member;

struct mtr_json {
    enum mtr_json_kind kind;
    bool boolean;        /* BOOL */
    bool big;            /* INT that does not fit int64: only `text` and `real` hold it */
    uint32_t count;      /* ARRAY, OBJECT */
    struct mtr_str text; /* STRING: the decoded text; INT, REAL: the digits as they came */
    union {
        int64_t integer;
        double real;                           /* REAL, and INT when big */
        const struct mtr_json *items;          /* ARRAY [count] */
        const struct mtr_json_member *members; /* OBJECT [count], in the order of the input */
    };
};

struct mtr_json_member {
    struct mtr_str key;
    struct mtr_json value;
};

/* Extensions that some published config.json files need. */
enum mtr_json_flags {
    MTR_JSON_STRICT = 0,
    MTR_JSON_NONFINITE = 1, /* Infinity, -Infinity, NaN as REAL */
};

/* Reads exactly one value with white space around it. Errors: MTR_INVALID with line and column,
 * MTR_TOO_LARGE for depth, MTR_NO_MEMORY. Returns NULL on failure. */
const struct mtr_json *mtr_json_parse(struct mtr_arena *arena, struct mtr_str text, unsigned flags,
                                      struct mtr_error *err);

/* The member's value, or NULL when v is NULL, no object, or has no such key. */
const struct mtr_json *mtr_json_get(const struct mtr_json *v, const char *key);

/* A value by dotted path through objects: "text_config.rope_parameters.factor". */
const struct mtr_json *mtr_json_path(const struct mtr_json *v, const char *path);

/* Readers for optional members: true and *out set when present and of the type; true and *out
 * untouched when absent or null; false with the field named in err when of another type. */
bool mtr_json_opt_bool(const struct mtr_json *o, const char *key, bool *out, struct mtr_error *err);
bool mtr_json_opt_i64(const struct mtr_json *o, const char *key, int64_t min, int64_t max,
                      int64_t *out, struct mtr_error *err);
bool mtr_json_opt_f64(const struct mtr_json *o, const char *key, double min, double max,
                      double *out, struct mtr_error *err);
bool mtr_json_opt_str(const struct mtr_json *o, const char *key, struct mtr_str *out,
                      struct mtr_error *err);

/* INT (big too) or REAL as a double. */
bool mtr_json_number(const struct mtr_json *v, double *out);

/* "null", "boolean", "integer", ...: for error messages. */
const char *mtr_json_kind_name(const struct mtr_json *v);

/*
 * Writer. Commas and colons are the writer's business; nesting mistakes are assertions. Output is
 * compact. Strings that are not valid UTF-8 get U+FFFD for each bad byte, so that output is always
 * JSON.
 */
struct mtr_json_writer {
    struct mtr_buf *out;
    uint8_t depth;
    bool need_comma;
    bool after_key;
};

struct mtr_json_writer mtr_json_writer(struct mtr_buf *out);
void mtr_json_begin_object(struct mtr_json_writer *w);
void mtr_json_end_object(struct mtr_json_writer *w);
void mtr_json_begin_array(struct mtr_json_writer *w);
void mtr_json_end_array(struct mtr_json_writer *w);
void mtr_json_key(struct mtr_json_writer *w, const char *key);
void mtr_json_key_str(struct mtr_json_writer *w, struct mtr_str key);
void mtr_json_put_null(struct mtr_json_writer *w);
void mtr_json_put_bool(struct mtr_json_writer *w, bool b);
void mtr_json_put_i64(struct mtr_json_writer *w, int64_t i);
void mtr_json_put_u64(struct mtr_json_writer *w, uint64_t u);
void mtr_json_put_f64(struct mtr_json_writer *w, double d); /* reads back equal; nonfinite: null */
void mtr_json_put_str(struct mtr_json_writer *w, struct mtr_str s);
void mtr_json_put_cstr(struct mtr_json_writer *w, const char *c);
void mtr_json_put_value(struct mtr_json_writer *w, const struct mtr_json *v); /* as it came */
void mtr_json_put_raw(struct mtr_json_writer *w, struct mtr_str json);        /* already encoded */

/* Appends s as a JSON string with its quotes; what the writer uses, for hot paths. */
bool mtr_json_escape(struct mtr_buf *out, struct mtr_str s);

#endif
