/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/messages, the request.
 *
 * A body is checked field by field, and its messages, blocks and tools are turned into those of
 * OpenAI's chat, which openai_chat.c reads:
 *
 *   system                    a system message before all others
 *   a turn of role system     a system message where it stands
 *   tool_result               a message of role tool; what a user says beside it is a message
 * behind assistant's tool_use      tool_calls; its thinking: reasoning_content a last assistant's
 * turn   a beginning that the answer goes on from (prefill)
 *
 * Turns of one role in a row are one turn, as the protocol says.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/anthropic.h"
#include "broker/api/fields.h"
#include "broker/api/turns.h"

#define MAX_TURNS 65536

/* ---- Fields -----------------------------------------------------------------------------------
 */

static bool f_max_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0)
        return mtr_fail_field(err, MTR_INVALID, "max_tokens",
                              "'max_tokens' must be an integer of at least 0");
    r->max_tokens = v->integer < UINT32_MAX ? (uint32_t)v->integer : UINT32_MAX;
    r->no_tokens = v->integer == 0; /* only what the cache then has is wanted */
    return true;
}

static bool f_temperature(struct mtr_chat_request *r, const struct mtr_json *v,
                          struct mtr_error *err)
{
    double d;
    if (!mtr_json_number(v, &d) || !(d >= 0 && d <= 1))
        return mtr_fail_field(err, MTR_INVALID, "temperature",
                              "'temperature' must be a number from 0 to 1");
    r->sampling.temperature = (float)d;
    r->has_temperature = true;
    return true;
}

static bool f_top_k(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > INT32_MAX)
        return mtr_fail_field(err, MTR_INVALID, "top_k",
                              "'top_k' must be an integer of at least 0");
    r->sampling.top_k = (uint32_t)v->integer;
    r->has_top_k = true;
    return true;
}

static bool f_stop_sequences(struct mtr_chat_request *r, const struct mtr_json *v,
                             struct mtr_error *err)
{
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "stop_sequences",
                              "'stop_sequences' must be an array of strings, not %s",
                              mtr_json_kind_name(v));
    if (v->count > MTR_MAX_STOPS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "stop_sequences",
                              "'stop_sequences' has %u strings, at most %d are allowed", v->count,
                              MTR_MAX_STOPS);
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mtr_json *s = &v->items[i];
        if (s->kind != MTR_JSON_STRING || s->text.len == 0 || s->text.len > MTR_MAX_STOP_BYTES)
            return mtr_fail_field(err, MTR_INVALID, "stop_sequences",
                                  "stop_sequences[%u] must be a string of 1 to %d bytes", i,
                                  MTR_MAX_STOP_BYTES);
        r->stops[i] = s->text;
    }
    r->stop_count = v->count;
    return true;
}

static bool f_metadata(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"user_id", MTR_IS(STRING)}};
    return MTR_CHECK_MEMBERS(v, members, "metadata", err);
}

bool mtr_anthropic_cache_control(const struct mtr_json *v, const char *where, struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"type", MTR_IS(STRING)}, {"ttl", MTR_IS(STRING)}};
    char field[64];
    if (!v || v->kind == MTR_JSON_NULL)
        return true;
    snprintf(field, sizeof field, "%s%scache_control", where, where[0] ? "." : "");
    return MTR_CHECK_MEMBERS(v, members, field, err) &&
           (mtr_json_is_type(v, "ephemeral") ||
            mtr_fail_field(err, MTR_INVALID, field, "%s must be {\"type\": \"ephemeral\"}", field));
}

static bool f_cache_control(struct mtr_chat_request *r, const struct mtr_json *v,
                            struct mtr_error *err)
{
    return mtr_anthropic_cache_control(v, "", err);
}

/* Editing what stands in the context is refused, but for an edit that keeps everything. */
static bool f_context_management(struct mtr_chat_request *r, const struct mtr_json *v,
                                 struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"edits", MTR_IS(ARRAY)}};
    const struct mtr_json *edits = mtr_json_get(v, "edits");
    if (!MTR_CHECK_MEMBERS(v, members, "context_management", err))
        return false;
    for (uint32_t i = 0; edits && edits->kind == MTR_JSON_ARRAY && i < edits->count; i++) {
        const struct mtr_json *type = mtr_json_get(&edits->items[i], "type");
        const struct mtr_json *keep = mtr_json_get(&edits->items[i], "keep");
        if (!type || type->kind != MTR_JSON_STRING ||
            !mtr_str_starts(type->text, MTR_STR("clear_thinking_")) || !keep ||
            keep->kind != MTR_JSON_STRING || !mtr_str_is(keep->text, "all"))
            return mtr_fail_field(err, MTR_UNSUPPORTED, "context_management",
                                  "'context_management' is not supported: edits[%u] would change "
                                  "what the model sees",
                                  i);
    }
    return true;
}

