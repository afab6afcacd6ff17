/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The response object: items as JSON, the echo of the request, what goes into the store.
 */
#include "broker/api/response_object.h"

#include <stdio.h>
#include <string.h>

/* ---- Items as JSON ----------------------------------------------------------------------------
 */

struct mtr_response_item *mtr_last_item(struct mtr_response_answer *a)
{
    return a->count ? &a->items[a->count - 1] : NULL;
}

void mtr_put_pair(struct mtr_buf *out, const char *key, struct mtr_str value)
{
    mtr_buf_printf(out, "\"%s\":", key);
    mtr_json_escape(out, value);
}

/* What an item looks like: begun (empty) or as it is now. */
void mtr_put_text_part(const struct mtr_response_item *it, bool begun, struct mtr_buf *out)
{
    mtr_buf_puts(out, "{\"type\":\"output_text\",");
    mtr_put_pair(out, "text", begun ? MTR_STR("") : mtr_buf_view(&it->text));
    mtr_buf_puts(out, ",\"annotations\":[],\"logprobs\":[");
    if (!begun)
        mtr_buf_str(out, mtr_buf_view(&it->logprobs));
    mtr_buf_puts(out, "]}");
}

static void put_message(const struct mtr_response_item *it, bool begun, struct mtr_buf *out)
{
    mtr_buf_puts(out, ",\"role\":\"assistant\",\"content\":[");
    if (!begun)
        mtr_put_text_part(it, false, out);
    mtr_buf_byte(out, ']');
}

static void put_thought(const struct mtr_response_answer *a, const struct mtr_response_item *it,
                        bool begun, struct mtr_buf *out)
{
    static const char *const kinds[] = {"content", "summary"};
    static const char *const types[] = {"reasoning_text", "summary_text"};
    bool summary = a->own->summary;
    mtr_buf_puts(out, summary ? "" : ",\"summary\":[]");
    mtr_buf_printf(out, ",\"%s\":[", kinds[summary]);
    if (!begun) {
        mtr_buf_printf(out, "{\"type\":\"%s\",", types[summary]);
        mtr_put_pair(out, "text", mtr_buf_view(&it->text));
        mtr_buf_byte(out, '}');
    }
    mtr_buf_byte(out, ']');
    if (!a->own->encrypted)
        return;
    mtr_buf_puts(out, ",\"encrypted_content\":\"");
    if (!begun)
        mtr_seal(mtr_buf_view(&it->text), out);
    mtr_buf_byte(out, '"');
}

static void put_call(const struct mtr_response_item *it, bool begun, struct mtr_buf *out)
{
    mtr_buf_puts(out, ",\"call_id\":\"call_");
    mtr_buf_str(out, mtr_buf_view(&it->call_id));
    mtr_buf_puts(out, "\",");
    mtr_put_pair(out, "name", mtr_buf_view(&it->name));
    mtr_buf_byte(out, ',');
    mtr_put_pair(out, "arguments", begun ? MTR_STR("") : mtr_buf_view(&it->text));
}

void mtr_put_item(const struct mtr_response_answer *a, const struct mtr_response_item *it,
                  bool begun, struct mtr_buf *out)
{
    static const char *const types[] = {
        [MESSAGE] = "message", [REASONING] = "reasoning", [CALL] = "function_call"};
    mtr_buf_printf(out, "{\"id\":\"%s\",\"type\":\"%s\",\"status\":\"%s\"", it->id, types[it->kind],
                   begun     ? "in_progress"
                   : it->cut ? "incomplete"
                             : "completed");
    if (it->kind == MESSAGE)
        put_message(it, begun, out);
    else if (it->kind == REASONING)
        put_thought(a, it, begun, out);
    else
        put_call(it, begun, out);
    mtr_buf_byte(out, '}');
}

/* ---- The response object ----------------------------------------------------------------------
 */

