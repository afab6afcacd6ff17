/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/chat/completions.
 *
 * Streamed and unstreamed answers come from the same events: the streaming encoder writes a chunk
 * an event, the other collects each choice's text and log-probabilities and writes one object at
 * the end.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/build.h"
#include "broker/api/fields.h"
#include "broker/api/openai.h"
#include "broker/api/openai_chat_tools.h"
#include "broker/api/tools.h"
#include "broker/api/stored.h"

#define MAX_MESSAGES 65536

/* ---- Request ----------------------------------------------------------------------------------
 */

/* Roles that chat templates know; "developer" is what newer clients call "system". */
static const char *template_role(struct mtr_str role)
{
    static const char *const roles[] = {"system", "user",      "assistant",
                                        "tool",   "developer", "function"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (mtr_str_is(role, roles[i]))
            return strcmp(roles[i], "developer") == 0 ? "system" : roles[i];
    return NULL;
}

/* Joins the text parts of a content array with newlines, as templates expect one string. */
static bool flatten_parts(struct mtr_chat_request *r, const struct mtr_json *parts,
                          const char *field, struct mtr_json *out, struct mtr_error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct mtr_json *type = mtr_json_get(&parts->items[i], "type");
        const struct mtr_json *text = mtr_json_get(&parts->items[i], "text");
        if (!type || type->kind != MTR_JSON_STRING)
            return mtr_fail_field(err, MTR_INVALID, field, "%s[%u] has no 'type'", field, i);
        if (!mtr_str_is(type->text, "text"))
            return mtr_fail_field(err, MTR_UNSUPPORTED, field,
                                  "%s[%u] is of type '%.*s'; this model takes text only", field, i,
                                  (int)(type->text.len < 40 ? type->text.len : 40), type->text.ptr);
        if (!text || text->kind != MTR_JSON_STRING)
            return mtr_fail_field(err, MTR_INVALID, field, "%s[%u].text must be a string", field,
                                  i);
        bytes += text->text.len + 1;
    }
    char *joined = mtr_arena_alloc(r->arena, bytes + 1);
    if (!joined)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading %s", field);
    size_t len = 0;
    for (uint32_t i = 0; i < parts->count; i++) {
        struct mtr_str text = mtr_json_get(&parts->items[i], "text")->text;
        if (i)
            joined[len++] = '\n';
        if (text.len)
            memcpy(joined + len, text.ptr, text.len);
        len += text.len;
    }
    *out = (struct mtr_json){.kind = MTR_JSON_STRING, .text = {joined, len}};
    return true;
}

/* Members of known meaning; others are the template's. */
static bool check_known(const struct mtr_json *m, const char *field, struct mtr_error *err)
{
    static const struct mtr_member known[] = {
        {"name", MTR_IS(STRING)},       {"tool_call_id", MTR_IS(STRING)},
        {"refusal", MTR_IS(STRING)},    {"reasoning_content", MTR_IS(STRING)},
        {"reasoning", MTR_IS(STRING)},  {"tool_calls", MTR_IS(ARRAY)},
        {"annotations", MTR_IS(ARRAY)}, {"audio", MTR_IS(NULL)},
        {"function_call", MTR_IS(NULL)}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const struct mtr_json *v = mtr_json_get(m, known[i].name);
        if (!v || v->kind == MTR_JSON_NULL || (known[i].kinds & 1u << v->kind))
            continue;
        if (known[i].kinds == MTR_IS(NULL))
            return mtr_fail_field(err, MTR_UNSUPPORTED, field, "%s.%s is not supported", field,
                                  known[i].name);
        return mtr_fail_field(err, MTR_INVALID, field, "%s.%s can't be %s", field, known[i].name,
                              mtr_json_kind_name(v));
    }
    return true;
}

