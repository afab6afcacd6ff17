/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * POST /v1/responses, the request.
 *
 * What the model sees is: the instructions; the items of the conversation, or of the chain of
 * responses that previous_response_id ends; the input. Instructions are not carried over.
 */
#include <stdio.h>
#include <string.h>

#include "broker/api/fields.h"
#include "broker/api/responses.h"
#include "broker/api/tools.h"

#define MAX_CHAIN 4096 /* responses before this one */

/* ---- Fields -----------------------------------------------------------------------------------
 */

static struct mtr_response_request *own_of(struct mtr_chat_request *r)
{
    return r->own;
}

static bool f_flag(const struct mtr_json *v, const char *name, bool *out, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_BOOL)
        return mtr_fail_field(err, MTR_INVALID, name, "'%s' must be a boolean, not %s", name,
                              mtr_json_kind_name(v));
    *out = v->boolean;
    return true;
}

static bool f_string(const struct mtr_json *v, const char *name, struct mtr_str *out,
                     struct mtr_error *err)
{
    if (v->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, name, "'%s' must be a string, not %s", name,
                              mtr_json_kind_name(v));
    *out = v->text;
    return true;
}

static bool f_background(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    return f_flag(v, "background", &r->background, err);
}

static bool f_previous(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    return f_string(v, "previous_response_id", &own_of(r)->previous, err);
}

static bool f_conversation(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    const struct mtr_json *id = v->kind == MTR_JSON_OBJECT ? mtr_json_get(v, "id") : v;
    if (!id)
        return mtr_fail_field(err, MTR_INVALID, "conversation", "'conversation' has no 'id'");
    return f_string(id, "conversation", &own_of(r)->conversation, err);
}

static bool f_include(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    /* The others are about tools and inputs that are never there: there is nothing to include. */
    static const char *const known[] = {"file_search_call.results",
                                        "web_search_call.results",
                                        "web_search_call.action.sources",
                                        "message.input_image.image_url",
                                        "computer_call_output.output.image_url",
                                        "code_interpreter_call.outputs",
                                        "reasoning.encrypted_content",
                                        "message.output_text.logprobs"};
    if (v->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "include", "'include' must be an array, not %s",
                              mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mtr_json *name = &v->items[i];
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
            found |= name->kind == MTR_JSON_STRING && mtr_str_is(name->text, known[k]);
        if (!found)
            return mtr_fail_field(err, MTR_INVALID, "include",
                                  "include[%u] is nothing that can be included", i);
        own_of(r)->encrypted |= mtr_str_is(name->text, "reasoning.encrypted_content");
        own_of(r)->logprobs |= mtr_str_is(name->text, "message.output_text.logprobs");
    }
    r->logprobs |= own_of(r)->logprobs;
    return true;
}

static bool f_max_output_tokens(struct mtr_chat_request *r, const struct mtr_json *v,
                                struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 1)
        return mtr_fail_field(err, MTR_INVALID, "max_output_tokens",
                              "'max_output_tokens' must be an integer of at least 1");
    r->max_tokens = v->integer < UINT32_MAX ? (uint32_t)v->integer : UINT32_MAX;
    return true;
}

/* They bound calls of tools that the service itself runs, of which there are none here. */
static bool f_max_tool_calls(struct mtr_chat_request *r, const struct mtr_json *v,
                             struct mtr_error *err)
{
    return (v->kind == MTR_JSON_INT && !v->big && v->integer >= 1) ||
           mtr_fail_field(err, MTR_INVALID, "max_tool_calls",
                          "'max_tool_calls' must be an integer of at least 1");
}

static bool f_top_logprobs(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    if (v->kind != MTR_JSON_INT || v->big || v->integer < 0 || v->integer > MTR_MAX_TOP_LOGPROBS)
        return mtr_fail_field(err, MTR_INVALID, "top_logprobs",
                              "'top_logprobs' must be an integer from 0 to %d",
                              MTR_MAX_TOP_LOGPROBS);
    r->top_logprobs = (uint32_t)v->integer;
    r->logprobs |= r->top_logprobs > 0;
    return true;
}

