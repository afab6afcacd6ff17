/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chat templates over the Jinja engine: which variables are trusted, and who owns the result.
 */
#include "broker/text/template.h"

struct mtr_template {
    const struct mtr_jinja *jinja;
};

/* What the server itself adds to the variables. Roles are here because some templates build special
 * tokens from them ("<|" + role + "|>"); the engine trusts them only where they are plain words. */
static const char *const trusted[] = {
    "bos_token",   "eos_token",   "unk_token",   "pad_token",
    "sep_token",   "cls_token",   "mask_token",  "additional_special_tokens",
    "image_token", "video_token", "audio_token", "messages[].role",
};

const struct mtr_template *mtr_template_compile(struct mtr_arena *arena, struct mtr_str source,
                                                struct mtr_error *err)
{
    struct mtr_template *t = mtr_arena_calloc(arena, 1, sizeof *t);
    if (!t) {
        mtr_fail(err, MTR_NO_MEMORY, "no memory for a template");
        return NULL;
    }
    t->jinja = mtr_jinja_compile(arena, source, err);
    return t->jinja ? t : NULL;
}

bool mtr_template_render(const struct mtr_template *t, const struct mtr_json *variables,
                         const struct mtr_jinja_time *now, const struct mtr_jinja_limits *limits,
                         struct mtr_template_output *out, struct mtr_error *err)
{
    struct mtr_jinja_options options = {.trusted = trusted,
                                        .trusted_count = sizeof trusted / sizeof *trusted};
    struct mtr_jinja_result result;
    if (now)
        options.now = *now;
    if (limits)
        options.limits = *limits;
    *out = (struct mtr_template_output){0};
    mtr_arena_init(&out->arena, 0); /* the engine has its own limit on memory */
    bool ok = mtr_jinja_render(t->jinja, variables, &options, &out->arena, &result, err);
    out->text = result.text;
    out->spans = result.spans;
    out->span_count = result.span_count;
    out->raised = result.raised;
    out->message = result.message;
    return ok;
}

void mtr_template_output_free(struct mtr_template_output *out)
{
    mtr_arena_free(&out->arena);
    *out = (struct mtr_template_output){0};
}

bool mtr_template_uses(const struct mtr_template *t, const char *name)
{
    return mtr_jinja_uses(t->jinja, mtr_str(name));
}
