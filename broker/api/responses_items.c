/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Items of the Responses API: checked, made whole, turned into chat.
 *
 * What an item may hold is a table by its type. Items of tools that this server does not run are
 * refused by their type's name.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/responses.h"
#include "common/base/utf8.h"

#define MAX_ITEMS 65536
#define MTR_SEAL  "metrale1:" /* what encrypted_content begins with, decoded */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- What items may hold ----------------------------------------------------------------------
 */

#define TEXT MTR_IS(STRING)
/* Of all items. `created_by`, `phase` and the like come back from lists; they say nothing here. */
#define OF_ITEMS                                                                                   \
    {"type", TEXT}, {"id", TEXT}, {"status", TEXT},                                                \
    {                                                                                              \
        "created_by", TEXT                                                                         \
    }

static const struct mtr_member message_members[] = {
    OF_ITEMS, {"role", 0}, {"content", 0}, {"phase", TEXT}};
static const struct mtr_member call_members[] = {OF_ITEMS,
                                                 {"call_id", 0},
                                                 {"name", 0},
                                                 {"arguments", 0},
                                                 {"caller", MTR_IS(OBJECT)},
                                                 {"namespace", TEXT},
                                                 {"async", MTR_IS(BOOL)}};
static const struct mtr_member output_members[] = {
    OF_ITEMS,           {"call_id", 0}, {"output", 0}, {"name", TEXT}, {"caller", MTR_IS(OBJECT)},
    {"namespace", TEXT}};
static const struct mtr_member reasoning_members[] = {
    OF_ITEMS, {"summary", 0}, {"content", 0}, {"encrypted_content", TEXT}};
static const struct mtr_member reference_members[] = {{"type", TEXT}, {"id", TEXT}};
static const struct mtr_member part_members[] = {{"type", 0},
                                                 {"text", TEXT},
                                                 {"refusal", TEXT},
                                                 {"annotations", MTR_IS(ARRAY)},
                                                 {"logprobs", MTR_IS(ARRAY)},
                                                 {"prompt_cache_breakpoint", MTR_IS(OBJECT)}};

/* ---- Parts of a message -----------------------------------------------------------------------
 */

static struct mtr_json whole_part(struct mtr_arena *arena, bool output, struct mtr_str text)
{
    struct mtr_object part = {.arena = arena};
    mtr_object_add_str(&part, "type", output ? MTR_STR("output_text") : MTR_STR("input_text"));
    mtr_object_add_str(&part, "text", text);
    if (output) {
        mtr_object_add(&part, "annotations", (struct mtr_json){.kind = MTR_JSON_ARRAY});
        mtr_object_add(&part, "logprobs", (struct mtr_json){.kind = MTR_JSON_ARRAY});
    }
    return mtr_object_value(&part);
}

