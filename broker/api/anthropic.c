/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/messages, the answer.
 *
 * An answer is a row of blocks: thinking, text, tool_use. Both writers see the same events and make
 * the same blocks; a change of kind ends one block and begins the next. Streamed, a block is
 * content_block_start, its deltas, content_block_stop; before the first stands message_start, which
 * waits for the first event, because only then is it known what of the prompt was cached; or for
 * the first ping, where the prompt takes long.
 *
 * A thinking block carries a signature, as clients send it back and expect one; it is a hash of the
 * text and promises nothing.
 */
#include "broker/api/anthropic.h"

#include <stdio.h>
#include <string.h>

#include "common/base/hash.h"

enum block { NO_BLOCK, TEXT_BLOCK, THINKING_BLOCK, TOOL_BLOCK };

struct message_answer {
    struct mtr_answer base;
    enum block open;
    uint32_t index; /* of the open block */
    bool started;   /* message_start is out */
    bool hide_thinking;
    uint64_t thought; /* hash of the open thinking block */
    enum mtr_end end;
    struct mtr_str stop;
    struct mtr_buf content;   /* not streamed: the blocks so far, as JSON */
    struct mtr_buf text;      /* not streamed: of the open block */
    struct mtr_buf tool_head; /* not streamed: {"type":"tool_use","id":..,"name":.. */
};

/* ---- Errors -----------------------------------------------------------------------------------
 */

static const struct {
    int status;
    const char *type;
} error_types[] = {
    {400, "invalid_request_error"}, {401, "authentication_error"},
    {403, "permission_error"},      {404, "not_found_error"},
    {405, "invalid_request_error"}, {413, "request_too_large"},
    {429, "rate_limit_error"},      {500, "api_error"},
    {504, "timeout_error"},         {529, "overloaded_error"},
};

int mtr_anthropic_status(const struct mtr_error *err)
{
    int status = mtr_http_status(err);
    return status == 503 ? 529 : status;
}

void mtr_anthropic_error_as(int status, const struct mtr_error *err, struct mtr_str request_id,
                            struct mtr_buf *out)
{
    const char *type = status < 500 ? "invalid_request_error" : "api_error";
    for (size_t i = 0; i < sizeof error_types / sizeof error_types[0]; i++)
        if (error_types[i].status == status)
            type = error_types[i].type;
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "type");
    mtr_json_put_cstr(&w, "error");
    mtr_json_key(&w, "error");
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "type");
    mtr_json_put_cstr(&w, type);
    mtr_json_key(&w, "message");
    mtr_json_put_cstr(&w, err->message);
    mtr_json_end_object(&w);
    mtr_json_key(&w, "request_id");
    if (request_id.len)
        mtr_json_put_str(&w, request_id);
    else
        mtr_json_put_null(&w);
    mtr_json_end_object(&w);
}

static void put_error(const struct mtr_error *err, struct mtr_buf *out)
{
    mtr_anthropic_error_as(mtr_anthropic_status(err), err, (struct mtr_str){0}, out);
}

static void put_stream_error(const struct mtr_error *err, struct mtr_buf *out)
{
    mtr_buf_puts(out, "event: error\ndata: ");
    put_error(err, out);
    mtr_buf_puts(out, "\n\n");
}

/* ---- Parts of a message -----------------------------------------------------------------------
 */

/* What came from the cache is not counted as input a second time. */
static void put_usage(struct mtr_json_writer *w, const struct mtr_usage *u)
{
    mtr_json_begin_object(w);
    mtr_json_key(w, "input_tokens");
    mtr_json_put_u64(w, u->prompt_tokens - u->cached_tokens);
    mtr_json_key(w, "cache_creation_input_tokens");
    mtr_json_put_u64(w, 0);
    mtr_json_key(w, "cache_read_input_tokens");
    mtr_json_put_u64(w, u->cached_tokens);
    mtr_json_key(w, "output_tokens");
    mtr_json_put_u64(w, u->completion_tokens);
    mtr_json_key(w, "output_tokens_details");
    mtr_json_begin_object(w);
    mtr_json_key(w, "thinking_tokens");
    mtr_json_put_u64(w, u->reasoning_tokens);
    mtr_json_end_object(w);
    mtr_json_end_object(w);
}

