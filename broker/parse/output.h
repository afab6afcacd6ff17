/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One choice's tokens into events: detokenizing, stop strings, reasoning, tool calls,
 * log-probabilities.
 *
 * Everything that decides what of a model's output is text happens here, once, for all protocols
 * and for streaming and not streaming alike.
 *
 * Text that may be the beginning of a stop string is held until the next token decides; then the
 * parser splits it. Each event carries the tokens that came since the one before; a token whose
 * text is still held is kept with it.
 */
#ifndef MTR_PARSE_OUTPUT_H
#define MTR_PARSE_OUTPUT_H

#include "broker/api/chat_request.h"
#include "broker/api/out_event.h"
#include "broker/parse/parser.h"
#include "broker/text/detokenizer.h"
#include "broker/text/tokenizer.h"

/* What the scheduler says of one token. */
struct mtr_output_token {
    uint32_t id;
    bool scored; /* `logprobs` is set */
    bool prompt; /* of an echoed prompt: stop strings do not apply */
    const struct mtr_token_logprobs *logprobs;
};

/* Called for each event; the event's memory is valid during the call only. */
typedef void (*mtr_emit)(void *context, const struct mtr_out_event *event);

/* How a model writes reasoning and calls; NULL: not at all. */
struct mtr_output_formats {
    const struct mtr_parse_format *tools, *reasoning;
    bool drop_reasoning; /* nobody is shown any */
};

struct mtr_output {
    const struct mtr_chat_request *request;
    const struct mtr_tokenizer *tokenizer;
    struct mtr_detokenizer detokenizer;
    uint32_t choice;
    struct mtr_buf held;            /* text that was not handed out yet */
    struct mtr_arena arena;         /* of the tokens below */
    struct mtr_event_token *tokens; /* [token_count], their text is held */
    size_t token_count, token_cap;
    uint32_t offset;      /* bytes of text so far, held ones included */
    uint32_t tokens_seen; /* generated ones */

    struct mtr_parser *parser; /* NULL: all is text */
    bool drop_reasoning;
    uint32_t reasoning_tokens, tool;
    bool call_over; /* the only call that may be has ended */
    struct mtr_output_special {
        size_t at, len;
        bool token; /* told to the parser as one */
    } * specials;   /* [special_count] in held */
    size_t special_count, special_cap;
    mtr_emit emit; /* while the parser is at work */
    void *context;
    bool stopped; /* a stop string matched: nothing comes any more */
};

/* formats: NULL for none; used for chat requests only. False when memory is out; o may be freed
 * then too. */
bool mtr_output_init(struct mtr_output *o, const struct mtr_chat_request *request,
                     const struct mtr_tokenizer *tokenizer,
                     const struct mtr_output_formats *formats, uint32_t choice);
void mtr_output_free(struct mtr_output *o);

/* Takes a token and emits what it completes. When a stop string matches, or the only call that the
 * request allows has ended: what came before and FINISH were emitted, and o->stopped is set. False
 * when memory ran out. */
bool mtr_output_push(struct mtr_output *o, const struct mtr_output_token *token, mtr_emit emit,
                     void *context, struct mtr_error *err);

/* The end by any other reason: emits what is held, then FINISH. */
bool mtr_output_finish(struct mtr_output *o, enum mtr_end finish, mtr_emit emit, void *context,
                       struct mtr_error *err);

#endif