static bool f_parallel(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    bool parallel = true;
    bool ok = f_flag(v, "parallel_tool_calls", &parallel, err);
    r->single_tool_call = !parallel;
    return ok;
}

static bool is_one_of(const struct mtr_json *v, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (v->kind == MTR_JSON_STRING && mtr_str_is(v->text, names[i]))
            return true;
    return false;
}

/* One member of reasoning. */
static bool read_reasoning(struct mtr_chat_request *r, struct mtr_str key, const struct mtr_json *v,
                           struct mtr_error *err)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium",
                                          "high", "xhigh",   "max"};
    static const char *const summaries[] = {"auto", "concise", "detailed"};
    if (mtr_str_is(key, "effort")) {
        if (!is_one_of(v, efforts, sizeof efforts / sizeof efforts[0]))
            return mtr_fail_field(err, MTR_INVALID, "reasoning.effort",
                                  "'reasoning.effort' must be none, minimal, low, medium, high, "
                                  "xhigh or max");
        r->thinking = mtr_str_is(v->text, "none") ? MTR_THINKING_OFF : r->thinking;
        r->reasoning_effort = mtr_str_is(v->text, "none") ? (struct mtr_str){0} : v->text;
        return true;
    }
    if (mtr_str_is(key, "summary") || mtr_str_is(key, "generate_summary")) {
        own_of(r)->summary = true;
        return is_one_of(v, summaries, 3) ||
               mtr_fail_field(err, MTR_INVALID, "reasoning.summary",
                              "'reasoning.summary' must be auto, concise or detailed");
    }
    if ((mtr_str_is(key, "context") && is_one_of(v, (const char *const[]){"auto"}, 1)) ||
        (mtr_str_is(key, "mode") && is_one_of(v, (const char *const[]){"standard"}, 1)))
        return true;
    return mtr_fail_field(err, MTR_UNSUPPORTED, "reasoning",
                          "'reasoning.%.*s' is not supported with this value",
                          (int)(key.len < 40 ? key.len : 40), key.ptr);
}

static bool f_reasoning(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "reasoning",
                              "'reasoning' must be an object, not %s", mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++)
        if (v->members[i].value.kind != MTR_JSON_NULL &&
            !read_reasoning(r, v->members[i].key, &v->members[i].value, err))
            return false;
    return true;
}

static bool f_text(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    const struct mtr_json *format = mtr_json_get(v, "format");
    const struct mtr_json *verbosity = mtr_json_get(v, "verbosity");
    if (v->kind != MTR_JSON_OBJECT)
        return mtr_fail_field(err, MTR_INVALID, "text", "'text' must be an object, not %s",
                              mtr_json_kind_name(v));
    for (uint32_t i = 0; i < v->count; i++) {
        struct mtr_str key = v->members[i].key;
        if (!mtr_str_is(key, "format") && !mtr_str_is(key, "verbosity"))
            return mtr_fail_field(err, MTR_INVALID, "text", "unknown field 'text.%.*s'",
                                  (int)(key.len < 40 ? key.len : 40), key.ptr);
    }
    if (format && format->kind != MTR_JSON_NULL && !mtr_json_is_type(format, "text"))
        return mtr_fail_field(err, MTR_UNSUPPORTED, "text.format",
                              "'text.format' can only be {\"type\": \"text\"}: constrained output "
                              "is not supported");
    if (verbosity && verbosity->kind != MTR_JSON_NULL &&
        !is_one_of(verbosity, (const char *const[]){"medium"}, 1))
        return mtr_fail_field(
            err, MTR_UNSUPPORTED, "text.verbosity",
            "'text.verbosity' can only be \"medium\": this model has no verbosity "
            "setting");
    return true;
}

static bool f_cache_options(struct mtr_chat_request *r, const struct mtr_json *v,
                            struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"mode", MTR_IS(STRING)},
                                                {"ttl", MTR_IS(STRING)},
                                                {"prewarm", MTR_IS(BOOL)},
                                                {"comparison_response_id", MTR_IS(STRING)}};
    const struct mtr_json *prewarm = mtr_json_get(v, "prewarm");
    if (!MTR_CHECK_MEMBERS(v, members, "prompt_cache_options", err))
        return false;
    return !prewarm || prewarm->kind != MTR_JSON_BOOL || !prewarm->boolean ||
           mtr_fail_field(err, MTR_UNSUPPORTED, "prompt_cache_options",
                          "'prompt_cache_options.prewarm' is not supported");
}

