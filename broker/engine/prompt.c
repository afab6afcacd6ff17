/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/prompt.h"

#include <string.h>

#include "broker/engine/call_ids.h"
#include "broker/text/template.h"
#include "common/base/clock.h"

#define MAX_MEMBERS 256

/* ---- Variables of the template ----------------------------------------------------------------
 */

struct variables {
    struct mtr_json_member members[MAX_MEMBERS];
    uint32_t count;
};

/* Later values of a name win, so the request's settings come before what it may not change. */
static bool add_variable(struct variables *v, struct mtr_str key, struct mtr_json value)
{
    if (v->count == MAX_MEMBERS)
        return false;
    v->members[v->count++] = (struct mtr_json_member){key, value};
    return true;
}

static bool add_members(struct variables *v, const struct mtr_json *object)
{
    for (uint32_t i = 0; object && i < object->count; i++)
        if (!add_variable(v, object->members[i].key, object->members[i].value))
            return false;
    return true;
}

/* Templates call it by one of these names. */
static bool add_switch(struct variables *v, bool on)
{
    struct mtr_json value = {.kind = MTR_JSON_BOOL, .boolean = on};
    return add_variable(v, MTR_STR("enable_thinking"), value) &&
           add_variable(v, MTR_STR("thinking"), value);
}

static bool add_thinking(struct variables *v, const struct mtr_chat_request *r)
{
    struct mtr_json effort = {.kind = MTR_JSON_STRING, .text = r->reasoning_effort};
    bool none = mtr_str_is(r->reasoning_effort, "none");
    if (r->reasoning_effort.len && !add_variable(v, MTR_STR("reasoning_effort"), effort))
        return false;
    if (r->thinking != MTR_THINKING_DEFAULT)
        return add_switch(v, r->thinking == MTR_THINKING_ON);
    return !r->reasoning_effort.len || add_switch(v, !none);
}

static bool collect(struct variables *v, const struct mtr_served_model *model,
                    const struct mtr_chat_request *r, const struct mtr_json *messages,
                    struct mtr_error *err)
{
    struct mtr_json yes = {.kind = MTR_JSON_BOOL, .boolean = !r->continue_final_message};
    struct mtr_json none = {.kind = MTR_JSON_NULL};
    const struct mtr_json *tools = r->tool_choice == MTR_TOOL_CHOICE_NONE ? NULL : r->tools;
    bool ok = add_members(v, model->template_defaults) && add_thinking(v, r) &&
              add_members(v, r->template_kwargs) &&
              (!model->disable_thinking || add_switch(v, false)) &&
              add_members(v, model->template_variables) &&
              add_variable(v, MTR_STR("messages"), *messages) &&
              add_variable(v, MTR_STR("tools"), tools ? *tools : none) &&
              add_variable(v, MTR_STR("documents"), none) &&
              add_variable(v, MTR_STR("add_generation_prompt"), yes);
    return ok || mtr_fail_field(err, MTR_TOO_LARGE, "chat_template_kwargs",
                                "'chat_template_kwargs' has too many members");
}

/* ---- Rendering --------------------------------------------------------------------------------
 */

static struct mtr_jinja_time local_time(void)
{
    int64_t now = mtr_wall_seconds();
    struct mtr_jinja_time t;
    mtr_wall_local(now, &t.year, &t.month, &t.day, &t.hour, &t.minute, &t.second);
    t.microsecond = 0;
    return t;
}

/* Spans of what is left after a cut. */
static size_t clip_spans(struct mtr_text_span *spans, size_t count, size_t len)
{
    size_t i = 0;
    for (size_t at = 0; i < count && at < len; at += spans[i++].len)
        if (spans[i].len > len - at)
            spans[i].len = len - at;
    return i;
}

static bool encode_spans(struct mtr_template_output *text, struct mtr_encoder *encoder,
                         struct mtr_ids *out, struct mtr_error *err)
{
    struct mtr_text_span *spans =
        mtr_arena_calloc(&text->arena, text->span_count + 1, sizeof *spans);
    if (!spans)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory rendering the chat template");
    for (size_t i = 0; i < text->span_count; i++)
        spans[i] = (struct mtr_text_span){text->spans[i].len, text->spans[i].from_template};
    size_t count = clip_spans(spans, text->span_count, text->text.len);
    /* The template writes bos itself where the model wants one. */
    return mtr_encode_spans(encoder, text->text, spans, count, 0, out, err);
}

/* Where the last message's own text ends in the prompt, when the answer is to go on from it. What
 * the template writes behind it ends a turn. Templates strip white space, so its end may be
 * missing.
 */
