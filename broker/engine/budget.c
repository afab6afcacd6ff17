/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A budget for reasoning.
 *
 * The scheduler thread reads each token of the choice as its client will, and counts those that are
 * reasoning. When the budget is spent the sequence is cancelled and submitted again, with the
 * answer so far and the tokens that end reasoning behind its prompt; the prefix cache has nearly
 * all of it. Positions and seed stay, so the same request gives the same answer every time. To the
 * client the forced tokens are like the model's own.
 */
#include <stdlib.h>

#include "broker/engine/internal.h"
#include "broker/parse/output.h"

struct mtr_budget {
    struct mtr_output reader;
    struct mtr_ids output; /* the answer so far */
    uint32_t tokens;       /* that may be reasoning */
    bool forces, over;     /* it is spent; its end was forced */
};

static void ignore(void *context, const struct mtr_out_event *event)
{
}

/* 0: none. */
static bool budget_of(const struct mtr_served_model *m, const struct mtr_chat_request *r,
                      uint32_t *tokens)
{
    bool limited = m->max_thinking_budget != 0;
    *tokens = limited ? m->max_thinking_budget : 0;
    if (r->has_thinking_budget && (!limited || r->thinking_budget < *tokens))
        *tokens = r->thinking_budget;
    return r->messages && m->formats.reasoning && m->think_end_count && !r->raw_reasoning &&
           (limited || r->has_thinking_budget);
}

bool mtr_budget_begin(struct mtr_choice *c, struct mtr_error *err)
{
    const struct mtr_served_model *m = c->state->engine->model;
    const struct mtr_chat_request *r = c->state->job->request;
    const struct mtr_output_formats formats = {m->formats.tools, m->formats.reasoning, false};
    uint32_t tokens;
    if (!budget_of(m, r, &tokens))
        return true;
    struct mtr_budget *b = calloc(1, sizeof *b);
    c->budget = b;
    if (b && mtr_output_init(&b->reader, r, m->tokenizer, &formats, c->index)) {
        b->tokens = tokens;
        b->forces = tokens == 0 && mtr_parser_in_reasoning(b->reader.parser);
        return true;
    }
    return mtr_fail(err, MTR_NO_MEMORY, "out of memory accepting the request");
}

void mtr_budget_end(struct mtr_choice *c)
{
    if (!c->budget)
        return;
    mtr_output_free(&c->budget->reader);
    mtr_ids_free(&c->budget->output);
    free(c->budget);
    c->budget = NULL;
}

bool mtr_budget_spent(struct mtr_choice *c, uint32_t token)
{
    struct mtr_budget *b = c->budget;
    if (!b || b->over)
        return false;
    struct mtr_output_token t = {.id = token};
    if (!mtr_ids_push(&b->output, token) || !mtr_output_push(&b->reader, &t, ignore, NULL, NULL))
        return false;
    b->forces = b->reader.reasoning_tokens >= b->tokens && !b->reader.stopped &&
                mtr_parser_in_reasoning(b->reader.parser);
    return b->forces;
}

bool mtr_budget_is_nothing(const struct mtr_choice *c)
{
    return mtr_budget_forces(c) && c->budget->output.count == 0;
}

bool mtr_budget_forces(const struct mtr_choice *c)
{
    return c->budget && c->budget->forces;
}

const struct mtr_ids *mtr_budget_output(const struct mtr_choice *c)
{
    return c->budget ? &c->budget->output : NULL;
}

bool mtr_budget_force(struct mtr_choice *c, uint32_t room, size_t *first)
{
    struct mtr_budget *b = c->budget;
    const struct mtr_served_model *m = c->state->engine->model;
    *first = b->output.count;
    b->forces = false;
    b->over = true;
    for (uint32_t i = 0; i < m->think_end_count && i < room; i++)
        if (!mtr_ids_push(&b->output, m->think_end[i]))
            return false;
    return true;
}