static bool f_truncation(struct mtr_chat_request *r, const struct mtr_json *v,
                         struct mtr_error *err)
{
    r->truncate = is_one_of(v, (const char *const[]){"auto"}, 1);
    return r->truncate || is_one_of(v, (const char *const[]){"disabled"}, 1) ||
           mtr_fail_field(err, MTR_INVALID, "truncation", "'truncation' must be auto or disabled");
}

static bool f_stream_options(struct mtr_chat_request *r, const struct mtr_json *v,
                             struct mtr_error *err)
{
    static const struct mtr_member members[] = {{"include_obfuscation", MTR_IS(BOOL)}};
    return MTR_CHECK_MEMBERS(v, members, "stream_options", err);
}

static bool f_instructions(struct mtr_chat_request *r, const struct mtr_json *v,
                           struct mtr_error *err)
{
    struct mtr_str ignored;
    return f_string(v, "instructions", &ignored, err);
}

/* Read once all fields are known to be there. */
static bool f_later(struct mtr_chat_request *r, const struct mtr_json *v, struct mtr_error *err)
{
    return true;
}

static const struct mtr_field own_fields[] = {
    {"input", f_later, NULL, NULL},
    {"instructions", f_instructions, NULL, NULL},
    {"previous_response_id", f_previous, NULL, NULL},
    {"conversation", f_conversation, NULL, NULL},
    {"store", mtr_read_store, NULL, NULL},
    {"background", f_background, NULL, NULL},
    {"include", f_include, NULL, NULL},
    {"max_output_tokens", f_max_output_tokens, NULL, NULL},
    {"max_tool_calls", f_max_tool_calls, NULL, NULL},
    {"top_logprobs", f_top_logprobs, NULL, NULL},
    {"parallel_tool_calls", f_parallel, NULL, NULL},
    {"reasoning", f_reasoning, NULL, NULL},
    {"text", f_text, NULL, NULL},
    {"tools", f_later, NULL, NULL},
    {"tool_choice", f_later, NULL, NULL},
    {"stream_options", f_stream_options, NULL, NULL},
    {"prompt_cache_options", f_cache_options, NULL, NULL},
    {"image", NULL, NULL, NULL},
    {"truncation", f_truncation, NULL, NULL},
    {"context_management", NULL, "contexts are not compacted", "[]"},
    {"prompt", NULL, "this server keeps no prompt templates", NULL},
    {"moderation", NULL, "this server moderates nothing", NULL},
    {"background_options", NULL, "background responses begin at once", NULL},
    {"access_programs", NULL, "this server has none", NULL},
    {"personality", NULL, "this model has no personalities", NULL},
};

/* What chat has under the same name and with the same meaning. */
static bool is_shared(const char *name)
{
    static const char *const shared[] = {"model",
                                         "temperature",
                                         "top_p",
                                         "stream",
                                         "user",
                                         "metadata",
                                         "service_tier",
                                         "safety_identifier",
                                         "prompt_cache_key",
                                         "prompt_cache_retention"};
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (strcmp(name, shared[i]) == 0)
            return true;
    return false;
}

#define MAX_SHARED 16

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
    r->keep = r->store != NULL; /* unless it says otherwise */
    return mtr_fields_read(r, body, tables, 2, counts, err);
}

/* ---- Tools ------------------------------------------------------------------------------------
 */

/* What would change the answer may stand there with the value that changes nothing. */
static bool check_tool_member(const struct mtr_json_member *m, const char *where,
                              struct mtr_error *err)
{
    static const char *const known[] = {"type", "name", "description", "parameters"};
    const struct mtr_json *v = &m->value;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (mtr_str_is(m->key, known[i]))
            return true;
    bool nothing = v->kind == MTR_JSON_NULL || (v->kind == MTR_JSON_BOOL && !v->boolean);
    bool direct = mtr_str_is(m->key, "allowed_callers") && v->kind == MTR_JSON_ARRAY &&
                  v->count == 1 && is_one_of(&v->items[0], (const char *const[]){"direct"}, 1);
    return nothing || direct ||
           mtr_fail_field(err, MTR_UNSUPPORTED, where, "%s.%.*s is not supported here", where,
                          (int)(m->key.len < 40 ? m->key.len : 40), m->key.ptr);
}