/* The text of a part of any kind that has one. */
static const struct mtr_json *part_text(const struct mtr_json *part, const char *where,
                                        struct mtr_error *err)
{
    static const struct {
        const char *type, *member;
    } kinds[] = {{"input_text", "text"},     {"output_text", "text"},  {"text", "text"},
                 {"reasoning_text", "text"}, {"summary_text", "text"}, {"refusal", "refusal"}};
    const struct mtr_json *type = mtr_json_get(part, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (mtr_json_is_type(part, kinds[i].type))
            return MTR_CHECK_MEMBERS(part, part_members, where, err)
                       ? mtr_need_string(part, kinds[i].member, where, err)
                       : NULL;
    if (!type || type->kind != MTR_JSON_STRING)
        mtr_fail_field(err, MTR_INVALID, where, "%s has no 'type'", where);
    else
        mtr_fail_field(err, MTR_UNSUPPORTED, where,
                       "%s is of type '%.*s'; this model takes text only", where,
                       (int)(type->text.len < 40 ? type->text.len : 40), type->text.ptr);
    return NULL;
}

/* A string or an array of parts into an array of whole parts. */
static bool whole_content(struct mtr_arena *arena, const struct mtr_json *v, bool output,
                          const char *where, struct mtr_array *out, struct mtr_error *err)
{
    *out = (struct mtr_array){.arena = arena};
    if (v && v->kind == MTR_JSON_STRING) {
        mtr_array_add(out, whole_part(arena, output, v->text));
        return true;
    }
    if (!v || v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, where,
                              "%s must be a string or an array of parts, not %s", where,
                              v ? mtr_json_kind_name(v) : "absent");
    for (uint32_t i = 0; i < v->count; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s[%u]", where, i);
        const struct mtr_json *text = part_text(&v->items[i], part, err);
        if (!text)
            return false;
        mtr_array_add(out, whole_part(arena, output, text->text));
    }
    return true;
}

/* ---- Whole items ------------------------------------------------------------------------------
 */

/* The client's own id, or one that is made. */
static void add_id(struct mtr_items *items, struct mtr_object *o, const struct mtr_json *item,
                   const char *prefix)
{
    const struct mtr_json *id = mtr_json_get(item, "id");
    struct mtr_str own = {0};
    if (id && id->kind == MTR_JSON_STRING && id->text.len && id->text.len < MTR_ITEM_ID_BYTES)
        own = id->text;
    else
        own = mtr_str(mtr_arena_printf(items->arena, "%s_%.*si%x", prefix,
                                       MTR_STR_ARG(items->fresh), items->array.count));
    mtr_object_add_str(o, "id", own);
}

static bool add_message(struct mtr_items *items, const struct mtr_json *item, const char *where,
                        struct mtr_error *err)
{
    static const char *const roles[] = {"user", "assistant", "system", "developer"};
    struct mtr_object o = {.arena = items->arena};
    struct mtr_array content;
    const struct mtr_json *role = mtr_json_get(item, "role");
    char field[64];
    bool known = false;
    if (!MTR_CHECK_MEMBERS(item, message_members, where, err))
        return false;
    for (size_t i = 0; role && i < sizeof roles / sizeof roles[0]; i++)
        known |= role->kind == MTR_JSON_STRING && mtr_str_is(role->text, roles[i]);
    if (!known)
        return mtr_fail_field(err, MTR_INVALID, where,
                              "%s.role must be user, assistant, system or developer", where);
    snprintf(field, sizeof field, "%s.content", where);
    if (!whole_content(items->arena, mtr_json_get(item, "content"),
                       mtr_str_is(role->text, "assistant"), field, &content, err))
        return false;
    add_id(items, &o, item, "msg");
    mtr_object_add_str(&o, "type", MTR_STR("message"));
    mtr_object_add_str(&o, "status", MTR_STR("completed"));
    mtr_object_add(&o, "role", *role);
    mtr_object_add(&o, "content", mtr_array_value(&content));
    mtr_array_add(&items->array, mtr_object_value(&o));
    return true;
}

static bool add_call(struct mtr_items *items, const struct mtr_json *item, const char *where,
                     struct mtr_error *err)
{
    static const char *const members[] = {"call_id", "name", "arguments"};
    struct mtr_object o = {.arena = items->arena};
    if (!MTR_CHECK_MEMBERS(item, call_members, where, err))
        return false;
    add_id(items, &o, item, "fc");
    mtr_object_add_str(&o, "type", MTR_STR("function_call"));
    mtr_object_add_str(&o, "status", MTR_STR("completed"));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const struct mtr_json *v = mtr_need_string(item, members[i], where, err);
        if (!v)
            return false;
        mtr_object_add(&o, members[i], *v);
    }
    mtr_array_add(&items->array, mtr_object_value(&o));
    return true;
}