static bool cut_behind_last(const struct mtr_json *messages, struct mtr_template_output *text,
                            struct mtr_error *err)
{
    const struct mtr_json *content = mtr_json_get(&messages->items[messages->count - 1], "content");
    struct mtr_str wanted =
        content && content->kind == MTR_JSON_STRING ? content->text : (struct mtr_str){0};
    size_t found = SIZE_MAX;
    for (size_t at = mtr_str_find(text->text, wanted, 0); wanted.len && at != SIZE_MAX;
         at = mtr_str_find(text->text, wanted, at + 1))
        found = at;
    if (found == SIZE_MAX)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "messages",
                              "the answer can't go on from the last message: the chat template "
                              "changes its text");
    text->text.len = found + wanted.len;
    return true;
}

/* What the model can't do is refused before anything is rendered. */
static bool check_able(const struct mtr_served_model *model, const struct mtr_chat_request *r,
                       struct mtr_error *err)
{
    const struct mtr_template *t = model->chat_template;
    bool thinks = model->formats.reasoning || mtr_template_uses(t, "reasoning_effort") ||
                  mtr_template_uses(t, "enable_thinking");
    if (r->tools && r->tool_choice != MTR_TOOL_CHOICE_NONE && !mtr_template_uses(t, "tools"))
        return mtr_fail_field(err, MTR_UNSUPPORTED, "tools",
                              "'tools' is not supported: this model's chat template has no place "
                              "for them");
    if (r->tools && r->tool_choice != MTR_TOOL_CHOICE_NONE && !model->formats.tools)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "tools",
                              "'tools' is not supported: no format of tool calls is known for this "
                              "model; --tool-call-parser can name one");
    if (r->reasoning_effort.len && !mtr_str_is(r->reasoning_effort, "none") && !thinks)
        return mtr_fail_field(
            err, MTR_UNSUPPORTED, "reasoning_effort",
            "'reasoning_effort' can only be \"none\": this model has no reasoning "
            "mode");
    if (r->thinking == MTR_THINKING_ON && !thinks)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "thinking", "this model has no reasoning mode");
    if (r->has_thinking_budget && thinks && !model->think_end_count)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "thinking_budget",
                              "this model's reasoning has no end that could be forced");
    return true;
}

/* The end of the prompt, cut between characters. */
static struct mtr_str tail_of(struct mtr_arena *arena, struct mtr_str text)
{
    size_t from = text.len > MTR_PROMPT_TAIL_BYTES ? text.len - MTR_PROMPT_TAIL_BYTES : 0;
    while (from < text.len && ((uint8_t)text.ptr[from] & 0xc0) == 0x80)
        from++;
    return mtr_arena_str(arena, mtr_str_sub(text, from, text.len));
}

static bool encode_messages(const struct mtr_served_model *model, struct mtr_chat_request *r,
                            const struct mtr_json *messages, struct mtr_encoder *encoder,
                            struct mtr_ids *out, struct mtr_error *err)
{
    if (!model->chat_template)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "messages",
                              "this model has no chat template; use /v1/completions");
    if (!check_able(model, r, err))
        return false;
    if (model->formats.tools && model->formats.tools->grammar == MTR_CALLS_MISTRAL)
        messages = mtr_short_call_ids(r->arena, messages);
    if (!messages)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading messages");
    struct variables v = {.count = 0};
    if (!collect(&v, model, r, messages, err))
        return false;
    struct mtr_json root = {.kind = MTR_JSON_OBJECT, .count = v.count, .members = v.members};
    struct mtr_jinja_time now = local_time();
    struct mtr_template_output text = {0};
    bool ok = mtr_template_render(model->chat_template, &root, &now, NULL, &text, err);
    if (!ok && !text.raised)
        mtr_error_prefix(err, "the chat template failed");
    ok = ok && (!r->continue_final_message || cut_behind_last(messages, &text, err));
    ok = ok && encode_spans(&text, encoder, out, err);
    if (ok)
        r->prompt_tail = tail_of(r->arena, text.text);
    mtr_template_output_free(&text);
    return ok;
}

/* ---- Long conversations -----------------------------------------------------------------------
 */

/* As many tokens as the prompt may have before turns are left out of it; 0: never are. */
static uint32_t compact_above(const struct mtr_served_model *model,
                              const struct mtr_chat_request *r)
{
    uint32_t room = model->max_sequence_tokens;
    uint32_t answer = r->max_tokens && r->max_tokens < room / 2 ? r->max_tokens : room / 8;
    if (model->compact_above && (!r->truncate || model->compact_above < room - answer))
        return model->compact_above;
    return r->truncate ? room - answer : 0;
}