static bool read_tool(const struct mtr_json *tool, uint32_t index, struct mtr_tool *out,
                      struct mtr_error *err)
{
    char where[32];
    snprintf(where, sizeof where, "tools[%u]", index);
    const struct mtr_json *type = mtr_json_get(tool, "type");
    const struct mtr_json *parameters = mtr_json_get(tool, "parameters");
    const struct mtr_json *description = mtr_json_get(tool, "description");
    if (!type || type->kind != MTR_JSON_STRING)
        return mtr_fail_field(err, MTR_INVALID, where, "%s has no 'type'", where);
    if (!mtr_str_is(type->text, "function"))
        return mtr_fail_field(err, MTR_UNSUPPORTED, where,
                              "%s is of type '%.*s': this server runs no tools itself, only "
                              "functions are served",
                              where, (int)(type->text.len < 40 ? type->text.len : 40),
                              type->text.ptr);
    const struct mtr_json *name = mtr_need_string(tool, "name", where, err);
    if (!name)
        return false;
    for (uint32_t i = 0; i < tool->count; i++)
        if (!check_tool_member(&tool->members[i], where, err))
            return false;
    *out = (struct mtr_tool){.name = name->text};
    if (parameters && parameters->kind != MTR_JSON_NULL)
        out->parameters = parameters;
    if (!description || description->kind == MTR_JSON_NULL)
        return true;
    description = mtr_need_string(tool, "description", where, err);
    out->description = description ? description->text : (struct mtr_str){0};
    return description != NULL;
}

/* Whether an "allowed_tools" choice has the tool. */
static bool is_allowed(const struct mtr_json *choice, struct mtr_str name)
{
    const struct mtr_json *tools = mtr_json_get(choice, "tools");
    if (!mtr_json_is_type(choice, "allowed_tools"))
        return true;
    for (uint32_t i = 0; tools && tools->kind == MTR_JSON_ARRAY && i < tools->count; i++) {
        const struct mtr_json *n = mtr_json_get(&tools->items[i], "name");
        if (n && n->kind == MTR_JSON_STRING && mtr_str_equal(n->text, name))
            return true;
    }
    return false;
}

static bool read_tools(struct mtr_chat_request *r, const struct mtr_json *tools,
                       const struct mtr_json *choice, struct mtr_error *err)
{
    if (!tools || tools->kind == MTR_JSON_NULL)
        return true;
    if (tools->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "tools", "'tools' must be an array, not %s",
                              mtr_json_kind_name(tools));
    struct mtr_tool *list = mtr_arena_calloc(r->arena, tools->count + 1ul, sizeof *list);
    uint32_t count = 0;
    if (!list)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading tools");
    for (uint32_t i = 0; i < tools->count; i++) {
        if (!read_tool(&tools->items[i], i, &list[count], err))
            return false;
        count += is_allowed(choice, list[count].name);
    }
    return mtr_tools_set(r, list, count, "tools", err);
}

static bool check_allowed(const struct mtr_json *choice, struct mtr_error *err)
{
    static const struct mtr_member members[] = {
        {"type", 0}, {"mode", MTR_IS(STRING)}, {"tools", MTR_IS(ARRAY)}};
    const struct mtr_json *tools = mtr_json_get(choice, "tools");
    if (!MTR_CHECK_MEMBERS(choice, members, "tool_choice", err))
        return false;
    if (!tools || tools->kind != MTR_JSON_ARRAY)
        return mtr_fail_field(err, MTR_INVALID, "tool_choice", "'tool_choice' has no 'tools'");
    for (uint32_t i = 0; i < tools->count; i++)
        if (!mtr_json_is_type(&tools->items[i], "function") ||
            !mtr_need_string(&tools->items[i], "name", "tool_choice.tools", NULL))
            return mtr_fail_field(err, MTR_INVALID, "tool_choice",
                                  "tool_choice.tools[%u] must name a function", i);
    return true;
}