/* Read once all fields are known to be there, by convert(). */
static bool f_later(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    return true;
}

static const struct mtr_field own_fields[] = {
    {"max_tokens", f_max_tokens, NULL, NULL},
    {"messages", f_later, NULL, NULL},
    {"system", f_later, NULL, NULL},
    {"tools", f_later, NULL, NULL},
    {"tool_choice", f_later, NULL, NULL},
    {"thinking", f_later, NULL, NULL},
    {"output_config", f_later, NULL, NULL},
    {"stop_sequences", f_stop_sequences, NULL, NULL},
    {"temperature", f_temperature, NULL, NULL},
    {"top_k", f_top_k, NULL, NULL},
    {"metadata", f_metadata, NULL, NULL},
    {"cache_control", f_cache_control, NULL, NULL},
    {"context_management", f_context_management, NULL, NULL},
    /* Hints that change no answer. */
    {"service_tier", NULL, NULL, NULL},
    {"inference_geo", NULL, NULL, NULL},
    {"speed", NULL, NULL, NULL},
    {"user_profile_id", NULL, NULL, NULL},
    {"workspace_id", NULL, NULL, NULL},
    {"diagnostics", NULL, NULL, NULL},
    {"billing_policy", NULL, NULL, NULL},
    {"fallback_credit_token", NULL, NULL, NULL},
    {"compaction", NULL, "contexts are not compacted", NULL},
    {"fallbacks", NULL, "there is one model here", "[]"},
    {"thread", NULL, "this server keeps no threads", NULL},
    {"container", NULL, "this server runs no containers", NULL},
    {"mcp_servers", NULL, "this server calls no other servers", "[]"},
};

/* What chat has under the same name and with the same meaning. */
static bool is_shared(const char *name)
{
    static const char *const shared[] = {"model", "top_p", "stream"};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (strcmp(name, shared[i]) == 0)
            return true;
    return false;
}

#define MAX_SHARED 8

static bool read_fields(struct mtr_chat_request *r, const struct mtr_json *body,
                        struct mtr_error *err)
{
    struct mtr_field shared[MAX_SHARED];
    size_t shared_count = 0, common_count;
    const struct mtr_field *common = mtr_fields_common(&common_count);
    for (size_t i = 0; i < common_count && shared_count < MAX_SHARED; i++)
        if (is_shared(common[i].name))
            shared[shared_count++] = common[i];
    const struct mtr_field *tables[] = {own_fields, shared};
    size_t counts[] = {sizeof own_fields / sizeof own_fields[0], shared_count};
    return mtr_fields_read(r, body, tables, 2, counts, err);
}

/* ---- What blocks may hold ----------------------------------------------------------------------
 */

static const struct mtr_member text_members[] = {
    {"type", 0}, {"text", 0}, {"cache_control", 0}, {"citations", MTR_IS(ARRAY)}};
static const struct mtr_member document_members[] = {
    {"type", 0},          {"source", MTR_IS(OBJECT)},    {"title", MTR_IS(STRING)},
    {"cache_control", 0}, {"citations", MTR_IS(OBJECT)}, {"context", MTR_IS(STRING)}};
static const struct mtr_member search_members[] = {
    {"type", 0},          {"source", 0},
    {"title", 0},         {"content", MTR_IS(ARRAY)},
    {"cache_control", 0}, {"citations", MTR_IS(OBJECT)}};
static const struct mtr_member use_members[] = {{"type", 0},
                                                {"id", 0},
                                                {"name", 0},
                                                {"input", 0},
                                                {"cache_control", 0},
                                                {"caller", 0},
                                                {"toolset_name", MTR_IS(STRING)}};
static const struct mtr_member result_members[] = {
    {"type", 0},          {"tool_use_id", 0},         {"content", 0},
    {"cache_control", 0}, {"is_error", MTR_IS(BOOL)}, {"toolset_name", MTR_IS(STRING)}};
static const struct mtr_member thinking_members[] = {
    {"type", 0}, {"thinking", 0}, {"signature", MTR_IS(STRING)}};

