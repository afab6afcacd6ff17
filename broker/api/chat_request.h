/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a client asks for, in one shape for all protocols.
 *
 * A protocol file turns an HTTP body into this; everything behind it (templates, tokenizer,
 * scheduler, parsers) knows only this. All memory is in `arena`, which belongs to the request.
 */
#ifndef MTR_API_CHAT_REQUEST_H
#define MTR_API_CHAT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/json.h"
#include "common/wire/step.h"

#define MTR_MAX_CHOICES      128 /* n */
#define MTR_MAX_STOPS        16
#define MTR_MAX_STOP_BYTES   512
#define MTR_MAX_STOP_IDS     64
#define MTR_MAX_TOP_LOGPROBS 20

struct mtr_store;

enum mtr_prompt_kind {
    MTR_PROMPT_CHAT, /* messages through the chat template */
    MTR_PROMPT_TEXT, /* one text, as it is */
    MTR_PROMPT_IDS,  /* token ids */
};

enum mtr_tool_choice {
    MTR_TOOL_CHOICE_AUTO,
    MTR_TOOL_CHOICE_NONE,     /* no call is looked for */
    MTR_TOOL_CHOICE_REQUIRED, /* at least one: mtr_tools_check() refuses it for now */
    MTR_TOOL_CHOICE_NAMED,    /* tool_choice_name: likewise */
};

enum mtr_thinking {
    MTR_THINKING_DEFAULT, /* what the template does by itself */
    MTR_THINKING_OFF,
    MTR_THINKING_ON,
};

/* How much of the rendered prompt's end decides in which state its answer is read. */
#define MTR_PROMPT_TAIL_BYTES 320

struct mtr_prompt {
    enum mtr_prompt_kind kind;
    struct mtr_str text; /* TEXT */
    const uint32_t *ids; /* IDS [id_count] */
    uint32_t id_count;
};

struct mtr_chat_request {
    struct mtr_arena *arena;
    struct mtr_str model; /* as the client said it, maybe empty */

    /* The prompt. Chat requests have one; completions may have several. */
    uint32_t prompt_count;
    const struct mtr_prompt *prompts;       /* [prompt_count] */
    const struct mtr_json *messages;        /* CHAT: array, contents flattened to strings */
    const struct mtr_json *template_kwargs; /* CHAT: object, or NULL */
    bool truncate;               /* CHAT: where it is too long, the oldest turns are left out */
    bool continue_final_message; /* CHAT: the last message is a beginning to go on from */

    /* CHAT: functions that the model may call, or NULL: an array of {"type": "function",
     * "function": {"name", "description", "parameters"}}, whatever the protocol's own form is.
     * mtr_tools_set() of broker/api/tools.h checks and makes it. */
    const struct mtr_json *tools;
    enum mtr_tool_choice tool_choice;
    struct mtr_str tool_choice_name; /* NAMED */
    bool single_tool_call;           /* parallel_tool_calls: false. The first call's end ends it */

    /* CHAT: reasoning. What the template is told; template_kwargs of the same names win. */
    enum mtr_thinking thinking;      /* enable_thinking, thinking */
    struct mtr_str reasoning_effort; /* "low", ...; {NULL, 0}: not said */
    bool has_thinking_budget;
    uint32_t thinking_budget; /* tokens of reasoning; then its end is forced */
    bool raw_reasoning;       /* leave reasoning in the content, marks and all (R1) */

    /* CHAT: set by the engine before the first event: the end of the rendered prompt. */
    struct mtr_str prompt_tail;

    /* Limits; 0 for max_tokens: as many as fit. */
    uint32_t max_tokens;
    uint32_t min_tokens;
    bool no_tokens;      /* max_tokens was given as 0: only score the prompt */
    uint32_t choices;    /* n, at least 1, for each prompt */
    uint32_t best_of;    /* = choices: others are refused */
    uint64_t timeout_ms; /* 0: the server's */

    struct mtr_sampling sampling; /* seed, output_start and logprobs are set later */
    bool has_temperature, has_top_p, has_top_k, has_min_p,
        has_top_n_sigma; /* else model defaults */
    bool has_repetition_penalty;
    bool has_seed;
    uint64_t seed;
    bool logprobs;
    uint32_t top_logprobs;

    uint32_t stop_count;
    struct mtr_str stops[MTR_MAX_STOPS];
    uint32_t stop_id_count;
    uint32_t stop_ids[MTR_MAX_STOP_IDS];
    bool ignore_eos;
    bool include_stop; /* keep the matched stop string in the text */
    bool echo;         /* completions: the prompt comes first in the answer */
    bool skip_special; /* drop special tokens from the text */

    bool stream;
    bool include_usage;

    /* What is kept of the answer. `store` and `owner` are set before a protocol reads the body;
     * store is NULL where the server keeps nothing. */
    struct mtr_store *store;
    uint64_t owner;
    struct mtr_str fresh; /* unique, for ids of what this request makes */
    bool keep;            /* the answer goes into the store */
    bool background;      /* it goes on without its client, and can be asked for and cancelled */
    const struct mtr_json *metadata; /* object of strings, or NULL */

    void *own; /* what the protocol's answer needs of its request; in the arena, or NULL */
};

void mtr_chat_request_init(struct mtr_chat_request *r, struct mtr_arena *arena);

#endif