static bool add_output(struct mtr_items *items, const struct mtr_json *item, const char *where,
                       struct mtr_error *err)
{
    struct mtr_object o = {.arena = items->arena};
    struct mtr_array parts;
    const struct mtr_json *id = mtr_need_string(item, "call_id", where, err);
    const struct mtr_json *output = mtr_json_get(item, "output");
    char field[64];
    if (!id || !MTR_CHECK_MEMBERS(item, output_members, where, err))
        return false;
    snprintf(field, sizeof field, "%s.output", where);
    if (!whole_content(items->arena, output, false, field, &parts, err))
        return false;
    add_id(items, &o, item, "fc");
    mtr_object_add_str(&o, "type", MTR_STR("function_call_output"));
    mtr_object_add_str(&o, "status", MTR_STR("completed"));
    mtr_object_add(&o, "call_id", *id);
    mtr_object_add(&o, "output",
                   output->kind == MTR_JSON_STRING ? *output : mtr_array_value(&parts));
    mtr_array_add(&items->array, mtr_object_value(&o));
    return true;
}

static bool check_texts(const struct mtr_json *v, const char *where, struct mtr_error *err)
{
    if (!v || v->kind == MTR_JSON_NULL)
        return true;
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, where, "%s must be an array, not %s", where,
                              mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++)
        if (!part_text(&v->items[i], where, err))
            return false;
    return true;
}

static bool add_reasoning(struct mtr_items *items, const struct mtr_json *item, const char *where,
                          struct mtr_error *err)
{
    struct mtr_object o = {.arena = items->arena};
    const struct mtr_json *summary = mtr_json_get(item, "summary");
    const struct mtr_json *content = mtr_json_get(item, "content");
    const struct mtr_json *sealed = mtr_json_get(item, "encrypted_content");
    if (!MTR_CHECK_MEMBERS(item, reasoning_members, where, err) ||
        !check_texts(summary, where, err) || !check_texts(content, where, err))
        return false;
    add_id(items, &o, item, "rs");
    mtr_object_add_str(&o, "type", MTR_STR("reasoning"));
    mtr_object_add(&o, "summary",
                   summary && summary->kind == MTR_JSON_ARRAY
                       ? *summary
                       : (struct mtr_json){.kind = MTR_JSON_ARRAY});
    if (content && content->kind == MTR_JSON_ARRAY)
        mtr_object_add(&o, "content", *content);
    if (sealed && sealed->kind == MTR_JSON_STRING)
        mtr_object_add(&o, "encrypted_content", *sealed);
    mtr_array_add(&items->array, mtr_object_value(&o));
    return true;
}

static bool add_reference(struct mtr_items *items, const struct mtr_json *item, const char *where,
                          struct mtr_error *err)
{
    struct mtr_store_item found;
    struct mtr_error reason = {0};
    const struct mtr_json *id = mtr_need_string(item, "id", where, err);
    if (!id || !MTR_CHECK_MEMBERS(item, reference_members, where, err))
        return false;
    if (!items->store || !mtr_store_item(items->store, items->arena, (struct mtr_str){0}, id->text,
                                         items->owner, &found, &reason))
        return mtr_fail_field(err, MTR_INVALID, where,
                              "%s refers to '%.*s', which is not kept here", where,
                              (int)(id->text.len < 80 ? id->text.len : 80), id->text.ptr);
    const struct mtr_json *v = mtr_json_parse(items->arena, found.body, MTR_JSON_STRICT, err);
    if (v)
        mtr_array_add(&items->array, *v);
    return v != NULL;
}

static const struct {
    const char *type;
    bool (*add)(struct mtr_items *, const struct mtr_json *, const char *, struct mtr_error *);
} types[] = {
    {"message", add_message},          {"function_call", add_call},
    {"reasoning", add_reasoning},      {"function_call_output", add_output},
    {"item_reference", add_reference},
};