/* The messages less `count` turns, the oldest ones behind the system's words at the beginning. A
 * turn begins with a user's message; the last one always stays. */
static bool leave_out(struct mtr_arena *arena, const struct mtr_json *messages, uint32_t count,
                      struct mtr_json *out)
{
    uint32_t head = 0, from = 0, turn = 0;
    while (head < messages->count &&
           mtr_str_is(mtr_json_get(&messages->items[head], "role")->text, "system"))
        head++;
    for (from = head; from < messages->count; from++)
        if (mtr_str_is(mtr_json_get(&messages->items[from], "role")->text, "user") &&
            turn++ == count)
            break;
    uint32_t left = messages->count - from;
    struct mtr_json *items = mtr_arena_calloc(arena, head + left + 1ul, sizeof *items);
    if (!items)
        return false;
    memcpy(items, messages->items, head * sizeof *items);
    memcpy(items + head, messages->items + from, left * sizeof *items);
    *out = (struct mtr_json){.kind = MTR_JSON_ARRAY, .count = head + left, .items = items};
    return true;
}

static uint32_t count_turns(const struct mtr_json *messages)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < messages->count; i++)
        n += mtr_str_is(mtr_json_get(&messages->items[i], "role")->text, "user");
    return n;
}

static bool encode_without(const struct mtr_served_model *model, struct mtr_chat_request *r,
                           uint32_t turns, struct mtr_encoder *encoder, struct mtr_ids *out,
                           struct mtr_error *err)
{
    struct mtr_json messages;
    out->count = 0;
    if (!leave_out(r->arena, r->messages, turns, &messages))
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory shortening the conversation");
    return encode_messages(model, r, &messages, encoder, out, err);
}

/* Leaves out as few turns as make it fit, found by halving, or all but the last. */
static bool encode_shorter(const struct mtr_served_model *model, struct mtr_chat_request *r,
                           uint32_t limit, struct mtr_encoder *encoder, struct mtr_ids *out,
                           struct mtr_error *err)
{
    uint32_t turns = count_turns(r->messages), low = 1;
    if (turns < 2)
        return true;
    for (uint32_t high = turns - 1; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        if (!encode_without(model, r, middle, encoder, out, err))
            return false;
        if (out->count <= limit)
            high = middle;
        else
            low = middle + 1;
    }
    return encode_without(model, r, low, encoder, out, err);
}

static bool encode_chat(const struct mtr_served_model *model, struct mtr_chat_request *r,
                        struct mtr_encoder *encoder, struct mtr_ids *out, struct mtr_error *err)
{
    uint32_t limit = compact_above(model, r);
    if (!encode_messages(model, r, r->messages, encoder, out, err))
        return false;
    return !limit || out->count <= limit || encode_shorter(model, r, limit, encoder, out, err);
}

static bool check_ids(const struct mtr_served_model *model, const struct mtr_prompt *p,
                      struct mtr_ids *out, struct mtr_error *err)
{
    for (uint32_t i = 0; i < p->id_count; i++) {
        if (p->ids[i] >= model->plan->vocab)
            return mtr_fail_field(err, MTR_INVALID, "prompt",
                                  "token id %u does not exist: this model has %u", p->ids[i],
                                  model->plan->vocab);
        if (!mtr_ids_push(out, p->ids[i]))
            return mtr_fail(err, MTR_NO_MEMORY, "out of memory reading the prompt");
    }
    return true;
}

bool mtr_prompt_encode(const struct mtr_served_model *model, struct mtr_chat_request *request,
                       const struct mtr_prompt *prompt, struct mtr_encoder *encoder,
                       struct mtr_ids *out, struct mtr_error *err)
{
    bool ok = false;
    switch (prompt->kind) {
    case MTR_PROMPT_CHAT:
        ok = encode_chat(model, request, encoder, out, err);
        break;
    case MTR_PROMPT_TEXT:
        ok = mtr_encode(encoder, prompt->text, MTR_ENCODE_ADD_SPECIAL | MTR_ENCODE_PARSE_SPECIAL,
                        out, err);
        break;
    case MTR_PROMPT_IDS:
        ok = check_ids(model, prompt, out, err);
        break;
    }
    if (ok && out->count == 0)
        return mtr_fail_field(err, MTR_INVALID,
                              prompt->kind == MTR_PROMPT_CHAT ? "messages" : "prompt",
                              "the prompt has no tokens");
    return ok;
}
