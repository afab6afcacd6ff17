/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * See output.h. The held text is searched for stop strings from its beginning after each token; it
 * is never longer than the longest stop string plus what one token adds, so that this is cheap.
 */
#include "broker/parse/output.h"

#include <stdlib.h>
#include <string.h>

void mtr_output_init(struct mtr_output *o, const struct mtr_chat_request *request,
                     const struct mtr_tokenizer *tokenizer, uint32_t choice)
{
    *o = (struct mtr_output){.request = request, .tokenizer = tokenizer, .choice = choice};
    mtr_detokenizer_init(&o->detokenizer, tokenizer, request->skip_special);
    mtr_arena_init(&o->arena, 0);
}

void mtr_output_free(struct mtr_output *o)
{
    mtr_detokenizer_free(&o->detokenizer);
    mtr_buf_free(&o->held);
    mtr_arena_free(&o->arena);
    free(o->tokens);
    *o = (struct mtr_output){0};
}

/* ---- Stop strings -----------------------------------------------------------------------------
 */

/* The earliest match of any stop string in the held text; SIZE_MAX if none. */
static size_t find_stop(const struct mtr_output *o, struct mtr_str *stop)
{
    struct mtr_str held = mtr_buf_view(&o->held);
    size_t best = SIZE_MAX;
    for (uint32_t i = 0; i < o->request->stop_count; i++) {
        size_t at = mtr_str_find(held, o->request->stops[i], 0);
        if (at < best) {
            best = at;
            *stop = o->request->stops[i];
        }
    }
    return best;
}

/* Length of the longest end of the held text that a stop string begins with. */
static size_t stop_prefix(const struct mtr_output *o)
{
    struct mtr_str held = mtr_buf_view(&o->held);
    size_t longest = 0;
    for (uint32_t i = 0; i < o->request->stop_count; i++) {
        struct mtr_str stop = o->request->stops[i];
        size_t n = stop.len - 1 < held.len ? stop.len - 1 : held.len;
        for (; n > longest; n--) {
            if (memcmp(held.ptr + held.len - n, stop.ptr, n) == 0)
                longest = n;
        }
    }
    return longest;
}

/* ---- Tokens with log-probabilities ------------------------------------------------------------
 */

static const struct mtr_event_top *copy_tops(struct mtr_output *o,
                                             const struct mtr_token_logprobs *l)
{
    struct mtr_event_top *top = mtr_arena_calloc(&o->arena, l->top_count + 1, sizeof *top);
    for (uint32_t i = 0; top && i < l->top_count; i++)
        top[i] = (struct mtr_event_top){l->top_ids[i], mtr_token_bytes(o->tokenizer, l->top_ids[i]),
                                        l->top_logprobs[i]};
    return top;
}

static bool keep_token(struct mtr_output *o, const struct mtr_output_token *token,
                       struct mtr_error *err)
{
    if (!mtr_grow((void **)&o->tokens, &o->token_cap, o->token_count + 1, sizeof *o->tokens))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory keeping log-probabilities");
    struct mtr_event_token *t = &o->tokens[o->token_count++];
    *t = (struct mtr_event_token){
        .id = token->id,
        .bytes = mtr_token_bytes(o->tokenizer, token->id),
        .unscored = !token->scored,
        .text_offset = o->offset,
    };
    if (token->scored) {
        uint32_t wanted = o->request->top_logprobs;
        t->logprob = token->logprobs->logprob;
        t->top = copy_tops(o, token->logprobs);
        t->top_count = token->logprobs->top_count < wanted ? token->logprobs->top_count : wanted;
        if (!t->top)
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory keeping log-probabilities");
    }
    return true;
}

/* Hands out the first `len` held bytes, with the kept tokens if any. */
static void emit_text(struct mtr_output *o, size_t len, mtr_emit emit, void *context)
{
    if (len == 0 && o->token_count == 0)
        return;
    struct mtr_out_event ev = {
        .kind = MTR_EVENT_TEXT,
        .choice = o->choice,
        .text = mtr_str_sub(mtr_buf_view(&o->held), 0, len),
        .token_count = (uint32_t)o->token_count,
        .tokens = o->tokens,
    };
    emit(context, &ev);
    mtr_buf_consume(&o->held, len);
    o->token_count = 0;
    mtr_arena_reset(&o->arena);
}

static void emit_finish(struct mtr_output *o, enum mtr_end finish, struct mtr_str stop,
                        mtr_emit emit, void *context)
{
    struct mtr_out_event ev = {
        .kind = MTR_EVENT_FINISH, .choice = o->choice, .finish = finish, .stop = stop};
    emit(context, &ev);
}

/* Hands out what can't be part of a stop string, or stops at a match. */
static void settle(struct mtr_output *o, mtr_emit emit, void *context)
{
    struct mtr_str stop = {0};
    size_t at = find_stop(o, &stop);
    if (at != SIZE_MAX) {
        emit_text(o, at + (o->request->include_stop ? stop.len : 0), emit, context);
        emit_finish(o, MTR_END_STOP, stop, emit, context);
        o->stopped = true;
        return;
    }
    size_t keep = stop_prefix(o);
    if (o->held.len > keep)
        emit_text(o, o->held.len - keep, emit, context);
}

bool mtr_output_push(struct mtr_output *o, const struct mtr_output_token *token, mtr_emit emit,
                     void *context, struct mtr_error *err)
{
    if (o->stopped)
        return true;
    if (!token->prompt)
        o->tokens_seen++;
    if (o->request->logprobs && !keep_token(o, token, err))
        return false;
    size_t before = o->held.len;
    if (!mtr_detokenizer_push(&o->detokenizer, token->id, &o->held, err))
        return false;
    o->offset += (uint32_t)(o->held.len - before);
    if (token->prompt)
        emit_text(o, o->held.len, emit, context);
    else if (o->held.len > before)
        settle(o, emit, context);
    return true;
}

bool mtr_output_finish(struct mtr_output *o, enum mtr_end finish, mtr_emit emit, void *context,
                       struct mtr_error *err)
{
    if (o->stopped)
        return true;
    if (!mtr_detokenizer_flush(&o->detokenizer, &o->held, err))
        return false;
    settle(o, emit, context);
    if (o->stopped)
        return true;
    emit_text(o, o->held.len, emit, context);
    emit_finish(o, finish, (struct mtr_str){0}, emit, context);
    o->stopped = true;
    return true;
}