/* One message with its role and content in the form that templates take. */
static bool read_message(struct mtr_chat_request *r, const struct mtr_json *m, uint32_t index,
                         struct mtr_json *out, struct mtr_error *err)
{
    char field[48];
    snprintf(field, sizeof field, "messages[%u]", index);
    if (m->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, field, "%s must be an object, not %s", field,
                              mtr_json_kind_name(m));
    const struct mtr_json *role = mtr_json_get(m, "role");
    if (!role || role->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, field, "%s has no 'role'", field);
    if (!check_known(m, field, err))
        return false;
    const char *name = template_role(role->text);
    if (!name)
        return mtr_fail_field(err, MTR_INVALID, field,
                              "%s has the role '%.*s'; it must be one of system, developer, user, "
                              "assistant, tool",
                              field, (int)(role->text.len < 40 ? role->text.len : 40),
                              role->text.ptr);
    const struct mtr_json *content = mtr_json_get(m, "content");
    bool absent = !content || content->kind == MTR_JSON_NULL;
    if (absent && (strcmp(name, "assistant") != 0 || !mtr_json_get(m, "tool_calls")))
        return mtr_fail_field(err, MTR_INVALID, field, "%s has no 'content'", field);

    struct mtr_json_member *members = mtr_arena_calloc(r->arena, m->count + 1, sizeof *members);
    if (!members)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading messages");
    snprintf(field, sizeof field, "messages[%u].content", index);
    for (uint32_t i = 0; i < m->count; i++) {
        members[i] = m->members[i];
        if (mtr_str_is(members[i].key, "role")) {
            members[i].value = (struct mtr_json){.kind = MTR_JSON_STRING, .text = mtr_str(name)};
        } else if (mtr_str_is(members[i].key, "tool_calls")) {
            char calls[56];
            snprintf(calls, sizeof calls, "messages[%u].tool_calls", index);
            if (!mtr_chat_read_calls(r->arena, &m->members[i].value, calls, &members[i].value, err))
                return false;
        } else if (mtr_str_is(members[i].key, "content") && !absent) {
            const struct mtr_json *v = &m->members[i].value;
            if (v->kind == MTR_JSON_ARRAY) {
                if (!flatten_parts(r, v, field, &members[i].value, err))
                    return false;
            } else if (v->kind != MTR_JSON_STRING) {
                return mtr_fail_field(err, MTR_INVALID, field,
                                      "%s must be a string or an array of parts, not %s", field,
                                      mtr_json_kind_name(v));
            }
        }
    }
    *out = (struct mtr_json){.kind = MTR_JSON_OBJECT, .count = m->count, .members = members};
    return true;
}

static bool f_messages(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "messages", "'messages' must be an array, not %s",
                              mtr_json_kind_name(v));
    if (v->count == 0)
        return mtr_fail_field(err, MTR_INVALID, "messages", "'messages' is empty");
    if (v->count > MAX_MESSAGES)
        return mtr_fail_field(err, MTR_TOO_LARGE, "messages",
                              "'messages' has %u entries, at most %d are allowed", v->count,
                              MAX_MESSAGES);
    struct mtr_json *items = mtr_arena_calloc(r->arena, v->count, sizeof *items);
    struct mtr_json *array = mtr_arena_calloc(r->arena, 1, sizeof *array);
    struct mtr_prompt *prompt = mtr_arena_calloc(r->arena, 1, sizeof *prompt);
    if (!items || !array || !prompt)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading messages");
    for (uint32_t i = 0; i < v->count; i++)
        if (!read_message(r, &v->items[i], i, &items[i], err))
            return false;
    *array = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = v->count, .items = items};
    r->messages = array;
    prompt->kind = MTR_PROMPT_CHAT;
    r->prompts = prompt;
    r->prompt_count = 1;
    return true;
}

static bool f_logprobs(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_BOOL)
        return mtr_fail_field(err, MTR_INVALID, "logprobs", "'logprobs' must be a boolean, not %s",
                              mtr_json_kind_name(v));
    r->logprobs = v->boolean;
    return true;
}