static bool read_choice(struct mtr_chat_request *r, const struct mtr_json *choice,
                        struct mtr_error *err)
{
    static const struct {
        const char *name;
        enum mtr_tool_choice choice;
    } names[] = {{"auto", MTR_TOOL_CHOICE_AUTO},
                 {"none", MTR_TOOL_CHOICE_NONE},
                 {"required", MTR_TOOL_CHOICE_REQUIRED}};
    const struct mtr_json *word = choice;
    if (!choice || choice->kind == MTR_JSON_NULL)
        return true;
    if (mtr_json_is_type(choice, "function")) {
        const struct mtr_json *name = mtr_need_string(choice, "name", "tool_choice", err);
        r->tool_choice = MTR_TOOL_CHOICE_NAMED;
        r->tool_choice_name = name ? name->text : (struct mtr_str){0};
        return name != NULL;
    }
    if (mtr_json_is_type(choice, "allowed_tools")) {
        if (!check_allowed(choice, err))
            return false;
        word = mtr_json_get(choice, "mode");
    }
    for (size_t i = 0; word && i < sizeof names / sizeof names[0]; i++)
        if (word->kind == MTR_JSON_STRING && mtr_str_is(word->text, names[i].name)) {
            r->tool_choice = names[i].choice;
            return true;
        }
    const struct mtr_json *type = mtr_json_get(choice, "type");
    if (type && type->kind == MTR_JSON_STRING && word == choice)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "tool_choice",
                              "'tool_choice' of type '%.*s' is not supported",
                              (int)(type->text.len < 40 ? type->text.len : 40), type->text.ptr);
    return mtr_fail_field(err, MTR_INVALID, "tool_choice",
                          "'tool_choice' must be none, auto, required, or an object that names a "
                          "function or allowed tools");
}

/* ---- What came before -------------------------------------------------------------------------
 */

static bool add_kept(struct mtr_turns *t, const struct mtr_store_item *items, uint32_t count,
                     struct mtr_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct mtr_json *v = mtr_json_parse(t->arena, items[i].body, MTR_JSON_STRICT, err);
        if (!v || !mtr_item_turn(t, v, err))
            return false;
    }
    return true;
}

static bool add_list(struct mtr_chat_request *r, struct mtr_turns *t, struct mtr_str parent,
                     enum mtr_store_list list, struct mtr_error *err)
{
    struct mtr_store_page page = {0};
    struct mtr_store_item *items;
    return mtr_store_items(r->store, r->arena, parent, list, r->owner, &page, &items, err) &&
           add_kept(t, items, page.count, err);
}

static bool no_previous(struct mtr_str id, const char *why, struct mtr_error *err)
{
    return mtr_fail_field(err, MTR_INVALID, "previous_response_id",
                          "'previous_response_id' is '%.*s', which %s",
                          (int)(id.len < 80 ? id.len : 80), id.ptr, why);
}

/* Walks from the newest response to the oldest, then adds from the oldest on. extra of a response
 * is the id of the one before. */
static bool add_chain(struct mtr_chat_request *r, struct mtr_turns *t, struct mtr_error *err)
{
    struct mtr_str id = own_of(r)->previous;
    struct mtr_array chain = {.arena = r->arena};
    while (id.len) {
        struct mtr_store_object o;
        if (chain.count == MAX_CHAIN)
            return no_previous(own_of(r)->previous, "has too many responses before it", err);
        if (!r->store ||
            !mtr_store_get(r->store, r->arena, MTR_STORED_RESPONSE, id, r->owner, &o, NULL))
            return no_previous(id, "is not kept here", err);
        if (o.unfinished)
            return no_previous(id, "is not complete yet", err);
        mtr_array_add(&chain, mtr_string_value(id));
        id = o.extra;
    }
    for (uint32_t i = chain.count; i > 0; i--) {
        struct mtr_str parent = chain.items[i - 1].text;
        if (!add_list(r, t, parent, MTR_LIST_INPUT, err) ||
            !add_list(r, t, parent, MTR_LIST_OUTPUT, err))
            return false;
    }
    return true;
}