static void put_head(struct mtr_json_writer *w, const struct mtr_answer *e)
{
    char id[80];
    snprintf(id, sizeof id, "msg_%.*s", MTR_STR_ARG(e->head.id));
    mtr_json_key(w, "id");
    mtr_json_put_cstr(w, id);
    mtr_json_key(w, "type");
    mtr_json_put_cstr(w, "message");
    mtr_json_key(w, "role");
    mtr_json_put_cstr(w, "assistant");
    mtr_json_key(w, "model");
    mtr_json_put_str(w, e->head.model);
}

static const char *stop_reason(const struct message_answer *m)
{
    switch (m->end) {
    case MTR_END_LENGTH:
        return "max_tokens";
    case MTR_END_TOOLS:
        return "tool_use";
    default:
        return m->stop.len ? "stop_sequence" : "end_turn";
    }
}

static void put_stop(struct mtr_json_writer *w, const struct message_answer *m)
{
    mtr_json_key(w, "stop_reason");
    if (m->end == MTR_END_NONE)
        mtr_json_put_null(w);
    else
        mtr_json_put_cstr(w, stop_reason(m));
    mtr_json_key(w, "stop_sequence");
    if (m->stop.len)
        mtr_json_put_str(w, m->stop);
    else
        mtr_json_put_null(w);
}

static void take_finish(struct message_answer *m, const struct mtr_out_event *ev)
{
    m->end = ev->finish;
    m->stop = mtr_arena_str(m->base.arena, ev->stop);
    m->base.failed |= ev->stop.len && !m->stop.ptr;
}

static void put_signature(const struct message_answer *m, struct mtr_buf *out)
{
    mtr_buf_printf(out, "\"%016llx%016llx\"", (unsigned long long)m->thought,
                   (unsigned long long)mtr_mix64(m->thought));
}

static void put_tool_id(const struct mtr_out_event *ev, struct mtr_buf *out)
{
    mtr_buf_puts(out, "\"toolu_");
    mtr_buf_str(out, ev->tool_id);
    mtr_buf_byte(out, '"');
}

static enum block block_of(enum mtr_event_kind kind)
{
    return kind == MTR_EVENT_REASONING ? THINKING_BLOCK : TEXT_BLOCK;
}

static void count_thought(struct message_answer *m, struct mtr_str text)
{
    m->thought = mtr_hash64(text.ptr, text.len, m->thought);
}

/* ---- Streamed ---------------------------------------------------------------------------------
 */