static bool f_top_logprobs(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > MTR_MAX_TOP_LOGPROBS)
        return mtr_fail_field(err, MTR_INVALID, "top_logprobs",
                              "'top_logprobs' must be an integer from 0 to %d",
                              MTR_MAX_TOP_LOGPROBS);
    r->top_logprobs = (uint32_t)v->integer;
    return true;
}

static bool f_template_kwargs(struct mtr_chat_request *r, const struct mtr_json *v,
                              struct mtr_error *err)
{
    static const char *const reserved[] = {"messages", "tools", "add_generation_prompt"};
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "chat_template_kwargs",
                              "'chat_template_kwargs' must be an object, not %s",
                              mtr_json_kind_name(v));
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (mtr_json_get(v, reserved[i]))
            return mtr_fail_field(err, MTR_INVALID, "chat_template_kwargs",
                                  "'chat_template_kwargs' may not set '%s'", reserved[i]);
    r->template_kwargs = v;
    return true;
}

static bool f_response_format(struct mtr_chat_request *r, const struct mtr_json *v,
                              struct mtr_error *err)
{
    const struct mtr_json *type = mtr_json_get(v, "type");
    if (type && type->kind == MTR_JSON_STRING && mtr_str_is(type->text, "text"))
        return true;
    return mtr_fail_field(err, MTR_UNSUPPORTED, "response_format",
                          "'response_format' can only be {\"type\": \"text\"}: constrained output "
                          "is not supported");
}

static bool f_modalities(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    bool text = v->kind == MTR_JSON_ARRAY && v->count == 1 && v->items[0].kind == MTR_JSON_STRING &&
                mtr_str_is(v->items[0].text, "text");
    return text || mtr_fail_field(err, MTR_UNSUPPORTED, "modalities",
                                  "'modalities' can only be [\"text\"]");
}

/* What the answer is thought to be: a way to make it sooner, that changes nothing of it. */
static bool f_prediction(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    const struct mtr_json *type = mtr_json_get(v, "type");
    return (type && type->kind == MTR_JSON_STRING && mtr_str_is(type->text, "content")) ||
           mtr_fail_field(err, MTR_INVALID, "prediction",
                          "'prediction' must be an object of type \"content\"");
}

static const struct mtr_field chat_fields[] = {
    {"messages", f_messages, NULL, NULL},
    {"logprobs", f_logprobs, NULL, NULL},
    {"top_logprobs", f_top_logprobs, NULL, NULL},
    {"chat_template_kwargs", f_template_kwargs, NULL, NULL},
    {"response_format", f_response_format, NULL, NULL},
    {"modalities", f_modalities, NULL, NULL},
    {"audio", NULL, "this model answers in text", NULL},
    {"prediction", f_prediction, NULL, NULL},
    {"verbosity", NULL, "this model has no verbosity setting", "\"medium\""},
    {"web_search_options", NULL, "this server does not search the web", NULL},
    {"store", mtr_read_store, NULL, NULL},
};

static bool parse_chat(struct mtr_chat_request *r, const struct mtr_json *body,
                       struct mtr_error *err)
{
    size_t common_count, tool_count;
    const struct mtr_field *tables[] = {chat_fields, mtr_chat_tool_fields(&tool_count),
                                        mtr_fields_common(&common_count)};
    size_t counts[] = {sizeof chat_fields / sizeof chat_fields[0], tool_count, common_count};
    if (!mtr_fields_read(r, body, tables, 3, counts, err))
        return false;
    if (!r->messages)
        return mtr_fail_field(err, MTR_INVALID, "messages", "the body has no 'messages'");
    if (r->top_logprobs && !r->logprobs)
        return mtr_fail_field(err, MTR_INVALID, "top_logprobs",
                              "'top_logprobs' needs 'logprobs': true");
    return mtr_tools_check(r, "tool_choice", err);
}

/* ---- Answer -----------------------------------------------------------------------------------
 */

struct chat_choice {
    struct mtr_buf text, reasoning;
    struct mtr_buf calls;    /* entries, comma separated */
    struct mtr_buf logprobs; /* likewise */
    enum mtr_end finish;
};

