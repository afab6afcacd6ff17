/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/api/tools.h"

#include <string.h>

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-./:", c));
}

static bool check_tool(const struct mtr_tool *t, uint32_t index, const char *field,
                       struct mtr_error *err)
{
    if (t->name.len == 0)
        return mtr_fail_field(err, MTR_INVALID, field, "%s[%u] has no name", field, index);
    if (t->name.len > MTR_MAX_TOOL_NAME_BYTES)
        return mtr_fail_field(err, MTR_INVALID, field,
                              "the name of %s[%u] has %zu characters, at most %d are allowed",
                              field, index, t->name.len, MTR_MAX_TOOL_NAME_BYTES);
    for (size_t i = 0; i < t->name.len; i++)
        if (!is_name_byte(t->name.ptr[i]))
            return mtr_fail_field(err, MTR_INVALID, field,
                                  "the name of %s[%u], '%.*s', may only have letters, digits, '_', "
                                  "'-', '.', '/' and ':'",
                                  field, index, MTR_STR_ARG(t->name));
    if (t->parameters && t->parameters->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, field,
                              "the parameters of %s[%u] must be an object, not %s", field, index,
                              mtr_json_kind_name(t->parameters));
    return true;
}

/* {"type": "function", "function": {...}} for a tool that came in another form. */
static bool make_entry(struct mtr_arena *arena, const struct mtr_tool *t, struct mtr_json *out)
{
    struct mtr_json_member *inner = mtr_arena_calloc(arena, 3, sizeof *inner);
    struct mtr_json_member *outer = mtr_arena_calloc(arena, 2, sizeof *outer);
    struct mtr_json_member *empty = mtr_arena_calloc(arena, 2, sizeof *empty);
    uint32_t n = 0;
    if (!inner || !outer || !empty)
        return false;
    empty[0] = (struct mtr_json_member){MTR_STR("type"),
                                        {.kind = MTR_JSON_STRING, .text = MTR_STR("object")}};
    empty[1] = (struct mtr_json_member){MTR_STR("properties"), {.kind = MTR_JSON_OBJECT}};
    inner[n++] =
        (struct mtr_json_member){MTR_STR("name"), {.kind = MTR_JSON_STRING, .text = t->name}};
    if (t->description.ptr)
        inner[n++] = (struct mtr_json_member){MTR_STR("description"),
                                              {.kind = MTR_JSON_STRING, .text = t->description}};
    inner[n].key = MTR_STR("parameters");
    inner[n++].value =
        t->parameters ? *t->parameters
                      : (struct mtr_json){.kind = MTR_JSON_OBJECT, .count = 2, .members = empty};
    outer[0] = (struct mtr_json_member){MTR_STR("type"),
                                        {.kind = MTR_JSON_STRING, .text = MTR_STR("function")}};
    outer[1] = (struct mtr_json_member){MTR_STR("function"),
                                        {.kind = MTR_JSON_OBJECT, .count = n, .members = inner}};
    *out = (struct mtr_json){.kind = MTR_JSON_OBJECT, .count = 2, .members = outer};
    return true;
}

bool mtr_tools_set(struct mtr_chat_request *r, const struct mtr_tool *tools, uint32_t count,
                   const char *field, struct mtr_error *err)
{
    r->tools = NULL;
    if (count == 0)
        return true;
    if (count > MTR_MAX_TOOLS)
        return mtr_fail_field(err, MTR_TOO_LARGE, field, "'%s' has %u entries, at most %d allowed",
                              field, count, MTR_MAX_TOOLS);
    struct mtr_json *items = mtr_arena_calloc(r->arena, count, sizeof *items);
    struct mtr_json *array = mtr_arena_calloc(r->arena, 1, sizeof *array);
    if (!items || !array)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading %s", field);
    for (uint32_t i = 0; i < count; i++) {
        if (!check_tool(&tools[i], i, field, err))
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (mtr_str_equal(tools[i].name, tools[k].name))
                return mtr_fail_field(err, MTR_INVALID, field,
                                      "%s[%u] and %s[%u] have the same name '%.*s'", field, k,
                                      field, i, MTR_STR_ARG(tools[i].name));
        if (tools[i].original)
            items[i] = *tools[i].original;
        else if (!make_entry(r->arena, &tools[i], &items[i]))
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading %s", field);
    }
    *array = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = count, .items = items};
    r->tools = array;
    return true;
}

bool mtr_tools_have(const struct mtr_chat_request *r, struct mtr_str name)
{
    for (uint32_t i = 0; r->tools && i < r->tools->count; i++) {
        const struct mtr_json *n = mtr_json_path(&r->tools->items[i], "function.name");
        if (n && mtr_str_equal(n->text, name))
            return true;
    }
    return false;
}

bool mtr_tools_check(const struct mtr_chat_request *r, const char *field, struct mtr_error *err)
{
    bool forced =
        r->tool_choice == MTR_TOOL_CHOICE_REQUIRED || r->tool_choice == MTR_TOOL_CHOICE_NAMED;
    if (!forced)
        return true;
    if (!r->tools)
        return mtr_fail_field(err, MTR_INVALID, field,
                              "'%s' asks for a call, and there are no tools", field);
    if (r->tool_choice == MTR_TOOL_CHOICE_NAMED && !mtr_tools_have(r, r->tool_choice_name))
        return mtr_fail_field(err, MTR_INVALID, field, "'%s' names '%.*s', which is not a tool",
                              field,
                              (int)(r->tool_choice_name.len < 80 ? r->tool_choice_name.len : 80),
                              r->tool_choice_name.ptr);
    return mtr_fail_field(err, MTR_UNSUPPORTED, field,
                          "'%s' can only be \"auto\" or \"none\": forced calls are not supported",
                          field);
}
