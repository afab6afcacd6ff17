/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/call_ids.h"

#include <string.h>

#include "common/base/hash.h"

#define ID_CHARS 9

static bool is_short(struct mtr_str id)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
            return false;
    }
    return id.len == ID_CHARS;
}

static bool shorten(struct mtr_arena *arena, struct mtr_json *id)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    if (id->kind != MTR_JSON_STRING || is_short(id->text))
        return true;
    char *text = mtr_arena_alloc(arena, ID_CHARS);
    uint64_t hash = mtr_hash64(id->text.ptr, id->text.len, 0);
    for (size_t i = 0; text && i < ID_CHARS; i++, hash /= 36)
        text[i] = digits[hash % 36];
    id->text = (struct mtr_str){text, ID_CHARS};
    return text != NULL;
}

/* A copy whose members may be changed. */
static struct mtr_json_member *copy_members(struct mtr_arena *arena, const struct mtr_json *object)
{
    struct mtr_json_member *m = mtr_arena_calloc(arena, object->count + 1u, sizeof *m);
    if (m && object->count)
        memcpy(m, object->members, object->count * sizeof *m);
    return m;
}

static bool change_calls(struct mtr_arena *arena, struct mtr_json *calls)
{
    if (calls->kind != MTR_JSON_ARRAY)
        return true;
    struct mtr_json *items = mtr_arena_calloc(arena, calls->count + 1u, sizeof *items);
    if (!items)
        return false;
    for (uint32_t i = 0; i < calls->count; i++) {
        items[i] = calls->items[i];
        if (items[i].kind != MTR_JSON_OBJECT)
            continue;
        struct mtr_json_member *m = copy_members(arena, &items[i]);
        if (!m)
            return false;
        for (uint32_t k = 0; k < items[i].count; k++)
            if (mtr_str_is(m[k].key, "id") && !shorten(arena, &m[k].value))
                return false;
        items[i].members = m;
    }
    calls->items = items;
    return true;
}

static bool change_message(struct mtr_arena *arena, struct mtr_json *message)
{
    if (!mtr_json_get(message, "tool_calls") && !mtr_json_get(message, "tool_call_id"))
        return true;
    struct mtr_json_member *m = copy_members(arena, message);
    for (uint32_t i = 0; m && i < message->count; i++) {
        bool ok = true;
        if (mtr_str_is(m[i].key, "tool_calls"))
            ok = change_calls(arena, &m[i].value);
        else if (mtr_str_is(m[i].key, "tool_call_id"))
            ok = shorten(arena, &m[i].value);
        if (!ok)
            return false;
    }
    message->members = m;
    return m != NULL;
}

const struct mtr_json *mtr_short_call_ids(struct mtr_arena *arena, const struct mtr_json *messages)
{
    struct mtr_json *items = mtr_arena_calloc(arena, messages->count + 1u, sizeof *items);
    struct mtr_json *array = mtr_arena_calloc(arena, 1, sizeof *array);
    if (!items || !array)
        return NULL;
    for (uint32_t i = 0; i < messages->count; i++) {
        items[i] = messages->items[i];
        if (!change_message(arena, &items[i]))
            return NULL;
    }
    *array = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = messages->count, .items = items};
    return array;
}