struct chat_answer {
    struct mtr_answer base;
    struct chat_choice *choices; /* [request->choices] */
    struct mtr_str chunk_head, chunk_tail;
};

static void put_head(struct mtr_json_writer *w, const struct mtr_answer *e, const char *object)
{
    mtr_json_key(w, "id");
    char id[80];
    snprintf(id, sizeof id, "chatcmpl-%.*s", MTR_STR_ARG(e->head.id));
    mtr_json_put_cstr(w, id);
    mtr_json_key(w, "object");
    mtr_json_put_cstr(w, object);
    mtr_json_key(w, "created");
    mtr_json_put_i64(w, e->head.created);
    mtr_json_key(w, "model");
    mtr_json_put_str(w, e->head.model);
    mtr_json_key(w, "system_fingerprint");
    mtr_json_put_cstr(w, "metrale-" MTR_VERSION);
}

static void put_bytes(struct mtr_json_writer *w, struct mtr_str bytes)
{
    mtr_json_begin_array(w);
    for (size_t i = 0; i < bytes.len; i++)
        mtr_json_put_u64(w, (uint8_t)bytes.ptr[i]);
    mtr_json_end_array(w);
}

static void put_scored(struct mtr_json_writer *w, struct mtr_str bytes, float logprob)
{
    mtr_json_key(w, "token");
    mtr_json_put_str(w, bytes);
    mtr_json_key(w, "logprob");
    mtr_json_put_f64(w, logprob);
    mtr_json_key(w, "bytes");
    put_bytes(w, bytes);
}

static void put_logprob_entries(struct mtr_json_writer *w, const struct mtr_out_event *ev)
{
    for (uint32_t i = 0; i < ev->token_count; i++) {
        const struct mtr_event_token *t = &ev->tokens[i];
        mtr_json_begin_object(w);
        put_scored(w, t->bytes, t->logprob);
        mtr_json_key(w, "top_logprobs");
        mtr_json_begin_array(w);
        for (uint32_t k = 0; k < t->top_count; k++) {
            mtr_json_begin_object(w);
            put_scored(w, t->top[k].bytes, t->top[k].logprob);
            mtr_json_end_object(w);
        }
        mtr_json_end_array(w);
        mtr_json_end_object(w);
    }
}

static void put_end(struct mtr_json_writer *w, enum mtr_end finish)
{
    if (finish == MTR_END_NONE)
        mtr_json_put_null(w);
    else
        mtr_json_put_cstr(w, mtr_openai_end(finish));
}

/* What of a streamed answer's chunks is always the same: everything before the choice's index, and
 * everything behind its finish reason. Written once, since chunks come a token each. */
static bool make_chunk_ends(struct chat_answer *chat)
{
    struct mtr_answer *e = &chat->base;
    struct mtr_buf text = {0};
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_openai_frame_begin(&text);
    mtr_json_begin_object(&w);
    put_head(&w, e, "chat.completion.chunk");
    mtr_json_key(&w, "choices");
    mtr_json_begin_array(&w);
    mtr_json_begin_object(&w);
    mtr_json_key(&w, "index");
    chat->chunk_head = mtr_arena_str(e->arena, mtr_buf_view(&text));
    chat->chunk_tail =
        e->request->include_usage ? MTR_STR("}],\"usage\":null}\n\n") : MTR_STR("}]}\n\n");
    bool ok = !text.failed && chat->chunk_head.ptr;
    mtr_buf_free(&text);
    return ok;
}

/* Role with the first one, then a piece of text or the finish reason. */
static void put_delta(const struct mtr_out_event *ev, bool role, struct mtr_buf *out)
{
    if (role) {
        mtr_buf_puts(out, "{\"role\":\"assistant\",\"content\":\"\"}");
    } else if (ev->kind == MTR_EVENT_TEXT || ev->kind == MTR_EVENT_REASONING) {
        mtr_buf_puts(out, ev->kind == MTR_EVENT_TEXT ? "{\"content\":" : "{\"reasoning_content\":");
        mtr_json_escape(out, ev->text);
        mtr_buf_byte(out, '}');
    } else if (ev->kind == MTR_EVENT_TOOL_BEGIN || ev->kind == MTR_EVENT_TOOL_ARGUMENTS) {
        mtr_buf_puts(out, "{\"tool_calls\":");
        mtr_chat_put_call_delta(ev, out);
        mtr_buf_byte(out, '}');
    } else {
        mtr_buf_puts(out, "{}");
    }
}

