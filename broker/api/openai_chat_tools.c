/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/api/openai_chat_tools.h"

#include <stdio.h>

#include "broker/api/tools.h"

#define MAX_BUDGET_TOKENS (1 << 24)

/* ---- Tools ------------------------------------------------------------------------------------
 */

static struct mtr_str text_of(const struct mtr_json *v)
{
    return v && v->kind == MTR_JSON_STRING ? v->text : (struct mtr_str){0};
}

static bool read_tool(const struct mtr_json *v, uint32_t index, struct mtr_tool *out,
                      struct mtr_error *err)
{
    struct mtr_str type = text_of(mtr_json_get(v, "type"));
    const struct mtr_json *function = mtr_json_get(v, "function");
    const struct mtr_json *strict = mtr_json_get(function, "strict");
    const struct mtr_json *parameters = mtr_json_get(function, "parameters");
    const struct mtr_json *description = mtr_json_get(function, "description");
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "tools", "tools[%u] must be an object, not %s",
                              index, mtr_json_kind_name(v));
    if (!mtr_str_is(type, "function"))
        return mtr_fail_field(err, type.ptr ? MTR_UNSUPPORTED : MTR_INVALID, "tools",
                              "tools[%u] is of type '%.*s'; only \"function\" is supported", index,
                              (int)(type.len < 40 ? type.len : 40), type.ptr ? type.ptr : "");
    if (!function || function->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "tools", "tools[%u] has no 'function'", index);
    if (strict && strict->kind == MTR_JSON_BOOL && strict->boolean)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "tools",
                              "tools[%u].function.strict can only be false: constrained output is "
                              "not supported",
                              index);
    if (description && description->kind != MTR_JSON_NULL && description->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, "tools",
                              "tools[%u].function.description must be a string, not %s", index,
                              mtr_json_kind_name(description));
    *out = (struct mtr_tool){
        .name = text_of(mtr_json_get(function, "name")),
        .description = text_of(description),
        .parameters = parameters && parameters->kind != MTR_JSON_NULL ? parameters : NULL,
        .original = v,
    };
    return true;
}

static bool f_tools(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "tools", "'tools' must be an array, not %s",
                              mtr_json_kind_name(v));
    if (v->count > MTR_MAX_TOOLS)
        return mtr_fail_field(err, MTR_TOO_LARGE, "tools",
                              "'tools' has %u entries, at most %d are allowed", v->count,
                              MTR_MAX_TOOLS);
    struct mtr_tool *tools = mtr_arena_calloc(r->arena, v->count + 1u, sizeof *tools);
    if (!tools)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading tools");
    for (uint32_t i = 0; i < v->count; i++)
        if (!read_tool(&v->items[i], i, &tools[i], err))
            return false;
    return mtr_tools_set(r, tools, v->count, "tools", err);
}

static bool f_tool_choice(struct mtr_chat_request *r, const struct mtr_json *v,
                          struct mtr_error *err)
{
    static const struct {
        const char *name;
        enum mtr_tool_choice choice;
    } choices[] = {{"auto", MTR_TOOL_CHOICE_AUTO},
                   {"none", MTR_TOOL_CHOICE_NONE},
                   {"required", MTR_TOOL_CHOICE_REQUIRED}};
    struct mtr_str name = text_of(v);
    for (size_t i = 0; i < 3; i++)
        if (mtr_str_is(name, choices[i].name)) {
            r->tool_choice = choices[i].choice;
            return true;
        }
    struct mtr_str function = text_of(mtr_json_path(v, "function.name"));
    if (mtr_str_is(text_of(mtr_json_get(v, "type")), "function") && function.len) {
        r->tool_choice = MTR_TOOL_CHOICE_NAMED;
        r->tool_choice_name = function;
        return true;
    }
    bool object = v->kind == MTR_JSON_OBJECT;
    return mtr_fail_field(err, object ? MTR_UNSUPPORTED : MTR_INVALID, "tool_choice",
                          "'tool_choice' must be \"auto\", \"none\", \"required\" or name a "
                          "function");
}

static bool read_bool(const struct mtr_json *v, const char *name, bool *out, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_BOOL)
        return mtr_fail_field(err, MTR_INVALID, name, "'%s' must be a boolean, not %s", name,
                              mtr_json_kind_name(v));
    *out = v->boolean;
    return true;
}

static bool f_parallel(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    bool parallel = true;
    if (!read_bool(v, "parallel_tool_calls", &parallel, err))
        return false;
    r->single_tool_call = !parallel;
    return true;
}

/* ---- Reasoning --------------------------------------------------------------------------------
 */

static bool f_effort(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};
    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++)
        if (mtr_str_is(text_of(v), efforts[i])) {
            r->reasoning_effort = mtr_str(efforts[i]);
            return true;
        }
    return mtr_fail_field(err, MTR_INVALID, "reasoning_effort",
                          "'reasoning_effort' must be one of none, minimal, low, medium, high, "
                          "xhigh, max");
}

static bool f_enable_thinking(struct mtr_chat_request *r, const struct mtr_json *v,
                              struct mtr_error *err)
{
    bool on = false;
    if (!read_bool(v, "enable_thinking", &on, err))
        return false;
    r->thinking = on ? MTR_THINKING_ON : MTR_THINKING_OFF;
    return true;
}

