/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Wire formats of reasoning and tool calls: what marks what, as data.
 *
 * The closing rules of a tool format (what closes a value, a call, its wrapper) are those of its
 * grammar and strings here; a constraint on the output must allow exactly what the parser reads, so
 * it takes them from this table too.
 */
#ifndef MTR_PARSE_FORMAT_H
#define MTR_PARSE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/str.h"

#define MTR_FORMAT_MAX_WORDS 20

enum mtr_call_grammar {
    MTR_CALLS_NONE,     /* reasoning only */
    MTR_CALLS_ENVELOPE, /* {"name": N, "arguments": J} between wrapper marks */
    MTR_CALLS_BARE,     /* the same with nothing around it */
    MTR_CALLS_MISTRAL,  /* opener N [ARGS] J, or opener and a list of envelopes */
    MTR_CALLS_NAMED,    /* begin N separator J end, in a section */
    MTR_CALLS_TAGS,     /* <function=N> <parameter=K> V </parameter> </function> in a wrapper */
    MTR_CALLS_KEYS,    /* <tool_call>N <arg_key>K</arg_key> <arg_value>V</arg_value> </tool_call> */
    MTR_CALLS_GEMMA,   /* call:N{K:V} */
    MTR_CALLS_PYTHON,  /* [N(K=V), ...] */
    MTR_CALLS_KIMI3,   /* <|open|>call tool="N"<|sep|> ... */
    MTR_CALLS_HARMONY, /* messages with headers; channels are part of the grammar */
};

enum mtr_format_flags {
    MTR_FORMAT_EQUALS = 1 << 0,     /* TAGS: <word=NAME> */
    MTR_FORMAT_ATTRIBUTES = 1 << 1, /* TAGS: <word name="NAME"> */
    MTR_FORMAT_NEWLINES = 1 << 2,   /* a newline on each side of a value belongs to its tags */
    MTR_FORMAT_FUNCTIONS = 1 << 3,  /* "functions." before a name is decoration */
    MTR_FORMAT_INDEX = 1 << 4,      /* ":0" behind a name is decoration */
    MTR_FORMAT_BUILTIN = 1 << 5,    /* BARE: N.call(K=V) after a tag */
    MTR_FORMAT_JSON_TOO = 1 << 6,   /* KEYS: a body that begins with { or [ is an envelope */
};

struct mtr_parse_format {
    const char *name;
    enum mtr_call_grammar grammar;
    unsigned flags;

    /* Reasoning. token: the marks are special tokens, which count anywhere. */
    const char *think_open, *think_close;
    const char *think_word; /* behind the opener, part of the mark, or NULL */
    bool think_token;

    /* Calls. What a grammar does not have is NULL. */
    const char *wrap_open, *wrap_close; /* around one or more calls */
    const char *call_open, *call_close; /* NAMED: begin and end; TAGS: beginning of the opener */
    const char *separator;              /* NAMED: between name and arguments; KIMI3: end of a tag */
    const char *param_open, *param_close;
    const char *value_open; /* KEYS: behind the key's closer */
    const char *key_close;  /* KEYS */
    const char *tag_end;    /* TAGS, KIMI3: what ends an opener */
    const char *name_attribute, *param_attribute, *type_attribute;

    /* Tokens that are never shown, and strings that end an earlier turn in a prompt. */
    const char *hidden[MTR_FORMAT_MAX_WORDS];
    const char *turns[4];
};

/* NULL: there is no format of that name. */
const struct mtr_parse_format *mtr_parse_format_find(struct mtr_str name);

/* All of them, in the order of the documentation. */
const struct mtr_parse_format *mtr_parse_formats(size_t *count);

#endif