static void put_chunk(struct mtr_answer *e, const struct mtr_out_event *ev, bool role,
                      struct mtr_buf *out)
{
    const struct chat_answer *chat = (const struct chat_answer *)e;
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_buf_str(out, chat->chunk_head);
    mtr_json_put_u64(&w, ev->choice);
    mtr_buf_puts(out, ",\"delta\":");
    put_delta(ev, role, out);
    if (!role && e->request->logprobs && ev->token_count) {
        w = mtr_json_writer(out);
        mtr_buf_puts(out, ",\"logprobs\":");
        mtr_json_begin_object(&w);
        mtr_json_key(&w, "content");
        mtr_json_begin_array(&w);
        put_logprob_entries(&w, ev);
        mtr_json_end_array(&w);
        mtr_json_end_object(&w);
    } else {
        mtr_buf_puts(out, ",\"logprobs\":null");
    }
    w = mtr_json_writer(out);
    mtr_buf_puts(out, ",\"finish_reason\":");
    put_end(&w, !role && ev->kind == MTR_EVENT_FINISH ? ev->finish : MTR_END_NONE);
    mtr_buf_str(out, chat->chunk_tail);
}

static void stream_begin(struct mtr_answer *e, struct mtr_buf *out)
{
    for (uint32_t c = 0; c < e->request->choices; c++) {
        struct mtr_out_event first = {.kind = MTR_EVENT_TEXT, .choice = c};
        put_chunk(e, &first, true, out);
    }
}

static void stream_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    if (ev->kind == MTR_EVENT_ERROR)
        mtr_openai_stream_error(ev->error, out);
    else if (ev->kind != MTR_EVENT_TOOL_END || ev->token_count)
        put_chunk(e, ev, false, out);
}

static void stream_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    if (e->request->include_usage) {
        struct mtr_json_writer w = mtr_json_writer(out);
        mtr_openai_frame_begin(out);
        mtr_json_begin_object(&w);
        put_head(&w, e, "chat.completion.chunk");
        mtr_json_key(&w, "choices");
        mtr_json_begin_array(&w);
        mtr_json_end_array(&w);
        mtr_json_key(&w, "usage");
        mtr_openai_usage(&w, usage);
        mtr_json_end_object(&w);
        mtr_openai_frame_end(out);
    }
    mtr_buf_puts(out, "data: [DONE]\n\n");
}

static void whole_begin(struct mtr_answer *e, struct mtr_buf *out)
{
}

static void whole_event(struct mtr_answer *e, const struct mtr_out_event *ev, struct mtr_buf *out)
{
    struct chat_choice *c = &((struct chat_answer *)e)->choices[ev->choice];
    if (ev->kind == MTR_EVENT_TEXT)
        e->failed |= !mtr_buf_str(&c->text, ev->text);
    if (ev->kind == MTR_EVENT_REASONING)
        e->failed |= !mtr_buf_str(&c->reasoning, ev->text);
    mtr_chat_collect_call(ev, &c->calls);
    e->failed |= c->calls.failed;
    if (ev->kind == MTR_EVENT_FINISH)
        c->finish = ev->finish;
    if (e->request->logprobs && ev->token_count) {
        if (c->logprobs.len)
            mtr_buf_byte(&c->logprobs, ',');
        struct mtr_json_writer w = mtr_json_writer(&c->logprobs);
        w.depth = 1; /* inside the array that whole_end opens */
        put_logprob_entries(&w, ev);
        e->failed |= c->logprobs.failed;
    }
}

