/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/responses, the answer.
 *
 * An answer is a row of items: reasoning, messages, function calls. Both writers collect them; the
 * streaming one also tells of each step: response.created, response.in_progress, then for each item
 * output_item.added, its parts and their deltas, output_item.done, and at last the whole response
 * in response.completed, .incomplete or .failed. Every event has the next sequence number, and
 * names its item by id and by output index.
 *
 * The response object's echo of the request is written once, at the beginning. When the answer ends
 * it goes into the store, with its items, before the client hears of it.
 */
#include "broker/api/response_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/api/openai.h"
#include "common/base/clock.h"

/* ---- Events -----------------------------------------------------------------------------------
 */

/* "event: NAME\ndata: {"type":NAME, ..." and then members, up to end_event. */
static void begin_event(struct mtr_response_answer *a, const char *name, struct mtr_buf *out)
{
    mtr_buf_printf(out,
                   "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_number\":%llu,",
                   name, name, (unsigned long long)a->sequence++);
}

static void end_event(struct mtr_buf *out)
{
    mtr_buf_puts(out, "}\n\n");
}

static void response_event(struct mtr_response_answer *a, const char *name, const char *status,
                           const struct mtr_usage *usage, struct mtr_buf *out)
{
    begin_event(a, name, out);
    mtr_buf_puts(out, "\"response\":");
    mtr_put_response(a, status, usage, out);
    end_event(out);
}

static void put_place(const struct mtr_response_answer *a, const struct mtr_response_item *it,
                      struct mtr_buf *out)
{
    mtr_buf_printf(out, "\"item_id\":\"%s\",\"output_index\":%u", it->id, a->count - 1);
}

static void item_event(struct mtr_response_answer *a, const char *name, bool begun,
                       struct mtr_buf *out)
{
    begin_event(a, name, out);
    mtr_buf_printf(out, "\"output_index\":%u,\"item\":", a->count - 1);
    mtr_put_item(a, mtr_last_item(a), begun, out);
    end_event(out);
}

static const char *part_index(const struct mtr_response_answer *a,
                              const struct mtr_response_item *it)
{
    return it->kind == REASONING && a->own->summary ? "summary_index" : "content_index";
}

static void part_event(struct mtr_response_answer *a, bool begun, struct mtr_buf *out)
{
    static const char *const names[2][2] = {
        {"content_part.done", "content_part.added"},
        {"reasoning_summary_part.done", "reasoning_summary_part.added"}};
    const struct mtr_response_item *it = mtr_last_item(a);
    bool summary = it->kind == REASONING && a->own->summary;
    begin_event(a, names[summary][begun], out);
    put_place(a, it, out);
    mtr_buf_printf(out, ",\"%s\":0,\"part\":", part_index(a, it));
    if (it->kind == MESSAGE) {
        mtr_put_text_part(it, begun, out);
    } else {
        mtr_buf_printf(out, "{\"type\":\"%s\",", summary ? "summary_text" : "reasoning_text");
        mtr_put_pair(out, "text", begun ? MTR_STR("") : mtr_buf_view(&it->text));
        mtr_buf_byte(out, '}');
    }
    end_event(out);
}

/* What a delta and a done of the open item are called. */
static const char *text_name(const struct mtr_response_answer *a,
                             const struct mtr_response_item *it)
{
    if (it->kind == MESSAGE)
        return "output_text";
    if (it->kind == CALL)
        return "function_call_arguments";
    return a->own->summary ? "reasoning_summary_text" : "reasoning_text";
}

/* Deltas come a token each: all but sequence number and text is written once for the item. */
static void make_delta_head(struct mtr_response_answer *a)
{
    const struct mtr_response_item *it = mtr_last_item(a);
    struct mtr_buf head = {0};
    mtr_buf_printf(&head, "event: response.%s.delta\ndata: {\"type\":\"response.%s.delta\",",
                   text_name(a, it), text_name(a, it));
    put_place(a, it, &head);
    if (it->kind != CALL)
        mtr_buf_printf(&head, ",\"%s\":0", part_index(a, it));
    mtr_buf_puts(&head, ",\"sequence_number\":");
    a->delta_head =
        head.failed ? (struct mtr_str){0} : mtr_arena_str(a->base.arena, mtr_buf_view(&head));
    a->base.failed |= !a->delta_head.ptr;
    mtr_buf_free(&head);
}

static void delta_event(struct mtr_response_answer *a, struct mtr_str text, struct mtr_str logprobs,
                        struct mtr_buf *out)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_buf_str(out, a->delta_head);
    mtr_json_put_u64(&w, a->sequence++);
    mtr_buf_puts(out, ",\"delta\":");
    mtr_json_escape(out, text);
    if (mtr_last_item(a)->kind == MESSAGE) {
        mtr_buf_puts(out, ",\"logprobs\":[");
        mtr_buf_str(out, logprobs);
        mtr_buf_byte(out, ']');
    }
    end_event(out);
}