static bool f_budget(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > MAX_BUDGET_TOKENS)
        return mtr_fail_field(err, MTR_INVALID, "thinking_budget",
                              "'thinking_budget' must be an integer from 0 to %d",
                              MAX_BUDGET_TOKENS);
    r->has_thinking_budget = true;
    r->thinking_budget = (uint32_t)v->integer;
    return true;
}

static bool f_separate(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    bool separate = true;
    if (!read_bool(v, "separate_reasoning", &separate, err))
        return false;
    r->raw_reasoning = !separate;
    return true;
}

static const struct mtr_field fields[] = {
    {"tools", f_tools, NULL, NULL},
    {"tool_choice", f_tool_choice, NULL, NULL},
    {"parallel_tool_calls", f_parallel, NULL, NULL},
    {"functions", NULL, "it is deprecated; use 'tools'", "[]"},
    {"function_call", NULL, "it is deprecated; use 'tool_choice'", "\"none\""},
    {"reasoning_effort", f_effort, NULL, NULL},
    {"enable_thinking", f_enable_thinking, NULL, NULL},
    {"thinking_budget", f_budget, NULL, NULL},
    {"thinking_token_budget", f_budget, NULL, NULL},
    {"separate_reasoning", f_separate, NULL, NULL},
};

const struct mtr_field *mtr_chat_tool_fields(size_t *count)
{
    *count = sizeof fields / sizeof fields[0];
    return fields;
}

/* ---- Answers ----------------------------------------------------------------------------------
 */

/* {"id","type","function":{"name","arguments": but without the last quote and braces */
static void put_call_begin(const struct mtr_out_event *ev, struct mtr_buf *out)
{
    mtr_buf_printf(out, "\"id\":\"call_%.*s\",\"type\":\"function\",\"function\":{\"name\":",
                   MTR_STR_ARG(ev->tool_id));
    mtr_json_escape(out, ev->tool_name);
    mtr_buf_puts(out, ",\"arguments\":\"");
}

void mtr_chat_put_call_delta(const struct mtr_out_event *ev, struct mtr_buf *out)
{
    mtr_buf_printf(out, "[{\"index\":%u,", ev->tool);
    if (ev->kind == MTR_EVENT_TOOL_BEGIN) {
        put_call_begin(ev, out);
        mtr_buf_puts(out, "\"}}]");
    } else {
        mtr_buf_puts(out, "\"function\":{\"arguments\":");
        mtr_json_escape(out, ev->text);
        mtr_buf_puts(out, "}}]");
    }
}

void mtr_chat_collect_call(const struct mtr_out_event *ev, struct mtr_buf *calls)
{
    if (ev->kind == MTR_EVENT_TOOL_BEGIN) {
        mtr_buf_puts(calls, calls->len ? ",{" : "{");
        put_call_begin(ev, calls);
    } else if (ev->kind == MTR_EVENT_TOOL_ARGUMENTS) {
        size_t at = calls->len;
        mtr_json_escape(calls, ev->text);
        if (calls->failed)
            return;
        /* the string goes on: without the quotes around the piece */
        memmove(calls->data + at, calls->data + at + 1, calls->len - at - 2);
        calls->len -= 2;
    } else if (ev->kind == MTR_EVENT_TOOL_END) {
        mtr_buf_puts(calls, "\"}}");
    }
}

/* ---- Messages ---------------------------------------------------------------------------------
 */

/* A copy of the object with one member's value changed. */
static bool with_member(struct mtr_arena *arena, const struct mtr_json *object, const char *key,
                        const struct mtr_json *value, struct mtr_json *out)
{
    struct mtr_json_member *members = mtr_arena_calloc(arena, object->count + 1u, sizeof *members);
    if (!members)
        return false;
    for (uint32_t i = 0; i < object->count; i++) {
        members[i] = object->members[i];
        if (mtr_str_is(members[i].key, key))
            members[i].value = *value;
    }
    *out = *object;
    out->members = members;
    return true;
}

static bool read_call(struct mtr_arena *arena, const struct mtr_json *call, struct mtr_json *out)
{
    const struct mtr_json *function = mtr_json_get(call, "function");
    struct mtr_str text = text_of(mtr_json_get(function, "arguments"));
    static const struct mtr_json empty = {.kind = MTR_JSON_OBJECT};
    struct mtr_json changed;
    *out = *call;
    if (!text.ptr)
        return true;
    const struct mtr_json *arguments =
        text.len ? mtr_json_parse(arena, text, MTR_JSON_STRICT, NULL) : &empty;
    if (!arguments || arguments->kind != MTR_JSON_OBJECT)
        return true; /* a template may still take it as the text it is */
    return with_member(arena, function, "arguments", arguments, &changed) &&
           with_member(arena, call, "function", &changed, out);
}

bool mtr_chat_read_calls(struct mtr_arena *arena, const struct mtr_json *calls, const char *field,
                         struct mtr_json *out, struct mtr_error *err)
{
    if (calls->kind == MTR_JSON_NULL) {
        *out = *calls;
        return true;
    }
    if (calls->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, field, "%s must be an array, not %s", field,
                              mtr_json_kind_name(calls));
    struct mtr_json *items = mtr_arena_calloc(arena, calls->count + 1u, sizeof *items);
    if (!items)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading messages");
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct mtr_json *call = &calls->items[i];
        if (!text_of(mtr_json_path(call, "function.name")).len)
            return mtr_fail_field(err, MTR_INVALID, field, "%s[%u] has no function name", field, i);
        if (!read_call(arena, call, &items[i]))
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading messages");
    }
    *out = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = calls->count, .items = items};
    return true;
}
