/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/messages: tools, which of them must be called, and how much thought there shall be.
 *
 * Only tools that the client itself runs are served. What else a tool may say of itself is a hint,
 * or refused by name unless it has the value that changes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/anthropic.h"
#include "broker/api/build.h"
#include "broker/api/tools.h"

#define MIN_BUDGET_TOKENS 1024

/* ---- Tools ------------------------------------------------------------------------------------
 */

static bool is_known(struct mtr_str key)
{
    static const char *const known[] = {"name", "description",   "input_schema",
                                        "type", "cache_control", "eager_input_streaming"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (mtr_str_is(key, known[i]))
            return true;
    return false;
}

static bool is_direct(const struct mtr_json_member *m)
{
    const struct mtr_json *v = &m->value;
    return mtr_str_is(m->key, "allowed_callers") && v->kind == MTR_JSON_ARRAY && v->count == 1 &&
           v->items[0].kind == MTR_JSON_STRING && mtr_str_is(v->items[0].text, "direct");
}

static bool check_member(const struct mtr_json_member *m, const char *where, struct mtr_error *err)
{
    const struct mtr_json *v = &m->value;
    bool nothing = v->kind == MTR_JSON_NULL || (v->kind == MTR_JSON_BOOL && !v->boolean) ||
                   (v->kind == MTR_JSON_ARRAY && v->count == 0);
    if (is_known(m->key) || nothing || is_direct(m))
        return true;
    return mtr_fail_field(err, MTR_UNSUPPORTED, where, "%s.%.*s is not supported here", where,
                          (int)(m->key.len < 40 ? m->key.len : 40), m->key.ptr);
}

static bool read_tool(const struct mtr_json *tool, uint32_t index, struct mtr_tool *out,
                      struct mtr_error *err)
{
    char where[32];
    snprintf(where, sizeof where, "tools[%u]", index);
    const struct mtr_json *type = mtr_json_get(tool, "type");
    const struct mtr_json *description = mtr_json_get(tool, "description");
    bool custom = !type || type->kind == MTR_JSON_NULL || mtr_json_is_type(tool, "custom");
    if (tool->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, where, "%s must be an object, not %s", where,
                              mtr_json_kind_name(tool));
    if (!custom)
        return mtr_anthropic_refuse_type(tool, where, err);
    const struct mtr_json *name = mtr_need_string(tool, "name", where, err);
    if (!name)
        return false;
    out->name = name->text;
    out->parameters = mtr_json_get(tool, "input_schema");
    if (!out->parameters || out->parameters->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, where, "%s.input_schema must be an object", where);
    if (description && description->kind != MTR_JSON_NULL) {
        description = mtr_need_string(tool, "description", where, err);
        if (!description)
            return false;
        out->description = description->text;
    }
    if (!mtr_anthropic_cache_control(mtr_json_get(tool, "cache_control"), where, err))
        return false;
    for (uint32_t i = 0; i < tool->count; i++)
        if (!check_member(&tool->members[i], where, err))
            return false;
    return true;
}

static bool read_tools(struct mtr_chat_request *r, const struct mtr_json *tools,
                       struct mtr_error *err)
{
    if (!tools || tools->kind == MTR_JSON_NULL)
        return true;
    if (tools->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "tools", "'tools' must be an array, not %s",
                              mtr_json_kind_name(tools));
    struct mtr_tool *list = mtr_arena_calloc(r->arena, tools->count + 1ul, sizeof *list);
    if (!list)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading tools");
    for (uint32_t i = 0; i < tools->count; i++)
        if (!read_tool(&tools->items[i], i, &list[i], err))
            return false;
    return mtr_tools_set(r, list, tools->count, "tools", err);
}

static bool read_choice(struct mtr_chat_request *r, const struct mtr_json *choice,
                        struct mtr_error *err)
{
    static const struct {
        const char *type;
        enum mtr_tool_choice choice;
    } types[] = {{"auto", MTR_TOOL_CHOICE_AUTO},
                 {"none", MTR_TOOL_CHOICE_NONE},
                 {"any", MTR_TOOL_CHOICE_REQUIRED},
                 {"tool", MTR_TOOL_CHOICE_NAMED}};
    if (!choice || choice->kind == MTR_JSON_NULL)
        return true;
    static const struct mtr_member members[] = {{"type", MTR_IS(STRING)},
                                                {"name", MTR_IS(STRING)},
                                                {"disable_parallel_tool_use", MTR_IS(BOOL)}};
    const struct mtr_json *alone = mtr_json_get(choice, "disable_parallel_tool_use");
    if (!MTR_CHECK_MEMBERS(choice, members, "tool_choice", err))
        return false;
    r->single_tool_call = alone && alone->kind == MTR_JSON_BOOL && alone->boolean;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!mtr_json_is_type(choice, types[i].type))
            continue;
        r->tool_choice = types[i].choice;
        if (r->tool_choice != MTR_TOOL_CHOICE_NAMED)
            return true;
        const struct mtr_json *name = mtr_need_string(choice, "name", "tool_choice", err);
        r->tool_choice_name = name ? name->text : (struct mtr_str){0};
        return name != NULL;
    }
    return mtr_fail_field(err, MTR_INVALID, "tool_choice",
                          "'tool_choice' must be an object of type auto, any, tool or none");
}

