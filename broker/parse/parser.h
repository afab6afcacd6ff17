/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A model's raw text into content, reasoning and tool calls, as it comes.
 *
 * One engine reads all formats; what differs stands in tables (format.h). It keeps the text that is
 * not decided yet, and looks at it again when more comes: a decision is made once, when nothing
 * that may follow can change it. So the pieces that are handed out, joined, are the same however
 * the text was cut, and the whole text given at once is one way of cutting it.
 *
 * The engine never fails: what is no mark and no call is text of its run. Memory is what is held
 * back: names, keys and values that are no strings.
 *
 * A parser belongs to one answer. Formats, tools and the tail must outlive it.
 */
#ifndef MTR_PARSE_PARSER_H
#define MTR_PARSE_PARSER_H

#include "broker/parse/format.h"
#include "broker/text/tokenizer.h"
#include "common/base/buf.h"
#include "common/base/json.h"

enum mtr_piece_kind {
    MTR_PIECE_CONTENT,
    MTR_PIECE_REASONING,
    MTR_PIECE_CALL,      /* a call begins; text: its name */
    MTR_PIECE_ARGUMENTS, /* of the call that began last: JSON, in pieces */
    MTR_PIECE_CALL_END,
};

/* text is valid during the call only. What goes in as UTF-8 comes out cut between characters. */
typedef void (*mtr_piece_fn)(void *context, enum mtr_piece_kind kind, struct mtr_str text);

struct mtr_parser_setup {
    const struct mtr_parse_format *tools;     /* how calls are written, or NULL */
    const struct mtr_parse_format *reasoning; /* how reasoning is marked, or NULL: it is content */
    const struct mtr_json *declared;          /* OpenAI tool objects; NULL or []: no call is one */
    struct mtr_str prompt_tail;               /* the end of the rendered prompt */
    /* Not NULL: hidden tokens that this vocabulary has count only where mtr_parser_token() tells
     * them; their text written with other tokens is text. */
    const struct mtr_tokenizer *tokenizer;
    mtr_piece_fn piece;
    void *context;
};

struct mtr_parser;

struct mtr_parser *mtr_parser_new(const struct mtr_parser_setup *setup); /* NULL: no memory */
void mtr_parser_free(struct mtr_parser *p);

/* More text. False when memory ran out. */
bool mtr_parser_text(struct mtr_parser *p, struct mtr_str text);

/* A special token of the vocabulary, by its spelling. One that means nothing here vanishes outside
 * of values. */
bool mtr_parser_token(struct mtr_parser *p, struct mtr_str spelling);

/* The end: decides what is left. */
bool mtr_parser_finish(struct mtr_parser *p);

/* Is what comes next reasoning, as far as is known? For counting tokens. */
bool mtr_parser_in_reasoning(const struct mtr_parser *p);

/* Is that the spelling of a token that this parser never shows? */
bool mtr_parser_hides(const struct mtr_parser *p, struct mtr_str spelling);

uint32_t mtr_parser_calls(const struct mtr_parser *p); /* that began so far */

#endif