static void text_done_event(struct mtr_response_answer *a, struct mtr_buf *out)
{
    char name[48];
    const struct mtr_response_item *it = mtr_last_item(a);
    snprintf(name, sizeof name, "%s.done", text_name(a, it));
    begin_event(a, name, out);
    put_place(a, it, out);
    if (it->kind != CALL)
        mtr_buf_printf(out, ",\"%s\":0", part_index(a, it));
    mtr_buf_byte(out, ',');
    mtr_put_pair(out, it->kind == CALL ? "arguments" : "text", mtr_buf_view(&it->text));
    if (it->kind == CALL) {
        mtr_buf_byte(out, ',');
        mtr_put_pair(out, "name", mtr_buf_view(&it->name));
    } else if (it->kind == MESSAGE) {
        mtr_buf_puts(out, ",\"logprobs\":[");
        mtr_buf_str(out, mtr_buf_view(&it->logprobs));
        mtr_buf_byte(out, ']');
    }
    end_event(out);
}

/* ---- Collecting -------------------------------------------------------------------------------
 */

static void close_item(struct mtr_response_answer *a, bool cut, struct mtr_buf *out)
{
    struct mtr_response_item *it = mtr_last_item(a);
    if (!a->open)
        return;
    a->open = false;
    it->cut = cut;
    if (it->kind == CALL && it->text.len == 0)
        mtr_buf_puts(&it->text, "{}");
    if (!a->base.request->stream)
        return;
    text_done_event(a, out);
    if (it->kind != CALL)
        part_event(a, false, out);
    item_event(a, "output_item.done", false, out);
}

static struct mtr_response_item *open_item(struct mtr_response_answer *a,
                                           enum mtr_response_item_kind kind)
{
    static const char *const prefixes[] = {[MESSAGE] = "msg", [REASONING] = "rs", [CALL] = "fc"};
    if (!mtr_grow((void **)&a->items, &a->cap, a->count + 1ul, sizeof *a->items)) {
        a->base.failed = true;
        return NULL;
    }
    struct mtr_response_item *it = &a->items[a->count++];
    *it = (struct mtr_response_item){.kind = kind};
    snprintf(it->id, sizeof it->id, "%s_%.*so%x", prefixes[kind], MTR_STR_ARG(a->base.head.id),
             a->count - 1);
    a->open = true;
    return it;
}

static void tell_open(struct mtr_response_answer *a, struct mtr_buf *out)
{
    if (!a->base.request->stream)
        return;
    item_event(a, "output_item.added", true, out);
    if (mtr_last_item(a)->kind != CALL)
        part_event(a, true, out);
    make_delta_head(a);
}

static void put_bytes(struct mtr_buf *out, struct mtr_str bytes)
{
    mtr_buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < bytes.len; i++)
        mtr_buf_printf(out, i ? ",%u" : "%u", (uint8_t)bytes.ptr[i]);
    mtr_buf_byte(out, ']');
}

static void put_scored(struct mtr_buf *out, struct mtr_str bytes, float logprob)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_buf_puts(out, "{\"token\":");
    mtr_json_escape(out, bytes);
    mtr_buf_puts(out, ",\"logprob\":");
    mtr_json_put_f64(&w, logprob);
    put_bytes(out, bytes);
}

static void put_logprobs(struct mtr_buf *out, const struct mtr_out_event *ev)
{
    for (uint32_t i = 0; i < ev->token_count; i++) {
        const struct mtr_event_token *t = &ev->tokens[i];
        if (i)
            mtr_buf_byte(out, ',');
        put_scored(out, t->bytes, t->logprob);
        mtr_buf_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < t->top_count; k++) {
            if (k)
                mtr_buf_byte(out, ',');
            put_scored(out, t->top[k].bytes, t->top[k].logprob);
            mtr_buf_byte(out, '}');
        }
        mtr_buf_puts(out, "]}");
    }
}

static void on_text(struct mtr_response_answer *a, const struct mtr_out_event *ev,
                    struct mtr_buf *out)
{
    enum mtr_response_item_kind kind = ev->kind == MTR_EVENT_REASONING ? REASONING : MESSAGE;
    bool scored = kind == MESSAGE && a->base.request->logprobs && ev->token_count;
    struct mtr_buf logprobs = {0};
    if (ev->text.len == 0 && !scored)
        return;
    if (!a->open || mtr_last_item(a)->kind != kind) {
        close_item(a, false, out);
        if (!open_item(a, kind))
            return;
        tell_open(a, out);
    }
    struct mtr_response_item *it = mtr_last_item(a);
    mtr_buf_str(&it->text, ev->text);
    if (scored) {
        put_logprobs(&logprobs, ev);
        if (it->logprobs.len)
            mtr_buf_byte(&it->logprobs, ',');
        mtr_buf_str(&it->logprobs, mtr_buf_view(&logprobs));
    }
    if (a->base.request->stream)
        delta_event(a, ev->text, mtr_buf_view(&logprobs), out);
    a->base.failed |= it->text.failed || it->logprobs.failed || logprobs.failed;
    mtr_buf_free(&logprobs);
}

