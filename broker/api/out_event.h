/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What an answer consists of, in one shape for all protocols.
 *
 * parse/ makes events from tokens; a protocol's encoder turns them into bytes. Strings are valid
 * UTF-8 and live until the call that delivers the event returns.
 *
 * Order, for each choice: any number of TEXT, REASONING and TOOL_* events, then one FINISH. An
 * ERROR ends the whole answer. Streaming and not streaming see the same events.
 *
 * A call is one TOOL_BEGIN (its id, name and index), any number of TOOL_ARGUMENTS whose texts
 * joined are one compact JSON object, and one TOOL_END; calls do not overlap and their indices
 * count up from 0. The texts of all TEXT events joined are the content, those of all REASONING
 * events the reasoning: a newline between two blocks of either is part of them. TEXT may come after
 * a call, and REASONING after TEXT. Nothing is ever taken back.
 */
#ifndef MTR_API_OUT_EVENT_H
#define MTR_API_OUT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/str.h"
#include "common/wire/step.h"

enum mtr_event_kind {
    MTR_EVENT_TEXT,
    MTR_EVENT_REASONING,
    MTR_EVENT_TOOL_BEGIN,     /* tool index, id and name */
    MTR_EVENT_TOOL_ARGUMENTS, /* text: a piece of the arguments' JSON */
    MTR_EVENT_TOOL_END,
    MTR_EVENT_FINISH,
    MTR_EVENT_ERROR,
};

enum mtr_end {
    MTR_END_NONE,
    MTR_END_STOP,   /* end of sequence, a stop id or a stop string */
    MTR_END_LENGTH, /* max_tokens or the context is full */
    MTR_END_TOOLS,  /* as STOP, and there was a call */
};

/* One token of the text, for logprobs; bytes may be a part of a character. */
struct mtr_event_token {
    uint32_t id;
    struct mtr_str bytes;
    float logprob;
    uint32_t top_count;
    const struct mtr_event_top {
        uint32_t id;
        struct mtr_str bytes;
        float logprob;
    } * top;              /* [top_count] best first */
    bool unscored;        /* the first token of an echoed prompt has no log-probability */
    uint32_t text_offset; /* in bytes of the whole answer's text */
};

struct mtr_usage {
    uint32_t prompt_tokens;
    uint32_t cached_tokens; /* of the prompt, found in the prefix cache */
    uint32_t completion_tokens;
    uint32_t reasoning_tokens;
};

struct mtr_out_event {
    enum mtr_event_kind kind;
    uint32_t choice;
    struct mtr_str text; /* TEXT, REASONING, TOOL_ARGUMENTS */
    uint32_t token_count;
    const struct mtr_event_token
        *tokens;   /* [token_count] with logprobs, that this event and what was no event come from;
                      on events of any kind but ERROR */
    uint32_t tool; /* TOOL_*: index of the call in this choice */
    struct mtr_str tool_id;        /* TOOL_BEGIN: unique without a prefix; protocols add theirs */
    struct mtr_str tool_name;      /* TOOL_BEGIN */
    enum mtr_end finish;           /* FINISH */
    uint32_t reasoning_tokens;     /* FINISH: tokens of this choice that went into its reasoning */
    struct mtr_str stop;           /* FINISH: the stop string that matched, or {NULL, 0} */
    const struct mtr_error *error; /* ERROR */
};

#endif