/* A member of the request as it came, or what stands for it. */
static void echo(struct mtr_json_writer *w, const struct mtr_json *body, const char *key,
                 const char *otherwise)
{
    const struct mtr_json *v = mtr_json_get(body, key);
    mtr_json_key(w, key);
    if (v && v->kind != MTR_JSON_NULL)
        mtr_json_put_value(w, v);
    else
        mtr_json_put_raw(w, mtr_str(otherwise));
}

static void put_echo(struct mtr_response_answer *a, struct mtr_json_writer *w)
{
    static const struct {
        const char *key, *otherwise;
    } members[] = {
        {"instructions", "null"},
        {"max_output_tokens", "null"},
        {"max_tool_calls", "null"},
        {"parallel_tool_calls", "true"},
        {"prompt_cache_key", "null"},
        {"safety_identifier", "null"},
        {"temperature", "1.0"},
        {"top_p", "1.0"},
        {"top_logprobs", "0"},
        {"tool_choice", "\"auto\""},
        {"tools", "[]"},
        {"truncation", "\"disabled\""},
        {"metadata", "{}"},
        {"user", "null"},
        {"previous_response_id", "null"},
        {"reasoning", "{\"effort\":null,\"summary\":null}"},
        {"text", "{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"}"},
    };
    const struct mtr_chat_request *r = a->base.request;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        echo(w, a->own->body, members[i].key, members[i].otherwise);
    mtr_json_key(w, "service_tier");
    mtr_json_put_cstr(w, "default");
    mtr_json_key(w, "background");
    mtr_json_put_bool(w, r->background);
    mtr_json_key(w, "store");
    mtr_json_put_bool(w, r->keep);
    mtr_json_key(w, "model");
    mtr_json_put_str(w, a->base.head.model);
    if (!a->own->conversation.ptr)
        return;
    mtr_json_key(w, "conversation");
    mtr_json_begin_object(w);
    mtr_json_key(w, "id");
    mtr_json_put_str(w, a->own->conversation);
    mtr_json_end_object(w);
}

static void put_usage(struct mtr_buf *out, const struct mtr_usage *u)
{
    mtr_buf_printf(out,
                   "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u,"
                   "\"cache_write_tokens\":0},\"output_tokens\":%u,\"output_tokens_details\":{"
                   "\"reasoning_tokens\":%u},\"total_tokens\":%llu}",
                   u->prompt_tokens, u->cached_tokens, u->completion_tokens, u->reasoning_tokens,
                   (unsigned long long)u->prompt_tokens + u->completion_tokens);
}

static void put_error(const struct mtr_response_answer *a, struct mtr_buf *out)
{
    mtr_buf_puts(out, ",\"error\":");
    if (!a->error) {
        mtr_buf_puts(out, "null");
        return;
    }
    mtr_buf_printf(out, "{\"code\":\"%s\",",
                   a->error->code == MTR_BUSY ? "rate_limit_exceeded" : "server_error");
    mtr_put_pair(out, "message", mtr_str(a->error->message));
    mtr_buf_byte(out, '}');
}