/* ---- Thinking ---------------------------------------------------------------------------------
 */

static bool read_display(struct mtr_chat_request *r, const struct mtr_json *thinking,
                         struct mtr_error *err)
{
    const struct mtr_json *display = mtr_json_get(thinking, "display");
    struct mtr_anthropic_request *own = r->own;
    if (!display || display->kind == MTR_JSON_NULL)
        return true;
    bool text = display->kind == MTR_JSON_STRING;
    own->hide_thinking = text && mtr_str_is(display->text, "omitted");
    return own->hide_thinking || (text && mtr_str_is(display->text, "summarized")) ||
           mtr_fail_field(err, MTR_INVALID, "thinking",
                          "thinking.display must be \"summarized\" or \"omitted\"");
}

static bool read_budget(struct mtr_chat_request *r, const struct mtr_json *thinking,
                        struct mtr_error *err)
{
    const struct mtr_json *n = mtr_json_get(thinking, "budget_tokens");
    if (!n || n->kind != MTR_JSON_INT || n->big || n->integer < MIN_BUDGET_TOKENS)
        return mtr_fail_field(err, MTR_INVALID, "thinking",
                              "thinking.budget_tokens must be an integer of at least %d",
                              MIN_BUDGET_TOKENS);
    if (r->max_tokens && n->integer >= r->max_tokens)
        return mtr_fail_field(err, MTR_INVALID, "thinking",
                              "thinking.budget_tokens is %lld, but must be less than 'max_tokens' "
                              "%u",
                              (long long)n->integer, r->max_tokens);
    r->has_thinking_budget = true;
    r->thinking_budget = n->integer < UINT32_MAX ? (uint32_t)n->integer : UINT32_MAX;
    return true;
}

static bool read_thinking(struct mtr_chat_request *r, const struct mtr_json *thinking,
                          struct mtr_error *err)
{
    if (!thinking || thinking->kind == MTR_JSON_NULL)
        return true;
    static const struct mtr_member members[] = {
        {"type", MTR_IS(STRING)}, {"budget_tokens", 0}, {"display", 0}};
    if (!MTR_CHECK_MEMBERS(thinking, members, "thinking", err))
        return false;
    bool off = mtr_json_is_type(thinking, "disabled");
    bool budget = mtr_json_is_type(thinking, "enabled");
    if (mtr_json_is_type(thinking, "between_tools"))
        return mtr_fail_field(err, MTR_UNSUPPORTED, "thinking",
                              "thinking of type \"between_tools\" is not supported");
    if (!off && !budget && !mtr_json_is_type(thinking, "adaptive"))
        return mtr_fail_field(err, MTR_INVALID, "thinking",
                              "'thinking' must be an object of type enabled, adaptive or disabled");
    r->thinking = off ? MTR_THINKING_OFF : budget ? MTR_THINKING_ON : MTR_THINKING_DEFAULT;
    return (!budget || read_budget(r, thinking, err)) && read_display(r, thinking, err);
}

static bool read_effort(struct mtr_chat_request *r, const struct mtr_json *effort,
                        struct mtr_error *err)
{
    static const char *const efforts[] = {"low", "medium", "high", "xhigh", "max"};
    if (!effort || effort->kind == MTR_JSON_NULL)
        return true;
    for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++)
        if (effort->kind == MTR_JSON_STRING && mtr_str_is(effort->text, efforts[i])) {
            r->reasoning_effort = effort->text;
            return true;
        }
    return mtr_fail_field(err, MTR_INVALID, "output_config",
                          "output_config.effort must be low, medium, high, xhigh or max");
}

static bool read_output(struct mtr_chat_request *r, const struct mtr_json *config,
                        struct mtr_error *err)
{
    if (!config || config->kind == MTR_JSON_NULL)
        return true;
    if (config->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "output_config",
                              "'output_config' must be an object, not %s",
                              mtr_json_kind_name(config));
    for (uint32_t i = 0; i < config->count; i++) {
        struct mtr_str key = config->members[i].key;
        if (!mtr_str_is(key, "effort") && !mtr_str_is(key, "format"))
            return mtr_fail_field(err, MTR_INVALID, "output_config",
                                  "unknown field 'output_config.%.*s'",
                                  (int)(key.len < 40 ? key.len : 40), key.ptr);
    }
    const struct mtr_json *format = mtr_json_get(config, "format");
    if (format && format->kind != MTR_JSON_NULL)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "output_config",
                              "output_config.format is not supported: output can't be constrained");
    return read_effort(r, mtr_json_get(config, "effort"), err);
}

bool mtr_anthropic_read_tools(struct mtr_chat_request *r, const struct mtr_json *body,
                              struct mtr_error *err)
{
    return read_tools(r, mtr_json_get(body, "tools"), err) &&
           read_choice(r, mtr_json_get(body, "tool_choice"), err) &&
           read_thinking(r, mtr_json_get(body, "thinking"), err) &&
           read_output(r, mtr_json_get(body, "output_config"), err) &&
           mtr_tools_check(r, "tool_choice", err);
}