static bool add_item(struct mtr_items *items, const struct mtr_json *item, const char *where,
                     struct mtr_error *err)
{
    const struct mtr_json *type = mtr_json_get(item, "type");
    if (item->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, where, "%s must be an object, not %s", where,
                              mtr_json_kind_name(item));
    if (!type || type->kind == MTR_JSON_NULL) {
        bool reference = !mtr_json_get(item, "role") && mtr_json_get(item, "id");
        return (reference ? add_reference : add_message)(items, item, where, err);
    }
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (mtr_json_is_type(item, types[i].type))
            return types[i].add(items, item, where, err);
    return mtr_fail_field(err, type->kind == MTR_JSON_STRING ? MTR_UNSUPPORTED : MTR_INVALID, where,
                          "%s is of type '%.*s', which is not supported here", where,
                          (int)(type->text.len < 40 ? type->text.len : 40),
                          type->text.ptr ? type->text.ptr : "");
}

bool mtr_items_add(struct mtr_items *items, const struct mtr_json *input, const char *field,
                   struct mtr_error *err)
{
    if (input->kind == MTR_JSON_STRING) {
        struct mtr_object message = {.arena = items->arena};
        mtr_object_add_str(&message, "role", MTR_STR("user"));
        mtr_object_add(&message, "content", *input);
        struct mtr_json v = mtr_object_value(&message);
        return add_message(items, &v, field, err);
    }
    if (input->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, field,
                              "'%s' must be a string or an array of items, not %s", field,
                              mtr_json_kind_name(input));
    if (input->count > MAX_ITEMS)
        return mtr_fail_field(err, MTR_TOO_LARGE, field,
                              "'%s' has %u entries, at most %d are allowed", field, input->count,
                              MAX_ITEMS);
    for (uint32_t i = 0; i < input->count; i++) {
        char where[32];
        snprintf(where, sizeof where, "%s[%u]", field, i);
        if (!add_item(items, &input->items[i], where, err))
            return false;
    }
    return !mtr_arena_failed(items->arena) ||
           mtr_fail(err, MTR_NO_MEMORY, "out of memory reading '%s'", field);
}

/* ---- Items as turns ---------------------------------------------------------------------------
 */

static void say(struct mtr_turns *t, const struct mtr_json *parts)
{
    for (uint32_t i = 0; parts && parts->kind == MTR_JSON_ARRAY && i < parts->count; i++) {
        const struct mtr_json *text = part_text(&parts->items[i], "", NULL);
        if (text)
            mtr_turns_text(t, text->text);
    }
}

static bool think(struct mtr_turns *t, const struct mtr_json *parts)
{
    bool any = false;
    for (uint32_t i = 0; parts && parts->kind == MTR_JSON_ARRAY && i < parts->count; i++) {
        const struct mtr_json *text = part_text(&parts->items[i], "", NULL);
        if (text)
            mtr_turns_thought(t, text->text);
        any |= text && text->text.len;
    }
    return any;
}

/* The opposite of mtr_seal(). What another server sealed is nothing. */
static struct mtr_str unseal(struct mtr_arena *arena, const struct mtr_json *sealed)
{
    struct mtr_str from =
        sealed && sealed->kind == MTR_JSON_STRING ? sealed->text : (struct mtr_str){0};
    char *to = from.len % 4 ? NULL : mtr_arena_alloc(arena, from.len + 1);
    size_t len = 0;
    uint32_t bits = 0;
    for (size_t i = 0; to && i < from.len; i++) {
        const char *at = from.ptr[i] ? strchr(base64, from.ptr[i]) : NULL;
        if (!at && from.ptr[i] != '=')
            return (struct mtr_str){0};
        bits = bits << 6 | (at ? (uint32_t)(at - base64) : 0);
        if (i % 4 == 3)
            for (int k = 16; k >= 0; k -= 8)
                to[len++] = (char)(bits >> k);
    }
    for (size_t i = from.len; to && i > 0 && from.ptr[i - 1] == '=' && len; i--)
        len--;
    struct mtr_str text = {to, to ? len : 0};
    if (!mtr_str_starts(text, MTR_STR(MTR_SEAL)))
        return (struct mtr_str){0};
    text = mtr_str_sub(text, strlen(MTR_SEAL), text.len);
    return mtr_utf8_valid(text) ? text : (struct mtr_str){0};
}