#define TYPE(name, members)                                                                        \
    {                                                                                              \
        name, members, sizeof(members) / sizeof((members)[0])                                      \
    }

/* A block of a type that is not here is refused by who reads it. */
static bool check_block(const struct mtr_json *block, const char *where, struct mtr_error *err)
{
    static const struct {
        const char *type;
        const struct mtr_member *members;
        size_t count;
    } types[] = {TYPE("text", text_members),
                 TYPE("document", document_members),
                 TYPE("search_result", search_members),
                 TYPE("tool_use", use_members),
                 TYPE("tool_result", result_members),
                 TYPE("thinking", thinking_members)};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mtr_json_is_type(block, types[i].type))
            return mtr_check_members(block, types[i].members, types[i].count, where, err) &&
                   mtr_anthropic_cache_control(mtr_json_get(block, "cache_control"), where, err);
    return true;
}

/* ---- Blocks -----------------------------------------------------------------------------------
 */

bool mtr_anthropic_refuse_type(const struct mtr_json *block, const char *where,
                               struct mtr_error *err)
{
    const struct mtr_json *t = mtr_json_get(block, "type");
    if (!t || t->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, where, "%s has no 'type'", where);
    return mtr_fail_field(err, MTR_UNSUPPORTED, where,
                          "%s is of type '%.*s', which is not supported here", where,
                          (int)(t->text.len < 40 ? t->text.len : 40), t->text.ptr);
}

static bool no_citations(const struct mtr_json *block, const char *where, struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"enabled", MTR_IS(BOOL)}};
    const struct mtr_json *citations = mtr_json_get(block, "citations");
    const struct mtr_json *cite = mtr_json_get(citations, "enabled");
    if (citations && citations->kind == MTR_JSON_OBJECT &&
        !MTR_CHECK_MEMBERS(citations, members, where, err))
        return false;
    return !cite || cite->kind != MTR_JSON_BOOL || !cite->boolean ||
           mtr_fail_field(err, MTR_UNSUPPORTED, where,
                          "%s asks for citations, which are not supported here", where);
}

/* {"source": {"type": "text", "data": ...}}: a document that is plain text. */
static bool add_document(struct mtr_array *parts, const struct mtr_json *block, const char *where,
                         struct mtr_error *err)
{
    const struct mtr_json *source = mtr_json_get(block, "source");
    if (!source || !mtr_json_is_type(source, "text"))
        return mtr_fail_field(err, MTR_UNSUPPORTED, where,
                              "%s is a document that is no plain text, which is not supported here",
                              where);
    const struct mtr_json *data = mtr_need_string(source, "data", where, err);
    if (!data || !no_citations(block, where, err))
        return false;
    static const char *const heads[] = {"title", "context"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        const struct mtr_json *head = mtr_json_get(block, heads[i]);
        if (head && head->kind == MTR_JSON_STRING)
            mtr_array_add(parts, mtr_text_part(parts->arena, head->text));
    }
    mtr_array_add(parts, mtr_text_part(parts->arena, data->text));
    return true;
}

/* A result of the client's own search: what it is called, where it is from, what it says. */
static bool add_search_result(struct mtr_array *parts, const struct mtr_json *block,
                              const char *where, struct mtr_error *err)
{
    const struct mtr_json *title = mtr_need_string(block, "title", where, err);
    const struct mtr_json *source = title ? mtr_need_string(block, "source", where, err) : NULL;
    const struct mtr_json *content = mtr_json_get(block, "content");
    if (!source || !no_citations(block, where, err))
        return false;
    mtr_array_add(parts, mtr_text_part(parts->arena, title->text));
    mtr_array_add(parts, mtr_text_part(parts->arena, source->text));
    for (uint32_t i = 0; content && content->kind == MTR_JSON_ARRAY && i < content->count; i++) {
        const struct mtr_json *part = &content->items[i];
        if (!mtr_json_is_type(part, "text"))
            return mtr_anthropic_refuse_type(part, where, err);
        const struct mtr_json *text = mtr_need_string(part, "text", where, err);
        if (!text)
            return false;
        mtr_array_add(parts, mtr_text_part(parts->arena, text->text));
    }
    return true;
}

