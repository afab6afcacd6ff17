/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * See output.h. The held text is searched for stop strings from its beginning after each token; it
 * is never longer than the longest stop string plus what one token adds, so that this is cheap.
 */
#include "broker/parse/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/hash.h"

#define CALL_ID_CHARS 24

static void on_piece(void *context, enum mtr_piece_kind kind, struct mtr_str text);

/* A parser where the formats, and what the request says of them, leave anything to find. */
static bool make_parser(struct mtr_output *o, const struct mtr_output_formats *f)
{
    const struct mtr_chat_request *r = o->request;
    if (!f || !r->messages || (!f->tools && !f->reasoning))
        return true;
    struct mtr_parser_setup setup = {
        .tools = f->tools,
        .reasoning = r->raw_reasoning ? NULL : f->reasoning,
        .declared = r->tool_choice == MTR_TOOL_CHOICE_NONE ? NULL : r->tools,
        .prompt_tail = r->prompt_tail,
        .tokenizer = o->tokenizer,
        .piece = on_piece,
        .context = o,
    };
    o->drop_reasoning = f->drop_reasoning;
    o->parser = mtr_parser_new(&setup);
    return o->parser != NULL;
}

bool mtr_output_init(struct mtr_output *o, const struct mtr_chat_request *request,
                     const struct mtr_tokenizer *tokenizer,
                     const struct mtr_output_formats *formats, uint32_t choice)
{
    *o = (struct mtr_output){.request = request, .tokenizer = tokenizer, .choice = choice};
    mtr_arena_init(&o->arena, 0);
    bool ok = make_parser(o, formats);
    mtr_detokenizer_init(&o->detokenizer, tokenizer, request->skip_special && !o->parser);
    return ok;
}