void mtr_seal(struct mtr_str text, struct mtr_buf *out)
{
    struct mtr_buf all = {0};
    mtr_buf_puts(&all, MTR_SEAL);
    mtr_buf_str(&all, text);
    for (size_t i = 0; i < all.len; i += 3) {
        uint32_t bits = 0;
        size_t n = all.len - i < 3 ? all.len - i : 3;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? (uint8_t)all.data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            mtr_buf_byte(out, k <= n ? (uint8_t)base64[bits >> (18 - 6 * k) & 63] : '=');
    }
    out->failed |= all.failed;
    mtr_buf_free(&all);
}

static bool turn_of_message(struct mtr_turns *t, const struct mtr_json *item)
{
    const struct mtr_json *role = mtr_json_get(item, "role");
    bool assistant = role && mtr_str_is(role->text, "assistant");
    bool user = role && mtr_str_is(role->text, "user");
    if (user || (assistant && t->parts.count))
        mtr_turns_close(t); /* each is a message of its own */
    mtr_turns_open(t, user ? "user" : assistant ? "assistant" : "system");
    say(t, mtr_json_get(item, "content"));
    return true;
}

static bool turn_of_output(struct mtr_turns *t, const struct mtr_json *item, struct mtr_error *err)
{
    const struct mtr_json *output = mtr_json_get(item, "output");
    struct mtr_array parts = {.arena = t->arena};
    if (output && output->kind == MTR_JSON_STRING)
        mtr_array_add(&parts, mtr_text_part(t->arena, output->text));
    for (uint32_t i = 0; output && output->kind == MTR_JSON_ARRAY && i < output->count; i++) {
        const struct mtr_json *text = part_text(&output->items[i], "", NULL);
        if (text)
            mtr_array_add(&parts, mtr_text_part(t->arena, text->text));
    }
    return mtr_turns_result(t, mtr_json_get(item, "call_id")->text, mtr_array_value(&parts),
                            "input", err);
}

bool mtr_item_turn(struct mtr_turns *t, const struct mtr_json *item, struct mtr_error *err)
{
    if (mtr_json_is_type(item, "message"))
        return turn_of_message(t, item);
    if (mtr_json_is_type(item, "function_call_output") && mtr_json_get(item, "call_id"))
        return turn_of_output(t, item, err);
    if (mtr_json_is_type(item, "function_call")) {
        const struct mtr_json *id = mtr_need_string(item, "call_id", "input", err);
        const struct mtr_json *name = id ? mtr_need_string(item, "name", "input", err) : NULL;
        const struct mtr_json *arguments =
            name ? mtr_need_string(item, "arguments", "input", err) : NULL;
        if (!arguments)
            return false;
        mtr_turns_open(t, "assistant");
        mtr_turns_call(t, id->text, name->text, arguments->text);
        return true;
    }
    if (mtr_json_is_type(item, "reasoning")) {
        if (t->calls.count || t->parts.count)
            mtr_turns_close(t);
        mtr_turns_open(t, "assistant");
        if (!think(t, mtr_json_get(item, "content")) && !think(t, mtr_json_get(item, "summary")))
            mtr_turns_thought(t, unseal(t->arena, mtr_json_get(item, "encrypted_content")));
        return true;
    }
    return mtr_fail_field(err, MTR_INVALID, "input", "an item that was kept can't be read");
}

void mtr_items_keep(struct mtr_store_batch *b, struct mtr_arena *arena,
                    const struct mtr_array *array, struct mtr_str parent, enum mtr_store_list list,
                    uint64_t owner)
{
    for (uint32_t i = 0; i < array->count; i++) {
        const struct mtr_json *id = mtr_json_get(&array->items[i], "id");
        mtr_batch_item(b, &(struct mtr_store_item){
                              .id = id ? id->text : (struct mtr_str){0},
                              .parent = parent,
                              .list = list,
                              .owner = owner,
                              .body = mtr_json_text(arena, &array->items[i]),
                          });
    }
}
