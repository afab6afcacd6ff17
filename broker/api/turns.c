/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages are built as the JSON that a client of chat would have sent, so that openai_chat.c reads
 * them as any others.
 */
#include "broker/api/turns.h"

#include <string.h>

#include "broker/api/protocol.h"

struct mtr_turns mtr_turns(struct mtr_arena *arena)
{
    struct mtr_turns t = {.arena = arena};
    t.messages = t.parts = t.calls = t.thoughts = t.call_ids = (struct mtr_array){.arena = arena};
    return t;
}

static struct mtr_str join(struct mtr_arena *arena, const struct mtr_array *texts)
{
    struct mtr_buf all = {0};
    for (uint32_t i = 0; i < texts->count; i++) {
        if (i)
            mtr_buf_byte(&all, '\n');
        mtr_buf_str(&all, texts->items[i].text);
    }
    struct mtr_str copy =
        all.failed ? (struct mtr_str){0} : mtr_arena_str(arena, mtr_buf_view(&all));
    mtr_buf_free(&all);
    return copy;
}

void mtr_turns_close(struct mtr_turns *t)
{
    if (!t->role)
        return;
    struct mtr_object m = {.arena = t->arena};
    mtr_object_add_str(&m, "role", mtr_str(t->role));
    if (t->thoughts.count)
        mtr_object_add_str(&m, "reasoning_content", join(t->arena, &t->thoughts));
    if (t->parts.count || !t->calls.count)
        mtr_object_add(&m, "content", mtr_array_value(&t->parts));
    else
        mtr_object_add(&m, "content", (struct mtr_json){.kind = MTR_JSON_NULL});
    if (t->calls.count)
        mtr_object_add(&m, "tool_calls", mtr_array_value(&t->calls));
    mtr_array_add(&t->messages, mtr_object_value(&m));
    t->role = NULL;
    t->parts = t->calls = t->thoughts = (struct mtr_array){.arena = t->arena};
}

void mtr_turns_open(struct mtr_turns *t, const char *role)
{
    if (t->role && strcmp(t->role, role) == 0)
        return;
    mtr_turns_close(t);
    t->role = role;
}

void mtr_turns_text(struct mtr_turns *t, struct mtr_str text)
{
    mtr_array_add(&t->parts, mtr_text_part(t->arena, text));
}

void mtr_turns_thought(struct mtr_turns *t, struct mtr_str text)
{
    if (text.len)
        mtr_array_add(&t->thoughts, mtr_string_value(text));
}

void mtr_turns_call(struct mtr_turns *t, struct mtr_str id, struct mtr_str name,
                    struct mtr_str arguments)
{
    struct mtr_object function = {.arena = t->arena}, call = {.arena = t->arena};
    mtr_object_add_str(&function, "name", name);
    mtr_object_add_str(&function, "arguments", arguments);
    mtr_object_add_str(&call, "id", id);
    mtr_object_add_str(&call, "type", MTR_STR("function"));
    mtr_object_add(&call, "function", mtr_object_value(&function));
    mtr_array_add(&t->calls, mtr_object_value(&call));
    mtr_array_add(&t->call_ids, mtr_string_value(id));
}

/* The newest are the likely ones. */
static bool has_call(const struct mtr_turns *t, struct mtr_str id)
{
    for (uint32_t i = t->call_ids.count; i > 0; i--)
        if (mtr_str_equal(t->call_ids.items[i - 1].text, id))
            return true;
    return false;
}

bool mtr_turns_result(struct mtr_turns *t, struct mtr_str call, struct mtr_json parts,
                      const char *where, struct mtr_error *err)
{
    struct mtr_object m = {.arena = t->arena};
    if (!has_call(t, call))
        return mtr_fail_field(err, MTR_INVALID, where,
                              "%s is the result of '%.*s', and no such call was made before it",
                              where, (int)(call.len < 80 ? call.len : 80), call.ptr);
    mtr_turns_close(t);
    mtr_object_add_str(&m, "role", MTR_STR("tool"));
    mtr_object_add_str(&m, "tool_call_id", call);
    mtr_object_add(&m, "content", parts);
    mtr_array_add(&t->messages, mtr_object_value(&m));
    return true;
}

bool mtr_turns_read(struct mtr_turns *t, struct mtr_chat_request *r, struct mtr_error *err)
{
    struct mtr_object chat = {.arena = t->arena};
    mtr_turns_close(t);
    mtr_object_add(&chat, "messages", mtr_array_value(&t->messages));
    if (mtr_arena_failed(t->arena))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the request");
    struct mtr_json value = mtr_object_value(&chat);
    bool prefill = r->continue_final_message;
    bool ok = mtr_openai_chat()->parse(r, &value, err);
    r->continue_final_message = prefill;
    return ok;
}
