/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "broker/engine/prompt.h"

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

static bool collect(struct variables *v, const struct mtr_served_model *model,
                    const struct mtr_chat_request *r, struct mtr_error *err)
{
    struct mtr_json yes = {.kind = MTR_JSON_BOOL, .boolean = !r->continue_final_message};
    struct mtr_json none = {.kind = MTR_JSON_NULL};
    bool ok = add_members(v, model->template_defaults) && add_members(v, r->template_kwargs) &&
              add_members(v, model->template_variables) &&
              add_variable(v, MTR_STR("messages"), *r->messages) &&
              add_variable(v, MTR_STR("tools"), r->tools ? *r->tools : none) &&
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

static bool encode_spans(struct mtr_template_output *text, struct mtr_encoder *encoder,
                         struct mtr_ids *out, struct mtr_error *err)
{
    struct mtr_text_span *spans =
        mtr_arena_calloc(&text->arena, text->span_count + 1, sizeof *spans);
    if (!spans)
        return mtr_fail(err, MTR_NO_MEMORY, "out of memory rendering the chat template");
    for (size_t i = 0; i < text->span_count; i++)
        spans[i] = (struct mtr_text_span){text->spans[i].len, text->spans[i].from_template};
    /* The template writes bos itself where the model wants one. */
    return mtr_encode_spans(encoder, text->text, spans, text->span_count, 0, out, err);
}

static bool encode_chat(const struct mtr_served_model *model, const struct mtr_chat_request *r,
                        struct mtr_encoder *encoder, struct mtr_ids *out, struct mtr_error *err)
{
    if (!model->chat_template)
        return mtr_fail_field(err, MTR_UNSUPPORTED, "messages",
                              "this model has no chat template; use /v1/completions");
    struct variables v = {.count = 0};
    if (!collect(&v, model, r, err))
        return false;
    struct mtr_json root = {.kind = MTR_JSON_OBJECT, .count = v.count, .members = v.members};
    struct mtr_jinja_time now = local_time();
    struct mtr_template_output text = {0};
    bool ok = mtr_template_render(model->chat_template, &root, &now, NULL, &text, err);
    if (!ok && !text.raised)
        mtr_error_prefix(err, "the chat template failed");
    ok = ok && encode_spans(&text, encoder, out, err);
    mtr_template_output_free(&text);
    return ok;
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

bool mtr_prompt_encode(const struct mtr_served_model *model, const struct mtr_chat_request *request,
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
