/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The Jinja template language, as Hugging Face transformers runs chat templates: jinja2 3.1's
 * immutable sandbox, trim_blocks and lstrip_blocks on, autoescape off, loop controls, the
 * {% generation %} tag, and the functions raise_exception and strftime_now. Values behave as
 * Python's do. Sources of the method: https://jinja.palletsprojects.com/en/stable/templates/ and
 * the Python language reference.
 *
 * A compiled template is immutable and may be rendered by many threads at once. No I/O, no clocks:
 * the time that strftime_now prints is an argument. include, import and extends are refused when
 * they are reached (there is nothing to load from, as in transformers).
 *
 * Provenance: the result says for every byte whether it comes from the template (its own text, and
 * variables that the caller declares as trusted) or from elsewhere (what clients sent). Only in the
 * former may a tokenizer look for special tokens.
 *
 * Errors: MTR_INVALID "line N: ..." for what the template or its input got wrong, MTR_TOO_LARGE for
 * a limit, MTR_NO_MEMORY. raise_exception(text) gives MTR_INVALID with the text alone.
 */
#ifndef MTR_TEXT_JINJA_JINJA_H
#define MTR_TEXT_JINJA_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/str.h"

struct mtr_jinja; /* compiled; lives in the arena it was compiled into */

/* Bounds of compilation. */
#define MTR_JINJA_MAX_SOURCE_BYTES (4u << 20)
#define MTR_JINJA_MAX_NESTING      100 /* statements inside statements */
#define MTR_JINJA_MAX_HEIGHT       200 /* operators inside operators */

/* Bounds of a rendering that are not for the caller to choose. */
#define MTR_JINJA_MAX_CALLS       200  /* macros and recursive loops inside each other */
#define MTR_JINJA_MAX_DEPTH       4000 /* nested evaluations: under 1 MB of stack */
#define MTR_JINJA_MAX_VALUE_DEPTH 400  /* lists inside lists, when compared or printed */
#define MTR_JINJA_MAX_RANGE       100000

struct mtr_jinja_limits {
    uint64_t steps;        /* nodes evaluated, and bytes handled by them divided by 64 */
    uint32_t output_bytes; /* of the result, and of every string on the way */
    size_t memory_bytes;   /* of everything a rendering allocates */
};

#define MTR_JINJA_DEFAULT_STEPS        (20u * 1000 * 1000)
#define MTR_JINJA_DEFAULT_OUTPUT_BYTES (64u << 20)
#define MTR_JINJA_DEFAULT_MEMORY_BYTES ((size_t)512 << 20)

/* What strftime_now() prints: local time. Year 1 to 9999, month and day from 1. */
struct mtr_jinja_time {
    int year, month, day, hour, minute, second, microsecond;
};

struct mtr_jinja_options {
    struct mtr_jinja_limits limits; /* a zero takes the default */
    struct mtr_jinja_time now;
    /*
     * Variables whose text counts as the template's: "bos_token" (the whole variable), or
     * "messages[].role" (one key of the objects in a top-level list, where its text is a plain
     * word of letters, digits, '_' and '-'). At most MTR_JINJA_MAX_TRUSTED_PATHS of the second
     * form; further ones are not trusted.
     */
    const char *const *trusted;
    size_t trusted_count;
};

#define MTR_JINJA_MAX_TRUSTED_PATHS 8

struct mtr_jinja_span {
    size_t offset; /* bytes */
    size_t len;
    bool from_template;
};

struct mtr_jinja_result {
    struct mtr_str text;          /* in the arena given to the rendering */
    struct mtr_jinja_span *spans; /* [span_count] without gaps, neighbours differ; none if empty */
    size_t span_count;
    bool raised;            /* on failure: raise_exception was called */
    struct mtr_str message; /* on failure: its whole message, which err may have cut */
};

/* source: UTF-8, must live as long as the template. NULL on failure: MTR_INVALID "line N: ...". */
const struct mtr_jinja *mtr_jinja_compile(struct mtr_arena *arena, struct mtr_str source,
                                          struct mtr_error *err);

/*
 * variables: a JSON object; must live until the result is no longer used. arena: takes everything
 * that the rendering allocates, the result too; its own limit holds as well. options may be NULL.
 */
bool mtr_jinja_render(const struct mtr_jinja *template, const struct mtr_json *variables,
                      const struct mtr_jinja_options *options, struct mtr_arena *arena,
                      struct mtr_jinja_result *result, struct mtr_error *err);

/* Whether the template reads a variable of this name from its input anywhere. */
bool mtr_jinja_uses(const struct mtr_jinja *template, struct mtr_str name);

#endif