static void put_start(struct message_answer *m, struct mtr_buf *out)
{
    if (m->started)
        return;
    m->started = true;
    mtr_buf_puts(out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_head(&w, &m->base);
    mtr_json_key(&w, "content");
    mtr_json_begin_array(&w);
    mtr_json_end_array(&w);
    mtr_json_key(&w, "stop_reason");
    mtr_json_put_null(&w);
    mtr_json_key(&w, "stop_sequence");
    mtr_json_put_null(&w);
    mtr_json_key(&w, "usage");
    struct mtr_usage sofar = m->base.usage ? *m->base.usage : (struct mtr_usage){0};
    put_usage(&w, &sofar);
    mtr_json_end_object(&w);
    mtr_buf_puts(out, "}\n\n");
}

static void put_ping(struct mtr_answer *e, struct mtr_buf *out)
{
    put_start((struct message_answer *)e, out);
    mtr_buf_puts(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void begin_delta(const struct message_answer *m, const char *delta, struct mtr_buf *out)
{
    mtr_buf_printf(out,
                   "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"
                   "%u,\"delta\":{\"type\":%s",
                   m->index, delta);
}

static void close_block(struct message_answer *m, struct mtr_buf *out)
{
    if (m->open == NO_BLOCK)
        return;
    if (m->open == THINKING_BLOCK) {
        begin_delta(m, "\"signature_delta\",\"signature\":", out);
        put_signature(m, out);
        mtr_buf_puts(out, "}}\n\n");
    }
    mtr_buf_printf(out,
                   "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%u}"
                   "\n\n",
                   m->index);
    m->open = NO_BLOCK;
    m->index++;
}

static void open_block(struct message_answer *m, enum block kind, struct mtr_buf *out)
{
    close_block(m, out);
    m->open = kind;
    m->thought = 0;
    mtr_buf_printf(out,
                   "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"
                   "%u,\"content_block\":",
                   m->index);
}

static void stream_text(struct message_answer *m, const struct mtr_out_event *ev,
                        struct mtr_buf *out)
{
    enum block kind = block_of(ev->kind);
    bool thinking = kind == THINKING_BLOCK;
    if (ev->text.len == 0)
        return;
    if (m->open != kind) {
        open_block(m, kind, out);
        mtr_buf_puts(out, thinking ? "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}"
                                   : "{\"type\":\"text\",\"text\":\"\"}");
        mtr_buf_puts(out, "}\n\n");
    }
    if (thinking)
        count_thought(m, ev->text);
    if (thinking && m->hide_thinking)
        return;
    begin_delta(m, thinking ? "\"thinking_delta\",\"thinking\":" : "\"text_delta\",\"text\":", out);
    mtr_json_escape(out, ev->text);
    mtr_buf_puts(out, "}}\n\n");
}

static void stream_tool(struct message_answer *m, const struct mtr_out_event *ev,
                        struct mtr_buf *out)
{
    open_block(m, TOOL_BLOCK, out);
    mtr_buf_puts(out, "{\"type\":\"tool_use\",\"id\":");
    put_tool_id(ev, out);
    mtr_buf_puts(out, ",\"name\":");
    mtr_json_escape(out, ev->tool_name);
    mtr_buf_puts(out, ",\"input\":{}}}\n\n");
}

static void stream_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    struct message_answer *m = (struct message_answer *)e;
    if (ev->kind == MTR_EVENT_ERROR) {
        put_stream_error(ev->error, out);
        return;
    }
    put_start(m, out);
    switch (ev->kind) {
    case MTR_EVENT_TEXT:
    case MTR_EVENT_REASONING:
        stream_text(m, ev, out);
        break;
    case MTR_EVENT_TOOL_BEGIN:
        stream_tool(m, ev, out);
        break;
    case MTR_EVENT_TOOL_ARGUMENTS:
        begin_delta(m, "\"input_json_delta\",\"partial_json\":", out);
        mtr_json_escape(out, ev->text);
        mtr_buf_puts(out, "}}\n\n");
        break;
    case MTR_EVENT_TOOL_END:
        close_block(m, out);
        break;
    case MTR_EVENT_FINISH:
        close_block(m, out);
        take_finish(m, ev);
        break;
    case MTR_EVENT_ERROR:
        break;
    }
}

static void stream_begin(struct mtr_answer *e, struct mtr_buf *out)
{
}

static void stream_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    struct message_answer *m = (struct message_answer *)e;
    put_start(m, out);
    mtr_buf_puts(out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":");
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_stop(&w, m);
    mtr_json_end_object(&w);
    mtr_buf_puts(out, ",\"usage\":");
    w = mtr_json_writer(out);
    put_usage(&w, usage);
    mtr_buf_puts(out, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

/* ---- Not streamed -----------------------------------------------------------------------------
 */

/* Ends the open block: what was collected becomes its JSON. */
static void keep_block(struct message_answer *m)
{
    struct mtr_buf *out = &m->content;
    if (m->open == NO_BLOCK)
        return;
    if (out->len)
        mtr_buf_byte(out, ',');
    if (m->open == TOOL_BLOCK) {
        mtr_buf_str(out, mtr_buf_view(&m->tool_head));
        mtr_buf_str(out, m->text.len ? mtr_buf_view(&m->text) : MTR_STR("{}"));
    } else if (m->open == THINKING_BLOCK) {
        mtr_buf_puts(out, "{\"type\":\"thinking\",\"thinking\":");
        mtr_json_escape(out, m->hide_thinking ? MTR_STR("") : mtr_buf_view(&m->text));
        mtr_buf_puts(out, ",\"signature\":");
        put_signature(m, out);
    } else {
        mtr_buf_puts(out, "{\"type\":\"text\",\"text\":");
        mtr_json_escape(out, mtr_buf_view(&m->text));
    }
    mtr_buf_byte(out, '}');
    m->base.failed |= m->text.failed || m->tool_head.failed || out->failed;
    mtr_buf_clear(&m->text);
    mtr_buf_clear(&m->tool_head);
    m->open = NO_BLOCK;
    m->index++;
}

static void whole_text(struct message_answer *m, const struct mtr_out_event *ev)
{
    enum block kind = block_of(ev->kind);
    if (ev->text.len == 0)
        return;
    if (m->open != kind) {
        keep_block(m);
        m->open = kind;
        m->thought = 0;
    }
    if (kind == THINKING_BLOCK)
        count_thought(m, ev->text);
    mtr_buf_str(&m->text, ev->text);
}

static void whole_tool(struct message_answer *m, const struct mtr_out_event *ev)
{
    keep_block(m);
    m->open = TOOL_BLOCK;
    mtr_buf_puts(&m->tool_head, "{\"type\":\"tool_use\",\"id\":");
    put_tool_id(ev, &m->tool_head);
    mtr_buf_puts(&m->tool_head, ",\"name\":");
    mtr_json_escape(&m->tool_head, ev->tool_name);
    mtr_buf_puts(&m->tool_head, ",\"input\":");
}

static void whole_begin(struct mtr_answer *e, struct mtr_buf *out)
{
}

static void whole_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    struct message_answer *m = (struct message_answer *)e;
    switch (ev->kind) {
    case MTR_EVENT_TEXT:
    case MTR_EVENT_REASONING:
        whole_text(m, ev);
        break;
    case MTR_EVENT_TOOL_BEGIN:
        whole_tool(m, ev);
        break;
    case MTR_EVENT_TOOL_ARGUMENTS:
        mtr_buf_str(&m->text, ev->text);
        break;
    case MTR_EVENT_TOOL_END:
        keep_block(m);
        break;
    case MTR_EVENT_FINISH:
        keep_block(m);
        take_finish(m, ev);
        break;
    case MTR_EVENT_ERROR:
        break;
    }
}

static void whole_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    struct message_answer *m = (struct message_answer *)e;
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_head(&w, e);
    mtr_json_key(&w, "content");
    mtr_json_begin_array(&w);
    if (m->content.len)
        mtr_json_put_raw(&w, mtr_buf_view(&m->content));
    mtr_json_end_array(&w);
    put_stop(&w, m);
    mtr_json_key(&w, "usage");
    put_usage(&w, usage);
    mtr_json_end_object(&w);
}

static void release(struct mtr_answer *e)
{
    struct message_answer *m = (struct message_answer *)e;
    mtr_buf_free(&m->content);
    mtr_buf_free(&m->text);
    mtr_buf_free(&m->tool_head);
}

static const struct mtr_answer_ops stream_ops = {.begin = stream_begin,
                                                 .event = stream_event,
                                                 .end = stream_end,
                                                 .release = release,
                                                 .ping = put_ping};
static const struct mtr_answer_ops whole_ops = {
    .begin = whole_begin, .event = whole_event, .end = whole_end, .release = release};

static struct mtr_answer *messages_answer(const struct mtr_chat_request *r,
                                          const struct mtr_answer_head *head)
{
    const struct mtr_anthropic_request *own = r->own;
    struct message_answer *m = mtr_arena_calloc(r->arena, 1, sizeof *m);
    if (!m)
        return NULL;
    m->hide_thinking = own && own->hide_thinking;
    m->base = (struct mtr_answer){.ops = r->stream ? &stream_ops : &whole_ops,
                                  .request = r,
                                  .head = *head,
                                  .arena = r->arena};
    return &m->base;
}

const struct mtr_protocol *mtr_anthropic_messages(void)
{
    static const struct mtr_protocol protocol = {
        .name = "messages",
        .parse = mtr_anthropic_parse,
        .answer = messages_answer,
        .error = put_error,
        .stream_error = put_stream_error,
        .status = mtr_anthropic_status,
        .error_as = mtr_anthropic_error_as,
    };
    return &protocol;
}