static void put_whole_choice(struct mtr_json_writer *w, struct mtr_answer *e, uint32_t index)
{
    struct chat_choice *c = &((struct chat_answer *)e)->choices[index];
    mtr_json_begin_object(w);
    mtr_json_key(w, "index");
    mtr_json_put_u64(w, index);
    mtr_json_key(w, "message");
    mtr_json_begin_object(w);
    mtr_json_key(w, "role");
    mtr_json_put_cstr(w, "assistant");
    mtr_json_key(w, "content");
    if (c->text.len || (!c->calls.len && !c->reasoning.len))
        mtr_json_put_str(w, mtr_buf_view(&c->text));
    else
        mtr_json_put_null(w);
    mtr_json_key(w, "refusal");
    mtr_json_put_null(w);
    if (c->reasoning.len) {
        mtr_json_key(w, "reasoning_content");
        mtr_json_put_str(w, mtr_buf_view(&c->reasoning));
    }
    if (c->calls.len) {
        mtr_json_key(w, "tool_calls");
        mtr_json_begin_array(w);
        mtr_json_put_raw(w, mtr_buf_view(&c->calls));
        mtr_json_end_array(w);
    }
    mtr_json_end_object(w);
    mtr_json_key(w, "logprobs");
    if (e->request->logprobs) {
        mtr_json_begin_object(w);
        mtr_json_key(w, "content");
        mtr_json_begin_array(w);
        if (c->logprobs.len)
            mtr_json_put_raw(w, mtr_buf_view(&c->logprobs));
        mtr_json_end_array(w);
        mtr_json_end_object(w);
    } else {
        mtr_json_put_null(w);
    }
    mtr_json_key(w, "finish_reason");
    put_end(w, c->finish);
    mtr_json_end_object(w);
}

static void whole_end(struct mtr_answer *e, const struct mtr_usage *usage, struct mtr_buf *out)
{
    struct mtr_json_writer w = mtr_json_writer(out);
    mtr_json_begin_object(&w);
    put_head(&w, e, "chat.completion");
    mtr_json_key(&w, "choices");
    mtr_json_begin_array(&w);
    for (uint32_t i = 0; i < e->request->choices; i++)
        put_whole_choice(&w, e, i);
    mtr_json_end_array(&w);
    mtr_json_key(&w, "usage");
    mtr_openai_usage(&w, usage);
    mtr_json_end_object(&w);
}

static void release(struct mtr_answer *e)
{
    struct chat_answer *chat = (struct chat_answer *)e;
    for (uint32_t i = 0; i < e->request->choices; i++) {
        mtr_buf_free(&chat->choices[i].text);
        mtr_buf_free(&chat->choices[i].reasoning);
        mtr_buf_free(&chat->choices[i].calls);
        mtr_buf_free(&chat->choices[i].logprobs);
    }
}

static const struct mtr_answer_ops stream_ops = {stream_begin, stream_event, stream_end, release};
static const struct mtr_answer_ops whole_ops = {whole_begin, whole_event, whole_end, release};

static struct mtr_answer *chat_answer(const struct mtr_chat_request *r,
                                      const struct mtr_answer_head *head)
{
    struct chat_answer *e = mtr_arena_calloc(r->arena, 1, sizeof *e);
    if (!e)
        return NULL;
    e->choices = mtr_arena_calloc(r->arena, r->choices, sizeof *e->choices);
    if (!e->choices)
        return NULL;
    e->base = (struct mtr_answer){.ops = r->stream ? &stream_ops : &whole_ops,
                                  .request = r,
                                  .head = *head,
                                  .arena = r->arena};
    return !r->stream || make_chunk_ends(e) ? &e->base : NULL;
}

const struct mtr_protocol *mtr_openai_chat(void)
{
    static const struct mtr_protocol protocol = {.name = "chat",
                                                 .parse = parse_chat,
                                                 .answer = chat_answer,
                                                 .error = mtr_openai_error,
                                                 .stream_error = mtr_openai_stream_error,
                                                 .keep = mtr_stored_chat_keep};
    return &protocol;
}