static void on_tool(struct mtr_response_answer *a, const struct mtr_out_event *ev,
                    struct mtr_buf *out)
{
    close_item(a, false, out);
    struct mtr_response_item *it = open_item(a, CALL);
    if (!it)
        return;
    mtr_buf_str(&it->call_id, ev->tool_id);
    mtr_buf_str(&it->name, ev->tool_name);
    a->base.failed |= it->call_id.failed || it->name.failed;
    tell_open(a, out);
}

static void on_arguments(struct mtr_response_answer *a, const struct mtr_out_event *ev,
                         struct mtr_buf *out)
{
    struct mtr_response_item *it = mtr_last_item(a);
    if (!it || it->kind != CALL)
        return;
    mtr_buf_str(&it->text, ev->text);
    a->base.failed |= it->text.failed;
    if (a->base.request->stream)
        delta_event(a, ev->text, (struct mtr_str){0}, out);
}

/* ---- The writer -------------------------------------------------------------------------------
 */

static void begin(struct mtr_answer *e, struct mtr_buf *out)
{
    struct mtr_response_answer *a = (struct mtr_response_answer *)e;
    bool background = e->request->background;
    if (background)
        mtr_response_keep_begun(a);
    if (e->request->stream) {
        response_event(a, "created", background ? "queued" : "in_progress", NULL, out);
        if (background)
            response_event(a, "queued", "queued", NULL, out);
        response_event(a, "in_progress", "in_progress", NULL, out);
    } else if (background) {
        mtr_put_response(a, "queued", NULL, out);
    }
}

static void fail(struct mtr_response_answer *a, const struct mtr_error *error, struct mtr_buf *out)
{
    static const struct mtr_usage nothing;
    const struct mtr_usage *usage = a->base.usage ? a->base.usage : &nothing;
    a->error = error;
    close_item(a, true, out);
    mtr_response_keep(a, "failed", usage);
    if (a->base.request->stream)
        response_event(a, "failed", "failed", usage, out);
    a->error = NULL;
}

static void event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    struct mtr_response_answer *a = (struct mtr_response_answer *)e;
    switch (ev->kind) {
    case MTR_EVENT_TEXT:
    case MTR_EVENT_REASONING:
        on_text(a, ev, out);
        break;
    case MTR_EVENT_TOOL_BEGIN:
        on_tool(a, ev, out);
        break;
    case MTR_EVENT_TOOL_ARGUMENTS:
        on_arguments(a, ev, out);
        break;
    case MTR_EVENT_TOOL_END:
        close_item(a, false, out);
        break;
    case MTR_EVENT_FINISH:
        a->end = ev->finish;
        close_item(a, ev->finish == MTR_END_LENGTH, out);
        break;
    case MTR_EVENT_ERROR:
        fail(a, ev->error, out);
        break;
    }
}

static void end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    struct mtr_response_answer *a = (struct mtr_response_answer *)e;
    const char *status = a->end == MTR_END_LENGTH ? "incomplete" : "completed";
    a->completed = mtr_wall_seconds();
    mtr_response_keep(a, status, usage);
    if (e->request->stream)
        response_event(a, status, status, usage, out);
    else
        mtr_put_response(a, status, usage, out);
}

static void release(struct mtr_answer *e)
{
    struct mtr_response_answer *a = (struct mtr_response_answer *)e;
    for (uint32_t i = 0; i < a->count; i++) {
        mtr_buf_free(&a->items[i].text);
        mtr_buf_free(&a->items[i].logprobs);
        mtr_buf_free(&a->items[i].call_id);
        mtr_buf_free(&a->items[i].name);
    }
    free(a->items);
}

static struct mtr_answer *responses_answer(const struct mtr_chat_request *r,
                                           const struct mtr_answer_head *head)
{
    static const struct mtr_answer_ops ops = {
        .begin = begin, .event = event, .end = end, .release = release};
    struct mtr_response_answer *a = mtr_arena_calloc(r->arena, 1, sizeof *a);
    if (!a)
        return NULL;
    a->own = r->own;
    a->base = (struct mtr_answer){.ops = &ops, .request = r, .head = *head, .arena = r->arena};
    snprintf(a->id, sizeof a->id, "resp_%.*s", MTR_STR_ARG(head->id));
    return mtr_response_echo(a) ? &a->base : NULL;
}

/* Before a response has begun there is none that could have failed. */
static void stream_error(const struct mtr_error *err, struct mtr_buf *out)
{
    mtr_buf_puts(out,
                 "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":null,");
    mtr_put_pair(out, "message", mtr_str(err->message));
    mtr_buf_puts(out, ",\"param\":");
    if (err->field[0])
        mtr_json_escape(out, mtr_str(err->field));
    else
        mtr_buf_puts(out, "null");
    end_event(out);
}

const struct mtr_protocol *mtr_openai_responses(void)
{
    static const struct mtr_protocol protocol = {.name = "responses",
                                                 .parse = mtr_responses_parse,
                                                 .answer = responses_answer,
                                                 .error = mtr_openai_error,
                                                 .stream_error = stream_error};
    return &protocol;
}