void mtr_put_response(const struct mtr_response_answer *a, const char *status,
                      const struct mtr_usage *usage, struct mtr_buf *out)
{
    mtr_buf_printf(out,
                   "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\"",
                   a->id, (long long)a->base.head.created, status);
    mtr_buf_puts(out, ",\"completed_at\":");
    if (strcmp(status, "completed") == 0)
        mtr_buf_printf(out, "%lld", (long long)a->completed);
    else
        mtr_buf_puts(out, "null");
    put_error(a, out);
    mtr_buf_puts(out, ",\"incomplete_details\":");
    mtr_buf_puts(out,
                 strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    mtr_buf_puts(out, ",\"output\":[");
    for (uint32_t i = 0; i < a->count && usage; i++) {
        if (i)
            mtr_buf_byte(out, ',');
        mtr_put_item(a, &a->items[i], false, out);
    }
    mtr_buf_puts(out, "],\"usage\":");
    if (usage)
        put_usage(out, usage);
    else
        mtr_buf_puts(out, "null");
    mtr_buf_byte(out, ',');
    mtr_buf_str(out, a->echo);
    mtr_buf_byte(out, '}');
}

/* ---- Keeping ----------------------------------------------------------------------------------
 */

static struct mtr_store_object object_of(const struct mtr_response_answer *a, struct mtr_str body)
{
    return (struct mtr_store_object){.kind = MTR_STORED_RESPONSE,
                                     .id = mtr_str(a->id),
                                     .owner = a->base.request->owner,
                                     .created = a->base.head.created,
                                     .body = body,
                                     .extra = a->own->previous};
}

static void keep_outputs(const struct mtr_response_answer *a, struct mtr_store_batch *b,
                         struct mtr_str parent, enum mtr_store_list list)
{
    struct mtr_buf text = {0};
    for (uint32_t i = 0; i < a->count; i++) {
        mtr_buf_clear(&text);
        mtr_put_item(a, &a->items[i], false, &text);
        mtr_batch_item(b, &(struct mtr_store_item){.id = mtr_str(a->items[i].id),
                                                   .parent = parent,
                                                   .list = list,
                                                   .owner = a->base.request->owner,
                                                   .body = mtr_buf_view(&text)});
    }
    mtr_buf_free(&text);
}

/* A background response is there already, and may have been cancelled. */
void mtr_response_keep(struct mtr_response_answer *a, const char *status,
                       const struct mtr_usage *usage)
{
    const struct mtr_chat_request *r = a->base.request;
    const struct mtr_response_request *own = a->own;
    struct mtr_buf body = {0};
    if (!r->store || (!r->keep && !own->conversation.ptr))
        return;
    struct mtr_store_batch *b = mtr_store_batch(r->store);
    mtr_put_response(a, status, usage, &body);
    struct mtr_store_object o = object_of(a, mtr_buf_view(&body));
    if (r->background)
        mtr_batch_finish(b, &o);
    else if (r->keep)
        mtr_batch_put(b, &o);
    if (r->keep && !r->background)
        mtr_items_keep(b, r->arena, &own->input.array, o.id, MTR_LIST_INPUT, r->owner);
    if (r->keep)
        keep_outputs(a, b, o.id, MTR_LIST_OUTPUT);
    if (own->conversation.ptr && !a->error) {
        mtr_items_keep(b, r->arena, &own->input.array, own->conversation, MTR_LIST_CONVERSATION,
                       r->owner);
        keep_outputs(a, b, own->conversation, MTR_LIST_CONVERSATION);
    }
    mtr_store_write(r->store, body.failed ? NULL : b, NULL);
    mtr_buf_free(&body);
}

/* So that it can be asked for while it runs. */
void mtr_response_keep_begun(struct mtr_response_answer *a)
{
    const struct mtr_chat_request *r = a->base.request;
    struct mtr_buf body = {0};
    struct mtr_store_batch *b = mtr_store_batch(r->store);
    mtr_put_response(a, "in_progress", NULL, &body);
    struct mtr_store_object o = object_of(a, mtr_buf_view(&body));
    o.unfinished = true;
    mtr_batch_put(b, &o);
    mtr_items_keep(b, r->arena, &a->own->input.array, o.id, MTR_LIST_INPUT, r->owner);
    mtr_store_write(r->store, b, NULL);
    mtr_buf_free(&body);
}

bool mtr_response_echo(struct mtr_response_answer *a)
{
    struct mtr_buf text = {0};
    struct mtr_json_writer w = mtr_json_writer(&text);
    mtr_json_begin_object(&w);
    put_echo(a, &w);
    struct mtr_str all = mtr_buf_view(&text);
    a->echo = text.failed ? (struct mtr_str){0}
                          : mtr_arena_str(a->base.arena, mtr_str_sub(all, 1, all.len));
    mtr_buf_free(&text);
    return a->echo.ptr != NULL;
}