/* Text of any kind as parts of a chat message. */
static bool add_text(struct mtr_array *parts, const struct mtr_json *block, const char *where,
                     struct mtr_error *err)
{
    if (!check_block(block, where, err))
        return false;
    if (mtr_json_is_type(block, "document"))
        return add_document(parts, block, where, err);
    if (mtr_json_is_type(block, "search_result"))
        return add_search_result(parts, block, where, err);
    if (!mtr_json_is_type(block, "text"))
        return mtr_anthropic_refuse_type(block, where, err);
    const struct mtr_json *text = mtr_need_string(block, "text", where, err);
    if (text)
        mtr_array_add(parts, mtr_text_part(parts->arena, text->text));
    return text != NULL;
}

/* A string, or an array of text blocks. */
static bool add_texts(struct mtr_array *parts, const struct mtr_json *v, const char *where,
                      struct mtr_error *err)
{
    char field[64];
    if (v->kind == MTR_JSON_STRING) {
        mtr_array_add(parts, mtr_text_part(parts->arena, v->text));
        return true;
    }
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, where,
                              "%s must be a string or an array of blocks, not %s", where,
                              mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++) {
        snprintf(field, sizeof field, "%s[%u]", where, i);
        if (!add_text(parts, &v->items[i], field, err))
            return false;
    }
    return true;
}

/* ---- Turns ------------------------------------------------------------------------------------
 */

static bool add_tool_use(struct mtr_turns *t, const struct mtr_json *block, const char *where,
                         struct mtr_error *err)
{
    const struct mtr_json *id = mtr_need_string(block, "id", where, err);
    const struct mtr_json *name = id ? mtr_need_string(block, "name", where, err) : NULL;
    const struct mtr_json *input = mtr_json_get(block, "input");
    if (!name)
        return false;
    if (!input || input->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, where, "%s.input must be an object", where);
    mtr_turns_call(t, id->text, name->text, mtr_json_text(t->arena, input));
    return true;
}

/* A result that reports an error says so, whatever its words. */
static bool add_tool_result(struct mtr_turns *t, const struct mtr_json *block, const char *where,
                            struct mtr_error *err)
{
    const struct mtr_json *id = mtr_need_string(block, "tool_use_id", where, err);
    const struct mtr_json *content = mtr_json_get(block, "content");
    const struct mtr_json *failed = mtr_json_get(block, "is_error");
    struct mtr_array parts = {.arena = t->arena};
    char field[64];
    if (!id)
        return false;
    snprintf(field, sizeof field, "%s.content", where);
    if (failed && failed->kind == MTR_JSON_BOOL && failed->boolean)
        mtr_array_add(&parts, mtr_text_part(t->arena, MTR_STR("The tool failed:")));
    if (content && content->kind != MTR_JSON_NULL && !add_texts(&parts, content, field, err))
        return false;
    return mtr_turns_result(t, id->text, mtr_array_value(&parts), where, err);
}

static bool add_assistant_block(struct mtr_turns *t, const struct mtr_json *block,
                                const char *where, struct mtr_error *err)
{
    mtr_turns_open(t, "assistant");
    if (!check_block(block, where, err))
        return false;
    if (mtr_json_is_type(block, "tool_use"))
        return add_tool_use(t, block, where, err);
    if (!mtr_json_is_type(block, "thinking"))
        return add_text(&t->parts, block, where, err);
    const struct mtr_json *thought = mtr_need_string(block, "thinking", where, err);
    if (thought)
        mtr_turns_thought(t, thought->text);
    return thought != NULL;
}

static bool add_user_block(struct mtr_turns *t, const struct mtr_json *block, const char *where,
                           struct mtr_error *err)
{
    if (!check_block(block, where, err))
        return false;
    if (mtr_json_is_type(block, "tool_result"))
        return add_tool_result(t, block, where, err);
    mtr_turns_open(t, "user");
    return add_text(&t->parts, block, where, err);
}