bool mtr_conversation_find(struct mtr_store *store, struct mtr_arena *arena, uint64_t owner,
                           struct mtr_str id, struct mtr_store_object *out, struct mtr_error *err)
{
    if (store && mtr_store_get(store, arena, MTR_STORED_CONVERSATION, id, owner, out, err))
        return true;
    return mtr_fail_field(err, MTR_NOT_FOUND, "conversation",
                          "there is no conversation '%.*s' here", (int)(id.len < 80 ? id.len : 80),
                          id.ptr ? id.ptr : "");
}

static bool add_history(struct mtr_chat_request *r, struct mtr_turns *t, struct mtr_error *err)
{
    struct mtr_response_request *own = own_of(r);
    struct mtr_store_object conversation;
    if (own->previous.ptr && own->conversation.ptr)
        return mtr_fail_field(err, MTR_INVALID, "previous_response_id",
                              "'previous_response_id' and 'conversation' exclude each other");
    if (own->previous.ptr)
        return add_chain(r, t, err);
    if (!own->conversation.ptr)
        return true;
    return mtr_conversation_find(r->store, r->arena, r->owner, own->conversation, &conversation,
                                 err) &&
           add_list(r, t, own->conversation, MTR_LIST_CONVERSATION, err);
}

/* ---- All together -----------------------------------------------------------------------------
 */

static bool read_conversation(struct mtr_chat_request *r, const struct mtr_json *body,
                              struct mtr_error *err)
{
    struct mtr_response_request *own = own_of(r);
    struct mtr_turns t = mtr_turns(r->arena);
    const struct mtr_json *instructions = mtr_json_get(body, "instructions");
    const struct mtr_json *input = mtr_json_get(body, "input");
    if (instructions && instructions->kind == MTR_JSON_STRING && instructions->text.len) {
        mtr_turns_open(&t, "system");
        mtr_turns_text(&t, instructions->text);
    }
    if (!add_history(r, &t, err))
        return false;
    if (input && input->kind != MTR_JSON_NULL && !mtr_items_add(&own->input, input, "input", err))
        return false;
    for (uint32_t i = 0; i < own->input.array.count; i++)
        if (!mtr_item_turn(&t, &own->input.array.items[i], err))
            return false;
    if (!own->input.array.count && !own->previous.ptr && !own->conversation.ptr)
        return mtr_fail_field(err, MTR_INVALID, "input", "the body has no 'input'");
    if (!t.messages.count && !t.role)
        return mtr_fail_field(err, MTR_INVALID, "input", "there is nothing to respond to");
    return mtr_turns_read(&t, r, err);
}

static bool begin(struct mtr_chat_request *r, const struct mtr_json *body, struct mtr_error *err)
{
    struct mtr_response_request *own = mtr_arena_calloc(r->arena, 1, sizeof *own);
    if (!own)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the request");
    own->body = body;
    own->input = (struct mtr_items){.arena = r->arena,
                                    .store = r->store,
                                    .owner = r->owner,
                                    .fresh = r->fresh,
                                    .array = {.arena = r->arena}};
    r->own = own;
    return true;
}

static bool read_all(struct mtr_chat_request *r, const struct mtr_json *body, struct mtr_error *err)
{
    const struct mtr_json *choice = mtr_json_get(body, "tool_choice");
    return read_conversation(r, body, err) &&
           read_tools(r, mtr_json_get(body, "tools"), choice, err) && read_choice(r, choice, err) &&
           mtr_tools_check(r, "tool_choice", err);
}

bool mtr_responses_parse(struct mtr_chat_request *r, const struct mtr_json *body,
                         struct mtr_error *err)
{
    if (!begin(r, body, err) || !read_fields(r, body, err))
        return false;
    if (r->background && !r->keep)
        return mtr_fail_field(err, MTR_INVALID, "background",
                              "'background' needs the response to be stored");
    return read_all(r, body, err);
}

bool mtr_responses_parse_count(struct mtr_chat_request *r, const struct mtr_json *body,
                               struct mtr_error *err)
{
    return begin(r, body, err) && read_fields(r, body, err) && read_all(r, body, err);
}
