/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chat templates: a request's messages and tools to the text of a prompt.
 *
 * A template is Jinja as Hugging Face transformers runs it (jinja/jinja.h says which). It is
 * compiled once, when a model is loaded, and rendered for every request, by any number of threads
 * at once.
 *
 * Special tokens in a user's text must stay text: so the output comes with spans that say which of
 * its bytes are the template's own words. The tokenizer may look for special tokens only within a
 * span that is from the template; a token never reaches over the end of one.
 *
 * Trusted are the variables that template.c lists (the tokenizer's special tokens, which the
 * server adds) and the roles of messages where they are plain words. Everything else in the
 * variables came from a client.
 */
#ifndef MTR_TEXT_TEMPLATE_H
#define MTR_TEXT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/text/jinja/jinja.h"
#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/base/json.h"

/* Owner: the arena given to mtr_template_compile. Immutable. */
struct mtr_template;

/* The outcome of a rendering. text and spans live in the arena inside; the caller frees it with
 * mtr_template_output_free(), also after a failure. A zeroed struct is an empty one. */
struct mtr_template_output {
    struct mtr_arena arena;
    struct mtr_str text;
    const struct mtr_jinja_span *spans; /* [span_count] in order, without gaps */
    size_t span_count;
    bool raised;            /* on failure: the template called raise_exception */
    struct mtr_str message; /* on failure, when raised: the whole of its message */
};

/* source: UTF-8; must live as long as the arena. NULL on failure: MTR_INVALID "line N: ...". */
const struct mtr_template *mtr_template_compile(struct mtr_arena *arena, struct mtr_str source,
                                                struct mtr_error *err);

/*
 * variables: an object: messages, tools, add_generation_prompt, bos_token, ...; null is Python's
 * None and differs from an absent key. Must live as long as the output. now: what strftime_now()
 * prints. limits: NULL or zeros take the defaults of jinja.h.
 *
 * Errors: MTR_INVALID with the message of raise_exception, or "line N: ..." for what the template
 * can't do with this input; MTR_TOO_LARGE for a limit; MTR_NO_MEMORY.
 */
bool mtr_template_render(const struct mtr_template *t, const struct mtr_json *variables,
                         const struct mtr_jinja_time *now, const struct mtr_jinja_limits *limits,
                         struct mtr_template_output *out, struct mtr_error *err);

void mtr_template_output_free(struct mtr_template_output *out);

/* Whether the template looks at a variable of this name ("tools", "enable_thinking") at all. */
bool mtr_template_uses(const struct mtr_template *t, const char *name);

#endif