static bool add_turn(struct mtr_turns *t, const struct mtr_json *turn, uint32_t index,
                     struct mtr_error *err)
{
    static const struct {
        const char *role;
        bool (*add)(struct mtr_turns *, const struct mtr_json *, const char *, struct mtr_error *);
    } roles[] = {{"user", add_user_block}, {"assistant", add_assistant_block}};
    char field[24], where[40];
    static const struct mtr_member members[] = {{"role", 0}, {"content", 0}};
    snprintf(field, sizeof field, "messages[%u]", index);
    if (!MTR_CHECK_MEMBERS(turn, members, field, err))
        return false;
    const struct mtr_json *role = mtr_json_get(turn, "role");
    const struct mtr_json *content = mtr_json_get(turn, "content");
    if (!role || role->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, field, "%s has no 'role'", field);
    if (!content)
        return mtr_fail_field(err, MTR_INVALID, field, "%s has no 'content'", field);
    snprintf(where, sizeof where, "%s.content", field);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (!mtr_str_is(role->text, roles[i].role))
            continue;
        if (content->kind != MTR_JSON_ARRAY) {
            mtr_turns_open(t, roles[i].role);
            return add_texts(&t->parts, content, where, err);
        }
        if (content->count == 0 && i == 0)
            return mtr_fail_field(err, MTR_INVALID, where, "%s is empty", where);
        for (uint32_t k = 0; k < content->count; k++) {
            char block[64];
            snprintf(block, sizeof block, "%s[%u]", where, k);
            if (!roles[i].add(t, &content->items[k], block, err))
                return false;
        }
        return true;
    }
    if (!mtr_str_is(role->text, "system"))
        return mtr_fail_field(err, MTR_INVALID, field,
                              "%s has the role '%.*s'; it must be user, assistant or system", field,
                              (int)(role->text.len < 40 ? role->text.len : 40), role->text.ptr);
    mtr_turns_close(t);
    mtr_turns_open(t, "system");
    bool ok = add_texts(&t->parts, content, where, err);
    mtr_turns_close(t);
    return ok;
}

static bool ends_in_space(const struct mtr_turns *t)
{
    const struct mtr_array *p = &t->parts;
    struct mtr_str text =
        p->count ? mtr_json_get(&p->items[p->count - 1], "text")->text : (struct mtr_str){0};
    return text.len && strchr(" \t\r\n", text.ptr[text.len - 1]) != NULL;
}

/* An answer that was begun by the client. */
static bool check_prefill(struct mtr_chat_request *r, const struct mtr_turns *t,
                          struct mtr_error *err)
{
    if (!t->role || strcmp(t->role, "assistant") != 0 || t->calls.count || !t->parts.count)
        return true;
    if (ends_in_space(t))
        return mtr_fail_field(err, MTR_INVALID, "messages",
                              "the last message is a beginning of the assistant's answer and may "
                              "not end with white space");
    r->continue_final_message = true;
    return true;
}

static bool convert_messages(struct mtr_chat_request *r, const struct mtr_json *body,
                             struct mtr_error *err)
{
    const struct mtr_json *turns = mtr_json_get(body, "messages");
    const struct mtr_json *system = mtr_json_get(body, "system");
    struct mtr_turns t = mtr_turns(r->arena);
    if (!turns || turns->kind == MTR_JSON_NULL)
        return mtr_fail_field(err, MTR_INVALID, "messages", "the body has no 'messages'");
    if (turns->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "messages", "'messages' must be an array, not %s",
                              mtr_json_kind_name(turns));
    if (turns->count == 0)
        return mtr_fail_field(err, MTR_INVALID, "messages", "'messages' is empty");
    if (turns->count > MAX_TURNS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "messages",
                              "'messages' has %u entries, at most %d are allowed", turns->count,
                              MAX_TURNS);
    if (system && system->kind != MTR_JSON_NULL) {
        mtr_turns_open(&t, "system");
        if (!add_texts(&t.parts, system, "system", err))
            return false;
        if (!t.parts.count)
            t.role = NULL;
        mtr_turns_close(&t);
    }
    for (uint32_t i = 0; i < turns->count; i++)
        if (!add_turn(&t, &turns->items[i], i, err))
            return false;
    return check_prefill(r, &t, err) && mtr_turns_read(&t, r, err);
}

/* ---- All together -----------------------------------------------------------------------------
 */

static bool convert(struct mtr_chat_request *r, const struct mtr_json *body, struct mtr_error *err)
{
    r->own = mtr_arena_calloc(r->arena, 1, sizeof(struct mtr_anthropic_request));
    if (!r->own)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the request");
    return convert_messages(r, body, err) && mtr_anthropic_read_tools(r, body, err);
}

bool mtr_anthropic_parse(struct mtr_chat_request *r, const struct mtr_json *body,
                         struct mtr_error *err)
{
    if (!read_fields(r, body, err))
        return false;
    if (!r->max_tokens && !r->no_tokens)
        return mtr_fail_field(err, MTR_INVALID, "max_tokens", "the body has no 'max_tokens'");
    return convert(r, body, err);
}

bool mtr_anthropic_parse_count(struct mtr_chat_request *r, const struct mtr_json *body,
                               struct mtr_error *err)
{
    return read_fields(r, body, err) && convert(r, body, err);
}