void mtr_output_free(struct mtr_output *o)
{
    mtr_detokenizer_free(&o->detokenizer);
    mtr_buf_free(&o->held);
    mtr_arena_free(&o->arena);
    mtr_parser_free(o->parser);
    free(o->tokens);
    free(o->specials);
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

/* An event takes the kept tokens along. */
static void send(struct mtr_output *o, struct mtr_out_event *ev, mtr_emit emit, void *context)
{
    ev->choice = o->choice;
    ev->token_count = (uint32_t)o->token_count;
    ev->tokens = o->tokens;
    emit(context, ev);
    o->token_count = 0;
    mtr_arena_reset(&o->arena);
}

/* ---- Through the parser -----------------------------------------------------------------------
 */

/* Unique among all calls of all requests. */
static void make_call_id(const struct mtr_output *o, char id[CALL_ID_CHARS + 1])
{
    uint64_t seed = mtr_mix64(((uint64_t)o->choice << 32 | o->tool) + 1);
    uint64_t a = mtr_hash64(o->request->fresh.ptr, o->request->fresh.len, seed);
    uint64_t b = mtr_mix64(a ^ seed);
    snprintf(id, CALL_ID_CHARS + 1, "%016llx%08x", (unsigned long long)a, (unsigned)(b >> 32));
}

static void on_piece(void *context, enum mtr_piece_kind kind, struct mtr_str text)
{
    static const enum mtr_event_kind kinds[] = {
        [MTR_PIECE_CONTENT] = MTR_EVENT_TEXT,      [MTR_PIECE_REASONING] = MTR_EVENT_REASONING,
        [MTR_PIECE_CALL] = MTR_EVENT_TOOL_BEGIN,   [MTR_PIECE_ARGUMENTS] = MTR_EVENT_TOOL_ARGUMENTS,
        [MTR_PIECE_CALL_END] = MTR_EVENT_TOOL_END,
    };
    struct mtr_output *o = context;
    char id[CALL_ID_CHARS + 1];
    struct mtr_out_event ev = {.kind = kinds[kind], .tool = o->tool};
    if (o->call_over || (kind == MTR_PIECE_REASONING && o->drop_reasoning))
        return;
    if (kind == MTR_PIECE_CALL) {
        make_call_id(o, id);
        ev.tool_id = mtr_str(id);
        ev.tool_name = text;
    } else {
        ev.text = text;
    }
    send(o, &ev, o->emit, o->context);
    if (kind == MTR_PIECE_CALL_END) {
        o->tool++;
        o->call_over = o->request->single_tool_call;
    }
}

/* Is the token one that the parser must be told of? One that means nothing here is text where the
 * request wants special tokens in the text. */
static bool is_told(const struct mtr_output *o, uint32_t id, struct mtr_str name)
{
    return mtr_parser_hides(o->parser, name) ||
           (o->request->skip_special && mtr_token_is_special(o->tokenizer, id));
}

static bool note_special(struct mtr_output *o, uint32_t id)
{
    struct mtr_str name = mtr_token_name(o->tokenizer, id);
    if (!o->parser || !name.len || !mtr_str_ends(mtr_buf_view(&o->held), name) ||
        !is_told(o, id, name))
        return true;
    if (!mtr_grow((void **)&o->specials, &o->special_cap, o->special_count + 1,
                  sizeof *o->specials))
        return false;
    o->specials[o->special_count++] =
        (struct mtr_output_special){o->held.len - name.len, name.len, true};
    return true;
}

/* The first `len` held bytes, special tokens as such. One that is cut by len is text. */
static bool parse_held(struct mtr_output *o, size_t len)
{
    size_t at = 0, kept = 0;
    bool ok = true;
    for (size_t i = 0; i < o->special_count; i++) {
        struct mtr_output_special s = o->specials[i];
        if (s.at + s.len > len) {
            s.token = s.at >= len;
            s.at -= s.at >= len ? len : s.at;
            if (s.token)
                o->specials[kept++] = s;
            continue;
        }
        ok &= mtr_parser_text(o->parser, mtr_str_sub(mtr_buf_view(&o->held), at, s.at - at)) &&
              mtr_parser_token(o->parser, mtr_str_sub(mtr_buf_view(&o->held), s.at, s.len));
        at = s.at + s.len;
    }
    o->special_count = kept;
    return ok && mtr_parser_text(o->parser, mtr_str_sub(mtr_buf_view(&o->held), at, len - at));
}

/* Hands out the first `len` held bytes, with the kept tokens if any. */
static bool emit_text(struct mtr_output *o, size_t len, mtr_emit emit, void *context)
{
    bool ok = true;
    if (len == 0 && o->token_count == 0)
        return true;
    if (o->parser) {
        o->emit = emit;
        o->context = context;
        ok = parse_held(o, len);
    } else {
        struct mtr_out_event ev = {.kind = MTR_EVENT_TEXT,
                                   .text = mtr_str_sub(mtr_buf_view(&o->held), 0, len)};
        send(o, &ev, emit, context);
    }
    mtr_buf_consume(&o->held, len);
    return ok;
}

/* What the parser still holds, the tokens that no event took, and FINISH. */
static bool emit_finish(struct mtr_output *o, enum mtr_end finish, struct mtr_str stop,
                        mtr_emit emit, void *context)
{
    bool ok = true;
    o->stopped = true;
    if (o->parser) {
        o->emit = emit;
        o->context = context;
        ok = mtr_parser_finish(o->parser);
    }
    if (o->token_count) {
        struct mtr_out_event rest = {.kind = MTR_EVENT_TEXT};
        send(o, &rest, emit, context);
    }
    if (finish == MTR_END_STOP && o->tool && !stop.ptr)
        finish = MTR_END_TOOLS;
    struct mtr_out_event ev = {.kind = MTR_EVENT_FINISH,
                               .finish = finish,
                               .stop = stop,
                               .reasoning_tokens = o->reasoning_tokens};
    send(o, &ev, emit, context);
    return ok;
}

/* Hands out what can't be part of a stop string, or stops at a match. */
static bool settle(struct mtr_output *o, mtr_emit emit, void *context)
{
    struct mtr_str stop = {0};
    size_t at = find_stop(o, &stop);
    if (at != SIZE_MAX)
        return emit_text(o, at + (o->request->include_stop ? stop.len : 0), emit, context) &&
               emit_finish(o, MTR_END_STOP, stop, emit, context);
    size_t keep = stop_prefix(o);
    if (o->held.len > keep && !emit_text(o, o->held.len - keep, emit, context))
        return false;
    return !o->call_over || emit_finish(o, MTR_END_STOP, (struct mtr_str){0}, emit, context);
}

static bool no_memory(struct mtr_error *err)
{
    return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the model's text");
}

bool mtr_output_push(struct mtr_output *o, const struct mtr_output_token *token, mtr_emit emit,
                     void *context, struct mtr_error *err)
{
    bool ok = true;
    if (o->stopped)
        return true;
    if (!token->prompt)
        o->tokens_seen++;
    if (o->parser && !token->prompt && mtr_parser_in_reasoning(o->parser))
        o->reasoning_tokens++;
    if (o->request->logprobs && !keep_token(o, token, err))
        return false;
    size_t before = o->held.len;
    if (!mtr_detokenizer_push(&o->detokenizer, token->id, &o->held, err))
        return false;
    o->offset += (uint32_t)(o->held.len - before);
    if (o->held.len > before && !note_special(o, token->id))
        return no_memory(err);
    if (token->prompt)
        ok = emit_text(o, o->held.len, emit, context);
    else if (o->held.len > before)
        ok = settle(o, emit, context);
    return ok || no_memory(err);
}

/* A limit may fall into a character: what there is of it is no text. A model that ends in the
 * middle of one has said so, and U+FFFD stands for it. */
static void drop_cut_character(struct mtr_output *o, size_t from)
{
    static const struct mtr_str broken = {"\xef\xbf\xbd", 3};
    while (o->held.len >= from + broken.len && mtr_str_ends(mtr_buf_view(&o->held), broken))
        o->held.len -= broken.len;
}

bool mtr_output_finish(struct mtr_output *o, enum mtr_end finish, mtr_emit emit, void *context,
                       struct mtr_error *err)
{
    if (o->stopped)
        return true;
    size_t from = o->held.len;
    if (!mtr_detokenizer_flush(&o->detokenizer, &o->held, err))
        return false;
    if (finish == MTR_END_LENGTH)
        drop_cut_character(o, from);
    if (!settle(o, emit, context))
        return no_memory(err);
    if (o->stopped)
        return true;
    return (emit_text(o, o->held.len, emit, context) &&
            emit_finish(o, finish, (struct mtr_str){0}, emit, context)) ||
           no_memory(err);
}
